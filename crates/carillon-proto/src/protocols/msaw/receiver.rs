//! The receiving side of stop-and-wait.

use carillon_core::{
    AssociationId, BuildContext, Config, Delivery, DropReason, Event, Events, Machine, MessageId, NodeId,
    Received, Receiver, Time, Transmit,
};
use carillon_wire::msaw::Packet;

use crate::blocks::AckWait;

/// Acknowledges every data packet from the sender; delivers those that are new.
#[derive(Debug)]
pub struct MsawReceiver {
    association: AssociationId,
    sender: NodeId,
    /// Messages delivered so far; its lowest bit is the expected sequence number.
    expected: u64,
    /// The sequence number of the acknowledgment that is due.
    ack_due: Option<u8>,
    /// The message not yet fetched: a single buffer, as in the source. The sender sends no other
    /// before it was acknowledged, and the host fetches it before the acknowledgment is answered.
    delivery: Option<Delivery>,
    ack_wait: AckWait,
    events: Events,
}

impl MsawReceiver {
    /// A receiver of this session.
    pub fn new(context: &BuildContext, settings: &Config) -> Self {
        MsawReceiver {
            association: context.association,
            sender: context.sender,
            expected: 0,
            ack_due: None,
            delivery: None,
            ack_wait: AckWait::or_told(context, settings),
            events: Events::default(),
        }
    }
}

impl Machine for MsawReceiver {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.events.of_session(parsed, self.association) else { return };
        let (sequence, len) = match packet {
            _ if datagram.source != self.sender => return self.events.dropped(DropReason::NotAMember),
            Packet::Data { sequence, payload } => (sequence, payload.len()),
            Packet::Timed { sequence, ack_wait, payload } => {
                self.ack_wait.set(ack_wait);
                (sequence, payload.len())
            }
            _ => return self.events.dropped(DropReason::Foreign),
        };
        // Section 2.5: a message that is not the expected one was acknowledged before; its
        // acknowledgment was lost and is sent again.
        let new = u64::from(sequence) == self.expected & 1;
        if new && self.delivery.is_some() {
            // The application has not fetched the last one: say nothing and be sent it again.
            return self.events.dropped(DropReason::BufferFull);
        }
        self.ack_due = Some(sequence);
        if new {
            let message = MessageId(self.expected);
            self.expected += 1;
            let payload = datagram.bytes.slice(datagram.bytes.len() - len..);
            self.delivery = Some(Delivery { source: datagram.source, message, payload });
            self.events.received("data", message);
            self.events.push(Event::Delivered { source: datagram.source, message });
        } else {
            self.events.dropped(DropReason::Duplicate);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let sequence = self.ack_due.take()?;
        Packet::Ack { sequence }.emit(self.association, buf);
        self.events.control("ack", self.expected.saturating_sub(1));
        Some(self.ack_wait.transmit(now, self.sender, buf))
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for MsawReceiver {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivery.take()
    }
}
