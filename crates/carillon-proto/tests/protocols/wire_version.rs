//! The golden bytes of each protocol belong to the wire version.

use std::collections::BTreeMap;
use std::path::Path;

use carillon_proto::REGISTRY;
use carillon_testkit::{assert_wire_vectors, format_tests};
use carillon_wire::session::WIRE_VERSION;

#[test]
fn protocol_packets_match_the_wire_version() {
    let mut packets = BTreeMap::new();
    for entry in REGISTRY {
        for golden in format_tests(entry.packets.format).golden {
            let digits: Vec<char> = golden.hex.chars().filter(char::is_ascii_hexdigit).collect();
            let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).expect("two digits");
            packets.insert(format!("{}: {}", entry.name, golden.line), digits.chunks(2).map(byte).collect());
        }
    }
    let named = |name: &str| packets.keys().any(|key| key.starts_with(name));
    assert!(REGISTRY.iter().all(|entry| named(entry.name)), "each protocol has golden packets");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    assert_wire_vectors(&directory, "protocols", WIRE_VERSION, &packets);
}
