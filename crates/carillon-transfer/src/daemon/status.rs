//! Reads the status of a daemon from its answer.

use std::time::Duration;

use carillon_monitor::{DaemonStatus, SocketStatus};
use carillon_wire::daemon::Fields;

/// Parses a PART frame.
pub(super) fn decode_part(status: &mut DaemonStatus, fields: Fields<'_>) {
    match fields.text("is") {
        Some("socket") => status.sockets.push(socket(fields)),
        Some("refused") => {
            status.refused.push((text(fields, "why"), fields.number("count").unwrap_or(0)));
        }
        _ => {}
    }
}

/// Parses the final fields.
pub(super) fn decode_rest(status: &mut DaemonStatus, fields: Fields<'_>) {
    status.process = small(fields, "process");
    status.version = text(fields, "version");
    status.time = time(fields);
    status.connections = fields.number("connections").unwrap_or(0);
}

fn socket(fields: Fields<'_>) -> SocketStatus {
    let mut socket = SocketStatus::default();
    socket.process = small(fields, "process");
    socket.user = small(fields, "user");
    socket.role = text(fields, "role");
    socket.group = text(fields, "group");
    socket.name = text(fields, "name");
    socket.protocol = text(fields, "protocol");
    socket.messages = fields.number("messages").unwrap_or(0);
    socket.bytes = fields.number("bytes").unwrap_or(0);
    socket.time = time(fields);
    socket
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
