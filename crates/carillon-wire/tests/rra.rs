//! RRA packets: round trips, golden bytes, and arbitrary bytes.

use carillon_core::AssociationId;
use carillon_wire::map::Map;
use carillon_wire::rra::{AckRequest, Packet};
use proptest::prelude::*;

proptest! {
    #[test]
    fn emitted_packets_parse_back(kind in 0..4u8, sequence in any::<u32>(), first in any::<u32>(), acker in any::<u32>(), question in 1..=u32::MAX, room in any::<u16>(), payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let asks = AckRequest { acker, question };
        let packet = match kind {
            0 => Packet::Data { sequence, first, asks: Some(asks), payload: &payload },
            1 => Packet::Data { sequence, first, asks: None, payload: &payload },
            2 => Packet::Poll { sequence, first, asks },
            _ => Packet::Ack { expected: sequence, question, arrived: acker, room, received: Map::new(&payload) },
        };
        let mut buf = Vec::new();
        packet.emit(AssociationId(first), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(first), packet)));
        for len in 0..buf.len() - packet.wire_len().min(payload.len() * usize::from(kind < 2)) {
            prop_assert!(Packet::parse(&buf[..len]).is_err());
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), near in any::<bool>()) {
        if near && bytes.len() >= 4 {
            bytes[..3].copy_from_slice(&[0xCA, 1, 3]);
            bytes[3] %= 4;
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
    let mut buf = Vec::new();
    let asks = Some(AckRequest { acker: 3, question: 4 });
    Packet::Data { sequence: 1, first: 2, asks, payload: b"!" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 3, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, b'!']);
    buf.clear();
    let received = Map::new(&[0, 0, 0, 0, 0, 0, 0, 5]);
    Packet::Ack { expected: 9, question: 4, arrived: 11, room: 6, received }.emit(AssociationId(7), &mut buf);
    let expected = [0xCA, 1, 3, 2, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 11, 0, 6, 0, 1];
    assert_eq!(buf[..24], expected);
    assert_eq!(buf[24..], [0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!(received.words().collect::<Vec<_>>(), [5]);
}

#[test]
fn inconsistent_packets_are_refused() {
    let mut buf = Vec::new();
    let asks = AckRequest { acker: 3, question: 4 };
    Packet::Poll { sequence: 1, first: 2, asks }.emit(AssociationId(7), &mut buf);
    buf[23] = 0;
    assert!(Packet::parse(&buf).is_err(), "a poll without a question");
    buf[3] = 1;
    assert!(Packet::parse(&buf).is_err(), "an acker without a question");
    buf[3] = 2;
    buf[22] = 1;
    buf.resize(24 + 256 * 8, 0);
    assert!(Packet::parse(&buf).is_err(), "a map of 256 words");
}
