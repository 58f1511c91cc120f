//! Packets of the sequencer protocol: round trips, golden bytes, truncation, and arbitrary bytes.

use carillon_core::AssociationId;
use carillon_wire::reformation::{self, Ballot, Ranks};
use carillon_wire::sequencer::{Body, Packet, Report, Status};
use proptest::prelude::*;

const REPORTS: [Report; 5] =
    [Report::Ack, Report::Dummy, Report::AckCommit, Report::AckPhase2, Report::AliveReq];
const STATUSES: [Status; 4] = [Status::Accept, Status::Alive, Status::Phase1, Status::Phase2];

proptest! {
    #[test]
    fn emitted_packets_parse_back(kind in 0..18usize, a in any::<u32>(), b in any::<u32>(), c in any::<u32>(), source in any::<u8>(), flag in any::<bool>(), payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let wanted: Ranks = payload.iter().map(|&byte| byte.into()).collect();
        let body = match kind {
            0 => Body::Request { ack: a, message: b, broadcast: flag, payload: &payload },
            1 => Body::Ordered { order: a, accepted: b, purge: c, source, message: a ^ b, payload: Some(&payload) },
            2 => Body::Ordered { order: a, accepted: b, purge: c, source, message: a ^ b, payload: None },
            3 => Body::Retrans { ack: a, order: b },
            4..=8 => Body::Report { kind: REPORTS[kind - 4], ack: a },
            9..=12 => Body::Status { kind: STATUSES[kind - 9], next: a, accepted: b, purge: c, wanted },
            13 => Body::Fetch { order: a },
            14 => Body::Fetched { order: a, source, message: b, payload: &payload },
            15 => Body::Gone { order: a, state: &payload },
            _ => Body::Retrans { ack: c, order: a },
        };
        let packet = match kind {
            17 => Packet::Reformation(reformation::Packet::Ready { ballot: Ballot { number: a, coordinator: source } }),
            _ => Packet::Normal { view: c, body },
        };
        let mut buf = Vec::new();
        packet.emit(AssociationId(a), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(a), packet)));
        let variable = if matches!(kind, 0 | 1 | 14 | 15) { payload.len() } else { 0 };
        for len in 0..buf.len() - variable {
            prop_assert!(Packet::parse(&buf[..len]).is_err());
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), near in any::<bool>()) {
        if near && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[0xCA, 1, 4]);
            bytes[3] &= 0x77;
        }
        if let Ok((association, packet)) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(association, &mut again);
            prop_assert_eq!(&again[..], &bytes[..packet.wire_len()]);
        }
    }
}

#[test]
fn golden_bytes() {
    let golden: &[(Body<'_>, &[u8])] = &[
        (
            Body::Request { ack: 2, message: 3, broadcast: false, payload: b"!" },
            &[0xCA, 1, 4, 1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 3, b'!'],
        ),
        (
            Body::Ordered { order: 6, accepted: 5, purge: 4, source: 1, message: 3, payload: Some(b"!") },
            &[
                0xCA, 1, 4, 3, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 4, 0, 1, 0, 0, 0, 3,
                b'!',
            ],
        ),
        (
            Body::Request { ack: 2, message: 3, broadcast: true, payload: b"!" },
            &[0xCA, 1, 4, 2, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 3, b'!'],
        ),
        (
            Body::Ordered { order: 6, accepted: 5, purge: 4, source: 1, message: 3, payload: None },
            &[0xCA, 1, 4, 4, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 4, 0, 1, 0, 0, 0, 3],
        ),
        (
            Body::Retrans { ack: 2, order: 3 },
            &[0xCA, 1, 4, 5, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 3],
        ),
        (
            Body::Report { kind: Report::Dummy, ack: 2 },
            &[0xCA, 1, 4, 0x11, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2],
        ),
        (
            Body::Status {
                kind: Status::Phase1,
                next: 3,
                accepted: 2,
                purge: 1,
                wanted: [1, 3].into_iter().collect(),
            },
            &[0xCA, 1, 4, 0x22, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 1, 10],
        ),
        (
            Body::Fetched { order: 6, source: 1, message: 3, payload: b"!" },
            &[0xCA, 1, 4, 0x31, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 6, 0, 1, 0, 0, 0, 3, b'!'],
        ),
        (Body::Report { kind: Report::Ack, ack: 2 }, &[0xCA, 1, 4, 0x10, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2]),
        (
            Body::Report { kind: Report::AckCommit, ack: 2 },
            &[0xCA, 1, 4, 0x12, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2],
        ),
        (
            Body::Report { kind: Report::AckPhase2, ack: 2 },
            &[0xCA, 1, 4, 0x13, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2],
        ),
        (
            Body::Report { kind: Report::AliveReq, ack: 2 },
            &[0xCA, 1, 4, 0x14, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 2],
        ),
        (
            Body::Status { kind: Status::Accept, next: 3, accepted: 2, purge: 1, wanted: Ranks::default() },
            &[0xCA, 1, 4, 0x20, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0],
        ),
        (
            Body::Status { kind: Status::Alive, next: 3, accepted: 2, purge: 1, wanted: Ranks::default() },
            &[0xCA, 1, 4, 0x21, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0],
        ),
        (
            Body::Status { kind: Status::Phase2, next: 3, accepted: 2, purge: 1, wanted: Ranks::default() },
            &[0xCA, 1, 4, 0x23, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0],
        ),
        (Body::Fetch { order: 6 }, &[0xCA, 1, 4, 0x30, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 6]),
        (
            Body::Gone { order: 6, state: &[0, 0, 0, 0, 0, 0, 0, 5] },
            &[0xCA, 1, 4, 0x32, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 5],
        ),
    ];
    for (body, bytes) in golden {
        let mut buf = Vec::new();
        let packet = Packet::Normal { view: 9, body: *body };
        packet.emit(AssociationId(7), &mut buf);
        assert_eq!(&buf, bytes, "{packet}");
    }
}
