//! Receiver of XTP: reports its status on request, and with FASTNAK on a gap.

use std::time::Duration;

use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, Dest, DropReason, ObservedState, Received, Role, Transmit,
};
use carillon_wire::xtp::{
    Body, Common, Data, Handover, Packet, RTN, Rates, Spans, Traffic, TrafficForm, key_of, option,
};

use super::config::{ErrorControl, Paradigm, Settings};
use super::segment::InnerEnds;
use super::tag::{EMPTY_TAG, MessageTag};
use crate::blocks::{ByteStream, FeedbackDelay, Part, Player, Uniform};

pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Timers of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Slot of the pending feedback.
    Slot,
    /// Join request without an answer.
    Join,
}

/// Reassembles messages from the byte stream.
#[derive(Debug)]
pub struct XtpReceiver {
    pub(super) settings: Settings,
    /// Key of the association at the sender.
    key: u64,
    /// Key of this receiver's context.
    pub(super) own_key: u64,
    /// Contents of FIRST, once received.
    pub(super) open: Option<Open>,
    pub(super) stream: ByteStream<MessageEnd>,
    /// Fragments of an incomplete message.
    partial: Vec<bytes::Bytes>,
    partial_len: u64,
    longest: u64,
    pub(super) messages: u64,
    /// Stream bytes of each delivered message that the application has not read.
    pub(super) unread: std::collections::VecDeque<u64>,
    pub(super) unread_bytes: u64,
    /// Highest sync number received.
    pub(super) echo: u32,
    /// Start of the gap last reported to the sender, and the sync number of that time.
    pub(super) reported_gap: Option<(u64, u32)>,
    /// Status to send.
    pub(super) answer: Option<Answer>,
    /// Status to send in its slot.
    pub(super) slotted: Option<Answer>,
    slots: Uniform,
    /// True if this receiver need not receive everything.
    pub(super) is_optional_member: bool,
    /// Number of join attempts.
    pub(super) joins: u32,
    /// True once the receiver has left.
    pub(super) has_left: bool,
    read_messages: u64,
    /// Offset up to which the application must read before a status is sent (DREQ).
    pub(super) status_when_read: Option<u64>,
    /// First byte without room, as last reported.
    pub(super) alloc: u64,
    /// True if the sender was told that less than half of the window is free.
    is_window_low: bool,
    /// End of the stream, once the sender has closed it (WCLOSE).
    pub(super) closed: Option<u64>,
    /// True once the sender has abandoned this receiver, so that losses stay.
    pub(super) is_abandoned: bool,
    /// True while a transaction is open.
    pub(super) is_asked: bool,
    /// True for a restarted receiver, which does not open a context again.
    rejoining: bool,
}

/// End of a message in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageEnd {
    is_empty: bool,
    /// Message number, if the packet carries one.
    number: Option<u64>,
}

impl MessageEnd {
    /// End of a message without a number.
    pub fn plain(is_empty: bool) -> Self {
        MessageEnd { is_empty, number: None }
    }

    fn of(place: MessageTag) -> Self {
        MessageEnd { is_empty: place.is_empty, number: Some(place.message) }
    }
}

/// Contents of FIRST.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub service: u8,
    pub rates: Rates,
}

impl Open {
    /// Reads a traffic segment.
    pub(super) fn of(traffic: &Traffic<'_>) -> Self {
        let rates = match traffic.form {
            TrafficForm::Rates(rates) => rates,
            _ => Rates::default(),
        };
        Open { service: traffic.service, rates }
    }
}

/// Kind of status to send; a greater one includes the smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Status,
    /// Report of a gap.
    Nak,
    /// Answer to FIRST (TCNTL).
    Handover,
    /// Join request (JCNTL).
    Join,
    /// END of a leaving receiver.
    End,
}

impl XtpReceiver {
    /// Creates the receiver of an association.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let slots_max = settings.slots.map_or(0, |(slots, _)| slots);
        Ok(XtpReceiver {
            key: key_of(build.association),
            own_key: build.seeds.stream("xtp.key").below(RTN - 1) + 1,
            open: None,
            stream: stream_of(settings.room),
            slotted: None,
            // Each nanosecond of the random delay stands for one slot.
            slots: Uniform::new(Duration::from_nanos(slots_max), &build.seeds, "xtp.slots"),
            is_optional_member: false,
            joins: 0,
            has_left: false,
            read_messages: 0,
            partial: Vec::new(),
            partial_len: 0,
            longest: u64::from(build.max_payload).max(1),
            messages: 0,
            unread: Default::default(),
            unread_bytes: 0,
            echo: 0,
            reported_gap: None,
            answer: None,
            status_when_read: None,
            alloc: settings.room,
            is_window_low: false,
            closed: None,
            is_abandoned: false,
            is_asked: false,
            rejoining: build.rejoining,
            settings,
        }
        .play(build))
    }

    fn on_data(&mut self, context: &mut Context, packet: &Packet<'_>, data: Data<'_>, bytes: bytes::Bytes) {
        if self.is_unrepaired() {
            return self.on_unrepaired(context, packet, data, bytes);
        }
        let end = packet.seq.saturating_add(bytes.len() as u64);
        if end > self.limit() {
            context.events.dropped(DropReason::BufferFull);
            return;
        }
        let before = self.stream.next();
        let keeps = self.settings.errors == ErrorControl::Selective || packet.seq <= before;
        let mark = match (self.settings.are_numbered, data.tag) {
            (true, Some(tag)) => MessageEnd::of(MessageTag::read(tag)),
            (true, None) => return context.events.dropped(DropReason::Malformed),
            (false, tag) => MessageEnd::plain(tag == Some(EMPTY_TAG)),
        };
        let mark = packet.has(option::EOM).then_some(mark);
        if bytes.is_empty() {
            return context.events.dropped(DropReason::Malformed);
        }
        let inner = data.tag.filter(|_| !self.settings.are_numbered).and_then(InnerEnds::read);
        let inner = inner.map(|ends| ends.offsets(bytes.len()));
        if matches!(inner, Some(None)) {
            return context.events.dropped(DropReason::Malformed);
        }
        let is_gap = packet.seq > before;
        // A further gap behind the known ones.
        let is_another = keeps && packet.seq > self.stream.end();
        if !keeps {
            // With go-back-N the receiver keeps nothing beyond a gap.
            context.events.dropped(DropReason::OutOfOrder);
        } else if self.insert(packet.seq, bytes, inner.flatten().into_iter().flatten(), mark) {
            context.received("data", self.messages);
        } else {
            context.events.dropped(DropReason::Duplicate);
        }
        if is_gap {
            if self.reported_gap.is_none_or(|(begin, _)| begin != before) {
                context.events.loss_found(context.sender, self.messages);
            }
            // Report each gap once, and again if the retransmission, which has a newer sync number, left it open.
            let known = self.reported_gap.is_some_and(|(begin, sync)| begin == before && sync >= packet.sync);
            if packet.has(option::FASTNAK) && (!known || is_another) {
                self.reported_gap = Some((before, packet.sync));
                self.answer(context, Answer::Nak);
            }
        }
        while let Some(piece) = self.stream.pop() {
            self.on_ordered_bytes(context, piece.bytes, piece.mark);
        }
        if self.stream.next() > before
            && self.reported_gap.is_some_and(|reported| reported.0 < self.stream.next())
        {
            self.reported_gap = None;
        }
    }

    /// Adds the bytes of a packet, in which messages end at these offsets and, with a mark, at the last byte. Returns
    /// true if some were new and kept.
    fn insert(
        &mut self,
        seq: u64,
        bytes: bytes::Bytes,
        inner: impl Iterator<Item = usize>,
        mark: Option<MessageEnd>,
    ) -> bool {
        let (mut from, mut kept) = (0, false);
        for end in inner {
            let part = bytes.slice(from..end);
            kept |= self.stream.insert(seq + from as u64, part, Some(MessageEnd::plain(false)));
            from = end;
        }
        kept | self.stream.insert(seq + from as u64, bytes.slice(from..), mark)
    }

    /// Handles data without retransmission: delivers a message only if all its fragments arrive in order.
    pub(super) fn on_unrepaired(
        &mut self,
        context: &mut Context,
        packet: &Packet<'_>,
        data: Data<'_>,
        bytes: bytes::Bytes,
    ) {
        let Some(place) = data.tag.map(MessageTag::read).filter(|_| !bytes.is_empty()) else {
            return context.events.dropped(DropReason::Malformed);
        };
        let is_in_part = !self.partial.is_empty() && place.message == self.messages;
        let is_known = place.message < self.messages || packet.seq < self.stream.next();
        if is_known || (is_in_part && place.begins) {
            return context.events.dropped(DropReason::Duplicate);
        }
        // A number too far ahead for a plausible run of losses is forged.
        let ahead = place.message - self.messages;
        let furthest = self.stream.next().saturating_add((ahead + 1).saturating_mul(self.longest));
        if ahead > MAX_CONSECUTIVE_LOSSES || packet.seq > furthest {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let follows = is_in_part && packet.seq == self.stream.next();
        // A fragment that does not continue the partial message ends it: the rest is lost.
        if !follows {
            self.partial.clear();
            self.partial_len = 0;
        }
        if !follows && !place.begins {
            return context.events.dropped(DropReason::OutOfOrder);
        }
        if self.unread_bytes + self.partial_len + bytes.len() as u64 > self.settings.room {
            return context.events.dropped(DropReason::BufferFull);
        }
        context.received(packet.name(), place.message);
        self.report_lost(context, place.message);
        self.messages = place.message;
        self.stream.start_at(packet.seq.saturating_add(bytes.len() as u64));
        let mark = packet.has(option::EOM).then_some(MessageEnd::of(place));
        self.on_ordered_bytes(context, bytes, mark);
    }

    /// Appends the next bytes in order, and delivers the message that they complete.
    pub(super) fn on_ordered_bytes(
        &mut self,
        context: &mut Context,
        bytes: bytes::Bytes,
        mark: Option<MessageEnd>,
    ) {
        self.partial_len += bytes.len() as u64;
        // No sender has longer messages: discard the excess.
        if self.partial_len <= self.longest {
            self.partial.push(bytes);
        }
        let Some(MessageEnd { is_empty, number }) = mark else { return };
        self.messages = number.unwrap_or(self.messages);
        let partial = std::mem::take(&mut self.partial);
        let payload = match (is_empty, partial.len()) {
            (true, _) => bytes::Bytes::new(),
            (false, 1) => partial.into_iter().next().unwrap_or_default(),
            _ => partial.concat().into(),
        };
        let len = std::mem::take(&mut self.partial_len);
        self.unread.push_back(len);
        self.unread_bytes += len;
        context.deliver_sent(self.messages, payload);
        self.messages += 1;
    }

    /// First byte without room. The bytes of an incomplete message count from its last one on.
    pub(super) fn limit(&self) -> u64 {
        let taken = self.stream.next() - self.unread_bytes - self.partial_len.min(self.stream.next());
        taken.saturating_add(self.settings.room).max(self.alloc)
    }

    pub(super) fn answer(&mut self, context: &mut Context, answer: Answer) {
        let is_status = matches!(answer, Answer::Status | Answer::Nak);
        match self.settings.slots {
            Some((_, slot)) if is_status && !self.is_optional_member => {
                // A requested status is never damped.
                let both = self.slotted.is_some_and(|slotted| slotted != answer);
                self.slotted = if both { Some(Answer::Status) } else { Some(answer) };
                if context.timers.armed(Timer::Slot).is_none() {
                    let slots = self.slots.delay(0, 0.0).as_nanos() as u32;
                    context.timers.arm(Timer::Slot, context.now + slot.saturating_mul(slots));
                }
            }
            _ => self.send_status_at_once(answer),
        }
    }

    /// Schedules a status without a slot: applications read at different times anyway.
    fn send_status_at_once(&mut self, answer: Answer) {
        if !self.is_optional_member || answer > Answer::Nak {
            self.answer = self.answer.max(Some(answer));
        }
    }

    /// Creates an empty stream.
    pub(super) fn fresh_stream(&self) -> ByteStream<MessageEnd> {
        stream_of(self.settings.room)
    }
}

impl Part for XtpReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Ok(packet) = Packet::parse(datagram.bytes) else {
            return context.events.dropped(DropReason::Malformed);
        };
        if packet.key == self.key | RTN && self.settings.slots.is_some() && self.open.is_some() {
            return self.on_overheard_status(context, &packet);
        }
        if packet.key != self.key {
            return context.events.dropped(DropReason::Foreign);
        }
        if datagram.source != context.sender {
            return context.events.dropped(DropReason::NotAMember);
        }
        if self.has_left {
            // The END may have been lost.
            if packet.has(option::SREQ) || packet.has(option::DREQ) {
                self.answer = Some(Answer::End);
            }
            return context.events.dropped(DropReason::Foreign);
        }
        if (self.rejoining && !self.settings.late_join) || self.is_abandoned {
            return context.events.dropped(DropReason::Foreign);
        }
        if self.settings.paradigm.is_single() {
            return self.handle_single(context, &packet, datagram);
        }
        let opens = matches!(packet.body, Body::First(..)) && !self.rejoining;
        if self.open.is_none() && self.settings.late_join && !opens {
            return self.on_unopened(context, &packet);
        }
        if let Body::First(_, traffic, _) = packet.body {
            if traffic.service != self.settings.service {
                return context.events.dropped(DropReason::Foreign);
            }
            self.open.get_or_insert(Open::of(&traffic));
            context.received("first", 0);
            self.answer(context, Answer::Handover);
        }
        if self.open.is_none() {
            return context.events.dropped(DropReason::Foreign);
        }
        self.echo = self.echo.max(packet.sync);
        match packet.body {
            Body::First(_, _, data) if data.bytes.is_empty() => {}
            Body::Data(data) | Body::First(_, _, data) => {
                let from = datagram.bytes.len() - data.bytes.len();
                self.on_data(context, &packet, data, datagram.bytes.slice(from..));
                if packet.has(option::WCLOSE) {
                    self.closed = Some(packet.seq.saturating_add(data.bytes.len() as u64));
                }
            }
            Body::Cntl(_) => {
                context.received("cntl", self.messages);
                if packet.has(option::NOERR) && self.settings.demanded != usize::MAX {
                    self.on_not_demanded();
                }
            }
            // The sender abandoned this receiver.
            Body::Diag(_) => {
                context.received("diag", self.messages);
                self.is_abandoned = true;
                return;
            }
            _ => return context.events.dropped(DropReason::Foreign),
        }
        if packet.has(option::SREQ) {
            self.answer(context, Answer::Status);
        }
        if packet.has(option::DREQ) {
            self.status_when_read = Some(self.stream.next());
            self.answer_when_read();
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Slot => self.answer = self.answer.max(self.slotted.take()),
            Timer::Join => self.ask_to_join(context),
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let answer = self.answer.take()?;
        if self.settings.paradigm.is_single() {
            self.put_single_answer(context, buf);
            return Some(Transmit::now(Dest::Node(context.sender)));
        }
        if answer == Answer::Join {
            self.put_join(context, buf);
            return Some(Transmit::now(Dest::Node(context.sender)));
        }
        let open = self.open?;
        self.alloc = self.limit();
        self.is_window_low = self.alloc < self.stream.next().saturating_add(self.settings.room / 2);
        let common = Common { rseq: self.stream.next(), alloc: self.alloc, echo: self.echo };
        let closes = self.closed.is_some_and(|end| self.stream.next() >= end);
        let is_nak = answer == Answer::Nak;
        let options = if is_nak { option::FASTNAK } else { 0 }
            | if closes { option::RCLOSE } else { 0 }
            | if answer == Answer::End { option::WCLOSE | option::RCLOSE | option::END } else { 0 };
        let mut spans = Vec::new();
        let mut room = Vec::new();
        if self.settings.errors == ErrorControl::Selective {
            spans.extend(self.stream.spans().take(MAX_SPANS));
        }
        let body = match answer {
            Answer::Handover => {
                let Open { service, rates } = open;
                Body::Tcntl(Handover { common, xkey: self.own_key }, Traffic::rates(service, rates))
            }
            _ if spans.is_empty() => Body::Cntl(common),
            _ => Body::Ecntl(common, Spans::of(spans, &mut room)),
        };
        // The receiver sends no data, so the stream of its direction is empty.
        let name = self.emit(options, 0, 0, body, buf);
        context.control(name, self.messages);
        // Multicast the report of a gap, so that other receivers can suppress theirs (damping).
        let to_all = is_nak && self.settings.slots.is_some();
        Some(Transmit::now(if to_all { Dest::group(context.group) } else { Dest::Node(context.sender) }))
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        if self.has_left {
            return None;
        }
        let delivery = context.poll_delivery()?;
        self.unread_bytes -= self.unread.pop_front().unwrap_or(0);
        self.read_messages += 1;
        if self.read_messages == self.settings.leave_after {
            self.leave();
            return Some(delivery);
        }
        self.answer_when_read();
        // The sender may wait for room.
        if self.is_window_low && self.limit() >= self.stream.next().saturating_add(self.settings.room / 2) {
            self.is_window_low = false;
            self.send_status_at_once(Answer::Status);
        }
        Some(delivery)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        if self.settings.paradigm.is_single() {
            let state = match (self.is_asked, self.unread.is_empty()) {
                _ if self.is_abandoned || self.settings.paradigm != Paradigm::Transaction => return,
                (false, _) => "Listening",
                (true, false) => "Asked",
                (true, true) => "Responded",
            };
            return tell(ObservedState {
                of: super::states::TRANSACTION_RECEIVER.of,
                about: 0,
                state,
                turn: 0,
            });
        }
        let state = match (&self.open, self.stream.has_gap() || self.reported_gap.is_some()) {
            _ if self.is_abandoned || self.has_left => return,
            (None, _) if self.joins > 0 => "Joining",
            (None, _) => "Listening",
            (Some(_), false) => "Active",
            (Some(_), true) => "Gap",
        };
        tell(ObservedState { of: super::states::RECEIVER, about: 0, state, turn: 0 });
    }
}

impl XtpReceiver {
    /// Emits a packet to the sender. Returns the name of its format.
    pub(super) fn emit(
        &self,
        options: u32,
        sync: u32,
        seq: u64,
        body: Body<'_>,
        buf: &mut Vec<u8>,
    ) -> &'static str {
        let options = options | self.settings.modes & !option::FASTNAK;
        let packet = Packet { key: self.key | RTN, options, sort: self.settings.sort, sync, seq, body };
        packet.emit(buf);
        packet.name()
    }

    /// Sends the status that a DREQ awaits, once the application has read far enough.
    pub(super) fn answer_when_read(&mut self) {
        let taken = self.stream.next() - self.unread_bytes;
        if self.status_when_read.is_some_and(|until| until <= taken) {
            self.status_when_read = None;
            self.send_status_at_once(Answer::Status);
        }
    }
}

/// Creates an empty stream with a receive buffer of `room` bytes.
fn stream_of(room: u64) -> ByteStream<MessageEnd> {
    ByteStream::new((room / BYTES_PER_PIECE).clamp(MIN_PIECES, MAX_PIECES) as usize)
}

/// Maximum number of spans in one packet.
const MAX_SPANS: usize = 64;
const BYTES_PER_PIECE: u64 = 64;
const MIN_PIECES: u64 = 16;
const MAX_PIECES: u64 = 65_536;
/// Maximum number of consecutive lost messages accepted from a sender without retransmission.
const MAX_CONSECUTIVE_LOSSES: u64 = 65_536;
