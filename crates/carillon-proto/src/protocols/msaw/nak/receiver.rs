//! Receiving side: sends a NAK for an announced message that is missing, and an acknowledgment when polled.

use carillon_core::{BuildContext, Config, DropReason, Received, Role, Transmit, expand};
use carillon_wire::msaw::{HEADER_LEN, Packet};

use super::MODULUS;
use crate::blocks::{AckWait, MachineContext, Part, Player};

/// Receiver that accepts messages in sequence only, and is silent unless it misses a message or is polled. One
/// message waits for the application, as in stop-and-wait.
#[derive(Debug)]
pub struct NakReceiver {
    poll_interval: u64,
    /// Number of the next message.
    expected: u64,
    answer: Option<Answer>,
    ack_wait: AckWait,
}

/// Answer that is due to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Ack,
    Nak { round: u8 },
}

impl NakReceiver {
    /// Creates a receiver of the session.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        NakReceiver {
            poll_interval: settings.count("poll_interval"),
            expected: 0,
            answer: None,
            ack_wait: AckWait::new(build, settings),
        }
        .play(build)
    }

    /// Full number of a sequence number.
    fn number(&self, sequence: u8) -> u64 {
        expand(sequence.into(), MODULUS, self.expected)
    }

    fn on_message(&mut self, context: &mut MachineContext, sequence: u8, datagram: Received<'_>) {
        let number = self.number(sequence);
        match number.cmp(&self.expected) {
            std::cmp::Ordering::Less => context.events.dropped(DropReason::Duplicate),
            // The announcement that follows will be answered with a NAK.
            std::cmp::Ordering::Greater => context.events.dropped(DropReason::OutOfOrder),
            // The application has not fetched the last message: this one counts as lost.
            std::cmp::Ordering::Equal if context.waiting() > 0 => {
                context.events.dropped(DropReason::BufferFull)
            }
            std::cmp::Ordering::Equal => {
                self.expected += 1;
                context.events.received("data", number);
                context.deliver_sent(number, datagram.bytes.slice(HEADER_LEN..));
            }
        }
    }

    /// Handles an announcement or a poll of the sender.
    fn on_announcement(
        &mut self,
        context: &mut MachineContext,
        sequence: u8,
        first: u8,
        round: u8,
        poll: bool,
    ) {
        let (number, first) = (self.number(sequence), self.number(first));
        if first > number || number - first >= self.poll_interval {
            return context.events.dropped(DropReason::Malformed);
        }
        let packet = if poll { "poll" } else { "announce" };
        context.events.received(packet, number);
        if first > self.expected {
            // The sender has discarded the messages before `first`.
            context.events.loss_found(context.sender, self.expected);
            self.expected = first;
        }
        if self.expected > number {
            self.answer = poll.then_some(Answer::Ack);
        } else if poll || context.waiting() == 0 {
            // A receiver without room does not request a message that it could not store, unless it is polled.
            context.events.loss_found(context.sender, self.expected);
            self.answer = Some(Answer::Nak { round });
        }
    }
}

impl Part for NakReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(0)
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Numbered { sequence, .. } => self.on_message(context, sequence, datagram),
            Packet::Announce { sequence, first, round } | Packet::Poll { sequence, first, round } => {
                let poll = matches!(packet, Packet::Poll { .. });
                self.on_announcement(context, sequence, first, round, poll);
            }
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
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
        packet.emit(context.association, buf);
        Some(self.ack_wait.answer(context, name, about, buf))
    }
}
