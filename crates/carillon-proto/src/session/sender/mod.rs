//! Sender side of a session.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::{
    BuildContext, ConfigError, Delivery, Dest, DropReason, Duration, Event, Events, HelperTable, Identities,
    Machine, NodeId, Notice, Received, Receiver, Role, Seeds, Sender, Span, Time, Timers, Transmit,
};
use carillon_wire::Envelope;
use carillon_wire::envelope::protocol;
use carillon_wire::session::{EarlierPacket, Identity, MemberRole, OtherRelease, State, Text};

use super::config::{EarlierSessions, Gather, HelperSelection, SenderSessionConfig, trial_table};
use super::ledger::Ledger;
use super::roster::{Member, MemberOutcome, Roster};
use super::unserved::{Unserved, UnservedList, UnservedReason};
use super::{LOCAL_NODE, secret};

mod aside;
mod cookies;
mod distances;
mod joining;
mod measured;
mod offering;
mod packets;
mod peers;
mod pulse;
mod releases;
mod rivals;
mod sizes;
mod state;
mod unreached;
mod watch;

use measured::Measured;
use pulse::Pulse;
pub use sizes::Shortened;
use sizes::Showing;
use state::{Assembly, EndNotices, Pending, Reply, Timer};
pub use state::{Rival, SenderPhase};

/// Session at a sender: it gathers receivers, sends through the protocol's machine, and collects reports.
///
/// Among peers it is also a member and a [`Receiver`], and the host takes its deliveries.
///
/// It invites from [`start`](Machine::start) on. Until gathering ends, [`offer`](Sender::offer) returns
/// [`OfferError::Full`](carillon_core::OfferError::Full).
#[derive(Debug)]
pub struct SenderSession {
    config: SenderSessionConfig,
    /// Settings as invitations carry them.
    settings: String,
    /// Random streams of the protocol's machine.
    seeds: Seeds,
    phase: SenderPhase,
    roster: Roster,
    /// Receivers that are not served.
    unserved: UnservedList,
    /// Receivers of the job.
    ledger: Ledger,
    /// Nodes that may be known receivers at another address, with the time of their first JOIN.
    undecided: BTreeMap<NodeId, Time>,
    /// Names of the receivers that a catch-up session is to serve.
    wanting: BTreeSet<String>,
    /// Receivers that reported to an earlier session after its end, with the time.
    reported_since: BTreeMap<String, Time>,
    /// Bytes of the offered data that are in no message, as receivers have them or need not get them.
    unsent: u64,
    /// Other senders heard on the group.
    rivals: Vec<Rival>,
    /// Machine of the protocol, from the end of gathering until the end is announced.
    inner: Option<Box<dyn Machine>>,
    /// Agreement on the roster, from the end of gathering, if members know each other.
    assembly: Option<Assembly>,
    /// Distances that the members report, for the helper tree.
    measured: Measured,
    /// Identity of this node among peers.
    identity: Identity,
    timers: Timers<Timer>,
    /// Packets of the session to send, apart from answers.
    pending: BTreeSet<Pending>,
    /// Number of invitations.
    invitations: u32,
    /// Number of invitations in this phase.
    invited: u32,
    /// Number of the next notice to earlier releases.
    next_notice: usize,
    /// Nodes that claimed another release once, with the release; the oldest first, at most [`releases::MAX_CLAIMS`].
    release_claims: VecDeque<(NodeId, OtherRelease)>,
    /// Pending answers, at most one per node.
    replies: BTreeMap<NodeId, Reply>,
    /// Key of the cookies.
    cookies: Seeds,
    /// Start of the present second, and the number of answers to strangers in it.
    strangers: (Time, u32),
    /// Announcements of the end that are left to send; none before the end.
    end_notices: Option<EndNotices>,
    /// Maximum payload of a message.
    max_payload: u32,
    /// Reason why the payload is smaller than configured.
    shortened: Option<Shortened>,
    /// Datagrams shown to find the size that reaches all members.
    showing: Showing,
    /// True if the time of the start condition has passed.
    wait_over: bool,
    /// True if `gather_limit` has passed, and the session starts with the receivers that have joined.
    limit_over: bool,
    /// True after `finish` was called.
    finishing: bool,
    /// Bytes of the messages offered; among peers also of the messages delivered.
    offered_bytes: u64,
    /// Activity of the sender itself, for fair judgment of members.
    pulse: Pulse,
    /// True if messages made progress since the stall timer was armed.
    made_progress: bool,
    /// Lost members: those below them in the tree must be notified.
    lost: Vec<NodeId>,
    /// True if the protocol reports too few members to continue.
    too_few: bool,
    /// Deliveries that the protocol had made and the application has not taken (peers only).
    left_over: VecDeque<Delivery>,
    /// Number of repairs that the protocol has sent.
    repairs: u64,
    /// Reason for the abortion.
    failure: Option<String>,
    events: Events,
}

impl SenderSession {
    /// Creates a session that will gather. Fails if the settings are invalid; the protocol's own settings are tried
    /// by building its sender for one member.
    pub fn new(config: SenderSessionConfig, seeds: Seeds) -> Result<Self, ConfigError> {
        let settings = config.check()?;
        // The name separates the random streams of several senders with the same seed.
        let named = seeds.part("session").part(&config.name);
        let identity = Identity(named.stream("session.identity").bits());
        let session = SenderSession {
            ledger: config.earlier.ledger.clone(),
            undecided: BTreeMap::new(),
            max_payload: config.max_payload,
            shortened: None,
            showing: Showing::default(),
            config,
            settings,
            seeds: named.part("protocol"),
            phase: SenderPhase::Gathering,
            roster: Roster::default(),
            unserved: UnservedList::default(),
            wanting: BTreeSet::new(),
            reported_since: BTreeMap::new(),
            unsent: 0,
            rivals: Vec::new(),
            inner: None,
            assembly: None,
            measured: Measured::default(),
            identity,
            timers: Timers::new(),
            pending: BTreeSet::new(),
            invitations: 0,
            invited: 0,
            next_notice: 0,
            release_claims: VecDeque::new(),
            replies: BTreeMap::new(),
            cookies: named.part("cookies"),
            strangers: (Time::ZERO, 0),
            end_notices: None,
            wait_over: false,
            limit_over: false,
            finishing: false,
            offered_bytes: 0,
            pulse: Pulse::default(),
            made_progress: false,
            lost: Vec::new(),
            too_few: false,
            left_over: VecDeque::new(),
            repairs: 0,
            failure: None,
            events: Events::default(),
        };
        // Report invalid settings at once, and not when the members have joined.
        session.build(&[(NodeId(0), 0)], trial_table(session.config.protocol))?;
        Ok(session)
    }

    /// Aborts the session: announces the reason three times, a heartbeat apart, and then is [`SenderPhase::Aborted`].
    /// Does nothing once the session is over. Drain the session afterwards.
    pub fn abort(&mut self, _now: Time, reason: &str) {
        if self.is_over() {
            return;
        }
        let reason = Text::clean(reason);
        // A member that has reported keeps its result.
        for index in self.roster.active().collect::<Vec<_>>() {
            self.roster.set_outcome(index, MemberOutcome::Failed(format!("session aborted: {reason}")));
        }
        self.failure = Some(reason);
        self.announce_end(State::Aborted, self.config.heartbeat);
    }

    /// Phase of the session.
    pub fn phase(&self) -> SenderPhase {
        self.phase
    }

    /// Members in order of joining.
    pub fn members(&self) -> &[Member] {
        self.roster.members()
    }

    /// Expected names that have not joined.
    pub fn missing(&self) -> Vec<String> {
        let helpers = match &self.config.helping {
            HelperSelection::Names(names) => Some(names),
            HelperSelection::Nobody | HelperSelection::Count(_) => None,
        };
        let helpers = helpers.into_iter().flatten().filter(|name| !self.roster.has_name(name)).cloned();
        let names: BTreeSet<String> = self.missing_receivers().0.into_iter().chain(helpers).collect();
        names.into_iter().collect()
    }

    /// Receivers that the session waits for, or runs without: the expected names that have not joined, and the number
    /// of further receivers if only their number is known.
    pub fn missing_receivers(&self) -> (Vec<String>, usize) {
        match &self.config.gather {
            Gather::Names(names) => {
                (names.iter().filter(|name| !self.roster.has_name(name)).cloned().collect(), 0)
            }
            Gather::Count(count) => (Vec::new(), count.saturating_sub(self.roster.receivers())),
            Gather::Wait(_) | Gather::Silent(_) | Gather::Settle(_) | Gather::Again { .. } => (Vec::new(), 0),
        }
    }

    /// Unserved receivers: each node once, in order of appearance, at most 64.
    pub fn unserved(&self) -> &[Unserved] {
        self.unserved.list()
    }

    /// Number of unserved receivers beyond the list.
    pub fn more_unserved(&self) -> u64 {
        self.unserved.more()
    }

    /// Names of the receivers that a catch-up session is to serve: they were late, or were expelled and heard since.
    pub fn wanting(&self) -> &BTreeSet<String> {
        &self.wanting
    }

    /// Sets the number of bytes that the offered data have beyond the messages, because members have them already or
    /// need not get them.
    pub fn note_unsent(&mut self, bytes: u64) {
        self.unsent = bytes;
    }

    /// Returns true if an expelled member may do better in a catch-up session: it receives, and received something in
    /// this one.
    fn may_go_on(&self, index: usize) -> bool {
        let member = &self.roster.members()[index];
        let record = self.roster.record(index);
        member.part == MemberRole::Receives
            && (member.bytes > 0 || record.lag.has_progressed() || record.is_aside)
    }

    /// Receivers that received something, were expelled, and have not been heard since, with the time at which they
    /// were last heard, and true for members that were set aside as stragglers.
    pub fn missed(&self) -> impl Iterator<Item = (&str, Time, bool)> {
        self.roster.members().iter().enumerate().filter_map(|(index, member)| {
            let lost = matches!(member.outcome, MemberOutcome::Lost(_)) && self.may_go_on(index);
            let record = self.roster.record(index);
            let is_served = self.config.further || record.is_aside;
            let missed = lost && is_served && !self.wanting.contains(&member.name);
            missed.then_some((member.name.as_str(), record.heard, record.is_aside))
        })
    }

    /// State of the job for its next session: receivers, and members expelled so far.
    pub fn earlier(&self) -> EarlierSessions {
        let mut former = self.config.earlier.clone();
        former.sessions.push(self.config.association);
        former.ledger = self.ledger.next();
        // Reports to earlier sessions count in the next one.
        for name in self.reported_since.keys() {
            if let Some(index) = former.ledger.named(name) {
                former.ledger.entry_mut(index).verified = true;
            }
        }
        for (index, member) in self.roster.members().iter().enumerate() {
            let made_progress = self.may_go_on(index);
            if let Some(index) = former.ledger.named(&member.name) {
                let entry = former.ledger.entry_mut(index);
                entry.verified |= member.outcome == MemberOutcome::Verified;
                entry.has_some |= made_progress;
            }
        }
        // A lost member can have everything only if everything was offered, so no late report is expected before.
        if self.finishing {
            for (index, member) in self.roster.members().iter().enumerate() {
                let nonce = self.roster.record(index).nonce;
                if let MemberOutcome::Lost(_) = member.outcome {
                    former.members.insert((self.config.association, member.node, nonce), member.name.clone());
                }
            }
        }
        former
    }

    /// Number of repairs that the protocol has sent.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }

    /// Names of receivers that reported complete data to an earlier session since its end, with the time.
    pub fn reported_since(&self) -> impl Iterator<Item = (&str, Time)> {
        self.reported_since.iter().map(|(name, at)| (name.as_str(), *at))
    }

    /// Other senders heard on the group.
    pub fn rivals(&self) -> &[Rival] {
        &self.rivals
    }

    /// Reason for the abortion of the session, if it was aborted.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Number of the session.
    pub fn association(&self) -> carillon_core::AssociationId {
        self.config.association
    }

    /// Packet of a member with its token replaced by the association again.
    fn opened(&self, index: usize, datagram: &Received<'_>) -> Option<Bytes> {
        let unicast = matches!(datagram.destination, Dest::Node(_));
        if self.config.lets_relays_in() {
            // Routers read the packets that pass them, so members use no token.
            return Some(datagram.bytes.clone());
        }
        match unicast {
            true => secret::unseal(self.config.association, self.roster.record(index).token, datagram.bytes),
            // Only peers send multicast packets of the protocol.
            false => self.config.has_peers().then(|| datagram.bytes.clone()),
        }
    }

    fn is_over(&self) -> bool {
        self.end_notices.is_some() || matches!(self.phase, SenderPhase::Finished | SenderPhase::Aborted)
    }

    /// Sends an invitation now and arms the timer for the next one. The first ones of a phase follow each other more
    /// quickly, since a member that misses them would hold the others up.
    fn invite(&mut self, now: Time) {
        self.pending.insert(Pending::Invite);
        let soon = QUICK_INVITATIONS.saturating_sub(self.invited);
        self.invited = self.invited.saturating_add(1);
        self.invitations = self.invitations.wrapping_add(1);
        let gathering = self.phase == SenderPhase::Gathering;
        if gathering {
            self.showing.begin(&self.config.sizes);
            self.pending.insert(Pending::Size);
        }
        // Notices begin with the first invitation, as a session may start with the first receiver. They continue
        // later, as more receivers may come.
        let runs = matches!(self.phase, SenderPhase::Assembling | SenderPhase::Running);
        if (gathering || runs) && self.invitations % NOTICE_EVERY == 1 {
            self.next_notice = 0;
            self.pending.insert(Pending::Notice);
        }
        self.timers.arm(Timer::Invite, now + self.config.heartbeat / (1 << soon));
    }

    fn set_phase(&mut self, phase: SenderPhase) {
        if self.phase != phase {
            self.phase = phase;
            self.invited = 0;
            self.events.push(Event::StateChanged { state: phase.name() });
        }
    }

    /// Builds the protocol's sender.
    fn build(
        &self,
        members: &[(NodeId, u64)],
        helpers: HelperTable,
    ) -> Result<Box<dyn Machine>, ConfigError> {
        // Among peers this node has the first rank.
        let (role, own) = match self.config.has_peers() {
            true => (Role::Peer, Some((LOCAL_NODE, self.identity.0))),
            false => (Role::Sender, None),
        };
        let members = || own.iter().chain(members).copied();
        // A sender that is no member has no identity among them.
        let identity = own.map_or(0, |(_, identity)| identity);
        let context = BuildContext {
            association: self.config.association,
            node: LOCAL_NODE,
            sender: LOCAL_NODE,
            members: members().map(|(node, _)| node).collect(),
            helpers: helpers.into(),
            identities: Identities::agreed(identity, members().map(|(_, identity)| identity).collect()),
            addresses: self.config.addresses.clone(),
            group: self.config.group,
            seeds: self.seeds.clone(),
            bit_rate: self.config.bit_rate,
            link_overhead: self.config.link_overhead,
            max_payload: self.max_payload,
            memory: self.config.memory,
            rejoining: false,
        };
        let mut machine = (self.config.protocol.build)(role, &context, &self.config.config)?;
        match machine.as_sender() {
            Some(_) => Ok(machine),
            None => Err(ConfigError::Conflict(format!("{} has no sender", self.config.protocol.name))),
        }
    }

    /// Performs the steps that have become possible. Called after every change.
    fn advance(&mut self, now: Time) {
        if self.is_over() {
            return;
        }
        if self.phase == SenderPhase::Gathering && self.is_gathered() {
            match self.config.has_roster() {
                true => self.assemble(now),
                false => self.run(now),
            }
        }
        if self.phase == SenderPhase::Assembling {
            self.go_on_assembling(now);
        }
        // `with_inner` only collects losses, as it cannot call the machine again from inside.
        while let Some(lost) = self.lost.pop() {
            self.update_helpers(now, lost);
        }
        // The session is aborted only if nothing is delivered until the timer fires.
        if std::mem::take(&mut self.too_few) && self.phase == SenderPhase::Running {
            self.await_progress(now);
        }
        if self.phase == SenderPhase::Running {
            let inner = self.inner.as_mut().and_then(|machine| machine.as_sender());
            // Verified members count too: with them the session closes once the protocol has finished.
            let nobody = self.roster.active_count() + self.roster.verified_count() == 0;
            if nobody && !matches!(self.config.gather, Gather::Silent(_)) {
                // No member is left.
                self.announce_end(State::Finished, END_ANNOUNCEMENT_INTERVAL);
            } else if self.finishing
                && inner.is_none_or(|inner| inner.is_finished())
                && !(self.config.has_peers() && self.roster.awaits_offers())
            {
                self.close(now);
            } else if self.all_have_reported() && self.timers.armed(Timer::Rest).is_none() {
                self.timers.arm(Timer::Rest, now + PEER_ENDING_TIME);
            }
        }
        if self.phase == SenderPhase::Closing && !self.is_over() && self.roster.active_count() == 0 {
            self.announce_end(State::Finished, END_ANNOUNCEMENT_INTERVAL);
        }
    }

    /// Returns true if no peer waits for further messages.
    fn all_have_reported(&self) -> bool {
        let waits = self.roster.active_count() > 0 || self.roster.awaits_offers();
        self.finishing && self.config.has_peers() && !waits
    }

    fn is_gathered(&self) -> bool {
        let receivers = self.roster.receivers();
        // A time limit starts the session only if a receiver has joined, except one way.
        let over = receivers > 0 && (self.wait_over || self.limit_over);
        let enough = match &self.config.gather {
            Gather::Count(count) => over || receivers >= *count,
            Gather::Names(names) => {
                over || (receivers >= names.len() && names.iter().all(|name| self.roster.has_name(name)))
            }
            Gather::Silent(_) => self.wait_over,
            Gather::Wait(_) | Gather::Settle(_) => over,
            Gather::Again { awaited, .. } => {
                let all = || !awaited.is_empty() && awaited.iter().all(|name| self.roster.has_name(name));
                over || (receivers > 0 && all())
            }
        };
        // Expected helpers must have joined too, unless the limit has passed.
        enough && (self.limit_over || self.roster.helpers() >= self.config.helping.count())
    }

    /// Handles the end of the gathering time: starts with the receivers that have joined, unless that is not
    /// permitted or not possible.
    fn on_gather_limit(&mut self, now: Time) {
        let limit = self.config.gather_limit.unwrap_or_default();
        let (joined, wanted_helpers) = (self.roster.receivers(), self.config.helping.count());
        let has_helpers = self.config.protocol.helpers.allow(self.roster.helpers());
        if joined > 0 && has_helpers && !self.config.all_or_nothing {
            // `advance` does the rest.
            self.limit_over = true;
            return;
        }
        let wanted = match &self.config.gather {
            Gather::Names(_) if !self.missing().is_empty() => {
                format!("{} did not join", self.missing().join(", "))
            }
            _ if self.roster.helpers() < wanted_helpers && joined > 0 => {
                format!("{} of {wanted_helpers} helpers joined", self.roster.helpers())
            }
            Gather::Count(count) => format!("{joined} of {count} receivers joined"),
            Gather::Names(_) => "those that are expected did not join".to_owned(),
            Gather::Wait(_) | Gather::Silent(_) | Gather::Settle(_) | Gather::Again { .. } => {
                "no receiver joined".to_owned()
            }
        };
        self.abort(now, &format!("{wanted} within {}", Span::Time(limit)));
    }

    fn run(&mut self, now: Time) {
        let members = match &self.assembly {
            Some(assembly) => self.ranked(assembly).collect(),
            None => self.roster.identities().collect::<Vec<_>>(),
        };
        let table = self.assembly.as_ref().map(|assembly| assembly.table.clone()).unwrap_or_default();
        // The list of members is final now, so the datagram size is settled before the machine is built with it.
        self.settle_sizes();
        match self.build(&members, table) {
            Ok(machine) => self.inner = Some(machine),
            Err(error) => return self.abort(now, &error.to_string()),
        }
        // Timers of the earlier phases end here. `heard` arms the silence timers below.
        self.timers.clear();
        self.made_progress = false;
        self.set_phase(SenderPhase::Running);
        self.invite(now);
        for index in 0..self.roster.members().len() {
            self.heard(now, index);
        }
        self.begin_watch(now);
        self.with_inner(|inner| inner.start(now));
        // The application may finish before the session runs.
        if self.finishing {
            self.finish_inner(now);
        }
    }

    fn finish_inner(&mut self, now: Time) {
        let finished = self.with_inner(|inner| inner.as_sender().map(|sender| sender.finish(now)));
        // This member waits only for the others from now on, so messages must make progress.
        if finished.is_some() && self.config.has_peers() {
            self.timers.arm(Timer::Standstill, now + self.config.stall_timeout());
        }
    }

    /// Arms the stall timer: messages must make progress from now on.
    fn await_progress(&mut self, now: Time) {
        if self.timers.armed(Timer::Standstill).is_none() {
            self.made_progress = false;
            self.timers.arm(Timer::Standstill, now + self.config.stall_timeout());
        }
    }

    /// Handles a stall. Live members that receive no packets of the protocol, or too few members, would otherwise
    /// block the group forever.
    fn on_standstill_timeout(&mut self, now: Time) {
        let done = self.with_inner(|inner| inner.as_sender().is_none_or(|sender| sender.is_finished()));
        if self.phase != SenderPhase::Running || done != Some(false) {
            // Other members' streams are still awaited, and may be idle.
            return;
        }
        let limit = self.config.stall_timeout();
        if std::mem::take(&mut self.made_progress) {
            // Members wait only if this one has finished or is blocked. Otherwise the protocol itself repeats what
            // they miss.
            if self.finishing || self.pulse.blocked {
                self.timers.arm(Timer::Standstill, now + limit);
            }
        } else {
            self.abort(
                now,
                &format!("nothing got through for {}: too few members may be left", Span::Time(limit)),
            );
        }
    }

    fn close(&mut self, now: Time) {
        self.timers.cancel(Timer::Standstill);
        self.set_phase(SenderPhase::Closing);
        self.invite(now);
        for index in 0..self.roster.members().len() {
            let member = &self.roster.members()[index];
            let (node, bytes) = (member.node, member.bytes);
            match member.outcome {
                // The time limit for the report begins now.
                MemberOutcome::Active => self.roster.record_mut(index).mark = (bytes, now),
                // The member reported early and stayed, to send further acknowledgments.
                MemberOutcome::Verified if !self.config.has_peers() => {
                    self.replies.insert(node, Reply::ReportAck);
                }
                MemberOutcome::Verified | MemberOutcome::Failed(_) | MemberOutcome::Lost(_) => {}
            }
        }
    }

    fn announce_end(&mut self, state: State, spacing: Duration) {
        self.timers.clear();
        // The machine is dropped below, so its undelivered messages are kept for the application.
        if self.config.has_peers() {
            let mut next = || self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten();
            self.left_over = std::iter::from_fn(&mut next).collect();
        }
        // Reports show the paths after the end, so their last measurements are kept.
        self.note_paths();
        self.inner = None;
        self.pending.remove(&Pending::Roster);
        if self.config.has_peers() {
            // No member needs another any longer.
            let verified = |member: &&Member| member.outcome == MemberOutcome::Verified;
            let nodes = self.roster.members().iter().filter(verified).map(|member| member.node);
            self.replies.extend(nodes.map(|node| (node, Reply::ReportAck)));
        }
        // Reporting receivers are answered individually, while helpers only get these announcements.
        let left = if self.roster.helpers() > 0 { 2 * END_ANNOUNCEMENTS } else { END_ANNOUNCEMENTS };
        self.end_notices = Some(EndNotices { state, left, spacing });
        self.pending.insert(Pending::Invite);
        self.set_phase(SenderPhase::Closing);
    }

    /// Calls the protocol's machine, if it exists, and processes its notices and events.
    fn with_inner<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> Option<T> {
        let inner = self.inner.as_deref_mut()?;
        let result = call(inner);
        while let Some(notice) = inner.poll_notice() {
            let index = |member| self.roster.index_of(member);
            self.pulse.note(&notice);
            match notice {
                Notice::MemberLost { member } => {
                    if let Some(index) = index(member) {
                        if self.config.has_roster() {
                            self.pending.insert(Pending::Roster);
                        }
                        self.lost.push(member);
                        if self.config.has_peers()
                            && std::mem::replace(&mut self.roster.record_mut(index).expelled, true)
                        {
                            // The protocol's machine reported the loss and has announced it.
                            continue;
                        }
                        self.roster.lose(index, "stopped acknowledging".to_owned());
                    }
                    self.events.push(Event::MemberLost { member });
                }
                Notice::RepairNeeded { member, messages } => {
                    if let Some(index) = index(member) {
                        self.roster.lacks(index, messages);
                    }
                }
                Notice::Sent { repair: true, .. } => {
                    self.repairs += 1;
                    self.roster.repaired();
                }
                Notice::TooFewMembers => self.too_few |= self.config.has_peers(),
                // The application that offered the message may wait for this notice.
                Notice::Completed { .. } => self.events.notify(notice),
                Notice::Sent { .. } | Notice::LossFinal { .. } => {}
            }
        }
        // Lost members were recorded above, once.
        let others = |event: &Event| !matches!(event, Event::MemberLost { .. });
        std::iter::from_fn(|| inner.poll_event()).filter(others).for_each(|event| self.events.push(event));
        Some(result)
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Invite => match self.end_notices {
                Some(_) => _ = self.pending.insert(Pending::Invite),
                None => {
                    self.invite(now);
                    // MEASURE follows each invitation while distances are missing.
                    self.ask_distances();
                    // The roster takes several datagrams, so it is repeated only at regular heartbeats.
                    if self.invited > QUICK_INVITATIONS {
                        self.repeat_roster();
                    }
                }
            },
            Timer::GatherWait => self.wait_over = true,
            Timer::GatherLimit => self.on_gather_limit(now),
            Timer::Assemble => self.on_assemble_timeout(now),
            Timer::Standstill => self.on_standstill_timeout(now),
            // Too few peers may be left to agree on anything, which is not needed any longer.
            Timer::Rest if self.phase == SenderPhase::Running && self.all_have_reported() => self.close(now),
            Timer::Rest => {}
            Timer::Watch => self.watch(now),
            Timer::MemberSilent(node) => {
                let Some(index) = self.roster.index_of(node) else { return };
                let until = self.roster.record(index).heard + self.config.member_timeout;
                // Time in which the sender was suspended does not count.
                let rest = until.since(self.awake(now));
                if !rest.is_zero() {
                    self.timers.arm(timer, now + rest);
                } else if !self.is_needed(index) {
                    // The member has reported its result.
                } else if self.phase == SenderPhase::Gathering {
                    // The name of a removed member is free again, for example for its restarted process.
                    self.forget(now, index, UnservedReason::Silent(self.config.member_timeout));
                } else {
                    let timeout = Span::Time(self.config.member_timeout);
                    self.give_up(now, index, format!("silent for {timeout}"));
                }
            }
        }
    }
}

impl Machine for SenderSession {
    fn start(&mut self, now: Time) {
        self.events.push(Event::StateChanged { state: "gathering" });
        self.invite(now);
        if let Some(limit) = self.config.gather_limit {
            self.timers.arm(Timer::GatherLimit, now + limit);
        }
        match self.config.gather {
            Gather::Wait(wait) | Gather::Silent(wait) if wait.is_zero() => self.wait_over = true,
            Gather::Wait(wait) | Gather::Silent(wait) => self.timers.arm(Timer::GatherWait, now + wait),
            Gather::Count(_) | Gather::Names(_) | Gather::Settle(_) | Gather::Again { .. } => {}
        }
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        self.note_time(now);
        if Envelope::parse_for(protocol::SESSION, datagram.bytes).is_ok() {
            self.on_session_packet(now, datagram);
        } else if let Some(earlier) = EarlierPacket::parse(datagram.bytes) {
            self.on_earlier_release(now, datagram.source, earlier);
        } else if let Some(index) = self.roster.index_of(datagram.source) {
            if self.roster.record(index).expelled {
                self.refuse_expelled(now, index);
            } else if self.inner.is_none() {
                self.events.dropped(DropReason::OutOfWindow);
            } else if let Some(bytes) = self.opened(index, &datagram) {
                // Any packet with the token is a keepalive.
                self.heard(now, index);
                self.with_inner(|inner| inner.handle_datagram(now, Received { bytes: &bytes, ..datagram }));
            } else {
                // A stranger used the member's address.
                self.events.dropped(DropReason::NotAMember);
            }
        } else if self.config.lets_relays_in() && self.inner.is_some() {
            // A router forwards requests of members. The protocol checks their origin.
            self.with_inner(|inner| inner.handle_datagram(now, datagram));
        } else {
            self.events.dropped(DropReason::NotAMember);
        }
        self.advance(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.note_time(now);
        while let Some(timer) = self.timers.expire(now) {
            self.on_timer(now, timer);
        }
        self.with_inner(|inner| inner.handle_timeout(now));
        self.advance(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let inner = self.inner.as_ref().and_then(|inner| inner.poll_timeout());
        self.timers.next().into_iter().chain(inner).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            // Answers first: a member gets the acknowledgment of its report before the announcement of the end.
            if let Some(transmit) = self.emit_echo(buf).or_else(|| self.emit_reply(buf)) {
                return Some(transmit);
            }
            if let Some(transmit) = self.emit_pending(now, buf) {
                return Some(transmit);
            }
            // The time since the last datagram is the sender's own delay, and not the fault of a member.
            self.pulse.asked(now);
            if let Some(transmit) = self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten() {
                self.pulse.handed(now);
                return Some(transmit);
            }
            // The machine may have made a step of the session possible, which may make a packet due.
            self.advance(now);
            if self.pending.is_empty() && self.replies.is_empty() {
                return None;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.events.pop_notice()
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }

    fn held(&self) -> Option<u64> {
        self.inner.as_ref().and_then(|inner| inner.held())
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        if self.config.has_peers() { Some(self) } else { None }
    }
}

impl Receiver for SenderSession {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        if let Some(delivery) = self.left_over.pop_front() {
            return Some(delivery);
        }
        let delivery = self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten()?;
        // Own messages were counted when they were offered.
        if delivery.source != LOCAL_NODE {
            self.offered_bytes = self.offered_bytes.saturating_add(delivery.payload.len() as u64);
        }
        self.made_progress = true;
        Some(delivery)
    }
}

/// Number of invitations after the first of a phase that come sooner than a heartbeat, at doubling intervals.
const QUICK_INVITATIONS: u32 = 3;
/// Interval of notices to earlier releases, in invitations.
const NOTICE_EVERY: u32 = 5;
/// Number of announcements of the end; doubled in sessions with helpers.
const END_ANNOUNCEMENTS: u32 = 3;
/// Interval between the announcements of a successful end: just long enough that one burst of losses does not take all
/// of them.
const END_ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(10);
/// Time that a protocol of peers has for its own end after all members have reported.
const PEER_ENDING_TIME: Duration = Duration::from_secs(1);
