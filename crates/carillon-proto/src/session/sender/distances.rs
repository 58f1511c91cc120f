//! A tree by measured distance: the members tell how far they are from the helpers and from the sender, and each turns to the
//! nearest.
//!
//! Helpers stand in the order of their distance from the sender, and turn only to such as stand before them: so no circle can
//! form, and whoever takes the place of one that is lost (its parent) is the one towards the sender that was nearest to it,
//! and has what those below it lack.

use std::collections::{BTreeMap, VecDeque};

use carillon_core::{Dest, DropReason, Duration, Helper, NodeId, Time, Transmit};
use carillon_wire::session::{Body, DistanceTo, Distances, Nonce, Packet};

use super::{SenderPhase, SenderSession};
use crate::session::LOCAL_NODE;

/// What members have told of how far they are from others.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Of those who have told: from whom, and how far. The sender is [`LOCAL_NODE`].
    of: BTreeMap<NodeId, BTreeMap<NodeId, Duration>>,
    /// Nobody is waited for any more: the tree is made by what is known.
    over: bool,
    /// The members are to be asked.
    due: bool,
    echoes: VecDeque<(NodeId, u64)>,
}

impl Measured {
    /// How far it is from one to another, as far as one of them has measured it; no way is longer than an unknown one.
    fn between(&self, one: NodeId, other: NodeId) -> Duration {
        let told = |from, to| self.of.get(&from).and_then(|told| told.get(&to)).copied();
        told(one, other).or_else(|| told(other, one)).unwrap_or(Duration::MAX)
    }

    /// Where these helpers turn to: `fanout` of them at most to each other one. In the order of their distance.
    pub(super) fn parents(&self, helpers: &[NodeId], fanout: usize) -> Vec<(NodeId, Option<NodeId>)> {
        let from_sender = |&node: &NodeId| self.between(node, LOCAL_NODE);
        let mut ordered = helpers.to_vec();
        // Among equals in the order of joining.
        ordered.sort_by_key(from_sender);
        let mut children: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut placed: Vec<(NodeId, Option<NodeId>)> = Vec::new();
        for helper in ordered {
            let nearer = placed.iter().map(|&(other, _)| (self.between(helper, other), other));
            let nearer = nearer.filter(|&(way, other)| {
                is_clearly_nearer(way, from_sender(&helper))
                    && children.get(&other).is_none_or(|&count| count < fanout)
            });
            let parent = nearer.min_by_key(|&(way, _)| way).map(|(_, other)| other);
            if let Some(parent) = parent {
                *children.entry(parent).or_default() += 1;
            }
            placed.push((helper, parent));
        }
        placed
    }

    /// The helper that a member turns to, where each has so many children: the nearest, and of those that are about as near
    /// the one with the fewest. `None` if the sender is clearly nearer, or it knows of none.
    pub(super) fn nearest(
        &self,
        member: NodeId,
        helpers: &[NodeId],
        children: &BTreeMap<NodeId, usize>,
    ) -> Option<NodeId> {
        let ways = || helpers.iter().map(|&helper| (self.between(member, helper), helper));
        let least = ways().map(|(way, _)| way).min().filter(|&least| least < Duration::MAX)?;
        if is_clearly_nearer(self.between(member, LOCAL_NODE), least) {
            return None;
        }
        let as_near = ways().filter(|&(way, _)| way <= least + least / 4 + NOISE / 2);
        let best = as_near.min_by_key(|&(way, helper)| (children.get(&helper).copied().unwrap_or(0), way));
        best.map(|(_, helper)| helper)
    }

    /// Whether the tree is to be made by what is known.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether a member has told.
    pub(super) fn has(&self, node: &NodeId) -> bool {
        self.of.contains_key(node)
    }
}

/// By more than what two measures of the same way differ in: less than half as far, and by a millisecond.
fn is_clearly_nearer(one: Duration, other: Duration) -> bool {
    one.saturating_mul(2).saturating_add(NOISE) <= other
}

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

/// What two measures of one way may differ in, however short it is.
const NOISE: Duration = Duration::from_millis(1);
/// Answers that wait: three of each of the most members.
const MOST_ECHOES: usize = 3072;
