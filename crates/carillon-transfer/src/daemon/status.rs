//! Status of a daemon, as a program receives it.

use std::time::Duration;

use carillon_wire::daemon::Fields;

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

impl DaemonStatus {
    /// Parses a PART frame.
    pub(super) fn decode_part(&mut self, fields: Fields<'_>) {
        match fields.text("is") {
            Some("socket") => self.sockets.push(SocketStatus {
                process: small(fields, "process"),
                user: small(fields, "user"),
                role: text(fields, "role"),
                group: text(fields, "group"),
                name: text(fields, "name"),
                protocol: text(fields, "protocol"),
                messages: fields.number("messages").unwrap_or(0),
                bytes: fields.number("bytes").unwrap_or(0),
                time: time(fields),
            }),
            Some("refused") => {
                self.refused.push((text(fields, "why"), fields.number("count").unwrap_or(0)));
            }
            _ => {}
        }
    }

    /// Parses the final fields.
    pub(super) fn decode_rest(&mut self, fields: Fields<'_>) {
        self.process = small(fields, "process");
        self.version = text(fields, "version");
        self.time = time(fields);
        self.connections = fields.number("connections").unwrap_or(0);
    }
}

fn text(fields: Fields<'_>, key: &str) -> String {
    fields.text(key).unwrap_or_default().to_owned()
}

fn small(fields: Fields<'_>, key: &str) -> u32 {
    fields.number(key).and_then(|number| number.try_into().ok()).unwrap_or(0)
}

fn time(fields: Fields<'_>) -> Duration {
    Duration::from_nanos(fields.number("time").unwrap_or(0))
}
