//! Packets of `srm` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::srm::{Answer, Data, Entries, Entry, Packet, Request, Session};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::srm::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets from any member and from a non-member.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let rank = |input: &mut Input<'_>| u32::from(input.byte() % 6);
    let number = |input: &mut Input<'_>| match form >> 3 & 7 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 40),
    };
    let (from, sequence) = (rank(input), number(input));
    let (round, scope) = (input.byte() % 4, input.pick(&[255, 255, 1, 4]));
    let mut entries = Vec::new();
    match form & 7 {
        0 | 1 => {
            let payload = input.bytes(usize::from(form >> 6));
            Packet::Data(Data { from, source: from, sequence, payload }).emit(association, buf);
        }
        2 | 3 => {
            let (source, requester, distance_us) = (rank(input), rank(input), number(input));
            let data = Data { from, source, sequence, payload: input.bytes(usize::from(form >> 6)) };
            let answer = Answer { round, scope, again: input.byte() % 3, distance_us, requester };
            Packet::Repair { data, answer }.emit(association, buf);
        }
        4 | 5 => {
            let (source, distance_us) = (rank(input), number(input));
            let request = Request { from, source, sequence, round, scope, distance_us };
            Packet::Request(request).emit(association, buf);
        }
        _ => {
            let (clock_us, next, oldest) = (number(input), number(input), number(input));
            for _ in 0..input.below(6) {
                let (member, next) = (rank(input), number(input));
                let (came_us, sent_us) = (number(input), number(input));
                entries.push(Entry { member, next, came_us, sent_us }.to_bytes());
            }
            let (sources, others) = entries.split_at(input.below(entries.len() + 1));
            let (sources, others) = (Entries::new(sources), Entries::new(others));
            let session = Session { from, number: sequence, clock_us, next, oldest, sources, others };
            Packet::Session(session).emit(association, buf);
        }
    }
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "srm data from 3 seq 2459152710 len 3",
        hex: "ca010801 00000007 00000003 00000003 9293b146 00000000 00000000 00000000 bd04a4",
    },
    Golden {
        line: "srm repair from 3 source 5 seq 1083520043 for 2 round 2 distance 2347401654 us scope 255 again 2 len 3",
        hex: "ca010804 00000007 00000003 00000005 4095342b 02ff0200 8bea81b6 00000002 18b8d9",
    },
    Golden {
        line: "srm request from 4 source 5 seq 2441305301 round 2 distance 2306227496 us scope 255",
        hex: "ca010803 00000007 00000004 00000005 91835cd5 02ff8976 3d28",
    },
    Golden {
        line: "srm session 9 from 1 at 1000000 us next 6 oldest 5 knows 1 sources 2 others",
        hex: "ca010802 00000007 00000001 00000009 000f4240 00000006 00000005 00000001 00000002 00000003 00000007 0a0b0c0d 00000001 00000000 00000000 00000000 00000000 00000002 00000000 00000002 00000004",
    },
];
