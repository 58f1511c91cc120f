//! The receiving side of stop-and-wait.

use carillon_core::{BuildContext, Config, DropReason, Received, Role, Transmit};
use carillon_wire::msaw::Packet;

use crate::blocks::{AckWait, MachineContext, Part, Player};

/// Acknowledges every data packet from the sender; delivers those that are new. One waits for the application: a single
/// buffer, as in the source. The sender sends no other before it was acknowledged, and the host fetches it before the
/// acknowledgment is answered.
#[derive(Debug)]
pub struct MsawReceiver {
    /// Messages delivered so far; its lowest bit is the expected sequence number.
    expected: u64,
    /// The sequence number of the acknowledgment that is due.
    ack_due: Option<u8>,
    ack_wait: AckWait,
}

impl MsawReceiver {
    /// A receiver of this session.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        let ack_wait = AckWait::set_by_method(build, settings);
        MsawReceiver { expected: 0, ack_due: None, ack_wait }.play(build)
    }
}

impl Part for MsawReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(0)
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        let (sequence, len) = match packet {
            Packet::Data { sequence, payload } => (sequence, payload.len()),
            Packet::Timed { sequence, ack_wait, payload } => {
                self.ack_wait.set(ack_wait);
                (sequence, payload.len())
            }
            _ => return context.events.dropped(DropReason::Foreign),
        };
        // Section 2.5: a message that is not the expected one was acknowledged before; its
        // acknowledgment was lost and is sent again.
        let new = u64::from(sequence) == self.expected & 1;
        if new && context.waiting() > 0 {
            // The application has not fetched the last one: say nothing and be sent it again.
            return context.events.dropped(DropReason::BufferFull);
        }
        self.ack_due = Some(sequence);
        if new {
            context.events.received("data", self.expected);
            context.deliver_sent(self.expected, datagram.bytes.slice(datagram.bytes.len() - len..));
            self.expected += 1;
        } else {
            context.events.dropped(DropReason::Duplicate);
        }
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        let sequence = self.ack_due.take()?;
        Packet::Ack { sequence }.emit(context.association, buf);
        Some(self.ack_wait.answer(context, "ack", self.expected.saturating_sub(1), buf))
    }
}
