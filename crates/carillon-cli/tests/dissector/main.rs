//! The Lua dissector (`packaging/wireshark/carillon.lua`) compared with the decoders of the crates: every packet of
//! real captures, every kind of packet, and invalid bytes. Skipped without tshark.

mod packets;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use carillon_testkit::{format_tests, is_long_tier, skip};

use crate::delivery::support::{CARILLON, Place, need_multicast};
use packets::{edges, every_session_packet, fuzzed, golden, hex, mutated, random_bytes};
use shown::{Fields, NAMES, shown};

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/carillon.lua");

fn tshark() -> Command {
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{DISSECTOR}"));
    // Members use any free port, and tshark assigns some of these to other programs.
    command.args(["-o", "udp.try_heuristic_first:TRUE"]);
    command
}

/// Returns true if tshark with Lua is installed. Prints a notice if not.
fn has_tshark() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let version = Command::new("tshark").arg("--version").output();
        version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("with Lua"))
    });
    if !found {
        skip("there is no tshark with Lua (make check-dissectors installs one as root)");
    }
    *found
}

/// A packet as tshark shows it.
struct Packet {
    payload: Vec<u8>,
    fields: Fields,
    /// Names of the expert messages about the packet.
    experts: Vec<String>,
    info: String,
}

impl Packet {
    fn is_refused(&self) -> bool {
        self.experts
            .iter()
            .any(|expert| ["carillon.malformed", "carillon.unknown"].contains(&expert.as_str()))
    }
}

/// Runs tshark with the dissector over a capture. Returns every packet.
fn dissected(capture: &Path) -> Vec<Packet> {
    const EXPERTS: &[&str] =
        &["carillon.malformed", "carillon.unknown", "carillon.cut", "carillon.broken", "_ws.malformed"];
    let mut command = tshark();
    command.arg("-r").arg(capture).args(["-T", "fields", "-E", "aggregator=\u{1e}"]);
    let names = ["udp.payload", "_ws.col.Info", "frame.protocols"].iter().chain(EXPERTS).chain(NAMES);
    names.for_each(|name| _ = command.args(["-e", name]));
    let output = command.output().expect("tshark runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            assert_eq!(columns.len(), 3 + EXPERTS.len() + NAMES.len(), "{line:?}");
            let experts = EXPERTS.iter().zip(&columns[3..]).filter(|(_, shown)| !shown.is_empty());
            let fields =
                NAMES.iter().zip(&columns[3 + EXPERTS.len()..]).filter(|(_, shown)| !shown.is_empty());
            let payload = bytes(columns[0]);
            if !columns[2].ends_with(":carillon") {
                // A packet without our first byte may look like one of another program.
                assert!(payload.first() != Some(&MAGIC), "{line:?}");
                return None;
            }
            Some(Packet {
                payload,
                fields: fields
                    .map(|(name, shown)| (*name, shown.split('\u{1e}').map(ToOwned::to_owned).collect()))
                    .collect(),
                experts: experts.map(|(name, _)| (*name).to_owned()).collect(),
                info: columns[1].to_owned(),
            })
        })
        .collect()
}

/// First byte of every packet of the session and its protocols, in all releases.
const MAGIC: u8 = 0xCA;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|&byte| byte != b':').collect();
    let pairs = digits.chunks_exact(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}

/// Checks that tshark shows the values that the crate decodes. Returns the kinds of packets in the capture.
fn compare(capture: &Path, wants_all: bool) -> Vec<String> {
    let packets = dissected(capture);
    let mut kinds = Vec::new();
    for packet in &packets {
        let of = || format!("{:?}: {}", packet.info, hex(&packet.payload));
        let said = |expert: &str| packet.experts.iter().any(|name| name == expert);
        // A packet that our dissector calls malformed has both names. The general name alone is an error inside the
        // dissector.
        let fell = said("_ws.malformed") && !said("carillon.malformed");
        assert!(!fell && !said("carillon.broken"), "{}", of());
        let expected = match shown(&packet.payload) {
            // Packets of the first version and of other protocols are decoded up to the envelope.
            None => {
                assert!(!wants_all || !packet.is_refused(), "{}", of());
                continue;
            }
            Some(Err(error)) => {
                assert!(packet.is_refused(), "{error}, and tshark takes it: {}", of());
                assert!(!wants_all, "{}", of());
                continue;
            }
            Some(Ok(expected)) => expected,
        };
        assert!(packet.experts.is_empty(), "the crate takes it, and {:?}: {}", packet.experts, of());
        for name in NAMES {
            let (there, wanted) = (packet.fields.get(name), expected.get(name));
            let equal = match (there, wanted) {
                (Some(there), Some(wanted)) => {
                    there.len() == wanted.len()
                        && there.iter().zip(wanted).all(|(one, other)| same(one, other))
                }
                (there, wanted) => there.is_none() && wanted.is_none(),
            };
            assert!(equal, "{name} is {there:?}, and should be {wanted:?}: {}", of());
        }
        let kind: Vec<&str> = packet.info.split(' ').take(2).collect();
        kinds.push(kind.join(" "));
    }
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Returns true if two texts are equal, or equal numbers in different bases.
fn same(one: &str, other: &str) -> bool {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    one == other || number(one).is_some_and(|number_of| Some(number_of) == number(other))
}

/// Writes a capture with these payloads, from one port of one machine to the group's port.
fn written(place: &Place, packets: &[Vec<u8>]) -> PathBuf {
    written_between(place, packets, [40_000, 7654])
}

fn written_between(place: &Place, packets: &[Vec<u8>], ports: [u16; 2]) -> PathBuf {
    // Header of the pcap format: magic number, version 2.4, no offset, no accuracy, whole packets, raw IP as link
    // type.
    let words = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, 101_u32];
    let mut capture: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    for packet in packets {
        let (udp, ip) = (8 + packet.len() as u16, 28 + packet.len() as u16);
        for word in [0, 0, ip.into(), u32::from(ip)] {
            capture.extend_from_slice(&word.to_be_bytes());
        }
        capture.extend_from_slice(&[0x45, 0, (ip >> 8) as u8, ip as u8, 0, 0, 0, 0, 1, 17, 0, 0]);
        capture.extend_from_slice(&[10, 0, 0, 1, 239, 255, 67, 65]);
        for half in [ports[0], ports[1], udp, 0] {
            capture.extend_from_slice(&half.to_be_bytes());
        }
        capture.extend_from_slice(packet);
    }
    let path = place.path("written.pcap");
    fs::write(&path, capture).expect("a capture");
    path
}

/// Every kind of packet is shown with the values that the crate decodes.
#[test]
fn every_packet_kind_shows_the_decoded_values() {
    if !has_tshark() {
        return;
    }
    let place = Place::new();
    let packets: Vec<Vec<u8>> = every_session_packet()
        .into_iter()
        .chain(golden())
        .chain(fuzzed(if is_long_tier() { 3000 } else { 400 }))
        .collect();
    let kinds = compare(&written(&place, &packets), true);
    assert_eq!(kinds.len(), 22 + 5 + 3, "{kinds:?}");
}

/// Packets that the crate refuses are shown as malformed, and cause no error inside the dissector.
#[test]
fn refused_packets_are_shown_as_malformed() {
    if !has_tshark() {
        return;
    }
    let place = Place::new();
    let good: Vec<Vec<u8>> = every_session_packet().into_iter().chain(golden()).chain(fuzzed(300)).collect();
    let mut packets = mutated(&good, if is_long_tier() { 20_000 } else { 300 });
    // Each packet is truncated at every length.
    for packet in good.iter().filter(|packet| packet.len() < 200).take(if is_long_tier() { 120 } else { 6 }) {
        packets.extend((1..packet.len()).map(|len| packet[..len].to_owned()));
    }
    packets.extend(random_bytes(if is_long_tier() { 5000 } else { 250 }));
    packets.extend(edges());
    compare(&written(&place, &packets), false);
}

#[test]
fn packets_between_ports_of_other_programs_are_understood() {
    if !has_tshark() {
        return;
    }
    let place = Place::new();
    // Ports of Quake III, VXLAN and BACnet.
    for port in [27_960, 4789, 47_808].into_iter().take(if is_long_tier() { 3 } else { 1 }) {
        let kinds = compare(&written_between(&place, &every_session_packet(), [port, 40_000]), true);
        assert!(kinds.len() >= 15, "{port}: {kinds:?}");
    }
}

#[test]
fn every_packet_of_real_transfers_is_understood() {
    need_multicast!();
    if !has_tshark() {
        return;
    }
    for (protocol, kinds) in [
        ("carillon", &["carillon DATA", "carillon POLL", "carillon STATUS"][..]),
        ("rra", &["rra ACK", "rra DATA"]),
        ("rmtp", &[]),
    ]
    .into_iter()
    .take(if is_long_tier() { 3 } else { 1 })
    {
        let place = Place::new();
        let file = place.file("f", 600_000);
        let trace = place.path("trace.pcapng");
        let receivers = [("a", "--drop 0.1 --seed 5"), ("b", "--drop 0.1 --seed 6")];
        let receivers = receivers.map(|(name, drop)| place.recv(name).args(drop).start());
        let sender = place.send("s").arg(file).arg("--trace").arg(&trace);
        sender.args("--receivers 2 --datagram 1472 --protocol").arg(protocol).run().expect(0);
        for receiver in receivers {
            receiver.end().expect(0);
        }
        let found = compare(&trace, true);
        let session = ["INVITE", "JOIN", "REPORT", "REPORT_ACK", "WELCOME"];
        let session = session.iter().map(|kind| format!("Session {kind}"));
        for kind in kinds.iter().map(ToString::to_string).chain(session) {
            assert!(found.contains(&kind), "{protocol}: no {kind} in {found:?}");
        }
    }
}

#[test]
fn every_packet_of_simulated_runs_is_understood() {
    if !has_tshark() {
        return;
    }
    let place = Place::new();
    let plan = place.path("plan.toml");
    for (protocol, more, kinds) in [
        ("carillon", "", &["carillon DATA", "carillon POLL", "carillon STATUS", "carillon XOR"][..]),
        // Enough losses that the sender sends repair symbols.
        ("carillon", "", &["carillon REPAIR"]),
        ("rra", "", &["rra ACK", "rra DATA"]),
    ]
    .into_iter()
    .take(if is_long_tier() { 3 } else { 1 })
    {
        let receivers = if kinds.contains(&"carillon REPAIR") { 60 } else { 3 };
        let text = format!(
            "name = \"dissected\"\n[network]\nkind = \"lan\"\n[loss]\nmodel = \"bernoulli\"\np = 0.1\n[group]\n\
             receivers = {receivers}\n[protocol]\nname = \"{protocol}\"\n{more}[workload]\nmessages = 300\n\
             payload_bytes = 1000\n[run]\ntime_limit = \"600 s\"\nunfinished = \"keep\"\n"
        );
        fs::write(&plan, text).expect("a plan");
        let trace = place.path("run.pcapng");
        let _ = fs::remove_file(&trace);
        let mut run = Command::new(CARILLON);
        run.arg("run").arg(&plan).arg("--trace").arg(&trace).current_dir(place.path(""));
        let output = run.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found = compare(&trace, true);
        for kind in kinds {
            assert!(found.iter().any(|found| found == kind), "{protocol}: no {kind} in {found:?}");
        }
    }
}

#[test]
fn every_protocol_in_the_envelope_is_called_by_its_name() {
    if !has_tshark() {
        return;
    }
    // Protocols with published formats (XTP, PGM) have dissectors of their own.
    let formats: Vec<_> = carillon_proto::REGISTRY.iter().map(|entry| entry.packets.format).collect();
    let packets: Vec<(String, Vec<u8>)> = formats
        .iter()
        .filter_map(|format| {
            Some((
                format.name.replace('_', "-"),
                bytes(&format_tests(format).golden.first()?.hex.replace(' ', "")),
            ))
        })
        .filter(|(_, packet)| packet.starts_with(&[0xca, 1]))
        .collect();
    let place = Place::new();
    let payloads: Vec<Vec<u8>> = packets.iter().map(|(_, packet)| packet.clone()).collect();
    let shown = dissected(&written(&place, &payloads));
    assert!(shown.len() == packets.len() && shown.len() > 10, "{}", shown.len());
    for ((name, _), packet) in packets.iter().zip(shown) {
        assert!(packet.info.starts_with(&format!("{name} ")), "{name}: {:?}", packet.info);
    }
}

#[test]
fn sealed_datagrams_are_shown_from_outside() {
    if !has_tshark() {
        return;
    }
    let place = Place::new();
    // The format is in docs/reference/seal-and-signature.md.
    let sealed = [
        "5e10636172696c6c6f6e73616c7400000000000000019b3d310f23f0c12ddc7baf640d86c2236b66d12ebb53e4634282ca50",
        "5e11636172696c6c6f6e73616c7400000000000000027dd00744d8bb56046d08df402a873150",
    ];
    let packets = dissected(&written(&place, &sealed.map(bytes)));
    let infos: Vec<&str> = packets.iter().map(|packet| packet.info.as_str()).collect();
    assert_eq!(infos, ["Sealed to the group counter 1, 12 bytes", "Sealed to one counter 2, 0 bytes"]);
    assert!(packets.iter().all(|packet| packet.experts.is_empty()));
}
