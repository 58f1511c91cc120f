//! Messages and members, as sockets tell them.

use std::net::SocketAddr;
use std::sync::Arc;

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name of its sender.
    pub sender: Arc<str>,
    /// Sequence number among the messages of its sender, from 0.
    pub number: u64,
    /// Contents.
    pub bytes: Vec<u8>,
}

/// Result of a wait for a limited time ([`Inbound::recv_timeout`](super::Inbound::recv_timeout)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The next message.
    Message(Message),
    /// No message within the time. The session goes on.
    Timeout,
    /// Every sender has ended, and every message was received.
    End,
}

/// A member of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The name.
    pub name: String,
    /// Its address, if known.
    pub address: Option<SocketAddr>,
    /// Reason why it left or was expelled, if so.
    pub gone: Option<String>,
}
