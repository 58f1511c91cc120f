//! MSAW and MBAP packets: round trips, golden bytes, and any bytes at all.

use carillon_core::AssociationId;
use carillon_wire::{mbap as mbap_format, msaw as msaw_format};
use proptest::prelude::*;

macro_rules! laws {
    ($format:ident, $sequence:expr) => {
        mod $format {
            use super::*;
            use carillon_wire::$format::{HEADER_LEN, Packet};

            proptest! {
                #[test]
                fn what_was_emitted_is_parsed(association in any::<u32>(), sequence in $sequence, payload in prop::collection::vec(any::<u8>(), 0..64), ack in any::<bool>()) {
                    let packet = if ack { Packet::Ack { sequence } } else { Packet::Data { sequence, payload: &payload } };
                    let mut buf = Vec::new();
                    packet.emit(AssociationId(association), &mut buf);
                    prop_assert_eq!(buf.len(), packet.wire_len());
                    prop_assert_eq!(Packet::parse(&buf), Ok((AssociationId(association), packet)));
                    for len in 0..HEADER_LEN {
                        prop_assert!(Packet::parse(&buf[..len]).is_err());
                    }
                }

                #[test]
                fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), near in any::<bool>()) {
                    if near && bytes.len() >= 4 {
                        bytes[..3].copy_from_slice(&[0xCA, 1, if stringify!($format) == "msaw" { 1 } else { 2 }]);
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

laws!(msaw, 0..=1u8);
laws!(mbap, any::<u16>());

#[test]
fn golden_bytes() {
    let mut buf = Vec::new();
    msaw_format::Packet::Data { sequence: 1, payload: b"hi" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 1, 1, 0, 0, 0, 7, 1, b'h', b'i']);
    buf.clear();
    msaw_format::Packet::Ack { sequence: 0 }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 1, 2, 0, 0, 0, 7, 0]);
    buf.clear();
    mbap_format::Packet::Data { sequence: 0x0102, payload: b"!" }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 2, 1, 0, 0, 0, 7, 1, 2, b'!']);
    buf.clear();
    mbap_format::Packet::Ack { sequence: 19 }.emit(AssociationId(7), &mut buf);
    assert_eq!(buf, [0xCA, 1, 2, 2, 0, 0, 0, 7, 0, 19]);
}

#[test]
fn a_sequence_number_of_more_than_one_bit_is_no_msaw_packet() {
    let error = msaw_format::Packet::parse(&[0xCA, 1, 1, 1, 0, 0, 0, 7, 2]).unwrap_err();
    assert_eq!(error.to_string(), "field `sequence` has the impossible value 2");
}
