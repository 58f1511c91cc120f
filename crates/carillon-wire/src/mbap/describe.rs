//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "mbap", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let padded = matches!(packet, Packet::Ack { .. } | Packet::Nak { .. });
    Ok(ParsedPacket::new(
        &packet,
        again,
        packet.wire_len(),
        if padded { Remainder::Padding } else { Remainder::Empty },
    ))
}

/// Summarizes a packet for viewers. Numbers modulo 2n name no message.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Data, Request};
    let (_, packet) = Packet::parse(bytes).ok()?;
    Some(match packet {
        Packet::Data { .. } => PacketSummary::new("data", Data),
        Packet::Timed { .. } => PacketSummary::new("timed", Data),
        Packet::Poll { .. } => PacketSummary::new("poll", Data),
        Packet::Ack { .. } => PacketSummary::new("ack", Acknowledgment),
        Packet::Nak { .. } => PacketSummary::new("nak", Request),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("ack", PacketKind::Acknowledgment),
    ("data", PacketKind::Data),
    ("nak", PacketKind::Request),
    ("poll", PacketKind::Data),
    ("timed", PacketKind::Data),
];
