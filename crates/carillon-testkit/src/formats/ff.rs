//! Packets of `ff` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::envelope::Envelope;
use carillon_wire::ff::Packet;

use super::feedback::raise;
use super::{FormatTests, Golden};
use crate::Forgery;
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::ff::FORMAT, fuzzed, golden: GOLDEN };

/// Forges an acknowledgment in place: it names a later message. The protocol has no field for buffer space.
pub(crate) fn forge_feedback(lie: Forgery, bytes: &mut [u8]) {
    if let (Ok((_, Packet::Ack { .. })), Forgery::Ahead(by)) = (Packet::parse(bytes), lie) {
        raise(bytes, Envelope::LEN, by);
    }
}

/// Makes packets with fuzzed fields and mostly small sequence numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 1 & 7 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let (seq, first, time) = (number(input), number(input), u64::from(input.byte()) * 100_000);
    let len = usize::from(form >> 5);
    let packet = match form & 1 {
        0 => Packet::Data { seq, first, time, payload: input.bytes(len) },
        _ => Packet::Ack { seq, time },
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "ff data seq 5 first 2 time 4000000 len 2",
        hex: "ca011f01 00000007 00000005 00000002 00000000003d0900 6162",
    },
    Golden { line: "ff ack seq 5 time 4000000", hex: "ca011f02 00000007 00000005 00000000003d0900" },
];
