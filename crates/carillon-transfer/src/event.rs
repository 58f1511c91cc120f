//! Events of a transfer, delivered while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use carillon_core::Duration;
use carillon_session::{SenderPhase, UnservedReason};

use crate::report::Outcome;

/// An event at a sender.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SendEvent {
    /// A receiver, or a further sender, has joined.
    Joined {
        /// Its name.
        name: String,
        /// Its address.
        address: Option<SocketAddr>,
        /// Bytes that its program attached ([`Receiving::attach`](crate::Receiving::attach)), at most 256. They are
        /// not authenticated without a key.
        attached: Vec<u8>,
    },
    /// A receiver that had joined left before the start.
    Left {
        /// Its name.
        name: String,
    },
    /// An endpoint is not served: it came late, was refused, or stayed silent.
    Unserved {
        /// The name that it gave.
        name: String,
        /// Its address.
        address: Option<SocketAddr>,
        /// Why.
        reason: UnservedReason,
    },
    /// Another sender uses the group.
    Rival {
        /// Its name.
        name: String,
        /// Its address.
        address: Option<SocketAddr>,
    },
    /// The sender expelled a receiver, or the receiver left.
    Gone {
        /// Its name.
        name: String,
        /// Time since the first message.
        after: Duration,
        /// Time for which the sender waited for it.
        waited: Duration,
        /// Its result.
        outcome: Outcome,
    },
    /// The sender limits its datagrams to this size, because longer ones do not reach one of the receivers.
    Shorter {
        /// Maximum bytes of a datagram.
        datagram: u16,
        /// The receiver's name.
        name: String,
    },
    /// A receiver is heard and acknowledges no data: a catch-up session serves it with shorter datagrams.
    Unreached {
        /// The receiver's name.
        name: String,
        /// Bytes of a datagram in that session, at most.
        datagram: u16,
    },
    /// The transfer begins without receivers that were expected.
    Missing {
        /// Names of the missing receivers that were expected by name.
        names: Vec<String>,
        /// Number of missing receivers that were expected without a name.
        more: usize,
        /// Number of receivers that have joined.
        joined: usize,
    },
    /// The transfer has begun: the session admits no further members.
    Started,
    /// Progress, at most a few times a second.
    Progress {
        /// Phase of the session.
        phase: SenderPhase,
        /// Bytes given to the protocol so far.
        bytes: u64,
        /// Bytes of all files, unless one is a stream.
        total: Option<u64>,
    },
}

/// An event at a receiver.
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
    /// This receiver helps, and these members request repairs from it.
    Serving {
        /// Their names.
        members: Vec<String>,
    },
    /// Names of the members, the organiser first. Receivers learn them among peers and in protocols with helpers.
    Members {
        /// Their names.
        names: Vec<String>,
    },
    /// The sender expelled another member, or the member left.
    Gone {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A file is complete, verified, and has its name.
    File {
        /// Name of the sender.
        sender: String,
        /// Its path below the directory.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// BLAKE3 over its bytes.
        digest: [u8; 32],
    },
    /// Progress, at most a few times a second.
    Progress {
        /// Bytes that have arrived.
        bytes: u64,
        /// Bytes of all files, if all senders have said so.
        total: Option<u64>,
    },
}

/// An event at a further sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinEvent {
    /// The organiser has admitted this sender.
    Joined {
        /// The organiser's name.
        organiser: String,
        /// This sender's number.
        member: u32,
    },
    /// The session runs: what it has to send goes out from now on.
    Started {
        /// Names of all members, the organiser first.
        members: Vec<String>,
    },
    /// The organiser expelled another member, or the member left.
    Gone {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// Progress, at most a few times a second.
    Progress {
        /// Bytes given to the protocol so far.
        bytes: u64,
    },
}

/// An event at a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HelpEvent {
    /// A sender has let it in.
    Joined {
        /// The sender's name.
        sender: String,
    },
    /// The transfer has begun, and these members request repairs from this helper.
    Serving {
        /// Their names.
        members: Vec<String>,
    },
}
