//! Packets of `carillon` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::carillon::{
    ClosedBlock, ClosedBlocks, CodedBlock, IncompleteBlock, IncompleteBlocks, Packet, Poll, PolledReceivers,
    Status, SymbolPositions,
};
use carillon_wire::map::Map;

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::carillon::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields and small numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 2 & 7 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let (one, other) = (number(input), number(input));
    let (length, small) = (1 + u16::from(input.byte() % 24), u16::from(input.byte() % 8));
    let planned = 1 << (form >> 5);
    let (mut list, mut names) = (Vec::new(), Vec::new());
    let packet = match form % 5 {
        0 => {
            let length = if small < 4 { 0 } else { length };
            let index = (other % u32::from(length.max(24))) as u16 % length.max(24);
            let payload = input.bytes(usize::from(form >> 5));
            Packet::Data { sequence: one, index, length, count: small, payload }
        }
        1 => {
            let block = CodedBlock { first: one, length, planned };
            let symbol = input.bytes(8);
            let symbol = if symbol.len() == 8 { symbol } else { &[0; 8] };
            let number = other as u16 % planned;
            Packet::Repair { block, number, count: small, more: small, symbol }
        }
        2 => {
            for _ in 0..small {
                let first = number(input);
                ClosedBlocks::push(
                    ClosedBlock { first, length, count: u16::from(input.byte() % 8) },
                    &mut list,
                );
            }
            for _ in 0..form >> 5 {
                PolledReceivers::push(input.pick(&[1, 2, 3]), &mut names);
            }
            let poll = Poll {
                next: one,
                first: other,
                question: 1 + number(input) % 255,
                after: 100,
                span: length.into(),
            };
            Packet::Poll { poll, blocks: ClosedBlocks::new(&list), asked: PolledReceivers::new(&names) }
        }
        3 => {
            let (length, other) = (length.max(2), other as u16);
            let last = 1 + other % (length - 1);
            let places = SymbolPositions::new(&[other % last, last], length);
            let sum = input.bytes(8);
            Packet::Xor { first: one, length, count: small, places, sum }
        }
        _ => {
            let blocks = usize::from(small % 4);
            for _ in 0..blocks {
                let missing = Map::new(input.bytes(8 * usize::from(form >> 6)));
                let (first, plain) = (number(input), form >> 5 & 1 == 1);
                IncompleteBlocks::push(
                    IncompleteBlock { first, count: small, lacks: length, plain, missing },
                    &mut list,
                );
            }
            let status =
                Status { expected: one, question: number(input), arrived: other, room: length.into() };
            Packet::Status { status, lacking: IncompleteBlocks::new(&list, blocks) }
        }
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "carillon data seq 4123 index 27 of 1984 count 3 len 5",
        hex: "ca013201 00000007 0000101b 001b 07c0 0003 68656c6c6f",
    },
    Golden {
        line: "carillon repair block 4096 of 1984 number 5 of 64 count 9 more 12 len 8",
        hex: "ca013202 00000007 00001000 07c0 0005 0040 0009 000c 0005 68656c6c6f 00",
    },
    Golden {
        line: "carillon poll next 6080 first 4096 question 77 after 2000 span 5000 blocks 4096+1984:9 6080+12:0 asked 0x2 0x9",
        hex: "ca013203 00000007 000017c0 00001000 0000004d 000007d0 00001388 0002 0002 \
              00001000 07c0 0009 000017c0 000c 0000 00000002 00000009",
    },
    Golden {
        line: "carillon status expected 4123 question 78 arrived 6001 room 8192 lacks 4096:9 2 map 0x8000000 0x1 6080:0 plain 3 map",
        hex: "ca013204 00000007 0000101b 0000004e 00001771 00002000 0002 \
              00001000 0009 0002 00 02 0000000008000000 0000000000000001 000017c0 0000 0003 01 00",
    },
    Golden {
        line: "carillon xor block 4096 of 1984 count 10 places 3 77 1200 len 7",
        hex: "ca013205 00000007 00001000 07c0 000a 03 0349ff62 0005 68656c6c6f",
    },
];
