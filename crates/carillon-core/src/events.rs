//! Queue of events and notices that a machine has not handed out yet.

use crate::notice::Notices;
use crate::{
    AssociationId, DropReason, Event, InlineQueue, MessageId, NodeId, Note, Notice, Outcome, Transmit,
};

/// Pending events and notices of a machine. Allocates nothing before the first one that does not fit inline.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Pending events. Three fit inline: a datagram usually causes two at a receiver (received, delivered) and three
    /// at a sender (received, completed, sent).
    events: InlineQueue<Event, 3>,
    notices: Notices,
}

impl Events {
    /// Appends an event.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Records a received packet and the message that it concerns, as far as the protocol knows it.
    #[inline]
    pub fn received(&mut self, packet: &'static str, message: impl Into<MessageId>) {
        self.push(Event::Received { packet, message: message.into() });
    }

    /// Records a transmitted packet that carries no message.
    pub fn control(&mut self, packet: &'static str, message: impl Into<MessageId>) {
        self.push(Event::ControlSent { packet, message: message.into() });
    }

    /// Records a message found missing, and its source if that is known.
    pub fn loss_found(&mut self, source: impl Into<Option<NodeId>>, message: impl Into<MessageId>) {
        self.push(Event::LossFound { source: source.into(), message: message.into() });
    }

    /// Records a discarded packet.
    pub fn dropped(&mut self, reason: DropReason) {
        self.push(Event::Dropped { reason });
    }

    /// Returns the packet of a datagram that was parsed and belongs to this session; records a drop otherwise.
    #[inline]
    pub fn of_session<P, E>(
        &mut self,
        parsed: Result<(AssociationId, P), E>,
        ours: AssociationId,
    ) -> Option<P> {
        match parsed {
            Ok((association, packet)) if association == ours => return Some(packet),
            Ok(_) => self.dropped(DropReason::Foreign),
            Err(_) => self.dropped(DropReason::Malformed),
        }
        None
    }

    /// Number of pending events.
    pub fn waiting(&self) -> usize {
        self.events.len()
    }

    /// Takes the oldest event, for `poll_event`.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Passes all events to `each`, the oldest first, without moving them: most observers look at each and keep few.
    #[inline]
    pub fn take_all(&mut self, each: impl FnMut(&Event)) {
        self.events.take_all(each);
    }

    /// Appends a notice, such as one of a machine that this machine runs.
    pub fn notify(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }

    /// Takes the oldest notice, for `poll_notice`.
    #[inline]
    pub fn pop_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

/// Occurrences that are both recorded and notified.
impl Events {
    /// Records the transmission of a data packet of `bytes` bytes with a message of this node, and marks the datagram
    /// of a first transmission ([`Transmit::original`]).
    pub fn data_sent(
        &mut self,
        transmit: Transmit,
        message: MessageId,
        bytes: usize,
        repair: bool,
    ) -> Transmit {
        let bytes = bytes as u32;
        self.push(match repair {
            true => Event::RepairSent { message, bytes },
            false => Event::Sent { message, bytes },
        });
        self.notify(Notice::Sent { message, repair });
        Transmit { original: (!repair).then_some(message), ..transmit }
    }

    /// Records that the sender is done with a message; `window` is the number of messages that shared its
    /// acknowledgment.
    pub fn completed(&mut self, message: MessageId, outcome: Outcome, window: u32) {
        self.push(Event::Completed { message, outcome, window });
        self.notify(Notice::Completed { message, outcome });
    }

    /// Records that this number of messages is retransmitted because of this member.
    pub fn repair_needed(&mut self, member: NodeId, messages: u32) {
        self.push(Event::RepairNeeded { member, messages });
        self.notify(Notice::RepairNeeded { member, messages });
    }

    /// Records that a member is expelled.
    pub fn member_lost(&mut self, member: NodeId) {
        self.push(Event::MemberLost { member });
        self.notify(Notice::MemberLost { member });
    }

    /// Records that this node abandons a missing message of another node.
    pub fn loss_final(&mut self, source: NodeId, message: MessageId) {
        self.push(Event::LossFinal { source, message });
        self.notify(Notice::LossFinal { source, message });
    }

    /// Records that too few members answer for the protocol to go on; the note has their number.
    pub fn too_few_members(&mut self, note: Note) {
        self.push(Event::Note(Box::new(note)));
        self.notify(Notice::TooFewMembers);
    }
}

impl Event {
    /// Returns the notice that accompanies the event, if any.
    pub fn notice(&self) -> Option<Notice> {
        Some(match *self {
            Event::Sent { message, .. } => Notice::Sent { message, repair: false },
            Event::RepairSent { message, .. } => Notice::Sent { message, repair: true },
            Event::Completed { message, outcome, .. } => Notice::Completed { message, outcome },
            Event::RepairNeeded { member, messages } => Notice::RepairNeeded { member, messages },
            Event::MemberLost { member } => Notice::MemberLost { member },
            Event::LossFinal { source, message } => Notice::LossFinal { source, message },
            _ => return None,
        })
    }
}
