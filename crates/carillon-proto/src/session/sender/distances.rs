//! A tree by measured distance: the members tell how far they are from the helpers and from the sender, and each turns to the
//! nearest.

use std::collections::BTreeMap;

use carillon_core::{Dest, DropReason, Duration, Helper, NodeId, Time, Transmit};
use carillon_wire::session::{Body, DistanceTo, Distances, Nonce, Packet};

use super::SenderSession;
use super::state::SenderPhase;
use crate::session::LOCAL_NODE;

impl SenderSession {
    /// Whether the tree is to be made by distances that are not known yet.
    pub(super) fn is_measuring(&self) -> bool {
        self.config.nearest
            && self.phase == SenderPhase::Assembling
            && !self.measured.over
            && self.roster.helpers() > 0
    }

    /// All have told, or had their time for it: a new roster says who turns to whom.
    pub(super) fn end_measuring(&mut self, now: Time) {
        self.measured.over = true;
        self.assemble(now);
    }

    /// The members are to be asked, again if they were.
    pub(super) fn ask_distances(&mut self) {
        self.measured.due = self.is_measuring();
    }

    /// A table of these helpers and members by distance, except for those whose `place` is said.
    pub(super) fn by_distance(
        &self,
        helpers: &[NodeId],
        members: &[NodeId],
        place: impl Fn(&NodeId) -> Option<NodeId>,
    ) -> (Vec<Helper>, Vec<(NodeId, NodeId)>) {
        let (said, free): (Vec<NodeId>, Vec<NodeId>) = helpers.iter().partition(|node| place(node).is_some());
        let fanout = self.config.fanout.unwrap_or(usize::MAX);
        let said = said.into_iter().map(|node| (node, place(&node)));
        let entries = self.measured.parents(&free, fanout).into_iter().chain(said);
        let entries = entries.map(|(node, parent)| Helper { node, parent, delivers: false }).collect();
        let (mut children, mut turns) = (BTreeMap::new(), Vec::new());
        for &member in members {
            if let Some(helper) = place(&member).or_else(|| self.measured.nearest(member, helpers, &children))
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
            self.assembly.as_ref().filter(|assembly| measuring && assembly.edition == edition)
        else {
            return self.events.dropped(DropReason::OutOfWindow);
        };
        // Nobody is asked about itself, nor about those who do not help.
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
        self.measured.of.insert(source, told);
    }

    /// A member wants to know how far away the sender is.
    pub(super) fn on_probe(&mut self, source: NodeId, token: u64) {
        let known = self.roster.index_of(source).is_some_and(|index| !self.roster.record(index).expelled);
        match known && self.is_measuring() && self.measured.echoes.len() < MOST_ECHOES {
            true => self.measured.echoes.push_back((source, token)),
            false => self.events.dropped(DropReason::NotAMember),
        }
    }

    /// The next answer to a probe.
    pub(super) fn emit_echo(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (node, token) = self.measured.echoes.pop_front()?;
        Packet { association: self.config.association, body: Body::Echo { token } }.emit(buf);
        Some(Transmit::now(Dest::Node(node)))
    }

    /// The members are asked, if it is due; behind the roster.
    pub(super) fn emit_measure(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let due = std::mem::take(&mut self.measured.due) && self.is_measuring();
        let edition = self.assembly.as_ref().filter(|_| due)?.edition;
        Packet { association: self.config.association, body: Body::Measure { edition } }.emit(buf);
        Some(Transmit::now(Dest::group(self.config.group)))
    }
}

/// Answers that wait: three of each of the most members.
const MOST_ECHOES: usize = 3072;
