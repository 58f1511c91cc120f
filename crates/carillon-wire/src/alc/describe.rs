//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "alc", read, summary, kinds: KINDS };

/// Parses and emits a packet. Bits of no meaning, such as reserved ones, are kept.
fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let packet = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(&mut again);
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), Remainder::Empty))
}

/// Summarizes a packet for viewers. A symbol has no number of its own in the session, so none is reported.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    let packet = Packet::parse(bytes).ok()?;
    let kind = match packet.name() {
        "symbol" => PacketKind::Data,
        _ => PacketKind::Control,
    };
    Some(PacketSummary::new(packet.name(), kind))
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] =
    &[("close", PacketKind::Control), ("fdt", PacketKind::Control), ("symbol", PacketKind::Data)];
