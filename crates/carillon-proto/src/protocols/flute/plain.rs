//! Plain sessions of FLUTE: a source is known by its address and its transport session identifier, and messages are
//! named files.

use std::time::Duration;

use carillon_core::{PlainContents, PlainPacket, PlainSessions, SourceKey};
use carillon_wire::alc::Packet;

use super::{FluteReceiver, FluteSender};

pub(super) const PLAIN: PlainSessions = PlainSessions {
    settings: &[],
    port: None,
    linger: None,
    clock: Some("clock"),
    rate: Some("rate"),
    contents: PlainContents::Files,
    confirms: false,
    completes: true,
    reopens_after: Some(REOPENS_AFTER),
    source_memory: 64 << 20,
    read: |bytes, _| {
        let packet = Packet::parse(bytes).ok()?;
        let tsi = packet.identifiers.tsi()?;
        // Some senders begin with an announcement of the end, which ends nothing yet.
        let opens = !packet.closes_session && packet.identifiers.toi().is_some();
        Some(PlainPacket { source: SourceKey(tsi), opens, ends: false, is_request: false })
    },
    sender: |_, build, settings| Ok(Box::new(FluteSender::new(true, build, settings)?)),
    receiver: |key, build, settings| Ok(Box::new(FluteReceiver::new(key.0, true, build, settings)?)),
};

/// Time after the end of a session after which its identifier is that of another session.
const REOPENS_AFTER: Duration = Duration::from_secs(1);
