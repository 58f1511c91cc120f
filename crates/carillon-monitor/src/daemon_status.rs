//! Status of a daemon.

use std::time::Duration;

/// Status of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonStatus {
    /// Process number.
    pub process: u32,
    /// Version of the daemon.
    pub version: String,
    /// Time since it was started.
    pub time: Duration,
    /// Number of accepted connections, including the current one.
    pub connections: u64,
    /// Open sockets.
    pub sockets: Vec<SocketStatus>,
    /// Number of refusals by reason: `full`, `greedy`, `malformed`, `late`, `wrong`, `vanished`, `system`.
    pub refused: Vec<(String, u64)>,
}

/// A socket that a daemon holds for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketStatus {
    /// Process number of the program.
    pub process: u32,
    /// User of the program.
    pub user: u32,
    /// `connect`, `join` or `listen`.
    pub role: String,
    /// The group.
    pub group: String,
    /// Name of its member.
    pub name: String,
    /// Its protocol, if it has chosen one.
    pub protocol: String,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Time since it was opened.
    pub time: Duration,
}
