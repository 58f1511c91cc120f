//! The receiving side of a session.

use std::collections::VecDeque;
use std::fmt;

use carillon_core::{
    AssociationId, BuildContext, Config, Delivery, Dest, DropReason, Duration, Event, Events, Machine,
    NodeId, Received, Receiver, Rng, Role, Seeds, Time, Timers, Transmit,
};
use carillon_wire::Envelope;
use carillon_wire::envelope::protocol;
use carillon_wire::session::{Body, Invite, Name, Nonce, Packet, RefuseReason, State, Text};

use super::LOCAL_NODE;
use super::config::ReceiverSessionConfig;

/// Answers an invitation, receives through the protocol's own machine, and reports.
///
/// The application tells how it gets on with [`progress`](Self::progress), and how it ended with
/// [`report`](Self::report). Until then messages are delivered as the protocol gives them.
#[derive(Debug)]
pub struct ReceiverSession {
    config: ReceiverSessionConfig,
    seeds: Seeds,
    delays: Rng,
    nonce: Nonce,
    phase: ReceiverPhase,
    invited: Option<Invited>,
    inner: Option<Box<dyn Machine>>,
    timers: Timers<Timer>,
    join_due: bool,
    /// The wait after the next JOIN.
    join_wait: Duration,
    progress_due: bool,
    report_due: bool,
    leave_due: Option<String>,
    bytes: u64,
    verdict: Option<Result<(), String>>,
    acknowledged: bool,
    delivered: bool,
    /// Sessions not to be joined, oldest first.
    ignored: VecDeque<AssociationId>,
    events: Events,
}

/// How far a [`ReceiverSession`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverPhase {
    /// Waits for an invitation.
    Seeking,
    /// Was invited, and asks to be a member.
    Joining,
    /// Is a member.
    Running,
    /// Tells the sender how it ended.
    Reporting,
    /// Has reported; see [`ReceiverSession::report_acknowledged`]. Its protocol machine goes on
    /// answering the sender as long as the host drives it.
    Finished,
    /// It will get nothing more from this session.
    Failed(ReceiverFailure),
}

/// Why a receiver will get nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverFailure {
    /// The sender did not let it in; with the sender's own words, if any.
    Refused(RefuseReason, String),
    /// The sender has not been heard for too long.
    SenderSilent,
    /// The sender gave the session up, and why.
    Aborted(String),
    /// The sender gave this receiver up.
    Expelled,
    /// It cannot do what the invitation asks, and why.
    BadInvitation(String),
    /// The application left, and why.
    Left(String),
}

/// The session it was invited to.
#[derive(Debug)]
struct Invited {
    association: AssociationId,
    sender: NodeId,
    name: String,
    state: State,
    /// Its member number, once it is a member.
    member: Option<u32>,
}

/// The receiver's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The next JOIN is due.
    Join,
    /// An answer to a closing heartbeat is due.
    Progress,
    /// The next REPORT is due.
    Report,
    /// The sender has been silent too long.
    Silence,
}

impl ReceiverSession {
    /// A receiver that waits for an invitation.
    pub fn new(config: ReceiverSessionConfig, seeds: Seeds) -> Self {
        let name = Name::clean(&config.name, "receiver");
        // Two receivers that were given the same seed by mistake still differ in name.
        let named = seeds.part("session").part(&name);
        ReceiverSession {
            config: ReceiverSessionConfig { name, ..config },
            delays: named.stream("session.delay"),
            nonce: Nonce(named.stream("session.nonce").bits()),
            seeds,
            phase: ReceiverPhase::Seeking,
            invited: None,
            inner: None,
            timers: Timers::new(),
            join_due: false,
            join_wait: JOIN_WAIT_MIN,
            progress_due: false,
            report_due: false,
            leave_due: None,
            bytes: 0,
            verdict: None,
            acknowledged: false,
            delivered: false,
            ignored: VecDeque::new(),
            events: Events::default(),
        }
    }

    /// The application is done: all `bytes` are written and verified, or why not. Sent until the
    /// sender acknowledges it; only the first call counts. Drain afterwards.
    pub fn report(&mut self, now: Time, bytes: u64, verdict: Result<(), String>) {
        if !matches!(self.phase, ReceiverPhase::Joining | ReceiverPhase::Running) {
            return;
        }
        self.bytes = bytes;
        self.verdict = Some(verdict.map_err(|reason| Text::clean(&reason)));
        self.timers.cancel(Timer::Progress);
        self.set_phase(ReceiverPhase::Reporting);
        self.report_due = true;
        self.timers.arm(Timer::Report, now + REPORT_INTERVAL);
    }

    /// The application has dealt with this many bytes.
    pub fn progress(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// The application gives up: the sender is told once, without waiting for an answer. Does
    /// nothing once the session is over. Drain afterwards.
    pub fn leave(&mut self, _now: Time, reason: &str) {
        if !matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_)) {
            let reason = Text::clean(reason);
            self.leave_due = self.invited.is_some().then(|| reason.clone());
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

    /// The number the sender gave it, once it is a member.
    pub fn member_number(&self) -> Option<u32> {
        self.invited.as_ref()?.member
    }

    /// The session it was invited to.
    pub fn association(&self) -> Option<AssociationId> {
        self.invited.as_ref().map(|invited| invited.association)
    }

    /// Whether the sender has confirmed the report.
    pub fn report_acknowledged(&self) -> bool {
        self.acknowledged
    }

    fn set_phase(&mut self, phase: ReceiverPhase) {
        if self.phase != phase {
            let state = match &phase {
                ReceiverPhase::Seeking => "seeking",
                ReceiverPhase::Joining => "joining",
                ReceiverPhase::Running => "running",
                ReceiverPhase::Reporting => "reporting",
                ReceiverPhase::Finished => "finished",
                ReceiverPhase::Failed(_) => "failed",
            };
            self.phase = phase;
            self.events.push(Event::StateChanged { state });
        }
    }

    /// Nothing more is to be done of itself. A finished receiver keeps its machine.
    fn end(&mut self, phase: ReceiverPhase) {
        self.timers.clear();
        (self.join_due, self.progress_due, self.report_due) = (false, false, false);
        if phase != ReceiverPhase::Finished {
            self.inner = None;
        }
        self.set_phase(phase);
    }

    fn fail(&mut self, failure: ReceiverFailure) {
        let untouched = matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining);
        if self.config.keep_seeking && untouched && !self.delivered {
            if let Some(invited) = self.invited.take() {
                self.ignore(invited.association);
            }
            self.end(ReceiverPhase::Seeking);
        } else {
            self.end(ReceiverPhase::Failed(failure));
        }
    }

    fn ignore(&mut self, association: AssociationId) {
        if self.ignored.len() >= MAX_IGNORED {
            self.ignored.pop_front();
        }
        self.ignored.push_back(association);
    }

    /// The sender gave a sign of life.
    fn heard(&mut self, now: Time) {
        if self.timers.armed(Timer::Silence).is_some() {
            self.timers.arm(Timer::Silence, now + self.config.silence);
        }
    }

    /// A moment within the spread, later than now.
    fn spread(&mut self) -> Duration {
        Duration::from_nanos(1 + self.delays.below(SPREAD.as_nanos() as u64))
    }

    fn with_inner<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> Option<T> {
        let inner = self.inner.as_deref_mut()?;
        let result = call(inner);
        while let Some(event) = inner.poll_event() {
            self.events.push(event);
        }
        Some(result)
    }

    fn on_session_packet(&mut self, now: Time, source: NodeId, bytes: &[u8]) {
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(_) => return self.events.dropped(DropReason::Malformed),
        };
        let Some(invited) = &self.invited else {
            return match packet.body {
                Body::Invite(invite) => self.on_invitation(now, source, packet.association, &invite),
                _ => self.events.dropped(DropReason::Foreign),
            };
        };
        if packet.association != invited.association {
            return self.events.dropped(DropReason::Foreign);
        }
        if source != invited.sender {
            return self.events.dropped(DropReason::NotAMember);
        }
        match packet.body {
            Body::Invite(invite) => {
                self.heard(now);
                self.on_heartbeat(now, &invite);
            }
            Body::Welcome { nonce, .. } | Body::Refuse { nonce, .. } | Body::ReportAck { nonce }
                if nonce != self.nonce =>
            {
                self.events.dropped(DropReason::NotAMember);
            }
            Body::Welcome { member, .. } => {
                self.heard(now);
                self.on_welcome(now, member);
            }
            Body::Refuse { reason, text, .. } => {
                self.heard(now);
                self.on_refuse(reason, &text);
            }
            Body::ReportAck { .. } if self.phase == ReceiverPhase::Reporting => {
                self.acknowledged = true;
                self.end(ReceiverPhase::Finished);
            }
            Body::ReportAck { .. } => self.events.dropped(DropReason::Duplicate),
            Body::Join { .. } | Body::Progress { .. } | Body::Report { .. } | Body::Leave { .. } => {
                self.events.dropped(DropReason::NotAMember);
            }
        }
    }

    /// An invitation while it belongs to no session.
    fn on_invitation(&mut self, now: Time, source: NodeId, association: AssociationId, invite: &Invite<'_>) {
        if self.phase != ReceiverPhase::Seeking || self.ignored.contains(&association) {
            return self.events.dropped(DropReason::Foreign);
        }
        match invite.state {
            State::Gathering => {}
            State::Running if !self.config.keep_seeking => {
                return self.fail(ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new()));
            }
            // Over, or as good as over: the next one may be for this receiver.
            State::Running | State::Closing | State::Finished | State::Aborted => {
                return self.events.dropped(DropReason::Foreign);
            }
        }
        let name = invite.sender.to_string();
        self.invited = Some(Invited { association, sender: source, name, state: invite.state, member: None });
        match self.build(source, association, invite) {
            Ok(inner) => self.inner = Some(inner),
            Err(reason) => return self.fail(ReceiverFailure::BadInvitation(reason)),
        }
        self.set_phase(ReceiverPhase::Joining);
        self.join_wait = JOIN_WAIT_MIN;
        let delay = self.spread();
        self.timers.arm(Timer::Join, now + delay);
        self.timers.arm(Timer::Silence, now + self.config.silence);
    }

    fn build(
        &self,
        sender: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) -> Result<Box<dyn Machine>, String> {
        let Some(entry) = self.config.protocols.iter().find(|entry| entry.name == &*invite.protocol) else {
            return Err(format!("this receiver does not know the protocol \"{}\"", invite.protocol));
        };
        if invite.max_payload > self.config.receive_buffer {
            let (max, buffer) = (invite.max_payload, self.config.receive_buffer);
            return Err(format!("messages of {max} bytes do not fit the receive buffer of {buffer} bytes"));
        }
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in invite.settings.pairs() {
            config.set(entry.parameters, key, value).map_err(|error| error.to_string())?;
        }
        let context = BuildContext {
            association,
            node: LOCAL_NODE,
            sender,
            members: [].into(),
            group: self.config.group,
            seeds: self.seeds.clone(),
            bit_rate: self.config.bit_rate,
            link_overhead: self.config.link_overhead,
            max_payload: invite.max_payload,
        };
        let mut machine =
            (entry.build)(Role::Receiver, &context, &config).map_err(|error| error.to_string())?;
        match machine.as_receiver() {
            Some(_) => Ok(machine),
            None => Err(format!("the protocol \"{}\" has no receiver", entry.name)),
        }
    }

    /// An invitation of the session it belongs to.
    fn on_heartbeat(&mut self, now: Time, invite: &Invite<'_>) {
        let Some(invited) = &mut self.invited else { return };
        // An older heartbeat overtaken by a newer one tells nothing.
        if invite.state < invited.state {
            return;
        }
        invited.state = invite.state;
        let member = invited.member.is_some();
        if member && invite.state > State::Gathering {
            self.timers.cancel(Timer::Join);
            self.join_due = false;
        }
        let busy = matches!(self.phase, ReceiverPhase::Joining | ReceiverPhase::Running);
        let reporting = self.phase == ReceiverPhase::Reporting;
        match invite.state {
            State::Gathering | State::Running => {}
            State::Closing if busy => {
                if self.timers.armed(Timer::Progress).is_none() {
                    let delay = self.spread();
                    self.timers.arm(Timer::Progress, now + delay);
                }
            }
            // The sender asks no more; what the application reported stands.
            State::Finished | State::Aborted if reporting => self.end(ReceiverPhase::Finished),
            State::Finished if busy && member => self.fail(ReceiverFailure::Expelled),
            State::Finished if busy => {
                self.fail(ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new()));
            }
            State::Aborted if busy => self.fail(ReceiverFailure::Aborted(invite.reason.to_string())),
            State::Closing | State::Finished | State::Aborted => {}
        }
    }

    fn on_welcome(&mut self, now: Time, number: u32) {
        let Some(invited) = &mut self.invited else { return };
        if self.timers.armed(Timer::Join).is_none() {
            return self.events.dropped(DropReason::Duplicate);
        }
        invited.member = Some(number);
        if invited.state == State::Gathering {
            // A sign of life now and then, so that the sender does not start without it.
            self.timers.arm(Timer::Join, now + JOIN_WAIT_MAX);
        } else {
            self.timers.cancel(Timer::Join);
        }
        self.join_due = false;
        if self.phase == ReceiverPhase::Joining {
            self.set_phase(ReceiverPhase::Running);
        }
    }

    fn on_refuse(&mut self, reason: RefuseReason, text: &str) {
        let member = self.invited.as_ref().is_some_and(|invited| invited.member.is_some());
        match self.phase {
            ReceiverPhase::Joining | ReceiverPhase::Running => {}
            // It has everything, but for the sender it was never there.
            ReceiverPhase::Reporting if !member && reason != RefuseReason::Expelled => {}
            // The sender takes a report even from those it gave up.
            _ => return self.events.dropped(DropReason::Duplicate),
        }
        self.fail(match reason {
            RefuseReason::Expelled => ReceiverFailure::Expelled,
            reason => ReceiverFailure::Refused(reason, text.to_owned()),
        });
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Join => {
                self.join_due = true;
                let wait = self.join_wait + self.spread();
                self.timers.arm(Timer::Join, now + wait);
                self.join_wait = (self.join_wait * 2).min(JOIN_WAIT_MAX);
            }
            Timer::Progress => self.progress_due = true,
            Timer::Report => {
                self.report_due = true;
                self.timers.arm(Timer::Report, now + REPORT_INTERVAL);
            }
            // What was received and verified is no worse for a sender that does not say so.
            Timer::Silence if self.verdict == Some(Ok(())) => self.end(ReceiverPhase::Finished),
            Timer::Silence => self.fail(ReceiverFailure::SenderSilent),
        }
    }

    fn due_packet(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let invited = self.invited.as_ref()?;
        let nonce = self.nonce;
        let body = if self.join_due {
            self.join_due = false;
            let name = Name::new(&self.config.name).expect("the name was cleaned when the session was made");
            Body::Join { nonce, receive_buffer: self.config.receive_buffer, name }
        } else if self.report_due {
            self.report_due = false;
            let failure = self.verdict.as_ref().and_then(|verdict| verdict.as_ref().err());
            // The text was cleaned when the application reported.
            let text = failure.and_then(|reason| Text::new(reason)).unwrap_or_default();
            Body::Report { nonce, bytes: self.bytes, verified: failure.is_none(), text }
        } else if self.progress_due {
            self.progress_due = false;
            if self.verdict.is_some() {
                return None;
            }
            Body::Progress { nonce, bytes: self.bytes }
        } else if let Some(reason) = &self.leave_due {
            let text = Text::new(reason).unwrap_or_default();
            let body = Body::Leave { nonce, text };
            Packet { association: invited.association, body }.emit(buf);
            let dest = Dest::Node(invited.sender);
            self.leave_due = None;
            return Some(Transmit::now(dest));
        } else {
            return None;
        };
        Packet { association: invited.association, body }.emit(buf);
        Some(Transmit::now(Dest::Node(invited.sender)))
    }
}

impl Machine for ReceiverSession {
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let envelope = Envelope::parse(datagram.bytes).map(|(envelope, _)| envelope);
        if envelope.is_ok_and(|envelope| envelope.protocol == protocol::SESSION) {
            return self.on_session_packet(now, datagram.source, datagram.bytes);
        }
        let Some(invited) = &self.invited else {
            return self.events.dropped(DropReason::Foreign);
        };
        if datagram.source != invited.sender {
            return self.events.dropped(DropReason::NotAMember);
        }
        // A packet without the envelope is told apart by the protocol's own header.
        if envelope.is_err() || envelope.is_ok_and(|e| e.association == invited.association) {
            self.heard(now);
        }
        if self.with_inner(|inner| inner.handle_datagram(now, datagram)).is_none() {
            self.events.dropped(DropReason::Foreign);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.expire(now) {
            self.on_timer(now, timer);
        }
        self.with_inner(|inner| inner.handle_timeout(now));
    }

    fn poll_timeout(&self) -> Option<Time> {
        let inner = self.inner.as_ref().and_then(|inner| inner.poll_timeout());
        self.timers.next().into_iter().chain(inner).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.due_packet(buf).or_else(|| self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for ReceiverSession {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let delivery = self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten()?;
        self.delivered = true;
        Some(delivery)
    }
}

impl std::error::Error for ReceiverFailure {}

impl fmt::Display for ReceiverFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |f: &mut fmt::Formatter<'_>, sentence: &str, text: &str| match text {
            "" => f.write_str(sentence),
            text => write!(f, "{sentence}: {text}"),
        };
        match self {
            ReceiverFailure::Refused(reason, text) => {
                let sentence = match reason {
                    RefuseReason::AlreadyStarted => "the session started without this receiver",
                    RefuseReason::NameTaken => "another receiver has joined under the same name",
                    RefuseReason::NotExpected => "the sender expects no receiver of this name",
                    RefuseReason::Full => "the session takes no more receivers",
                    RefuseReason::Expelled => "the sender has given this receiver up",
                };
                with(f, sentence, text)
            }
            ReceiverFailure::SenderSilent => f.write_str("the sender has fallen silent"),
            ReceiverFailure::Aborted(reason) => with(f, "the sender aborted the session", reason),
            ReceiverFailure::Expelled => f.write_str("the sender has given this receiver up"),
            ReceiverFailure::BadInvitation(reason) => {
                with(f, "the sender's invitation cannot be accepted", reason)
            }
            ReceiverFailure::Left(reason) => with(f, "this receiver left the session", reason),
        }
    }
}

/// Answers to the group are spread over this time, so that they do not all come at once.
const SPREAD: Duration = Duration::from_millis(20);
/// The wait between the first two JOINs; it doubles up to the greatest.
const JOIN_WAIT_MIN: Duration = Duration::from_millis(100);
const JOIN_WAIT_MAX: Duration = Duration::from_secs(1);
/// The wait between two REPORTs.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Sessions remembered as not to be joined.
const MAX_IGNORED: usize = 16;
