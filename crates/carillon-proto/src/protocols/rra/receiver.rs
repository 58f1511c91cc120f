//! The receiving side: keeps what comes, and acknowledges when it is named.

use std::collections::VecDeque;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, Delivery, DropReason, Event, Events, Machine, MessageId, NodeId,
    Received, Receiver, Time, Transmit, expand,
};
use carillon_wire::rra::{HEADER_LEN, MAX_WORDS, Map, Packet};

use crate::blocks::{AckWait, Reception};

/// Delivers in order; acknowledges when the sender names it.
#[derive(Debug)]
pub struct RraReceiver {
    association: AssociationId,
    sender: NodeId,
    /// What the sender calls it.
    identity: u32,
    window: u64,
    /// Messages that its memory holds.
    capacity: u64,
    /// Words that the map of an acknowledgment may have.
    most_words: usize,
    reception: Reception,
    /// DATA that have come.
    arrived: u32,
    /// The newest question that is to be answered: its answer says all that those before would.
    asked: Option<u32>,
    ack_wait: AckWait,
    /// The map of the last acknowledgment, kept for its room.
    map: Vec<u8>,
    deliveries: VecDeque<Delivery>,
    events: Events,
}

impl RraReceiver {
    /// A receiver of this session.
    pub fn new(context: &BuildContext, settings: &Config) -> Self {
        RraReceiver {
            association: context.association,
            sender: context.sender,
            identity: context.identities.own(context.node) as u32,
            window: settings.count("window"),
            capacity: context.most_messages(u64::MAX),
            // One question at a time is the thesis's, whose acknowledgments are small.
            most_words: if settings.count("questions") == 1 { 1 } else { MAX_WORDS },
            reception: Reception::default(),
            arrived: 0,
            asked: None,
            ack_wait: AckWait::new(context, settings),
            map: Vec::new(),
            deliveries: VecDeque::new(),
            events: Events::default(),
        }
    }

    /// The sender holds nothing before `first` any more: what is there is delivered, the rest is
    /// lost. One event for all, however far the numbers jump.
    fn give_up_before(&mut self, first: u64) {
        let lost = MessageId(self.reception.expected());
        self.events.loss_found(self.sender, lost);
        for (number, payload) in self.reception.skip_to(first) {
            self.deliver(MessageId(number), payload);
        }
        self.deliver_in_order();
    }

    fn deliver_in_order(&mut self) {
        while let Some((number, payload)) = self.reception.pop() {
            self.deliver(MessageId(number), payload);
        }
    }

    fn on_data(&mut self, number: u64, payload: Bytes) {
        self.arrived = self.arrived.wrapping_add(1);
        let expected = self.reception.expected();
        if self.reception.has(number) {
            return self.events.dropped(DropReason::Duplicate);
        }
        if number >= expected + self.window {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        if number - expected >= self.room() {
            // The application does not keep up: as good as lost, the sender will repeat it.
            return self.events.dropped(DropReason::BufferFull);
        }
        self.events.received("data", number);
        if number > expected && self.reception.is_empty() {
            self.events.loss_found(self.sender, expected);
        }
        self.reception.insert(number, payload);
        self.deliver_in_order();
    }

    /// Messages from the expected one on that it can take.
    fn room(&self) -> u64 {
        self.window.min(self.capacity).saturating_sub(self.deliveries.len() as u64)
    }

    fn deliver(&mut self, message: MessageId, payload: Bytes) {
        self.deliveries.push_back(Delivery { source: self.sender, message, payload });
        self.events.push(Event::Delivered { source: self.sender, message });
    }
}

impl Machine for RraReceiver {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.events.of_session(parsed, self.association) else { return };
        let (sequence, first, asks, data) = match packet {
            _ if datagram.source != self.sender => return self.events.dropped(DropReason::NotAMember),
            Packet::Ack { .. } => return self.events.dropped(DropReason::Foreign),
            Packet::Data { sequence, first, asks, .. } => (sequence, first, asks, true),
            Packet::Poll { sequence, first, asks } => (sequence, first, Some(asks), false),
        };
        let expected = self.reception.expected();
        let number = expand(sequence.into(), MODULUS, expected);
        let first = expand(first.into(), MODULUS, expected);
        // What the sender holds spans at most a window before its newest message.
        if first > number || number - first >= self.window {
            return self.events.dropped(DropReason::Malformed);
        }
        if first > expected {
            self.give_up_before(first);
        }
        if data {
            self.on_data(number, datagram.bytes.slice(HEADER_LEN..));
        } else {
            self.events.received("poll", number);
        }
        if let Some(asks) = asks.filter(|asks| asks.acker == self.identity) {
            self.asked = Some(asks.question);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let question = self.asked.take()?;
        self.map.clear();
        self.reception.map(self.most_words, |word| Map::push(word, &mut self.map));
        let expected = self.reception.expected();
        Packet::Ack {
            expected: (expected % MODULUS) as u32,
            question,
            arrived: self.arrived,
            room: u16::try_from(self.room()).unwrap_or(u16::MAX),
            received: Map::new(&self.map),
        }
        .emit(self.association, buf);
        self.events.control("ack", expected.saturating_sub(1));
        Some(self.ack_wait.transmit(now, self.sender, buf))
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for RraReceiver {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }
}

/// Sequence numbers on the wire have 32 bits.
pub(super) const MODULUS: u64 = 1 << 32;
