//! Numbers of nodes and groups at a driver.

use carillon_core::{GroupId, NodeId};

/// Number of a driver's own node; peers are numbered from 1 in the order of their first datagram.
pub const SELF: NodeId = NodeId(0);

/// Converts between external node numbers and those of `host`'s driver, in both directions. A driver numbers its own
/// node [`SELF`], so the two numbers are exchanged.
pub fn swapped(host: NodeId, node: NodeId) -> NodeId {
    match node {
        SELF => host,
        _ if node == host => SELF,
        other => other,
    }
}

/// Number of an interface of an endpoint: [`FIRST`], or that of a further one.
pub(crate) type BranchId = u8;

/// Number of the interface that every endpoint has.
pub(crate) const FIRST: BranchId = 0;

/// Number of the endpoint's single group.
pub const GROUP: GroupId = GroupId(0);
