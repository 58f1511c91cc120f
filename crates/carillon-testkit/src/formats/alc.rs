//! Packets of `alc` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::alc::{Code, Extensions, FdtHeader, Identifiers, Packet, PayloadId, Transmission};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::alc::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields and mostly small numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, session) = (input.byte(), Identifiers::session_of(input.association(session)));
    let number = |input: &mut Input<'_>| match form >> 6 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 6),
    };
    let toi = u128::from(number(input));
    let toi = if form & 32 != 0 { Packet::FDT } else { toi };
    let identifiers = match form & 15 {
        0 => Identifiers::new(session, None),
        1 => Identifiers::new(number(input).into(), Some(toi)),
        _ => Identifiers::new(session, Some(toi)),
    };
    let (length, symbol) = (u64::from(number(input)) << (input.byte() % 16), 1 + u16::from(input.byte()));
    let (block, total) = (1 + input.byte() % 8, 8 + input.byte() % 8);
    let code = match input.below(7) {
        0 | 1 => Code::NoCode { block: block.into() },
        2 => Code::ReedSolomon { bits: 8, group: 1, block: block.into(), total: total.into() },
        3 => Code::RaptorQ { blocks: block, sub_blocks: 1, alignment: 1 },
        4 => Code::Raptor { blocks: block.into(), sub_blocks: 1, alignment: 1 },
        5 => Code::SmallBlock { instance: 0, block: block.into(), total: total.into() },
        _ => Code::ReedSolomon8 { block, total },
    };
    let encoding = code.encoding();
    let (mut extensions, mut payload) = (Vec::new(), Vec::new());
    if toi == Packet::FDT {
        let header = FdtHeader { version: 1 + (form >> 4 & 1), instance: number(input) };
        Extensions::push_fdt(&mut extensions, header);
        Extensions::push_time(&mut extensions, number(input));
    }
    if form & 16 != 0 {
        Extensions::push_transmission(&mut extensions, &Transmission { length, symbol, code });
    }
    let id = PayloadId { block: number(input), symbol: number(input), length: Some(block.into()) };
    encoding.push_id(&mut payload, id);
    let size = if input.byte().is_multiple_of(4) { input.below(40) } else { symbol.into() };
    payload.extend_from_slice(input.bytes(size));
    let flags = input.byte();
    let mut packet = Packet::new(identifiers, encoding.id());
    packet.closes_session = flags.is_multiple_of(64);
    packet.closes_object = flags.is_multiple_of(16);
    packet.sender_time = (flags & 15 == 1).then_some(1000);
    packet.residual_time = (flags & 15 == 2).then_some(1000);
    // Extensions as this function has just written them are valid.
    let Ok(extensions) = Extensions::new(&extensions) else { return };
    let payload: &[u8] = if flags & 31 == 0 { &[] } else { &payload };
    Packet { extensions, payload, ..packet }.emit(buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden { line: "alc close code 0 tsi 1 close-session", hex: "10820300 00000000 00000001" },
    Golden {
        line: "alc fdt code 0 tsi 1 toi 0 version 2 instance 1 clock c000eeb5bff037739f34 \
               fti 00000000043f0000019000000040 block 0 symbol 0 len 4",
        hex: "10100b00 00000000 00010000 c0200001 0203c000 eeb5bff0 37739f34 \
              40040000 0000043f 00000190 00000040 00000000 3c3f786d",
    },
    Golden {
        line: "alc symbol code 5 tsi 1 toi 1 close-object fti 00000000ea6001904050 block 2 symbol 79 len 2",
        hex: "10110605 00000000 00010001 40030000 0000ea60 01904050 0000024f 18d6",
    },
];
