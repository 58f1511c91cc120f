//! Jobs in which this receiver is verified, and sessions that it is not in.

use carillon_core::NodeId;

use super::failure::ReceiverFailure;

/// Session that this receiver was invited to and is not in, while it waits for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedSession {
    /// Name of the sender.
    pub sender: String,
    /// Node of the sender.
    pub node: NodeId,
    /// Reason why the receiver is not in the session.
    pub failure: ReceiverFailure,
    /// Number of such sessions so far.
    pub count: u64,
}
