//! Sender of XTP: transmits the stream and requests the receivers' status.

mod part;

use carillon_core::{
    AddressBook, Addresses, BuildContext, Config, ConfigError, Dest, Event, NodeId, Note, Time, Transmit,
    Value,
};
use carillon_wire::xtp::{Address, AddressForm, Body, Common, Packet, Spans, key_of, option};

use super::config::{ErrorControl, Settings};
use super::group::{ReceiverContexts, StatusRequest};
use super::stream::SendStream;
use super::wait::WtimerRules;
use crate::blocks::{Members, Part, PastLimit, Player};

pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Sends a byte stream to all receivers, and retransmits missing parts.
#[derive(Debug)]
pub struct XtpSender {
    pub(super) settings: Settings,
    rules: WtimerRules,
    /// Contexts of the receivers.
    pub(super) group: ReceiverContexts,
    pub(super) stream: SendStream,
    key: u64,
    pub(super) address: Address<'static>,
    /// Sync number of the last status request.
    pub(super) sync: u32,
    /// True if the sender reports completed messages.
    is_confirmed: bool,
    pub(super) phase: Phase,
    /// Time at which the first message opened the association.
    opened_at: Time,
    /// True if FIRST or the CNTL of a handshake is to be sent.
    request_due: bool,
    /// Data packets sent since the last SREQ.
    pub(super) packets_since_request: u64,
    /// Length of the first packet of the current message, in bytes.
    pub(super) first_packet_len: u64,
    /// Consecutive expiries of WTIMER.
    expiries: u32,
    /// Consecutive expiries of the pause timer since the last data packet.
    pub(super) pauses: u32,
    /// Notices to single nodes.
    pub(super) notices: Vec<(NodeId, Notice)>,
    pub(super) finished: bool,
    /// True if data was skipped for an abandoned receiver.
    skipped: bool,
    /// True if the END of the association is to be sent.
    end_due: bool,
}

/// State of the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No message was offered.
    Quiescent,
    /// FIRST was sent, and some receiver has not answered.
    Opening,
    /// Data may be sent.
    Active,
    /// Synchronizing handshake: no data until every receiver has answered this sync number.
    Handshake(u32),
    /// The association has ended.
    Inactive,
}

/// Notice to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The receiver was abandoned.
    Abandoned,
    /// The join was refused.
    Refused,
    /// The receiver need not receive everything and must not request repairs.
    NotDemanded,
    /// The receiver with this key has joined.
    Joined(u64),
}

/// Timers of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// WTIMER: timeout of a status request.
    Wtimer,
    /// CTIMEOUT: timeout of a handshake.
    Ctimeout,
    /// CTIMER: silence of all receivers.
    Ctimer,
    /// The rate limit allows the next packet.
    Pace,
    /// Data in flight has no pending status request.
    Pause,
    /// Time for answers to FIRST.
    Group,
}

impl XtpSender {
    /// Creates a sender to the members of the context. `is_confirmed` makes it report completed messages.
    pub fn new(
        build: &BuildContext,
        config: &Config,
        is_confirmed: bool,
    ) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        if settings.is_unicast && build.members.len() > 1 {
            let reason = "service = 4 (unicast) serves one receiver; several need service = 6 (multicast)";
            return Err(ConfigError::Conflict(reason.into()));
        }
        Ok(XtpSender {
            rules: WtimerRules::new(build, config),
            group: ReceiverContexts::new(Members::new(build.members.clone()), settings.demanded),
            stream: SendStream::default(),
            key: key_of(build.association),
            address: address(&build.addresses, build),
            sync: 0,
            is_confirmed,
            phase: Phase::Quiescent,
            opened_at: Time::ZERO,
            request_due: false,
            packets_since_request: 0,
            first_packet_len: 0,
            expiries: 0,
            pauses: 0,
            notices: Vec::new(),
            finished: false,
            skipped: false,
            end_due: false,
            settings,
        }
        .play(build))
    }

    pub(super) fn is_single(&self) -> bool {
        self.settings.paradigm.is_single()
    }

    fn on_status(&mut self, context: &mut Context, index: usize, packet: &Packet<'_>, status: Common) {
        // Clamp a claim of data that was never sent; the answer itself still counts.
        let status = Common {
            rseq: status.rseq.min(self.stream.sent_end()),
            echo: status.echo.min(self.sync),
            ..status
        };
        context.received(packet.name(), self.stream.messages_before(status.rseq));
        let is_stale = status.echo < self.group.context(index).echo;
        let oldest = !self.rules.is_repaired();
        let moves_back = self.group.on_status(context.now, index, status, oldest);
        if moves_back && self.settings.errors != ErrorControl::Off && status.rseq < self.stream.start() {
            // The receiver never had data that an earlier status, perhaps forged, acknowledged, and the data is gone.
            self.abandon_receiver(context, index, "none");
            return self.settle(context);
        }
        // A single message is resent when WTIMER expires, since no gap can reveal its loss.
        if self.settings.errors != ErrorControl::Off && !is_stale && !self.is_single() {
            match packet.body {
                Body::Ecntl(_, spans) => self.on_missing(context, index, packet, status, spans),
                _ => self.on_missing(context, index, packet, status, Spans::default()),
            }
        }
        self.after_answer(context);
        self.advance(context);
    }

    /// Finds the pieces that a receiver is missing, and queues their retransmission.
    fn on_missing(
        &mut self,
        context: &mut Context,
        index: usize,
        packet: &Packet<'_>,
        status: Common,
        spans: Spans<'_>,
    ) {
        let Some(first) = self.stream.first_beyond(status.rseq) else { return };
        let is_nak = packet.has(option::FASTNAK);
        let selective = self.settings.errors == ErrorControl::Selective;
        // A receiver has a gap before the last byte that it holds, unless a retransmission is in flight.
        let seen = spans.iter().map(|(_, right)| right).max().unwrap_or(status.rseq);
        let mut ranges = spans.iter().peekable();
        let is_alone = self.group.active().nth(1).is_none();
        let (mut missing, mut missing_count, mut behind) = (Vec::new(), 0, first);
        for number in first.. {
            let Some(piece) = self.stream.piece(number).filter(|piece| piece.times > 0) else { break };
            while ranges.peek().is_some_and(|(_, right)| *right <= piece.seq) {
                ranges.next();
            }
            behind = number + 1;
            // Compare each sent piece with the reported spans.
            let has = ranges.peek().is_some_and(|&(left, right)| left <= piece.seq && piece.end() <= right);
            // Go-back-N receivers report no spans, only the start of their gap.
            let in_gap = if selective { piece.seq < seen } else { is_nak && number == first };
            let is_due = piece.due_sync <= status.echo || (in_gap && piece.epoch <= status.echo);
            let is_last = !selective || (piece.due_sync > status.echo && piece.seq >= seen);
            // A retransmission for another receiver serves this one too.
            let is_queued_already = self.stream.is_queued(number);
            missing_count += u32::from(!has && (is_due || is_queued_already));
            if has && is_queued_already && is_alone {
                // The only receiver reports that it has the piece.
                self.stream.cancel_retransmission(number);
            }
            if !has && is_due && !is_queued_already {
                missing.push(number);
            }
            if is_last {
                break;
            }
        }
        // The receiver misses everything behind its last span.
        missing_count += self.stream.queued_from(behind) as u32;
        if missing_count > 0 {
            context.events.repair_needed(self.group.node(index), missing_count);
        }
        let Some(&oldest) = missing.first() else { return };
        // A status older than this sync number does not cover the retransmissions queued now.
        self.sync += 1;
        match selective {
            true => missing.into_iter().for_each(|number| self.stream.repeat(number)),
            false => self.stream.go_back(oldest),
        }
    }

    /// Ends the phase or stops WTIMER once all receivers have answered.
    fn after_answer(&mut self, context: &mut Context) {
        self.group.prune_requests();
        // The handshake ends with the answers to its sync number; a single message also with earlier answers.
        let is_over = match self.phase {
            Phase::Opening => self.has_group(context),
            Phase::Handshake(sync) => self.group.silent(sync).is_empty() || self.has_all_answered(),
            _ => false,
        };
        if is_over {
            self.phase = Phase::Active;
            self.request_due = false;
            if !self.is_single() {
                self.expiries = 0;
            }
            // Earlier requests are covered by this answer or will be repeated.
            self.group.clear_requests();
            context.timers.cancel(Timer::Ctimeout);
        }
        if self.phase == Phase::Active {
            match self.group.newest_request() {
                None => {
                    if !self.is_single() {
                        self.expiries = 0;
                    }
                    context.timers.cancel(Timer::Wtimer);
                    self.arm_pause_timer(context);
                }
                Some(request) => self.arm_wait(context, request),
            }
        }
        self.arm_ctimer(context);
    }

    /// Returns true if the group is known: all active receivers have answered FIRST, and the time for answers is over.
    /// The sender of a multicast cannot know before how many will answer.
    fn has_group(&self, context: &mut Context) -> bool {
        if !self.group.have_all_answered_first() {
            return false;
        }
        let end = self.opened_at + self.settings.group_wait;
        if context.now < end {
            // Nothing is asked any more until then.
            context.timers.cancel(Timer::Wtimer);
            context.timers.cancel(Timer::Ctimeout);
            context.timers.arm(Timer::Group, end);
        }
        context.now >= end
    }

    /// Arms WTIMER: "When a packet is sent with the SREQ bit set, a wait timer (WTIMER) is started" (V.A.2.a). The
    /// newest request covers all before it. A lost request is therefore noticed by the answer to the next one, and
    /// costs a timeout only when none follows.
    fn arm_wait(&mut self, context: &mut Context, request: StatusRequest) {
        let wait = self.rules.wait(self.group.silent_rtts(request.sync), self.expiries);
        context.timers.arm(Timer::Wtimer, request.at + wait);
    }

    /// Requests status with the packet about to be sent. Returns its sync number.
    pub(super) fn request_status(&mut self, context: &mut Context) -> u32 {
        self.sync += 1;
        self.packets_since_request = 0;
        let request = StatusRequest { sync: self.sync, at: context.now };
        self.group.add_request(request);
        self.arm_wait(context, request);
        self.sync
    }

    fn on_wtimer(&mut self, context: &mut Context) {
        context.events.push(Event::TimerFired { timer: "wtimer" });
        self.expiries = self.expiries.saturating_add(1);
        if !self.rules.is_repaired() {
            // "XTP uses lost packets to reset a Round Trip Timer" (V.A.2.a).
            let sync = self.awaited_sync();
            self.group.invalidate_rtts(sync);
        }
        if self.phase == Phase::Active {
            // Sync number of the CNTL that starts the handshake.
            self.phase = Phase::Handshake(self.sync + 1);
            context.timers.arm(Timer::Ctimeout, context.now + self.settings.ctimeout);
        }
        let limit = self.settings.handshake_limit;
        if limit > 0 && self.expiries > limit && self.settings.past_limit != PastLimit::Wait {
            return self.abandon_silent(context, "wtimer");
        }
        if self.is_single() {
            self.report_unanswered(context);
        }
        self.request_due = true;
    }

    fn on_ctimeout(&mut self, context: &mut Context) {
        context.events.push(Event::TimerFired { timer: "ctimeout" });
        let sync = self.awaited_sync();
        let patience = self.settings.ctimeout;
        let is_heard = |index: usize| context.now.since(self.group.context(index).last_received) < patience;
        let spared = self.rules.is_repaired() && self.group.silent(sync).into_iter().all(is_heard);
        if self.settings.past_limit == PastLimit::Wait || spared {
            // Live receivers are asked again.
            context.timers.arm(Timer::Ctimeout, context.now + patience);
            return;
        }
        self.abandon_silent(context, "ctimeout");
    }

    /// Sync number that silent receivers have yet to answer.
    fn awaited_sync(&self) -> u32 {
        match self.phase {
            Phase::Handshake(sync) => sync,
            _ => self.group.newest_request().map_or(self.sync, |request| request.sync),
        }
    }

    /// Abandons the receivers that have not answered before this timer expired.
    fn abandon_silent(&mut self, context: &mut Context, timer: &'static str) {
        let silent = match self.phase {
            Phase::Opening => {
                let closed = self.group.active().filter(|(_, receiver)| receiver.key.is_none());
                closed.map(|(index, _)| index).collect()
            }
            _ => self.group.silent(self.awaited_sync()),
        };
        for index in silent {
            if self.rules.is_repaired()
                && timer == "ctimeout"
                && context.now.since(self.group.context(index).last_received) < self.settings.ctimeout
            {
                continue;
            }
            self.abandon_receiver(context, index, timer);
        }
        self.expiries = 0;
        self.settle(context);
    }

    /// Abandons one receiver.
    fn abandon_receiver(&mut self, context: &mut Context, index: usize, timer: &'static str) {
        let node = self.group.node(index);
        let fields = vec![("member", Value::Count(node.0.into())), ("timer", Value::Text(timer.into()))];
        context.events.push(Event::Note(Box::new(Note { name: "abandoned", fields })));
        self.group.remove(index);
        if self.settings.past_limit != PastLimit::Skip {
            context.events.member_lost(node);
        } else {
            self.skipped = true;
        }
    }

    /// Continues after a receiver was removed: the others may be complete.
    pub(super) fn settle(&mut self, context: &mut Context) {
        self.after_answer(context);
        if matches!(self.phase, Phase::Opening | Phase::Handshake(_)) {
            self.request_due = true;
        }
        self.advance(context);
    }

    /// Arms CTIMER while the association is open.
    fn arm_ctimer(&mut self, context: &mut Context) {
        match self.phase {
            _ if self.is_single() => {}
            Phase::Quiescent | Phase::Inactive => _ = context.timers.cancel(Timer::Ctimer),
            _ => context.timers.arm(Timer::Ctimer, context.now + self.settings.ctimer),
        }
    }

    /// Returns true if no data may be sent before some receiver reports.
    fn is_blocked(&self) -> bool {
        match self.stream.next() {
            Some(number) => !self.has_room(number),
            None => self.group.rseq().is_some_and(|rseq| rseq < self.stream.sent_end()),
        }
    }

    /// Arms the pause timer while the sender is blocked and no status request is pending.
    fn arm_pause_timer(&mut self, context: &mut Context) {
        let packets_since_request =
            self.group.newest_request().is_none() && self.settings.errors != ErrorControl::Off;
        let is_awaited = if self.is_single() { self.awaits_answers() } else { self.is_blocked() };
        if self.phase == Phase::Active && packets_since_request && is_awaited {
            let expiries = if self.is_single() { self.expiries } else { self.pauses };
            let wait = self.rules.wait(self.group.active().map(|(_, receiver)| &receiver.rtt), expiries);
            context.timers.arm(Timer::Pause, context.now + wait);
        } else {
            context.timers.cancel(Timer::Pause);
        }
    }

    pub(super) fn dest(&self, context: &Context) -> Dest {
        match self.settings.is_unicast {
            true => context.nodes.first().map_or(Dest::group(context.group), |&node| Dest::Node(node)),
            false => Dest::group(context.group),
        }
    }

    pub(super) fn emit(&self, options: u32, seq: u64, body: Body<'_>, buf: &mut Vec<u8>) {
        let options = self.settings.modes | options;
        Packet { key: self.key, options, sort: self.settings.sort, sync: self.sync, seq, body }.emit(buf);
    }

    /// Emits FIRST or the CNTL of a handshake, whichever the silent receivers need.
    fn put_request(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        self.request_due = false;
        if let Phase::Handshake(_) = self.phase
            && !self.rules.is_repaired()
        {
            // Each attempt has its own sync number, and all receivers must answer the last one. If answers take
            // longer than WTIMER, only a longer WTIMER ends the handshake.
            self.phase = Phase::Handshake(self.sync + 1);
        }
        self.request_status(context);
        if self.is_single() || !self.group.have_all_answered_first() {
            let first = self.stream.first_piece().filter(|_| self.settings.data_in_first);
            return self.put_first(context, first, true, buf);
        }
        let seq = self.stream.sent_end();
        self.emit(option::SREQ, seq, Body::Cntl(Common::default()), buf);
        context.control("cntl", self.stream.messages_before(seq));
        Transmit::now(self.dest(context))
    }
}

/// Address of the association, or the null address if it is not IPv4.
fn address(book: &Addresses, build: &BuildContext) -> Address<'static> {
    let book: &dyn AddressBook = &**book;
    match (book.of_group(build.group), book.of_node(build.node)) {
        (std::net::IpAddr::V4(group), Some(std::net::IpAddr::V4(node))) => {
            Address { domain: 0, form: AddressForm::V4 { destination: (group, PORT), source: (node, PORT) } }
        }
        _ => Address::NULL,
    }
}

/// Port in address segments; over UDP the session has its own.
const PORT: u16 = 5000;
