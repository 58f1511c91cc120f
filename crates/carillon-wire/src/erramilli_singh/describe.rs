//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "erramilli_singh", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let padded = !matches!(packet, Packet::Data { .. });
    Ok(ParsedPacket::new(
        &packet,
        again,
        packet.wire_len(),
        if padded { Remainder::Padding } else { Remainder::Empty },
    ))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Control, Data, Request};
    let (_, packet) = Packet::parse(bytes).ok()?;
    Some(match packet {
        Packet::Data { sequence, .. } => PacketSummary::about("data", Data, sequence),
        Packet::Status(_) => PacketSummary::new("status", Control),
        Packet::Sanity(_) => PacketSummary::new("sanity", Control),
        Packet::Nak { expected, .. } => PacketSummary::about("nak", Request, expected),
        Packet::Choke { .. } => PacketSummary::new("choke", Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("choke", PacketKind::Control),
    ("data", PacketKind::Data),
    ("nak", PacketKind::Request),
    ("sanity", PacketKind::Control),
    ("status", PacketKind::Control),
];
