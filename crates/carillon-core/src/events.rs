//! What a machine has to hand out beside datagrams and messages: what happened, and what its host has to know.

use crate::notice::Notices;
use crate::{
    AssociationId, DropReason, Event, InlineQueue, MessageId, NodeId, Note, Notice, Outcome, Transmit,
};

/// The events and notices a machine has not handed out yet. Allocates nothing until the first.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// A datagram makes two at a receiver, most times: it came, and is delivered. Three at a sender: it came, a message is
    /// completed by it, and the next one sent.
    events: InlineQueue<Event, 3>,
    notices: Notices,
}

impl Events {
    /// Adds one.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// A packet of this protocol came in; the message that it is about, as far as the protocol can tell.
    #[inline]
    pub fn received(&mut self, packet: &'static str, message: impl Into<MessageId>) {
        self.push(Event::Received { packet, message: message.into() });
    }

    /// A packet that carries no message goes out.
    pub fn control(&mut self, packet: &'static str, message: impl Into<MessageId>) {
        self.push(Event::ControlSent { packet, message: message.into() });
    }

    /// A message is found missing: of this node, if it is known whose it is.
    pub fn loss_found(&mut self, source: impl Into<Option<NodeId>>, message: impl Into<MessageId>) {
        self.push(Event::LossFound { source: source.into(), message: message.into() });
    }

    /// Adds a drop.
    pub fn dropped(&mut self, reason: DropReason) {
        self.push(Event::Dropped { reason });
    }

    /// The packet of a datagram if it could be read and is of this session; a drop otherwise.
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

    /// How many have not been taken yet.
    pub fn waiting(&self) -> usize {
        self.events.len()
    }

    /// Takes the oldest: what `poll_event` returns.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes all, the oldest first, each of which is looked at where it lies: they are many, and few are kept.
    #[inline]
    pub fn take_all(&mut self, each: impl FnMut(&Event)) {
        self.events.take_all(each);
    }

    /// Adds a notice: one of a machine that this one runs.
    pub fn notify(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }

    /// Takes the oldest notice: what `poll_notice` returns.
    #[inline]
    pub fn pop_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

/// What is both recorded and told is said once, here.
impl Events {
    /// A data packet with a message of this node goes out, as so many bytes: marks its datagram as the
    /// message's first transmission if it is ([`Transmit::original`]).
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

    /// The sender is done with a message, which shared its acknowledgment with so many.
    pub fn completed(&mut self, message: MessageId, outcome: Outcome, window: u32) {
        self.push(Event::Completed { message, outcome, window });
        self.notify(Notice::Completed { message, outcome });
    }

    /// So many messages are sent again because of this member.
    pub fn repair_needed(&mut self, member: NodeId, messages: u32) {
        self.push(Event::RepairNeeded { member, messages });
        self.notify(Notice::RepairNeeded { member, messages });
    }

    /// A member is given up.
    pub fn member_lost(&mut self, member: NodeId) {
        self.push(Event::MemberLost { member });
        self.notify(Notice::MemberLost { member });
    }

    /// This node gives up a message of another that it misses.
    pub fn loss_final(&mut self, source: NodeId, message: MessageId) {
        self.push(Event::LossFinal { source, message });
        self.notify(Notice::LossFinal { source, message });
    }

    /// So few members answer that it cannot go on; the note says how many.
    pub fn too_few_members(&mut self, note: Note) {
        self.push(Event::Note(Box::new(note)));
        self.notify(Notice::TooFewMembers);
    }
}

impl Event {
    /// The notice that goes with it: what is both recorded and told.
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
