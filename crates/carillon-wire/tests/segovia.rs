//! MSAW and MBAP packets: round trips, golden bytes, and arbitrary bytes.

use carillon_core::AssociationId;
use carillon_wire::{mbap as mbap_format, msaw as msaw_format};
use proptest::prelude::*;

macro_rules! laws {
    ($format:ident, $protocol:literal, $packets:expr) => {
        mod $format {
            use super::*;
            use carillon_wire::$format::{HEADER_LEN, Packet};

            proptest! {
                #[test]
                fn emitted_packets_parse_back(association in any::<u32>(), number in any::<u16>(), payload in prop::collection::vec(any::<u8>(), 0..64)) {
                    let packets: fn(u16, &[u8]) -> Vec<Packet<'_>> = $packets;
                    for packet in packets(number, &payload) {
                        let mut buf = Vec::new();
                        packet.emit(AssociationId(association), &mut buf);
                        prop_assert_eq!(buf.len(), packet.wire_len());
                        prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(association), packet)));
                        for len in 0..HEADER_LEN {
                            prop_assert!(Packet::parse(&buf[..len]).is_err());
                        }
                    }
                }

                #[test]
                fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), near in any::<bool>()) {
                    if near && bytes.len() >= 4 {
                        bytes[..3].copy_from_slice(&[0xCA, 1, $protocol]);
                    }
                    if let Ok((association, packet)) = Packet::parse(&bytes) {
                        let mut again = Vec::new();
                        packet.emit(association, &mut again);
                        prop_assert_eq!(&again[..], &bytes[..packet.wire_len()]);
                    }
                }
            }
        }
    };
}

laws!(msaw, 1, |number, payload| {
    let (bit, byte) = (number as u8 & 1, number as u8);
    vec![
        Packet::Data { sequence: bit, payload },
        Packet::Ack { sequence: bit },
        Packet::Numbered { sequence: byte, payload },
        Packet::Announce { sequence: byte, first: byte ^ 3, round: byte ^ 5 },
        Packet::Poll { sequence: byte, first: byte ^ 3, round: byte ^ 5 },
        Packet::AckUpTo { sequence: byte },
        Packet::Nak { sequence: byte, round: byte ^ 5 },
        Packet::Timed { sequence: bit, ack_wait: u32::from(number) << 9, payload },
    ]
});
laws!(mbap, 2, |sequence, payload| {
    vec![
        Packet::Data { sequence, payload },
        Packet::Ack { sequence },
        Packet::Nak { sequence },
        Packet::Poll { sequence, payload },
        Packet::Timed { sequence, ack_wait: u32::from(sequence) << 9, payload },
    ]
});

#[test]
fn golden_bytes() {
    let mut buf = Vec::new();
    msaw_format::Packet::Data { sequence: 1, payload: b"hi" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 1, 1, 0, 0, 0, 7, 1, b'h', b'i']);
    buf.clear();
    msaw_format::Packet::Ack { sequence: 0 }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 1, 2, 0, 0, 0, 7, 0]);
    buf.clear();
    msaw_format::Packet::Numbered { sequence: 200, payload: b"hi" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 1, 3, 0, 0, 0, 7, 200, b'h', b'i']);
    buf.clear();
    msaw_format::Packet::Timed { sequence: 1, ack_wait: 0x0102_0304, payload: b"hi" }
        .emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 1, 8, 0, 0, 0, 7, 1, 1, 2, 3, 4, b'h', b'i']);
    let short: [(_, &[u8]); 4] = [
        (msaw_format::Packet::Announce { sequence: 9, first: 8, round: 2 }, &[4, 0, 0, 0, 7, 9, 8, 2]),
        (msaw_format::Packet::Poll { sequence: 9, first: 8, round: 2 }, &[5, 0, 0, 0, 7, 9, 8, 2]),
        (msaw_format::Packet::AckUpTo { sequence: 9 }, &[6, 0, 0, 0, 7, 9]),
        (msaw_format::Packet::Nak { sequence: 9, round: 2 }, &[7, 0, 0, 0, 7, 9, 2]),
    ];
    for (packet, rest) in short {
        buf.clear();
        packet.emit(AssociationId(7), &mut buf);
        assert_eq!(buf, [&[0xCA, 1, 1], rest].concat());
    }
    buf.clear();
    mbap_format::Packet::Data { sequence: 0x0102, payload: b"!" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 2, 1, 0, 0, 0, 7, 1, 2, b'!']);
    buf.clear();
    mbap_format::Packet::Ack { sequence: 19 }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 2, 2, 0, 0, 0, 7, 0, 19]);
    buf.clear();
    mbap_format::Packet::Poll { sequence: 3, payload: b"!" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 2, 4, 0, 0, 0, 7, 0, 3, b'!']);
    buf.clear();
    mbap_format::Packet::Timed { sequence: 3, ack_wait: 0x0102_0304, payload: b"!" }
        .emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 2, 5, 0, 0, 0, 7, 0, 3, 1, 2, 3, 4, b'!']);
    buf.clear();
    mbap_format::Packet::Nak { sequence: 19 }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 2, 3, 0, 0, 0, 7, 0, 19]);
}

#[test]
fn a_sequence_number_of_more_than_one_bit_is_no_msaw_packet() {
    let error = msaw_format::Packet::parse(&[0xCA, 1, 1, 1, 0, 0, 0, 7, 2]).unwrap_err();
    assert_eq!(error.to_string(), "field `sequence` has the impossible value 2");
}
