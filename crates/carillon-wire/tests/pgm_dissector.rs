//! PGM packets as an independent dissector reads them: the golden bytes, and every field that the crate emits.

#![expect(clippy::disallowed_methods, reason = "tshark reads a file")]

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use carillon_testkit::skip;

use crate::pgm_offsets::{by_offsets, every_field, golden};

/// The dissector's field names, the field of the RFC, and the index of its value in the output.
const FIELDS: &[(&str, &str, usize)] = &[
    ("pgm.hdr.sport", "source port", 0),
    ("pgm.hdr.dport", "destination port", 0),
    ("pgm.hdr.type", "type", 0),
    ("pgm.hdr.opts", "options", 0),
    ("pgm.hdr.tsdulen", "TSDU length", 0),
    ("pgm.spm.lead", "leading edge", 0),
    ("pgm.spm.trail", "trailing edge", 0),
    ("pgm.nak.sqn", "requested sequence number", 0),
    ("pgm.poll.subtype", "sub-type", 0),
    ("pgm.poll.backoff_ivl", "back-off interval", 0),
    ("pgm.poll.rand_str", "random string", 0),
    ("pgm.poll.matching_bmask", "bit-mask", 0),
    ("pgm.nak.srcafi", "source", 0),
    ("pgm.nak.grpafi", "group", 0),
    ("pgm.opts.join.min_join", "OPT_JOIN: minimum", 0),
    ("pgm.opts.fragment.first_sqn", "OPT_FRAGMENT: first, offset, length", 0),
    ("pgm.opts.fragment.fragment_offset", "OPT_FRAGMENT: first, offset, length", 1),
    ("pgm.opts.fragment.total_length", "OPT_FRAGMENT: first, offset, length", 2),
    ("pgm.opts.nak_bo_ivl.bo_ivl", "OPT_NAK_BO_IVL: interval, POLL", 0),
    ("pgm.opts.nak_bo_ivl.bo_ivl_sqn", "OPT_NAK_BO_IVL: interval, POLL", 1),
    // The dissector swaps the two: section 15.4.2 has the maximum first.
    ("pgm.opts.nak_bo_rng.min_bo_ivl", "OPT_NAK_BO_RNG: maximum, minimum", 0),
    ("pgm.opts.nak_bo_rng.max_bo_ivl", "OPT_NAK_BO_RNG: maximum, minimum", 1),
    ("pgm.opts.parity_prm.op", "OPT_PARITY_PRM: flags, group size", 0),
    ("pgm.opts.parity_prm.prm_grp", "OPT_PARITY_PRM: flags, group size", 1),
    ("pgm.opts.redirect.afi", "OPT_REDIRECT", 0),
];

/// Fields for which the dissector has several names.
const ALIASED_FIELDS: &[(&[&str], &str)] = &[
    (&["pgm.spm.sqn"], "SPM's sequence number"),
    (&["pgm.spm.sqn"], "sequence number"),
    (&["pgm.poll.sqn", "pgm.polr.sqn"], "POLL's sequence number"),
    (&["pgm.poll.round", "pgm.polr.round"], "round"),
];

/// The dissector's names of addresses, without the family at their end.
const ADDRESSES: &[(&[&str], &str)] = &[
    (&["pgm.spm.path", "pgm.poll.path"], "path"),
    (&["pgm.nak.src"], "source"),
    (&["pgm.nak.grp"], "group"),
    (&["pgm.opts.redirect.dlr"], "OPT_REDIRECT"),
];

/// Runs the dissector on a capture and returns these fields, one line for each packet. `None`, with a printed reason,
/// if it is missing or has other names in this version.
pub fn shown(capture: &Path, options: &[&str], names: &[impl AsRef<str>]) -> Option<String> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(capture).args(options).args(["-T", "fields"]);
    names.iter().for_each(|name| _ = tshark.args(["-e", name.as_ref()]));
    let output = match tshark.output() {
        Ok(output) => output,
        Err(error) => {
            skip(format!("there is no tshark ({error}; make check-dissectors installs one as root)"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("fields aren't valid") {
        skip(format!("this tshark has other names: {said}"));
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn tshark_finds_each_field_where_the_rfc_has_it() {
    let mut names: Vec<String> =
        ["_ws.malformed", "pgm.hdr.cksum.status", "pgm.hdr.gsi", "pgm.opts.nak.list"]
            .into_iter()
            .chain(FIELDS.iter().map(|field| field.0))
            .chain(ALIASED_FIELDS.iter().flat_map(|field| field.0.iter().copied()))
            .map(String::from)
            .collect();
    for name in ADDRESSES.iter().flat_map(|field| field.0) {
        names.extend([format!("{name}.ipv4"), format!("{name}.ipv6")]);
    }
    names.sort();
    names.dedup();
    let packets: Vec<Vec<u8>> = golden()
        .into_iter()
        .map(|(_, bytes)| bytes)
        .chain(every_field(true))
        .chain(every_field(false))
        // It has no name for SPMR.
        .filter(|bytes| bytes[4] != 0x0c)
        .collect();
    let path = std::env::temp_dir().join(format!("carillon-wire-pgm-{}.pcap", std::process::id()));
    std::fs::write(&path, capture(&packets, 113)).expect("a capture");
    let text = shown(&path, &["-o", "pgm.check_checksum:TRUE"], &names);
    std::fs::remove_file(&path).expect("it is ours");
    let Some(text) = text else { return };
    assert_eq!(text.lines().count(), packets.len());

    for (line, bytes) in text.lines().zip(&packets) {
        let shown: Vec<&str> = line.split('\t').collect();
        let of = |name: &str| shown[names.iter().position(|known| known == name).expect("it was asked for")];
        let fields = by_offsets(bytes);
        assert_eq!(of("_ws.malformed"), "", "{line:?}");
        assert_eq!(
            of("pgm.hdr.cksum.status").rsplit(',').next(),
            Some("1"),
            "the checksum is good: {line:?}"
        );
        assert_eq!(number(&format!("0x{}", of("pgm.hdr.gsi"))), fields["global source id"][0]);
        // A field that the packet does not have is not shown, and a shown field has the right value.
        for &(name, field, at) in FIELDS {
            // The dissector has the same names for the fields of both options of parity packets.
            if name.starts_with("pgm.opts.parity_prm") && fields.contains_key("OPT_PARITY_GRP") {
                continue;
            }
            let value = fields.get(field).map(|values| values[at]);
            let shown = of(name);
            assert_eq!((!shown.is_empty()).then(|| number(shown)), value, "{name}: {line:?}");
        }
        let seen = |names: &[&str]| names.iter().map(|name| of(name)).find(|shown| !shown.is_empty());
        for &(names, field) in ALIASED_FIELDS {
            if let Some(values) = fields.get(field) {
                assert_eq!(seen(names).map(number), Some(values[0]), "{field}: {line:?}");
            }
        }
        for &(names, field) in ADDRESSES {
            let Some(value) = fields.get(field) else { continue };
            let family = if value[0] == 1 { "ipv4" } else { "ipv6" };
            let names: Vec<String> = names.iter().map(|name| format!("{name}.{family}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let address: IpAddr = seen(&names).expect(field).parse().expect("an address");
            let octets = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            assert_eq!(
                octets.into_iter().map(u64::from).collect::<Vec<_>>(),
                value[1..],
                "{field}: {line:?}"
            );
        }
        // For a list it shows its own text for as many bytes as the list has.
        let list = fields.get("OPT_NAK_LIST").map_or(&[][..], |list| list);
        let text: String = list.iter().map(|number| format!("{number:#x} ")).collect();
        let bytes: String = text.bytes().take(4 * list.len()).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(of("pgm.opts.nak.list"), bytes, "{line:?}");
    }
}

fn number(shown: &str) -> u64 {
    let number = match shown.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => shown.parse(),
    };
    number.unwrap_or_else(|error| panic!("{shown:?}: {error}"))
}

/// Builds a capture of these packets, each in an IP datagram of this protocol.
pub fn capture(packets: &[Vec<u8>], protocol: u8) -> Vec<u8> {
    // Magic, version 2.4, no offset, no accuracy, whole packets, IP datagrams without a link layer.
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, 101_u32] {
        capture.extend_from_slice(&word.to_be_bytes());
    }
    for packet in packets {
        let len = (20 + packet.len()) as u16;
        for word in [0, 0, len.into(), u32::from(len)] {
            capture.extend_from_slice(&word.to_be_bytes());
        }
        capture.extend_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 1, protocol, 0, 0]);
        capture.extend_from_slice(&[10, 0, 0, 1, 239, 255, 0, 1]);
        capture.extend_from_slice(packet);
    }
    capture
}
