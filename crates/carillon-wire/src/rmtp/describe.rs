//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::Packet;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "rmtp", read, summary, kinds: KINDS };

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
    use PacketKind::{Acknowledgment, Control, Data, Request};
    let (_, packet) = Packet::parse(bytes).ok()?;
    Some(match packet {
        Packet::Data { sequence, .. } => PacketSummary::about("data", Data, sequence),
        Packet::Ack(_) => PacketSummary::new("ack", Acknowledgment),
        Packet::AckTxnow(_) => PacketSummary::new("ack_txnow", Request),
        Packet::RttMeasure { .. } => PacketSummary::new("rtt_measure", Control),
        Packet::RttAck { .. } => PacketSummary::new("rtt_ack", Control),
        Packet::SndAckTome { .. } => PacketSummary::new("snd_ack_tome", Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("ack", PacketKind::Acknowledgment),
    ("ack_txnow", PacketKind::Request),
    ("data", PacketKind::Data),
    ("rtt_ack", PacketKind::Control),
    ("rtt_measure", PacketKind::Control),
    ("snd_ack_tome", PacketKind::Control),
];
