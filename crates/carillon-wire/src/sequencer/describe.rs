//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Body, Packet, Report};
use crate::reformation;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "sequencer", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (association, packet) = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(association, &mut again);
    let runs_to_the_end = match packet {
        Packet::Normal { body, .. } => matches!(
            body,
            Body::Request { .. }
                | Body::Ordered { payload: Some(_), .. }
                | Body::Fetched { .. }
                | Body::Gone { .. }
        ),
        Packet::Reformation(packet) => matches!(packet, reformation::Packet::Start { .. }),
    };
    let rest = if runs_to_the_end { Remainder::Empty } else { Remainder::Padding };
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), rest))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Control, Data, Repair, Request};
    let (_, packet) = Packet::parse(bytes).ok()?;
    let name = packet.name();
    let body = match packet {
        Packet::Normal { body, .. } => body,
        Packet::Reformation(_) => return Some(PacketSummary::new(name, Control)),
    };
    Some(match body {
        Body::Request { message, .. } => PacketSummary::about(name, Data, message),
        Body::Ordered { message, payload: Some(_), .. } => PacketSummary::about(name, Data, message),
        // Orders a message that its source has broadcast.
        Body::Ordered { message, payload: None, .. } => PacketSummary::about(name, Control, message),
        Body::Fetched { message, .. } => PacketSummary::about(name, Repair, message),
        Body::Retrans { .. } | Body::Fetch { .. } => PacketSummary::new(name, Request),
        Body::Report { kind: Report::AliveReq, .. } => PacketSummary::new(name, Control),
        Body::Report { .. } => PacketSummary::new(name, Acknowledgment),
        Body::Status { .. } | Body::Gone { .. } => PacketSummary::new(name, Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("accept", PacketKind::Control),
    ("ack", PacketKind::Acknowledgment),
    ("ack_commit", PacketKind::Acknowledgment),
    ("ack_phase2", PacketKind::Acknowledgment),
    ("active", PacketKind::Control),
    ("alive", PacketKind::Control),
    ("alivereq", PacketKind::Control),
    ("broadcast", PacketKind::Data),
    ("dummy", PacketKind::Acknowledgment),
    ("fetch", PacketKind::Request),
    ("fetched", PacketKind::Repair),
    ("gone", PacketKind::Control),
    ("installed", PacketKind::Control),
    ("invite", PacketKind::Control),
    ("join", PacketKind::Control),
    ("ordered", PacketKind::Data),
    ("phase1", PacketKind::Control),
    ("phase2", PacketKind::Control),
    ("ready", PacketKind::Control),
    ("refuse", PacketKind::Control),
    ("request", PacketKind::Data),
    ("retrans", PacketKind::Request),
    ("short", PacketKind::Control),
    ("start", PacketKind::Control),
    ("vote", PacketKind::Control),
];
