//! Receiving side of stop-and-wait.

use carillon_core::{BuildContext, Config, DropReason, Received, Role, Transmit};
use carillon_wire::msaw::Packet;

use crate::blocks::{AckWait, MachineContext, Part, Player};

/// Receiver that acknowledges every data packet and delivers new ones. The application has a single buffer, as in the
/// source. The sender transmits no other message before the acknowledgment, and the host fetches the message before
/// the acknowledgment is answered.
#[derive(Debug)]
pub struct MsawReceiver {
    /// Number of messages delivered; its lowest bit is the expected sequence number.
    expected: u64,
    /// Sequence number of the acknowledgment that is due.
    ack_due: Option<u8>,
    ack_wait: AckWait,
}

impl MsawReceiver {
    /// Creates a receiver of the session.
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
        // Section 2.5: an unexpected message was acknowledged before. Its acknowledgment was lost and is sent again.
        let new = u64::from(sequence) == self.expected & 1;
        if new && context.waiting() > 0 {
            // The application has not fetched the last message: without an acknowledgment the sender repeats this
            // one.
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
