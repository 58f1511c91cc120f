//! Packets of XTP: golden bytes, round trips, arbitrary bytes, and an independent dissector.

#![expect(clippy::disallowed_methods, reason = "tshark reads a file")]

use std::process::Command;

use carillon_core::AssociationId;
use carillon_testkit::format_tests;
use carillon_wire::ParseError;
use carillon_wire::xtp::{
    Address, AddressForm, Body, Common, Data, Diag, FORMAT, Handover, IP_PROTOCOL, Packet, RTN, Rates, Spans,
    Traffic, TrafficForm, is_packet, key_of, option,
};
use proptest::prelude::*;

fn golden() -> Vec<Vec<u8>> {
    format_tests(&FORMAT).golden.iter().map(|golden| bytes_of(golden.hex)).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

#[test]
fn the_worked_packets_are_read_and_written_as_they_are() {
    for (golden, bytes) in format_tests(&FORMAT).golden.iter().zip(golden()) {
        let reading = (FORMAT.read)(&bytes).unwrap_or_else(|error| panic!("{}: {error}", golden.line));
        assert_eq!(reading.line, golden.line);
        assert_eq!((reading.bytes, reading.wire_len), (bytes.clone(), bytes.len()));
    }
}

#[test]
fn key_names_exactly_one_association() {
    let packet =
        |key| Packet { key, options: 0, sort: 0, sync: 0, seq: 0, body: Body::Cntl(Common::default()) };
    for association in [0, 1, 7, u32::MAX].map(AssociationId) {
        let key = key_of(association);
        assert_eq!(key & RTN, 0);
        assert_eq!(packet(key).association(), Some(association));
        assert_eq!(packet(key | RTN).association(), Some(association));
        for bit in 0..63 {
            assert_eq!(packet(key ^ 1 << bit).association(), None, "bit {bit} matters");
        }
    }
}

#[test]
fn a_checksum_covers_everything_or_the_header() {
    let mut buf = Vec::new();
    for options in [0, option::NOCHECK] {
        buf.clear();
        let body = Body::Data(Data::plain(b"odd"));
        Packet { key: 1, options, sort: 0, sync: 0, seq: 0, body }.emit(&mut buf);
        for at in 0..buf.len() {
            let mut wrong = buf.clone();
            wrong[at] ^= 4;
            let refused = Packet::parse(&wrong).is_err();
            assert_eq!(refused, options == 0 || at < 32, "byte {at} with options {options:#x}");
        }
    }
}

/// Random parts of which packets are made.
#[derive(Clone, Debug)]
struct Parts {
    key: u64,
    options: u32,
    sync: u32,
    seq: u64,
    common: Common,
    rates: Rates,
    spans: Vec<(u64, u64)>,
    tag: Option<[u8; 8]>,
    bytes: Vec<u8>,
    forms: (u8, u8),
}

fn parts() -> impl Strategy<Value = Parts> {
    let header = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u64>());
    let common = (any::<u64>(), any::<u64>(), any::<u32>());
    let spans = prop::collection::vec(any::<(u64, u64)>(), 0..9);
    let rates = any::<[u32; 5]>();
    let rest = (any::<Option<[u8; 8]>>(), prop::collection::vec(any::<u8>(), 0..64), (0..4u8, 0..4u8));
    (header, common, rates, spans, rest).prop_map(|(header, common, rates, spans, (tag, bytes, forms))| {
        Parts {
            key: header.0,
            options: header.1 & option::OPTION_MASK & !option::BTAG,
            sync: header.2,
            seq: header.3,
            common: Common { rseq: common.0, alloc: common.1, echo: common.2 },
            rates: Rates {
                maxdata: rates[0],
                inrate: rates[1],
                inburst: rates[2],
                outrate: rates[3],
                outburst: rates[4],
            },
            spans,
            tag,
            bytes,
            forms,
        }
    })
}

impl Parts {
    /// Makes one packet of each format from the parts.
    fn packets<'a>(&'a self, room: &'a mut Vec<[u8; 16]>) -> Vec<Packet<'a>> {
        let address = Address {
            domain: self.forms.0,
            form: match self.forms.0 {
                0 => AddressForm::Null(self.sync.to_be_bytes()),
                1 => AddressForm::Other(6, &self.bytes),
                _ => AddressForm::V4 {
                    destination: ([239, 0, 0, 239].into(), self.sync as u16),
                    source: ([10, 0, 0, self.forms.1].into(), 6000),
                },
            },
        };
        let form = match self.forms.1 {
            0 => TrafficForm::Null(self.sync.to_be_bytes()),
            1 => TrafficForm::Other(9, &self.bytes),
            _ => TrafficForm::Rates(self.rates),
        };
        let traffic = Traffic { service: self.forms.0, form };
        let data = Data { tag: self.tag, bytes: &self.bytes };
        let handover = Handover { common: self.common, xkey: self.seq };
        let spans = Spans::of(self.spans.iter().copied(), room);
        let bodies = [
            Body::Data(data),
            Body::First(address, traffic, data),
            Body::Cntl(self.common),
            Body::Ecntl(self.common, spans),
            Body::Tcntl(handover, traffic),
            Body::Jcntl(handover, address, traffic),
            Body::Join(&self.bytes),
            Body::Diag(Diag { code: self.sync, value: self.rates.maxdata, text: &self.bytes }),
        ];
        let of = |body| Packet {
            key: self.key,
            options: self.options,
            sort: self.sync as u16,
            sync: self.sync,
            seq: self.seq,
            body,
        };
        bodies.map(of).into()
    }
}

proptest! {
    #[test]
    fn emitted_packets_parse_back_and_prefixes_do_not(parts in parts()) {
        let mut room = Vec::new();
        for packet in parts.packets(&mut room) {
            let mut buf = Vec::new();
            packet.emit(&mut buf);
            prop_assert_eq!(buf.len(), packet.wire_len());
            prop_assert_eq!(Packet::parse(&buf), Ok(packet));
            prop_assert!(is_packet(&buf));
            if let Body::Ecntl(_, spans) = packet.body {
                prop_assert!(spans.iter().eq(parts.spans.iter().copied()));
            }
            for len in 0..buf.len() {
                prop_assert!(Packet::parse(&buf[..len]).is_err() && !is_packet(&buf[..len]));
            }
            buf.push(0);
            let longer = matches!(Packet::parse(&buf), Err(ParseError::Field { field: "dlen", .. }));
            prop_assert!(longer);
        }
    }

    #[test]
    fn any_bytes_parse_to_what_they_were_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..140), format in 0..10u8, near in any::<bool>()) {
        if near && bytes.len() >= 32 {
            let len = bytes.len() as u32 - 32;
            bytes[8] &= 0x7f;
            bytes[10] &= 0xfe;
            bytes[11] = 0x20 | format;
            bytes[12..16].copy_from_slice(&len.to_be_bytes());
            // Lengths that are nearly right.
            for at in [32, 48, 68] {
                if let Some(field) = bytes.get_mut(at..at + 2) {
                    field[0] = 0;
                    field[1] &= 31;
                }
            }
            bytes[16..18].copy_from_slice(&[0, 0]);
            let all = if bytes[8] & 0x40 != 0 { 32 } else { bytes.len() };
            let mut sum: u64 = bytes[..all].chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            bytes[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            prop_assert_eq!(&again, &bytes);
            prop_assert!(!packet.to_string().is_empty());
        }
    }
}

#[test]
fn tshark_reads_every_packet_without_an_error_mark() {
    const NAMES: [&str; 12] = [
        "_ws.malformed",
        "_ws.expert",
        "xtp.key",
        "xtp.cmd",
        "xtp.dlen",
        "xtp.sync",
        "xtp.seq",
        "xtp.cntl.rseq",
        "xtp.ecntl.rseq",
        "xtp.tcntl.xkey",
        "xtp.tspec.maxdata",
        "xtp.diag.code",
    ];
    let packets = golden();
    let path = std::env::temp_dir().join(format!("carillon-wire-xtp-{}.pcap", std::process::id()));
    std::fs::write(&path, crate::pgm_dissector::capture(&packets, IP_PROTOCOL)).expect("a capture");
    let text = crate::pgm_dissector::shown(&path, &[], &NAMES);
    let Some(text) = text else { return std::fs::remove_file(&path).expect("it is ours") };
    let shown = Command::new("tshark").arg("-r").arg(&path).arg("-V").output().expect("it runs");
    std::fs::remove_file(&path).expect("it is ours");
    assert_eq!(text.lines().count(), packets.len());
    for (line, bytes) in text.lines().zip(&packets) {
        let packet = Packet::parse(bytes).expect("a golden packet");
        let shown: Vec<&str> = line.split('\t').collect();
        let of = |name: &str| shown[NAMES.iter().position(|known| *known == name).expect("it was asked for")];
        let number = |name: &str| match of(name).strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => of(name).parse().ok(),
        };
        assert_eq!((of("_ws.malformed"), of("_ws.expert")), ("", ""), "{packet}: {line:?}");
        assert_eq!(number("xtp.key"), Some(packet.key), "{line:?}");
        assert_eq!(number("xtp.dlen"), Some(bytes.len() as u64 - 32), "{line:?}");
        assert_eq!(number("xtp.sync"), Some(packet.sync.into()), "{line:?}");
        assert_eq!(number("xtp.seq"), Some(packet.seq), "{line:?}");
        match packet.body {
            Body::Cntl(common) => assert_eq!(number("xtp.cntl.rseq"), Some(common.rseq)),
            Body::Ecntl(common, _) => assert_eq!(number("xtp.ecntl.rseq"), Some(common.rseq)),
            Body::Tcntl(handover, _) => assert_eq!(number("xtp.tcntl.xkey"), Some(handover.xkey)),
            Body::First(..) => assert_eq!(number("xtp.tspec.maxdata"), Some(1448)),
            Body::Diag(diag) => assert_eq!(number("xtp.diag.code"), Some(diag.code.into())),
            _ => {}
        }
    }
    // The dissector reports its opinion of each checksum.
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(shown.matches("[correct]").count(), packets.len(), "{shown}");
}
