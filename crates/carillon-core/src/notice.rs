//! Notices of a machine to its host.
//!
//! Events are for recording, and a host may drop all of them. A host acts only on notices: a session expels receivers
//! that have stopped acknowledging, and a serial sender goes on to its next receiver. Changes of the trace vocabulary
//! therefore never change behaviour.

use std::collections::VecDeque;

use crate::{MessageId, NodeId, Outcome};

/// Notification of a machine to its host, returned by [`Machine::poll_notice`](crate::Machine::poll_notice).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A message of this node was transmitted.
    Sent {
        /// Number of the message.
        message: MessageId,
        /// True for a retransmission.
        repair: bool,
    },
    /// The sender is done with a message.
    Completed {
        /// Number of the message.
        message: MessageId,
        /// Acknowledged by all members, or failed.
        outcome: Outcome,
    },
    /// The sender retransmits messages because this member has not acknowledged them.
    RepairNeeded {
        /// Member that is missing them.
        member: NodeId,
        /// Number of messages.
        messages: u32,
    },
    /// The protocol has expelled a member.
    MemberLost {
        /// Expelled member.
        member: NodeId,
    },
    /// The protocol cannot go on because the answering members are too few.
    TooFewMembers,
    /// This node has abandoned a missing message, which its application will not get.
    LossFinal {
        /// Node that offered the message.
        source: NodeId,
        /// Number of the message at its source.
        message: MessageId,
    },
}

/// Queue of pending notices. It is boxed, because most members of a large group never have a notice.
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
