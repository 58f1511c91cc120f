//! Description of the format for viewers and traces.

use carillon_core::{Format, PacketKind, PacketSummary, ParsedPacket, Remainder};

use super::{Body, Packet};

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "pgm", read, summary, kinds: KINDS };

/// Parses and emits a packet; unknown options are lost, and the checksum is computed anew.
fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let packet = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    packet.emit(&mut again);
    Ok(ParsedPacket::new(&packet, again, packet.wire_len(), Remainder::UnknownFields))
}

/// Summarizes a packet for viewers.
fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    use PacketKind::{Control, Data, Repair, Request};
    let packet = Packet::parse(bytes).ok()?.body;
    Some(match packet {
        Body::Odata(data) => PacketSummary::about("odata", Data, data.sqn),
        Body::Rdata(data) => PacketSummary::about("rdata", Repair, data.sqn),
        Body::Nak(nak) => PacketSummary::about("nak", Request, nak.sqn),
        Body::Nnak(nak) => PacketSummary::about("n-nak", Request, nak.sqn),
        Body::Ncf(nak) => PacketSummary::about("ncf", Control, nak.sqn),
        Body::Spm(_) => PacketSummary::new("spm", Control),
        Body::Spmr => PacketSummary::new("spmr", Control),
        Body::Ack(ack) => PacketSummary::about("ack", Control, ack.newest),
        Body::Poll(_) => PacketSummary::new("poll", Control),
        Body::Polr { .. } => PacketSummary::new("polr", Control),
    })
}

/// Kinds of the packets by name, in traces and in summaries.
const KINDS: &[(&str, PacketKind)] = &[
    ("ack", PacketKind::Control),
    ("n-nak", PacketKind::Request),
    ("nak", PacketKind::Request),
    ("ncf", PacketKind::Control),
    ("odata", PacketKind::Data),
    ("poll", PacketKind::Control),
    ("polr", PacketKind::Control),
    ("rdata", PacketKind::Repair),
    ("spm", PacketKind::Control),
    ("spmr", PacketKind::Control),
];
