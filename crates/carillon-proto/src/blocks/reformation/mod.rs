//! Agreement of a group on a new view after a crash or a return (reformation).
//!
//! This is the view change of Viewstamped Replication (Oki and Liskov 1988) with other quorums. It serves as the
//! election for the sequencer's protocol, of which Segovia 1996, section 2.7, says only that its authors suggest one,
//! and as the reformation of the token protocol.
//!
//! 1. A coordinator INVITEs all nodes to a ballot. A node that has promised no higher one VOTEs, states the last view
//!    it accepted and how much of that view's order it holds, and leaves that view.
//! 2. With enough votes (`Votes::best`) the longest log of the last view continues. The coordinator fetches what it
//!    misses of it, and STARTs the view of the voters and of the joining nodes. Each of them fetches what it misses
//!    from the coordinator and then is READY.
//! 3. When all are ready the view is ACTIVE: the whole log is committed, and the coordinator is the leader.
//!
//! A failed ballot is followed by one with a higher number after a random wait, without end, since missing nodes may
//! return. A node that lost its state does not vote, as it has forgotten its promises: it asks to JOIN. A node that
//! is known to be gone for good ([`Reformation::expel`]) is no longer awaited, and the votes of all other members of
//! the last view suffice.
//!
//! The block performs no I/O and knows only sequence numbers of messages. The protocol fetches messages
//! ([`Step::Fetch`]) beside its own log, so that a vote stays true, and reports when it has them
//! ([`Reformation::fetched`]).

mod clock;
mod due;
mod packets;
#[cfg(test)]
mod tests;
mod view;
mod votes;

use std::collections::VecDeque;

use carillon_core::{ANY_STATE, ConfigError, ObservedState, Rng, States, Time};
use carillon_wire::reformation::{Ballot, Packet, Ranks};

use clock::Clock;
use due::{Due, Standing};
use view::Proposal;
pub use view::{Step, Terms, To, View, too_few};
use votes::{Vote, Votes};

/// States of a member for protocols with this block.
pub const VIEWS: States = States {
    of: "member, when views change",
    transitions: &[
        ("[*]", "Leading", "view 0, all members, rank 0 leads"),
        ("[*]", "InView", "view 0, another rank"),
        ("[*]", "Outside", "lost its state"),
        ("Leading", "Inviting", "suspects, waits at random / INVITE"),
        ("InView", "Inviting", "suspects, waits at random / INVITE"),
        (ANY_STATE, "Following", "INVITE of a higher ballot / VOTE"),
        ("Inviting", "Collecting", "enough votes / FETCH the longest log"),
        ("Inviting", "Starting", "enough votes, lacks nothing / START"),
        ("Inviting", "Leading", "alone"),
        ("Collecting", "Starting", "has it / START"),
        ("Collecting", "Leading", "has it, alone"),
        ("Starting", "Leading", "all READY / ACTIVE"),
        (ANY_STATE, "Accepting", "START / FETCH what is lacking"),
        ("Accepting", "Ready", "has it / READY"),
        (ANY_STATE, "Ready", "START, lacks nothing / READY"),
        ("Ready", "InView", "ACTIVE, or a packet of the view / INSTALLED"),
        (ANY_STATE, "Outside", "a view without it / JOIN"),
        ("Inviting", "Waiting", "too few votes"),
        ("Collecting", "Waiting", "not in time"),
        ("Starting", "Waiting", "not all READY in time"),
        ("Following", "Waiting", "no START in time"),
        ("Accepting", "Waiting", "not in time"),
        ("Ready", "Waiting", "no ACTIVE in time"),
        ("Waiting", "Inviting", "random wait over / INVITE, higher ballot"),
    ],
};

/// Part of one node in the reformations of its group.
#[derive(Clone, Debug)]
pub struct Reformation {
    /// Rank of this node.
    rank: usize,
    /// Number of nodes in the group.
    group: usize,
    /// Timer of the present phase.
    clock: Clock,
    /// Highest ballot that the node takes part in.
    promised: Ballot,
    /// Highest ballot number seen.
    highest: u32,
    /// Last view accepted. It is in force in the normal phase.
    accepted: View,
    /// Phase of the agreement.
    phase: Phase,
    /// True if a ballot is to be made although the view is in force.
    wants_ballot: bool,
    /// Nodes that ask to join and have lost their state.
    lost: Ranks,
    /// Nodes that ask to join and have their state. A ballot waits for their votes too.
    returning: Ranks,
    /// Nodes that are known to be gone for good.
    gone: Ranks,
    /// Number of JOINs received in this view on which its leader has not acted.
    ignored_joins: u32,
    /// True if this node has lost its state.
    is_lost: bool,
    /// Packets to send.
    due: Due,
    /// Steps that the protocol has not taken yet.
    steps: VecDeque<Step>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The accepted view is in force. The leader repeats ACTIVE to members not heard of in it.
    Normal { unheard: Ranks, tries: u32 },
    /// Waits between two ballots of its own.
    Waiting,
    /// Coordinator: collects votes.
    Inviting { votes: Votes, tries: u32 },
    /// Coordinator: fetches the log that continues.
    Collecting { proposal: Proposal, tries: u32 },
    /// Coordinator: waits until all members are ready.
    Starting { proposal: Proposal, ready: Ranks, tries: u32 },
    /// Has voted for another node's ballot.
    Following,
    /// Fetches the missing part of the proposed view's log.
    Accepting { proposal: Proposal },
    /// Has accepted the proposed view.
    Ready,
    /// Asks to become a member.
    Outside { tries: u32 },
}

impl Reformation {
    /// Creates the block of node `rank`. All nodes of the group are members of the first view, which the first node
    /// leads. A node that has lost its state starts outside. Fails if the group is too large.
    pub fn new(
        rank: usize,
        group: usize,
        terms: Terms,
        rng: Rng,
        is_lost: bool,
    ) -> Result<Self, ConfigError> {
        // Packets carry members as bit sets of this capacity.
        if group > Ranks::CAPACITY {
            let text = format!("a group of {group} nodes is larger than {}", Ranks::CAPACITY);
            return Err(ConfigError::Conflict(text));
        }
        // All nodes know the first view without a vote: ballot 0 of rank 0 with all members.
        let first =
            View { ballot: Ballot::default(), members: Ranks::below(group), joiners: Ranks::default() };
        let mut made = Reformation {
            rank,
            group,
            clock: Clock::new(terms, rng),
            promised: Ballot::default(),
            highest: 0,
            accepted: first,
            phase: Phase::Normal { unheard: Ranks::default(), tries: 0 },
            wants_ballot: false,
            lost: Ranks::default(),
            returning: Ranks::default(),
            gone: Ranks::default(),
            ignored_joins: 0,
            is_lost,
            due: Due::default(),
            steps: VecDeque::new(),
        };
        if is_lost {
            made.go_outside(Time::ZERO);
        }
        Ok(made)
    }

    /// Requests a new view, since the leader or a member is suspected. Another node's ballot within a random wait
    /// makes it needless.
    pub fn begin(&mut self, now: Time) {
        if self.takes_part() && !self.wants_ballot {
            // All members may suspect a crashed leader at the same time. The random wait lets one of them begin.
            self.wants_ballot = true;
            self.clock.wait_at_random(now);
        }
    }

    /// Removes a node that is reliably known to be gone for good. A view is made without it, and it cannot rejoin.
    pub fn expel(&mut self, now: Time, rank: usize) {
        self.expel_from_next(now, rank);
        if self.takes_part() {
            self.begin_without_gone(now);
        }
    }

    /// Removes a node like [`expel`](Self::expel), but leaves the view in force to the protocol: its order can
    /// change the members ([`amend`](Self::amend)).
    pub fn expel_from_next(&mut self, now: Time, rank: usize) {
        // A node never expels itself, and each node is expelled once.
        if rank == self.rank || rank >= self.group || !self.gone.insert(rank) {
            return;
        }
        // A node that is gone cannot join the next view.
        self.lost.remove(rank);
        self.returning.remove(rank);
        match &mut self.phase {
            Phase::Inviting { votes, .. } => {
                // The view is formed without the node, so its vote must not count.
                votes.remove(rank);
                self.decide_if_all_voted(now);
            }
            // The node can never be ready for the proposed view, so another ballot has to propose one without it.
            Phase::Collecting { proposal, .. } | Phase::Starting { proposal, .. }
                if proposal.view.members.contains(rank) =>
            {
                self.back_off(now);
            }
            // The coordinator of the promised ballot cannot complete it.
            Phase::Following | Phase::Accepting { .. } | Phase::Ready
                if rank == usize::from(self.promised.coordinator) =>
            {
                self.on_silent_coordinator(now);
            }
            _ => {}
        }
    }

    /// Replaces the members of the view in force, on which the protocol's order has agreed.
    pub fn amend(&mut self, members: Ranks) {
        let come = members.without(&self.accepted.members);
        self.accepted.joiners = self.accepted.joiners.and(&members).or(&come);
        self.accepted.members = members;
        self.lost = self.lost.without(&members);
        self.ignored_joins = 0;
        if let Phase::Normal { unheard, .. } = &mut self.phase {
            *unheard = unheard.and(&members);
        }
    }

    /// Returns true if this node without state asks to join, and may enter this view in force.
    pub fn may_enter(&self, view: &View) -> bool {
        let asks = matches!(self.phase, Phase::Outside { .. }) && self.is_lost;
        asks && view.number() >= self.promised.number && view.members.contains(self.rank)
    }

    /// Enters a view in force, to which the protocol's order has admitted this node. Only if it
    /// [may](Self::may_enter).
    pub fn enter(&mut self, now: Time, view: View) {
        (self.promised, self.accepted) = (view.ballot, view);
        self.highest = self.highest.max(view.number());
        self.is_lost = false;
        self.install(now, Ranks::default());
    }

    /// Leaves the group, since the protocol's order has removed this node, and asks to join again.
    pub fn retire(&mut self, now: Time) {
        self.go_outside(now);
    }

    /// Nodes without state that ask to join the view in force, if the protocol's order may admit them.
    pub fn applicants(&self) -> Ranks {
        self.lost.without(&self.accepted.members).without(&self.gone)
    }

    /// Members of the view in force that are gone for good.
    pub fn departed(&self) -> Ranks {
        self.accepted.members.and(&self.gone)
    }

    /// Reports that all messages below the length of the fetch are present and form this node's log. `state` is the
    /// state for joiners.
    pub fn fetched(&mut self, now: Time, state: Vec<u8>) {
        match &self.phase {
            Phase::Collecting { proposal, .. } => {
                let proposal = Proposal { state, ..proposal.clone() };
                // The log of the new view is complete here. The coordinator is its first member that is ready.
                self.accepted = proposal.view;
                let ready = [self.rank].into_iter().collect();
                self.phase = Phase::Starting { proposal, ready, tries: 0 };
                self.due.start = true;
                self.clock.repeat(now);
                self.start_if_ready(now);
            }
            Phase::Accepting { proposal } => {
                // From now on this node votes with the log of the new view. A joiner has state again, so it may vote
                // too.
                self.accepted = proposal.view;
                self.is_lost = false;
                self.phase = Phase::Ready;
                self.due.ready = true;
                self.clock.wait(now);
            }
            _ => {}
        }
    }

    /// Reports progress of a fetch, which restarts its timeout.
    pub fn progress(&mut self) {
        if let Phase::Collecting { tries, .. } = &mut self.phase {
            *tries = 0;
        }
    }

    /// Fires the timer if it is due. `length` is the place of this node's first missing message.
    pub fn handle_timeout(&mut self, now: Time, length: u64) {
        // The host may call early, and a stopped timer must not fire.
        if !self.clock.expire(now) {
            return;
        }
        let limit = self.clock.terms.tries;
        match &mut self.phase {
            Phase::Normal { .. } if self.wants_ballot => self.invite(now, length),
            Phase::Normal { unheard, tries } => {
                // Repeat ACTIVE to the members that have not confirmed it, and suspect them if they stay silent.
                self.due.active = *unheard;
                *tries += 1;
                if *tries > limit {
                    self.begin(now);
                } else {
                    self.clock.repeat(now);
                }
            }
            Phase::Waiting => self.invite(now, length),
            Phase::Inviting { tries, .. } => {
                *tries += 1;
                // Members that have not voted until now may be dead, so decide without their votes, or give the ballot
                // up.
                if *tries >= limit && !self.decide() {
                    if let Phase::Inviting { votes, .. } = &self.phase {
                        self.steps.push_back(Step::Short { votes: votes.voters().len() });
                    }
                    self.back_off(now);
                } else {
                    // After a decision too, the repeated INVITE shows the voters that the coordinator is alive.
                    self.due.invite = true;
                    self.clock.repeat(now);
                }
            }
            Phase::Collecting { tries, .. } => {
                *tries += 1;
                if *tries > limit {
                    self.back_off(now);
                } else {
                    // Repeat the invitation, so that waiting members know that the coordinator is alive.
                    self.due.invite = true;
                    self.clock.repeat(now);
                }
            }
            Phase::Starting { ready, tries, .. } => {
                *tries += 1;
                if *tries > limit {
                    // Forget joiners that did not answer. They ask again if they are alive.
                    self.lost = self.lost.and(ready);
                    self.back_off(now);
                } else {
                    self.due.start = true;
                    self.clock.repeat(now);
                }
            }
            Phase::Following | Phase::Accepting { .. } | Phase::Ready => self.on_silent_coordinator(now),
            Phase::Outside { tries } => {
                *tries += 1;
                // A node that has asked often falls silent, as the group may be gone.
                self.due.join = self.clock.ask_again(now, *tries);
            }
        }
    }

    /// Time at which `handle_timeout` must be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.clock.at
    }

    /// Next step for the protocol. Call this until it returns `None`.
    pub fn poll_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Next packet to send.
    pub fn poll_transmit(&mut self, length: u64) -> Option<(To, Packet<'_>)> {
        let starting = match &self.phase {
            Phase::Starting { proposal, .. } => Some(proposal),
            _ => None,
        };
        let node = Standing {
            rank: self.rank,
            promised: self.promised,
            accepted: &self.accepted,
            is_lost: self.is_lost,
        };
        self.due.poll(node, length, starting)
    }

    /// Last view accepted. It is in force if this node [takes part](Self::takes_part).
    pub fn view(&self) -> &View {
        &self.accepted
    }

    /// Returns true if the view is in force here.
    pub fn takes_part(&self) -> bool {
        matches!(self.phase, Phase::Normal { .. })
    }

    /// Returns true if a member of the view proposed in the promised ballot may fetch from this node. The node then
    /// coordinates or has accepted that view, so its order continues. The coordinator may always fetch.
    pub fn may_serve(&self, from: usize) -> bool {
        let coordinator = usize::from(self.promised.coordinator);
        // A node that has not accepted the view may hold messages of an order that does not continue.
        from == coordinator || self.rank == coordinator || self.accepted.ballot == self.promised
    }

    /// Ballot that this node has promised to, which fetched messages carry.
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// Returns true if a new view is not in force yet because of this node, perhaps among others.
    pub fn awaits(&self, rank: usize) -> bool {
        if self.gone.contains(rank) {
            return false;
        }
        match &self.phase {
            Phase::Normal { .. } | Phase::Waiting | Phase::Outside { .. } => false,
            Phase::Inviting { votes, .. } => self.missing(votes).contains(rank),
            // The protocol knows which node the log comes from.
            Phase::Collecting { .. } => false,
            Phase::Starting { proposal, ready, .. } => {
                proposal.view.members.contains(rank) && !ready.contains(rank)
            }
            Phase::Following | Phase::Accepting { .. } | Phase::Ready => {
                rank == usize::from(self.promised.coordinator)
            }
        }
    }

    /// Returns true if a new view is wanted or in progress.
    pub fn is_busy(&self) -> bool {
        self.wants_ballot || !self.takes_part()
    }

    /// State for diagrams, as [`VIEWS`] names it.
    pub fn state(&self) -> ObservedState {
        let state = match self.phase {
            Phase::Normal { .. } if self.accepted.leader() == self.rank => "Leading",
            Phase::Normal { .. } => "InView",
            Phase::Waiting => "Waiting",
            Phase::Inviting { .. } => "Inviting",
            Phase::Collecting { .. } => "Collecting",
            Phase::Starting { .. } => "Starting",
            Phase::Following => "Following",
            Phase::Accepting { .. } => "Accepting",
            Phase::Ready => "Ready",
            Phase::Outside { .. } => "Outside",
        };
        ObservedState { of: VIEWS.of, about: 0, state, turn: self.promised.number.into() }
    }

    /// Begins a ballot.
    fn invite(&mut self, now: Time, length: u64) {
        // The ballot must exceed every number seen, or other nodes refuse it.
        let Some(number) = self.highest.max(self.promised.number).checked_add(1) else { return };
        // The node stops ordering and acknowledging before it votes, so that its vote remains true.
        self.leave();
        self.promised = Ballot { number, coordinator: self.rank as u8 };
        let mut votes = Votes::default();
        let View { ballot, members, joiners } = self.accepted;
        // The own vote counts without a packet.
        votes.insert(self.rank, Vote { accepted: ballot.number, length, members, joiners });
        self.phase = Phase::Inviting { votes, tries: 0 };
        self.due = Due { invite: true, ..Due::default() };
        self.clock.repeat(now);
    }

    /// Proposes a view if there are enough votes. Returns true if it did.
    fn decide(&mut self) -> bool {
        let Phase::Inviting { votes, .. } = &self.phase else { return false };
        let Some(best) = votes.best(self.group, self.clock.terms.resilience, &self.gone) else {
            return false;
        };
        // Nodes that lost their state do not vote, and join the view without a log.
        let joiners = self.lost.without(&votes.voters());
        let members = votes.voters().or(&joiners);
        if members.len() < self.clock.terms.min_members {
            return false;
        }
        let view = View { ballot: self.promised, members, joiners };
        let proposal = Proposal { view, base: best.base, length: best.length, state: Vec::new() };
        self.steps.push_back(Step::Fetch {
            from: best.from,
            length: best.length,
            // If another view is the base, only the committed part of the own log agrees with it.
            continues: best.base == self.accepted.number(),
            others: Ranks::default(),
            state: None,
        });
        self.phase = Phase::Collecting { proposal, tries: 0 };
        true
    }

    /// Decides early if no further votes can come.
    fn decide_if_all_voted(&mut self, now: Time) {
        let Phase::Inviting { votes, .. } = &self.phase else { return };
        // Nodes that lost their state and nodes that are gone never vote.
        let missing = self.missing(votes).without(&self.lost).without(&self.gone);
        if missing.is_empty() && self.decide() {
            self.clock.repeat(now);
        }
    }

    /// Missing voters of a ballot of this node: members of the last view, and nodes that return. The votes of these
    /// may take longer than the others. A view without them would make them ask again, without end.
    fn missing(&self, votes: &Votes) -> Ranks {
        votes.wanted().or(&self.returning).without(&votes.voters())
    }

    /// Puts the view in force if all its members are ready.
    fn start_if_ready(&mut self, now: Time) {
        let Phase::Starting { proposal, ready, .. } = &self.phase else { return };
        // A READY of a node that is not a member counts for nothing.
        if ready.and(&proposal.view.members) == proposal.view.members {
            let unheard = proposal.view.members.without(&[self.rank].into_iter().collect());
            self.install(now, unheard);
        }
    }

    fn install(&mut self, now: Time, unheard: Ranks) {
        // Nodes that still want to join ask again.
        (self.lost, self.returning) = Default::default();
        self.phase = Phase::Normal { unheard, tries: 0 };
        self.wants_ballot = false;
        self.clock.on_view();
        self.ignored_joins = 0;
        // Packets of the ballot are obsolete. Only the leader has members to notify.
        self.due = Due { active: unheard, ..Due::default() };
        if !unheard.is_empty() {
            self.clock.repeat(now);
        }
        self.steps.push_back(Step::Install);
        // A member may have been expelled while the view was formed.
        self.begin_without_gone(now);
    }

    /// Begins a ballot if the view in force has members that are gone.
    fn begin_without_gone(&mut self, now: Time) {
        if !self.accepted.members.and(&self.gone).is_empty() {
            self.begin(now);
        }
    }

    /// Handles a silent coordinator of the promised ballot.
    fn on_silent_coordinator(&mut self, now: Time) {
        // A node without state has no promise to keep and cannot begin a ballot: it asks to join again.
        if self.is_lost { self.go_outside(now) } else { self.back_off(now) }
    }

    /// Starts a ballot after a random wait, since the present one failed.
    fn back_off(&mut self, now: Time) {
        self.leave();
        self.phase = Phase::Waiting;
        // A pending vote or READY belongs to the failed ballot.
        self.due = Due::default();
        self.clock.back_off(now);
    }

    fn go_outside(&mut self, now: Time) {
        self.leave();
        self.phase = Phase::Outside { tries: 0 };
        self.due = Due { join: true, ..Due::default() };
        self.clock.repeat(now);
    }

    fn leave(&mut self) {
        if self.takes_part() {
            self.steps.push_back(Step::Leave);
        }
        // Only a node with a view in force can want a ballot.
        self.wants_ballot = false;
    }
}
