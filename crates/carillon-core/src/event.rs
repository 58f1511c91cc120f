//! Trace: one small vocabulary of events for everything that happens in a run.
//!
//! Metrics, result tables, logs, test assertions and viewers all read this one stream. A protocol adds detail as a
//! [`Note`], not as a new variant. A new variant is compatible; a changed one raises [`SCHEMA_VERSION`].

use serde::Serialize;

use crate::{MessageId, NodeId, Time};

/// Version of the event vocabulary, written into every result folder.
pub const SCHEMA_VERSION: u32 = 3;

/// Occurrence at a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// An application offered a message, and the sender took it.
    Offered {
        /// Number of the message at its sender.
        message: MessageId,
        /// Time since which the message was ready to be offered. At a steady rate it is earlier than the offer if the
        /// sender was full.
        #[serde(rename = "since_ns")]
        since: Time,
    },
    /// A data packet with a message of this node went out for the first time.
    Sent {
        /// Message that the packet carries.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
    },
    /// A further data packet of a message that takes several packets went out for the first time; `Sent` records the
    /// first of them.
    Continued {
        /// Message of which the packet carries a part.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
    },
    /// A data packet with a message of this node went out again.
    RepairSent {
        /// Message that the packet carries.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
    },
    /// A data packet with the message of another node went out, in its place in the total order or as a repair.
    Forwarded {
        /// Node that offered the message.
        source: NodeId,
        /// Number of the message at its source.
        message: MessageId,
        /// Bytes of the datagram.
        bytes: u32,
        /// True if the packet is a repair.
        repair: bool,
    },
    /// The sender retransmits messages because this member has not acknowledged them. One retransmission to the group
    /// is recorded for each member that needs it.
    RepairNeeded {
        /// Member.
        member: NodeId,
        /// Number of messages.
        messages: u32,
    },
    /// A packet that carries no message went out: an acknowledgment, a request, a status, a poll, a
    /// token.
    ControlSent {
        /// Name of the packet in the protocol's source, such as `ack`.
        packet: &'static str,
        /// Message that the packet concerns, as far as the protocol knows it.
        message: MessageId,
    },
    /// A well-formed packet of this protocol was received.
    Received {
        /// Name of the packet in the protocol's source, such as `data`.
        packet: &'static str,
        /// Message that the packet concerns, as far as the protocol knows it.
        message: MessageId,
    },
    /// A message is ready for the application.
    Delivered {
        /// Node that offered the message.
        source: NodeId,
        /// Number of the message at its source.
        message: MessageId,
    },
    /// The sender is done with a message.
    Completed {
        /// Number of the message.
        message: MessageId,
        /// Acknowledged by all members, or failed.
        outcome: Outcome,
        /// Number of messages that shared its acknowledgment: the sender's window at its transmission.
        window: u32,
    },
    /// A node found a message missing.
    LossFound {
        /// Node that offered the message; `None` if unknown, as in a total order.
        source: Option<NodeId>,
        /// Number of the message at its source.
        message: MessageId,
    },
    /// A node that had found a loss originated a request for the message. Forwarded requests are not recorded.
    Requested {
        /// Node that offered the message.
        source: NodeId,
        /// Number of the message at its source.
        message: MessageId,
    },
    /// A message that a node had found missing was received as a repair.
    LossRepaired {
        /// Node that offered the message.
        source: NodeId,
        /// Number of the message at its source.
        message: MessageId,
    },
    /// A node abandoned a missing message and reports the gap to its application.
    LossFinal {
        /// Node that offered the message.
        source: NodeId,
        /// Number of the message at its source.
        message: MessageId,
    },
    /// A due request was suppressed because the request of another node made it unnecessary.
    RequestSuppressed {
        /// Number of the message.
        message: MessageId,
    },
    /// A timer was armed.
    TimerArmed {
        /// Name of the timer.
        timer: &'static str,
    },
    /// A timer fired.
    TimerFired {
        /// Name of the timer.
        timer: &'static str,
    },
    /// A machine entered another state.
    StateChanged {
        /// The new state.
        state: &'static str,
    },
    /// A received packet was discarded.
    Dropped {
        /// Reason.
        reason: DropReason,
    },
    /// A node joined the group.
    MemberJoined {
        /// Joined node.
        member: NodeId,
    },
    /// The sender expelled a member.
    MemberLost {
        /// Expelled node.
        member: NodeId,
    },
    /// The network carried a frame of this node.
    FrameSent {
        /// Bytes of the frame, headers included.
        bytes: u32,
    },
    /// The network lost a frame, at the sender's interface if `receiver` is `None`.
    FrameLost {
        /// Interface that lost it.
        receiver: Option<NodeId>,
        /// True if the frame carried the first transmission of a message, as far as the network was informed
        /// ([`Transmit::original`](crate::Transmit)).
        original: bool,
    },
    /// A frame was discarded after too many collisions, or because a queue was full.
    FrameDiscarded,
    /// Frames of several nodes met on a shared medium. Recorded at one of them.
    Collision {
        /// Number of colliding frames.
        frames: u32,
    },
    /// Detail of one protocol.
    Note(Box<Note>),
}

impl Event {
    /// Name of the event in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Event::Offered { .. } => "offered",
            Event::Sent { .. } => "sent",
            Event::Continued { .. } => "continued",
            Event::RepairSent { .. } => "repair_sent",
            Event::Forwarded { .. } => "forwarded",
            Event::RepairNeeded { .. } => "repair_needed",
            Event::ControlSent { .. } => "control_sent",
            Event::Received { .. } => "received",
            Event::Delivered { .. } => "delivered",
            Event::Completed { .. } => "completed",
            Event::LossFound { .. } => "loss_found",
            Event::Requested { .. } => "requested",
            Event::LossRepaired { .. } => "loss_repaired",
            Event::LossFinal { .. } => "loss_final",
            Event::RequestSuppressed { .. } => "request_suppressed",
            Event::TimerArmed { .. } => "timer_armed",
            Event::TimerFired { .. } => "timer_fired",
            Event::StateChanged { .. } => "state_changed",
            Event::Dropped { .. } => "dropped",
            Event::MemberJoined { .. } => "member_joined",
            Event::MemberLost { .. } => "member_lost",
            Event::FrameSent { .. } => "frame_sent",
            Event::FrameLost { .. } => "frame_lost",
            Event::FrameDiscarded => "frame_discarded",
            Event::Collision { .. } => "collision",
            Event::Note(_) => "note",
        }
    }
}

/// Reason why a received packet was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// Bytes are not a packet of this protocol.
    Malformed,
    /// Packet of another session.
    Foreign,
    /// Packet of a node that is not a member.
    NotAMember,
    /// Packet received before. In a protocol with requests this covers only data that the node already has, which
    /// measures the exposure of a receiver.
    Duplicate,
    /// Request that others have made already, or that has just been answered.
    Redundant,
    /// Packet ahead of the next one, in a protocol that keeps no packets out of order.
    OutOfOrder,
    /// Acknowledgment or request for something that is not outstanding.
    OutOfWindow,
    /// Dropped by the fault injector (`--drop`).
    Injected,
    /// Buffer was full.
    BufferFull,
    /// Feedback implosion: the node's input buffer was full. The network drops the packet before the machine sees it.
    Implosion,
    /// Packet without a seal at an endpoint that has a key.
    Unsealed,
    /// Seal does not open: another key or place, or a packet that was changed, truncated, or forged.
    Unauthentic,
    /// Replay: the seal was opened before.
    Replayed,
    /// Seal is too old to tell a replay from a new packet.
    Outdated,
    /// Valid seal of an endpoint that has not proved its presence yet: the packet may be a recording.
    Unproven,
}

impl DropReason {
    /// List of all reasons.
    pub const VARIANTS: [DropReason; 15] = [
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

    /// Name of the reason in traces.
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

/// Outcome of a message at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every member has acknowledged it.
    Acknowledged,
    /// Retransmission limit was exceeded.
    Failed,
}

impl Outcome {
    /// Name of the outcome in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Acknowledged => "acknowledged",
            Outcome::Failed => "failed",
        }
    }
}

/// Detail of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// Name of the note.
    pub name: &'static str,
    /// Values by name.
    pub fields: Vec<(&'static str, Value)>,
}

/// Text of the note: its name and each value with its name.
impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name} {value}"))
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Count(count) => count.fmt(f),
            Value::Real(value) => value.fmt(f),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// Value in a [`Note`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Count.
    Count(u64),
    /// Real number.
    Real(f64),
    /// Text.
    Text(String),
}

/// Event with its time and node. Observers that keep events own them; observers that write them use a reference as
/// `E`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceEvent<E = Event> {
    /// Nanoseconds since the start of the run.
    #[serde(rename = "time_ns")]
    pub time: Time,
    /// Node of the event.
    pub node: NodeId,
    /// Recorded event.
    #[serde(flatten)]
    pub event: E,
}

/// Log format, in one line.
impl<E: std::fmt::Debug> std::fmt::Display for TraceEvent<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?}", self.time, self.node, self.event)
    }
}
