//! Errors of the testbed.

use std::io;

use carillon_core::ConfigError;
use carillon_lab::run::RunError;
use carillon_net::{DriveError, OpenError};

/// Why a run on the testbed could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This process may not create network namespaces.
    #[error(
        "a testbed makes network namespaces, which needs root; without it, try the protocol on loopback: carillon send and carillon recv"
    )]
    NotPermitted,
    /// The testbed has no such network.
    #[error("the testbed joins its nodes by one Ethernet: network.kind must be \"lan\"")]
    Network,
    /// A bridge has no radio.
    #[error(
        "only the shared medium of the testbed models a radio: give --medium shared, or network.kind = \"lan\""
    )]
    Radio,
    /// The testbed has no such losses.
    #[error("the testbed has one loss section, with model = \"bernoulli\" and without receivers")]
    Losses,
    /// The scenario has too many nodes.
    #[error("a testbed has at most {max} nodes, and this scenario has {nodes}")]
    TooManyNodes {
        /// Nodes of the scenario.
        nodes: usize,
        /// Maximum number.
        max: usize,
    },
    /// The system refused a step that the testbed needs.
    #[error("cannot {doing}: {source}")]
    System {
        /// The step, as the rest of a sentence that begins with "cannot".
        doing: String,
        /// Error of the system.
        source: io::Error,
    },
    /// `ip` refused its commands; the text is its message.
    #[error("cannot set up the testbed: ip: {0}")]
    Ip(String),
    /// The sockets of a node could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The network of a node failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The settings of the scenario do not go together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The run ended without a result.
    #[error("on the testbed: {0}")]
    Run(#[from] RunError),
    /// The testbed failed inside, or another of its threads did.
    #[error("{0}")]
    Internal(&'static str),
    /// The caller stopped the run.
    #[error("interrupted")]
    Interrupted,
}

/// Class of an [`Error`], which says what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The scenario cannot run on a testbed: change it, or simulate it.
    Scenario,
    /// The process may not create a testbed: give it root, or simulate the scenario.
    Permission,
    /// The system refused something: free what it says and retry.
    System,
    /// The run did not complete within its time: raise `run.time_limit`, or retry on an idle machine.
    Unfinished,
    /// The caller stopped the run.
    Interrupted,
}

impl Error {
    /// Class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotPermitted => ErrorKind::Permission,
            Error::Network
            | Error::Radio
            | Error::Losses
            | Error::TooManyNodes { .. }
            | Error::Config(_)
            | Error::Run(RunError::Config(_) | RunError::NoRoom { .. }) => ErrorKind::Scenario,
            Error::Run(_) => ErrorKind::Unfinished,
            Error::System { .. } | Error::Ip(_) | Error::Open(_) | Error::Drive(_) | Error::Internal(_) => {
                ErrorKind::System
            }
            Error::Interrupted => ErrorKind::Interrupted,
        }
    }

    /// Adds what could not be done to an error of the system.
    pub(crate) fn doing<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Error {
        move |source| Error::System { doing: doing.into(), source: source.into() }
    }
}
