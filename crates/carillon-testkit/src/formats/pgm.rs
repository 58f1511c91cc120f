//! Packets of `pgm` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::pgm::{
    Ack, AckerElection, Body, Data, LossReport, Nak, NakList, Options, Packet, ParityParameters, Poll, Spm,
    Tsi,
};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::pgm::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields, small numbers or any.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session).0);
    let number = |input: &mut Input<'_>| match form >> 5 {
        0 => input.u32(),
        1 => u32::from(input.byte()).wrapping_sub(128),
        _ => u32::from(input.byte() % 32),
    };
    let [a, b, c, d] = association.to_be_bytes();
    let tsi = Tsi { gsi: [b'C', b'L', a, b, c, d], port: 20_000 + (association % 10_000) as u16 };
    let address = |node: u8| std::net::IpAddr::from([10, 0, 0, node]);
    let (sqn, trail) = (number(input), number(input));
    let group = std::net::IpAddr::from([239, 255, 0, 1]);
    let nak = Nak { sqn, source: address(3), group };
    let more = 4 * input.below(4);
    let list = input.bytes(more);
    let payload = list;
    let body = match form & 15 {
        0..=2 => Body::Odata(Data { sqn, trail, payload }),
        3 | 4 => Body::Rdata(Data { sqn, trail, payload }),
        5..=8 => {
            Body::Spm(Spm { sqn: input.byte().into(), trail, lead: sqn, path: address(input.byte() % 12) })
        }
        9..=11 => Body::Nak(nak),
        12 | 13 => Body::Ncf(nak),
        14 => Body::Nnak(nak),
        _ => match trail % 4 {
            0 => Body::Spmr,
            1 => {
                let (subtype, path) = (1 - (trail >> 2 & 1) as u16, address(input.byte() % 12));
                let (back_off_us, mask) = (input.u32(), trail >> 3 & 1);
                Body::Poll(Poll { sqn: sqn % 8, round: 0, subtype, path, back_off_us, random: 0, mask })
            }
            2 => Body::Polr { sqn: sqn % 8, round: 0 },
            _ => Body::Ack(Ack { newest: sqn, bitmap: number(input) }),
        },
    };
    let redirect = matches!(body, Body::Polr { .. }).then(|| address((trail >> 2) as u8 % 12));
    let extra = input.byte();
    let options = Options {
        nak_list: NakList::from_bytes(if extra & 1 == 1 { list } else { &[] }).unwrap_or_default(),
        join: (extra & 2 != 0).then_some(trail),
        fin: extra & 4 != 0,
        reset: (extra & 56 == 56).then_some(extra),
        neighbour_unreachable: extra & 0xc0 == 0xc0,
        redirect,
        // The groups of the source have the size that an SPM announces, most often a small power of two.
        parity: form & 16 != 0,
        variable_length: form & 16 != 0 && trail & 1 != 0,
        parity_group: (form & 16 != 0 && trail & 6 == 6).then_some(trail >> 3),
        parity_parameters: (extra & 24 == 24)
            .then_some(ParityParameters { flags: extra >> 6, group_size: 1 << (trail % 9) }),
        election: (extra & 0xa0 == 0xa0)
            .then(|| AckerElection { timestamp_ms: trail, acker: address((trail >> 3) as u8 % 12) }),
        report: (extra & 0x50 == 0x50 || matches!(body, Body::Ack(_))).then(|| LossReport {
            timestamp_ms: sqn,
            loss: trail as u16,
            receiver: address((trail >> 4) as u8 % 12),
        }),
        ..Options::default()
    };
    Packet { tsi, destination_port: 7500, body, options }.emit(buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "pgm ack 950087978 map fffffff7 at 40005 loss 496 of 10.0.0.5",
        hex: "1d4c4e27 0d019f10 434c0000 00070000 38a1312a fffffff7 00040014 93100000 00009c45 000101f0 0a000005",
    },
    Golden {
        line: "pgm n-nak 950087978 list [26220340, 1386257669, 3855307039] join 1808826435 fin reset",
        hex: "1d4c4e27 09031674 434c0000 00070000 38a1312a 00010000 0a000003 00010000 efff0001 00040024 02100000 01901734 52a09d05 e5cb511f 03080000 6bd08043 0e040000 8f04003f",
    },
    Golden {
        line: "pgm nak 1296693561 list [2865097800, 1164072242, 3883934677] join 3786597464 fin",
        hex: "1d4c4e27 08037267 434c0000 00070000 4d49f939 00010000 0a000003 00010000 efff0001 00040020 02100000 aac5ec48 45625532 e78023d5 03080000 e1b2e458 8e040000",
    },
    Golden {
        line: "pgm ncf 2827466615 list [3557894341, 4260405684, 1258681368] join 53702504 unreachable",
        hex: "4e271d4c 0a030eba 434c0000 00070000 a887b777 00010000 0a000003 00010000 efff0001 00040020 02100000 d41128c5 fdf0a1b4 4b05f418 0b040000 83080000 03336f68",
    },
    Golden {
        line: "pgm odata 330677748 trail 2805178567 len 12 list [1355363714, 3520537421, 1110576970] join 2805178567 unreachable reset",
        hex: "4e271d4c 0403b16c 434c0000 0007000c 13b5bdf4 a733a0c7 00040024 02100000 50c93582 d1d7234d 42320f4a 0b040000 03080000 a733a0c7 8f0400fb 50c93582 d1d7234d 42320f4a",
    },
    Golden {
        line: "pgm poll 7 round 0 type 1 path 10.0.0.9 list [3899205988, 3516791254, 2377268521] unreachable fin reset",
        hex: "4e271d4c 01035798 434c0000 00070000 00000007 00000001 00010000 0a000009 7f7e1bb0 00000000 00000001 00040020 02100000 e8692964 d19df9d6 8db23d29 0b040000 0e040000 8f0400fd",
    },
    Golden {
        line: "pgm polr 2 round 0 list [1345795813, 2303236147, 2858048404] join 2307279383 redirect 10.0.0.1 unreachable fin",
        hex: "1d4c4e27 02031dac 434c0000 00070000 00000002 00000000 00040030 02100000 503736e5 89489833 aa5a5b94 070c0000 00010000 0a000001 0b040000 03080000 89864a17 8e040000",
    },
    Golden {
        line: "pgm rdata 856670747 trail 3069216810 len 12 join 3069216810 fin reset",
        hex: "4e271d4c 0501ebca 434c0000 0007000c 330fc21b b6f0882a 00040014 03080000 b6f0882a 0e040000 8f04007e 091fa9d9 a35a97bd 488215c6",
    },
    Golden {
        line: "pgm spm 40 trail 3839193641 lead 2938515429 path 10.0.0.5 list [2933108184, 2454310730, 1856148464] join 3839193641",
        hex: "4e271d4c 000373f1 434c0000 00070000 00000028 e4d57229 af262fe5 00010000 0a000005 0004001c 02100000 aed3add8 9249cf4a 6ea293f0 83080000 e4d57229",
    },
    Golden {
        line: "pgm spmr list [2858643949, 14235177, 1657374907] join 2018560616",
        hex: "1d4c4e27 0c033e6c 434c0000 00070000 0004001c 02100000 aa6371ed 00d93629 62c988bb 83080000 7850ca68",
    },
];
