//! RRA packets: round trips, golden bytes, and any bytes at all.

use carillon_core::AssociationId;
use carillon_wire::rra::Packet;
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_was_emitted_is_parsed(kind in 0..3u8, sequence in any::<u32>(), first in any::<u32>(), acker in any::<u64>(), payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let packet = match kind {
            0 => Packet::Data { sequence, first, acker, payload: &payload },
            1 => Packet::Poll { sequence, first, acker },
            _ => Packet::Ack { expected: sequence, received: acker },
        };
        let mut buf = Vec::new();
        packet.emit(AssociationId(first), &mut buf);
        prop_assert_eq!(buf.len(), packet.wire_len());
        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(first), packet)));
        for len in 0..buf.len() - packet.wire_len().min(payload.len() * usize::from(kind == 0)) {
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
    Packet::Data { sequence: 1, first: 2, acker: 3, payload: b"!" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 3, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, b'!']);
    buf.clear();
    Packet::Ack { expected: 9, received: 5 }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 3, 2, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5]);
}
