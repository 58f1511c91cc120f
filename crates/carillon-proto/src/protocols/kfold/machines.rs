//! Sender and receiver of k-fold repetition.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, DropReason, Duration, MessageId, ObservedState, OfferError, Received, Role, Time,
    Transmit, expand,
};
use carillon_wire::kfold::{HEADER_LEN, Packet};

use crate::blocks::{MachineContext, Part, Player};

/// Sender that transmits each message `copies` times.
#[derive(Debug)]
pub struct KfoldSender {
    /// Number of transmissions of each message.
    copies: u64,
    /// Time between two packets.
    interval: Duration,
    /// Message in transmission, and the number of copies sent.
    current: Option<(Bytes, u64)>,
    /// Number of the current or next message.
    number: u64,
    /// Earliest time of the next packet.
    next_at: Time,
    /// True while a packet is due and waits for room at the driver.
    due: bool,
    finishing: bool,
}

impl KfoldSender {
    /// Creates the sender of a group.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        KfoldSender {
            copies: settings.count("copies"),
            interval: settings.span("interval").at(build.bit_rate),
            current: None,
            number: 0,
            next_at: Time::ZERO,
            due: false,
            finishing: false,
        }
        .play(build)
    }
}

impl Part for KfoldSender {
    type Timer = ();

    const ROLE: Role = Role::Sender;

    fn report_states(&self, _context: &MachineContext, tell: &mut dyn FnMut(ObservedState)) {
        let (state, turn) = match self.current {
            Some((_, sent)) => ("Sending", sent),
            None => ("Idle", 0),
        };
        tell(ObservedState { of: "sender", about: 0, state, turn });
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, _datagram: Received<'_>) {
        context.events.dropped(DropReason::Foreign);
    }

    // A packet that is due waits for room at the driver, not for a time.
    fn poll_timeout(&self) -> Option<Time> {
        self.current.as_ref().filter(|_| !self.due).map(|_| self.next_at)
    }

    fn handle_timeout(&mut self, _context: &mut MachineContext) {
        self.due = true;
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Every transmission counts as a copy, and all but the first as repairs.
        let (payload, sent) = self.current.as_mut().filter(|_| self.due)?;
        Packet { number: self.number as u32, payload }.emit(context.association, buf);
        let (message, repair) = (MessageId(self.number), *sent > 0);
        *sent += 1;
        if *sent == self.copies {
            self.current = None;
            self.number += 1;
        }
        self.next_at = context.now + self.interval;
        self.due = self.interval.is_zero();
        let to_group = context.to_group();
        Some(context.events.data_sent(to_group, message, buf.len(), repair))
    }

    fn offer(&mut self, context: &mut MachineContext, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finishing {
            return Err(OfferError::Finished);
        }
        if self.current.is_some() {
            return Err(OfferError::Full);
        }
        self.current = Some((payload, 0));
        self.next_at = self.next_at.max(context.now);
        // The interval also separates the last copy of a message from the first of the next.
        self.due = self.next_at == context.now;
        Ok(MessageId(self.number))
    }

    fn finish(&mut self, _context: &mut MachineContext) {
        self.finishing = true;
    }

    fn is_finished(&self) -> bool {
        self.finishing && self.current.is_none()
    }
}

/// Receiver that delivers each message newer than the last, without waiting for gaps.
#[derive(Debug)]
pub struct KfoldReceiver {
    /// First number that is still accepted.
    next: u64,
    /// Maximum number of messages kept for the application; further messages are dropped.
    room: u64,
}

impl KfoldReceiver {
    /// Creates a receiver of a group.
    pub fn new(build: &BuildContext) -> Player<Self> {
        KfoldReceiver { next: 0, room: build.max_messages(MAX_BUFFERED_MESSAGES) }.play(build)
    }
}

impl Part for KfoldReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        let number = expand(packet.number.into(), 1 << 32, self.next);
        if number < self.next {
            context.events.dropped(DropReason::Duplicate);
        } else if number - self.next > MAX_SEQUENCE_JUMP {
            context.events.dropped(DropReason::OutOfWindow);
        } else if context.waiting() as u64 >= self.room {
            context.events.dropped(DropReason::BufferFull);
        } else {
            context.events.received("data", number);
            // Without repair, a gap is final: the sender never goes back to an earlier message.
            for message in (self.next..number).map(MessageId) {
                context.events.loss_found(context.sender, message);
                context.events.loss_final(context.sender, message);
            }
            context.deliver_sent(number, datagram.bytes.slice(HEADER_LEN..));
            self.next = number + 1;
        }
    }
}

/// Upper limit of messages kept for the application; a small memory limit reduces it.
const MAX_BUFFERED_MESSAGES: u64 = 1024;
/// Maximum distance of a number from the next expected one; packets beyond it are dropped as implausible.
const MAX_SEQUENCE_JUMP: u64 = 1024;
