//! Packets of `rmtp` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::envelope::Envelope;
use carillon_wire::map::Map;
use carillon_wire::rmtp::{ACK_LEN, Ack, Packet};

use super::feedback::{clear, raise};
use super::{FormatTests, Golden};
use crate::Forgery;
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::rmtp::FORMAT, fuzzed, golden: GOLDEN };

/// Forges an acknowledgment in place.
pub(crate) fn forge_feedback(lie: Forgery, bytes: &mut [u8]) {
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
