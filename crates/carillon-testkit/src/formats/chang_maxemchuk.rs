//! Packets of `chang_maxemchuk` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::chang_maxemchuk::{Ack, Body, Datagram, Id, Packet};

use super::reformation;
use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::chang_maxemchuk::FORMAT, fuzzed, golden: GOLDEN };

/// Makes packets with fuzzed fields: most ranks belong to other members, and most numbers are small.
fn fuzzed(input: &mut Input<'_>, session: AssociationId, buf: &mut Vec<u8>) {
    let (form, association) = (input.byte(), input.association(session));
    if form & 3 == 0 {
        let mut state = Vec::new();
        let packet = reformation::fuzzed(form >> 2, input, &mut state);
        return Datagram::Reformation(packet).emit(association, buf);
    }
    let number = |input: &mut Input<'_>| match form >> 5 {
        0 => u64::from(input.u32()).pow(2),
        _ => u64::from(input.byte() % 16),
    };
    let rank = |input: &mut Input<'_>| u16::from(input.byte() % 6);
    let view = u32::from(input.byte() % 4);
    let (site, next, timestamp) = (rank(input), rank(input), number(input));
    let id = Id { source: rank(input), number: number(input) };
    let ack = Ack { timestamp, site, next, message: (input.byte() & 3 > 0).then_some(id) };
    let payload = if ack.message.is_some() { input.bytes(usize::from(form >> 6)) } else { &[] };
    let body = match form >> 2 & 7 {
        0 | 1 => Body::Msg { id, payload },
        2 | 3 => Body::Ack(ack),
        4 => Body::Repair { ack, payload },
        5 => Body::Confirm { site, below: timestamp },
        6 => Body::Retrans { from: timestamp, below: id.number },
        _ if next & 1 == 0 => Body::RetransMessage(id),
        _ => Body::Purged { below: timestamp },
    };
    Datagram::Normal(Packet { view, body }).emit(association, buf);
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden { line: "cm active 4.2", hex: "ca010645 00000007 00000004 0002" },
    Golden { line: "cm installed 5.3", hex: "ca010646 00000007 00000005 0003" },
    Golden { line: "cm invite 5.3", hex: "ca010640 00000007 00000005 0003" },
    Golden { line: "cm join lost", hex: "ca010647 00000007 01" },
    Golden { line: "cm ready 4.2", hex: "ca010644 00000007 00000004 0002" },
    Golden { line: "cm refuse 3.2 promised 4.5", hex: "ca010642 00000007 00000003 00020000 00040005" },
    Golden {
        line: "cm start 5.3 base 2 length 152 members {3 6 7} joiners {} state 0",
        hex: "ca010643 00000007 00000005 00030000 00020000 00000000 009801c8 00",
    },
    Golden {
        line: "cm view 2 retrans 7074642506874960196..1259552250878040025",
        hex: "ca010604 00000007 00000002 622e2de0 7f293944 117ad419 49a117d9",
    },
    Golden {
        line: "cm vote 4.3 accepted 2 length 73 members {0 1 2 3 6 7} joiners {0 2 7}",
        hex: "ca010641 00000007 00000004 00030000 00020000 00000000 004901cf 0185",
    },
    Golden { line: "cm view 1 msg 1:10 len 1", hex: "ca010601 00000007 00000001 00010000 00000000 000aa1" },
    Golden {
        line: "cm view 0 repair 14 of 4:4 token 3 to 4 len 1",
        hex: "ca010606 00000007 00000000 00000000 0000000e 00030004 00040000 00000000 000484",
    },
    Golden { line: "cm view 3 purged below 12", hex: "ca010607 00000007 00000003 00000000 0000000c" },
    Golden { line: "cm view 2 retrans 4:5", hex: "ca010605 00000007 00000002 0004 00000000 00000005" },
    Golden {
        line: "cm view 2 confirm site 0 below 5",
        hex: "ca010603 00000007 00000002 00000000 00000000 0005",
    },
    Golden {
        line: "cm view 9 ack 1 of 4:5 token 2 to 3",
        hex: "ca010602 00000007 00000009 00000000 00000001 00020003 00040000 00000000 0005",
    },
];
