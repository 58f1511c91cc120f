//! The receiving side of a session.

use carillon_core::{
    AssociationId, BuildContext, Bytes, Delivery, Dest, DropReason, Duration, Event, Events, Machine,
    MessageId, NodeId, Notice, OfferError, Order, PortId, Received, Receiver, Rng, Scope, Seeds, Sender,
    Time, Timers, Transmit,
};
use carillon_wire::Envelope;
use carillon_wire::envelope::protocol;
use carillon_wire::session::{Name, Nonce, RefuseReason, State, Text};

use super::config::ReceiverSessionConfig;
use super::job::JobId;
use super::{LOCAL_NODE, secret};

mod aside;
mod asking;
mod assembling;
mod distances;
mod doubt;
mod failure;
mod guard;
mod jobs;
mod overhearing;
mod packets;
mod peers;
mod probing;
mod releases;
mod silent;
mod sizes;
mod state;
mod succession;

pub use failure::ReceiverFailure;
pub use jobs::PassedBy;
pub use peers::PeerMember;
pub use releases::OtherSender;
pub use state::ReceiverPhase;

use aside::{Aside, Other};
use guard::{Budget, Early};
use overhearing::Overhearing;
use peers::Peers;
use probing::Probing;
use releases::EarlierDecline;
use state::{Decline, Doubt, Invited, Timer};

/// Answers an invitation, receives through the protocol's own machine, and reports.
///
/// Where the members are peers and the configuration says so, it offers messages too: it is then
/// also a [`Sender`]. Such a member reports that it is done when what it offered is through.
///
/// The application tells how it gets on with [`progress`](Self::progress), and how it ended with
/// [`report`](Self::report). Until then messages are delivered as the protocol gives them.
#[derive(Debug)]
pub struct ReceiverSession {
    config: ReceiverSessionConfig,
    seeds: Seeds,
    delays: Rng,
    nonces: Seeds,
    /// How often a nonce would not do.
    attempts: u64,
    /// Of the present attempt to join.
    nonce: Nonce,
    token: AssociationId,
    phase: ReceiverPhase,
    /// A sender has said that a further session will serve it.
    later: bool,
    /// What came is not what was sent, and may be in a further session.
    damaged: bool,
    invited: Option<Invited>,
    /// Fed, asked and emptied only once this receiver has been welcomed.
    inner: Option<Box<dyn Machine>>,
    early: Early,
    budget: Budget,
    doubt: Option<Doubt>,
    /// How often the sender was asked for a sign of life that nobody else can give.
    unconfirmed: u32,
    /// Of a protocol of peers, or with helpers: who they are.
    peers: Option<Box<Peers>>,
    probing: Probing,
    timers: Timers<Timer>,
    join_due: bool,
    ask_due: bool,
    /// The wait after the next JOIN.
    join_wait: Duration,
    /// The wait after the next PRESENT.
    present_wait: Duration,
    present_due: bool,
    ready_due: bool,
    progress_due: bool,
    /// When it last said that it lives.
    progress_sent: Option<Time>,
    /// Signs of life that it gives without being asked again, and how long apart.
    unasked: (u32, Duration),
    report_due: bool,
    /// The word that it leaves, and how often it still goes out.
    leave_due: Option<(String, usize)>,
    decline_due: Option<Decline>,
    bytes: u64,
    verdict: Option<Result<(), String>>,
    acknowledged: bool,
    delivered: bool,
    /// `finish` was called.
    finishing: bool,
    /// Everything offered is through.
    offers_done: bool,
    /// Sessions not to be joined.
    aside: Aside,
    /// The session in which it is not, and of which it hears what goes by.
    overhearing: Option<Box<Overhearing>>,
    /// Number of this process, from which each job gets one of its own.
    process: Seeds,
    /// The last session that it is not in although it was invited.
    passed_by: Option<PassedBy>,
    /// A job has invited in which this receiver was verified.
    heard_done: bool,
    /// The last sender that invited and is none of those that it listens to.
    passed_over: Option<String>,
    /// The last sender whose session one that says nothing cannot follow, and why not.
    unfit: Option<(String, String)>,
    /// Who did not answer this receiver's wish to join, and how many did not.
    unanswered: Option<(String, u64)>,
    /// The last sender of another release, and the word to one from before wire versions that is still to go out.
    other_sender: Option<OtherSender>,
    earlier_decline: Option<EarlierDecline>,
    events: Events,
}

impl ReceiverSession {
    /// A receiver that waits for an invitation.
    pub fn new(config: ReceiverSessionConfig, seeds: Seeds) -> Self {
        let name = Name::clean(&config.name, "receiver");
        // Two members that were given the same seed still differ in name: waits drawn at random to be apart are.
        let named = seeds.part("session").part(&name);
        let secret = config.secret.map_or(named.clone(), |secret| Seeds::new(secret).part(&name));
        ReceiverSession {
            config: ReceiverSessionConfig { name, silence: config.silence.max(MIN_SILENCE), ..config },
            delays: named.stream("session.delay"),
            probing: Probing::new(secret.stream("session.probe")),
            process: config.process.map_or(named.clone(), Seeds::new),
            passed_by: None,
            heard_done: false,
            nonces: secret,
            attempts: 0,
            nonce: Nonce(0),
            token: AssociationId(0),
            seeds: named.part("protocol"),
            phase: ReceiverPhase::Seeking,
            invited: None,
            inner: None,
            early: Early::default(),
            budget: Budget::default(),
            doubt: None,
            unconfirmed: 0,
            peers: None,
            timers: Timers::new(),
            join_due: false,
            ask_due: false,
            join_wait: JOIN_WAIT_MIN,
            present_wait: PRESENT_WAIT_MIN,
            present_due: false,
            ready_due: false,
            progress_due: false,
            progress_sent: None,
            unasked: (0, PROGRESS_MAX),
            report_due: false,
            leave_due: None,
            decline_due: None,
            bytes: 0,
            verdict: None,
            acknowledged: false,
            delivered: false,
            finishing: false,
            offers_done: false,
            aside: Aside::default(),
            overhearing: None,
            passed_over: None,
            unfit: None,
            unanswered: None,
            later: false,
            damaged: false,
            other_sender: None,
            earlier_decline: None,
            events: Events::default(),
        }
    }

    /// The application is done: all `bytes` are written and verified, or why not. Sent until the
    /// sender acknowledges it; only the first call counts. Drain afterwards.
    pub fn report(&mut self, now: Time, bytes: u64, verdict: Result<(), String>) {
        self.conclude(now, bytes, verdict, false);
    }

    /// Likewise, when what came is not what was sent, for this reason, and may be in a further session.
    pub fn report_damaged(&mut self, now: Time, bytes: u64, reason: String) {
        self.conclude(now, bytes, Err(reason), true);
    }

    fn conclude(&mut self, now: Time, bytes: u64, verdict: Result<(), String>, damaged: bool) {
        if !self.is_busy() {
            return;
        }
        (self.bytes, self.damaged) = (bytes, damaged);
        self.verdict = Some(verdict.map_err(|reason| Text::clean(&reason)));
        self.timers.cancel(Timer::Progress);
        if self.config.silent {
            return self.end(ReceiverPhase::Finished);
        }
        self.set_phase(ReceiverPhase::Reporting);
        self.report_due = true;
        self.timers.arm(Timer::Report, now + REPORT_INTERVAL);
    }

    /// The application has dealt with this many bytes.
    pub fn progress(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// The application gives up: the sender is told, without waiting for an answer. Does
    /// nothing once the session is over. Drain afterwards.
    pub fn leave(&mut self, _now: Time, reason: &str) {
        if !matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_)) {
            let reason = Text::clean(reason);
            let times =
                self.invited.as_ref().map(|invited| if invited.member.is_some() { LEAVES } else { 1 });
            self.leave_due = times.map(|times| (reason.clone(), times));
            self.end(ReceiverPhase::Failed(ReceiverFailure::Left(reason)));
        }
    }

    /// How far the receiver is.
    pub fn phase(&self) -> ReceiverPhase {
        self.phase.clone()
    }

    /// The name of the sender that invited it.
    pub fn sender_name(&self) -> Option<&str> {
        self.invited.as_ref().map(|invited| invited.name.as_str())
    }

    /// The node of the sender that invited it.
    pub fn sender_node(&self) -> Option<NodeId> {
        self.invited.as_ref().map(|invited| invited.sender)
    }

    /// Whether the sender has said that messages are under way.
    pub fn has_started(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| matches!(invited.state, State::Running | State::Closing))
    }

    /// The number the sender gave it, once it is a member.
    pub fn member_number(&self) -> Option<u32> {
        self.invited.as_ref()?.member
    }

    /// The job of the session it was invited to, if its sender tells.
    pub fn job(&self) -> Option<JobId> {
        self.invited.as_ref()?.job
    }

    /// The session it was invited to.
    pub fn association(&self) -> Option<AssociationId> {
        self.invited.as_ref().map(|invited| invited.association)
    }

    /// The protocol of that session, if this receiver knows it.
    pub fn protocol(&self) -> Option<&'static str> {
        self.invited.as_ref()?.protocol
    }

    /// The order in which its messages are delivered.
    pub fn order(&self) -> Order {
        self.invited.as_ref().map_or(Order::Source, |invited| invited.order)
    }

    /// Whether the protocol has given up messages that this receiver lacks: they will never come.
    pub fn has_lost(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| invited.has_lost)
    }

    /// The largest payload of a message, once it was invited.
    pub fn max_payload(&self) -> Option<u32> {
        self.invited.as_ref().map(|invited| invited.max_payload)
    }

    /// Who takes part, in order of rank, from the moment this member has heard all of them; empty if
    /// they are no peers.
    pub fn peers(&self) -> &[PeerMember] {
        self.peers.as_ref().filter(|peers| peers.are_peers()).map_or(&[], |peers| peers.members())
    }

    /// The same wherever members come to know each other: also where some help.
    pub fn roster(&self) -> &[PeerMember] {
        self.peers.as_ref().map_or(&[], |peers| peers.members())
    }

    /// Whether it is settled who turns to whom: the session runs, or is over.
    pub fn has_tree(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Running | ReceiverPhase::Reporting | ReceiverPhase::Finished)
    }

    /// Those that turn to this member, of a session with helpers.
    pub fn children(&self) -> Vec<&PeerMember> {
        self.peers.as_ref().map_or_else(Vec::new, |peers| peers.turned_here())
    }

    /// Whether the sender has confirmed the report.
    pub fn report_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Whether it waits to be invited again by who has given it up.
    pub fn is_returning(&self) -> bool {
        self.config.returning.is_some()
    }

    /// Whether a sender has said that a further session will serve it.
    pub fn is_served_later(&self) -> bool {
        self.later
    }

    /// The name of the last sender that invited and is none of those that it listens to.
    pub fn passed_over(&self) -> Option<&str> {
        self.passed_over.as_deref()
    }

    /// The name of the last sender whose session this receiver, which says nothing, cannot follow, and why not.
    pub fn unfit(&self) -> Option<(&str, &str)> {
        self.unfit.as_ref().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// The name of the last sender that invited this receiver and did not answer when it asked to join,
    /// and how many there were.
    pub fn unanswered(&self) -> Option<(&str, u64)> {
        self.unanswered.as_ref().map(|(name, count)| (name.as_str(), *count))
    }

    /// Whether the sender has let it in, with its own nonce.
    fn is_welcomed(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| invited.member.is_some())
    }

    /// Whether it takes part and has not reported.
    fn is_busy(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Joining | ReceiverPhase::Assembling | ReceiverPhase::Running)
    }

    fn set_phase(&mut self, phase: ReceiverPhase) {
        if self.phase != phase {
            let state = phase.name();
            self.phase = phase;
            self.events.push(Event::StateChanged { state });
        }
    }

    /// Nothing more is to be done of itself. A finished receiver keeps its machine.
    fn end(&mut self, phase: ReceiverPhase) {
        self.timers.clear();
        (self.join_due, self.progress_due, self.report_due) = (false, false, false);
        (self.doubt, self.ask_due) = (None, false);
        self.early = Early::default();
        (self.present_due, self.ready_due) = (false, false);
        if phase != ReceiverPhase::Finished {
            self.inner = None;
        } else if self.phase != phase {
            self.note_done();
        }
        if phase == ReceiverPhase::Seeking {
            self.peers = None;
        }
        self.set_phase(phase);
    }

    fn fail(&mut self, failure: ReceiverFailure) {
        let untouched = matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining);
        // There is another one for it.
        let later = matches!(failure, ReceiverFailure::Refused(RefuseReason::Later, _));
        self.later |= later;
        let done = matches!(failure, ReceiverFailure::Refused(RefuseReason::Done, _));
        if done {
            self.later = false;
            self.remember_done(true);
        }
        if (self.config.keep_seeking || later || done) && untouched && !self.delivered {
            self.pass_by(failure);
            if let Some(invited) = self.invited.take() {
                self.aside.add(invited.association, invited.sender, FOREVER);
                if later {
                    self.begin_overhearing(invited.association, invited.sender);
                }
            }
            self.end(ReceiverPhase::Seeking);
        } else {
            self.end(ReceiverPhase::Failed(failure));
        }
    }

    /// Nobody answers here: others may.
    fn set_aside(&mut self, now: Time) {
        if let Some(invited) = self.invited.take() {
            let Invited { association, sender, largest, invitations, .. } = invited;
            let (session, seen) = ((association, sender), (largest, invitations));
            self.aside.put(Other { session, until: now + AWHILE, has_answered: false, seen });
            let count = self.unanswered.as_ref().map_or(0, |(_, count)| *count);
            self.unanswered = Some((invited.name, count + 1));
        }
        self.end(ReceiverPhase::Seeking);
    }

    /// The sender gave a sign of life.
    fn heard(&mut self, now: Time) {
        self.invited.iter_mut().for_each(|invited| invited.successor = None);
        if self.timers.armed(Timer::Silence).is_some() {
            self.timers.arm(Timer::Silence, now + self.config.silence);
        }
    }

    /// One that was not running has heard nobody, and it is nobody's fault.
    fn note_sleep(&mut self, now: Time) {
        if self.timers.armed(Timer::Silence).is_some_and(|over| now > over + ASLEEP) {
            self.unconfirmed = 0;
            self.timers.arm(Timer::Silence, now + self.config.silence);
            if !self.config.silent {
                self.timers.arm(Timer::Confirm, now + self.config.silence);
            }
        }
    }

    /// The sender gave a sign of life that nobody else can give.
    fn confirmed(&mut self, now: Time) {
        self.heard(now);
        self.unconfirmed = 0;
        if self.timers.armed(Timer::Silence).is_some() {
            self.timers.arm(Timer::Confirm, now + self.config.silence);
        }
    }

    /// A moment within the spread, later than now.
    fn spread(&mut self) -> Duration {
        self.within(SPREAD)
    }

    /// A moment within this time, later than now.
    fn within(&mut self, time: Duration) -> Duration {
        Duration::from_nanos(1 + self.delays.below(time.as_nanos() as u64))
    }

    /// The sender asks for a sign of life, which it gets at its interval; the first of them at random
    /// within one, so that those of many members never come together.
    fn show_life(&mut self, now: Time, millis: u16) {
        let interval = Duration::from_millis(millis.into()).clamp(PROGRESS_MIN, PROGRESS_MAX);
        self.unasked = (UNASKED, interval);
        if self.timers.armed(Timer::Progress).is_some() {
            return;
        }
        let at = match self.progress_sent {
            Some(sent) => now.max(sent + interval) + self.spread(),
            None => now + self.within(interval),
        };
        self.timers.arm(Timer::Progress, at);
    }

    /// Hands the machine a datagram.
    fn feed(&mut self, now: Time, datagram: Received<'_>) -> bool {
        // Among peers what those say that have nothing to send earns nothing: each would earn by all others' answers,
        // and answers would beget answers.
        let gives = |peers: &Peers| peers.gives(datagram.source);
        if self.peers.as_deref().is_none_or(gives) {
            self.budget.earn(datagram.bytes.len());
        }
        self.with_inner(|inner| inner.handle_datagram(now, datagram)).is_some()
    }

    /// Hands the machine what came before it was set to work: at once, unless there is so much to be recorded of it that
    /// the host should take that first.
    fn feed_early(&mut self, now: Time) {
        while self.events.waiting() < AT_ONCE {
            let Some((source, unicast, bytes)) = self.early.pop() else { return };
            let destination = if unicast { Dest::Node(LOCAL_NODE) } else { Dest::group(self.config.group) };
            let (ingress, scope) = (PortId(0), Scope::GLOBAL);
            self.feed(now, Received { source, destination: &destination, ingress, scope, bytes: &bytes });
        }
        if !self.early.is_empty() {
            self.timers.arm(Timer::Early, now + SOON);
        }
    }

    fn with_inner<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> Option<T> {
        let inner = self.inner.as_deref_mut()?;
        let result = call(inner);
        while let Some(notice) = inner.poll_notice() {
            let member = match notice {
                Notice::MemberLost { member } => member,
                // Whoever offered it may wait for it.
                Notice::Completed { .. } => {
                    self.events.notify(notice);
                    continue;
                }
                Notice::LossFinal { .. } => {
                    self.invited.iter_mut().for_each(|invited| invited.has_lost = true);
                    continue;
                }
                _ => continue,
            };
            // Not if it is known, or no peer. Of those who turn to helpers the sender says who is lost, to all.
            let peers = self.peers.as_mut().filter(|peers| peers.are_peers());
            if peers.is_none_or(|peers| peers.lose(member, "stopped acknowledging")) {
                self.events.push(Event::MemberLost { member });
            }
        }
        // Who is lost has been recorded above, once.
        let others = |event: &Event| !matches!(event, Event::MemberLost { .. });
        std::iter::from_fn(|| inner.poll_event()).filter(others).for_each(|event| self.events.push(event));
        if self.finishing && !self.offers_done {
            self.offers_done = inner.as_sender().is_none_or(|sender| sender.is_finished());
        }
        Some(result)
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Join if self.is_welcomed() => {
                // That it gathers no more anybody could have said.
                let Some(Invited { state, gathering, .. }) = self.invited else { return };
                if now.since(gathering) < GATHERING_LASTS {
                    self.join_due = state == State::Gathering;
                    let wait = if self.join_due { JOIN_WAIT_MAX } else { GATHERING_AGAIN };
                    self.timers.arm(Timer::Join, now + wait);
                }
            }
            Timer::Join if self.awaits_sizes() => self.timers.arm(Timer::Join, now + JOIN_WAIT_MIN),
            Timer::Join => {
                self.join_due = true;
                let wait = self.join_wait + self.spread();
                self.timers.arm(Timer::Join, now + wait);
                self.join_wait = (self.join_wait * 2).min(JOIN_WAIT_MAX);
            }
            Timer::Present => {
                self.present_due = true;
                let wait = self.present_wait + self.spread();
                self.timers.arm(Timer::Present, now + wait);
                self.present_wait = (self.present_wait * 2).min(PRESENT_WAIT_MAX);
            }
            Timer::Ready => {
                self.ready_due = true;
                self.probing.report_due |= self.probing.done;
                self.timers.arm(Timer::Ready, now + READY_INTERVAL);
            }
            Timer::Probe => self.on_probe_timer(now),
            Timer::Progress => {
                self.progress_due = true;
                self.progress_sent = Some(now);
                let (left, interval) = self.unasked;
                if left > 0 {
                    self.unasked.0 -= 1;
                    let at = now + interval + self.spread();
                    self.timers.arm(Timer::Progress, at);
                }
            }
            Timer::Ask => self.on_ask_timer(now),
            Timer::Early => self.feed_early(now),
            Timer::Confirm if self.unconfirmed < UNCONFIRMED_LIMIT => {
                self.unconfirmed += 1;
                self.ask_due = true;
                self.timers.arm(Timer::Confirm, now + self.config.silence / 16);
            }
            Timer::Report => {
                self.report_due = true;
                self.timers.arm(Timer::Report, now + REPORT_INTERVAL);
            }
            // What was received and verified is no worse for a sender that does not say so.
            Timer::Silence | Timer::Confirm if self.verdict == Some(Ok(())) => {
                self.end(ReceiverPhase::Finished);
            }
            Timer::Return => {
                if let Some(failure) = self.config.returning.take()
                    && self.phase == ReceiverPhase::Seeking
                    && !self.later
                {
                    self.end(ReceiverPhase::Failed(failure));
                }
            }
            Timer::Silence if self.config.silent && !self.delivered && self.is_busy() => {
                self.leave_alone(now + AWHILE);
            }
            Timer::Silence if !self.is_welcomed() && self.is_busy() => self.set_aside(now),
            Timer::Silence | Timer::Confirm => self.fail(ReceiverFailure::SenderSilent),
        }
    }
}

impl Machine for ReceiverSession {
    fn start(&mut self, now: Time) {
        if self.config.returning.is_some() {
            self.timers.arm(Timer::Return, now + self.config.silence);
        }
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        if self.on_other_release(now, &datagram) {
            return;
        }
        let envelope = Envelope::parse(datagram.bytes).map(|(envelope, _)| envelope);
        if envelope.is_ok_and(|envelope| envelope.protocol == protocol::SESSION) {
            return self.on_session_packet(now, datagram);
        }
        if let Ok(envelope) = envelope
            && self.overhear(now, envelope.association, &datagram)
        {
            return;
        }
        let Some(invited) = &self.invited else {
            return self.events.dropped(DropReason::Foreign);
        };
        if datagram.bytes.len() > BuildContext::max_datagram_len(invited.max_payload) {
            // What machines hold is counted in datagrams.
            return self.events.dropped(DropReason::Malformed);
        }
        let from_sender = datagram.source == invited.sender;
        let of_session = envelope.map_or(true, |envelope| envelope.association == invited.association);
        let (welcomed, relays) = (invited.member.is_some(), invited.relays);
        if !of_session {
            return self.events.dropped(DropReason::Foreign);
        }
        if !from_sender && !self.peers.as_ref().is_some_and(|peers| peers.has(datagram.source)) {
            // A router may turn requests to this receiver; the protocol looks at who may say what.
            let heard =
                (welcomed && relays).then(|| self.with_inner(|inner| inner.handle_datagram(now, datagram)));
            if heard.flatten().is_none() {
                self.events.dropped(DropReason::NotAMember);
            }
            return;
        }
        // A packet without the envelope is told apart by the protocol's own header.
        if from_sender {
            self.contradict();
        }
        if from_sender && welcomed {
            self.heard(now);
        }
        let assembling = self.phase == ReceiverPhase::Assembling;
        if assembling {
            // A peer that sends has been told that all are ready.
            self.doubt(now, State::Running, "");
        }
        if !welcomed || assembling || !self.early.is_empty() {
            if !self.early.keep(&datagram) {
                self.events.dropped(DropReason::BufferFull);
            }
        } else if !self.feed(now, datagram) {
            self.events.dropped(DropReason::Foreign);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.note_sleep(now);
        while let Some(timer) = self.timers.expire(now) {
            self.on_timer(now, timer);
        }
        if self.is_welcomed() {
            self.with_inner(|inner| inner.handle_timeout(now));
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let inner = self.inner.as_ref().filter(|_| self.is_welcomed());
        let inner = inner.and_then(|inner| inner.poll_timeout());
        self.timers.next().into_iter().chain(inner).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.config.silent {
            return self.stay_silent(now, buf);
        }
        // Distances first: what waits takes longer.
        if let Some(transmit) = self.due_probing(now, buf).or_else(|| self.due_packet(buf)) {
            return Some(transmit);
        }
        let invited = self.invited.as_ref().filter(|invited| invited.member.is_some())?;
        let (association, sender, relays) = (invited.association, invited.sender, invited.relays);
        loop {
            let transmit = self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten()?;
            if !self.budget.spend(buf.len()) {
                // As good as lost on its way.
                self.events.dropped(DropReason::BufferFull);
                buf.clear();
                continue;
            }
            // Routers read the packets that pass them.
            if transmit.dest == Dest::Node(sender) && !relays {
                secret::seal(association, self.token, buf);
            }
            return Some(transmit);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.events.pop_notice()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        if self.config.part.offers() { Some(self) } else { None }
    }
}

impl Sender for ReceiverSession {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let max = self.invited.as_ref().map_or(usize::MAX, |invited| invited.max_payload as usize);
        let over = matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_));
        if self.finishing || over || !self.config.part.offers() || self.verdict.is_some() {
            return Err(OfferError::Finished);
        }
        if payload.len() > max {
            return Err(OfferError::TooLarge { len: payload.len(), max });
        }
        let bytes = payload.len();
        let offered =
            self.with_inner(|inner| inner.as_sender().ok_or(OfferError::Finished)?.offer(now, payload));
        let message = offered.unwrap_or(Err(OfferError::Full))?;
        self.budget.offer(bytes);
        Ok(message)
    }

    fn finish(&mut self, now: Time) {
        self.finishing = true;
        self.with_inner(|inner| {
            if let Some(sender) = inner.as_sender() {
                sender.finish(now);
            }
        });
    }

    /// Whether everything offered is through.
    fn is_finished(&self) -> bool {
        self.offers_done
    }
}

impl Receiver for ReceiverSession {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let delivery = self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten()?;
        self.delivered = true;
        Some(delivery)
    }

    fn supply(&mut self, now: Time, message: MessageId, payload: Bytes) {
        self.with_inner(|inner| {
            if let Some(receiver) = inner.as_receiver() {
                receiver.supply(now, message, payload);
            }
        });
    }
}

/// Answers to the group are spread over this time, so that they do not all come at once.
const SPREAD: Duration = Duration::from_millis(20);
/// Events that may wait to be recorded when early datagrams are handed on, and when more are if they did.
const AT_ONCE: usize = 512;
const SOON: Duration = Duration::from_micros(1);
/// Bounds of the interval of PROGRESS, whatever the sender says.
const PROGRESS_MIN: Duration = Duration::from_millis(100);
const PROGRESS_MAX: Duration = Duration::from_secs(10);
/// The wait between the first two JOINs; it doubles up to the greatest.
const JOIN_WAIT_MIN: Duration = Duration::from_millis(100);
const JOIN_WAIT_MAX: Duration = Duration::from_secs(1);
/// The wait between the first two PRESENTs; it doubles up to the greatest.
const PRESENT_WAIT_MIN: Duration = Duration::from_millis(50);
const PRESENT_WAIT_MAX: Duration = Duration::from_millis(400);
/// The wait between two READYs.
const READY_INTERVAL: Duration = Duration::from_millis(200);
/// The wait between two REPORTs.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// How often a member says that it leaves, which nobody confirms.
const LEAVES: usize = 3;
/// A sender that welcomed this receiver is taken to gather as long after it was last heard to.
const GATHERING_LASTS: Duration = Duration::from_millis(1500);
/// When to look whether one that was heard to gather no more is heard to gather after all.
const GATHERING_AGAIN: Duration = Duration::from_millis(250);
/// A sender that does not answer for this long may be left for another.
const PATIENCE: Duration = Duration::from_millis(600);
/// One that never answered is not asked again for this long.
const AWHILE: Duration = Duration::from_secs(10);
const FOREVER: Time = Time::MAX;
/// Asked so often, a sixteenth of the silence time apart, a sender that is only heard is gone. Where a fifth
/// is lost at each port, three of five times the question or the answer does not arrive.
const UNCONFIRMED_LIMIT: u32 = 32;
/// So many heartbeats may be lost before a member falls silent with them.
const UNASKED: u32 = 4;
/// No sender is given up sooner, whatever is configured.
const MIN_SILENCE: Duration = Duration::from_millis(1);
/// A timer is not so late unless this receiver was not running.
const ASLEEP: Duration = Duration::from_secs(1);
