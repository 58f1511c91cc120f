//! Packets of `pf` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::envelope::Envelope;
use carillon_wire::map::Map;
use carillon_wire::pf::{ChildSet, Packet, Poll, RESP_LEN, Resp};

use super::feedback::{clear, raise};
use super::{FormatTests, Golden};
use crate::Forgery;
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::pf::FORMAT, fuzzed, golden: GOLDEN };

/// Forges a response in place.
pub(crate) fn forge_feedback(lie: Forgery, bytes: &mut [u8]) {
    let Ok((_, Packet::Resp(resp))) = Packet::parse(bytes) else { return };
    let (behind, consumed) =
        (resp.highest.wrapping_sub(resp.expected), resp.expected.wrapping_sub(resp.left));
    let growth = u32::MAX - resp.size;
    let map = RESP_LEN..RESP_LEN + 8 * resp.received.count();
    let [left, expected, highest, size] = [12, 16, 20, 24].map(|at| Envelope::LEN + at);
    let by = match lie {
        Forgery::UnlimitedRoom => {
            // The child also claims to have consumed everything that it has.
            raise(bytes, left, consumed);
            return raise(bytes, size, growth);
        }
        Forgery::Ahead(by) => by,
        // The map begins behind the first missing message.
        Forgery::Complete => match clear(&mut bytes[map]) {
            0 => 0,
            end => end + 1,
        },
    };
    raise(bytes, left, by.wrapping_add(consumed));
    raise(bytes, expected, by);
    // The forged window may not end before its own first message.
    if (behind as i32) < by as i32 {
        raise(bytes, highest, by.wrapping_sub(behind));
    }
}

/// Makes packets with fuzzed fields, mostly small numbers and sets of the first members.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 2 & 7 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let (seq, first, last) = (number(input), number(input), number(input));
    // Only a response to a known poll counts; polls go out at full milliseconds.
    let time = u64::from(input.byte() % 32) * if form & 0x20 == 0 { 1_000_000 } else { 1 };
    let mut asked: Vec<u32> = (0..input.below(4)).map(|_| u32::from(input.byte() % 8)).collect();
    asked.sort_unstable();
    asked.dedup();
    let mut set = Vec::new();
    let poll = Poll { time, last, children: ChildSet::encode(&asked, &mut set) };
    let short = usize::from(form >> 5);
    let packet = match form & 3 {
        0 => Packet::Data { seq, first, poll: None, payload: input.bytes(short) },
        1 => Packet::Data { seq, first, poll: Some(poll), payload: input.bytes(short) },
        2 => Packet::Poll { first, poll },
        _ => Packet::Resp(Resp {
            time,
            last,
            left: first.min(seq),
            expected: seq,
            highest: last,
            size: if short == 0 { input.u32() } else { 64 },
            received: Map::new(input.bytes(8 * (short & 3))),
        }),
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden { line: "pf data seq 5 first 2 len 3", hex: "ca011e01 00000007 00000005 00000002 616263" },
    Golden {
        line: "pf poll first 2 time 4000000 last 9 children {1 3 200}",
        hex: "ca011e02 00000007 00000009 00000002 00000000003d0900 0005 00 01 01 fc03",
    },
    Golden {
        line: "pf datapoll seq 5 first 2 time 4000000 last 9 children {bits 1 2 3 4} len 1",
        hex: "ca011e03 00000007 00000005 00000002 00000009 00000000003d0900 0003 01 01 0f 61",
    },
    Golden {
        line: "pf resp time 4000000 last 9 left 3 expected 5 highest 10 size 64 map 0xb",
        hex: "ca011e04 00000007 00000000003d0900 00000009 00000003 00000005 0000000a 00000040 0001 000000000000000b",
    },
];
