//! Self-description of the format, for suites and fuzz targets.

use carillon_core::{
    AssociationId, Forgery, Format, Golden, Input, PacketKind, PacketSummary, ParsedPacket, Remainder,
};

use super::{ACK_LEN, Ack, Packet};
use crate::envelope::Envelope;
use crate::feedback::{clear, raise};
use crate::map::Map;

/// Format of the protocol.
pub const FORMAT: Format = Format { name: "rmtp", fuzzed, read, summary, golden: GOLDEN };

/// Forges an acknowledgment in place.
pub fn forge_feedback(lie: Forgery, bytes: &mut [u8]) {
    let Ok((_, Packet::Ack(ack) | Packet::AckTxnow(ack))) = Packet::parse(bytes) else { return };
    let room = ack.limit.wrapping_sub(ack.next);
    let map = ACK_LEN..ACK_LEN + 8 * ack.received.count();
    let [next, stable, limit] = [Envelope::LEN, Envelope::LEN + 4, Envelope::LEN + 8];
    let by = match lie {
        Forgery::UnlimitedRoom => return raise(bytes, limit, (1 << 19) - room.min(1 << 19)),
        Forgery::Ahead(by) => by,
        // The map begins behind the first missing message.
        Forgery::Complete => match clear(&mut bytes[map]) {
            0 => 0,
            end => end + 1,
        },
    };
    raise(bytes, next, by);
    raise(bytes, stable, by);
    raise(bytes, limit, by);
}

/// Makes packets with fuzzed fields and mostly small sequence numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 4 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let (a, b) = (number(input), number(input));
    let mut ack = || {
        let (limit, span) = (number(input).wrapping_add(b), u32::from(input.byte()) << (form >> 3));
        let served = input.byte() < 16;
        let received = Map::new(input.bytes(8 * usize::from(form >> 6)));
        Ack { next: a, stable: a.wrapping_sub(b), limit, span, served, received }
    };
    let packet = match form & 15 {
        0..=3 => Packet::Data {
            sequence: a,
            oldest: a.wrapping_sub(b),
            payload: input.bytes(usize::from(form >> 6)),
        },
        4..=7 => Packet::Ack(ack()),
        8 | 9 => Packet::AckTxnow(ack()),
        10 => Packet::RttMeasure { timestamp: input.u64() },
        11 => Packet::RttAck { timestamp: input.u64() },
        _ => Packet::SndAckTome { oldest: a },
    };
    packet.emit(association, buf);
}

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

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden { line: "rmtp data seq 5 oldest 3 len 2", hex: "ca011401 00000007 00000005 00000003 6869" },
    Golden {
        line: "rmtp ack next 5 stable 3 limit 69 span 100000 us map 0x9",
        hex: "ca011402 00000007 00000005 00000003 00000045 000186a0 0001 00000000 00000009",
    },
    Golden {
        line: "rmtp ack_txnow next 5 stable 5 limit 69 span 100000 us map",
        hex: "ca011403 00000007 00000005 00000005 00000045 000186a0 0000",
    },
    Golden { line: "rmtp rtt_measure 1000 ns", hex: "ca011404 00000007 00000000 000003e8" },
    Golden { line: "rmtp rtt_ack 1000 ns", hex: "ca011405 00000007 00000000 000003e8" },
    Golden { line: "rmtp snd_ack_tome oldest 3", hex: "ca011406 00000007 00000003" },
];
