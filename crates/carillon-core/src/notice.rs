//! What a machine tells the host that runs it, for the host to act upon.
//!
//! Events are for recording: a host may drop them all. What a host does something about (a session that gives
//! up whoever has stopped acknowledging, a sender run leg by leg) it learns from notices, whose meaning does
//! not change with what a trace should show.

use std::collections::VecDeque;

use crate::event::Events;
use crate::{Event, MessageId, NodeId, Note, Outcome, Transmit};

/// Something of which the host of a machine has to know. Handed out by
/// [`Machine::poll_notice`](crate::Machine::poll_notice).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A message of this node went out: for the first time, or again.
    Sent {
        /// Which.
        message: MessageId,
        /// It had gone out before.
        repair: bool,
    },
    /// The sender is done with a message.
    Completed {
        /// Which.
        message: MessageId,
        /// Acknowledged by all, or given up.
        outcome: Outcome,
    },
    /// Messages are sent again because this member has not acknowledged them.
    RepairNeeded {
        /// Who.
        member: NodeId,
        /// How many messages.
        messages: u32,
    },
    /// The protocol has given a member up.
    MemberLost {
        /// Who.
        member: NodeId,
    },
    /// So few members answer that the protocol cannot go on.
    TooFew,
    /// This node has given a message up that it misses, and its application will not get it.
    GivenUp {
        /// The node whose message it is.
        source: NodeId,
        /// Which of its messages.
        message: MessageId,
    },
}

/// Notices not handed out yet. Small until the first: most members of a large group have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices(Option<Box<Queue>>);

#[derive(Clone, Debug, Default)]
struct Queue(VecDeque<Notice>);

impl Notices {
    pub(crate) fn push_back(&mut self, notice: Notice) {
        self.0.get_or_insert_default().0.push_back(notice);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Notice> {
        self.0.as_mut()?.0.pop_front()
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
        self.tell(Notice::Sent { message, repair });
        Transmit { original: (!repair).then_some(message), ..transmit }
    }

    /// The sender is done with a message, which shared its acknowledgment with so many.
    pub fn completed(&mut self, message: MessageId, outcome: Outcome, window: u32) {
        self.push(Event::Completed { message, outcome, window });
        self.tell(Notice::Completed { message, outcome });
    }

    /// So many messages are sent again because of this member.
    pub fn repair_needed(&mut self, member: NodeId, messages: u32) {
        self.push(Event::RepairNeeded { member, messages });
        self.tell(Notice::RepairNeeded { member, messages });
    }

    /// A member is given up.
    pub fn member_lost(&mut self, member: NodeId) {
        self.push(Event::MemberLost { member });
        self.tell(Notice::MemberLost { member });
    }

    /// This node gives up a message of another that it misses.
    pub fn given_up(&mut self, source: NodeId, message: MessageId) {
        self.push(Event::LossFinal { source, message });
        self.tell(Notice::GivenUp { source, message });
    }

    /// So few members answer that it cannot go on; the note says how many.
    pub fn too_few(&mut self, note: Note) {
        self.push(Event::Note(Box::new(note)));
        self.tell(Notice::TooFew);
    }
}
