//! Packets on their way through a routed network.

use std::sync::Arc;

use carillon_core::{Bytes, Dest, GroupId, NodeId, PortId, Scope};

use super::routes::DeliveryTree;
use crate::loss::SingleLoss;
use crate::serials::Slot;

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

/// Packet on its way to a node.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub(super) packet: Arc<Packet>,
    pub(super) to: NodeId,
    /// Destination of a unicast packet.
    pub(super) target: NodeId,
    /// Place in the order of all parts, if the network is a part.
    pub(super) slot: Slot,
    /// Port of arrival, if the packet arrives; it may only now leave `to`, its sender.
    pub(super) port: PortId,
    pub(super) arrives: bool,
    pub(super) scope: Scope,
}

impl Hop {
    /// Port of arrival; `None` if the packet only now leaves `to`, its sender.
    pub(super) fn ingress(&self) -> Option<PortId> {
        self.arrives.then_some(self.port)
    }

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
