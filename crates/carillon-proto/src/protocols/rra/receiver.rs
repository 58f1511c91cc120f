//! Receiver of RRA: orders messages, and acknowledges when it is named.

use bytes::Bytes;
use carillon_core::{BuildContext, Config, DropReason, Received, Role, Transmit, expand};
use carillon_wire::map::{MAX_WORDS, Map};
use carillon_wire::rra::{HEADER_LEN, Packet};

use crate::blocks::{AckWait, MachineContext, Part, PastLimit, Player, Reception};

/// Delivers messages in order, and acknowledges when the sender names it.
#[derive(Debug)]
pub struct RraReceiver {
    /// Identity by which the sender names this receiver.
    identity: u32,
    window: u64,
    /// True if the sender never skips missing messages (`past_limit = "wait"`). Packets that skip some mean that the
    /// sender has expelled this receiver.
    sender_waits: bool,
    /// Maximum number of messages that fit its memory.
    capacity: u64,
    /// Maximum number of bitmap words in an acknowledgment.
    max_map_words: usize,
    reception: Reception,
    /// Number of DATA packets received, modulo 2^32.
    arrived: u32,
    /// Newest poll to answer; its answer covers all earlier ones.
    pending_poll: Option<u32>,
    ack_wait: AckWait,
    /// Bitmap of the last acknowledgment, kept to reuse its allocation.
    map: Vec<u8>,
}

impl RraReceiver {
    /// Creates a receiver of a session.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        RraReceiver {
            identity: build.identities.own(build.node) as u32,
            window: settings.count("window"),
            sender_waits: matches!(PastLimit::of(settings), PastLimit::Wait),
            capacity: build.max_messages(u64::MAX),
            // The thesis polls one receiver at a time and has small acknowledgments.
            max_map_words: if settings.count("questions") == 1 { 1 } else { MAX_WORDS },
            reception: Reception::default(),
            arrived: 0,
            pending_poll: None,
            ack_wait: AckWait::new(build, settings),
            map: Vec::new(),
        }
        .play(build)
    }

    /// Skips to `first`, the oldest message that the sender holds: delivers what is present and reports one loss
    /// event for the rest, however large the jump.
    fn give_up_before(&mut self, context: &mut MachineContext, first: u64) {
        context.events.loss_found(context.sender, self.reception.expected());
        for (number, payload) in self.reception.skip_to(first) {
            context.deliver_sent(number, payload);
        }
        self.deliver_in_order(context);
    }

    fn deliver_in_order(&mut self, context: &mut MachineContext) {
        while let Some((number, payload)) = self.reception.pop() {
            context.deliver_sent(number, payload);
        }
    }

    fn on_data(&mut self, context: &mut MachineContext, number: u64, payload: Bytes) {
        self.arrived = self.arrived.wrapping_add(1);
        let expected = self.reception.expected();
        if self.reception.has(number) {
            return context.events.dropped(DropReason::Duplicate);
        }
        if number >= expected + self.window {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        if number - expected >= self.room(context) {
            // The application is too slow: treat the message as lost, since the sender will repeat it.
            return context.events.dropped(DropReason::BufferFull);
        }
        context.events.received("data", number);
        if number > expected && self.reception.is_empty() {
            context.events.loss_found(context.sender, expected);
        }
        self.reception.insert(number, payload);
        self.deliver_in_order(context);
    }

    /// Number of messages from the expected one on that fit the window and memory.
    fn room(&self, context: &MachineContext) -> u64 {
        self.window.min(self.capacity).saturating_sub(context.waiting() as u64)
    }
}

impl Part for RraReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.reception.len() as u64)
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        let (sequence, first, asks, data) = match packet {
            Packet::Ack { .. } => return context.events.dropped(DropReason::Foreign),
            Packet::Data { sequence, first, asks, .. } => (sequence, first, asks, true),
            Packet::Poll { sequence, first, asks } => (sequence, first, Some(asks), false),
        };
        let expected = self.reception.expected();
        let number = expand(sequence.into(), MODULUS, expected);
        let first = expand(first.into(), MODULUS, expected);
        // The sender's window spans at most `window` messages up to its newest.
        if first > number || number - first >= self.window {
            return context.events.dropped(DropReason::Malformed);
        }
        if first > expected && self.sender_waits {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        if first > expected {
            self.give_up_before(context, first);
        }
        if data {
            self.on_data(context, number, datagram.bytes.slice(HEADER_LEN..));
        } else {
            context.events.received("poll", number);
        }
        if let Some(asks) = asks.filter(|asks| asks.acker == self.identity) {
            self.pending_poll = Some(asks.question);
        }
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        let question = self.pending_poll.take()?;
        self.map.clear();
        self.reception.map(self.max_map_words, |word| Map::push(word, &mut self.map));
        let expected = self.reception.expected();
        Packet::Ack {
            expected: (expected % MODULUS) as u32,
            question,
            arrived: self.arrived,
            room: u16::try_from(self.room(context)).unwrap_or(u16::MAX),
            received: Map::new(&self.map),
        }
        .emit(context.association, buf);
        Some(self.ack_wait.answer(context, "ack", expected.saturating_sub(1), buf))
    }
}

/// Modulus of 32-bit sequence numbers on the wire.
pub(super) const MODULUS: u64 = 1 << 32;
