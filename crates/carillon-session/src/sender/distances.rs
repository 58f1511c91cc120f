//! Helper tree by measured distance: members report their distance to the helpers and the sender, and each turns to
//! the nearest.

use std::collections::BTreeMap;

use carillon_core::{Dest, DropReason, Duration, Helper, NodeId, Time, Transmit};
use carillon_wire::session::{Body, DistanceTo, Distances, Nonce, Packet};

use super::SenderSession;
use super::state::{Pending, SenderPhase};
use crate::LOCAL_NODE;

impl SenderSession {
    /// Returns true if the tree depends on distances that are not known yet.
    pub(super) fn is_measuring(&self) -> bool {
        self.config.helpers.nearest
            && self.phase == SenderPhase::Assembling
            && !self.assembling.measured.over
            && self.roster.helpers() > 0
    }

    /// Ends the measurement, since all members have reported or had their time. A new roster then assigns members to
    /// helpers.
    pub(super) fn end_measuring(&mut self, now: Time) {
        self.assembling.measured.over = true;
        self.assemble(now);
    }

    /// Schedules the request for distances, again if it was sent before.
    pub(super) fn ask_distances(&mut self) {
        match self.is_measuring() {
            true => self.announcing.pending.insert(Pending::Measure),
            false => self.announcing.pending.remove(&Pending::Measure),
        };
    }

    /// Helper table by distance, except for members with a configured `place`.
    pub(super) fn by_distance(
        &self,
        helpers: &[NodeId],
        members: &[NodeId],
        place: impl Fn(&NodeId) -> Option<NodeId>,
    ) -> (Vec<Helper>, Vec<(NodeId, NodeId)>) {
        let (said, free): (Vec<NodeId>, Vec<NodeId>) = helpers.iter().partition(|node| place(node).is_some());
        let fanout = self.config.helpers.fanout.unwrap_or(usize::MAX);
        let said = said.into_iter().map(|node| (node, place(&node)));
        let entries = self.assembling.measured.parents(&free, fanout).into_iter().chain(said);
        let entries = entries.map(|(node, parent)| Helper { node, parent, delivers: false }).collect();
        // Children are counted, so that nearly equal helpers share the members.
        let (mut children, mut turns) = (BTreeMap::new(), Vec::new());
        for &member in members {
            if let Some(helper) =
                place(&member).or_else(|| self.assembling.measured.nearest(member, helpers, &children))
            {
                *children.entry(helper).or_default() += 1;
                turns.push((member, helper));
            }
        }
        (entries, turns)
    }

    pub(super) fn on_distances(
        &mut self,
        now: Time,
        source: NodeId,
        nonce: Nonce,
        edition: u32,
        distances: Distances<'_>,
    ) {
        let Some(index) = self.member(source, nonce) else { return };
        self.is_present(now, index);
        let measuring = self.is_measuring();
        let Some(assembly) =
            self.assembling.assembly.as_ref().filter(|assembly| measuring && assembly.edition == edition)
        else {
            return self.events.dropped(DropReason::OutOfWindow);
        };
        // Ignore distances of a node to itself, and to nodes that do not help.
        let helps = |node: &NodeId| {
            self.roster.index_of(*node).is_some_and(|index| self.roster.members()[index].part.helps())
        };
        let node = |rank: u16| match rank.checked_sub(1) {
            None => Some(LOCAL_NODE),
            Some(at) => assembly.ranks.get(usize::from(at)).copied().filter(helps),
        };
        let told = distances.iter().filter_map(|DistanceTo { rank, micros }| {
            Some((node(rank).filter(|&node| node != source)?, Duration::from_micros(micros.into())))
        });
        let told = told.collect();
        self.assembling.measured.of.insert(source, told);
    }

    /// Handles a probe of a member that measures its distance to the sender.
    pub(super) fn on_probe(&mut self, source: NodeId, token: u64) {
        let known = self.roster.index_of(source).is_some_and(|index| !self.roster.record(index).expelled);
        match known && self.is_measuring() && self.assembling.measured.echoes.len() < MAX_PENDING_ECHOES {
            true => self.assembling.measured.echoes.push_back((source, token)),
            false => self.events.dropped(DropReason::NotAMember),
        }
    }

    /// Writes the next answer to a probe.
    pub(super) fn emit_echo(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (node, token) = self.assembling.measured.echoes.pop_front()?;
        Packet { association: self.config.association, body: Body::Echo { token } }.emit(buf);
        Some(Transmit::now(Dest::Node(node)))
    }

    /// Writes the request for distances, if they are still missing.
    pub(super) fn emit_measure(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.announcing.pending.remove(&Pending::Measure);
        let edition = self.assembling.assembly.as_ref().filter(|_| self.is_measuring())?.edition;
        Packet { association: self.config.association, body: Body::Measure { edition } }.emit(buf);
        Some(Transmit::now(Dest::group(self.config.group)))
    }
}

/// Maximum number of answers waiting to be sent: three for each member of the largest roster.
const MAX_PENDING_ECHOES: usize = 3072;
