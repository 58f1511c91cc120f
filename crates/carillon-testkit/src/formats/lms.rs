//! Packets of `lms` for suites: fuzzed and golden ones.

use carillon_core::{AssociationId, PortId};
use carillon_wire::lms::{Data, Offer, Packet, Progress, Request, TurningPoint};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::lms::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields, mostly small numbers and turning points that are nodes.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 4 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 24),
    };
    let address = |input: &mut Input<'_>| match input.byte() {
        byte @ 0..=199 => Some([10, 0, 0, byte % 12].into()),
        byte @ 200..=240 => Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(byte)].into()),
        _ => None,
    };
    let (a, b) = (number(input), number(input));
    let payload = input.bytes(usize::from(form >> 6));
    let (data, progress) = (Data { sequence: a, oldest: b, payload }, Progress { next: a, oldest: b });
    let interface = PortId(u16::from(input.byte() & 7));
    let offer = Offer { cost: a, hops: u16::from(input.byte()) };
    let packet = match form & 15 {
        0 => Packet::SrcRefresh(offer),
        1 => Packet::Refresh(offer),
        2 => Packet::Leave,
        3..=5 => Packet::Req(Request {
            turning_point: address(input).map(|address| TurningPoint { address, interface }),
            direct: form & 16 != 0,
            past: input.byte() & 3,
            hops_left: input.byte() & 3,
            lo: a,
            hi: b,
            attempt: u32::from(input.byte() & 3),
        }),
        6 | 7 => Packet::Dmcast { interface, data },
        8 => Packet::Setup { previous: address(input), progress, timestamp: input.u64() },
        9 => Packet::Spm { previous: address(input), progress },
        10..=12 => Packet::Data(data),
        _ => Packet::Repair(data),
    };
    packet.emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "lms data seq 3718085573 oldest 3560469437 len 0",
        hex: "ca010708 00000006 0000dd9d 7bc5d438 73bd",
    },
    Golden {
        line: "lms dmcast on p6 seq 2046817733 oldest 1359994305 len 0",
        hex: "ca010705 00000007 000679ff f5c5510f ddc1",
    },
    Golden { line: "lms leave", hex: "ca010703 00000006" },
    Golden { line: "lms refresh cost 1341506920 hops 23", hex: "ca010702 00000007 4ff5c568 0017" },
    Golden {
        line: "lms repair seq 1129254096 oldest 3099542067 len 0",
        hex: "ca010709 00000006 0000434f 0cd0b8bf 4233",
    },
    Golden {
        line: "lms req 1140731810-194470988 attempt 3 past 2 hops left 0 turning point 2001:db8::d0 p5",
        hex: "ca010704 00000007 20010db8 00000000 00000000 000000d0 00050002 0043fe2f a20b9764 4c000000 03",
    },
    Golden {
        line: "lms setup next 3592387121 oldest 2740042072 time 15985338360733721003 ns previous 2001:db8::df",
        hex: "ca010706 00000007 20010db8 00000000 00000000 000000df d61f7a31 a351b958 ddd7548b 8df561ab",
    },
    Golden {
        line: "lms spm next 308097928 oldest 1282996869 previous 2001:db8::db",
        hex: "ca010707 00000007 20010db8 00000000 00000000 000000db 125d3388 4c78fa85",
    },
    Golden { line: "lms src_refresh cost 1243639002 hops 145", hex: "ca010701 00000007 4a206cda 0091" },
];
