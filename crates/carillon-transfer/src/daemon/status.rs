//! What the daemon is doing, as it is heard of.

use std::time::Duration;

use carillon_wire::daemon::Fields;

/// What a daemon is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DaemonStatus {
    /// Its process.
    pub process: u32,
    /// The version of its program.
    pub version: String,
    /// Since it was started.
    pub time: Duration,
    /// Connections that it has taken, this one too.
    pub connections: u64,
    /// Sockets that are open.
    pub sockets: Vec<SocketStatus>,
    /// What was refused, and how often: `full`, `greedy`, `malformed`, `late`, `wrong`, `vanished`, `system`.
    pub refused: Vec<(String, u64)>,
}

/// A socket that a daemon holds for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketStatus {
    /// The program's process.
    pub process: u32,
    /// The user it runs as.
    pub user: u32,
    /// `connect`, `join` or `listen`.
    pub role: String,
    /// The group.
    pub group: String,
    /// Its name there.
    pub name: String,
    /// Its protocol, if it has chosen one.
    pub protocol: String,
    /// Messages through it.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Since it was opened.
    pub time: Duration,
}

impl DaemonStatus {
    /// One more line of it.
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

    /// The rest of it.
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
