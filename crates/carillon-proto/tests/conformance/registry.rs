//! Consistency of every entry of the registry.

#![expect(clippy::disallowed_methods, reason = "it reads the sources")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use carillon_core::{ANY_STATE, NetworkKind, PSEUDO_STATE, Role, Seeds};
use carillon_proto::REGISTRY;
use carillon_testkit::fuzz::wire;
use carillon_testkit::{
    DeliveryGuarantee, FORMATS, PROTOCOLS, Trial, TrialNetwork, format_tests, protocol_tests,
};
use carillon_wire::Envelope;

fn source(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src/protocols", path].iter().collect()
}

#[test]
fn every_folder_of_protocols_is_in_the_registry() {
    let registry = std::fs::read_to_string(source("mod.rs")).expect("the registry can be read");
    for folder in std::fs::read_dir(source("")).expect("there are protocols") {
        let folder =
            folder.expect("folders can be listed").file_name().into_string().expect("a name of letters");
        if folder != "mod.rs" {
            let entry = format!("&{folder}::ENTRY,");
            assert!(registry.contains(&entry), "{folder} is not in the registry: it has no line {entry}");
        }
    }
}

#[test]
fn protocol_names_are_unique() {
    let names: BTreeSet<_> = REGISTRY.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), REGISTRY.len());
}

#[test]
fn guarantees_match_roles_and_networks() {
    for entry in REGISTRY {
        let has = |role| entry.roles.contains(&role);
        assert!(has(Role::Peer) || has(Role::Sender) && has(Role::Receiver), "{}: its roles", entry.name);
        let guarantee = protocol_tests(entry).guarantee;
        let confirmed =
            matches!(guarantee, DeliveryGuarantee::Acknowledged { .. } | DeliveryGuarantee::Peers { .. });
        assert_eq!(entry.delivery.confirmed, confirmed, "{}: confirmed", entry.name);
        let best_effort = matches!(guarantee, DeliveryGuarantee::BestEffort);
        assert_eq!(entry.delivery.repairs, !best_effort, "{}: repairs", entry.name);
        match guarantee {
            DeliveryGuarantee::Acknowledged { .. } | DeliveryGuarantee::BestEffort => {
                assert!(!has(Role::Peer), "{}", entry.name)
            }
            DeliveryGuarantee::Peers { .. } => assert_eq!(entry.roles, [Role::Peer], "{}", entry.name),
            DeliveryGuarantee::ByRequest { .. } => {
                assert!(entry.networks.contains(&NetworkKind::Graph), "{}: its networks", entry.name);
            }
        }
        assert!(
            !entry.about.summary.is_empty() && !entry.about.reference.is_empty(),
            "{}: what it is",
            entry.name
        );
    }
}

#[test]
fn trials_draw_settings_that_the_protocol_takes() {
    for entry in REGISTRY {
        for seed in 0..200 {
            let mut rng = Seeds::new(seed).stream("trial");
            let grounds =
                [TrialNetwork::Links, TrialNetwork::Ethernet, TrialNetwork::Routed, TrialNetwork::Loopback];
            let network = grounds[rng.below(4) as usize];
            let mut trial = Trial::new(entry.parameters, network, 2 + seed as u32 % 7, &mut rng);
            trial.is_lossy = seed % 2 == 0;
            trial.max_attempts = (seed % 3 == 0).then_some(3);
            // Panics if the protocol refuses the settings.
            (protocol_tests(entry).trial)(&mut trial);
            trial.into_config();
        }
    }
}

/// The testkit has the knowledge of the suites about each protocol and format, by name.
#[test]
fn no_entry_is_missing_in_the_tables_of_the_suites() {
    let known: BTreeSet<&str> = PROTOCOLS.iter().map(|tests| tests.name).collect();
    assert_eq!(known.len(), PROTOCOLS.len(), "a name is there twice");
    for entry in super::known() {
        assert!(
            known.contains(entry.name),
            "{} has no line in crates/carillon-testkit/src/protocols",
            entry.name
        );
        // Panics if the table does not have the format.
        format_tests(entry.packets.format);
    }
    let names: BTreeSet<&str> = super::known().iter().map(|entry| entry.name).collect();
    assert_eq!(known.difference(&names).collect::<Vec<_>>(), [&""; 0], "these are in no registry");
}

#[test]
fn formats_list_the_kinds_of_their_golden_packets() {
    for tests in FORMATS {
        assert_eq!(tests.format.kinds_by_name(), tests.golden_kinds(), "{}", tests.format.name);
    }
}

#[test]
fn golden_packets_are_unchanged() {
    for entry in REGISTRY {
        let name = entry.packets.format.name;
        assert!(!format_tests(entry.packets.format).golden.is_empty(), "{name} has no golden bytes");
        for golden in format_tests(entry.packets.format).golden {
            let bytes = wire::hex(golden.hex);
            let reading = (entry.packets.format.read)(&bytes)
                .unwrap_or_else(|error| panic!("{name}, {}: {error}", golden.line));
            assert_eq!(reading.line, golden.line, "{name}");
            assert_eq!(reading.bytes, bytes, "{name}, {}", golden.line);
            for len in 0..bytes.len() {
                wire::format(entry.packets.format, &bytes[..len]);
            }
        }
    }
}

#[test]
fn every_fuzzed_packet_type_has_golden_bytes() {
    for entry in REGISTRY {
        // Format and packet name; some lines have the view between them.
        let is_name = |word: &&str| *word != "view" && !word.starts_with(|c: char| c.is_ascii_digit());
        let words = |line: &str| line.split(' ').filter(is_name).take(2).collect::<Vec<_>>().join(" ");
        // With the envelope's type, since packets of two types may share a name.
        let kind = |line: &str, bytes: &[u8]| match Envelope::parse(bytes) {
            Ok((envelope, _)) => format!("{} {:#04x}", words(line), envelope.packet_type),
            Err(_) => words(line),
        };
        let golden = format_tests(entry.packets.format)
            .golden
            .iter()
            .map(|golden| kind(golden.line, &wire::hex(golden.hex)));
        let golden: BTreeSet<_> = golden.collect();
        let mut rng = Seeds::new(1).stream(entry.packets.format.name);
        let mut made = BTreeSet::new();
        for _ in 0..5_000 {
            let mut bytes = [0; 64];
            rng.fill(&mut bytes);
            let mut packet = Vec::new();
            let session = carillon_core::AssociationId(7);
            (format_tests(entry.packets.format).fuzzed)(
                &mut carillon_testkit::fuzz::Input::new(&bytes),
                session,
                &mut packet,
            );
            wire::format(entry.packets.format, &packet);
            if let Ok(reading) = (entry.packets.format.read)(&packet) {
                made.insert(kind(&reading.line, &packet));
            }
        }
        assert_eq!(
            golden, made,
            "{}: golden bytes on the left, made on the right",
            entry.packets.format.name
        );
    }
}

#[test]
fn states_have_an_entry_and_an_exit() {
    for entry in REGISTRY {
        for states in entry.study.states {
            let has = |from: &str| states.transitions.iter().any(|transition| transition.0 == from);
            assert!(has(PSEUDO_STATE), "{}, {}: where does it begin?", entry.name, states.of);
            for (_, to, _) in states.transitions {
                assert!(
                    *to == PSEUDO_STATE || has(to) || has(ANY_STATE),
                    "{}, {}: {to} cannot be left",
                    entry.name,
                    states.of
                );
            }
        }
    }
}
