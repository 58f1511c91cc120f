//! The receiving side: asks for what it misses when it is announced, acknowledges when it is polled.

use carillon_core::{
    AssociationId, BuildContext, Config, Delivery, DropReason, Event, Events, Machine, MessageId, NodeId,
    Received, Receiver, Time, Transmit, expand,
};
use carillon_wire::msaw::{HEADER_LEN, Packet};

use super::MODULUS;
use crate::blocks::AckWait;

/// Takes messages in sequence only; silent unless it misses something or is polled.
#[derive(Debug)]
pub struct NakReceiver {
    association: AssociationId,
    sender: NodeId,
    poll_interval: u64,
    /// The next message.
    expected: u64,
    /// The message not yet fetched: a single buffer, as in stop-and-wait.
    delivery: Option<Delivery>,
    answer: Option<Answer>,
    ack_wait: AckWait,
    events: Events,
}

/// What the sender is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Ack,
    Nak { round: u8 },
}

impl NakReceiver {
    /// A receiver of this session.
    pub fn new(context: &BuildContext, settings: &Config) -> Self {
        NakReceiver {
            association: context.association,
            sender: context.sender,
            poll_interval: settings.count("poll_interval"),
            expected: 0,
            delivery: None,
            answer: None,
            ack_wait: AckWait::new(context, settings),
            events: Events::default(),
        }
    }

    fn number(&self, sequence: u8) -> u64 {
        expand(sequence.into(), MODULUS, self.expected)
    }

    fn on_message(&mut self, sequence: u8, datagram: Received<'_>) {
        let number = self.number(sequence);
        match number.cmp(&self.expected) {
            std::cmp::Ordering::Less => self.events.dropped(DropReason::Duplicate),
            // Its announcement comes next, and will be answered.
            std::cmp::Ordering::Greater => self.events.dropped(DropReason::OutOfOrder),
            // The application has not fetched the last one: as good as lost.
            std::cmp::Ordering::Equal if self.delivery.is_some() => {
                self.events.dropped(DropReason::BufferFull);
            }
            std::cmp::Ordering::Equal => {
                self.expected += 1;
                let message = MessageId(number);
                let payload = datagram.bytes.slice(HEADER_LEN..);
                self.delivery = Some(Delivery { source: self.sender, message, payload });
                self.events.received("data", message);
                self.events.push(Event::Delivered { source: self.sender, message });
            }
        }
    }

    /// The sender says how far it is, and asks those that miss something, or all.
    fn on_announcement(&mut self, sequence: u8, first: u8, round: u8, poll: bool) {
        let (number, first) = (self.number(sequence), self.number(first));
        if first > number || number - first >= self.poll_interval {
            return self.events.dropped(DropReason::Malformed);
        }
        let packet = if poll { "poll" } else { "announce" };
        self.events.received(packet, number);
        if first > self.expected {
            // The sender has given up what lies before: it will not come any more.
            self.events.loss_found(self.sender, self.expected);
            self.expected = first;
        }
        if self.expected > number {
            self.answer = poll.then_some(Answer::Ack);
        } else if poll || self.delivery.is_none() {
            // Without room for what is missing there is no use in asking, unless all are asked.
            self.events.loss_found(self.sender, self.expected);
            self.answer = Some(Answer::Nak { round });
        }
    }
}

impl Machine for NakReceiver {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.events.of_session(parsed, self.association) else { return };
        match packet {
            _ if datagram.source != self.sender => self.events.dropped(DropReason::NotAMember),
            Packet::Numbered { sequence, .. } => self.on_message(sequence, datagram),
            Packet::Announce { sequence, first, round } => {
                self.on_announcement(sequence, first, round, false);
            }
            Packet::Poll { sequence, first, round } => {
                self.on_announcement(sequence, first, round, true);
            }
            _ => self.events.dropped(DropReason::Foreign),
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let sequence = |message: u64| (message % MODULUS) as u8;
        let (name, about, packet) = match self.answer.take()? {
            Answer::Ack => {
                let last = self.expected.checked_sub(1)?;
                ("ack", last, Packet::AckUpTo { sequence: sequence(last) })
            }
            Answer::Nak { round } => {
                ("nak", self.expected, Packet::Nak { sequence: sequence(self.expected), round })
            }
        };
        packet.emit(self.association, buf);
        self.events.control(name, about);
        Some(self.ack_wait.transmit(now, self.sender, buf))
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for NakReceiver {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivery.take()
    }
}
