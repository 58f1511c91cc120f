//! Packets of Erramilli and Singh: round trips, golden bytes, and arbitrary bytes.

use carillon_core::AssociationId;
use carillon_wire::erramilli_singh::{Packet, Progress};
use proptest::prelude::*;

fn packet(kind: u8, rank: u16, other: u16, a: u32, b: u32, payload: &[u8]) -> Packet<'_> {
    match kind {
        0 => Packet::Data { source: rank, sequence: a, payload },
        1 => Packet::Status(Progress { source: rank, next: a, held: b }),
        2 => Packet::Sanity(Progress { source: rank, next: a, held: b }),
        3 => Packet::Nak { from: rank, source: other, expected: a },
        _ => Packet::Choke { from: rank, pause_us: a },
    }
}

proptest! {
    #[test]
    fn emitted_packets_parse_back(kind in 0..5u8, rank in any::<u16>(), other in any::<u16>(), a in any::<u32>(), b in any::<u32>(), payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let packet = packet(kind, rank, other, a, b, &payload);
        let mut buf = Vec::new();
        packet.emit(AssociationId(b), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(b), packet)));
        prop_assert_eq!(packet.sender(), rank);
        let fixed = if kind == 0 { buf.len() - payload.len() } else { buf.len() };
        for len in 0..fixed {
            prop_assert!(Packet::parse(&buf[..len]).is_err());
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), near in any::<bool>()) {
        if near && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[0xCA, 1, 5]);
            bytes[3] %= 7;
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
    let progress = Progress { source: 1, next: 2, held: 3 };
    let golden: [(Packet<'_>, &[u8], &str); 5] = [
        (
            Packet::Data { source: 0x0102, sequence: 0x03040506, payload: b"!" },
            &[0xCA, 1, 5, 1, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, b'!'],
            "erramilli-singh data from 258 seq 50595078 len 1",
        ),
        (
            Packet::Status(progress),
            &[0xCA, 1, 5, 2, 0, 0, 0, 7, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3],
            "erramilli-singh status from 1 next 2 held 3",
        ),
        (
            Packet::Sanity(progress),
            &[0xCA, 1, 5, 3, 0, 0, 0, 7, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3],
            "erramilli-singh sanity from 1 next 2 held 3",
        ),
        (
            Packet::Nak { from: 4, source: 5, expected: 6 },
            &[0xCA, 1, 5, 4, 0, 0, 0, 7, 0, 4, 0, 5, 0, 0, 0, 6],
            "erramilli-singh nak from 4 source 5 expected 6",
        ),
        (
            Packet::Choke { from: 8, pause_us: 20_000 },
            &[0xCA, 1, 5, 5, 0, 0, 0, 7, 0, 8, 0, 0, 0x4E, 0x20],
            "erramilli-singh choke from 8 pause 20000 us",
        ),
    ];
    for (packet, bytes, line) in golden {
        let mut buf = Vec::new();
        packet.emit(AssociationId(7), &mut buf);
        assert_eq!(buf, bytes);
        assert_eq!(packet.to_string(), line);
    }
}
