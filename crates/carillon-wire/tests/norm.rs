//! NORM packets: worked examples byte for byte, packets of another implementation, round trips, and arbitrary bytes.

use carillon_wire::norm::{
    Body, Command, Congestion, Extensions, Form, Item, Nodes, Object, Packet, Position, Request, Requests,
    Response, SenderState, Stamp, Transmission, encode_grtt,
};
use proptest::prelude::*;

/// State of a sender with a GRTT of 0.5 s, K = 4 and a group of 10 000.
fn sender(instance: u16) -> SenderState {
    SenderState {
        instance,
        grtt: encode_grtt(std::time::Duration::from_millis(500)),
        backoff: 4,
        group_size: 3,
    }
}

fn systematic(symbol: u16) -> Position {
    Position::Systematic { block: 3, length: 32, symbol }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("a byte"))
        .collect()
}

/// Packets that the Wireshark dissector reads as these.
#[test]
fn worked_packets() {
    let state = sender(1);
    let object = |flags| Object { id: 12, flags };
    let mut fti = Vec::new();
    fti.extend_from_slice(&bytes("400400000000 4e20 0000 03e8 0020 0008"));
    let mut rate = Vec::new();
    Extensions::push_rate(&mut rate, 0x51f4);
    let mut cc = Vec::new();
    let report = Congestion { sequence: 9, flags: 4, rtt: 0x88, loss: 655, rate: 0x28f4 };
    Extensions::push_congestion(&mut cc, report);
    let mut list = Vec::new();
    let items = [2, 5, 8].map(|symbol| Item { object: 12, position: systematic(symbol) });
    Requests::push(&mut list, Form::Items, Request::SEGMENT, items);
    let requests = Requests::new(&list).expect("just written");
    let response =
        Response { sender: 0x0a00_0001, instance: 1, echo: Stamp { seconds: 1000, microseconds: 300_000 } };
    let command = |command| Body::Command { sender: state, command };
    let worked: [(u16, Body<'_>, &[u8], &str); 7] = [
        (
            1,
            Body::Info { sender: state, object: object(0x14), fec_id: 0x81, payload: b"name" },
            &[],
            "110400010a00000100019d431481000c6e616d65",
        ),
        (
            2,
            Body::Data { sender: state, object: object(0), position: systematic(5), payload: b"payload" },
            &[],
            "120600020a00000100019d430081000c00000003002000057061796c6f6164",
        ),
        (
            4,
            command(Command::Flush { object: 12, position: systematic(31), nodes: Nodes::default() }),
            &[],
            "130600040a00000100019d430181000c000000030020001f",
        ),
        (5, command(Command::End), &[], "130400050a00000100019d4302000000"),
        (
            6,
            command(Command::Squelch {
                object: 10,
                position: Position::Systematic { block: 0, length: 32, symbol: 0 },
                invalid: &[0, 11],
            }),
            &[],
            "130600060a00000100019d430381000a0000000000200000000b",
        ),
        (
            7,
            command(Command::Probe {
                sequence: 9,
                sent: Stamp { seconds: 1000, microseconds: 250_000 },
                nodes: &[0x0a, 0, 0, 2, 5, 0x88, 0x28, 0xf4],
            }),
            &rate,
            "130700070a00000100019d4304000009000003e80003d090800051f40a000002058828f4",
        ),
        (
            1,
            Body::Nack { response, requests },
            &cc,
            "140900010a0000020a00000100010000000003e8000493e003030009\
             0488028f28f400000101002481\
             00000c00000003002000028100000c00000003002000058100000c0000000300200008",
        ),
    ];
    for (sequence, body, extensions, expected) in worked {
        let source = if matches!(body, Body::Nack { .. }) { 0x0a00_0002 } else { 0x0a00_0001 };
        let extensions = Extensions::new(extensions).expect("extensions");
        let packet = Packet { sequence, source, body, extensions };
        let mut emitted = Vec::new();
        packet.emit(&mut emitted);
        assert_eq!(hex(&emitted), expected.replace(char::is_whitespace, ""), "{packet}");
        assert_eq!((Packet::parse(&emitted), packet.wire_len()), (Ok(packet), emitted.len()));
    }
    let transmission = Extensions::new(&fti).expect("one extension").transmission(129);
    let expected = Transmission { size: 20_000, segment: 1000, block: 32, parity: 8, bits: 16 };
    assert_eq!(transmission, Some(expected));
}

/// Recorded sessions of NRL's implementation: 16 source and 8 parity symbols, and 300 and 64 over 16 bits. RFC 5510 has
/// the number of all symbols where the implementation has that of parity symbols.
#[test]
fn transmission_information_has_the_number_of_parity_symbols() {
    let recorded = [
        ("40030000 00013880 01901008", 5, (400, 16, 8, 8)),
        ("40040000 00013880 100100c8 012c0040", 2, (200, 300, 64, 16)),
    ];
    for (hex, fec_id, (segment, block, parity, bits)) in recorded {
        let extension = bytes(hex);
        let transmission = Extensions::new(&extension).expect("one extension").transmission(fec_id);
        let expected = Transmission { size: 80_000, segment, block, parity, bits };
        assert_eq!(transmission, Some(expected));
        if fec_id == 5 {
            let mut again = Vec::new();
            Extensions::push_rs8(&mut again, expected);
            assert_eq!(again, extension);
        }
    }
}

/// Packets that NRL's implementation (version 1.5.9) sent: files and streams, with losses, parity and
/// acknowledgments. Each is parsed and emitted byte for byte.
#[test]
fn packets_of_another_implementation() {
    let mut seen = std::collections::BTreeMap::new();
    for line in include_str!("vectors/norm-peer.txt").lines().filter(|line| !line.starts_with('#')) {
        let datagram = bytes(line);
        let packet = Packet::parse(&datagram).unwrap_or_else(|error| panic!("{error}: {line}"));
        let mut again = Vec::new();
        packet.emit(&mut again);
        assert_eq!(hex(&again), hex(&datagram), "{packet}");
        *seen.entry(packet.name()).or_insert(0) += 1;
    }
    for name in ["info", "data", "flush", "cc", "nack", "ack", "repair_adv"] {
        assert!(seen.contains_key(name), "{name} is in the sample: {seen:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_or_survive_a_round_trip(mut datagram in prop::collection::vec(any::<u8>(), 0..80), kind in 0u8..6) {
        if let [first, words, ..] = &mut datagram[..] {
            (*first, *words) = (0x10 | kind, *words % 12);
        }
        if let Ok(packet) = Packet::parse(&datagram) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            prop_assert_eq!(&again, &datagram);
            prop_assert_eq!(packet.wire_len(), datagram.len());
            prop_assert!(packet.to_string().starts_with("norm "));
        }
    }
}
