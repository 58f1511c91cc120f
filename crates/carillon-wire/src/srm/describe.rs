//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "srm", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let padded = matches!(packet, Packet::Session(_) | Packet::Request(_));
    Ok(ParsedPacket::new(
        &packet,
        again,
        packet.wire_len(),
        if padded { Remainder::Padding } else { Remainder::Empty },
    ))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Control, Data, Repair, Request};
    let (_, packet) = Packet::parse(bytes).ok()?;
    Some(match packet {
        Packet::Data(data) => PacketSummary::about("data", Data, data.sequence),
        Packet::Repair { data, .. } => PacketSummary::about("repair", Repair, data.sequence),
        Packet::Request(request) => PacketSummary::about("request", Request, request.sequence),
        Packet::Session(_) => PacketSummary::new("session", Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("data", PacketKind::Data),
    ("repair", PacketKind::Repair),
    ("request", PacketKind::Request),
    ("session", PacketKind::Control),
];
