//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Ack, Body, Datagram};
use crate::reformation;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "chang_maxemchuk", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Datagram::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let padded = match packet {
        Datagram::Normal(packet) => !matches!(packet.body, Body::Msg { .. } | Body::Repair { .. }),
        Datagram::Reformation(packet) => !matches!(packet, reformation::Packet::Start { .. }),
    };
    Ok(ParsedPacket::new(
        &packet,
        again,
        packet.wire_len(),
        if padded { Remainder::Padding } else { Remainder::Empty },
    ))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Control, Data, Repair, Request};
    let packet = match Datagram::parse(bytes).ok()?.1 {
        Datagram::Normal(packet) => packet.body,
        Datagram::Reformation(packet) => return Some(PacketSummary::new(packet.name(), Control)),
    };
    Some(match packet {
        Body::Msg { id, .. } => PacketSummary::about("msg", Data, id.number),
        Body::Ack(Ack { message: Some(id), .. }) => PacketSummary::about("ack", Acknowledgment, id.number),
        Body::Ack(_) => PacketSummary::new("ack", Acknowledgment),
        Body::Repair { ack: Ack { message: Some(id), .. }, .. } => {
            PacketSummary::about("repair", Repair, id.number)
        }
        Body::Repair { .. } => PacketSummary::new("repair", Repair),
        Body::Confirm { .. } => PacketSummary::new("confirm", Control),
        Body::Retrans { .. } => PacketSummary::new("retrans", Request),
        Body::RetransMessage(id) => PacketSummary::about("retrans", Request, id.number),
        Body::Purged { .. } => PacketSummary::new("purged", Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("ack", PacketKind::Acknowledgment),
    ("active", PacketKind::Control),
    ("confirm", PacketKind::Control),
    ("installed", PacketKind::Control),
    ("invite", PacketKind::Control),
    ("join", PacketKind::Control),
    ("msg", PacketKind::Data),
    ("purged", PacketKind::Control),
    ("ready", PacketKind::Control),
    ("refuse", PacketKind::Control),
    ("repair", PacketKind::Repair),
    ("retrans", PacketKind::Request),
    ("start", PacketKind::Control),
    ("vote", PacketKind::Control),
];
