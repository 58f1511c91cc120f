//! Fuzz targets: bodies of the testkit, combined with the protocols.
//!
//! This file is also part of the test that replays the corpus, `fuzz_corpus` of `carillon-lab`.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{AssociationId, Duration, GroupId, Helpers, Machine, NodeId, ProtocolEntry, Seeds, Time};
use carillon_lab::command_file::CommandFile;
use carillon_lab::scenario::ScenarioFile;
use carillon_proto::{PLAIN_ONLY, REGISTRY};
use carillon_session::{
    Gather, HelperSelection, MemberRole, ReceiverSession, ReceiverSessionConfig, SenderSession,
    SenderSessionConfig,
};
use carillon_sim::graph::gt_itm;
use carillon_sim::graph::import::Format;
use carillon_testkit::fuzz::{Input, Known, Rules, Subject, bit_rate, drive, machine, settings};
use carillon_testkit::fuzz::{one_line_or_good, packets, wire};
use carillon_testkit::{TREE, format_tests};

/// Function of fuzzed bytes that panics when it finds a fault.
pub type Body = Box<dyn Fn(&[u8])>;

/// Fuzz target.
pub struct Target {
    /// Name of the target and of its folder in `corpus/`.
    pub name: String,
    /// Function to run.
    pub body: Body,
    /// Initial inputs besides the corpus.
    pub seeds: Vec<Vec<u8>>,
}

impl Target {
    fn new(name: impl Into<String>, body: impl Fn(&[u8]) + 'static) -> Self {
        Target { name: name.into(), body: Box::new(body), seeds: Vec::new() }
    }
}

/// Returns every target: formats and machines of the registry, and everything outside of it.
pub fn targets() -> Vec<Target> {
    let mut all = vec![
        Target::new("wire_envelope", wire::envelope),
        Target::new("wire_session", wire::session),
        Target::new("wire_file", wire::file),
        Target::new("wire_fdt", wire::fdt),
        Target::new("pgm_elements", wire::pgm_elements),
        Target::new("machine_session_sender", |bytes| machine_session_sender(bytes, REGISTRY)),
        Target::new("machine_session_receiver", |bytes| machine_session_receiver(bytes, REGISTRY)),
        Target::new("machine_session_sender_helpers", |bytes| machine_session_sender(bytes, HELPED)),
        Target::new("machine_session_receiver_helpers", |bytes| machine_session_receiver(bytes, HELPED)),
        Target::new("scenario", scenario),
        Target::new("command_file", command_file),
        Target::new("gt_itm", gt_itm_file),
        Target::new("topology_file", topology_file),
    ];
    // Protocols with the same format share one target for their machines.
    let mut formats: BTreeMap<&str, Vec<&'static ProtocolEntry>> = BTreeMap::new();
    for &entry in REGISTRY.iter().chain(HELPED).chain(PLAIN_ONLY) {
        formats.entry(entry.packets.format.name).or_default().push(entry);
    }
    for (name, entries) in formats {
        let format = entries[0].packets.format;
        let seeds = format_tests(format).golden.iter().map(|golden| wire::hex(golden.hex)).collect();
        let body = move |bytes: &[u8]| wire::format(format, bytes);
        all.push(Target { seeds, ..Target::new(format!("wire_{name}"), body) });
        for &role in entries[0].roles {
            let entries = entries.clone();
            all.push(Target::new(format!("machine_{name}_{role}"), move |bytes| {
                let mut input = Input::new(bytes);
                machine(input.pick(&entries), role, &mut input);
            }));
        }
    }
    all
}

fn machine_session_sender(bytes: &[u8], entries: &[&'static ProtocolEntry]) {
    let mut input = Input::new(bytes);
    let entry = input.pick(entries);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let mut config = SenderSessionConfig::new(ASSOCIATION, "source", GroupId(0), entry, 100);
    if input.byte() & 1 == 1 {
        config.config = settings(entry.parameters, &mut input);
    }
    config.gather = match input.below(8) {
        0..=3 => Gather::Count(1 + input.below(4)),
        4 => Gather::Count(0),
        5 => Gather::Names(names(&["a", "b"])),
        6 => Gather::Names(names(&["c", ""][..1 + input.below(2)])),
        _ => Gather::Wait(span(&mut input)),
    };
    if entry.helpers != Helpers::None {
        config.helpers.wanted = match input.below(4) {
            0 => HelperSelection::Nobody,
            1 => HelperSelection::Names(names(&["h", "a"])),
            count => HelperSelection::Count(count),
        };
        config.helpers.fanout = (input.byte() & 1 == 1).then(|| input.below(3));
    }
    config.limits.limit = (input.byte() & 3 == 1).then(|| span(&mut input));
    if input.byte() & 3 == 1 {
        config.heartbeat = span(&mut input);
    }
    if input.byte() & 3 == 1 {
        config.member_timeout = span(&mut input);
    }
    config.max_members = input.pick(&[4096, 1, 2, 0]);
    config.max_payload = input.pick(&[100, 8, 0, u32::MAX]);
    config.network.bit_rate = bit_rate(&mut input);
    let window = config.config.iter().find(|(name, _)| *name == "window");
    let window = window.map_or(1, |_| config.config.count("window") as usize);
    let Ok(session) = SenderSession::new(config, Seeds::new(1)) else { return };
    let transmits = if entry.delivery.confirmed { window + 64 } else { LARGE_GROUP };
    let rules = Rules { transmits, deliveries: None, plain: false };
    let known = Known::new(ASSOCIATION, NodeId(2), entry.name);
    let own = packets::own(entry.packets.format);
    let sources: &[packets::Source<'_>] = &[&packets::session, &own, &packets::session, &packets::any];
    drive(&mut SendingSession(session), &rules, known, sources, &mut input);
}

fn machine_session_receiver(bytes: &[u8], entries: &'static [&'static ProtocolEntry]) {
    let mut input = Input::new(bytes);
    let entry = input.pick(entries);
    let mut config = ReceiverSessionConfig::new(input.pick(&["a", "", "b\n"]), GroupId(0), entries);
    let flags = input.byte();
    config.part = match (flags & 8 == 8, flags & 16 == 16) {
        (true, true) => MemberRole::ReceivesAndHelps,
        (true, false) if entry.helpers != Helpers::None => MemberRole::Helps,
        _ => MemberRole::Receives,
    };
    config.keep_seeking = flags & 1 == 1;
    if flags & 2 == 2 {
        config.silence = span(&mut input);
    }
    if flags & 4 == 4 {
        config.receive_buffer = input.pick(&[100, 0, u32::MAX]);
    }
    config.network.bit_rate = bit_rate(&mut input);
    let rules = Rules {
        transmits: if entry.delivery.confirmed { 8 } else { LARGE_GROUP },
        deliveries: None,
        plain: false,
    };
    let known = Known { settings: SETTINGS, ..Known::new(ASSOCIATION, NodeId(2), entry.name) };
    let own = packets::own(entry.packets.format);
    let sources: &[packets::Source<'_>] = &[&packets::session, &own, &packets::session, &packets::any];
    let session = ReceiverSession::new(config, Seeds::new(1));
    drive(&mut ReceivingSession(session), &rules, known, sources, &mut input);
}

fn scenario(bytes: &[u8]) {
    if has_many_points(bytes) {
        return;
    }
    one_line_or_good(bytes, |text| ScenarioFile::parse("fuzz.toml", text).map(drop));
}

fn command_file(bytes: &[u8]) {
    if has_many_points(bytes) {
        return;
    }
    one_line_or_good(bytes, |text| CommandFile::parse("fuzz.cmd", text).map(drop));
}

fn gt_itm_file(bytes: &[u8]) {
    one_line_or_good(bytes, |text| gt_itm::parse(text).map(drop));
}

/// The first byte selects the format.
fn topology_file(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let formats = [Format::GraphMl, Format::Gml, Format::Brite, Format::Intra, Format::Cch];
    let format = formats[usize::from(first) % formats.len()];
    one_line_or_good(bytes, |text| format.parse(text, Duration::from_millis(10)).map(drop));
}

/// Returns true if a range may have thousands of points. All points are resolved alike, so large ranges take time and
/// show nothing new. Millions of points are refused and therefore stay in.
fn has_many_points(bytes: &[u8]) -> bool {
    let of_range =
        |line: &&[u8]| [&b"step"[..], b"END"].iter().any(|word| line.windows(word.len()).any(|w| w == *word));
    let long = |run: &[u8]| (4..=6).contains(&run.len());
    let lines = bytes.split(|byte| *byte == b'\n').filter(of_range);
    lines.flat_map(|line| line.split(|byte| !byte.is_ascii_digit())).any(long)
}

struct SendingSession(SenderSession);

impl Subject for SendingSession {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.0
    }

    fn act(&mut self, now: Time, input: &mut Input<'_>) {
        match input.below(4) {
            0 => self.0.abort(now, "no \n more"),
            _ => {
                let members = self.0.members().len();
                assert!(members <= 4096, "{members} members are too many");
                let _ = (self.0.phase(), self.0.missing(), self.0.failure().map(str::len));
            }
        }
    }
}

struct ReceivingSession(ReceiverSession);

impl Subject for ReceivingSession {
    fn machine(&mut self) -> &mut dyn Machine {
        &mut self.0
    }

    fn act(&mut self, now: Time, input: &mut Input<'_>) {
        match input.below(8) {
            0 => self.0.report(now, 100, Ok(())),
            1 => self.0.report(now, 100, Err("disk\nfull".to_owned())),
            2 => self.0.leave(now, "tired"),
            3..=5 => self.0.progress(u64::from(input.byte())),
            _ => {
                let _ = (self.0.phase(), self.0.member_number(), self.0.report_acknowledged());
                assert_eq!(self.0.sender_name().is_some(), self.0.association().is_some());
            }
        }
    }
}

fn span(input: &mut Input<'_>) -> Duration {
    Duration::from_nanos(input.pick(&[0, 1, 1000, 1_000_000, 20_000_000, 1_000_000_000, 1 << 60]))
}

const ASSOCIATION: AssociationId = AssociationId(7);

/// Protocols with helpers outside of the registry.
const HELPED: &[&ProtocolEntry] = &[&TREE];

/// Bound on the datagrams of one drain, more than a machine without a window sends at once.
const LARGE_GROUP: usize = 100_000;

/// Settings as in invitations.
const SETTINGS: &[&str] = &[
    "window=3",
    "window=32768\nack_timer=until-full-window",
    "window=2\nack_timeout=1 ns",
    "ack_timeout=0 bit",
    "ack_wait=1 ms\nack_bytes=0",
    "ack_wait=2000000 h",
    "ack_wait=1000000000000000000 bit",
    "timeout_method=constant\ntimeout=0 bit",
    "timeout_method=adaptive\ntimeout_min=2 s\ntimeout_max=1 s",
    "no_such=1",
];
