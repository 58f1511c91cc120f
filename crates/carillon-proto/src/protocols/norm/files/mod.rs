//! Plain sessions of NORM: files as objects (RFC 5740, 2.1), as other implementations send and receive them.
//!
//! A file is an object of its own: its name is the object's information (INFO), and its contents are cut into blocks
//! (RFC 5052). Each packet states the sizes of its object (EXT_FTI). Repairs are as in sessions of Carillon, but a
//! receiver may also request information, whole blocks and whole objects.

mod geometry;
mod names;
mod needs;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use std::time::Duration;

use carillon_core::{PlainPacket, PlainSessions, SourceKey};
use carillon_wire::norm::{Body, Command, Packet, SenderState};

pub use receiver::NormFileReceiver;
pub use sender::NormFileSender;

pub(super) const PLAIN: PlainSessions = PlainSessions {
    // Other receivers may be far away, and a stranger that pretends to be farther must not delay the end for long.
    // Parity of long blocks repairs more losses at once.
    settings: &[
        ("block", "190"),
        ("backoff_factor", "4"),
        ("grtt", "50 ms"),
        ("grtt_max", "2 s"),
        ("robust_factor", "20"),
    ],
    port: None,
    linger: Some("linger"),
    clock: None,
    rate: Some("rate"),
    named: true,
    completes: true,
    reopens_after: Some(REOPENS_AFTER),
    source_memory: 64 << 20,
    read: |bytes, _| {
        let packet = Packet::parse(bytes).ok()?;
        let (sender, opens) = match packet.body {
            Body::Info { sender, .. } | Body::Data { sender, .. } => (sender, true),
            Body::Command { sender, command } => (sender, matches!(command, Command::Flush { .. })),
            Body::Nack { .. } | Body::Ack { .. } => return None,
        };
        Some(PlainPacket { source: key(packet.source, sender), opens, ends: false })
    },
    sender: |(), build, settings| Ok(Box::new(NormFileSender::new(build, settings)?)),
    receiver: |key, build, settings| Ok(Box::new(NormFileReceiver::new(key, build, settings)?)),
};

/// Source with this identifier and state.
fn key(source: u32, sender: SenderState) -> SourceKey {
    SourceKey(u64::from(source) << 16 | u64::from(sender.instance))
}

/// Time after the end of a session after which its numbers are those of another session.
const REOPENS_AFTER: Duration = Duration::from_secs(1);
