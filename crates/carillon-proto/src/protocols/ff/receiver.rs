//! Receiving side: acknowledges every packet that it accepts.

use std::collections::VecDeque;

use carillon_core::{BuildContext, Config, Delivery, Dest, DropReason, Received, Role, Transmit, expand};
use carillon_wire::ff::{HEADER_LEN, Packet};

use crate::blocks::{Arrival, MachineContext, Part, Player, ReceiveWindow};

/// Receiver that delivers in order and acknowledges each packet.
#[derive(Debug)]
pub struct FfReceiver {
    window: ReceiveWindow,
    /// Pending acknowledgments: sequence number and timestamp of each packet, in order of arrival.
    acks: VecDeque<(u32, u64)>,
    /// Maximum number of pending acknowledgments: one window of packets.
    max_acks: usize,
}

impl FfReceiver {
    /// Creates a receiver of the session.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        let room = build.max_messages(settings.count("window"));
        FfReceiver { window: ReceiveWindow::new(room, false), acks: VecDeque::new(), max_acks: room as usize }
            .play(build)
    }

    /// Delivers the messages that are in order.
    fn deliver(&mut self, context: &mut MachineContext) {
        while let Some((number, payload)) = self.window.pop() {
            context.deliver_sent(number, payload);
        }
    }
}

impl Part for FfReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.window.held())
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let packet = context.of_sender(datagram.source, Packet::parse(datagram.bytes));
        let (seq, first, time) = match packet {
            None => return,
            Some(Packet::Ack { .. }) => return context.events.dropped(DropReason::Foreign),
            Some(Packet::Data { seq, first, time, .. }) => (seq, first, time),
        };
        let expected = self.window.expected();
        let (number, first) =
            (expand(seq.into(), MODULUS, expected), expand(first.into(), MODULUS, expected));
        if first > number || number - first > MAX_WINDOW_SPAN {
            return context.events.dropped(DropReason::Malformed);
        }
        // The sender skips messages before `first`: they will not be repaired.
        if let Some(skipped) = self.window.skip_to(first) {
            context.events.loss_found(context.sender, expected);
            for (number, payload) in skipped.survivors {
                context.deliver_sent(number, payload);
            }
            self.deliver(context);
        }
        let missed = !self.window.early().is_empty();
        match self.window.insert(number, datagram.bytes.slice(HEADER_LEN..)) {
            // Without an acknowledgment the sender repeats the packet.
            Arrival::NoRoom => return context.events.dropped(DropReason::BufferFull),
            Arrival::Duplicate => context.events.dropped(DropReason::Duplicate),
            Arrival::New => {
                context.received("data", number);
                if number > self.window.expected() && !missed {
                    context.events.loss_found(context.sender, self.window.expected());
                }
            }
        }
        self.deliver(context);
        // A duplicate is acknowledged too: its first acknowledgment may be lost.
        if self.acks.len() < self.max_acks {
            self.acks.push_back((seq, time));
        }
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (seq, time) = self.acks.pop_front()?;
        Packet::Ack { seq, time }.emit(context.association, buf);
        context.control("ack", expand(seq.into(), MODULUS, self.window.expected()));
        Some(Transmit::now(Dest::Node(context.sender)))
    }

    fn poll_delivery(&mut self, context: &mut MachineContext) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.window.fetched();
        Some(delivery)
    }
}

/// Sequence space: sequence numbers on the wire have 32 bits.
pub(super) const MODULUS: u64 = 1 << 32;
/// Maximum number of messages between the oldest that the sender holds and the newest; a larger span is malformed.
const MAX_WINDOW_SPAN: u64 = 65_536;
