//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "lms", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    debug_assert_eq!(super::packet_type_of(bytes), bytes.get(3).copied(), "routers know it without parsing");
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let padded = !matches!(packet, Packet::Data(_) | Packet::Repair(_) | Packet::Dmcast { .. });
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
        Packet::Repair(data) => PacketSummary::about("repair", Repair, data.sequence),
        Packet::Dmcast { data, .. } => PacketSummary::about("dmcast", Repair, data.sequence),
        Packet::Req(request) => PacketSummary::about("req", Request, request.lo),
        Packet::SrcRefresh(_) => PacketSummary::new("src_refresh", Control),
        Packet::Refresh(_) => PacketSummary::new("refresh", Control),
        Packet::Leave => PacketSummary::new("leave", Control),
        Packet::Setup { .. } => PacketSummary::new("setup", Control),
        Packet::Spm { .. } => PacketSummary::new("spm", Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("data", PacketKind::Data),
    ("dmcast", PacketKind::Repair),
    ("leave", PacketKind::Control),
    ("refresh", PacketKind::Control),
    ("repair", PacketKind::Repair),
    ("req", PacketKind::Request),
    ("setup", PacketKind::Control),
    ("spm", PacketKind::Control),
    ("src_refresh", PacketKind::Control),
];
