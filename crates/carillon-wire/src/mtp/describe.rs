//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Body, Packet};

/// Format of both versions.
pub const FORMAT: Format = Format { name: "mtp", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let packet = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(&mut again);
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), Remainder::Empty))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Control, Data, Repair, Request};
    let packet = Packet::parse(bytes).ok()?;
    let name = packet.name();
    Some(match packet.body {
        // The client's first four bytes are the number of the message at its source.
        Body::Data(_, bytes) => match bytes.first_chunk::<4>() {
            Some(number) => PacketSummary::about(name, Data, u32::from_be_bytes(*number)),
            None => PacketSummary::new(name, Data),
        },
        Body::Fetched { number, .. } => PacketSummary::about(name, Repair, number),
        Body::Nak(_) | Body::Fetch(_) => PacketSummary::new(name, Request),
        Body::Held(_) => PacketSummary::new(name, Acknowledgment),
        _ => PacketSummary::new(name, Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("active", PacketKind::Control),
    ("cancel", PacketKind::Control),
    ("dally", PacketKind::Control),
    ("data", PacketKind::Data),
    ("eom", PacketKind::Data),
    ("eow", PacketKind::Data),
    ("fetch", PacketKind::Request),
    ("fetched", PacketKind::Repair),
    ("gone", PacketKind::Control),
    ("held", PacketKind::Acknowledgment),
    ("hibernate", PacketKind::Control),
    ("installed", PacketKind::Control),
    ("invite", PacketKind::Control),
    ("ismember_confirm", PacketKind::Control),
    ("ismember_deny", PacketKind::Control),
    ("ismember_request", PacketKind::Control),
    ("join", PacketKind::Control),
    ("join_confirm", PacketKind::Control),
    ("join_deny", PacketKind::Control),
    ("join_request", PacketKind::Control),
    ("nak", PacketKind::Request),
    ("nak_deny", PacketKind::Control),
    ("quit_confirm", PacketKind::Control),
    ("quit_request", PacketKind::Control),
    ("ready", PacketKind::Control),
    ("refuse", PacketKind::Control),
    ("start", PacketKind::Control),
    ("token_confirm", PacketKind::Control),
    ("token_request", PacketKind::Control),
    ("vote", PacketKind::Control),
];
