//! Packets of `ramp` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::envelope::Envelope;
use carillon_wire::ramp::{Flags, Packet, Service, Spans, Status};

use super::feedback::raise;
use super::{FormatTests, Golden};
use crate::Forgery;
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::ramp::FORMAT, fuzzed, golden: GOLDEN };

/// Forges the status in a packet of a receiver in place.
pub(crate) fn forge_feedback(lie: Forgery, bytes: &mut [u8]) {
    let Ok((_, packet)) = Packet::parse(bytes) else { return };
    let (Packet::Accept { status, .. }
    | Packet::Ack { status, .. }
    | Packet::ReceiverIdle(status)
    | Packet::Respond(status)
    | Packet::Resend { status, .. }) = packet
    else {
        return;
    };
    let last = match packet {
        Packet::Resend { spans, .. } => {
            spans.iter().last().map(|(first, length)| first.wrapping_add(length.into()))
        }
        _ => None,
    };
    let room = status.limit.wrapping_sub(status.next);
    let [next, limit] = [Envelope::LEN, Envelope::LEN + 4];
    let by = match lie {
        Forgery::UnlimitedRoom => return raise(bytes, limit, (1 << 19) - room.min(1 << 19)),
        Forgery::Ahead(by) => by,
        // The last requested span tells how far the member has received.
        Forgery::Complete => last.map_or(0, |end| end.wrapping_sub(status.next)),
    };
    raise(bytes, next, by);
    raise(bytes, limit, by);
}

/// Makes packets with fuzzed fields and mostly small sequence numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 4 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let (a, b, c) = (number(input), number(input), input.byte());
    let status = Status { next: a, limit: a.wrapping_add(b) };
    let flags = Flags { ack: c & 1 != 0, idle_mode: c & 2 != 0, end: c & 28 == 28 };
    let service = match c % 4 {
        0 => Service::Unreliable,
        1 => Service::ReceiverReliable,
        _ => Service::SenderReliable,
    };
    let mut spans = Vec::new();
    let packet = match form & 15 {
        0..=3 => Packet::Data { sequence: a, flags, payload: input.bytes(usize::from(form >> 6)) },
        4 => Packet::Connect { next: a, service, flags },
        5 => Packet::Accept { status, service },
        6 | 7 => Packet::Idle { next: a, flags },
        8 | 9 => Packet::Ack { status, sequence: number(input) },
        10 => Packet::ReceiverIdle(status),
        11 => Packet::Respond(status),
        12 => Packet::Nak { oldest: a },
        _ => {
            Spans::encode((0..c % 5).map(|at| (a.wrapping_add(at.into()), b as u16)), &mut spans);
            Packet::Resend { status, spans: Spans::new(&spans) }
        }
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden { line: "ramp connect next 5 sender-reliable", hex: "ca011501 00000007 00000005 0200" },
    Golden {
        line: "ramp accept next 5 limit 69 receiver-reliable",
        hex: "ca011502 00000007 00000005 00000045 01",
    },
    Golden { line: "ramp data seq 5 ack len 2", hex: "ca011503 00000007 00000005 01 6869" },
    Golden { line: "ramp idle next 6 idle-mode end", hex: "ca011504 00000007 00000006 06" },
    Golden { line: "ramp ack seq 5 next 6 limit 70", hex: "ca011505 00000007 00000006 00000046 00000005" },
    Golden { line: "ramp receiver_idle next 6 limit 70", hex: "ca011506 00000007 00000006 00000046" },
    Golden { line: "ramp respond next 6 limit 70", hex: "ca011507 00000007 00000006 00000046" },
    Golden {
        line: "ramp resend next 6 limit 70 6+2 9+1",
        hex: "ca011508 00000007 00000006 00000046 02 00000006 0002 00000009 0001",
    },
    Golden { line: "ramp nak oldest 3", hex: "ca011509 00000007 00000003" },
];
