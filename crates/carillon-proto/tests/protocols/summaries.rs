//! Summaries of the golden packets, which viewers draw.

use std::collections::BTreeMap;

use carillon_core::{Format, PacketKind};
use carillon_proto::REGISTRY;
use carillon_testkit::{Golden, format_tests};

fn golden_packets(format: &Format) -> Vec<Vec<u8>> {
    format_tests(format).golden.iter().map(Golden::bytes).collect()
}

#[test]
fn each_golden_packet_has_a_kind_and_its_name() {
    for entry in REGISTRY {
        let mut kinds = BTreeMap::new();
        for packet in golden_packets(entry.packets.format) {
            let name = entry.packets.format.packet_name(&packet).expect("a golden packet");
            let summary =
                (entry.packets.format.summary)(&packet).unwrap_or_else(|| panic!("{}: {name}", entry.name));
            // The text of this protocol puts the view before the name.
            if name != "view" {
                assert_eq!(summary.name, name, "{}", entry.name);
            }
            let kind = *kinds.entry(summary.name).or_insert(summary.kind);
            assert_eq!(kind, summary.kind, "{}: {name} has two kinds", entry.name);
        }
        assert!(kinds.values().any(|kind| *kind == PacketKind::Data), "{}: {kinds:?}", entry.name);
        assert!((entry.packets.format.summary)(b"no packet").is_none(), "{}", entry.name);
    }
}

#[test]
fn summary_has_the_number_of_the_message() {
    let entry = REGISTRY.iter().find(|entry| entry.name == "pgm").expect("the registry has PGM");
    let numbers: BTreeMap<_, _> = golden_packets(entry.packets.format)
        .iter()
        .filter_map(|packet| (entry.packets.format.summary)(packet))
        .filter_map(|summary| Some((summary.name, (summary.kind.name(), summary.message?.0))))
        .collect();
    let expected = [
        ("odata", ("data", 330_677_748)),
        ("rdata", ("repair", 856_670_747)),
        ("nak", ("request", 1_296_693_561)),
        ("n-nak", ("request", 950_087_978)),
        ("ncf", ("control", 2_827_466_615)),
        ("ack", ("control", 950_087_978)),
    ];
    assert_eq!(numbers, BTreeMap::from(expected));
}
