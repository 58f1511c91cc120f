//! Handling of received packets.

use carillon_core::Time;
use carillon_wire::reformation::{Ballot, Packet, Ranks};

use super::due::Due;
use super::view::{Proposal, Step, View};
use super::votes::Vote;
use super::{Phase, Reformation};

impl Reformation {
    /// Handles a packet of another node.
    pub fn handle(&mut self, now: Time, from: usize, packet: &Packet<'_>) {
        if self.gone.contains(from) {
            // The node may live, but the group no longer counts on it.
            return;
        }
        // Accept INVITE, START and ACTIVE only from the coordinator of their ballot, and member sets only within the
        // group. A vote or proposal cannot rest on a view that is newer than its ballot.
        match *packet {
            Packet::Invite { ballot } if is_of(ballot, from) => self.on_invite(now, ballot),
            Packet::Vote { ballot, accepted, length, members, joiners }
                if self.is_view(&members, &joiners) && accepted < ballot.number =>
            {
                let vote = Vote { accepted, length, members, joiners };
                self.on_vote(now, from, ballot, vote);
            }
            Packet::Refuse { ballot, promised } => self.on_refuse(now, ballot, promised),
            Packet::Start { ballot, base, length, members, joiners, state }
                if is_of(ballot, from) && self.is_view(&members, &joiners) && base < ballot.number =>
            {
                let view = View { ballot, members, joiners };
                self.on_start(now, Proposal { view, base, length, state: state.to_vec() });
            }
            Packet::Ready { ballot } => self.on_ready(now, from, ballot),
            Packet::Active { ballot } if is_of(ballot, from) => self.on_active(now, ballot),
            Packet::Installed { ballot } => self.on_installed(from, ballot),
            Packet::Join { lost } => self.on_join(now, from, lost),
            _ => {}
        }
    }

    /// Handles a protocol packet from a node in an older view, or in none: the leader notifies it of the view in
    /// force.
    pub fn on_older_view(&mut self, from: usize) {
        if self.takes_part() && self.accepted.leader() == self.rank {
            self.due.active.insert(from);
        }
    }

    /// Handles a protocol packet that is only sent while its view is in force. The view then is in force here too, if
    /// this node has accepted it. Not for fetched messages: they carry a ballot number, and their sender may still
    /// wait for other members.
    pub fn on_packet_of(&mut self, now: Time, from: usize, number: u32) {
        if matches!(self.phase, Phase::Ready)
            && number == self.accepted.number()
            && from == self.accepted.leader()
        {
            self.install(now, Ranks::default());
            self.due.installed = true;
        }
    }

    fn on_invite(&mut self, now: Time, ballot: Ballot) {
        self.highest = self.highest.max(ballot.number);
        let from = usize::from(ballot.coordinator);
        if self.is_lost {
            // The node has forgotten its promises, so it must not make one.
            return;
        }
        if ballot.number > self.promised.number {
            // A promise ends the participation in the present view, so that the vote stays true.
            self.leave();
            self.promised = ballot;
            self.phase = Phase::Following;
            self.due = Due { vote: true, ..Default::default() };
            self.clock.wait(now);
        } else if ballot != self.promised {
            // REFUSE states the higher promise, so that the next ballot of the coordinator exceeds it. The coordinator
            // may also have missed that a view is in force.
            self.due.refuse = Some((from, ballot));
            self.on_older_view(from);
        } else if matches!(self.phase, Phase::Following) {
            // The coordinator repeats INVITE. The vote may be lost, and the coordinator is alive.
            self.due.vote = true;
            self.clock.wait(now);
        }
    }

    fn on_vote(&mut self, now: Time, from: usize, ballot: Ballot, vote: Vote) {
        let Phase::Inviting { votes, .. } = &mut self.phase else { return };
        // The vote belongs to an earlier ballot of this coordinator.
        if ballot != self.promised {
            return;
        }
        // A node with a vote has its state.
        self.lost.remove(from);
        votes.insert(from, vote);
        self.decide_if_all_voted(now);
    }

    fn on_refuse(&mut self, now: Time, ballot: Ballot, promised: Ballot) {
        let is_own =
            matches!(self.phase, Phase::Inviting { .. } | Phase::Collecting { .. } | Phase::Starting { .. });
        if is_own && ballot == self.promised && promised.number >= ballot.number {
            // The next ballot must exceed the promise of the other node.
            self.highest = self.highest.max(promised.number);
            self.back_off(now);
        }
    }

    fn on_start(&mut self, now: Time, proposal: Proposal) {
        let ballot = proposal.view.ballot;
        self.highest = self.highest.max(ballot.number);
        // A node that has promised a higher ballot, or the same number to another coordinator, must not accept this
        // view.
        if ballot.number < self.promised.number
            || (ballot.number == self.promised.number && ballot != self.promised)
        {
            self.due.refuse = Some((ballot.coordinator.into(), ballot));
            return;
        }
        let is_member = proposal.view.members.contains(self.rank);
        if is_member && self.is_lost && !proposal.view.joiners.contains(self.rank) {
            // The node voted before it lost its state.
            return;
        }
        match &self.phase {
            Phase::Ready | Phase::Normal { .. } if ballot == self.accepted.ballot => {
                // The view was accepted already, so READY or INSTALLED was lost: repeat it.
                self.due.ready = matches!(self.phase, Phase::Ready);
                self.due.installed = !self.due.ready;
                if self.due.ready {
                    self.clock.wait(now);
                }
                return;
            }
            Phase::Accepting { proposal } if proposal.view.ballot == ballot => {
                // The fetch continues. The coordinator is alive, so its silence timeout starts anew.
                self.clock.wait(now);
                return;
            }
            // This is the node's own proposal.
            Phase::Collecting { .. } | Phase::Starting { .. } if ballot == self.promised => return,
            // A node outside keeps its schedule of JOINs if the view does not contain it.
            Phase::Outside { .. } if !is_member => {
                self.promised = ballot;
                return;
            }
            _ => {}
        }
        self.promised = ballot;
        if !is_member {
            // The view is formed without this node, so it asks to join.
            return self.go_outside(now);
        }
        self.leave();
        self.due = Due::default();
        self.clock.wait(now);
        self.steps.push_back(Step::Fetch {
            from: ballot.coordinator.into(),
            length: proposal.length,
            // The own log helps only if it belongs to the order that continues. A node without a log takes the state
            // instead.
            continues: !self.is_lost && proposal.base == self.accepted.number(),
            others: self.others_of(&proposal.view),
            state: self.is_lost.then(|| proposal.state.clone()),
        });
        self.phase = Phase::Accepting { proposal };
    }

    /// Members of a proposed view that come to it with their state, other than this node and the coordinator.
    fn others_of(&self, view: &View) -> Ranks {
        let mut others = view.members.without(&view.joiners).without(&self.gone);
        others.remove(self.rank);
        others.remove(view.leader());
        others
    }

    fn on_ready(&mut self, now: Time, from: usize, ballot: Ballot) {
        match &mut self.phase {
            Phase::Starting { ready, .. } if ballot == self.promised => {
                ready.insert(from);
                self.start_if_ready(now);
            }
            // A member that repeats READY has missed ACTIVE.
            Phase::Normal { .. } if ballot == self.accepted.ballot => self.on_older_view(from),
            _ => {}
        }
    }

    fn on_active(&mut self, now: Time, ballot: Ballot) {
        self.highest = self.highest.max(ballot.number);
        if ballot == self.accepted.ballot && !self.is_lost {
            match self.phase {
                Phase::Ready => {
                    self.install(now, Ranks::default());
                    self.due.installed = true;
                }
                // ACTIVE is repeated, so INSTALLED was lost.
                Phase::Normal { .. } => self.due.installed = true,
                _ => {}
            }
        } else if ballot.number > self.accepted.number() && ballot.number >= self.promised.number {
            // A view was formed without this node.
            self.promised = ballot;
            // A node outside is asking to join already.
            if !matches!(self.phase, Phase::Outside { .. }) {
                self.go_outside(now);
            }
        }
    }

    fn on_installed(&mut self, from: usize, ballot: Ballot) {
        if let Phase::Normal { unheard, .. } = &mut self.phase
            && ballot == self.accepted.ballot
            && unheard.remove(from)
        {
            // The member knows, so a repeated ACTIVE is redundant.
            self.due.active.remove(from);
            if unheard.is_empty() && !self.wants_ballot {
                // All members know that the view is in force. A timer for a wanted ballot must keep running.
                self.clock.at = None;
            }
        }
    }

    fn on_join(&mut self, now: Time, from: usize, lost: bool) {
        // A node without state cannot coordinate a ballot that admits another node.
        if self.is_lost {
            return;
        }
        let asking = if lost { &mut self.lost } else { &mut self.returning };
        asking.insert(from);
        match &mut self.phase {
            Phase::Normal { .. } => {
                let leads = self.accepted.leader() == self.rank;
                // A member with its state has only missed ACTIVE, so no new view is needed.
                if leads && !lost && self.accepted.members.contains(from) {
                    self.returning.remove(from);
                    self.on_older_view(from);
                    return;
                }
                self.ignored_joins += 1;
                // A leader that lost its state no longer leads, and a dead one ignores nodes that want to join.
                let dead = self.ignored_joins > self.clock.terms.tries;
                // The order of the protocol admits a node that is no member.
                let in_order =
                    lost && self.clock.terms.admits_in_order && !self.accepted.members.contains(from);
                if dead || (!in_order && (leads || (lost && from == self.accepted.leader()))) {
                    self.begin(now);
                }
            }
            Phase::Inviting { votes, .. } if lost => votes.remove(from),
            // The node has lost the state it voted for.
            Phase::Starting { proposal, .. } | Phase::Collecting { proposal, .. }
                if lost && proposal.view.members.contains(from) && !proposal.view.joiners.contains(from) =>
            {
                self.back_off(now);
            }
            _ => {}
        }
    }

    /// Returns true if these are sets of members of this group.
    fn is_view(&self, members: &Ranks, joiners: &Ranks) -> bool {
        members.without(&Ranks::below(self.group)).is_empty() && joiners.without(members).is_empty()
    }
}

/// Returns true if this node coordinates the ballot.
fn is_of(ballot: Ballot, from: usize) -> bool {
    usize::from(ballot.coordinator) == from
}
