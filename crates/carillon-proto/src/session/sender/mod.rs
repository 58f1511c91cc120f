//! The sending side of a session.

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
mod watch;

use measured::Measured;
use pulse::Pulse;
pub use sizes::Shortened;
use sizes::Showing;
use state::{Assembly, Farewell, Reply, Timer};
pub use state::{Rival, SenderPhase};

/// Gathers receivers, sends through the protocol's own machine, and collects reports.
///
/// Of a protocol of peers it is a member that delivers too: then it is also a
/// [`Receiver`], whose deliveries the host takes.
///
/// It invites from [`start`](Machine::start) on. Until the gathering rule holds, [`offer`](Sender::offer) says
/// [`OfferError::Full`](carillon_core::OfferError::Full).
#[derive(Debug)]
pub struct SenderSession {
    config: SenderSessionConfig,
    /// The settings as invitations carry them.
    settings: String,
    seeds: Seeds,
    phase: SenderPhase,
    roster: Roster,
    unserved: UnservedList,
    /// The receivers of the job.
    ledger: Ledger,
    /// Nodes that may be known receivers at another address, with the time of their first JOIN.
    undecided: BTreeMap<NodeId, Time>,
    /// The names of those whom a further session is to serve.
    wanting: BTreeSet<String>,
    /// Who reported to a session before this one, since that was over, and when.
    reported_since: BTreeMap<String, Time>,
    /// Bytes that what was offered stands for and that are in no message.
    unsent: u64,
    rivals: Vec<Rival>,
    /// The protocol's machine, from the end of gathering to the beginning of the farewell.
    inner: Option<Box<dyn Machine>>,
    /// The members' agreement on who they are, if they know each other: from the end of gathering on.
    assembly: Option<Assembly>,
    measured: Measured,
    /// What names this node among peers.
    identity: Identity,
    timers: Timers<Timer>,
    invite_due: bool,
    /// How many invitations were due.
    invitations: u32,
    /// How many of them since the phase began.
    invited: u32,
    /// Number of the next notice to earlier releases; beyond the last one if none is due.
    next_notice: usize,
    /// The last node that said that it runs another release, and which.
    claimed_release: Option<(NodeId, OtherRelease)>,
    /// The roster is to be told again.
    roster_due: bool,
    /// At most one answer for each node.
    replies: BTreeMap<NodeId, Reply>,
    /// The key of the cookies.
    cookies: Seeds,
    /// Answers to strangers since this time.
    strangers: (Time, u32),
    farewell: Option<Farewell>,
    /// The largest payload of a message, and why it is not larger.
    max_payload: u32,
    shortened: Option<Shortened>,
    showing: Showing,
    wait_over: bool,
    /// `gather_limit` has passed, and the session starts without those that have not joined.
    limit_over: bool,
    /// `finish` was called.
    finishing: bool,
    offered_bytes: u64,
    /// What the sender itself does, as far as members are judged by it.
    pulse: Pulse,
    /// Something came of the messages since the standstill timer was armed.
    got_on: bool,
    /// Whom the protocol has given up: those who turned to them have to be told.
    lost: Vec<NodeId>,
    /// The protocol says that there are too few members to go on.
    too_few: bool,
    /// Among peers, what the protocol had delivered and the application has not taken.
    left_over: VecDeque<Delivery>,
    /// Packets that the protocol has sent again, or in the place of others.
    repairs: u64,
    failure: Option<String>,
    events: Events,
}

impl SenderSession {
    /// A session that will gather; an error if the settings make no sense for it. The protocol's
    /// own are tried by building its sender for one member.
    pub fn new(config: SenderSessionConfig, seeds: Seeds) -> Result<Self, ConfigError> {
        let settings = config.check()?;
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
            invite_due: false,
            invitations: 0,
            invited: 0,
            next_notice: usize::MAX,
            claimed_release: None,
            roster_due: false,
            replies: BTreeMap::new(),
            cookies: named.part("cookies"),
            strangers: (Time::ZERO, 0),
            farewell: None,
            wait_over: false,
            limit_over: false,
            finishing: false,
            offered_bytes: 0,
            pulse: Pulse::default(),
            got_on: false,
            lost: Vec::new(),
            too_few: false,
            left_over: VecDeque::new(),
            repairs: 0,
            failure: None,
            events: Events::default(),
        };
        // What is wrong with the settings is said at once, and not when the members have come.
        session.build(&[(NodeId(0), 0)], trial_table(session.config.protocol))?;
        Ok(session)
    }

    /// Gives the session up: tells the group why, three times a heartbeat apart, and is then
    /// [`SenderPhase::Aborted`]. Does nothing once the session is over. Drain afterwards.
    pub fn abort(&mut self, _now: Time, reason: &str) {
        if self.is_over() {
            return;
        }
        let reason = Text::clean(reason);
        for index in self.roster.active().collect::<Vec<_>>() {
            self.roster.set_outcome(index, MemberOutcome::Failed(format!("session aborted: {reason}")));
        }
        self.failure = Some(reason);
        self.say_farewell(State::Aborted, self.config.heartbeat);
    }

    /// How far the session is.
    pub fn phase(&self) -> SenderPhase {
        self.phase
    }

    /// The members in order of joining.
    pub fn members(&self) -> &[Member] {
        self.roster.members()
    }

    /// The expected names that have not joined.
    pub fn missing(&self) -> Vec<String> {
        let helpers = match &self.config.helping {
            HelperSelection::Names(names) => Some(names),
            HelperSelection::Nobody | HelperSelection::Count(_) => None,
        };
        let helpers = helpers.into_iter().flatten().filter(|name| !self.roster.has_name(name)).cloned();
        let names: BTreeSet<String> = self.missing_receivers().0.into_iter().chain(helpers).collect();
        names.into_iter().collect()
    }

    /// Receivers that the session waits for, or runs without: the expected names that have not joined, and the number of further
    /// receivers if only their number is known.
    pub fn missing_receivers(&self) -> (Vec<String>, usize) {
        match &self.config.gather {
            Gather::Names(names) => {
                (names.iter().filter(|name| !self.roster.has_name(name)).cloned().collect(), 0)
            }
            Gather::Count(count) => (Vec::new(), count.saturating_sub(self.roster.receivers())),
            Gather::Wait(_) | Gather::Silent(_) | Gather::Settle(_) | Gather::Again { .. } => (Vec::new(), 0),
        }
    }

    /// Who spoke up and is not served: each node once, in order of appearance, at most 64.
    pub fn unserved(&self) -> &[Unserved] {
        self.unserved.list()
    }

    /// How many more there were than have a place in the list.
    pub fn more_unserved(&self) -> u64 {
        self.unserved.more()
    }

    /// The names of those whom a further session is to serve, if one follows: they came late, or were given up, and have been
    /// heard since.
    pub fn wanting(&self) -> &BTreeSet<String> {
        &self.wanting
    }

    /// What the application has offered stands for so many bytes more than are in its messages: members have them from before,
    /// or need not be sent them.
    pub fn note_unsent(&mut self, bytes: u64) {
        self.unsent = bytes;
    }

    /// Whether a member that was given up may do better in a further session: it receives, and got something in this one.
    fn may_go_on(&self, index: usize) -> bool {
        let member = &self.roster.members()[index];
        let record = self.roster.record(index);
        member.part == MemberRole::Receives && (member.bytes > 0 || record.hold.got_on() || record.is_aside)
    }

    /// Receivers that got something, were given up, and have not been heard since, with the time when they were heard last.
    pub fn missed(&self) -> impl Iterator<Item = (&str, Time)> {
        self.roster.members().iter().enumerate().filter_map(|(index, member)| {
            let lost = matches!(member.outcome, MemberOutcome::Lost(_)) && self.may_go_on(index);
            let is_served = self.config.further || self.roster.record(index).is_aside;
            let missed = lost && is_served && !self.wanting.contains(&member.name);
            missed.then(|| (member.name.as_str(), self.roster.record(index).heard))
        })
    }

    /// Those whom this session, and those before it, have given up, for the next one.
    pub fn earlier(&self) -> EarlierSessions {
        let mut former = self.config.earlier.clone();
        former.sessions.push(self.config.association);
        former.ledger = self.ledger.next();
        for name in self.reported_since.keys() {
            if let Some(index) = former.ledger.named(name) {
                former.ledger.entry_mut(index).verified = true;
            }
        }
        for (index, member) in self.roster.members().iter().enumerate() {
            let got_on = self.may_go_on(index);
            if let Some(index) = former.ledger.named(&member.name) {
                let entry = former.ledger.entry_mut(index);
                entry.verified |= member.outcome == MemberOutcome::Verified;
                entry.has_some |= got_on;
            }
        }
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

    /// Packets that the protocol has sent again, or in the place of others.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }

    /// The names of those of sessions before this one that have said since that they have everything, verified, and when.
    pub fn reported_since(&self) -> impl Iterator<Item = (&str, Time)> {
        self.reported_since.iter().map(|(name, at)| (name.as_str(), *at))
    }

    /// Other senders that were heard on the group.
    pub fn rivals(&self) -> &[Rival] {
        &self.rivals
    }

    /// Why the session was aborted, if it was.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The session's number.
    pub fn association(&self) -> carillon_core::AssociationId {
        self.config.association
    }

    /// What a member sent through the protocol, as it was before it was marked as its own.
    fn opened(&self, index: usize, datagram: &Received<'_>) -> Option<Bytes> {
        let unicast = matches!(datagram.destination, Dest::Node(_));
        if self.config.lets_relays_in() {
            // Routers read the packets that pass them, so that they are not marked.
            return Some(datagram.bytes.clone());
        }
        match unicast {
            true => secret::unseal(self.config.association, self.roster.record(index).token, datagram.bytes),
            // Only peers have anything to say to the group.
            false => self.config.has_peers().then(|| datagram.bytes.clone()),
        }
    }

    fn is_over(&self) -> bool {
        self.farewell.is_some() || matches!(self.phase, SenderPhase::Finished | SenderPhase::Aborted)
    }

    /// An invitation is due now, and the next one a heartbeat later; sooner when a phase has just begun: whoever did not
    /// hear that would hold the others up.
    fn invite(&mut self, now: Time) {
        self.invite_due = true;
        let soon = QUICK.saturating_sub(self.invited);
        self.invited = self.invited.saturating_add(1);
        self.invitations = self.invitations.wrapping_add(1);
        let gathering = self.phase == SenderPhase::Gathering;
        if gathering {
            self.showing.begin(&self.config.sizes);
        }
        // From the first on: a session may start with the first receiver that joins. Later too: others may come.
        let runs = matches!(self.phase, SenderPhase::Assembling | SenderPhase::Running);
        if (gathering || runs) && self.invitations % NOTICE_EVERY == 1 {
            self.next_notice = 0;
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
        // Among peers this node is the first.
        let (role, own) = match self.config.has_peers() {
            true => (Role::Peer, Some((LOCAL_NODE, self.identity.0))),
            false => (Role::Sender, None),
        };
        let members = || own.iter().chain(members).copied();
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

    /// Does what has become possible; called after every change.
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
        while let Some(lost) = self.lost.pop() {
            self.update_helpers(now, lost);
        }
        if std::mem::take(&mut self.too_few) && self.phase == SenderPhase::Running {
            self.await_progress(now);
        }
        if self.phase == SenderPhase::Running {
            let inner = self.inner.as_mut().and_then(|machine| machine.as_sender());
            let nobody = self.roster.active_count() + self.roster.verified_count() == 0;
            if nobody && !matches!(self.config.gather, Gather::Silent(_)) {
                // Nobody is left to send to.
                self.say_farewell(State::Finished, FAREWELL_SPACING);
            } else if self.finishing
                && inner.is_none_or(|inner| inner.is_finished())
                && !(self.config.has_peers() && self.roster.awaits_offers())
            {
                self.close(now);
            } else if self.all_have_reported() && self.timers.armed(Timer::Rest).is_none() {
                self.timers.arm(Timer::Rest, now + REST);
            }
        }
        if self.phase == SenderPhase::Closing && !self.is_over() && self.roster.active_count() == 0 {
            self.say_farewell(State::Finished, FAREWELL_SPACING);
        }
    }

    /// Whether no peer waits for anything that is to come.
    fn all_have_reported(&self) -> bool {
        let waits = self.roster.active_count() > 0 || self.roster.awaits_offers();
        self.finishing && self.config.has_peers() && !waits
    }

    fn is_gathered(&self) -> bool {
        let receivers = self.roster.receivers();
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
        enough && (self.limit_over || self.roster.helpers() >= self.config.helping.count())
    }

    /// The time for gathering is over: starts with those that have joined, unless they may not or cannot do without the others.
    fn on_gather_limit(&mut self, now: Time) {
        let limit = self.config.gather_limit.unwrap_or_default();
        let (joined, wanted_helpers) = (self.roster.receivers(), self.config.helping.count());
        let has_helpers = self.config.protocol.helpers.allow(self.roster.helpers());
        if joined > 0 && has_helpers && !self.config.all_or_nothing {
            // What follows from it `advance` does.
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
        self.settle_sizes();
        match self.build(&members, table) {
            Ok(machine) => self.inner = Some(machine),
            Err(error) => return self.abort(now, &error.to_string()),
        }
        self.timers.clear();
        self.got_on = false;
        self.set_phase(SenderPhase::Running);
        self.invite(now);
        for index in 0..self.roster.members().len() {
            self.heard(now, index);
        }
        self.begin_watch(now);
        self.with_inner(|inner| inner.start(now));
        if self.finishing {
            self.finish_inner(now);
        }
    }

    fn finish_inner(&mut self, now: Time) {
        let finished = self.with_inner(|inner| inner.as_sender().map(|sender| sender.finish(now)));
        if finished.is_some() && self.config.has_peers() {
            self.timers.arm(Timer::Standstill, now + self.config.stall_timeout());
        }
    }

    /// From now on something has to come of the messages before long.
    fn await_progress(&mut self, now: Time) {
        if self.timers.armed(Timer::Standstill).is_none() {
            self.got_on = false;
            self.timers.arm(Timer::Standstill, now + self.config.stall_timeout());
        }
    }

    /// Members that live but hear no packet of the protocol, or too few of them to go on, would keep
    /// the group waiting for good.
    fn on_standstill_timeout(&mut self, now: Time) {
        let done = self.with_inner(|inner| inner.as_sender().is_none_or(|sender| sender.is_finished()));
        if self.phase != SenderPhase::Running || done != Some(false) {
            // What is still awaited is others' business: their streams may be silent.
            return;
        }
        let limit = self.config.stall_timeout();
        if std::mem::take(&mut self.got_on) {
            // Nobody waits before it has finished, or has more than the protocol takes, or the protocol says again what it lacks.
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
                MemberOutcome::Active => self.roster.record_mut(index).mark = (bytes, now),
                // It reported early and was kept waiting, so that it went on acknowledging.
                MemberOutcome::Verified if !self.config.has_peers() => {
                    self.replies.insert(node, Reply::ReportAck);
                }
                MemberOutcome::Verified | MemberOutcome::Failed(_) | MemberOutcome::Lost(_) => {}
            }
        }
    }

    fn say_farewell(&mut self, state: State, spacing: Duration) {
        self.timers.clear();
        if self.config.has_peers() {
            let mut next = || self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten();
            self.left_over = std::iter::from_fn(&mut next).collect();
        }
        self.note_paths();
        self.inner = None;
        self.roster_due = false;
        if self.config.has_peers() {
            // Nobody needs anybody any more.
            let verified = |member: &&Member| member.outcome == MemberOutcome::Verified;
            let nodes = self.roster.members().iter().filter(verified).map(|member| member.node);
            self.replies.extend(nodes.map(|node| (node, Reply::ReportAck)));
        }
        // Receivers that report are answered one by one; helpers have nothing but this.
        let left = if self.roster.helpers() > 0 { 2 * FAREWELLS } else { FAREWELLS };
        self.farewell = Some(Farewell { state, left, spacing });
        self.invite_due = true;
        self.set_phase(SenderPhase::Closing);
    }

    /// Calls the protocol's machine, if there is one, does what it gives notice of, and takes over its events.
    fn with_inner<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> Option<T> {
        let inner = self.inner.as_deref_mut()?;
        let result = call(inner);
        while let Some(notice) = inner.poll_notice() {
            let index = |member| self.roster.index_of(member);
            self.pulse.note(&notice);
            match notice {
                Notice::MemberLost { member } => {
                    if let Some(index) = index(member) {
                        self.roster_due |= self.config.has_roster();
                        self.lost.push(member);
                        if self.config.has_peers()
                            && std::mem::replace(&mut self.roster.record_mut(index).expelled, true)
                        {
                            // It has been told of this one, and tells so.
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
                // Whoever offered it may wait for it.
                Notice::Completed { .. } => self.events.notify(notice),
                Notice::Sent { .. } | Notice::LossFinal { .. } => {}
            }
        }
        // Who is lost has been recorded above, once.
        let others = |event: &Event| !matches!(event, Event::MemberLost { .. });
        std::iter::from_fn(|| inner.poll_event()).filter(others).for_each(|event| self.events.push(event));
        Some(result)
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Invite => match self.farewell {
                Some(_) => self.invite_due = true,
                None => {
                    self.invite(now);
                    self.ask_distances();
                    if self.invited > QUICK {
                        self.repeat_roster();
                    }
                }
            },
            Timer::GatherWait => self.wait_over = true,
            Timer::GatherLimit => self.on_gather_limit(now),
            Timer::Assemble => self.on_assemble_timeout(now),
            Timer::Standstill => self.on_standstill_timeout(now),
            // They may be too few to agree on anything more, and need not.
            Timer::Rest if self.phase == SenderPhase::Running && self.all_have_reported() => self.close(now),
            Timer::Rest => {}
            Timer::Watch => self.watch(now),
            Timer::MemberSilent(node) => {
                let Some(index) = self.roster.index_of(node) else { return };
                let until = self.roster.record(index).heard + self.config.member_timeout;
                let rest = until.since(self.awake(now));
                if !rest.is_zero() {
                    self.timers.arm(timer, now + rest);
                } else if !self.is_needed(index) {
                    // It has said what became of it.
                } else if self.phase == SenderPhase::Gathering {
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
                self.heard(now, index);
                self.with_inner(|inner| inner.handle_datagram(now, Received { bytes: &bytes, ..datagram }));
            } else {
                // Somebody else, in its name.
                self.events.dropped(DropReason::NotAMember);
            }
        } else if self.config.lets_relays_in() && self.inner.is_some() {
            // What a router asks for it asks for members; the protocol looks at who may say what.
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
            // Answers first: a member learns that its report arrived before it hears that all is over.
            if let Some(transmit) = self.emit_echo(buf).or_else(|| self.emit_reply(buf)) {
                return Some(transmit);
            }
            if self.invite_due {
                return Some(self.emit_invite(now, buf));
            }
            if self.emit_notice(buf) {
                return Some(Transmit::now(Dest::group(self.config.group)));
            }
            // The longest datagram shown is the last that goes out now.
            if let Some(transmit) = self.emit_size(buf) {
                return Some(transmit);
            }
            if let Some(transmit) = self.emit_roster(buf).or_else(|| self.emit_measure(buf)) {
                return Some(transmit);
            }
            self.pulse.asked(now);
            if let Some(transmit) = self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten() {
                self.pulse.handed(now);
                return Some(transmit);
            }
            self.advance(now);
            if !self.invite_due && self.replies.is_empty() && !self.roster_due {
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
        if delivery.source != LOCAL_NODE {
            self.offered_bytes = self.offered_bytes.saturating_add(delivery.payload.len() as u64);
        }
        self.got_on = true;
        Some(delivery)
    }
}

/// So many invitations follow the first of a phase sooner than a heartbeat, each after twice the time of the one before.
const QUICK: u32 = 3;
/// Earlier releases are told with each so many invitations.
const NOTICE_EVERY: u32 = 5;
/// How often the group is told that the session is over; twice as often where some help.
const FAREWELLS: u32 = 3;
/// The time between the farewells of a session that went well: just long enough that one burst of
/// losses does not take all.
const FAREWELL_SPACING: Duration = Duration::from_millis(10);
/// A protocol of peers may take so long to its own end when all members have reported.
const REST: Duration = Duration::from_secs(1);
