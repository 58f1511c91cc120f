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
    #[error("files come in order: only a live stream has messages that may come as they will")]
    UnorderedFiles,
    /// A live stream has no manifest to be signed.
    #[error("a live stream is not signed")]
    SignedStream,
    /// Routers that help read what passes, which a seal keeps them from.
    #[error("with a key routers cannot help: they would have to read what passes")]
    SealedRelays,
    /// The protocol needs answers of its receivers.
    #[error("the protocol {0} needs answers of its receivers: it does not go one way")]
    NotOneWay(&'static str),
    /// Sealed sessions challenge every endpoint, so each one has to receive from the others.
    #[error(
        "with a key sender and receivers have to hear each other: one way there are only signatures (--sign-key, --trust)"
    )]
    SealedOneWay,
    /// The protocol has no routers that help.
    #[error("the protocol \"{0}\" has no routers that help")]
    NoRelays(&'static str),
    /// The protocol has no number over IP.
    #[error("the protocol \"{0}\" goes over UDP alone: xtp and xtp-datagram can go right over IP")]
    NotOverIp(&'static str),
    /// The attachment has this many bytes, more than a session carries.
    #[error("{0} bytes are attached, and a JOIN carries {ATTACHED_MAX_LEN}")]
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
    #[error("a message of {0} bytes is too long: {MAX_MESSAGE_LEN} at most")]
    TooLong(usize),
    /// A socket could not be connected, or did not get into a session.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// The session of a socket is over, and its report says why.
    #[error("the session is over")]
    Closed,
    /// Data that was sent did not arrive in full.
    #[error("not all has come: {0}")]
    Incomplete(String),
    /// The protocol has no acknowledgments to wait for.
    #[error("with this protocol a sender is not told what has arrived: nothing to wait for")]
    Unconfirmed,
    /// The daemon cannot be reached, has refused, or has failed.
    #[error("the daemon: {0}")]
    Daemon(String),
    /// The daemon has ended, or was killed.
    #[error("the daemon has gone")]
    Gone,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
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
