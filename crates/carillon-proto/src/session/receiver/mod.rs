//! Receiver side of a session.

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

mod assembling;
mod distances;
mod failure;
mod ignored;
mod jobs;
mod overhearing;
mod packets;
mod peers;
mod probing;
mod queries;
mod releases;
mod send_budget;
mod silent;
mod sizes;
mod state;
mod succession;
mod verification;

pub use failure::ReceiverFailure;
pub use jobs::MissedSession;
pub use peers::PeerMember;
pub use releases::OtherSender;
pub use state::ReceiverPhase;

use ignored::{IgnoredSession, IgnoredSessions};
use overhearing::Overhearing;
use peers::Peers;
use probing::Probing;
use releases::EarlierDecline;
use send_budget::{EarlyDatagrams, SendBudget};
use state::{Decline, Invited, Timer, UnverifiedState};

/// Session at a receiver: it answers an invitation, receives through the protocol's machine, and reports.
///
/// Among peers it can offer messages too, and is then also a [`Sender`]. Such a member reports once its own messages
/// are complete.
///
/// The application tells its progress with [`progress`](Self::progress), and the end with [`report`](Self::report).
/// Until then messages are delivered as the protocol yields them.
#[derive(Debug)]
pub struct ReceiverSession {
    config: ReceiverSessionConfig,
    /// Random streams of the protocol's machine.
    seeds: Seeds,
    /// Random stream of the delays that spread answers.
    delays: Rng,
    /// Source of the nonces.
    nonces: Seeds,
    /// Number of nonces that collided with another member's.
    attempts: u64,
    /// Nonce of the present attempt to join.
    nonce: Nonce,
    /// Token that replaces the association in the protocol's packets to the sender.
    token: AssociationId,
    phase: ReceiverPhase,
    /// True if a sender said that a catch-up session will serve this receiver.
    later: bool,
    /// True if the data were damaged, and may be intact in a catch-up session.
    damaged: bool,
    /// Present invitation.
    invited: Option<Invited>,
    /// Machine of the protocol. It is driven only after the sender has welcomed this receiver.
    inner: Option<Box<dyn Machine>>,
    /// Datagrams of the protocol that arrived before its machine was started.
    early: EarlyDatagrams,
    /// Bytes that the protocol's machine may send.
    budget: SendBudget,
    /// Announced state that the sender has not confirmed.
    unverified: Option<UnverifiedState>,
    /// Number of consecutive queries without an authenticated answer.
    unconfirmed: u32,
    /// Other members, in a protocol with peers or helpers.
    peers: Option<Box<Peers>>,
    probing: Probing,
    timers: Timers<Timer>,
    join_due: bool,
    ask_due: bool,
    /// Wait after the next JOIN.
    join_wait: Duration,
    /// Wait after the next PRESENT.
    present_wait: Duration,
    present_due: bool,
    ready_due: bool,
    progress_due: bool,
    /// Time of the last PROGRESS.
    progress_sent: Option<Time>,
    /// Number of PROGRESS packets left to send without another heartbeat, and their interval.
    unsolicited: (u32, Duration),
    report_due: bool,
    /// Reason for leaving, and the number of LEAVE packets left to send.
    leave_due: Option<(String, usize)>,
    decline_due: Option<Decline>,
    /// Bytes that the application has processed.
    bytes: u64,
    /// Result that the application has reported.
    verdict: Option<Result<(), String>>,
    /// True if the sender has acknowledged the report.
    acknowledged: bool,
    /// True if a message was delivered.
    delivered: bool,
    /// True after `finish` was called.
    finishing: bool,
    /// True if all messages offered are complete.
    offers_done: bool,
    /// Sessions that are not joined at present.
    ignored: IgnoredSessions,
    /// Session that the receiver is not in and overhears.
    overhearing: Option<Box<Overhearing>>,
    /// Number of this process, from which each job's number is derived.
    process: Seeds,
    /// Last session that the receiver was invited to and is not in.
    missed_session: Option<MissedSession>,
    /// True if a job invited in which this receiver was verified.
    saw_done_job: bool,
    /// Name of the last sender that invited and is not among those to listen to.
    passed_over: Option<String>,
    /// Name of the last sender that a silent receiver cannot follow, with the reason.
    unfit: Option<(String, String)>,
    /// Name of the last sender that did not answer a JOIN, and the number of such senders.
    unanswered: Option<(String, u64)>,
    /// Last sender of another release.
    other_sender: Option<OtherSender>,
    /// Pending notice to a sender from before wire versions.
    earlier_decline: Option<EarlierDecline>,
    events: Events,
}

impl ReceiverSession {
    /// Creates a receiver that waits for an invitation.
    pub fn new(config: ReceiverSessionConfig, seeds: Seeds) -> Self {
        let name = Name::clean(&config.name, "receiver");
        // Two members with equal seeds still differ in name, which keeps their random waits apart.
        let named = seeds.part("session").part(&name);
        // Nonces must be unpredictable. The seeds of a repeatable run are known, so a host on a real network has a
        // secret.
        let secret = config.secret.map_or(named.clone(), |secret| Seeds::new(secret).part(&name));
        ReceiverSession {
            config: ReceiverSessionConfig { name, silence: config.silence.max(MIN_SILENCE), ..config },
            delays: named.stream("session.delay"),
            probing: Probing::new(secret.stream("session.probe")),
            process: config.process.map_or(named.clone(), Seeds::new),
            missed_session: None,
            saw_done_job: false,
            nonces: secret,
            attempts: 0,
            nonce: Nonce(0),
            token: AssociationId(0),
            seeds: named.part("protocol"),
            phase: ReceiverPhase::Seeking,
            invited: None,
            inner: None,
            early: EarlyDatagrams::default(),
            budget: SendBudget::default(),
            unverified: None,
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
            unsolicited: (0, PROGRESS_MAX),
            report_due: false,
            leave_due: None,
            decline_due: None,
            bytes: 0,
            verdict: None,
            acknowledged: false,
            delivered: false,
            finishing: false,
            offers_done: false,
            ignored: IgnoredSessions::default(),
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

    /// Reports the result of the application: all `bytes` are stored and verified, or the reason of failure. The
    /// report is repeated until the sender acknowledges it. Only the first call counts. Drain the session afterwards.
    pub fn report(&mut self, now: Time, bytes: u64, verdict: Result<(), String>) {
        self.conclude(now, bytes, verdict, false);
    }

    /// Reports that the data differ from the data sent, and may be intact in a catch-up session.
    pub fn report_damaged(&mut self, now: Time, bytes: u64, reason: String) {
        self.conclude(now, bytes, Err(reason), true);
    }

    fn conclude(&mut self, now: Time, bytes: u64, verdict: Result<(), String>, damaged: bool) {
        // The first report counts. A receiver outside a session has no sender to report to.
        if !self.is_busy() {
            return;
        }
        (self.bytes, self.damaged) = (bytes, damaged);
        self.verdict = Some(verdict.map_err(|reason| Text::clean(&reason)));
        // The repeated REPORT is the keepalive from now on.
        self.timers.cancel(Timer::Progress);
        // A silent receiver cannot report, so the verdict of its application ends the session.
        if self.config.silent {
            return self.end(ReceiverPhase::Finished);
        }
        self.set_phase(ReceiverPhase::Reporting);
        self.report_due = true;
        self.timers.arm(Timer::Report, now + REPORT_INTERVAL);
    }

    /// Records the number of bytes that the application has processed.
    pub fn progress(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Leaves the session and notifies the sender, without waiting for an answer. Does nothing once the session is
    /// over. Drain the session afterwards.
    pub fn leave(&mut self, _now: Time, reason: &str) {
        if !matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_)) {
            let reason = Text::clean(reason);
            let times =
                self.invited.as_ref().map(|invited| if invited.member.is_some() { LEAVE_REPEATS } else { 1 });
            self.leave_due = times.map(|times| (reason.clone(), times));
            // The pending LEAVE packets survive `end`: the host drains them afterwards.
            self.end(ReceiverPhase::Failed(ReceiverFailure::Left(reason)));
        }
    }

    /// Phase of the session.
    pub fn phase(&self) -> ReceiverPhase {
        self.phase.clone()
    }

    /// Name of the sender that invited this receiver.
    pub fn sender_name(&self) -> Option<&str> {
        self.invited.as_ref().map(|invited| invited.name.as_str())
    }

    /// Node of the sender that invited this receiver.
    pub fn sender_node(&self) -> Option<NodeId> {
        self.invited.as_ref().map(|invited| invited.sender)
    }

    /// Returns true if the sender has said that messages are in flight.
    pub fn has_started(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| matches!(invited.state, State::Running | State::Closing))
    }

    /// Number that the sender gave this member.
    pub fn member_number(&self) -> Option<u32> {
        self.invited.as_ref()?.member
    }

    /// Job of the session, if its sender states one.
    pub fn job(&self) -> Option<JobId> {
        self.invited.as_ref()?.job
    }

    /// Identifier of the session.
    pub fn association(&self) -> Option<AssociationId> {
        self.invited.as_ref().map(|invited| invited.association)
    }

    /// Protocol of the session, if this receiver supports it.
    pub fn protocol(&self) -> Option<&'static str> {
        self.invited.as_ref()?.protocol
    }

    /// Order in which messages are delivered.
    pub fn order(&self) -> Order {
        self.invited.as_ref().map_or(Order::Source, |invited| invited.order)
    }

    /// Returns true if the protocol gave up messages that this receiver is missing.
    pub fn has_lost(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| invited.has_lost)
    }

    /// Maximum payload of a message, once invited.
    pub fn max_payload(&self) -> Option<u32> {
        self.invited.as_ref().map(|invited| invited.max_payload)
    }

    /// Members by rank, once this member has received from all of them; empty if they are not peers.
    pub fn peers(&self) -> &[PeerMember] {
        self.peers.as_ref().filter(|peers| peers.are_peers()).map_or(&[], |peers| peers.members())
    }

    /// Members by rank, in any session with a roster, including one with helpers.
    pub fn roster(&self) -> &[PeerMember] {
        self.peers.as_ref().map_or(&[], |peers| peers.members())
    }

    /// Returns true if the assignment of members to helpers is final: the session runs or is over.
    pub fn has_tree(&self) -> bool {
        matches!(self.phase, ReceiverPhase::Running | ReceiverPhase::Reporting | ReceiverPhase::Finished)
    }

    /// Members that turn to this one, in a session with helpers.
    pub fn children(&self) -> Vec<&PeerMember> {
        self.peers.as_ref().map_or_else(Vec::new, |peers| peers.child_members())
    }

    /// Returns true if the sender has acknowledged the report.
    pub fn report_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Returns true if the receiver waits for an invitation of the sender that expelled it.
    pub fn is_returning(&self) -> bool {
        self.config.returning.is_some()
    }

    /// Returns true if a sender said that a catch-up session will serve this receiver.
    pub fn is_served_later(&self) -> bool {
        self.later
    }

    /// Name of the last sender that invited and is not among those to listen to.
    pub fn unlisted_sender(&self) -> Option<&str> {
        self.passed_over.as_deref()
    }

    /// Name of the last sender that this silent receiver cannot follow, with the reason.
    pub fn unsuitable_sender(&self) -> Option<(&str, &str)> {
        self.unfit.as_ref().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// Name of the last sender that did not answer a JOIN, and the number of such senders.
    pub fn unanswered(&self) -> Option<(&str, u64)> {
        self.unanswered.as_ref().map(|(name, count)| (name.as_str(), *count))
    }

    /// Returns true if the sender has admitted the receiver, with its own nonce.
    fn is_welcomed(&self) -> bool {
        self.invited.as_ref().is_some_and(|invited| invited.member.is_some())
    }

    /// Returns true if the receiver takes part and has not reported.
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

    /// Ends all activity of the session. A finished receiver keeps its machine, which still answers the sender.
    fn end(&mut self, phase: ReceiverPhase) {
        // Drop all packets that were scheduled for the old phase. LEAVE and DECLINE stay, as they notify the sender
        // of the end.
        self.timers.clear();
        (self.join_due, self.progress_due, self.report_due) = (false, false, false);
        (self.unverified, self.ask_due) = (None, false);
        self.early = EarlyDatagrams::default();
        (self.present_due, self.ready_due) = (false, false);
        if phase != ReceiverPhase::Finished {
            self.inner = None;
        } else if self.phase != phase {
            // A verified receiver remembers the job, so that it does not join its next session.
            self.note_done();
        }
        if phase == ReceiverPhase::Seeking {
            self.peers = None;
        }
        self.set_phase(phase);
    }

    fn fail(&mut self, failure: ReceiverFailure) {
        let untouched = matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining);
        // A catch-up session will serve this receiver.
        let later = matches!(failure, ReceiverFailure::Refused(RefuseReason::Later, _));
        self.later |= later;
        let done = matches!(failure, ReceiverFailure::Refused(RefuseReason::Done, _));
        if done {
            // Nothing is left to serve in a catch-up session.
            self.later = false;
            self.remember_done(true);
        }
        // A receiver that was never admitted, and has delivered nothing, can wait for another session. Otherwise the
        // application has to begin anew.
        if (self.config.keep_seeking || later || done) && untouched && !self.delivered {
            self.record_missed_session(failure);
            if let Some(invited) = self.invited.take() {
                // This session will not admit the receiver, so further invitations to it are ignored for good.
                self.ignored.add(invited.association, invited.sender, NO_EXPIRY);
                if later {
                    self.begin_overhearing(invited.association, invited.sender);
                }
            }
            self.end(ReceiverPhase::Seeking);
        } else {
            self.end(ReceiverPhase::Failed(failure));
        }
    }

    /// Ignores the present sender, which does not answer, so that others get a turn.
    fn ignore_unresponsive(&mut self, now: Time) {
        if let Some(invited) = self.invited.take() {
            let Invited { association, sender, largest, invitations, .. } = invited;
            // Keep the observations of datagram sizes, since this sender may get another turn.
            let (session, seen) = ((association, sender), (largest, invitations));
            self.ignored.put(IgnoredSession { session, until: now + IGNORE_TIME, has_answered: false, seen });
            let count = self.unanswered.as_ref().map_or(0, |(_, count)| *count);
            self.unanswered = Some((invited.name, count + 1));
        }
        self.end(ReceiverPhase::Seeking);
    }

    /// Restarts the silence timeout, as the sender is alive.
    fn restart_silence_timer(&mut self, now: Time) {
        // A sender that is heard in its own session has no successor.
        self.invited.iter_mut().for_each(|invited| invited.successor = None);
        // An unarmed timer means that no session is joined.
        if self.timers.armed(Timer::Silence).is_some() {
            self.timers.arm(Timer::Silence, now + self.config.silence);
        }
    }

    /// Restarts the timeouts after the process was suspended, since a suspended receiver could not hear the sender.
    fn note_suspension(&mut self, now: Time) {
        // A timer of a running process is never this late. Packets that arrived meanwhile still wait in the socket.
        if self.timers.armed(Timer::Silence).is_some_and(|over| now > over + SUSPENSION_THRESHOLD) {
            self.unconfirmed = 0;
            self.timers.arm(Timer::Silence, now + self.config.silence);
            // A silent receiver cannot ask, so it has no timer to confirm the session.
            if !self.config.silent {
                self.timers.arm(Timer::Confirm, now + self.config.silence);
            }
        }
    }

    /// Restarts the timeouts after a packet that only the sender could have sent.
    fn on_authenticated_packet(&mut self, now: Time) {
        // Any node can forge a packet to the group, which restarts only the silence timer. This packet has the nonce,
        // so it restarts both timers.
        self.restart_silence_timer(now);
        self.unconfirmed = 0;
        if self.timers.armed(Timer::Silence).is_some() {
            self.timers.arm(Timer::Confirm, now + self.config.silence);
        }
    }

    /// Random delay, which spreads the answers of many receivers.
    fn random_delay(&mut self) -> Duration {
        self.random_within(ANSWER_SPREAD)
    }

    /// Random delay of up to this time, at least 1 ns.
    fn random_within(&mut self, time: Duration) -> Duration {
        Duration::from_nanos(1 + self.delays.below(time.as_nanos() as u64))
    }

    /// Schedules PROGRESS at the interval that the sender asks for. The first one is sent at a random time within the
    /// interval, so that the packets of many members do not arrive together.
    fn schedule_progress(&mut self, now: Time, millis: u16) {
        // The interval comes from a packet that may be forged.
        let interval = Duration::from_millis(millis.into()).clamp(PROGRESS_MIN, PROGRESS_MAX);
        self.unsolicited = (MAX_UNSOLICITED_PROGRESS, interval);
        if self.timers.armed(Timer::Progress).is_some() {
            return;
        }
        // Heartbeats may come more often than the interval, so the last PROGRESS decides.
        let at = match self.progress_sent {
            Some(sent) => now.max(sent + interval) + self.random_delay(),
            None => now + self.random_within(interval),
        };
        self.timers.arm(Timer::Progress, at);
    }

    /// Passes a datagram to the machine.
    fn feed(&mut self, now: Time, datagram: Received<'_>) -> bool {
        // Packets of peers without messages earn no budget. Otherwise answers would earn budget for further answers
        // without end.
        let gives = |peers: &Peers| peers.gives(datagram.source);
        if self.peers.as_deref().is_none_or(gives) {
            self.budget.earn(datagram.bytes.len());
        }
        self.with_inner(|inner| inner.handle_datagram(now, datagram)).is_some()
    }

    /// Passes the early datagrams to the machine, until enough events are pending that the host should take them
    /// first.
    fn feed_early(&mut self, now: Time) {
        // The host takes events between two calls only, so a long backlog is passed on in portions.
        while self.events.waiting() < MAX_PENDING_EVENTS {
            let Some((source, unicast, bytes)) = self.early.pop() else { return };
            let destination = if unicast { Dest::Node(LOCAL_NODE) } else { Dest::group(self.config.group) };
            let (ingress, scope) = (PortId(0), Scope::GLOBAL);
            self.feed(now, Received { source, destination: &destination, ingress, scope, bytes: &bytes });
        }
        // The timer lets the host take the events before the next portion.
        if !self.early.is_empty() {
            self.timers.arm(Timer::Early, now + EARLY_RETRY_DELAY);
        }
    }

    fn with_inner<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> Option<T> {
        let inner = self.inner.as_deref_mut()?;
        let result = call(inner);
        while let Some(notice) = inner.poll_notice() {
            let member = match notice {
                Notice::MemberLost { member } => member,
                // The application that offered the message may wait for this notice.
                Notice::Completed { .. } => {
                    self.events.notify(notice);
                    continue;
                }
                Notice::LossFinal { .. } => {
                    self.invited.iter_mut().for_each(|invited| invited.has_lost = true);
                    continue;
                }
                // The other notices matter to the session of a sender.
                _ => continue,
            };
            // Only if the member is a known peer. In a session with helpers, the sender announces lost members to
            // all.
            let peers = self.peers.as_mut().filter(|peers| peers.are_peers());
            if peers.is_none_or(|peers| peers.lose(member, "stopped acknowledging")) {
                self.events.push(Event::MemberLost { member });
            }
        }
        // Lost members were recorded above, once.
        let others = |event: &Event| !matches!(event, Event::MemberLost { .. });
        std::iter::from_fn(|| inner.poll_event()).filter(others).for_each(|event| self.events.push(event));
        // Keep the result, since `is_finished` may be called when the machine is gone.
        if self.finishing && !self.offers_done {
            self.offers_done = inner.as_sender().is_none_or(|sender| sender.is_finished());
        }
        Some(result)
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Join if self.is_welcomed() => {
                // A stranger could have announced that gathering ended.
                let Some(Invited { state, gathering, .. }) = self.invited else { return };
                // A member repeats its JOIN as a keepalive while the sender gathers, since it sends nothing else
                // then.
                if now.since(gathering) < GATHERING_TIMEOUT {
                    self.join_due = state == State::Gathering;
                    let wait = if self.join_due { JOIN_WAIT_MAX } else { GATHERING_CHECK_INTERVAL };
                    self.timers.arm(Timer::Join, now + wait);
                }
            }
            // The JOIN states the largest datagram that has arrived, so it waits for the sizes that are still to
            // come.
            Timer::Join if self.awaits_sizes() => self.timers.arm(Timer::Join, now + JOIN_WAIT_MIN),
            Timer::Join => {
                self.join_due = true;
                let wait = self.join_wait + self.random_delay();
                self.timers.arm(Timer::Join, now + wait);
                // The wait doubles, so that many unanswered receivers do not flood the sender.
                self.join_wait = (self.join_wait * 2).min(JOIN_WAIT_MAX);
            }
            Timer::Present => {
                self.present_due = true;
                let wait = self.present_wait + self.random_delay();
                self.timers.arm(Timer::Present, now + wait);
                self.present_wait = (self.present_wait * 2).min(PRESENT_WAIT_MAX);
            }
            Timer::Ready => {
                self.ready_due = true;
                // DISTANCES goes out with each READY, since nothing acknowledges it.
                self.probing.report_due |= self.probing.done;
                self.timers.arm(Timer::Ready, now + READY_INTERVAL);
            }
            Timer::Probe => self.on_probe_timer(now),
            Timer::Progress => {
                self.progress_due = true;
                self.progress_sent = Some(now);
                let (left, interval) = self.unsolicited;
                // Some PROGRESS packets follow without a heartbeat, which may be lost. Their number is bounded, so
                // that a sender that is gone gets no endless stream of packets.
                if left > 0 {
                    self.unsolicited.0 -= 1;
                    let at = now + interval + self.random_delay();
                    self.timers.arm(Timer::Progress, at);
                }
            }
            Timer::Ask => self.on_query_timer(now),
            Timer::Early => self.feed_early(now),
            // Packets to the group arrive, but none with the nonce. They may be forged, so ask the sender itself.
            Timer::Confirm if self.unconfirmed < MAX_UNCONFIRMED_QUERIES => {
                self.unconfirmed += 1;
                self.ask_due = true;
                self.timers.arm(Timer::Confirm, now + self.config.silence / 16);
            }
            Timer::Report => {
                self.report_due = true;
                self.timers.arm(Timer::Report, now + REPORT_INTERVAL);
            }
            // Verified data stay valid if the sender does not acknowledge the report.
            Timer::Silence | Timer::Confirm if self.verdict == Some(Ok(())) => {
                self.end(ReceiverPhase::Finished);
            }
            Timer::Return => {
                // The earlier failure stands unless a sender has invited the receiver or announced a catch-up
                // session.
                if let Some(failure) = self.config.returning.take()
                    && self.phase == ReceiverPhase::Seeking
                    && !self.later
                {
                    self.end(ReceiverPhase::Failed(failure));
                }
            }
            // A session without data may be forged, so another one gets its turn.
            Timer::Silence if self.config.silent && !self.delivered && self.is_busy() => {
                self.unfollow(now + IGNORE_TIME);
            }
            // An unanswered invitation may be forged, so it is no failure.
            Timer::Silence if !self.is_welcomed() && self.is_busy() => self.ignore_unresponsive(now),
            Timer::Silence | Timer::Confirm => self.fail(ReceiverFailure::SenderSilent),
        }
    }
}

impl Machine for ReceiverSession {
    fn start(&mut self, now: Time) {
        // An expelled receiver has this long to be invited to a catch-up session.
        if self.config.returning.is_some() {
            self.timers.arm(Timer::Return, now + self.config.silence);
        }
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        // This release cannot parse packets of other wire versions, so they are recognised first.
        if self.on_other_release(now, &datagram) {
            return;
        }
        let envelope = Envelope::parse(datagram.bytes).map(|(envelope, _)| envelope);
        if envelope.is_ok_and(|envelope| envelope.protocol == protocol::SESSION) {
            return self.on_session_packet(now, datagram);
        }
        // A packet of a session that this receiver is not in may have data for the catch-up session.
        if let Ok(envelope) = envelope
            && self.overhear(now, envelope.association, &datagram)
        {
            return;
        }
        let Some(invited) = &self.invited else {
            return self.events.dropped(DropReason::Foreign);
        };
        if datagram.bytes.len() > BuildContext::max_datagram_len(invited.max_payload) {
            // Machines count memory in datagrams, so none may be longer than announced.
            return self.events.dropped(DropReason::Malformed);
        }
        let from_sender = datagram.source == invited.sender;
        // A packet without the common envelope is recognised by the protocol's own header.
        let of_session = envelope.map_or(true, |envelope| envelope.association == invited.association);
        let (welcomed, relays) = (invited.member.is_some(), invited.relays);
        if !of_session {
            return self.events.dropped(DropReason::Foreign);
        }
        if !from_sender && !self.peers.as_ref().is_some_and(|peers| peers.has(datagram.source)) {
            // A router may forward requests to this receiver. The protocol checks their origin.
            let heard =
                (welcomed && relays).then(|| self.with_inner(|inner| inner.handle_datagram(now, datagram)));
            if heard.flatten().is_none() {
                self.events.dropped(DropReason::NotAMember);
            }
            return;
        }
        // Data of the sender contradict an announced end, which a stranger may have forged.
        if from_sender {
            self.on_sender_continues();
        }
        // Before WELCOME the timer measures the time without an answer, so data do not restart it.
        if from_sender && welcomed {
            self.restart_silence_timer(now);
        }
        let assembling = self.phase == ReceiverPhase::Assembling;
        if assembling {
            // A peer that sends data was told that all members are ready.
            self.verify_state(now, State::Running, "");
        }
        // The machine gets datagrams in the order of their arrival, so new ones queue behind the kept ones.
        if !welcomed || assembling || !self.early.is_empty() {
            if !self.early.keep(&datagram) {
                self.events.dropped(DropReason::BufferFull);
            }
        } else if !self.feed(now, datagram) {
            self.events.dropped(DropReason::Foreign);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        // A suspension makes all timers late, so this check comes before they fire.
        self.note_suspension(now);
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
        // Distance probes first: waiting here would lengthen the measured time.
        if let Some(transmit) = self.due_probing(now, buf).or_else(|| self.due_packet(buf)) {
            return Some(transmit);
        }
        // No packet of the protocol goes out before the sender has admitted this receiver.
        let invited = self.invited.as_ref().filter(|invited| invited.member.is_some())?;
        let (association, sender, relays) = (invited.association, invited.sender, invited.relays);
        loop {
            let transmit = self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten()?;
            if !self.budget.spend(buf.len()) {
                // Treat the packet as lost.
                self.events.dropped(DropReason::BufferFull);
                buf.clear();
                continue;
            }
            // Routers read the packets that pass them, so the token must not replace the association.
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
        // No machine exists before the session runs, so the application has to offer the message again.
        let message = offered.unwrap_or(Err(OfferError::Full))?;
        self.budget.offer(bytes);
        Ok(message)
    }

    fn finish(&mut self, now: Time) {
        self.finishing = true;
        // A machine that does not exist yet is finished by `start`.
        self.with_inner(|inner| {
            if let Some(sender) = inner.as_sender() {
                sender.finish(now);
            }
        });
    }

    /// Returns true if all messages offered are complete.
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

/// Time over which answers to the group are spread.
const ANSWER_SPREAD: Duration = Duration::from_millis(20);
/// Maximum number of pending events while early datagrams are passed on.
const MAX_PENDING_EVENTS: usize = 512;
/// Delay after which the rest of the early datagrams is passed on.
const EARLY_RETRY_DELAY: Duration = Duration::from_micros(1);
/// Lower bound of the PROGRESS interval, whatever the sender asks for.
const PROGRESS_MIN: Duration = Duration::from_millis(100);
/// Upper bound of the PROGRESS interval.
const PROGRESS_MAX: Duration = Duration::from_secs(10);
/// Wait between the first two JOINs; it doubles at each JOIN.
const JOIN_WAIT_MIN: Duration = Duration::from_millis(100);
/// Upper bound of the wait between JOINs.
const JOIN_WAIT_MAX: Duration = Duration::from_secs(1);
/// Wait between the first two PRESENTs; it doubles at each PRESENT.
const PRESENT_WAIT_MIN: Duration = Duration::from_millis(50);
/// Upper bound of the wait between PRESENTs.
const PRESENT_WAIT_MAX: Duration = Duration::from_millis(400);
/// Interval between READYs.
const READY_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between REPORTs.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Number of LEAVE packets, which nothing acknowledges.
const LEAVE_REPEATS: usize = 3;
/// Time after its last gathering invitation for which a sender still counts as gathering.
const GATHERING_TIMEOUT: Duration = Duration::from_millis(1500);
/// Interval at which to check whether the sender gathers again.
const GATHERING_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Time without an answer after which another sender gets a turn.
const JOIN_TIMEOUT: Duration = Duration::from_millis(600);
/// Time for which a session without answers is ignored.
const IGNORE_TIME: Duration = Duration::from_secs(10);
/// Time of ignoring a session for good.
const NO_EXPIRY: Time = Time::MAX;
/// Maximum number of queries, a sixteenth of the silence timeout apart, to a sender that is heard but does not
/// answer. At a loss of a fifth per port, three of five queries remain without an answer.
const MAX_UNCONFIRMED_QUERIES: u32 = 32;
/// Number of PROGRESS packets sent after one heartbeat, so that a member stays alive if some heartbeats are lost.
const MAX_UNSOLICITED_PROGRESS: u32 = 4;
/// Minimum silence timeout, whatever is configured.
const MIN_SILENCE: Duration = Duration::from_millis(1);
/// Lateness of a timer that shows that the process was suspended.
const SUSPENSION_THRESHOLD: Duration = Duration::from_secs(1);
