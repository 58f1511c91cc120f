//! What a network element remembers: RFC 3208, section 7.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use carillon_core::{GroupId, NodeId, PortId, PortSet, Received, Time};
use carillon_wire::pgm::Nak;

use crate::blocks::PassedPackets;

/// A source whose path leads through this element.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) spm_sqn: u32,
    /// Where its SPMs come from, and requests go.
    pub(super) upstream: NodeId,
    pub(super) upstream_port: PortId,
    pub(super) source: NodeId,
    pub(super) group: GroupId,
    pub(super) source_address: IpAddr,
    pub(super) group_address: IpAddr,
    /// How many packets were asked for.
    pub(super) repairs: usize,
    /// The newest POLL that has passed: what answers to children refer to.
    pub(super) poll_sqn: Option<u32>,
    /// The designated local repairers among the children.
    pub(super) repairers: Repairers,
    /// Packets of which an N-NAK has gone on.
    pub(super) nnaks: BTreeSet<u32>,
    /// What this element repairs itself.
    pub(super) store: PassedPackets,
}

impl Session {
    /// Whether something of the source comes from where it should, by the port of its SPMs.
    pub(super) fn is_downstream(&self, datagram: Received<'_>) -> bool {
        datagram.ingress == self.upstream_port && datagram.source == self.source
    }

    /// Asks for a packet of the source.
    pub(super) fn nak(&self, sqn: u32) -> Nak {
        Nak { sqn, source: self.source_address, group: self.group_address }
    }
}

/// A packet that was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Repair {
    /// Where the repair goes.
    pub(super) ports: PortSet,
    /// If the request is confirmed: until then no other goes upstream.
    pub(super) quiet_until: Option<Time>,
    pub(super) route: RequestRoute,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestRoute {
    /// Towards the source.
    #[default]
    Upstream,
    /// To this designated local repairer: once for each packet, and then upstream.
    Repairer(NodeId),
}

impl Repair {
    /// Whether a further request for the packet is not sent on. One that is not confirmed goes upstream again and again
    /// until it is.
    pub(super) fn eliminates(&self, now: Time) -> bool {
        self.quiet_until.is_none_or(|until| now < until)
    }
}

/// The repairers among the children, for one source. They are forgotten unless they answer each POLL.
#[derive(Debug, Default)]
pub(super) struct Repairers(BTreeMap<NodeId, RepairerEntry>);

/// Where a repairer is, and until when it is believed to be there.
#[derive(Clone, Copy, Debug)]
struct RepairerEntry {
    port: PortId,
    until: Time,
}

impl Repairers {
    /// A repairer is there; whether there is room for it.
    pub(super) fn insert(
        &mut self,
        now: Time,
        node: NodeId,
        port: PortId,
        until: Time,
        limit: usize,
    ) -> bool {
        self.0.retain(|_, place| now < place.until);
        let has_room = self.0.len() < limit || self.0.contains_key(&node);
        if has_room {
            self.0.insert(node, RepairerEntry { port, until });
        }
        has_room
    }

    /// It does not answer.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Whom to ask for a packet that was asked for by these ports. What is missed behind a port is
    /// likely missed by a repairer there, and the request may be its own.
    pub(super) fn choose(&self, now: Time, ports: &PortSet) -> RequestRoute {
        let found = self.0.iter().find(|(_, place)| now < place.until && !ports.contains(place.port));
        found.map_or(RequestRoute::Upstream, |(&node, _)| RequestRoute::Repairer(node))
    }
}
