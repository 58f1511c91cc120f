//! The trace: one small vocabulary for everything that happens in a run.
//!
//! Metrics, result tables, logs, test assertions and viewers all read this one stream. A protocol
//! adds detail as a [`Note`], not as a new variant. Adding a variant is compatible; changing one
//! raises [`SCHEMA_VERSION`].

use serde::Serialize;

use crate::{MessageId, NodeId, Time};

/// Version of the event vocabulary, written into every result folder.
pub const SCHEMA_VERSION: u32 = 3;

/// Something that happened at a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// An application offered a message, and the sender took it.
    Offered {
        /// The message, as the sender numbers it.
        message: MessageId,
        /// When it was there to be offered: before now, if it was due at a steady rate and the sender was full.
        #[serde(rename = "since_ns")]
        since: Time,
    },
    /// A data packet with a message of this node went out for the first time.
    Sent {
        /// The message it carries.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
    },
    /// Another data packet of a message that takes several went out for the first time: what the first carries, `Sent` tells.
    Continued {
        /// The message it carries a part of.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
    },
    /// A data packet with a message of this node went out again.
    RepairSent {
        /// The message it carries.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
    },
    /// A data packet with the message of another node went out: in its place in the order of all
    /// messages, or as a repair.
    Forwarded {
        /// The node whose message it is.
        source: NodeId,
        /// Which of its messages.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
        /// Whether someone lacked it.
        repair: bool,
    },
    /// Messages are sent again because this member has not acknowledged them. One retransmission to
    /// the group is recorded for each member that needs it.
    RepairNeeded {
        /// The node.
        member: NodeId,
        /// How many messages.
        messages: u32,
    },
    /// A packet that carries no message went out: an acknowledgment, a request, a status, a poll, a
    /// token.
    ControlSent {
        /// The source's name of the packet, such as `ack`.
        packet: &'static str,
        /// The message it is about, as far as the protocol can tell.
        message: MessageId,
    },
    /// A well-formed packet of this protocol came in.
    Received {
        /// The source's name of the packet, such as `data`.
        packet: &'static str,
        /// The message it is about, as far as the protocol can tell.
        message: MessageId,
    },
    /// A message is ready for the application.
    Delivered {
        /// The node whose message it is.
        source: NodeId,
        /// Which of its messages.
        message: MessageId,
    },
    /// The sender is done with a message.
    Completed {
        /// The message.
        message: MessageId,
        /// Acknowledged by all, or given up.
        outcome: Outcome,
        /// Messages that shared its acknowledgment: the sender's window when it was sent.
        window: u32,
    },
    /// A node found out that it misses a message.
    LossFound {
        /// The node whose message it is, if that is known: not where it is one of an order of all.
        source: Option<NodeId>,
        /// Which of its messages.
        message: MessageId,
    },
    /// A node that had found a loss asked for the message: the request it originated, not one it
    /// passed on.
    Requested {
        /// The node whose message it is.
        source: NodeId,
        /// Which of its messages.
        message: MessageId,
    },
    /// A message that a node had found missing came, by a repair.
    LossRepaired {
        /// The node whose message it is.
        source: NodeId,
        /// Which of its messages.
        message: MessageId,
    },
    /// A node gave up a message that it misses, and says so to its application.
    LossFinal {
        /// The node whose message it is.
        source: NodeId,
        /// Which of its messages.
        message: MessageId,
    },
    /// A request that was due was not sent because someone else's made it needless.
    RequestSuppressed {
        /// The message.
        message: MessageId,
    },
    /// A timer was armed.
    TimerArmed {
        /// Its name.
        timer: &'static str,
    },
    /// A timer fired.
    TimerFired {
        /// Its name.
        timer: &'static str,
    },
    /// A machine went into another state.
    StateChanged {
        /// The new state.
        state: &'static str,
    },
    /// A packet came in that is of no use.
    Dropped {
        /// Why.
        reason: DropReason,
    },
    /// A node joined the group.
    MemberJoined {
        /// The node.
        member: NodeId,
    },
    /// The sender gave a member up.
    MemberLost {
        /// The node.
        member: NodeId,
    },
    /// The network carried a frame of this node.
    FrameSent {
        /// Bytes of the frame, all headers included.
        bytes: u32,
    },
    /// The network lost a frame: at the sender's interface if `receiver` is `None`.
    FrameLost {
        /// The interface that dropped it.
        receiver: Option<NodeId>,
        /// Whether it carried the first transmission of a message, as far as the network was told
        /// ([`Transmit::original`](crate::Transmit)).
        original: bool,
    },
    /// A frame was discarded after too many collisions, or because a queue was full.
    FrameDiscarded,
    /// Frames of several nodes met on a shared medium. Recorded at one of them.
    Collision {
        /// How many frames.
        frames: u32,
    },
    /// Detail that only one protocol has.
    Note(Box<Note>),
}

/// Why a packet was of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// Its bytes are not a packet of this protocol.
    Malformed,
    /// It belongs to another session.
    Foreign,
    /// It comes from a node that is not a member.
    NotAMember,
    /// It was seen before. Of a protocol that has requests only data that the node has already: what
    /// the exposure of a receiver is counted by.
    Duplicate,
    /// It asks for what others have asked for, or what has just been answered.
    Redundant,
    /// It is not the next one, and this protocol keeps no others.
    OutOfOrder,
    /// It acknowledges or asks for something that is not outstanding.
    OutOfWindow,
    /// The fault injector dropped it (`--drop`).
    Injected,
    /// A buffer was full.
    BufferFull,
    /// More came to the node than its input buffer takes while the node works through what is in it: an implosion of
    /// feedback. Dropped by the network, before the machine.
    Implosion,
    /// It has no seal, and this end has a key.
    Unsealed,
    /// Its seal does not open: it was sealed with another key or for another place, changed, cut short, or made up.
    Unauthentic,
    /// Its seal was opened before.
    Replayed,
    /// Its seal is too old to tell whether it was opened before.
    Outdated,
    /// It is sealed with the key by an endpoint that has yet to prove that it is there now: it may have been recorded.
    Unproven,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [DropReason; 15] = [
        DropReason::Malformed,
        DropReason::Foreign,
        DropReason::NotAMember,
        DropReason::Duplicate,
        DropReason::Redundant,
        DropReason::OutOfOrder,
        DropReason::OutOfWindow,
        DropReason::Injected,
        DropReason::BufferFull,
        DropReason::Implosion,
        DropReason::Unsealed,
        DropReason::Unauthentic,
        DropReason::Replayed,
        DropReason::Outdated,
        DropReason::Unproven,
    ];

    /// Its name, as traces have it.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::Foreign => "foreign",
            DropReason::NotAMember => "not_a_member",
            DropReason::Duplicate => "duplicate",
            DropReason::Redundant => "redundant",
            DropReason::OutOfOrder => "out_of_order",
            DropReason::OutOfWindow => "out_of_window",
            DropReason::Injected => "injected",
            DropReason::BufferFull => "buffer_full",
            DropReason::Implosion => "implosion",
            DropReason::Unsealed => "unsealed",
            DropReason::Unauthentic => "unauthentic",
            DropReason::Replayed => "replayed",
            DropReason::Outdated => "outdated",
            DropReason::Unproven => "unproven",
        }
    }
}

/// How a message ended at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every member has it.
    Acknowledged,
    /// The retransmission limit was passed.
    Failed,
}

/// Detail that only one protocol has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// What it is.
    pub name: &'static str,
    /// Its values by name.
    pub fields: Vec<(&'static str, Value)>,
}

/// A value in a [`Note`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A real number.
    Real(f64),
    /// Text.
    Text(String),
}

/// An event with its place, as those keep it who keep what they observe; with a reference to it, as those write it who write.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceEvent<E = Event> {
    /// Nanoseconds since the start of the run.
    #[serde(rename = "time_ns")]
    pub time: Time,
    /// The node.
    pub node: NodeId,
    /// What happened.
    #[serde(flatten)]
    pub event: E,
}

/// One line, for logs.
impl<E: std::fmt::Debug> std::fmt::Display for TraceEvent<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?}", self.time, self.node, self.event)
    }
}
