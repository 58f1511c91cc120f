//! The receiving side: keeps what comes, and acknowledges when it is named.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, Delivery, Dest, DropReason, Event, Events, Machine, MessageId,
    NodeId, Received, Receiver, Time, Transmit, expand,
};
use carillon_wire::rra::{HEADER_LEN, Packet};

use crate::blocks::AckWait;

/// Delivers in order; acknowledges when the sender names it.
#[derive(Debug)]
pub struct RraReceiver {
    association: AssociationId,
    sender: NodeId,
    identity: u64,
    window: u64,
    /// The first message it lacks.
    expected: u64,
    /// Messages beyond that, at most a window of them.
    early: BTreeMap<u64, Bytes>,
    ack_due: bool,
    ack_wait: AckWait,
    ack_len: usize,
    deliveries: VecDeque<Delivery>,
    events: Events,
}

impl RraReceiver {
    /// A receiver of this session.
    pub fn new(context: &BuildContext, settings: &Config) -> Self {
        RraReceiver {
            association: context.association,
            sender: context.sender,
            identity: context.identities.own(context.node),
            window: settings.count("window"),
            expected: 0,
            early: BTreeMap::new(),
            ack_due: false,
            ack_wait: AckWait::new(settings.span("ack_wait"), context.bit_rate, &context.seeds),
            ack_len: (settings.size("ack_bytes").0 as usize).saturating_sub(context.link_overhead as usize),
            deliveries: VecDeque::new(),
            events: Events::default(),
        }
    }

    /// The sender holds nothing before `first` any more: what is there is delivered, the rest is
    /// lost. One event for all, however far the numbers jump.
    fn give_up_before(&mut self, first: u64) {
        self.events.push(Event::LossFound { source: Some(self.sender), message: MessageId(self.expected) });
        let rest = self.early.split_off(&first);
        for (number, payload) in std::mem::replace(&mut self.early, rest) {
            self.deliver(MessageId(number), payload);
        }
        self.expected = first;
        self.deliver_in_order();
    }

    fn deliver_in_order(&mut self) {
        while let Some(payload) = self.early.remove(&self.expected) {
            self.deliver(MessageId(self.expected), payload);
            self.expected += 1;
        }
    }

    fn on_data(&mut self, number: u64, payload: Bytes) {
        let message = MessageId(number);
        if number < self.expected || self.early.contains_key(&number) {
            return self.events.dropped(DropReason::Duplicate);
        }
        if number >= self.expected + self.window {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        if (self.deliveries.len() + self.early.len()) as u64 >= self.window {
            // The application does not keep up: as good as lost, the sender will repeat it.
            return self.events.dropped(DropReason::BufferFull);
        }
        self.events.push(Event::Received { packet: "data", message });
        if number > self.expected && self.early.is_empty() {
            self.events
                .push(Event::LossFound { source: Some(self.sender), message: MessageId(self.expected) });
        }
        self.early.insert(number, payload);
        self.deliver_in_order();
    }

    fn deliver(&mut self, message: MessageId, payload: Bytes) {
        self.deliveries.push_back(Delivery { source: self.sender, message, payload });
        self.events.push(Event::Delivered { source: self.sender, message });
    }
}

impl Machine for RraReceiver {
    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        let (sequence, first, acker, data) = match Packet::parse(datagram.bytes) {
            Err(_) => return self.events.dropped(DropReason::Malformed),
            Ok((association, _)) if association != self.association => {
                return self.events.dropped(DropReason::Foreign);
            }
            Ok(_) if datagram.source != self.sender => return self.events.dropped(DropReason::NotAMember),
            Ok((_, Packet::Ack { .. })) => return self.events.dropped(DropReason::Foreign),
            Ok((_, Packet::Data { sequence, first, acker, .. })) => (sequence, first, acker, true),
            Ok((_, Packet::Poll { sequence, first, acker })) => (sequence, first, acker, false),
        };
        let number = expand(sequence.into(), MODULUS, self.expected);
        let first = expand(first.into(), MODULUS, self.expected);
        // What the sender holds spans at most a window before its newest message.
        if first > number || number - first >= self.window {
            return self.events.dropped(DropReason::Malformed);
        }
        if first > self.expected {
            self.give_up_before(first);
        }
        if data {
            self.on_data(number, datagram.bytes.slice(HEADER_LEN..));
        } else {
            self.events.push(Event::Received { packet: "poll", message: MessageId(number) });
        }
        self.ack_due |= acker == self.identity;
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !std::mem::take(&mut self.ack_due) {
            return None;
        }
        let beyond = self.expected + 1;
        let received = self.early.range(beyond..beyond + 64).fold(0, |map, (&n, _)| map | 1 << (n - beyond));
        let expected = (self.expected % MODULUS) as u32;
        Packet::Ack { expected, received }.emit(self.association, buf);
        if buf.len() < self.ack_len {
            buf.resize(self.ack_len, 0);
        }
        let message = MessageId(self.expected.saturating_sub(1));
        self.events.push(Event::ControlSent { packet: "ack", message });
        Some(Transmit { departure: self.ack_wait.draw(now), ..Transmit::now(Dest::Node(self.sender)) })
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
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
