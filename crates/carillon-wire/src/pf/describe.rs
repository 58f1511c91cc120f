//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "pf", read, summary, kinds: KINDS };

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
    use PacketKind::{Acknowledgment, Control, Data};
    let (_, packet) = Packet::parse(bytes).ok()?;
    Some(match packet {
        Packet::Data { seq, poll: None, .. } => PacketSummary::about("data", Data, seq),
        Packet::Data { seq, poll: Some(_), .. } => PacketSummary::about("datapoll", Data, seq),
        Packet::Poll { .. } => PacketSummary::new("poll", Control),
        Packet::Resp(_) => PacketSummary::new("resp", Acknowledgment),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("data", PacketKind::Data),
    ("datapoll", PacketKind::Data),
    ("poll", PacketKind::Control),
    ("resp", PacketKind::Acknowledgment),
];
