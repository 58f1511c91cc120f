//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "ramp", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let remainder = match packet {
        Packet::Data { .. } => Remainder::Empty,
        _ => Remainder::Padding,
    };
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), remainder))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Control, Data, Request};
    let (_, packet) = Packet::parse(bytes).ok()?;
    let name = packet.name();
    Some(match packet {
        Packet::Data { sequence, .. } => PacketSummary::about(name, Data, sequence),
        Packet::Ack { .. } => PacketSummary::new(name, Acknowledgment),
        Packet::Resend { .. } => PacketSummary::new(name, Request),
        _ => PacketSummary::new(name, Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("accept", PacketKind::Control),
    ("ack", PacketKind::Acknowledgment),
    ("connect", PacketKind::Control),
    ("data", PacketKind::Data),
    ("idle", PacketKind::Control),
    ("nak", PacketKind::Control),
    ("receiver_idle", PacketKind::Control),
    ("resend", PacketKind::Request),
    ("respond", PacketKind::Control),
];
