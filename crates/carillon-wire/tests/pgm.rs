//! PGM packets: worked examples byte for byte, round trips, and arbitrary bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use carillon_wire::ParseError;
use carillon_wire::pgm::{
    Ack, AckerElection, BackOffInterval, BackOffRange, Body, Data, Fragment, LossReport, Nak, NakList,
    Options, Packet, PacketType, ParityParameters, Poll, Spm, Tsi, emit_repair, with_path,
};
use proptest::prelude::*;

/// TSI from the low-order 48 bits of the MD5 of "pgmhost", and a port.
const TSI: Tsi = Tsi { gsi: [0x0e, 0xe6, 0x09, 0x19, 0x9e, 0x4b], port: 20_000 };
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 192, 0, 1));

fn packet<'a>(body: Body<'a>, options: Options<'a>) -> Packet<'a> {
    Packet { tsi: TSI, destination_port: 7500, body, options }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn spm(sqn: u32) -> Body<'static> {
    Body::Spm(Spm { sqn, trail: 100, lead: 109, path: SOURCE })
}

fn nak() -> Nak {
    Nak { sqn: 105, source: SOURCE, group: GROUP }
}

/// Packets made by other means; the Wireshark dissector accepts their checksums.
#[test]
fn worked_packets() {
    let none = Options::default();
    let fragment = Options { fragment: Some(Fragment { first: 109, offset: 0, length: 2000 }), ..none };
    let list = NakList::from_bytes(&[0, 0, 0, 106, 0, 0, 0, 107]).expect("two numbers");
    let parity = Some(ParityParameters { flags: 3, group_size: 8 });
    let worked = [
        (packet(spm(5), none), "4e201d4c0000d3700ee609199e4b000000000005000000640000006d000100000a000001"),
        (
            packet(Body::Odata(Data { sqn: 109, trail: 100, payload: b"hello" }), none),
            "4e201d4c040095a00ee609199e4b00050000006d0000006468656c6c6f",
        ),
        (
            packet(Body::Odata(Data { sqn: 109, trail: 100, payload: b"hello" }), fragment),
            "4e201d4c04010c3a0ee609199e4b00050000006d0000006400040014811000000000006d00000000000007d068656c6c6f",
        ),
        (
            packet(Body::Rdata(Data { sqn: 105, trail: 100, payload: b"hello" }), none),
            "4e201d4c050094a40ee609199e4b0005000000690000006468656c6c6f",
        ),
        (
            packet(Body::Nak(nak()), none),
            "1d4c4e200800dc1a0ee609199e4b000000000069000100000a00000100010000efc00001",
        ),
        (
            packet(Body::Nak(nak()), Options { nak_list: list, ..none }),
            "1d4c4e20080359220ee609199e4b000000000069000100000a00000100010000efc0000100040010820c00000000006a0000006b",
        ),
        (
            packet(Body::Ncf(nak()), none),
            "4e201d4c0a00da1a0ee609199e4b000000000069000100000a00000100010000efc00001",
        ),
        (packet(Body::Spmr, none), "1d4c4e200c00d2480ee609199e4b0000"),
        (
            packet(spm(6), Options { parity_parameters: parity, fin: true, ..none }),
            "4e201d4c00033d410ee609199e4b000000000006000000640000006d000100000a0000010004001008080003000000088e040000",
        ),
    ];
    for (packet, bytes) in worked {
        let mut buf = Vec::new();
        packet.emit(&mut buf);
        assert_eq!(hex(&buf), bytes, "{packet}");
        assert_eq!(Packet::parse(&buf), Ok(packet));
        assert_eq!(buf.len(), packet.wire_len());
    }
}

#[test]
fn a_checksum_of_zero_is_sent_as_all_ones_and_means_none() {
    // The port is chosen so that the sum of this SPMR is all ones.
    let rest = Packet {
        tsi: Tsi { gsi: [0; 6], port: 0 },
        destination_port: 0,
        ..packet(Body::Spmr, Options::default())
    };
    let mut buf = Vec::new();
    rest.emit(&mut buf);
    let missing = u16::from_be_bytes([buf[6], buf[7]]);
    let full = Packet { destination_port: missing, ..rest };
    buf.clear();
    full.emit(&mut buf);
    assert_eq!(buf[6..8], [0xff, 0xff]);
    assert_eq!(Packet::parse(&buf), Ok(full));
    // A zero checksum is valid for a packet without data only.
    buf[6..8].fill(0);
    assert_eq!(Packet::parse(&buf), Ok(full));
    buf.clear();
    packet(Body::Odata(Data { sqn: 1, trail: 0, payload: b"x" }), Options::default()).emit(&mut buf);
    buf[6..8].fill(0);
    assert_eq!(Packet::parse(&buf), Err(ParseError::Field { field: "checksum", value: 0 }));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut buf = Vec::new();
    packet(Body::Rdata(Data { sqn: 105, trail: 100, payload: b"hello" }), Options::default()).emit(&mut buf);
    for bit in 0..8 * buf.len() {
        let mut changed = buf.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Packet::parse(&changed).is_err(), "bit {bit}");
    }
}

#[test]
fn a_network_element_puts_its_own_path_into_an_spm() {
    let mut buf = Vec::new();
    packet(spm(5), Options { fin: true, join: Some(100), ..Options::default() }).emit(&mut buf);
    let own = IpAddr::V4(Ipv4Addr::new(10, 9, 8, 7));
    let again = with_path(&buf, own).expect("both are of one family");
    let parsed = Packet::parse(&again).expect("a packet");
    let Body::Spm(spm) = parsed.body else { panic!("{parsed}") };
    assert_eq!(spm, Spm { sqn: 5, trail: 100, lead: 109, path: own });
    assert_eq!((parsed.options.fin, parsed.options.join), (true, Some(100)));
    assert_eq!(with_path(&buf, Ipv6Addr::LOCALHOST.into()), None);
    // The same for a POLL: all other bytes stay.
    let poll =
        Poll { sqn: 1, round: 2, subtype: 1, path: SOURCE, back_off_us: 3, random: 4, mask: 0xffff_ffff };
    buf.clear();
    packet(Body::Poll(poll), Options::default()).emit(&mut buf);
    let again = with_path(&buf, own).expect("both are of one family");
    assert_eq!(Packet::parse(&again).expect("a packet").body, Body::Poll(Poll { path: own, ..poll }));
    assert_eq!(with_path(&buf, Ipv6Addr::LOCALHOST.into()), None);
    buf.clear();
    packet(Body::Spmr, Options::default()).emit(&mut buf);
    assert_eq!(with_path(&buf, own), None);
}

#[test]
fn a_repair_is_the_original_with_another_type_and_trailing_edge() {
    let original = |trail| Body::Odata(Data { sqn: 105, trail, payload: b"hello" });
    let mut buf = Vec::new();
    packet(original(7), Options::default()).emit(&mut buf);
    let mut repair = b"before".to_vec();
    assert!(emit_repair(&buf, 100, &mut repair));
    // The worked RDATA 105.
    assert_eq!(hex(&repair[6..]), "4e201d4c050094a40ee609199e4b0005000000690000006468656c6c6f");
    // A repair of a repair, and one with options.
    let mut again = Vec::new();
    assert!(emit_repair(&repair[6..], 101, &mut again));
    let options = Options {
        fragment: Some(Fragment { first: 105, offset: 0, length: 2000 }),
        fin: true,
        ..Options::default()
    };
    buf.clear();
    packet(original(7), options).emit(&mut buf);
    again.clear();
    assert!(emit_repair(&buf, 100, &mut again));
    let body = Body::Rdata(Data { sqn: 105, trail: 100, payload: b"hello" });
    assert_eq!(Packet::parse(&again), Ok(packet(body, options)));
    // Other packets have no repair.
    for bytes in [b"", &buf[..20]] {
        assert!(!emit_repair(bytes, 100, &mut again));
    }
    buf.clear();
    packet(spm(1), Options::default()).emit(&mut buf);
    assert!(!emit_repair(&buf, 100, &mut again));
    assert_eq!(again.len(), packet(body, options).wire_len());
}

#[test]
fn options_beyond_their_length_or_number_are_refused() {
    let mut buf = Vec::new();
    let options = Options { join: Some(1), fin: true, ..Options::default() };
    packet(spm(5), options).emit(&mut buf);
    // OPT_LENGTH at 36, OPT_JOIN at 40, OPT_FIN at 48. Without a checksum every change takes effect.
    buf[6..8].fill(0);
    assert!(Packet::parse(&buf).is_ok());
    let changed = |at: usize, value: u8| {
        let mut buf = buf.clone();
        buf[at] = value;
        Packet::parse(&buf).map(drop)
    };
    for (at, value) in
        [(36, 3), (37, 5), (39, 3), (39, 15), (39, 17), (41, 3), (41, 7), (41, 200), (48, 0x0e)]
    {
        assert!(changed(at, value).is_err(), "byte {at} = {value}");
    }
    // An unknown option is skipped.
    assert!(changed(48, 0x80 | 0x55).is_ok());
    // Parity packets say that they are.
    buf[5] = 0xc1;
    let options = Packet::parse(&buf).expect("a packet").options;
    assert!(options.parity && options.variable_length && options.join == Some(1));
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<Ipv4Addr>().prop_map(IpAddr::V4), any::<Ipv6Addr>().prop_map(IpAddr::V6)]
}

type Owned = (u8, [u32; 6], IpAddr, IpAddr, Vec<u8>);

fn body((kind, n, a, b, payload): &Owned) -> Body<'_> {
    let nak = Nak { sqn: n[0], source: *a, group: *b };
    let data = Data { sqn: n[0], trail: n[1], payload };
    match kind {
        0 => Body::Spm(Spm { sqn: n[0], trail: n[1], lead: n[2], path: *a }),
        1 => Body::Poll(Poll {
            sqn: n[0],
            round: n[1] as u16,
            subtype: n[2] as u16,
            path: *a,
            back_off_us: n[3],
            random: n[4],
            mask: n[5],
        }),
        2 => Body::Polr { sqn: n[0], round: n[1] as u16 },
        3 => Body::Odata(data),
        4 => Body::Rdata(data),
        5 => Body::Nak(nak),
        6 => Body::Nnak(nak),
        7 => Body::Ncf(nak),
        8 => Body::Ack(Ack { newest: n[0], bitmap: n[1] }),
        _ => Body::Spmr,
    }
}

proptest! {
    #[test]
    fn emitted_packets_parse_back(
        owned in (0..10u8, any::<[u32; 6]>(), address(), address(), prop::collection::vec(any::<u8>(), 0..64)),
        (gsi, port, destination_port) in any::<([u8; 6], u16, u16)>(),
        list in prop::collection::vec(any::<u32>(), 0..63),
        there in any::<u32>(),
        n in any::<u32>(),
        nla in address(),
    ) {
        let list: Vec<u8> = list.iter().flat_map(|number| number.to_be_bytes()).collect();
        let there = |bit: u32| there & 1 << bit != 0;
        let options = Options {
            nak_list: if there(0) { NakList::from_bytes(&list).expect("not too many") } else { NakList::default() },
            back_off_interval: there(1).then_some(BackOffInterval { interval_us: n, poll_sqn: !n }),
            back_off_range: there(2).then_some(BackOffRange { max_us: n, min_us: !n }),
            redirect: there(3).then_some(nla),
            parity_parameters: there(4).then_some(ParityParameters { flags: n as u8, group_size: !n }),
            neighbour_unreachable: there(5),
            path: there(6).then_some(nla),
            fragment: there(7).then_some(Fragment { first: n, offset: !n, length: n / 3 }),
            join: there(8).then_some(n),
            syn: there(9),
            fin: there(10),
            reset: there(11).then_some(n as u8),
            parity: there(12),
            variable_length: there(13),
            parity_group: there(14).then_some(n),
            election: there(15).then_some(AckerElection { timestamp_ms: n, acker: nla }),
            report: there(16).then_some(LossReport { timestamp_ms: n, loss: n as u16, receiver: nla }),
        };
        let packet = Packet { tsi: Tsi { gsi, port }, destination_port, body: body(&owned), options };
        let mut buf = b"before".to_vec();
        packet.emit(&mut buf);
        let bytes = &buf[6..];
        prop_assert_eq!(bytes.len(), packet.wire_len());
        prop_assert_eq!(Packet::parse(bytes), Ok(packet));
        prop_assert_eq!(PacketType::peek(bytes), Some(packet.packet_type()));
        for len in 0..bytes.len() {
            prop_assert!(Packet::parse(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..96), kind in 0..16u8, flags in 0..4u8) {
        if bytes.len() >= 16 {
            bytes[4..8].copy_from_slice(&[kind, flags, 0, 0]);
            bytes[14] = 0;
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            prop_assert_eq!(Packet::parse(&again), Ok(packet));
        }
    }
}

/// Packets of other programs are parsed and emitted byte for byte. OpenPGM leaves the reserved byte of options
/// uninitialised; only that byte, and the checksum with it, may differ.
#[test]
fn packets_of_openpgm_and_zeromq_survive() {
    let (mut kinds, mut uninitialised) = (std::collections::BTreeMap::new(), 0);
    let text = include_str!("vectors/pgm-strangers.txt");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let pairs = line.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("it is ASCII"));
        let bytes: Result<Vec<u8>, _> = pairs.map(|pair| u8::from_str_radix(pair, 16)).collect();
        let mut bytes = bytes.expect("hexadecimal digits");
        let packet = Packet::parse(&bytes).unwrap_or_else(|error| panic!("{line}: {error}"));
        *kinds.entry(packet.packet_type() as u8).or_insert(0) += 1;
        let mut again = Vec::new();
        packet.emit(&mut again);
        if packet.options != Options::default() {
            // An SPM, NAK or NCF of 36 bytes, OPT_LENGTH, and the type and the length of the only option.
            uninitialised += 1;
            for packet in [&mut bytes, &mut again] {
                packet[42] = 0;
                packet[6..8].fill(0);
            }
        }
        assert_eq!(hex(&again), hex(&bytes));
    }
    // SPM, ODATA, RDATA, NAK and NCF.
    assert_eq!(kinds.into_keys().collect::<Vec<_>>(), [0x00, 0x04, 0x05, 0x08, 0x0a]);
    assert!(uninitialised > 0);
}
