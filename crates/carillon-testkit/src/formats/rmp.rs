//! Packets of `rmp` for suites: fuzzed and golden ones.

use carillon_core::AssociationId;
use carillon_wire::reformation::Ranks;
use carillon_wire::rmp::{Batch, Body, Datagram, Id, Ids, Item, Message, Packet, Quality, Slot};

use super::reformation;
use super::{FormatTests, Golden};
use crate::fuzz::Input;

/// Fuzzed and golden packets.
pub(super) static TESTS: FormatTests =
    FormatTests { format: &carillon_wire::rmp::FORMAT, fuzzed, golden: GOLDEN };

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
    let id = Id { source: rank(input), sequence: number(input) };
    let members: Ranks = (0..6).filter(|rank| id.sequence >> rank & 1 == 1).collect();
    let quality = quality(input.byte());
    let message =
        Message { id, quality, number: number(input), payload: input.bytes(usize::from(form >> 6)) };
    let mut ids = Vec::new();
    for step in 0..1 + u64::from(form >> 6) {
        Id { sequence: id.sequence.wrapping_add(step), ..id }.emit(&mut ids);
    }
    let body = match form >> 2 & 7 {
        0 | 1 => Body::Data(message),
        2 => Body::Ack { timestamp, site, next, batch: Batch::Messages(Ids::new(&ids)) },
        3 if next & 1 == 0 => Body::Ack { timestamp, site, next, batch: Batch::Null },
        3 => Body::Ack { timestamp, site, next, batch: Batch::List(members) },
        4 => {
            let (item, message) = match next % 3 {
                0 => (Item::Null, None),
                1 => (Item::List(members), None),
                _ => (Item::Message(id), Some(message)),
            };
            Body::Repair { slot: Slot { timestamp, site, next, item }, message }
        }
        5 => Body::Confirm { site, below: timestamp },
        6 if next & 1 == 0 => {
            Body::Nack { site, with_data: site & 1 == 1, from: timestamp, below: id.sequence }
        }
        6 => Body::NackData(id),
        _ if next & 1 == 0 => Body::Purged { below: timestamp },
        _ => Body::Welcome { timestamp, members, numbers: &ids },
    };
    Datagram::Normal(Packet { view, body }).emit(association, buf);
}

fn quality(byte: u8) -> Quality {
    match byte % 8 {
        0 => Quality::Unreliable,
        1 => Quality::Reliable,
        2 => Quality::SourceOrdered,
        3 | 4 => Quality::TotallyOrdered,
        5 => Quality::Resilient(byte >> 3),
        6 => Quality::MajorityResilient,
        _ => Quality::TotallyResilient,
    }
}

/// Golden vectors: one packet of each type.
const GOLDEN: &[Golden] = &[
    Golden {
        line: "rmp view 1 ack 4 token 1 to 1 of 1:6",
        hex: "ca013c02 00000007 00000001 00000000 00000004 00010001 01000100 00000000 000006",
    },
    Golden { line: "rmp active 6.0", hex: "ca013c45 00000007 00000006 0000" },
    Golden {
        line: "rmp view 1 confirm site 5 below 9",
        hex: "ca013c03 00000007 00000001 00050000 00000000 0009",
    },
    Golden {
        line: "rmp view 3 data 5:5 number 13 total len 0",
        hex: "ca013c01 00000007 00000003 00050300 00000000 00000005 00000000 0000000d",
    },
    Golden { line: "rmp installed 6.0", hex: "ca013c46 00000007 00000006 0000" },
    Golden { line: "rmp invite 7.3", hex: "ca013c40 00000007 00000007 0003" },
    Golden { line: "rmp join lost", hex: "ca013c47 00000007 01" },
    Golden {
        line: "rmp view 3 nack to 1 1..1 with data",
        hex: "ca013c04 00000007 00000003 00010100 00000000 00000100 00000000 000001",
    },
    Golden { line: "rmp view 1 nack-data 3:12", hex: "ca013c05 00000007 00000001 00030000 00000000 000c" },
    Golden {
        line: "rmp view 0 new-list 653991601219190784 token 1 to 3 of list {}",
        hex: "ca013c02 00000007 00000000 091371e5 74c24000 00010003 ff00",
    },
    Golden {
        line: "rmp view 3 null-ack 8 token 2 to 0 of null",
        hex: "ca013c02 00000007 00000003 00000000 00000008 00020000 00",
    },
    Golden { line: "rmp view 1 purged below 14", hex: "ca013c07 00000007 00000001 00000000 0000000e" },
    Golden { line: "rmp ready 6.4", hex: "ca013c44 00000007 00000006 0004" },
    Golden { line: "rmp refuse 6.1 promised 5.4", hex: "ca013c42 00000007 00000006 00010000 00050004" },
    Golden {
        line: "rmp view 2 repair 7 token 0 to 1 of list {}",
        hex: "ca013c06 00000007 00000002 00000000 00000007 00000001 ff00",
    },
    Golden {
        line: "rmp view 0 repair 11 token 1 to 2 of 5:0 number 8 source len 0",
        hex: "ca013c06 00000007 00000000 00000000 0000000b 00010002 01000502 00000000 00000000 00000000 00000000 08",
    },
    Golden {
        line: "rmp view 3 repair 6 token 0 to 3 of nothing",
        hex: "ca013c06 00000007 00000003 00000000 00000006 00000003 00",
    },
    Golden {
        line: "rmp start 1.1 base 2 length 142 members {2 5 7} joiners {} state 0",
        hex: "ca013c43 00000007 00000001 00010000 00020000 00000000 008e01a4 00",
    },
    Golden {
        line: "rmp vote 3.3 accepted 2 length 238 members {} joiners {}",
        hex: "ca013c41 00000007 00000003 00030000 00020000 00000000 00ee0000",
    },
    Golden {
        line: "rmp view 3 welcome after 14 members {} state 10",
        hex: "ca013c08 00000007 00000003 00000000 0000000e 00000500 00000000 000000",
    },
];
