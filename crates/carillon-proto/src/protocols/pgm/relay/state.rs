//! State of a network element for each source, each requested packet and each requested group (RFC 3208, section 7).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use carillon_core::{GroupId, NodeId, PortId, PortSet, Received, Time};
use carillon_wire::pgm::{LossReport, Nak};

use crate::blocks::PassedPackets;

/// State of one source that this element serves.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) spm_sqn: u32,
    /// Next node towards the source, the destination of NAKs.
    pub(super) upstream: NodeId,
    pub(super) upstream_port: PortId,
    pub(super) source: NodeId,
    pub(super) group: GroupId,
    pub(super) source_address: IpAddr,
    pub(super) group_address: IpAddr,
    /// Number of packets and of transmission groups with repair state.
    pub(super) repairs: usize,
    /// Number of packets in a transmission group, if the source offers parity.
    pub(super) group_size: Option<u32>,
    /// Sequence number of the newest POLL that passed, which POLRs refer to.
    pub(super) poll_sqn: Option<u32>,
    /// Designated local repairers among the children.
    pub(super) repairers: Repairers,
    /// Packets with a recent N-NAK.
    pub(super) nnaks: BTreeSet<u32>,
    /// Packets stored for repairs by this element.
    pub(super) store: PassedPackets,
    /// Report of a receiver, for the next NAK or N-NAK upstream.
    pub(super) report: Option<LossReport>,
}

impl Session {
    /// Returns true if the packet comes from the source through the port of its SPMs.
    pub(super) fn is_downstream(&self, datagram: Received<'_>) -> bool {
        datagram.ingress == self.upstream_port && datagram.source == self.source
    }

    /// NAK for one packet of this source.
    pub(super) fn nak(&self, sqn: u32) -> Nak {
        Nak { sqn, source: self.source_address, group: self.group_address }
    }
}

/// Repair state of one requested packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Repair {
    /// Ports of the requesters, where the repair goes.
    pub(super) ports: PortSet,
    /// End of NAK elimination, once the NAK is confirmed; `None` until then.
    pub(super) quiet_until: Option<Time>,
    pub(super) route: RequestRoute,
}

/// Next node of a NAK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestRoute {
    /// Upstream, towards the source.
    #[default]
    Upstream,
    /// A designated local repairer, at most once for each packet.
    Repairer(NodeId),
}

impl Repair {
    /// Returns true if a further NAK for the packet is eliminated: the pending one is unconfirmed and repeats by
    /// itself, or was confirmed within NAK_ELIM_IVL.
    pub(super) fn eliminates(&self, now: Time) -> bool {
        self.quiet_until.is_none_or(|until| now < until)
    }
}

/// Repair state of one transmission group, which counts the parity packets that each port needs.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupRepair {
    /// Number of parity packets that each port still needs.
    pub(super) counts: BTreeMap<PortId, u32>,
    /// Greatest number that was requested upstream and has not passed yet.
    pub(super) asked: u32,
    /// End of NAK elimination, once the NAK is confirmed; `None` until then.
    pub(super) quiet_until: Option<Time>,
}

/// Repairers among the children of one source. Each expires unless it answers the POLLs.
#[derive(Debug, Default)]
pub(super) struct Repairers(BTreeMap<NodeId, RepairerEntry>);

/// Port and expiry of a repairer.
#[derive(Clone, Copy, Debug)]
struct RepairerEntry {
    port: PortId,
    until: Time,
}

impl Repairers {
    /// Adds or refreshes a repairer. Returns false if the table is full.
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

    /// Removes a repairer that did not answer.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Chooses the next node of a NAK that came in by these ports. Skips repairers behind those ports, since they
    /// likely miss the packet too, and the NAK may be their own.
    pub(super) fn choose(&self, now: Time, ports: &PortSet) -> RequestRoute {
        let found = self.0.iter().find(|(_, place)| now < place.until && !ports.contains(place.port));
        found.map_or(RequestRoute::Upstream, |(&node, _)| RequestRoute::Repairer(node))
    }
}
