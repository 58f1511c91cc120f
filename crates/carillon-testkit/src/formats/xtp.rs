//! Packets of `xtp` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::xtp::{
    Address, AddressForm, Body, Common, Data, Diag, Handover, Packet, RTN, Rates, Spans, Traffic, key_of,
    option, service,
};

use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::xtp::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields, with small positions in the stream or any.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    let number = |input: &mut Input<'_>| match form >> 5 {
        0 => u64::from(input.u32()) << 32 | u64::from(input.u32()),
        _ => u64::from(input.byte()) * u64::from(input.byte() % 8),
    };
    let seq = number(input);
    let common = Common { rseq: number(input), alloc: number(input), echo: input.byte().into() };
    let xkey = number(input);
    let handover = Handover { common, xkey };
    let traffic = Traffic::rates(
        service::RELIABLE_MULTICAST,
        Rates { maxdata: input.byte().into(), inrate: input.u32(), ..Rates::default() },
    );
    let address = Address {
        domain: 0,
        form: AddressForm::V4 {
            destination: ([239, 255, 0, 1].into(), 5000),
            source: ([10, 0, 0, input.byte() % 8].into(), 5000),
        },
    };
    let spans: Vec<(u64, u64)> = (0..input.byte() % 4)
        .map(|_| {
            let left = number(input);
            (left, left.wrapping_add(u64::from(input.byte())))
        })
        .collect();
    let mut room = Vec::new();
    let options = match input.byte() {
        byte if byte & 1 == 0 => u32::from(input.byte()) << 8 & !option::BTAG,
        _ => input.u32() & option::OPTION_MASK & !option::BTAG,
    };
    let sync = match form >> 5 {
        0 => input.u32(),
        _ => u32::from(input.byte() % 32),
    };
    let tag = (form & 16 != 0).then(|| [input.byte(); 8]);
    let len = input.below(200);
    let data = Data { tag, bytes: input.bytes(len) };
    let (body, back) = match form & 15 {
        0..=5 => (Body::Data(data), 0),
        6 => (Body::First(address, traffic, data), 0),
        7..=9 => (Body::Cntl(common), RTN),
        10 | 11 => (Body::Ecntl(common, Spans::of(spans, &mut room)), RTN),
        12 => (Body::Tcntl(handover, traffic), RTN),
        13 => (Body::Jcntl(handover, address, traffic), RTN),
        14 => (Body::Cntl(common), 0),
        _ if seq & 1 == 0 => (Body::Join(data.bytes), RTN),
        _ => (Body::Diag(Diag { code: sync % 8, value: common.echo % 14, text: data.bytes }), 0),
    };
    Packet { key: key_of(association) | back, options, sort: 0, sync, seq, body }.emit(buf);
}

/// Golden vectors: one packet of each format, as the public dissector reads them.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "xtp first key 0102030405060708 sync 7 seq 1000 multi fastnak sreq to 239.0.0.239:5000 from 10.0.0.1:6000 service 6 maxdata 1448 in 100000/8000 out 200000/9000 len 5",
        hex: "0102030405060708 08c00022 0000002d 98130000 00000007 00000000000003e8 00100001 ef0000ef 0a000001 13881770 00180601 000005a8 000186a0 00001f40 00030d40 00002328 68656c6c6f",
    },
    Golden {
        line: "xtp cntl key 8102030405060708 sync 7 seq 1000 multi rseq 1005 alloc 9000 echo 7",
        hex: "8102030405060708 08000021 00000014 3cab0000 00000007 00000000000003e8 00000000000003ed 0000000000002328 00000007",
    },
    Golden {
        line: "xtp ecntl key 8102030405060708 sync 7 seq 1000 multi spans [2000..3000, 4000..5000] rseq 1005 alloc 9000 echo 7",
        hex: "8102030405060708 08000023 00000038 05d30000 00000007 00000000000003e8 00000000000003ed 0000000000002328 00000007 00000002 00000000000007d0 0000000000000bb8 0000000000000fa0 0000000000001388",
    },
    Golden {
        line: "xtp tcntl key 8102030405060708 sync 7 seq 1000 multi xkey 1122334455667788 service 6 maxdata 1448 in 100000/8000 out 200000/9000 rseq 1005 alloc 9000 echo 7",
        hex: "8102030405060708 08000025 00000038 49200000 00000007 00000000000003e8 00000000000003ed 0000000000002328 00000007 00000000 1122334455667788 00180601 000005a8 000186a0 00001f40 00030d40 00002328",
    },
    Golden {
        line: "xtp jcntl key 8102030405060708 sync 7 seq 1000 multi xkey 1122334455667788 to 239.0.0.239:5000 from 10.0.0.1:6000 service 6 maxdata 1448 in 100000/8000 out 200000/9000 rseq 1005 alloc 9000 echo 7",
        hex: "8102030405060708 08000027 00000048 24140000 00000007 00000000000003e8 00000000000003ed 0000000000002328 00000007 00000000 1122334455667788 00100001 ef0000ef 0a000001 13881770 00180601 000005a8 000186a0 00001f40 00030d40 00002328",
    },
    Golden {
        line: "xtp data key 0102030405060708 sync 7 seq 1000 multi eom btag len 7",
        hex: "0102030405060708 08050020 0000000f f57a0000 00000007 00000000000003e8 5441475441475441 7061796c6f6164",
    },
    Golden {
        line: "xtp diag key 8102030405060708 sync 7 seq 1000 end code 1 value 1 \"no listener\\\\x00\"",
        hex: "8102030405060708 00020028 00000014 1ea20000 00000007 00000000000003e8 00000001 00000001 6e6f206c697374656e657200",
    },
    Golden {
        line: "xtp join key 8102030405060708 sync 7 seq 1000 multi sort 3 len 2",
        hex: "8102030405060708 0a000026 00000002 006f0003 00000007 00000000000003e8 6162",
    },
];
