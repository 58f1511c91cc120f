//! What happens during a transfer, as it happens.

use std::net::SocketAddr;
use std::path::PathBuf;

use carillon_core::Duration;
use carillon_proto::session::{SenderPhase, UnservedReason};

use crate::report::Outcome;

/// What happened at a sender.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SendEvent {
    /// A receiver, or a further sender, has joined.
    Joined {
        /// Its name.
        name: String,
        /// Where it is.
        address: Option<SocketAddr>,
        /// What its program attached ([`Receiving::attach`](crate::Receiving::attach)): whatever somebody on the
        /// network likes, 256 bytes of it at most.
        attached: Vec<u8>,
    },
    /// One that had joined is gone before the start.
    Left {
        /// Its name.
        name: String,
    },
    /// Somebody is not served: it came late, was refused, or was not heard again.
    Unserved {
        /// Its name, by its own word.
        name: String,
        /// Where it is.
        address: Option<SocketAddr>,
        /// Why.
        reason: UnservedReason,
    },
    /// Another sender uses the group.
    Rival {
        /// Its name.
        name: String,
        /// Where it is.
        address: Option<SocketAddr>,
    },
    /// A receiver was given up, or has left.
    Gone {
        /// Its name.
        name: String,
        /// Since the first message went out.
        after: Duration,
        /// How long the sender was held up by it.
        waited: Duration,
        /// What became of it.
        outcome: Outcome,
    },
    /// Datagrams have no more bytes than this, since no longer ones come to one of the receivers.
    Shorter {
        /// Bytes of a datagram, at most.
        datagram: u16,
        /// The receiver's name.
        name: String,
    },
    /// The transfer begins without receivers that were expected.
    Missing {
        /// Names of those that were expected by name.
        names: Vec<String>,
        /// Number of further ones.
        more: usize,
        /// Number of receivers that have joined.
        joined: usize,
    },
    /// The transfer has begun: nobody is let in any more.
    Started,
    /// How far it is; a few times a second at most.
    Progress {
        /// What it is doing.
        phase: SenderPhase,
        /// Bytes given to the protocol so far.
        bytes: u64,
        /// Bytes of all files, unless one is a stream.
        total: Option<u64>,
    },
}

/// What happened at a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiveEvent {
    /// A sender has let this receiver in.
    Joined {
        /// Its name.
        sender: String,
        /// This receiver's number.
        member: u32,
    },
    /// It helps, and these turn to it.
    Serving {
        /// Their names.
        members: Vec<String>,
    },
    /// Who takes part, the organiser first; told where receivers learn it: among peers, and with helpers.
    Members {
        /// Their names.
        names: Vec<String>,
    },
    /// Another member was given up, or has left.
    Gone {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A file is complete, verified, and has its name.
    File {
        /// Who sent it.
        sender: String,
        /// Its path below the directory.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// BLAKE3 over its bytes.
        digest: [u8; 32],
    },
    /// How far it is; a few times a second at most.
    Progress {
        /// Bytes that have arrived.
        bytes: u64,
        /// Bytes of all files, if all senders have said so.
        total: Option<u64>,
    },
}

/// What happened at a further sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinEvent {
    /// The one who organises has let it in.
    Joined {
        /// The organiser's name.
        organiser: String,
        /// This sender's number.
        member: u32,
    },
    /// The session runs: what it has to send goes out from now on.
    Started {
        /// The names of all who take part, the organiser first.
        members: Vec<String>,
    },
    /// Another member was given up, or has left.
    Gone {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// How far it is; a few times a second at most.
    Progress {
        /// Bytes given to the protocol so far.
        bytes: u64,
    },
}

/// What happened at a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HelpEvent {
    /// A sender has let it in.
    Joined {
        /// The sender's name.
        sender: String,
    },
    /// The transfer has begun, and these turn to it.
    Serving {
        /// Their names.
        members: Vec<String>,
    },
}
