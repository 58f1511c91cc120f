//! Receiving side: requests, acknowledgments, and the Idles of idle mode.

use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, Dest, DropReason, ObservedState, Received, Role, Transmit,
};
use carillon_wire::ramp::{Flags, HEADER_LEN, MAX_SPANS, Packet, Service, Spans, Status};

use super::config::Settings;
use super::states::STATES;
use crate::blocks::{Arrival, MeasuredTimeout, Part, Player, ReceiveWindow, near, wire};

type Context = crate::blocks::MachineContext<Timer>;

/// Receiver of a session.
#[derive(Debug)]
pub struct RampReceiver {
    settings: Settings,
    window: ReceiveWindow,
    /// Maximum number of messages in the window.
    capacity: u64,
    service: Service,
    channel: ChannelState,
    /// Number after the last message known to have been sent.
    known_end: u64,
    /// Number after the last message that arrived or belongs to a reported gap.
    gap_end: u64,
    /// Flags of the sender's last packet.
    flags: Flags,
    /// Number of consecutive requests without a packet of the sender.
    unanswered: u32,
    /// Number of silences of the sender that were followed by one of its Idles.
    silences: u64,
    /// Time in which the sender answers a RESPOND, by silence.
    response: MeasuredTimeout<u64>,
    /// Time in which a request for messages is answered, by the first of them.
    resend: MeasuredTimeout<u64>,
    requests: Requests,
    due: Due,
    /// Missing message that found no place in the last RESEND.
    rest: Option<u64>,
    /// Limit in the last packet to the sender.
    reported: u64,
    spans: Vec<u8>,
}

/// Requested messages, by the period of the timer of repetitions.
#[derive(Debug, Default)]
struct Requests {
    /// Number after the last message that was requested.
    end: u64,
    /// Number after the last message that was requested when the timer was armed.
    before_period: u64,
    /// Messages that were requested within the last period: a repetition now would be too early.
    recent: std::ops::Range<u64>,
    /// True if a requested message has arrived in this period.
    answered: bool,
}

/// Packets that are due.
#[derive(Debug, Default)]
struct Due {
    accept: bool,
    /// Number of the packet to acknowledge.
    ack: Option<u32>,
    idle: bool,
    respond: bool,
    resend: bool,
}

/// State of the channel from the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChannelState {
    Waiting,
    Open,
    Doubtful,
    Closed,
}

/// Timers of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Missing messages are requested again.
    Resend,
    /// Silence of the sender for too long, in idle mode.
    Silence,
    /// Next Idle to the sender, in idle mode.
    Idle,
}

impl RampReceiver {
    /// Creates a receiver of the session.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let capacity = build.max_messages(settings.window);
        Ok(RampReceiver {
            window: ReceiveWindow::new(capacity, build.rejoining).requesting_all(),
            capacity,
            // The CONNECT says otherwise if the service is another one.
            service: Service::SenderReliable,
            channel: ChannelState::Waiting,
            known_end: 0,
            gap_end: 0,
            flags: Flags::default(),
            unanswered: 0,
            silences: 0,
            response: settings.response(),
            resend: settings.resend(),
            requests: Requests::default(),
            due: Due::default(),
            rest: None,
            reported: capacity,
            spans: Vec::new(),
            settings,
        }
        .play(build))
    }

    /// Handles what all packets of the sender have in common: the channel is open, and the mode may have changed.
    fn on_sender(&mut self, context: &mut Context, flags: Flags) {
        self.channel = ChannelState::Open;
        self.unanswered = 0;
        self.flags = flags;
        if !flags.idle_mode || self.is_complete() {
            for timer in [Timer::Silence, Timer::Idle] {
                context.timers.cancel(timer);
            }
            self.due.idle = false;
            return;
        }
        let silence = self.settings.idle_interval * self.settings.idle_tolerance;
        context.timers.arm(Timer::Silence, context.now + silence);
        if self.service == Service::SenderReliable && context.timers.armed(Timer::Idle).is_none() {
            context.timers.arm(Timer::Idle, context.now + self.settings.receiver_idle_interval);
        }
    }

    /// Returns true if the stream has ended and nothing is missing.
    fn is_complete(&self) -> bool {
        self.flags.end && self.window.expected() >= self.known_end
    }

    fn on_data(&mut self, context: &mut Context, sequence: u32, payload: bytes::Bytes) {
        let expected = self.window.expected();
        let number = near(sequence, expected);
        self.window.join_at(number);
        if self.service == Service::Unreliable {
            self.skip_to(context, number.min(expected.saturating_add(MAX_SKIP)));
        }
        self.find_gap(context, number);
        self.gap_end = self.gap_end.max(number + 1);
        self.known_end = self.known_end.max(number + 1);
        self.window.announce(number);
        match self.window.insert(number, payload) {
            // The receiver requests it once there is room.
            Arrival::NoRoom => context.events.dropped(DropReason::BufferFull),
            Arrival::Duplicate => context.events.dropped(DropReason::Duplicate),
            Arrival::New => {
                context.received("data", number);
                self.resend.on_answer(context.now, number);
                self.requests.answered |= number < self.requests.end;
            }
        }
        self.deliver(context);
        self.look(context);
    }

    fn on_idle(&mut self, context: &mut Context, packet: &'static str, next: u32) {
        let next = near(next, self.window.expected());
        context.received(packet, next.saturating_sub(1));
        self.window.join_at(next);
        if self.service != Service::Unreliable {
            // The end of the burst was lost: only the Idle shows it.
            self.find_gap(context, next);
        }
        self.known_end = self.known_end.max(next);
        self.window.announce(next);
        self.look(context);
    }

    fn on_nak(&mut self, context: &mut Context, oldest: u32) {
        let oldest = near(oldest, self.window.expected());
        context.received("nak", oldest);
        self.known_end = self.known_end.max(oldest);
        self.skip_to(context, oldest);
        self.look(context);
    }

    /// Reports a gap that ends before `end`, unless it is known.
    fn find_gap(&mut self, context: &mut Context, end: u64) {
        let first = self.window.expected().max(self.gap_end);
        if end > first {
            context.events.loss_found(context.sender, first);
            self.gap_end = end;
        }
    }

    /// Skips messages that will not come.
    fn skip_to(&mut self, context: &mut Context, first: u64) {
        self.find_gap(context, first);
        let Some(skipped) = self.window.skip_to(first) else { return };
        context.unrecoverable(None, skipped.range.start, skipped.lost());
        for (number, payload) in skipped.survivors {
            context.deliver_sent(number, payload);
        }
        self.deliver(context);
    }

    fn deliver(&mut self, context: &mut Context) {
        while let Some((number, payload)) = self.window.pop() {
            context.deliver_sent(number, payload);
        }
    }

    /// Requests missing messages at once, and keeps the timer for repeated requests.
    fn look(&mut self, context: &mut Context) {
        if self.service == Service::Unreliable {
            return;
        }
        if self.window.expected() >= self.known_end {
            context.timers.cancel(Timer::Resend);
            return;
        }
        // Newly missing messages are requested without a wait; the others by the timer.
        self.due.resend = true;
        if context.timers.armed(Timer::Resend).is_none() {
            context.timers.arm(Timer::Resend, context.now + self.resend.current());
            (self.requests.before_period, self.requests.answered) = (self.known_end, false);
        }
    }

    /// Counts a request to a silent sender. Returns false if the channel is closed.
    fn doubt(&mut self) -> bool {
        self.unanswered = self.unanswered.saturating_add(1);
        self.channel = match self.unanswered > self.settings.response_limit {
            true => ChannelState::Closed,
            false => ChannelState::Doubtful,
        };
        self.channel != ChannelState::Closed
    }

    fn status(&mut self) -> Status {
        self.reported = self.window.limit();
        Status { next: wire(self.window.expected()), limit: wire(self.reported) }
    }

    fn poll_resend(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.due.resend {
            return None;
        }
        let mut spans: Vec<(u64, u16)> = Vec::new();
        while let Some(number) = self.rest.take().or_else(|| self.window.next_request()) {
            // Messages skipped meanwhile will not come.
            if self.window.early().has(number) || self.requests.recent.contains(&number) {
                continue;
            }
            self.requests.end = self.requests.end.max(number + 1);
            let is_full = spans.len() == MAX_SPANS;
            match spans.last_mut() {
                Some((first, length)) if *first + u64::from(*length) == number && *length < u16::MAX => {
                    *length += 1;
                }
                _ if is_full => {
                    self.rest = Some(number);
                    break;
                }
                _ => spans.push((number, 1)),
            }
        }
        self.due.resend = self.rest.is_some();
        let &(first, _) = spans.first()?;
        self.resend.on_request(context.now, first);
        let status = self.status();
        self.spans.clear();
        Spans::encode(spans.into_iter().map(|(first, length)| (wire(first), length)), &mut self.spans);
        Packet::Resend { status, spans: Spans::new(&self.spans) }.emit(context.association, buf);
        context.events.control("resend", first);
        Some(Transmit::now(Dest::Node(context.sender)))
    }
}

impl Part for RampReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.window.held())
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        let (flags, answered) = match packet {
            Packet::Connect { next, service, flags } => {
                self.service = service;
                self.due.accept = true;
                self.on_idle(context, "connect", next);
                (flags, 0)
            }
            Packet::Data { sequence, flags, .. } => {
                self.on_data(context, sequence, datagram.bytes.slice(HEADER_LEN..));
                (flags, sequence)
            }
            Packet::Idle { next, flags } => {
                self.on_idle(context, "idle", next);
                self.response.on_answer(context.now, self.silences);
                self.silences += u64::from(self.unanswered > 0);
                (flags, next)
            }
            Packet::Nak { oldest } => {
                self.on_nak(context, oldest);
                (self.flags, oldest)
            }
            _ => return context.events.dropped(DropReason::Foreign),
        };
        if flags.ack && self.service == Service::SenderReliable {
            self.due.ack = Some(answered);
        }
        self.on_sender(context, flags);
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Resend => {
                self.rest = None;
                self.window.request_again();
                self.requests.recent = self.requests.before_period..self.requests.end;
                if !self.requests.answered {
                    self.resend.on_expiry();
                }
                if self.window.expected() < self.window.wanted() && !self.doubt() {
                    self.due.resend = false;
                    return;
                }
                self.look(context);
            }
            Timer::Silence => {
                if self.doubt() {
                    if self.unanswered > 1 {
                        self.response.on_expiry();
                    }
                    self.due.respond = true;
                    context.timers.arm(Timer::Silence, context.now + self.response.current());
                } else {
                    context.timers.cancel(Timer::Idle);
                }
            }
            Timer::Idle => {
                self.due.idle = true;
                context.timers.arm(Timer::Idle, context.now + self.settings.receiver_idle_interval);
            }
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let to = Transmit::now(Dest::Node(context.sender));
        let packet = if std::mem::take(&mut self.due.accept) {
            Packet::Accept { status: self.status(), service: self.service }
        } else if let Some(sequence) = self.due.ack.take() {
            Packet::Ack { status: self.status(), sequence }
        } else if std::mem::take(&mut self.due.respond) {
            self.response.on_request(context.now, self.silences);
            Packet::Respond(self.status())
        } else if std::mem::take(&mut self.due.idle) {
            Packet::ReceiverIdle(self.status())
        } else {
            return self.poll_resend(context, buf);
        };
        packet.emit(context.association, buf);
        context.events.control(packet.name(), self.window.expected().saturating_sub(1));
        Some(to)
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.window.fetched();
        // The sender may wait for room, and would learn of it by its next flagged packet only.
        let is_awaited = self.service == Service::SenderReliable && self.reported <= self.known_end;
        if is_awaited && self.window.limit() >= self.reported + self.capacity.div_ceil(2) {
            self.reported = self.window.limit();
            self.due.idle = true;
        }
        Some(delivery)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let state = match self.channel {
            ChannelState::Waiting => "Waiting",
            ChannelState::Open => "Open",
            ChannelState::Doubtful => "Doubtful",
            ChannelState::Closed => "Closed",
        };
        tell(ObservedState { of: STATES[1].of, about: 0, state, turn: 0 });
    }
}

/// Maximum number of messages that an unreliable receiver skips at once.
const MAX_SKIP: u64 = 65_536;
