//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Body, Packet, RTN};

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "xtp", read, summary, kinds: KINDS };

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let packet = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(&mut again);
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), Remainder::Empty))
}

/// Summarizes a packet for viewers. Positions in the stream name no message.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Acknowledgment, Control, Data, Request};
    let packet = Packet::parse(bytes).ok()?;
    let name = packet.name();
    Some(match packet.body {
        // Opens the association; data may follow in it.
        Body::First(_, _, data) if data.bytes.is_empty() => PacketSummary::new(name, Control),
        Body::Data(_) | Body::First(..) => PacketSummary::new(name, Data),
        // Lists the missing spans of the stream.
        Body::Ecntl(..) => PacketSummary::new(name, Request),
        // Status of a receiver.
        Body::Cntl(_) if packet.key & RTN != 0 => PacketSummary::new(name, Acknowledgment),
        Body::Cntl(_) | Body::Tcntl(..) | Body::Jcntl(..) | Body::Join(_) | Body::Diag(_) => {
            PacketSummary::new(name, Control)
        }
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("cntl", PacketKind::Acknowledgment),
    ("data", PacketKind::Data),
    ("diag", PacketKind::Control),
    ("ecntl", PacketKind::Request),
    ("first", PacketKind::Data),
    ("jcntl", PacketKind::Control),
    ("join", PacketKind::Control),
    ("tcntl", PacketKind::Control),
];
