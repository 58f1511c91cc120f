//! Packets of the tree protocol.

use carillon_core::{AssociationId, Format, PacketKind, PacketSummary, ParsedPacket, Remainder};
use carillon_wire::Envelope;

/// Format of the packets.
pub(crate) static FORMAT: Format = Format { name: "test-tree", read, summary, kinds: &[] };

const PROTOCOL: u8 = 202;
/// Packet type of the sender, or of a repairing helper: the message's number and its payload.
pub(super) const DATA: u8 = 1;
/// Packet type to the parent: the node and its subtree have all messages below this number.
pub(super) const ACK: u8 = 2;
/// Bytes of a packet before its payload.
pub(super) const HEADER_LEN: usize = Envelope::LEN + 8;

/// Emits a packet.
pub(crate) fn emit(
    association: AssociationId,
    packet_type: u8,
    number: u64,
    payload: &[u8],
    buf: &mut Vec<u8>,
) {
    Envelope { protocol: PROTOCOL, packet_type, association }.emit(buf);
    buf.extend_from_slice(&number.to_be_bytes());
    buf.extend_from_slice(payload);
}

/// Parses type, session and number of a packet.
pub(super) fn parse(bytes: &[u8]) -> Option<(u8, AssociationId, u64)> {
    let (envelope, rest) = Envelope::parse_for(PROTOCOL, bytes).ok()?;
    let number = rest.first_chunk::<8>()?;
    let fits = matches!(envelope.packet_type, DATA) || envelope.packet_type == ACK && rest.len() == 8;
    fits.then_some((envelope.packet_type, envelope.association, u64::from_be_bytes(*number)))
}

fn read(bytes: &[u8]) -> Result<ParsedPacket, String> {
    let (packet_type, association, number) = parse(bytes).ok_or("it is none")?;
    let mut again = Vec::new();
    let payload = bytes.get(HEADER_LEN..).unwrap_or_default();
    emit(association, packet_type, number, payload, &mut again);
    let line = format!("type {packet_type} number {number}");
    Ok(ParsedPacket::new(&line, again, bytes.len(), Remainder::Empty))
}

fn summary(bytes: &[u8]) -> Option<PacketSummary> {
    let (packet_type, _, number) = parse(bytes)?;
    Some(match packet_type {
        DATA => PacketSummary::about("data", PacketKind::Data, number),
        _ => PacketSummary::new("ack", PacketKind::Acknowledgment),
    })
}
