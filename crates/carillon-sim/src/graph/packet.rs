//! Packets on their way through a routed network, and the events of the network.

use std::sync::Arc;

use carillon_core::{Bytes, Dest, GroupId, NodeId, PortId, Scope, Transmit};

use super::link::SingleLoss;
use super::routes::DeliveryTree;

/// Cache of the last unicast packets.
#[derive(Debug, Default)]
pub(super) struct UnicastCache {
    last: [Option<Arc<Packet>>; CACHED_PACKETS],
    next: usize,
}

/// Number of cached packets. Two kinds may alternate, such as data with and without a poll.
const CACHED_PACKETS: usize = 2;

impl UnicastCache {
    /// Returns the cached packet that shares its bytes with this one, or caches this one.
    pub(super) fn packet(&mut self, packet: Packet) -> Arc<Packet> {
        let same = self.last.iter().flatten().find(|last| {
            (last.source, last.original) == (packet.source, packet.original)
                && std::ptr::eq(&raw const last.bytes[..], &raw const packet.bytes[..])
        });
        if let Some(same) = same {
            return same.clone();
        }
        let packet = Arc::new(packet);
        self.last[self.next] = Some(packet.clone());
        self.next = (self.next + 1) % CACHED_PACKETS;
        packet
    }
}

/// Event of the network.
#[derive(Debug)]
pub(super) enum Pending {
    /// A packet arrives at a node.
    Arrives(Hop),
    /// The interface of a node releases a datagram. It is boxed, since it is rare and large and the queue moves
    /// events about.
    Departs(Box<(NodeId, Transmit, Bytes)>),
    /// The ports of a node have room again.
    Ready(NodeId),
    /// A node has processed a packet. It is boxed for the same reason.
    Taken(Box<Hop>),
}

// There is one for each packet on each link.
const _: () = assert!(size_of::<Pending>() <= 24);

/// Packet on its way to a node.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub(super) packet: Arc<Packet>,
    pub(super) to: NodeId,
    /// Destination of a unicast packet.
    pub(super) target: NodeId,
    /// Port of arrival; `None` if the packet only now leaves `to`, its sender.
    pub(super) ingress: Option<PortId>,
    pub(super) scope: Scope,
}

impl Hop {
    pub(super) fn dest(&self) -> Dest {
        match self.packet.group {
            None => Dest::Node(self.target),
            Some((group, scope)) => Dest::Group { group, scope },
        }
    }
}

/// Packet that its hops share; unicast copies to several nodes share one too.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) source: NodeId,
    /// Group and original scope of a multicast packet.
    pub(super) group: Option<(GroupId, Scope)>,
    pub(super) bytes: Bytes,
    pub(super) original: Option<SingleLoss>,
    /// Tree of a multicast packet with the epoch in which it was found.
    pub(super) tree: Option<(u64, Arc<DeliveryTree>)>,
}
