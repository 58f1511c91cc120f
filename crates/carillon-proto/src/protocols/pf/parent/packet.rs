//! Packet that a parent sends, and its destination.

use carillon_core::Time;

/// Packet that leaves now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sending {
    /// Number of its message; `None` for a poll alone.
    pub message: Option<u64>,
    /// True for a retransmission.
    pub again: bool,
    pub to: To,
    /// Children that the packet polls.
    pub asked: Vec<usize>,
    /// POLL.TS.
    pub at: Time,
    /// POLL.SEQ, the last message sent.
    pub last: u64,
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// Multicast to the group of children.
    All,
    /// Unicast to a child.
    Child(usize),
}
