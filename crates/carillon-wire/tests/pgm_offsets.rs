//! PGM packets parsed a second time, by the offsets of RFC 3208 and without code of the crate: the golden bytes, and
//! every field that the crate emits.

use std::collections::BTreeMap;
use std::net::IpAddr;

use carillon_testkit::format_tests;
use carillon_wire::pgm::{
    Ack, AckerElection, BackOffInterval, BackOffRange, Body, Data, FORMAT, Fragment, LossReport, Nak,
    NakList, Options, Packet, ParityParameters, Poll, Spm, Tsi,
};

/// Fields of a packet by their names in the RFC; an address is its family and its octets.
pub type Fields = BTreeMap<&'static str, Vec<u64>>;

// Header of all packets, section 8: offset of each field. Integers are big-endian.
const SOURCE_PORT: usize = 0;
const DESTINATION_PORT: usize = 2;
const TYPE: usize = 4;
const OPTIONS: usize = 5;
const CHECKSUM: usize = 6; // 2 bytes
const GSI: usize = 8; // 6 bytes
const TSDU_LENGTH: usize = 14;
const HEADER: usize = 16;

// Bits of the options byte (section 8): implementations count them from the lowest.
const EXTENSIONS: u64 = 0x01;
const NETWORK_SIGNIFICANT: u64 = 0x02;
/// OPT_VAR_PKTLEN and OPT_PARITY, section 8.
const VARIABLE: u64 = 0x40;
const PARITY: u64 = 0x80;

/// Integer of `width` bytes at this offset.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Address behind its family (sections 8.1 and 8.3, "NLA AFI"; RFC 1700: 1 is IPv4, 2 is IPv6), and its end.
fn nla(bytes: &[u8], at: usize) -> (Vec<u64>, usize) {
    let family = number(bytes, at, 2);
    assert_eq!(number(bytes, at + 2, 2), 0, "reserved");
    let octets = match family {
        1 => 4,
        2 => 16,
        other => panic!("family {other}"),
    };
    let address = bytes[at + 4..at + 4 + octets].iter().map(|&octet| octet.into());
    (std::iter::once(family).chain(address).collect(), at + 4 + octets)
}

/// Fields of a packet, read by offsets.
pub fn by_offsets(bytes: &[u8]) -> Fields {
    let mut fields = Fields::new();
    for (name, at, width) in [
        ("source port", SOURCE_PORT, 2),
        ("destination port", DESTINATION_PORT, 2),
        ("type", TYPE, 1),
        ("options", OPTIONS, 1),
        ("global source id", GSI, 6),
        ("TSDU length", TSDU_LENGTH, 2),
    ] {
        fields.insert(name, vec![number(bytes, at, width)]);
    }
    // The sum of the whole packet is all ones if its checksum is right; an odd byte is the high one of a pair.
    let pair = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
    let sum: u64 = bytes.chunks(2).map(pair).sum();
    assert_eq!((sum % 0xffff, sum > 0), (0, true), "checksum");
    assert_ne!(number(bytes, CHECKSUM, 2), 0, "a checksum of 0 is none");

    // Fields of each type behind the header: numbers with their offsets and widths, and addresses.
    let mut at = |name, at, width| _ = fields.insert(name, vec![number(bytes, at, width)]);
    let mut addresses = Vec::new();
    let end = match bytes[TYPE] {
        // SPM, section 8.1.
        0x00 => {
            at("SPM's sequence number", 16, 4);
            at("trailing edge", 20, 4);
            at("leading edge", 24, 4);
            let (path, end) = nla(bytes, 28);
            addresses.push(("path", path));
            end
        }
        // POLL, section 14.7.1.
        0x01 => {
            at("POLL's sequence number", 16, 4);
            at("round", 20, 2);
            at("sub-type", 22, 2);
            let (path, end) = nla(bytes, 24);
            addresses.push(("path", path));
            at("back-off interval", end, 4);
            at("random string", end + 4, 4);
            at("bit-mask", end + 8, 4);
            end + 12
        }
        // POLR, section 14.7.2.
        0x02 => {
            at("POLL's sequence number", 16, 4);
            at("round", 20, 2);
            assert_eq!(number(bytes, 22, 2), 0, "reserved");
            24
        }
        // ODATA and RDATA, section 8.2.
        0x04 | 0x05 => {
            at("sequence number", 16, 4);
            at("trailing edge", 20, 4);
            24
        }
        // NAK, N-NAK and NCF, section 8.3.
        0x08..=0x0a => {
            at("requested sequence number", 16, 4);
            let (source, end) = nla(bytes, 20);
            let (group, end) = nla(bytes, end);
            addresses.extend([("source", source), ("group", group)]);
            end
        }
        // SPMR, section 13.6.
        0x0c => HEADER,
        // ACK of PGMCC, as in OpenPGM.
        0x0d => {
            at("newest sequence number", 16, 4);
            at("bitmap", 20, 4);
            24
        }
        other => panic!("type {other}"),
    };
    fields.extend(addresses);
    let end = if fields["options"][0] & EXTENSIONS == 0 { end } else { options(bytes, end, &mut fields) };
    fields.insert("data", bytes[end..].iter().map(|&byte| byte.into()).collect());
    assert_eq!(fields["TSDU length"][0], (bytes.len() - end) as u64);
    fields
}

/// Reads the options from here on into `fields`; returns their end.
fn options(bytes: &[u8], start: usize, fields: &mut Fields) -> usize {
    // OPT_LENGTH, section 9.1: type, length, and the length of all options in two bytes.
    assert_eq!((bytes[start], bytes[start + 1]), (0x00, 4), "OPT_LENGTH comes first");
    let end = start + number(bytes, start + 2, 2) as usize;
    let (mut at, mut is_last, mut significance) = (start + 4, false, Vec::new());
    while !is_last {
        // Section 9: E in the highest bit of the type; length; reserved, F and OPX; a byte that begins with U.
        is_last = bytes[at] & 0x80 != 0;
        let (kind, len, flags, own) = (bytes[at] & 0x7f, bytes[at + 1], bytes[at + 2], bytes[at + 3]);
        assert_eq!(flags, 0, "nothing is encoded, and who does not know the option may ignore it");
        let is_flag = matches!(kind, 0x08 | 0x0f);
        assert!(is_flag || own == 0, "reserved in option {kind:#x}");
        let words = |count: usize| (0..count).map(|word| number(bytes, at + 4 + 4 * word, 4)).collect();
        let (name, value, expected, significant): (_, Vec<u64>, usize, bool) = match kind {
            0x01 => ("OPT_FRAGMENT: first, offset, length", words(3), 16, false), // 9.2, by its figure
            0x02 => {
                let count = usize::from(len) / 4 - 1; // 9.3: the header's number is not among them
                ("OPT_NAK_LIST", words(count), 4 + 4 * count, true)
            }
            0x03 => ("OPT_JOIN: minimum", words(1), 8, false), // 9.4
            0x04 => ("OPT_NAK_BO_IVL: interval, POLL", words(2), 12, true), // 15.4.1
            0x05 => ("OPT_NAK_BO_RNG: maximum, minimum", words(2), 12, true), // 15.4.2
            0x07 => {
                let (address, end) = nla(bytes, at + 4); // 9.5, by its figure
                ("OPT_REDIRECT", address, end - at, true)
            }
            0x08 => {
                let size = number(bytes, at + 4, 4); // 11.8.1
                ("OPT_PARITY_PRM: flags, group size", vec![own.into(), size], 8, true)
            }
            0x09 => ("OPT_PARITY_GRP", words(1), 8, false), // 11.8.2
            0x0b => ("OPT_NBR_UNREACH", Vec::new(), 4, true), // 15.4.3
            0x0c => {
                // 15.4.4: no family before the address.
                let address = bytes[at + 4..at + usize::from(len)].iter().map(|&octet| octet.into());
                ("OPT_PATH_NLA", address.collect(), if len == 8 { 8 } else { 20 }, true)
            }
            0x0d => ("OPT_SYN", Vec::new(), 4, false),       // 9.6
            0x0e => ("OPT_FIN", Vec::new(), 4, false),       // 9.7
            0x0f => ("OPT_RST", vec![own.into()], 4, false), // 9.8: U, N, and an error code of 6 bits
            // Options of PGMCC, as in OpenPGM.
            0x12 => {
                let (address, end) = nla(bytes, at + 8);
                fields.insert("OPT_PGMCC_DATA: acker", address);
                ("OPT_PGMCC_DATA: timestamp", words(1), end - at, false)
            }
            0x13 => {
                let family = number(bytes, at + 8, 2);
                let octets = if family == 1 { 4 } else { 16 };
                let address = bytes[at + 12..at + 12 + octets].iter().map(|&octet| octet.into());
                fields
                    .insert("OPT_PGMCC_FEEDBACK: receiver", std::iter::once(family).chain(address).collect());
                let value = vec![number(bytes, at + 4, 4), number(bytes, at + 10, 2)];
                ("OPT_PGMCC_FEEDBACK: timestamp, loss", value, 12 + octets, false)
            }
            other => panic!("option {other:#x}"),
        };
        assert_eq!(usize::from(len), expected, "length of {name}");
        assert_eq!(fields.insert(name, value), None, "{name} is there once");
        significance.push(significant);
        at += usize::from(len);
    }
    assert_eq!(at, end, "the last option ends where OPT_LENGTH says");
    assert!(
        significance.is_sorted_by_key(|significant| !significant),
        "what network elements read comes first"
    );
    let flags = EXTENSIONS | if significance[0] { NETWORK_SIGNIFICANT } else { 0 };
    assert_eq!(fields["options"][0] & !(PARITY | VARIABLE), flags);
    end
}

/// Fields of a packet, from the crate's types.
pub fn by_types(packet: &Packet<'_>) -> Fields {
    let mut fields = Fields::new();
    let mut put = |name, value: &[u32]| _ = fields.insert(name, value.iter().map(|&n| n.into()).collect());
    let mut addresses = Vec::new();
    let (kind, upstream, data): (u32, bool, &[u8]) = match packet.body {
        Body::Spm(spm) => {
            put("SPM's sequence number", &[spm.sqn]);
            put("trailing edge", &[spm.trail]);
            put("leading edge", &[spm.lead]);
            addresses.push(("path", spm.path));
            (0x00, false, &[])
        }
        Body::Poll(poll) => {
            put("POLL's sequence number", &[poll.sqn]);
            put("round", &[poll.round.into()]);
            put("sub-type", &[poll.subtype.into()]);
            addresses.push(("path", poll.path));
            put("back-off interval", &[poll.back_off_us]);
            put("random string", &[poll.random]);
            put("bit-mask", &[poll.mask]);
            (0x01, false, &[])
        }
        Body::Polr { sqn, round } => {
            put("POLL's sequence number", &[sqn]);
            put("round", &[round.into()]);
            (0x02, true, &[])
        }
        Body::Odata(data) | Body::Rdata(data) => {
            put("sequence number", &[data.sqn]);
            put("trailing edge", &[data.trail]);
            (if matches!(packet.body, Body::Odata(_)) { 0x04 } else { 0x05 }, false, data.payload)
        }
        Body::Nak(nak) | Body::Nnak(nak) | Body::Ncf(nak) => {
            put("requested sequence number", &[nak.sqn]);
            addresses.extend([("source", nak.source), ("group", nak.group)]);
            match packet.body {
                Body::Nak(_) => (0x08, true, &[]),
                Body::Nnak(_) => (0x09, true, &[]),
                _ => (0x0a, false, &[]),
            }
        }
        Body::Spmr => (0x0c, true, &[]),
        Body::Ack(ack) => {
            put("newest sequence number", &[ack.newest]);
            put("bitmap", &[ack.bitmap]);
            (0x0d, true, &[])
        }
    };
    let options = &packet.options;
    if let Some(Fragment { first, offset, length }) = options.fragment {
        put("OPT_FRAGMENT: first, offset, length", &[first, offset, length]);
    }
    if !options.nak_list.is_empty() {
        put("OPT_NAK_LIST", &options.nak_list.iter().collect::<Vec<_>>());
    }
    if let Some(minimum) = options.join {
        put("OPT_JOIN: minimum", &[minimum]);
    }
    if let Some(BackOffInterval { interval_us, poll_sqn }) = options.back_off_interval {
        put("OPT_NAK_BO_IVL: interval, POLL", &[interval_us, poll_sqn]);
    }
    if let Some(BackOffRange { max_us, min_us }) = options.back_off_range {
        put("OPT_NAK_BO_RNG: maximum, minimum", &[max_us, min_us]);
    }
    addresses.extend(options.redirect.map(|address| ("OPT_REDIRECT", address)));
    if let Some(ParityParameters { flags, group_size }) = options.parity_parameters {
        put("OPT_PARITY_PRM: flags, group size", &[flags.into(), group_size]);
    }
    if let Some(group) = options.parity_group {
        put("OPT_PARITY_GRP", &[group]);
    }
    if let Some(AckerElection { timestamp_ms, acker }) = options.election {
        put("OPT_PGMCC_DATA: timestamp", &[timestamp_ms]);
        addresses.push(("OPT_PGMCC_DATA: acker", acker));
    }
    if let Some(LossReport { timestamp_ms, loss, receiver }) = options.report {
        put("OPT_PGMCC_FEEDBACK: timestamp, loss", &[timestamp_ms, loss.into()]);
        addresses.push(("OPT_PGMCC_FEEDBACK: receiver", receiver));
    }
    let words = [
        ("OPT_NBR_UNREACH", options.neighbour_unreachable),
        ("OPT_SYN", options.syn),
        ("OPT_FIN", options.fin),
    ];
    words.into_iter().filter(|(_, is)| *is).for_each(|(name, _)| put(name, &[]));
    if let Some(flags) = options.reset {
        put("OPT_RST", &[flags.into()]);
    }
    let ports = [packet.tsi.port, packet.destination_port];
    // Packets that go upstream are sent from the data-destination port (section 8).
    let [from, to] = if upstream { [ports[1], ports[0]] } else { ports };
    put("source port", &[from.into()]);
    put("destination port", &[to.into()]);
    put("type", &[kind]);
    put("TSDU length", &[data.len() as u32]);
    fields.insert("data", data.iter().map(|&byte| byte.into()).collect());
    fields.insert("global source id", vec![number(&packet.tsi.gsi, 0, 6)]);
    for (name, address) in addresses {
        let family = if address.is_ipv4() { 1 } else { 2 };
        fields.insert(name, std::iter::once(family).chain(octets(address)).collect());
    }
    if let Some(address) = options.path {
        fields.insert("OPT_PATH_NLA", octets(address));
    }
    let has = |name: &str| fields.keys().any(|key| key.starts_with(name));
    let significant =
        ["OPT_NAK", "OPT_REDIRECT", "OPT_PARITY_PRM", "OPT_NBR", "OPT_PATH"].into_iter().any(has);
    let flags = u64::from(has("OPT_")) * EXTENSIONS
        + u64::from(significant) * NETWORK_SIGNIFICANT
        + u64::from(options.variable_length) * VARIABLE
        + u64::from(options.parity) * PARITY;
    fields.insert("options", vec![flags]);
    fields
}

fn octets(address: IpAddr) -> Vec<u64> {
    match address {
        IpAddr::V4(address) => address.octets().map(u64::from).to_vec(),
        IpAddr::V6(address) => address.octets().map(u64::from).to_vec(),
    }
}

/// Line of a golden packet, from its fields.
fn line(fields: &Fields) -> String {
    let field = |name: &str| fields[name][0];
    let address = |name: &str| match fields[name][..] {
        [1, a, b, c, d] => format!("{a}.{b}.{c}.{d}"),
        _ => panic!("{name}: golden packets have IPv4 addresses"),
    };
    let mut line = match field("type") {
        0x00 => format!(
            "spm {} trail {} lead {} path {}",
            field("SPM's sequence number"),
            field("trailing edge"),
            field("leading edge"),
            address("path")
        ),
        0x01 => format!(
            "poll {} round {} type {} path {}",
            field("POLL's sequence number"),
            field("round"),
            field("sub-type"),
            address("path")
        ),
        0x02 => format!("polr {} round {}", field("POLL's sequence number"), field("round")),
        kind @ (0x04 | 0x05) => format!(
            "{} {} trail {} len {}",
            if kind == 0x04 { "odata" } else { "rdata" },
            field("sequence number"),
            field("trailing edge"),
            fields["data"].len()
        ),
        kind @ 0x08..=0x0a => {
            assert_eq!((&*address("source"), &*address("group")), ("10.0.0.3", "239.255.0.1"));
            format!("{} {}", ["nak", "n-nak", "ncf"][kind as usize - 8], field("requested sequence number"))
        }
        0x0d => format!("ack {} map {:08x}", field("newest sequence number"), field("bitmap")),
        _ => "spmr".to_owned(),
    };
    if let Some(list) = fields.get("OPT_NAK_LIST") {
        line += &format!(" list {list:?}");
    }
    if let Some(minimum) = fields.get("OPT_JOIN: minimum") {
        line += &format!(" join {}", minimum[0]);
    }
    if fields.contains_key("OPT_REDIRECT") {
        line += &format!(" redirect {}", address("OPT_REDIRECT"));
    }
    if fields.contains_key("OPT_PGMCC_DATA: acker") {
        let acker = address("OPT_PGMCC_DATA: acker");
        line += &format!(" at {} acker {acker}", field("OPT_PGMCC_DATA: timestamp"));
    }
    if let Some(report) = fields.get("OPT_PGMCC_FEEDBACK: timestamp, loss") {
        let receiver = address("OPT_PGMCC_FEEDBACK: receiver");
        line += &format!(" at {} loss {} of {receiver}", report[0], report[1]);
    }
    let words = [
        ("OPT_NBR_UNREACH", " unreachable"),
        ("OPT_SYN", " syn"),
        ("OPT_FIN", " fin"),
        ("OPT_RST", " reset"),
    ];
    words.into_iter().filter(|(name, _)| fields.contains_key(name)).for_each(|(_, word)| line += word);
    format!("pgm {line}")
}

/// Golden bytes with their lines.
pub fn golden() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |hex: &str| {
        let digits: Vec<u64> = hex.chars().filter_map(|c| c.to_digit(16)).map(u64::from).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    };
    format_tests(&FORMAT).golden.iter().map(|golden| (golden.line, bytes(golden.hex))).collect()
}

/// Packets of all types with all options, each with different numbers; addresses of IPv4 or of IPv6.
pub fn every_field(is_ipv4: bool) -> Vec<Vec<u8>> {
    let address = |last: u8| match is_ipv4 {
        true => IpAddr::from([10, 20, 30, last]),
        false => IpAddr::from([0x2001, 0xdb8, 1, 2, 3, 4, 5, u16::from(last)]),
    };
    let nak = Nak { sqn: 0x0102_0304, source: address(1), group: address(2) };
    let data = Data { sqn: 0x1112_1314, trail: 0x1516_1718, payload: b"seven b" };
    let poll = Poll {
        sqn: 0x2122_2324,
        round: 0x2526,
        subtype: 0x2728,
        path: address(3),
        back_off_us: 0x292a_2b2c,
        random: 0x2d2e_2f30,
        mask: 0x3132_3334,
    };
    let bodies = [
        Body::Spm(Spm { sqn: 0x4142_4344, trail: 0x4546_4748, lead: 0x494a_4b4c, path: address(4) }),
        Body::Poll(poll),
        Body::Polr { sqn: 0x5152_5354, round: 0x5556 },
        Body::Odata(data),
        Body::Rdata(data),
        Body::Nak(nak),
        Body::Nnak(nak),
        Body::Ncf(nak),
        Body::Spmr,
        Body::Ack(Ack { newest: 0xe1e2_e3e4, bitmap: 0xe5e6_e7e8 }),
    ];
    let list = NakList::from_bytes(&[0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68]).expect("two numbers");
    let none = Options::default();
    let each = [
        none,
        Options {
            fragment: Some(Fragment { first: 0x7172_7374, offset: 0x7576_7778, length: 0x797a_7b7c }),
            ..none
        },
        Options { nak_list: list, ..none },
        Options { join: Some(0x8182_8384), ..none },
        Options {
            back_off_interval: Some(BackOffInterval { interval_us: 0x9192_9394, poll_sqn: 0x9596_9798 }),
            ..none
        },
        Options { back_off_range: Some(BackOffRange { max_us: 0xa1a2_a3a4, min_us: 0xa5a6_a7a8 }), ..none },
        Options { redirect: Some(address(5)), ..none },
        Options { parity_parameters: Some(ParityParameters { flags: 3, group_size: 0xb1b2_b3b4 }), ..none },
        Options { parity: true, ..none },
        Options { parity: true, variable_length: true, parity_group: Some(0xd1d2_d3d4), ..none },
        Options { neighbour_unreachable: true, ..none },
        Options { path: Some(address(6)), ..none },
        Options { syn: true, ..none },
        Options { fin: true, ..none },
        Options { reset: Some(0x7f), ..none },
        Options { election: Some(AckerElection { timestamp_ms: 0xf1f2_f3f4, acker: address(7) }), ..none },
        Options {
            report: Some(LossReport { timestamp_ms: 0xf5f6_f7f8, loss: 0xf9fa, receiver: address(8) }),
            ..none
        },
    ];
    let all = each.iter().fold(none, |all, one| Options {
        nak_list: if one.nak_list.is_empty() { all.nak_list } else { one.nak_list },
        back_off_interval: one.back_off_interval.or(all.back_off_interval),
        back_off_range: one.back_off_range.or(all.back_off_range),
        redirect: one.redirect.or(all.redirect),
        parity_parameters: one.parity_parameters.or(all.parity_parameters),
        parity: one.parity || all.parity,
        variable_length: one.variable_length || all.variable_length,
        parity_group: one.parity_group.or(all.parity_group),
        neighbour_unreachable: one.neighbour_unreachable || all.neighbour_unreachable,
        path: one.path.or(all.path),
        fragment: one.fragment.or(all.fragment),
        join: one.join.or(all.join),
        syn: one.syn || all.syn,
        fin: one.fin || all.fin,
        reset: one.reset.or(all.reset),
        election: one.election.or(all.election),
        report: one.report.or(all.report),
    });
    let tsi = Tsi { gsi: [0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6], port: 0xc7c8 };
    let mut packets = Vec::new();
    for body in bodies {
        for options in each.into_iter().chain([all]) {
            let packet = Packet { tsi, destination_port: 0x0d2d, body, options };
            let mut bytes = Vec::new();
            packet.emit(&mut bytes);
            assert_eq!(by_offsets(&bytes), by_types(&packet), "{packet}");
            packets.push(bytes);
        }
    }
    packets
}

#[test]
fn the_golden_bytes_say_what_their_lines_say() {
    let golden = golden();
    assert_eq!(golden.len(), 10, "one of each type");
    for (expected, bytes) in golden {
        let fields = by_offsets(&bytes);
        assert_eq!(line(&fields), expected);
        // "CL" and association 7 name the source; its port is 20000 above that.
        assert_eq!(fields["global source id"], [0x434c_0000_0007], "{expected}");
        let ports = [fields["source port"][0], fields["destination port"][0]];
        let upstream = matches!(fields["type"][0], 0x02 | 0x08 | 0x09 | 0x0c | 0x0d);
        assert_eq!(ports, if upstream { [7500, 20_007] } else { [20_007, 7500] }, "{expected}");
        let packet = Packet::parse(&bytes).unwrap_or_else(|error| panic!("{expected}: {error}"));
        assert_eq!(by_types(&packet), fields, "{expected}");
    }
}

#[test]
fn what_is_emitted_stands_where_the_rfc_has_it() {
    for is_ipv4 in [true, false] {
        for bytes in every_field(is_ipv4) {
            let packet = Packet::parse(&bytes).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(by_types(&packet), by_offsets(&bytes), "{packet}");
        }
    }
}
