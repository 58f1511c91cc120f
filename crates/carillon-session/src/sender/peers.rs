//! Organiser of a session with a roster: members that are peers, or that turn to helpers, learn of each other before
//! it runs.
//!
//! The roster lists the members by rank, with the organiser first. It is repeated until each member has reported that
//! it knows the whole roster and has received from all members. Members that cannot report so in time are expelled.
//! Silent ones go first, as the others may only wait for them. The remaining members get a new edition. While the
//! session runs, the roster announces lost members. With helpers it also assigns each member to its helper. After a
//! loss all nodes derive the new assignment by the same rule.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{Dest, DropReason, Helper, HelperTable, NodeId, Span, Time, Transmit};
use carillon_wire::session::{
    Body, Identity, MemberRole, Name, Nonce, Packet, Peer, PeerList, RefuseReason, RosterPage,
};

use super::SenderSession;
use super::assembling::Assembly;
use super::state::{Pending, SenderPhase, Timer};
use crate::roster::MemberOutcome;

impl SenderSession {
    /// Ends gathering and announces the roster. Called again if a member is lost.
    pub(super) fn assemble(&mut self, now: Time) {
        // Ranks are assigned anew for each edition, without the members lost since.
        let ranks: Vec<NodeId> =
            self.roster.active().map(|index| self.roster.members()[index].node).collect();
        if self.roster.active_count() == 0 {
            return self.abort(now, "no member is left");
        }
        let helping = self.roster.active().filter(|&index| self.roster.members()[index].part.helps());
        if !self.config.protocol.helpers.allow(helping.count()) {
            return self.abort(now, "too few helpers are left");
        }
        let (table, parents) = self.tree(&ranks);
        // Editions begin at 1, since 0 stands for no roster at a member.
        let edition =
            self.assembling.assembly.as_ref().map_or(1, |assembly| assembly.edition.saturating_add(1));
        // Each member confirms each edition, so earlier confirmations are void.
        let (present, ready) = (BTreeSet::new(), BTreeSet::new());
        let told = self.awake(now);
        self.assembling.assembly =
            Some(Assembly { edition, told, ranks, parents, table, present, ready, next: 0, rest: 0 });
        // Silence timers stop too: `on_assemble_timeout` judges the members in this phase.
        self.stop_timers();
        self.set_phase(SenderPhase::Assembling);
        self.invite(now);
        self.announcing.pending.insert(Pending::Roster);
        self.ask_distances();
        self.assembling.timers.arm(Timer::Assemble, now + self.config.member_timeout);
    }

    /// Assignment of members to helpers: configured ones first, the others by distance if known, and else in a
    /// balanced tree in order of joining.
    fn tree(&self, ranks: &[NodeId]) -> (HelperTable, Vec<u16>) {
        let part = |node: NodeId| self.roster.index_of(node).map(|index| self.roster.members()[index].part);
        let helps = |node: &&NodeId| part(**node).is_some_and(MemberRole::helps);
        let (helpers, members): (Vec<NodeId>, Vec<NodeId>) = ranks.iter().partition(helps);
        // A fan-out of all helpers puts each of them below the sender.
        let fanout = self.config.helpers.fanout.unwrap_or(helpers.len());
        let table = self.placed(&helpers, &members, fanout);
        // Rank 0 is the organiser.
        let places: BTreeMap<NodeId, u16> = ranks.iter().copied().zip(1..).collect();
        let parent = |&node: &NodeId| table.parent(node).and_then(|parent| places.get(&parent).copied());
        let parents = ranks.iter().map(|node| parent(node).unwrap_or(0)).collect();
        (table, parents)
    }

    /// Helper table for these helpers and members.
    fn placed(&self, helpers: &[NodeId], members: &[NodeId], fanout: usize) -> HelperTable {
        let name = |node: NodeId| self.roster.index_of(node).map(|index| &self.roster.members()[index].name);
        // Helper that the configuration names for a node, if it is a member.
        let place = |node: &NodeId| -> Option<NodeId> {
            let helper = self.config.helpers.under.get(name(*node)?)?;
            helpers.iter().copied().find(|&node| name(node) == Some(helper))
        };
        let delivers = |node: NodeId| {
            self.roster.index_of(node).is_some_and(|index| self.roster.members()[index].part.receives())
        };
        if self.config.helpers.nearest && self.assembling.measured.is_over() {
            let (entries, turns) = self.by_distance(helpers, members, place);
            let entries = entries.into_iter().map(|entry| Helper { delivers: delivers(entry.node), ..entry });
            // A balanced tree is always valid, so it is the fallback.
            let table = HelperTable::new(entries.collect(), turns);
            return table.unwrap_or_else(|_| HelperTable::balanced(helpers, members, fanout));
        }
        // Helpers without a configured place form a balanced tree. The others go below the helper named for them.
        let free: Vec<NodeId> = helpers.iter().filter(|node| place(node).is_none()).copied().collect();
        let placed = helpers.iter().filter(|node| place(node).is_some());
        let placed = placed.map(|&node| Helper { node, parent: place(&node), delivers: false });
        let balanced = HelperTable::balanced(&free, &[], fanout);
        let entries = balanced.helpers().iter().copied().chain(placed);
        let entries: Vec<Helper> =
            entries.map(|entry| Helper { delivers: delivers(entry.node), ..entry }).collect();
        // Members without a configured place go below the last level of helpers, in turn.
        let is_last = |helper: &&NodeId| entries.iter().all(|entry| entry.parent != Some(**helper));
        let mut last = helpers.iter().filter(is_last).copied().cycle();
        let turns: Vec<(NodeId, NodeId)> = members
            .iter()
            .filter_map(|member| Some((*member, place(member).or_else(|| last.next())?)))
            .collect();
        HelperTable::new(entries, turns).unwrap_or_else(|_| HelperTable::balanced(helpers, members, fanout))
    }

    /// Updates the assignment after the loss of a member, and notifies the protocol.
    pub(super) fn update_helpers(&mut self, now: Time, lost: NodeId) {
        let awake = self.awake(now);
        let Some(assembly) = &mut self.assembling.assembly else { return };
        if assembly.table.is_helper(lost) {
            // Members below a lost helper fall behind without fault, so `too_slow` spares them for some time.
            self.watching.pulse.helper_lost = Some(awake);
        }
        // Each node derives the same tree from the same loss, so the tree itself need not be sent.
        if let Some(next) = assembly.table.without(lost) {
            assembly.table = next.clone();
            self.with_inner(|inner| inner.update_helpers(now, &next.into()));
        }
    }

    /// Starts the session once all members are ready. Announces a new roster if one was lost.
    pub(super) fn go_on_assembling(&mut self, now: Time) {
        let Some(assembly) = &self.assembling.assembly else { return };
        // A member was lost since the announcement of this edition.
        if self.roster.active_count() + self.roster.helping_count() < assembly.ranks.len() {
            self.assemble(now);
        } else if assembly.ready.len() == assembly.ranks.len() {
            // The tree depends on the distances, so their reports are awaited too.
            if !self.is_measuring() {
                self.run(now);
            } else if assembly.ranks.iter().all(|node| self.assembling.measured.has(node)) {
                self.end_measuring(now);
            }
        }
    }

    pub(super) fn on_assemble_timeout(&mut self, now: Time) {
        let Some(assembly) = &self.assembling.assembly else { return };
        let limit = self.config.member_timeout;
        // Time in which the sender was suspended does not count against the members.
        let rest = (assembly.told + limit).since(self.awake(now));
        if !rest.is_zero() {
            return self.assembling.timers.arm(Timer::Assemble, now + rest);
        }
        // A member that is not heard keeps all others from being ready, so only silent members are expelled first.
        let absent = assembly.ranks.iter().any(|node| !assembly.present.contains(node));
        let (there, reason) = match absent {
            true => (&assembly.present, format!("silent for {}", Span::Time(limit))),
            false => (&assembly.ready, format!("did not hear all the others within {}", Span::Time(limit))),
        };
        let missing = assembly.ranks.iter().filter(|node| !there.contains(node));
        let missing: Vec<usize> = missing.filter_map(|&node| self.roster.index_of(node)).collect();
        // All members are ready, but some have not reported their distances: go on without these.
        if missing.is_empty() && self.is_measuring() {
            return self.end_measuring(now);
        }
        // Each loss makes `go_on_assembling` announce a new edition.
        for index in missing {
            self.give_up(now, index, reason.clone());
        }
    }

    pub(super) fn on_ready(&mut self, now: Time, source: NodeId, nonce: Nonce, edition: u32) {
        let Some(index) = self.roster.index_of(source).filter(|&i| self.roster.record(i).nonce == nonce)
        else {
            // A node that waits for the start and is no member should know it.
            self.refuse(now, source, nonce, RefuseReason::AlreadyStarted);
            return self.events.dropped(DropReason::NotAMember);
        };
        if self.roster.record(index).expelled {
            return self.refuse_expelled(now, index);
        }
        self.is_present(now, index);
        let assembling = self.phase == SenderPhase::Assembling;
        // A READY for an earlier edition does not confirm the present one.
        match self.assembling.assembly.as_mut().filter(|assembly| assembling && assembly.edition == edition) {
            Some(assembly) => _ = assembly.ready.insert(source),
            None => self.events.dropped(DropReason::OutOfWindow),
        }
    }

    /// Handles the PRESENT of a member, which is a keepalive to the organiser.
    pub(super) fn on_present(&mut self, now: Time, source: NodeId, identity: Identity) {
        match self.roster.index_of(source) {
            Some(index) if self.config.has_roster() && self.roster.record(index).identity == identity => {
                self.is_present(now, index);
            }
            _ => self.events.dropped(DropReason::NotAMember),
        }
    }

    /// Records that a member is present and can be heard.
    pub(super) fn is_present(&mut self, now: Time, index: usize) {
        self.heard(now, index);
        if let Some(assembly) = &mut self.assembling.assembly {
            assembly.present.insert(self.roster.members()[index].node);
        }
    }

    /// Members by rank with their identities, without the organiser and members that only help.
    pub(super) fn ranked<'a>(&'a self, assembly: &'a Assembly) -> impl Iterator<Item = (NodeId, u64)> + 'a {
        let index = |&node: &NodeId| self.roster.index_of(node);
        assembly
            .ranks
            .iter()
            .filter_map(index)
            .filter(|&index| self.roster.members()[index].part.receives())
            .map(|index| (self.roster.members()[index].node, self.roster.record(index).identity.0))
    }

    /// Schedules the roster at a heartbeat: always while assembling, and at times while a lost member is in it.
    pub(super) fn repeat_roster(&mut self) {
        let Some(assembly) = &mut self.assembling.assembly else { return };
        if self.phase == SenderPhase::Assembling {
            self.announcing.pending.insert(Pending::Roster);
        } else if self.roster.active_count() + self.roster.helping_count() < assembly.ranks.len() {
            // A member that missed the announcement of a loss would still wait for the lost one.
            assembly.rest = assembly.rest.saturating_sub(1);
            if assembly.rest == 0 {
                self.announcing.pending.insert(Pending::Roster);
            }
        }
    }

    /// Writes the next page of the roster.
    pub(super) fn emit_roster(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let first = self.assembling.assembly.as_ref()?.next;
        let mut list = Vec::new();
        let count = PeerList::encode(self.peers().skip(first), &mut list);
        let assembly = self.assembling.assembly.as_mut()?;
        let total = assembly.ranks.len() + 1;
        assembly.next = first + count;
        // A page without entries would never reach the end.
        if assembly.next >= total || count == 0 {
            self.announcing.pending.remove(&Pending::Roster);
            assembly.next = 0;
            assembly.rest = ROSTER_REPEAT_HEARTBEATS;
        }
        let (total, first) = (u16::try_from(total).ok()?, u16::try_from(first).ok()?);
        let page = RosterPage { edition: assembly.edition, total, first, peers: PeerList::new(&list)? };
        Packet { association: self.config.association, body: Body::Roster(page) }.emit(buf);
        Some(Transmit::now(Dest::group(self.config.group)))
    }

    /// Entries of the roster.
    fn peers(&self) -> impl Iterator<Item = Peer<'_>> {
        let own = Name::new(&self.config.name).map(|name| Peer {
            identity: self.hosted.identity,
            part: MemberRole::Offers,
            gone: false,
            parent: 0,
            name,
        });
        let nodes =
            self.assembling.assembly.iter().flat_map(|assembly| assembly.ranks.iter().zip(&assembly.parents));
        let places = nodes.filter_map(|(&node, &parent)| Some((self.roster.index_of(node)?, parent)));
        let others = places.filter_map(|(index, parent)| {
            let (member, record) = (&self.roster.members()[index], self.roster.record(index));
            // A member that left or failed is gone for the others too.
            let out = matches!(member.outcome, MemberOutcome::Failed(_) | MemberOutcome::Lost(_));
            Some(Peer {
                identity: record.identity,
                part: member.part,
                gone: out || record.expelled,
                parent,
                name: Name::new(&member.name)?,
            })
        });
        own.into_iter().chain(others)
    }
}

/// Number of heartbeats between announcements of lost members.
const ROSTER_REPEAT_HEARTBEATS: u32 = 5;
