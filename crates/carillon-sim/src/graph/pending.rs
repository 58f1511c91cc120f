//! Pending event of a routed network.

use carillon_core::{Bytes, NodeId, Transmit};

use super::packet::Hop;
use crate::serials::Slot;

/// Event of the network.
#[derive(Debug)]
pub(super) enum Pending {
    /// A packet arrives at a node.
    Arrives(Hop),
    /// The interface of a node releases a datagram. It is boxed, since it is rare and large and the queue moves
    /// events about.
    Departs(Box<Departure>),
    /// The ports of a node have room again.
    Ready(NodeId, Slot),
    /// A node has processed a packet. It is boxed for the same reason.
    Taken(Box<Hop>),
}

/// Datagram that the interface of a node holds until its departure time.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) from: NodeId,
    pub(super) transmit: Transmit,
    pub(super) bytes: Bytes,
    pub(super) slot: Slot,
}

impl Pending {
    /// Place of the event in the order of all parts, if the network is a part.
    pub(super) fn slot(&mut self) -> &mut Slot {
        match self {
            Pending::Arrives(hop) => &mut hop.slot,
            Pending::Departs(departure) => &mut departure.slot,
            Pending::Ready(_, slot) => slot,
            Pending::Taken(hop) => &mut hop.slot,
        }
    }
}

// There is one for each packet on each link.
const _: () = assert!(size_of::<Pending>() <= 24);
