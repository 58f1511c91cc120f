//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Body, Datagram};
use crate::reformation;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "rmp", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Datagram::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let padded = match packet {
        Datagram::Normal(packet) => !matches!(
            packet.body,
            Body::Data(_) | Body::Repair { message: Some(_), .. } | Body::Welcome { .. }
        ),
        Datagram::Reformation(packet) => !matches!(packet, reformation::Packet::Start { .. }),
    };
    let remainder = if padded { Remainder::Padding } else { Remainder::Empty };
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), remainder))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Control, Data, Repair, Request};
    let packet = match Datagram::parse(bytes).ok()?.1 {
        Datagram::Normal(packet) => packet.body,
        Datagram::Reformation(packet) => return Some(PacketSummary::new(packet.name(), Control)),
    };
    let name = packet.name();
    Some(match packet {
        Body::Data(message) => PacketSummary::about(name, Data, message.number),
        Body::Ack { .. } => PacketSummary::new(name, Acknowledgment),
        Body::Repair { message: Some(message), .. } => PacketSummary::about(name, Repair, message.number),
        Body::Repair { .. } => PacketSummary::new(name, Repair),
        Body::Nack { .. } | Body::NackData(_) => PacketSummary::new(name, Request),
        Body::Confirm { .. } | Body::Purged { .. } | Body::Welcome { .. } => {
            PacketSummary::new(name, Control)
        }
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("ack", PacketKind::Acknowledgment),
    ("active", PacketKind::Control),
    ("confirm", PacketKind::Control),
    ("data", PacketKind::Data),
    ("installed", PacketKind::Control),
    ("invite", PacketKind::Control),
    ("join", PacketKind::Control),
    ("nack", PacketKind::Request),
    ("nack-data", PacketKind::Request),
    ("new-list", PacketKind::Acknowledgment),
    ("null-ack", PacketKind::Acknowledgment),
    ("purged", PacketKind::Control),
    ("ready", PacketKind::Control),
    ("refuse", PacketKind::Control),
    ("repair", PacketKind::Repair),
    ("start", PacketKind::Control),
    ("vote", PacketKind::Control),
    ("welcome", PacketKind::Control),
];
