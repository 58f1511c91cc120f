//! Errors of the module.

use std::io;

use carillon_run::run::RunError;
use carillon_run::scenario::ScenarioError;

/// Why a call has no result. The page can correct the request; there is nothing to retry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no operation of this number.
    #[error("there is no operation {0}: give 0 to 3")]
    Operation(u32),
    /// The request is not the expected JSON.
    #[error("the request is invalid: {0}")]
    Request(serde_json::Error),
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The network is too large for a page.
    #[error(
        "the network has {nodes} nodes and {links} links, and the page simulates at most {MAX_NODES_AND_LINKS} of both: make it smaller, or use `carillon run`"
    )]
    TooLarge {
        /// Nodes of the network.
        nodes: usize,
        /// Links of the network.
        links: usize,
    },
    /// The run has no result.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The result cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] io::Error),
}

/// Maximum number of nodes and links of a run, which a browser still builds within seconds.
pub(crate) const MAX_NODES_AND_LINKS: usize = 60_000;
