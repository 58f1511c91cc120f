//! Packets of `mtp` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::mtp::{
    Acceptance, Body, Empty, HORIZON, Header, Identifiers, Mark, Packet, Range, Ranges, Reply, Status, Terms,
    member_id,
};

use super::reformation;
use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::mtp::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets of members with small ranks, mostly with small numbers.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association, ranks) = (input.byte(), input.association(session), input.byte());
    let (version, from, to) = (input.byte(), usize::from(ranks % 4), usize::from(ranks >> 2) % 8);
    let choices = [Status::Accepted, Status::Pending, Status::Rejected];
    let mut status = [Status::Accepted; HORIZON];
    status.iter_mut().take(4).for_each(|status| *status = input.pick(&choices));
    let header = Header {
        view: (version % 2 == 1 || form % 20 >= 15).then(|| number(input) >> 3),
        subchannel: input.byte() % 3,
        source: member_id(association, from),
        destination: if to < 4 { member_id(association, to) } else { association.0 },
        acceptance: Acceptance {
            synchro: 0,
            status,
            message: number(input) as u16,
            packet: input.byte().into(),
        },
        heartbeat: number(input),
        window: number(input) as u16,
        retention: number(input) as u16,
    };
    let target = member_id(association, usize::from(input.byte() % 4));
    let range = Range {
        low: (number(input) as u16, input.byte().into()),
        high: (number(input) as u16, number(input) as u16),
    };
    let ranges = [range.bytes()];
    let web = [association.0.to_be_bytes()];
    let terms = Terms {
        class: input.byte() % 3,
        reliability: 0,
        kind: 0,
        throughput: number(input) as u16,
        data_unit: 1000,
        web: association.0,
    };
    let (place, source) = (u64::from(number(input)), input.byte() % 6);
    let len = input.below(12);
    let payload = input.bytes(len);
    let mut state = Vec::new();
    let body = match form % 20 {
        0..=2 => Body::Data(input.pick(&[Mark::Data, Mark::EndOfWindow, Mark::EndOfMessage]), payload),
        3 => Body::Nak(Ranges::new(&ranges)),
        4 => Body::Deny(Ranges::new(&ranges)),
        5 | 6 => Body::Empty(input.pick(&[Empty::Dally, Empty::Cancel, Empty::Hibernate])),
        7 | 8 => Body::Join(input.pick(&[Reply::Request, Reply::Confirm, Reply::Deny]), terms),
        9 => Body::Quit(source & 1 == 1, target),
        10 => Body::TokenRequest,
        11 => Body::TokenConfirm(Identifiers::new(&web)),
        12 => Body::IsMember(target),
        13 => Body::Member(target, number_of(place)),
        14 => Body::NotMember(target),
        15 => Body::Held(place),
        16 => Body::Fetch(place),
        17 => Body::Fetched { place, source, number: number_of(place), payload },
        18 => Body::Gone(place, &[0; 40]),
        _ => Body::Reformation(reformation::fuzzed(form >> 4, input, &mut state)),
    };
    Packet { header, body }.emit(buf);
}

fn number_of(place: u64) -> u32 {
    place as u32
}

/// Draws a small number, or any number.
fn number(input: &mut Input<'_>) -> u32 {
    match input.byte() {
        255 => input.u32(),
        byte => u32::from(byte & 15),
    }
}

/// Golden vectors: one packet of each type. The first two are computed by hand from the RFC.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "mtp eom 7.3 status paraaaaaaaaa len 3",
        hex: "0100020011111111222222220048000000070003000000c800140003627965",
    },
    Golden {
        line: "mtp nak 7.4 status paraaaaaaaaa 7.1-7.2",
        hex: "0101000033333333111111110048000000070004000000c8001400030007000100070002",
    },
    Golden {
        line: "mtp active view 1 active 6.2",
        hex: "02450002 3c6ef379 00000007 00a80000 000c00cd 0000000c 00050005 00000001 00000006 0002",
    },
    Golden {
        line: "mtp cancel view 0 3.43 status rppraaaaaaaa stream 2",
        hex: "02020102 78dde6eb 00000007 00960000 0003002b 00000003 0006000e 00000000",
    },
    Golden {
        line: "mtp dally view 0 13.177 status rprpaaaaaaaa stream 1",
        hex: "02020001 daa66d32 daa66d32 00990000 000d00b1 00000002 00000006 00000000",
    },
    Golden {
        line: "mtp data 7.233 status apraaaaaaaaa len 2 stream 1",
        hex: "01000001 3c6ef379 00000007 00180000 000700e9 00000006 00000000 8f39",
    },
    Golden {
        line: "mtp data view 0 13.126 status apraaaaaaaaa len 4",
        hex: "02000000 9e3779c0 00000007 00180000 000d007e 0000000a 0007000d 00000000 cabe572c",
    },
    Golden {
        line: "mtp eow 1.51 status rpaaaaaaaaaa len 9 stream 1",
        hex: "01000101 3c6ef379 00000007 00900000 00010033 00000007 00050003 57a16b62 26557a69 d2",
    },
    Golden {
        line: "mtp fetch view 1 8.125 status aapraaaaaaaa place 3 stream 1",
        hex: "02080001 9e3779c0 3c6ef379 00060000 0008007d 0000000d 000e0002 00000001 00000000 00000003",
    },
    Golden {
        line: "mtp fetched view 0 13.219 status appraaaaaaaa place 7 source 0 message 7 len 3 stream 2",
        hex: "02090002 3c6ef379 00000007 00160000 000d00db 00000003 000d000d 00000000 00000000 00000007 00000000 00072243 28",
    },
    Golden {
        line: "mtp gone view 1 6.66 status rrrpaaaaaaaa place 2 state 40 stream 1",
        hex: "020a0001 78dde6eb 00000007 00a90000 00060042 00000009 00030001 00000001 00000000 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
    },
    Golden {
        line: "mtp held view 1 5.254 status apaaaaaaaaaa held 8 stream 1",
        hex: "02070001 9e3779c0 9e3779c0 00100000 000500fe 0000000e 000a000d 00000001 00000000 00000008",
    },
    Golden {
        line: "mtp hibernate view 0 9.153 status paaraaaaaaaa stream 1",
        hex: "02020201 78dde6eb 00000007 00420000 00090099 0000000c 000c0001 00000000",
    },
    Golden {
        line: "mtp installed view 1 installed 1.0",
        hex: "02460002 3c6ef379 78dde6eb 00190000 0002009e 0000000a 0000000d 00000001 00000001 0000",
    },
    Golden {
        line: "mtp invite view 0 invite 2.1",
        hex: "02400001 9e3779c0 3c6ef379 00550000 00070099 00000007 00030001 00000000 00000002 0001",
    },
    Golden {
        line: "mtp ismember_confirm view 0 0.172 status paaraaaaaaaa of daa66d32 age 0",
        hex: "02060100 78dde6eb 3c6ef379 00420000 000000ac 00000001 0004000a 00000000 daa66d32 00000000",
    },
    Golden {
        line: "mtp ismember_deny view 1 1.117 status rpaaaaaaaaaa of daa66d32 stream 1",
        hex: "02060201 3c6ef379 00000007 00900000 00010075 00000008 00060004 00000001 daa66d32",
    },
    Golden {
        line: "mtp ismember_request view 0 13.89 status apaaaaaaaaaa of 9e3779c0 stream 1",
        hex: "02060001 3c6ef379 3c6ef379 00100000 000d0059 00000002 00030005 00000000 9e3779c0",
    },
    Golden {
        line: "mtp join view 0 join lost",
        hex: "02470000 3c6ef379 00000007 00a00000 000200cc 00000002 000b0004 00000000 01",
    },
    Golden {
        line: "mtp join_confirm 14.216 status paraaaaaaaaa class 1 throughput 12 unit 1000 stream 2",
        hex: "01030102 daa66d32 78dde6eb 00480000 000e00d8 0000000f 0004000c 01000000 000c03e8 00000007",
    },
    Golden {
        line: "mtp join_deny view 0 9.38 status ppraaaaaaaaa class 2 throughput 1 unit 1000 stream 1",
        hex: "02030201 3c6ef379 3c6ef379 00580000 00090026 0000000d 00040007 00000000 02000000 000103e8 00000007",
    },
    Golden {
        line: "mtp join_request 5.11 status aprraaaaaaaa class 2 throughput 7 unit 1000",
        hex: "01030000 78dde6eb 00000007 001a0000 0005000b 00000005 00060001 02000000 000703e8 00000007",
    },
    Golden {
        line: "mtp nak_deny 7.40 status aapraaaaaaaa 5.68-4.6 stream 2",
        hex: "01010102 daa66d32 9e3779c0 00060000 00070028 00000008 0009000b 00050044 00040006",
    },
    Golden {
        line: "mtp quit_confirm 5.179 status ppppaaaaaaaa of daa66d32 stream 2",
        hex: "01040102 3c6ef379 78dde6eb 00550000 000500b3 00000006 0009000c daa66d32",
    },
    Golden {
        line: "mtp quit_request view 1 6.51 status araaaaaaaaaa of 78dde6eb stream 1",
        hex: "02040001 daa66d32 00000007 00200000 00060033 00000005 0006000f 00000001 78dde6eb",
    },
    Golden {
        line: "mtp ready view 1 ready 0.3",
        hex: "02440002 9e3779c0 00000007 000a0000 000100aa 00000003 00030007 00000001 00000000 0003",
    },
    Golden {
        line: "mtp refuse view 0 refuse 6.3 promised 3.1",
        hex: "02420002 3c6ef379 9e3779c0 00980000 000500e3 0000000e 0006000a 00000000 00000006 00030000 00030001",
    },
    Golden {
        line: "mtp start view 0 start 2.5 base 2 length 46 members {0 1 3 5 6 7} joiners {0} state 32",
        hex: "02430001 daa66d32 78dde6eb 00000000 00050080 00000009 0006000b 00000000 00000002 00050000 00020000 00000000 002e01eb 01010000 00000000 004e0000 00000000 004e0000 00000000 004e0000 00000000 004e",
    },
    Golden {
        line: "mtp token_confirm 7.7 status praraaaaaaaa web 00000007 stream 1",
        hex: "01050101 daa66d32 00000007 00620000 00070007 0000000e 00070002 00000007",
    },
    Golden {
        line: "mtp token_confirm view 0 15.237 status pprraaaaaaaa web 00000007 stream 2",
        hex: "02050102 daa66d32 78dde6eb 005a0000 000f00ed 0000000f 00080002 00000000 00000007",
    },
    Golden {
        line: "mtp token_request view 1 9.192 status apppaaaaaaaa stream 1",
        hex: "02050001 3c6ef379 78dde6eb 00150000 000900c0 00000004 000f000a 00000001",
    },
    Golden {
        line: "mtp vote view 0 vote 1.5 accepted 1 length 43 members {1 3 6 7} joiners {3}",
        hex: "02410001 daa66d32 3c6ef379 00440000 000d00d7 00000006 000f000c 00000000 00000001 00050000 00010000 00000000 002b01ca 0108",
    },
];
