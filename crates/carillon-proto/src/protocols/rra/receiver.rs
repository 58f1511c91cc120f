//! The receiving side: keeps what comes, and acknowledges when it is named.

use bytes::Bytes;
use carillon_core::{BuildContext, Config, DropReason, Received, Role, Transmit, expand};
use carillon_wire::map::{MAX_WORDS, Map};
use carillon_wire::rra::{HEADER_LEN, Packet};

use crate::blocks::{AckWait, MachineContext, Part, PastLimit, Player, Reception};

/// Delivers in order; acknowledges when the sender names it.
#[derive(Debug)]
pub struct RraReceiver {
    /// What the sender calls it.
    identity: u32,
    window: u64,
    /// The sender skips nothing that it lacks: where it does, it has given this receiver up, which its host will be told.
    sender_waits: bool,
    /// Messages that its memory holds.
    capacity: u64,
    /// Words that the map of an acknowledgment may have.
    max_map_words: usize,
    reception: Reception,
    /// DATA that have come.
    arrived: u32,
    /// The newest question that is to be answered: its answer says all that those before would.
    pending_poll: Option<u32>,
    ack_wait: AckWait,
    /// The map of the last acknowledgment, kept for its room.
    map: Vec<u8>,
}

impl RraReceiver {
    /// A receiver of this session.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        RraReceiver {
            identity: build.identities.own(build.node) as u32,
            window: settings.count("window"),
            sender_waits: matches!(PastLimit::of(settings), PastLimit::Wait),
            capacity: build.max_messages(u64::MAX),
            // One question at a time is the thesis's, whose acknowledgments are small.
            max_map_words: if settings.count("questions") == 1 { 1 } else { MAX_WORDS },
            reception: Reception::default(),
            arrived: 0,
            pending_poll: None,
            ack_wait: AckWait::new(build, settings),
            map: Vec::new(),
        }
        .play(build)
    }

    /// The sender holds nothing before `first` any more: what is there is delivered, the rest is
    /// lost. One event for all, however far the numbers jump.
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
            // The application does not keep up: as good as lost, the sender will repeat it.
            return context.events.dropped(DropReason::BufferFull);
        }
        context.events.received("data", number);
        if number > expected && self.reception.is_empty() {
            context.events.loss_found(context.sender, expected);
        }
        self.reception.insert(number, payload);
        self.deliver_in_order(context);
    }

    /// Messages from the expected one on that it can take.
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
        // What the sender holds spans at most a window before its newest message.
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

/// Sequence numbers on the wire have 32 bits.
pub(super) const MODULUS: u64 = 1 << 32;
