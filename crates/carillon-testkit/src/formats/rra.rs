//! Packets of `rra` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::map::Map;
use carillon_wire::rra::{AckRequest, Packet};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::rra::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields and mostly small numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 2 & 7 {
        0 => u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]),
        _ => u32::from(input.byte() % 24),
    };
    let (sequence, first) = (number(input), number(input));
    let asks = AckRequest { acker: input.pick(&[1, 2, 3]), question: u32::from(input.byte() % 24) + 1 };
    let short = usize::from(form >> 5);
    let packet = match form & 3 {
        0 => Packet::Data { sequence, first, asks: None, payload: input.bytes(short) },
        1 => Packet::Data { sequence, first, asks: Some(asks), payload: input.bytes(short) },
        2 => Packet::Poll { sequence, first, asks },
        _ => Packet::Ack {
            expected: sequence,
            question: asks.question,
            arrived: first,
            room: asks.acker as u16 * 8,
            received: Map::new(input.bytes(8 * (short & 3))),
        },
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "rra ack expected 1247027600 question 15 arrived 504470842 room 24 map 0x2713795e2830a3d7 0xdc7d4559eb50f6cf 0x380857949e8f342d",
        hex: "ca010302 00000007 4a542190 0000000f 1e119d3a 00180003 2713795e 2830a3d7 dc7d4559 eb50f6cf 38085794 9e8f342d",
    },
    Golden {
        line: "rra data seq 3908614980 first 1688606050 acker 0x2 question 15 len 7",
        hex: "ca010301 00000007 e8f8bb44 64a61562 00000002 0000000f 38c32086 1a4370",
    },
    Golden {
        line: "rra poll seq 2675117923 first 2025352238 acker 0x2 question 8",
        hex: "ca010303 00000007 9f730f63 78b86c2e 00000002 00000008",
    },
];
