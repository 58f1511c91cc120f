//! Errors of this end of a transfer. The result at other members stands in the report instead.

use std::fmt;
use std::io;

use carillon_core::{ConfigError, OfferError};
use carillon_net::{DriveError, OpenError};
use carillon_session::UnknownWord;
use rustix::io::Errno;

use crate::files::Unstorable;
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
    /// Receivers of the protocol confirm nothing in plain sessions.
    #[error("receivers of the protocol \"{0}\" confirm nothing in plain sessions, so none can be expected")]
    PlainUnconfirmed(&'static str),
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
    /// Late receivers of a stream need a protocol with a single sender that learns what was delivered.
    #[error(
        "the protocol \"{0}\" with these settings, or without catch-up sessions, serves no late receivers of a stream: leave out --history"
    )]
    NoHistory(&'static str),
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

/// Class of an [`Error`], which says what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting, name or value does not fit: change what the message names.
    Setting,
    /// The sockets cannot be opened, or the network failed: correct what the message names, or retry later.
    Network,
    /// Files, a reader or a writer failed: [`LocalError::kind`] says what to do.
    Local,
    /// The session did not come about, is over, or its data are incomplete: retry with another session.
    Session,
    /// The daemon cannot be reached, refused or ended: start it, or correct what it says, and retry.
    Daemon,
    /// The system or this library failed: give up, or retry after a while.
    System,
}

impl Error {
    /// Class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoHelpers { .. }
            | Error::UnknownProtocol { .. }
            | Error::Option { .. }
            | Error::Setting { .. }
            | Error::UnorderedFiles
            | Error::SignedStream
            | Error::SealedRelays
            | Error::NotOneWay(_)
            | Error::SealedOneWay
            | Error::SealedPlain
            | Error::ZeroMqPort { .. }
            | Error::NoFraming(_)
            | Error::PlainMessages(..)
            | Error::PlainUnconfirmed(_)
            | Error::MessageBytes { .. }
            | Error::NoRelays(_)
            | Error::CannotDelete(_)
            | Error::NoHistory(_)
            | Error::NotOverIp(_)
            | Error::Attached(_)
            | Error::Config(_)
            | Error::TooLong(_)
            | Error::Unconfirmed => ErrorKind::Setting,
            Error::Open(_) | Error::Drive(_) => ErrorKind::Network,
            Error::Local(_) => ErrorKind::Local,
            Error::NotConnected(_) | Error::Closed | Error::Incomplete(_) => ErrorKind::Session,
            Error::Daemon(_) | Error::Gone => ErrorKind::Daemon,
            Error::Random | Error::Died(_) | Error::NoThread(_) => ErrorKind::System,
        }
    }
}

/// An error of the local files, reader or writer: one line that names the file.
pub struct LocalError {
    /// Descriptions of the failed steps, the innermost first.
    doing: Vec<String>,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    /// A condition that this library found.
    Stated(String),
    /// An error of the system.
    System(io::Error),
    /// This receiver cannot store the entry.
    Unstorable(Unstorable),
}

/// Class of a [`LocalError`], which says what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalErrorKind {
    /// The disk, a quota or a maximum size is exhausted: free space and retry.
    Full,
    /// The process may not do this, or the file system is read-only: change permissions or the user, and retry.
    Permission,
    /// A file does not exist: correct the path.
    NotFound,
    /// A file exists already: permit to replace it, or choose another directory.
    Exists,
    /// Names, settings, keys or data do not permit this: change what the message names.
    Unsuitable,
    /// Another error of the system: retry once its cause is gone, else give up.
    System,
}

impl LocalError {
    /// An error with this text.
    pub(crate) fn stated(text: impl Into<String>) -> Self {
        LocalError { doing: Vec::new(), cause: Cause::Stated(text.into()) }
    }

    /// Adds what could not be done because of this error.
    pub(crate) fn context(mut self, doing: impl Into<String>) -> Self {
        self.doing.push(doing.into());
        self
    }

    /// The entry that this receiver cannot store, if that is the error.
    pub(crate) fn into_unstorable(self) -> Result<Unstorable, LocalError> {
        match self.cause {
            Cause::Unstorable(entry) => Ok(entry),
            cause => Err(LocalError { cause, ..self }),
        }
    }

    /// Class of the error.
    #[must_use]
    pub fn kind(&self) -> LocalErrorKind {
        use io::ErrorKind;
        match self.io_kind() {
            None => LocalErrorKind::Unsuitable,
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge) => {
                LocalErrorKind::Full
            }
            Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => LocalErrorKind::Permission,
            Some(ErrorKind::NotFound) => LocalErrorKind::NotFound,
            Some(ErrorKind::AlreadyExists) => LocalErrorKind::Exists,
            Some(_) => LocalErrorKind::System,
        }
    }

    /// Kind of the error that the system reported, if it came from the system.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match &self.cause {
            Cause::System(error) => Some(error.kind()),
            Cause::Stated(_) | Cause::Unstorable(_) => None,
        }
    }
}

impl From<io::Error> for LocalError {
    fn from(error: io::Error) -> Self {
        LocalError { doing: Vec::new(), cause: Cause::System(error) }
    }
}

impl From<Errno> for LocalError {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<Unstorable> for LocalError {
    fn from(entry: Unstorable) -> Self {
        LocalError { doing: Vec::new(), cause: Cause::Unstorable(entry) }
    }
}

/// Errors of texts and values, of which only the message matters.
macro_rules! stated_from {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for LocalError {
            fn from(error: $error) -> Self {
                LocalError::stated(error.to_string())
            }
        })*
    };
}

stated_from!(
    std::net::AddrParseError,
    std::num::ParseIntError,
    base64::DecodeError,
    getrandom::Error,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    UnknownWord,
    OfferError
);

/// A [`LocalError`] with a formatted text.
macro_rules! stated {
    ($($text:tt)*) => { $crate::error::LocalError::stated(format!($($text)*)) };
}
pub(crate) use stated;

/// Adds to an error what could not be done.
pub(crate) trait Context<T> {
    /// Adds this text.
    fn context(self, doing: impl Into<String>) -> Result<T, LocalError>;

    /// Adds the text of this function, which is called in case of an error only.
    fn with_context<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Result<T, LocalError>;
}

impl<T, E: Into<LocalError>> Context<T> for Result<T, E> {
    fn context(self, doing: impl Into<String>) -> Result<T, LocalError> {
        self.map_err(|error| error.into().context(doing))
    }

    fn with_context<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Result<T, LocalError> {
        self.map_err(|error| error.into().context(doing()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, text: impl Into<String>) -> Result<T, LocalError> {
        self.ok_or_else(|| LocalError::stated(text))
    }

    fn with_context<S: Into<String>>(self, text: impl FnOnce() -> S) -> Result<T, LocalError> {
        self.ok_or_else(|| LocalError::stated(text()))
    }
}

impl fmt::Display for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.doing.iter().rev().try_for_each(|doing| write!(f, "{doing}: "))?;
        match &self.cause {
            Cause::Stated(text) => f.write_str(text),
            Cause::System(error) => write!(f, "{error}"),
            Cause::Unstorable(entry) => write!(f, "{entry}"),
        }
    }
}

impl fmt::Debug for LocalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalError({self})")
    }
}

/// The line names its causes itself: there is nothing to follow.
impl std::error::Error for LocalError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_error_names_its_causes_and_has_a_kind() {
        let failed: Result<(), io::Error> = Err(io::ErrorKind::StorageFull.into());
        let error = failed.context("cannot write a").context("cannot store").expect_err("it failed");
        assert_eq!(error.kind(), LocalErrorKind::Full);
        assert!(error.to_string().starts_with("cannot store: cannot write a: "), "{error}");
        let error = LocalError::from(Errno::ACCESS);
        assert_eq!(
            (error.kind(), error.io_kind()),
            (LocalErrorKind::Permission, Some(io::ErrorKind::PermissionDenied))
        );
        assert_eq!(Error::from(error).kind(), ErrorKind::Local);
        let error = None::<()>.with_context(|| "there is none").expect_err("it failed");
        assert_eq!((error.kind(), error.to_string().as_str()), (LocalErrorKind::Unsuitable, "there is none"));
        let entry = LocalError::from(Unstorable::renamed()).context("cannot store").into_unstorable();
        assert!(entry.is_ok(), "a context does not hide the entry");
        assert!(stated!("{} is wrong", 1).into_unstorable().is_err());
    }
}
