//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Body, Object, Packet};

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "norm", read, summary, kinds: KINDS };

/// Parses and emits a packet.
fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let packet = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(&mut again);
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), Remainder::Empty))
}

/// Summarizes a packet for viewers. A symbol has no number of its own in all encodings, so none is reported.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    let packet = Packet::parse(bytes).ok()?;
    let kind = match packet.body {
        Body::Data { object, .. } if object.flags & Object::REPAIR != 0 => {
            return Some(PacketSummary::new("repair", PacketKind::Repair));
        }
        Body::Data { .. } | Body::Info { .. } => PacketKind::Data,
        Body::Nack { .. } => PacketKind::Request,
        Body::Ack { .. } => PacketKind::Acknowledgment,
        Body::Command { .. } => PacketKind::Control,
    };
    Some(PacketSummary::new(packet.name(), kind))
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("ack", PacketKind::Acknowledgment),
    ("ack_req", PacketKind::Control),
    ("application", PacketKind::Control),
    ("cc", PacketKind::Control),
    ("data", PacketKind::Data),
    ("eot", PacketKind::Control),
    ("flush", PacketKind::Control),
    ("info", PacketKind::Data),
    ("nack", PacketKind::Request),
    ("repair_adv", PacketKind::Control),
    ("squelch", PacketKind::Control),
];
