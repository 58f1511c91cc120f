//! Senders of other releases: the receiver remembers the last one, and notifies it in a format that it can read.

use carillon_core::NodeId;
use carillon_wire::session::OtherRelease;

/// Sender of a session that this release cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSender {
    /// Name of the sender, if its packets reveal it.
    pub name: Option<String>,
    /// Node of the sender.
    pub node: NodeId,
    /// Release of the sender.
    pub release: OtherRelease,
}

/// Notice to a sender from before wire versions, in its own format.
#[derive(Debug)]
pub(super) struct EarlierDecline {
    pub version: u8,
    pub association: carillon_core::AssociationId,
    pub sender: NodeId,
}
