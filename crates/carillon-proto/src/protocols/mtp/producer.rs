//! The role of a producer: requests a token for each message, sends its packets at the web's rate, and repairs them
//! (RFC 1301, 3.2.1, 3.2.2 and 3.2.6).

use std::collections::BTreeSet;

use carillon_core::{DropReason, Time, Transmit};
use carillon_wire::mtp::{Body, Empty, HORIZON, Mark, Range, Ranges};

use super::config::{MIN_INTERVAL, Settings};
use super::context::{Context, Timer};
use super::frame::Frame;
use super::order::Order;
use crate::blocks::reformation::To;

/// State of a member as producer.
#[derive(Debug)]
pub(super) struct Producer {
    settings: Settings,
    request: Request,
    /// Message that is being sent.
    current: Option<Current>,
    /// Highest token that this member got.
    last_token: Option<u64>,
    /// Tokens to give back.
    cancels: BTreeSet<u64>,
    /// Repairs to send: message and packet.
    repairs: BTreeSet<(u64, u16)>,
    /// Refusals to send: rank and range.
    denials: BTreeSet<(usize, Range)>,
    /// Start of the present heartbeat, and data packets sent in it.
    interval: (Time, u16),
}

/// Request for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// No token is needed.
    None,
    /// A packet is due.
    Due,
    /// A packet was sent at this time.
    Sent(Time),
}

/// Message that is being sent.
#[derive(Clone, Copy, Debug)]
struct Current {
    message: u64,
    /// Number of the application's message in the first packet.
    first: u64,
    packets: u16,
    sent: u16,
}

impl Producer {
    /// Creates a producer without a token.
    pub fn new(settings: &Settings) -> Self {
        Producer {
            settings: settings.clone(),
            request: Request::None,
            current: None,
            last_token: None,
            cancels: BTreeSet::new(),
            repairs: BTreeSet::new(),
            denials: BTreeSet::new(),
            interval: (Time::ZERO, 0),
        }
    }

    /// Requests a token if a message waits for one. Returns true if the request is new.
    pub fn request_token(&mut self, order: &Order) -> bool {
        let wants = self.current.is_none() && order.outbox.first_due().is_some();
        let is_new = wants && self.request == Request::None;
        match wants {
            true if is_new => self.request = Request::Due,
            true => {}
            false => self.request = Request::None,
        }
        is_new
    }

    /// Handles the token of a message.
    pub fn on_token(&mut self, context: &mut Context, order: &Order, message: u64) {
        if self.last_token.is_some_and(|last| message <= last) {
            // The master has seen nothing of the message: a repeated confirm acts as a nak (3.2.1). It is late if the
            // message is no longer kept or decided.
            if order.decision(message).is_none() && self.current.is_none_or(|now| now.message != message) {
                match order.packets(message) {
                    0 => _ = self.cancels.insert(message),
                    packets => self.repairs.extend((0..packets).map(|packet| (message, packet))),
                }
            } else {
                context.events.dropped(DropReason::Duplicate);
            }
            return;
        }
        self.last_token = Some(message);
        let Some(first) = order.outbox.first_due().filter(|_| self.current.is_none()) else {
            // The token is not needed, as the message has got another one.
            self.cancels.insert(message);
            return;
        };
        let stream = self.settings.stream(first);
        let fits =
            |&number: &u64| order.outbox.get(number).is_some() && self.settings.stream(number) == stream;
        let packets = (first..first + u64::from(self.settings.batch)).take_while(fits).count() as u16;
        self.current = Some(Current { message, first, packets, sent: 0 });
        self.request = Request::None;
    }

    /// Handles a NAK: repairs what is kept, and refuses the rest. `holds_all` is true at the master, which keeps the
    /// messages of all producers.
    pub fn on_nak(&mut self, context: &Context, order: &Order, from: usize, ranges: Ranges<'_>) {
        for range in ranges.iter().take(MAX_RANGES) {
            let (message, last) = (order.near(range.low.0), order.near(range.high.0));
            if last < message || last - message > HORIZON as u64 {
                continue;
            }
            for message in message..=last {
                let packets = order.packets(message);
                let low = if message == order.near(range.low.0) { range.low.1 } else { 0 };
                let high = if message == last { range.high.1 } else { u16::MAX };
                for packet in (low..=high.min(packets.saturating_sub(1))).take(usize::from(packets)) {
                    if order.kept((context.now, context.rank), message, packet).is_some() {
                        self.repairs.insert((message, packet));
                    }
                }
                // A message that is complete here and no longer kept is lost for the other member. An incomplete one
                // may still arrive.
                let is_gone =
                    order.kept((context.now, context.rank), message, 0).is_none() && message < order.next();
                if is_gone && self.denials.len() < MAX_DENIALS {
                    let low = (message as u16, 0);
                    self.denials.insert((from, Range { low, high: (message as u16, u16::MAX) }));
                }
            }
        }
        while self.repairs.len() > MAX_REPAIRS {
            self.repairs.pop_last();
        }
    }

    /// Forgets the tokens of a view that ends.
    pub fn on_view(&mut self) {
        *self = Producer { interval: self.interval, ..Producer::new(&self.settings) };
    }

    /// Repeats an unanswered request.
    pub fn on_tick(&mut self, now: Time) {
        if let Request::Sent(at) = self.request
            && now >= at + self.settings.heartbeat
        {
            self.request = Request::Due;
        }
    }

    /// Emits the next packet that carries no data. `master` is none if this member is the master.
    pub fn poll_control(
        &mut self,
        context: &mut Context,
        order: &Order,
        frame: Frame,
        master: Option<usize>,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some(message) = self.cancels.pop_first() {
            let body = Body::Empty(Empty::Cancel);
            return Some(frame.control_at(context, order, To::Group, message, body, buf));
        }
        if let Some((rank, range)) = self.denials.pop_first() {
            let bytes = [range.bytes()];
            // The record states whether the message was rejected.
            let message = order.near(range.high.0) + 1;
            let body = Body::Deny(Ranges::new(&bytes));
            return Some(frame.control_at(context, order, To::Rank(rank), message, body, buf));
        }
        let master = master.filter(|_| self.request == Request::Due)?;
        self.request = Request::Sent(context.now);
        context.control("token_request", order.horizon());
        let stream = self.settings.stream(order.outbox.first_due().unwrap_or(0));
        let record = order.record(order.horizon(), 0);
        frame.emit(context, To::Rank(master), (context.rank, stream), record, Body::TokenRequest, buf);
        Some(context.transmit(To::Rank(master)))
    }

    /// Emits the next data packet: repairs come first and count for the window (3.2.6).
    pub fn poll_data(
        &mut self,
        context: &mut Context,
        order: &mut Order,
        frame: Frame,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.repairs.is_empty() && self.current.is_none() {
            return None;
        }
        if context.now >= self.interval.0 + self.settings.heartbeat {
            self.interval = (context.now, 0);
        }
        let left = self.settings.window.saturating_sub(self.interval.1);
        if left == 0 {
            let at = self.interval.0 + self.settings.heartbeat;
            context.timers.arm(Timer::Window, at.max(context.now + MIN_INTERVAL));
            return None;
        }
        while let Some((message, packet)) = self.repairs.pop_first() {
            if let Some(transmit) = self.repair(context, order, frame, (message, packet), buf) {
                self.interval.1 += 1;
                return Some(transmit);
            }
        }
        let Current { message, first, packets, sent } = self.current?;
        self.interval.1 += 1;
        let number = first + u64::from(sent);
        let mark = match sent + 1 == packets {
            true => Mark::EndOfMessage,
            false if left == 1 => Mark::EndOfWindow,
            false => Mark::Data,
        };
        self.current = (sent + 1 < packets).then_some(Current { message, first, packets, sent: sent + 1 });
        let payload = order.outbox.get(number)?.clone();
        let stream = self.settings.stream(first);
        self.emit_data(
            context,
            order,
            frame,
            (message, sent),
            mark,
            (context.rank, stream),
            (number, &payload),
            buf,
        );
        let again = order.outbox.send(number);
        order.outbox.set_ordered(number);
        // The producer holds its own message like all others.
        order.on_data(context, (message, sent), (context.rank, stream), mark, (number, payload));
        Some(context.data_sent(To::Group, (context.rank, number), buf.len(), again, again))
    }

    /// Returns true if a token is awaited.
    pub fn is_waiting(&self) -> bool {
        self.request != Request::None
    }

    /// Name of the state, for diagrams.
    pub fn state(&self) -> &'static str {
        match (self.current, self.request) {
            (Some(_), _) => "Sending",
            (None, Request::None) => "Idle",
            (None, _) => "Requesting",
        }
    }

    /// Emits a kept packet again, with present parameters and record (3.2.6).
    fn repair(
        &self,
        context: &mut Context,
        order: &Order,
        frame: Frame,
        (message, packet): (u64, u16),
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let kept = order.kept((context.now, context.rank), message, packet)?;
        let mark = if kept.is_last { Mark::EndOfMessage } else { Mark::Data };
        let (of, data) = ((kept.source, kept.stream), (kept.number, kept.payload));
        self.emit_data(context, order, frame, (message, packet), mark, of, data, buf);
        Some(context.data_sent(To::Group, (kept.source, kept.number), buf.len(), true, true))
    }

    #[expect(clippy::too_many_arguments, reason = "a packet has that many fields")]
    fn emit_data(
        &self,
        context: &Context,
        order: &Order,
        frame: Frame,
        (message, packet): (u64, u16),
        mark: Mark,
        of: (usize, u8),
        (number, payload): (u64, &bytes::Bytes),
        buf: &mut Vec<u8>,
    ) {
        let mut data = Vec::with_capacity(NUMBER_LEN + payload.len());
        data.extend_from_slice(&(number as u32).to_be_bytes());
        data.extend_from_slice(payload);
        frame.emit(context, To::Group, of, order.record(message, packet), Body::Data(mark, &data), buf);
    }
}

/// Bytes before the contents of an application's message: its number at its source.
pub(super) const NUMBER_LEN: usize = 4;
/// Maximum number of ranges that one NAK may name.
pub(super) const MAX_RANGES: usize = 32;
/// Maximum number of repairs that wait.
const MAX_REPAIRS: usize = 4096;
/// Maximum number of refusals that wait.
const MAX_DENIALS: usize = 64;
