//! What a machine tells the host that runs it, for the host to act upon.
//!
//! Events are for recording: a host may drop them all. What a host does something about (a session that gives
//! up whoever has stopped acknowledging, a sender run leg by leg) it learns from notices, whose meaning does
//! not change with what a trace should show.

use std::collections::VecDeque;

use crate::{MessageId, NodeId, Outcome};

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
    TooFewMembers,
    /// This node has given a message up that it misses, and its application will not get it.
    LossFinal {
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
