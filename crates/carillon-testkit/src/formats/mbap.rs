//! Packets of `mbap` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::mbap::Packet;

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::mbap::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with mostly small sequence numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let sequence = match form >> 1 & 7 {
        0 => u16::from_be_bytes([input.byte(), input.byte()]),
        _ => u16::from(input.byte() % 24),
    };
    let packet = match (form & 1, form >> 4 & 1) {
        (0, _) if form & 0xe0 == 0 => Packet::Poll { sequence, payload: b"poll" },
        (0, _) if form & 0xe0 == 0x20 => {
            let ack_wait = u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
            Packet::Timed { sequence, ack_wait, payload: b"timed" }
        }
        (0, _) => Packet::Data { sequence, payload: input.bytes(usize::from(form >> 4)) },
        (_, 0) => Packet::Ack { sequence },
        _ => Packet::Nak { sequence },
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden { line: "mbap ack seq 59726", hex: "ca010202 00000007 e94e" },
    Golden {
        line: "mbap data seq 65218 len 15",
        hex: "ca010201 00000007 fec24273 3eb27c52 88081d30 69e09538 33",
    },
    Golden { line: "mbap nak seq 61390", hex: "ca010203 00000007 efce" },
    Golden { line: "mbap poll seq 64268 len 4", hex: "ca010204 00000007 fb0c706f 6c6c" },
    Golden {
        line: "mbap timed seq 38991 wait 2673741930 ns len 5",
        hex: "ca010205 00000007 984f9f5e 106a7469 6d6564",
    },
];
