//! Claims of nodes that they run another release.

use std::collections::VecDeque;

use carillon_core::NodeId;
use carillon_wire::session::OtherRelease;

/// Nodes that claimed another release, with the release; the oldest first. A node of another release says so more than
/// once, while a single packet may be damaged or noise.
#[derive(Debug, Default)]
pub(super) struct ReleaseClaims(VecDeque<(NodeId, OtherRelease)>);

impl ReleaseClaims {
    /// Records that a node claims another release; returns true if it has claimed it before.
    pub fn repeats(&mut self, source: NodeId, release: OtherRelease) -> bool {
        if self.0.contains(&(source, release)) {
            return true;
        }
        if self.0.len() >= MAX_CLAIMS {
            self.0.pop_front();
        }
        self.0.push_back((source, release));
        false
    }
}

/// Maximum number of remembered claims, since strangers choose how many there are.
const MAX_CLAIMS: usize = 64;
