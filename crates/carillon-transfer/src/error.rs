//! Errors of this end of a transfer. The result at other members stands in the report instead.

use std::fmt;
use std::io;

use carillon_core::ConfigError;
use carillon_net::{DriveError, OpenError};

use crate::limits::{ATTACHED_MAX_LEN, MAX_MESSAGE_LEN};

/// Why a transfer could not be begun, or could not go on, at this end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No protocol of this name has helpers.
    #[error("no protocol \"{name}\" with helpers; there are: {known}")]
    NoHelpers {
        /// The name.
        name: String,
        /// Names of the protocols with helpers.
        known: String,
    },
    /// The registry has no such protocol.
    #[error("no protocol \"{name}\"; known: {known}")]
    UnknownProtocol {
        /// The name that was requested.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// There is no such setting of a socket, or it does not take this value.
    #[error("{key}: {value:?} is not a valid value")]
    Option {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// The protocol does not take this setting.
    #[error("the setting {key}={value}: {source}")]
    Setting {
        /// The parameter.
        key: String,
        /// The rejected value.
        value: String,
        /// The reason for the rejection.
        source: ConfigError,
    },
    /// Files are written from their beginnings to their ends.
    #[error("files need ordered delivery: remove order=arrival, or send a live stream (--stream)")]
    UnorderedFiles,
    /// A live stream has no manifest to be signed.
    #[error("a live stream cannot be signed: leave out the signing key")]
    SignedStream,
    /// Routers that help read what passes, which a seal keeps them from.
    #[error(
        "routers cannot help with a key, because they would have to read sealed packets: leave out the key or the routers"
    )]
    SealedRelays,
    /// The protocol needs answers of its receivers.
    #[error(
        "the protocol {0} needs answers from its receivers and cannot send one way: choose another protocol"
    )]
    NotOneWay(&'static str),
    /// Sealed sessions challenge every endpoint, so each one has to receive from the others.
    #[error("a key needs traffic in both directions: sign one-way transfers instead (--sign-key, --trust)")]
    SealedOneWay,
    /// Other implementations cannot open a seal.
    #[error("plain sessions have no encryption: leave out the key, or --plain")]
    SealedPlain,
    /// Data without ZeroMQ's framing would abort its subscribers.
    #[error(
        "{key} = {port} is the UDP port of the group too, where ZeroMQ subscribers would abort: use --framing zeromq, or another port for one of them"
    )]
    ZeroMqPort {
        /// The parameter.
        key: &'static str,
        /// The port.
        port: u16,
    },
    /// ZeroMQ speaks other protocols.
    #[error("ZeroMQ does not use the protocol \"{0}\": leave out --framing")]
    NoFraming(&'static str),
    /// The messages of the protocol are files, or they are not.
    #[error("the protocol \"{0}\" sends {1} in plain sessions")]
    PlainMessages(&'static str, &'static str),
    /// A message of a plain session does not fit a packet, or has no bytes.
    #[error("messages of {bytes} bytes cannot be sent: from 1 to {max} fit a packet here")]
    MessageBytes {
        /// The bytes.
        bytes: usize,
        /// Maximum bytes.
        max: usize,
    },
    /// The protocol has no routers that help.
    #[error("routers cannot help the protocol \"{0}\": leave out --relays")]
    NoRelays(&'static str),
    /// Deleting needs answers of receivers, and a protocol that waits for them.
    #[error("the protocol \"{0}\" with these settings cannot delete: leave out --delete")]
    CannotDelete(&'static str),
    /// The protocol has no number over IP.
    #[error("the protocol \"{0}\" supports UDP only: xtp and xtp-datagram can be sent directly over IP")]
    NotOverIp(&'static str),
    /// The attachment has this many bytes, more than a session carries.
    #[error("{0} bytes are attached, and at most {ATTACHED_MAX_LEN} are allowed")]
    Attached(usize),
    /// The settings do not go together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The sockets could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The network has failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// Files, a directory, the reader or the writer caused an error.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A message is longer than a socket takes.
    #[error("a message of {0} bytes is too long: at most {MAX_MESSAGE_LEN} are allowed")]
    TooLong(usize),
    /// A socket could not be connected, or did not get into a session.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// The session of a socket is over, and its report says why.
    #[error("the session is over")]
    Closed,
    /// Data that was sent did not arrive in full.
    #[error("received data is incomplete: {0}")]
    Incomplete(String),
    /// The protocol has no acknowledgments to wait for.
    #[error("this protocol has no acknowledgments, so delivery cannot be awaited")]
    Unconfirmed,
    /// The daemon cannot be reached, has refused, or has failed.
    #[error("the daemon: {0}")]
    Daemon(String),
    /// The daemon has ended, or was killed.
    #[error("the daemon has ended")]
    Gone,
    /// The system gives no random numbers.
    #[error("the system provides no random numbers")]
    Random,
    /// The thread of the transfer has died.
    #[error("the thread of the transfer has died: {0}")]
    Died(String),
    /// The system has refused a thread.
    #[error("no thread can be started for the transfer (see `ulimit -u`): {0}")]
    NoThread(io::Error),
}

/// An error of the local files, reader or writer: one line that names the file.
pub struct LocalError(pub(crate) anyhow::Error);

impl LocalError {
    /// Kind of the error that the system reported, if it came from the system (disk full, file exists).
    #[must_use]
    pub fn kind(&self) -> Option<io::ErrorKind> {
        self.0.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind)
    }
}

impl From<anyhow::Error> for LocalError {
    fn from(error: anyhow::Error) -> LocalError {
        LocalError(error)
    }
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl fmt::Debug for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalError({:#})", self.0)
    }
}

/// The line names its causes itself: there is nothing to follow.
impl std::error::Error for LocalError {}
