//! Packets of `msaw` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::msaw::Packet;

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::msaw::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let sequence = form >> 1 & 1;
    let near = form >> 4 & 7;
    let packet = match (form & 1, form & 0x80, form >> 2 & 3) {
        (0, 0, 3) if form & 0x40 != 0 => {
            let ack_wait = u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
            Packet::Timed { sequence, ack_wait, payload: input.bytes(near.into()) }
        }
        (0, 0, _) => Packet::Data { sequence, payload: input.bytes(near.into()) },
        (_, 0, _) => Packet::Ack { sequence },
        (0, _, 0) => Packet::Announce { sequence: near, first: input.byte() & 7, round: sequence },
        (0, _, 1) => Packet::Poll { sequence: near, first: input.byte() & 7, round: sequence },
        (0, _, _) => Packet::Numbered { sequence: near, payload: input.bytes(near.into()) },
        (_, _, 0) => Packet::AckUpTo { sequence: input.byte() },
        (_, _, 1) => Packet::AckUpTo { sequence: near },
        (_, _, _) => Packet::Nak { sequence: near, round: input.byte() & 3 },
    };
    packet.emit(association, buf);
    buf.resize(buf.len() + usize::from(form >> 2 & 3), 0);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden { line: "msaw ack seq 1", hex: "ca010102 00000007 01" },
    Golden { line: "msaw ack up to seq 113", hex: "ca010106 00000007 71" },
    Golden { line: "msaw announce seq 3 first 6 round 1", hex: "ca010104 00000007 030601" },
    Golden { line: "msaw data seq 1 len 7", hex: "ca010101 00000007 01a65b30 ad4e89eb" },
    Golden { line: "msaw nak seq 5 round 3", hex: "ca010107 00000007 0503" },
    Golden { line: "msaw numbered seq 7 len 10", hex: "ca010103 00000006 07b747fe 8d94cf0d 000000" },
    Golden { line: "msaw poll seq 4 first 2 round 0", hex: "ca010105 00000007 040200" },
    Golden {
        line: "msaw timed seq 1 wait 1541778563 ns len 10",
        hex: "ca010108 00000007 015be5ac 830aadb4 098c8d2c 000000",
    },
];
