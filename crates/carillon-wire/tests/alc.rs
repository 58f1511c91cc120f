//! ALC packets: packets of another implementation, golden packets, round trips, and arbitrary bytes.

use std::collections::BTreeMap;

use carillon_testkit::format_tests;
use carillon_wire::alc::{
    Code, Encoding, Extensions, FORMAT, FdtHeader, Identifiers, Packet, PayloadId, Transmission,
};
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Packets that the crate `flute` (1.11.7) sent, with four codes. Each is parsed and emitted byte for byte.
#[test]
fn packets_of_another_implementation() {
    let mut seen = BTreeMap::new();
    for line in include_str!("vectors/alc-peer.txt").lines().filter(|line| !line.starts_with('#')) {
        let datagram = bytes(line);
        let packet = Packet::parse(&datagram).unwrap_or_else(|error| panic!("{error}: {line}"));
        let mut again = Vec::new();
        packet.emit(&mut again);
        assert_eq!(again, datagram, "{packet}");
        assert_eq!(packet.wire_len(), datagram.len());
        *seen.entry((packet.name(), packet.codepoint)).or_insert(0) += 1;
        if packet.name() == "close" {
            assert_eq!((packet.identifiers.tsi(), packet.identifiers.toi()), (Some(1), None));
            continue;
        }
        let encoding = Encoding::of(packet.codepoint).expect("a known code");
        let transmission = packet.extensions.transmission(encoding).expect("it is in each packet");
        assert_eq!((transmission.symbol, transmission.code.encoding()), (400, encoding));
        // The extension is emitted again as well.
        let mut extension = Vec::new();
        Extensions::push_transmission(&mut extension, &transmission);
        let all = packet.extensions.as_bytes();
        assert_eq!(&all[all.len() - extension.len()..], extension);
        if packet.name() == "fdt" {
            assert_eq!(packet.extensions.fdt(), Some(FdtHeader { version: 2, instance: 1 }));
            assert_eq!(packet.extensions.content_encoding(), Some(0));
            assert_eq!(packet.extensions.sender_seconds().map(|seconds| seconds >> 24), Some(0xee));
        }
    }
    let kinds = [("close", 0), ("fdt", 0), ("fdt", 1), ("fdt", 5), ("fdt", 6)];
    let symbols = [0, 1, 5, 6].map(|code| ("symbol", code));
    for kind in kinds.iter().chain(&symbols) {
        assert!(seen.contains_key(kind), "{kind:?} is in the sample: {seen:?}");
    }
}

#[test]
fn golden_packets_are_read_as_their_lines() {
    for golden in format_tests(&FORMAT).golden {
        let parsed = (FORMAT.read)(&golden.bytes()).expect("a packet");
        assert_eq!((&*parsed.line, &parsed.bytes), (golden.line, &golden.bytes()));
    }
}

/// RFC 3451, which version 1 of FLUTE refers to, has the times in the fixed header.
#[test]
fn times_of_the_first_version_are_read() {
    let datagram = bytes("101d0600 00000000 00070001 000003e8 000007d0 01010000");
    let packet = Packet::parse(&datagram).expect("a packet");
    assert_eq!((packet.sender_time, packet.residual_time), (Some(1000), Some(2000)));
    assert!(packet.closes_object && !packet.closes_session);
    let mut again = Vec::new();
    packet.emit(&mut again);
    assert_eq!(again, datagram);
}

#[test]
fn malformed_headers_are_refused() {
    for hex in [
        "",
        "1010",
        "20100400 00000000 00010001",
        "10100200 00000000 00010001",
        "10100500 00000000 00010001",
        "10100500 00000000 00010001 01000000",
        "10100500 00000000 00010001 01020000",
    ] {
        assert!(Packet::parse(&bytes(hex)).is_err(), "{hex}");
    }
}

fn code() -> impl Strategy<Value = Code> {
    prop_oneof![
        any::<u32>().prop_map(|block| Code::NoCode { block }),
        any::<(u8, u8)>().prop_map(|(block, total)| Code::ReedSolomon8 { block, total }),
        any::<(u8, u8, u16, u16)>().prop_map(|(bits, group, block, total)| Code::ReedSolomon {
            bits,
            group,
            block,
            total
        }),
        any::<(u16, u16, u16)>().prop_map(|(instance, block, total)| Code::SmallBlock {
            instance,
            block,
            total
        }),
        any::<(u16, u8, u8)>().prop_map(|(blocks, sub_blocks, alignment)| Code::Raptor {
            blocks,
            sub_blocks,
            alignment
        }),
        any::<(u8, u16, u8)>().prop_map(|(blocks, sub_blocks, alignment)| Code::RaptorQ {
            blocks,
            sub_blocks,
            alignment
        }),
    ]
}

proptest! {
    #[test]
    fn identifiers_survive_the_shortest_encoding(tsi in 0u64..1 << 48, shift in 0u32..48, toi in any::<u128>(), less in 16u32..127) {
        let (tsi, toi) = (tsi >> shift, toi >> less);
        for toi in [None, Some(toi)] {
            let identifiers = Identifiers::new(tsi, toi);
            let mut emitted = Vec::new();
            Packet::new(identifiers, 0).emit(&mut emitted);
            let again = Packet::parse(&emitted).expect("a packet").identifiers;
            prop_assert_eq!(again, identifiers);
            prop_assert_eq!(again.tsi(), Some(tsi));
            // A session of 48 bits makes half a word of an object.
            prop_assert_eq!(again.toi(), if tsi >> 32 != 0 { toi.or(Some(0)) } else { toi });
        }
    }

    #[test]
    fn transmissions_survive_the_extension(length in 0u64..1 << 40, symbol in any::<u16>(), code in code()) {
        let transmission = Transmission { length, symbol, code };
        let mut bytes = Vec::new();
        Extensions::push_transmission(&mut bytes, &transmission);
        let extensions = Extensions::new(&bytes).expect("one extension");
        prop_assert_eq!(extensions.transmission(code.encoding()), Some(transmission));
    }

    #[test]
    fn places_survive_their_field(block in 0u32..256, symbol in 0u32..256, code in code(), rest in prop::collection::vec(any::<u8>(), 0..9)) {
        let encoding = code.encoding();
        let length = (encoding == Encoding::SmallBlock).then_some(7);
        let (id, mut bytes) = (PayloadId { block, symbol, length }, Vec::new());
        encoding.push_id(&mut bytes, id);
        prop_assert_eq!(bytes.len(), encoding.id_len());
        bytes.extend_from_slice(&rest);
        prop_assert_eq!(encoding.split(&bytes), Some((id, &rest[..])));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_survive_a_round_trip(mut datagram in prop::collection::vec(any::<u8>(), 0..80), flags in any::<u8>()) {
        if let [first, second, words, ..] = &mut datagram[..] {
            (*first, *second, *words) = (0x10 | *first & 7, flags, *words % 16);
        }
        if let Ok(packet) = Packet::parse(&datagram) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            prop_assert_eq!(&again, &datagram);
            prop_assert_eq!(packet.wire_len(), datagram.len());
            prop_assert!(packet.to_string().starts_with("alc "));
        }
    }
}
