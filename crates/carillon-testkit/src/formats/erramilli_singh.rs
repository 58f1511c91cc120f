//! Packets of `erramilli_singh` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::erramilli_singh::{Packet, Progress};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::erramilli_singh::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields: most ranks belong to other members, and most numbers are small.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let rank = |input: &mut Input<'_>| u16::from(input.byte() % 6);
    let number = |input: &mut Input<'_>| match form >> 3 & 7 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let from = rank(input);
    let packet = match form & 7 {
        0..=2 => {
            let sequence = number(input);
            Packet::Data { source: from, sequence, payload: input.bytes(usize::from(form >> 6)) }
        }
        3 => Packet::Status(Progress { source: from, next: number(input), held: number(input) }),
        4 => Packet::Sanity(Progress { source: from, next: number(input), held: number(input) }),
        5 | 6 => Packet::Nak { from, source: rank(input), expected: number(input) },
        _ => Packet::Choke { from, pause_us: number(input) },
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "erramilli-singh choke from 4 pause 2529921133 us",
        hex: "ca010505 00000007 000496cb 886d",
    },
    Golden {
        line: "erramilli-singh data from 3 seq 140378633 len 3",
        hex: "ca010501 00000007 0003085e 0209e760 94",
    },
    Golden {
        line: "erramilli-singh nak from 3 source 2 expected 1227267952",
        hex: "ca010504 00000007 00030002 49269f70",
    },
    Golden {
        line: "erramilli-singh sanity from 4 next 163921609 held 1817121276",
        hex: "ca010503 00000007 000409c5 3ec96c4f 11fc",
    },
    Golden {
        line: "erramilli-singh status from 3 next 1490348472 held 2754524571",
        hex: "ca010502 00000007 000358d4 e9b8a42e b59b",
    },
];
