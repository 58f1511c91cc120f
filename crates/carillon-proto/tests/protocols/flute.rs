//! FLUTE with another implementation, the crate `flute` (1.11.7), in both directions.
//!
//! Every packet passes through a loss of 0, 1 or 5 %. Files of 0 bytes to 10 MB must arrive with their names. Each
//! seed draws code, version, compression and lengths. `CARILLON_LONG` tries 100 seeds instead of a few, and a file of
//! 10 MB in each direction.

#![expect(clippy::disallowed_types, reason = "the other implementation asks for the time of day")]

use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carillon_core::{
    AssociationId, BitRate, BuildContext, Bytes, Config, Dest, GroupId, Host, Machine, NodeId,
    NumberedAddresses, PortId, Received, Rng, Scope, Seeds, Time, Transmit, drain,
};
use carillon_proto::plain::{NamedFile, PlainLimits, PlainNews, PlainReceiver};
use carillon_proto::protocols::flute::ENTRY;
use carillon_testkit::{is_long_tier, seeds};
use flute_crate::core::lct::Cenc;
use flute_crate::core::{Oti, UDPEndpoint};
use flute_crate::receiver::MultiReceiver;
use flute_crate::receiver::writer::ObjectWriterBufferBuilder;
use flute_crate::sender::{self, ObjectDesc, Profile, TransferConfig};

/// Files by their names.
type Files = Vec<(String, Bytes)>;

/// Loss in percent.
const LOSSES: [u64; 3] = [0, 1, 5];
const CODES: [&str; 4] = ["no-code", "reed-solomon", "raptorq", "raptor"];
/// Seconds from 1900 to 1970.
const UNIX_EPOCH_SINCE_1900: u64 = 2_208_988_800;
/// Passes with which losses leave nothing behind.
const PASSES: u32 = 6;

/// Draws for one session.
struct Case {
    rng: Rng,
    loss: u64,
    code: &'static str,
    version: u8,
    compressed: bool,
    files: Files,
}

impl Case {
    fn new(seed: u64, loss: u64) -> Case {
        let mut rng = Seeds::new(seed).stream("flute.case");
        let mut lengths = vec![0, 1, 1 + rng.below(2000), 1 + rng.below(60_000)];
        if is_long_tier() {
            lengths.push(1 + rng.below(400_000));
        }
        let files = lengths.into_iter().enumerate().map(|(number, length)| {
            let mut content = vec![0; length as usize];
            rng.fill(&mut content);
            (format!("file:///folder/file-{number}"), content.into())
        });
        let files = files.collect();
        Case {
            loss,
            code: CODES[(seed % 4) as usize],
            version: if seed % 8 < 4 { 2 } else { 1 },
            compressed: seed.is_multiple_of(3),
            files,
            rng,
        }
    }

    fn is_lost(&mut self) -> bool {
        self.rng.below(100) < self.loss
    }
}

fn context(node: u32) -> BuildContext {
    BuildContext {
        association: AssociationId(5),
        node: NodeId(node),
        sender: NodeId(1),
        members: Vec::new().into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: carillon_core::Addresses::new(NumberedAddresses),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(100),
        link_overhead: 28,
        max_payload: 1400,
        memory: 64 << 20,
        rejoining: false,
    }
}

fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in settings {
        config.set(ENTRY.parameters, key, value).expect("a setting");
    }
    config
}

/// Host that keeps all packets.
#[derive(Default)]
struct Sent {
    packets: Vec<Vec<u8>>,
    fired: bool,
}

impl Host for Sent {
    fn transmit(&mut self, _transmit: Transmit, bytes: &mut Vec<u8>) {
        self.packets.push(bytes.clone());
    }
    fn event(&mut self, _event: &carillon_core::Event) {}
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_790_000_000)
}

/// Packets of Carillon's sender.
fn sent(case: &Case) -> Vec<Vec<u8>> {
    let clock = (1_790_000_000 + UNIX_EPOCH_SINCE_1900).to_string();
    let (passes, version) = (PASSES.to_string(), case.version.to_string());
    let encoding = if case.compressed { "gzip" } else { "none" };
    let config = config(&[
        ("clock", &clock),
        ("carousel", if case.loss == 0 { "1" } else { &passes }),
        ("fec", case.code),
        ("block", "40"),
        ("parity", "8"),
        ("version", &version),
        ("content_encoding", encoding),
        ("rate", "0"),
    ]);
    let plain = ENTRY.plain.expect("it has plain sessions");
    let mut machine =
        (plain.sender)(carillon_core::PlainKind::Files, &context(1), &config).expect("valid settings");
    let (mut at, mut sent, mut buf) = (Time::ZERO, Sent::default(), Vec::new());
    machine.start(at);
    let sender = machine.as_sender().expect("it is a sender");
    for (name, content) in &case.files {
        let file = NamedFile { name: name.clone(), content: content.clone() };
        sender.offer(at, file.into_message()).expect("there is room");
    }
    sender.finish(at);
    loop {
        drain(&mut *machine, at, &mut buf, &mut sent);
        sent.fired = true;
        let Some(next) = machine.poll_timeout() else { return sent.packets };
        at = at.max(next);
        machine.handle_timeout(at);
    }
}

/// Files that the crate receives.
fn received_by_crate(case: &mut Case, packets: &[Vec<u8>]) -> Files {
    let writer = Rc::new(ObjectWriterBufferBuilder::new(true));
    let mut receiver = MultiReceiver::new(writer.clone(), None, false);
    let endpoint = UDPEndpoint::new(None, "224.0.0.1".to_owned(), 3400);
    for packet in packets {
        if !case.is_lost() {
            receiver.push(&endpoint, packet, now()).expect("a valid packet");
        }
    }
    let objects = writer.objects.borrow();
    let whole = objects.iter().filter(|object| object.borrow().complete);
    whole
        .map(|object| {
            let object = object.borrow();
            (object.meta.content_location.clone(), object.data.clone().into())
        })
        .collect()
}

/// Packets of the crate's sender. It begins with an announcement of the end, as its program does.
fn sent_by_crate(case: &Case) -> Vec<Vec<u8>> {
    let oti = match case.code {
        "no-code" => Oti::new_no_code(1400, 40),
        "reed-solomon" => Oti::new_reed_solomon_rs28(1400, 40, 8).expect("it is valid"),
        "raptorq" => Oti::new_raptorq(1400, 40, 8, 1, 4).expect("it is valid"),
        // A block of Raptor has four symbols at least.
        _ => Oti::new_raptor(if is_long_tier() { 100 } else { 20 }, 40, 8, 1, 4).expect("it is valid"),
    };
    let settings = sender::Config {
        fdt_carousel_mode: sender::CarouselRepeatMode::DelayBetweenTransfers(Duration::from_millis(5)),
        profile: if case.version == 1 { Profile::RFC3926 } else { Profile::RFC6726 },
        ..Default::default()
    };
    let endpoint = UDPEndpoint::new(None, "224.0.0.1".to_owned(), 3400);
    let fdt_oti = Oti::new_no_code(1400, 64);
    let mut sender = sender::Sender::new(endpoint, 9, &fdt_oti, &settings);
    for (name, content) in &case.files {
        let url = url::Url::parse(name).expect("it is a URI");
        // The crate encodes blocks of Raptor only if they have four symbols.
        let oti = if case.code == "raptor" && content.len() < 2000 { fdt_oti.clone() } else { oti.clone() };
        let transfer = TransferConfig {
            max_transfer_count: if case.loss == 0 { 1 } else { PASSES },
            cenc: if case.compressed { Cenc::Gzip } else { Cenc::Null },
            oti: Some(oti),
            ..Default::default()
        };
        let object = ObjectDesc::create_from_buffer(
            content.to_vec(),
            "application/octet-stream",
            &url,
            true,
            transfer,
        );
        sender.add_object(0, object.expect("a valid object")).expect("there is room");
    }
    sender.publish(now()).expect("a valid table");
    let (mut at, mut packets) = (now(), vec![sender.read_close_session(now())]);
    // The table is repeated without end.
    while sender.nb_objects() > 0 {
        packets.extend(sender.read(at));
        at += Duration::from_millis(1);
        assert!(packets.len() < 1_000_000, "the sender ends");
    }
    packets.push(sender.read_close_session(at));
    packets
}

/// Files that Carillon receives, and the news of the end.
fn received(case: &mut Case, packets: &[Vec<u8>]) -> (Files, Vec<PlainNews>) {
    let clock = (1_790_000_000 + UNIX_EPOCH_SINCE_1900).to_string();
    let config = config(&[("clock", &clock)]);
    let mut receiver =
        PlainReceiver::new(&ENTRY, &context(2), &config, PlainLimits::default()).expect("valid settings");
    let (mut files, mut ends) = (Vec::new(), Vec::new());
    receiver.start(Time::ZERO);
    let last = Time::ZERO + Duration::from_secs(1 + packets.len() as u64 / 1000);
    for (number, packet) in packets.iter().enumerate() {
        let at = Time::ZERO + Duration::from_millis(number as u64);
        if case.is_lost() && number + 1 < packets.len() {
            continue;
        }
        receiver.handle_datagram(
            at,
            Received {
                source: NodeId(1),
                destination: &Dest::group(GroupId(0)),
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &packet.clone().into(),
            },
        );
        take(&mut receiver, &mut files, &mut ends);
    }
    receiver.handle_timeout(last + Duration::from_secs(10));
    take(&mut receiver, &mut files, &mut ends);
    (files, ends)
}

fn take(receiver: &mut PlainReceiver, files: &mut Files, ends: &mut Vec<PlainNews>) {
    while receiver.poll_event().is_some() {}
    while receiver.poll_notice().is_some() {}
    while let Some(news) = receiver.poll_news() {
        match news {
            PlainNews::File { file, .. } => files.push((file.name, file.content)),
            PlainNews::Closed { .. } => ends.push(news),
            PlainNews::Opened(_) => {}
            PlainNews::Message { .. } => panic!("messages are files"),
        }
    }
}

fn check(mut files: Files, case: &Case, from: &str, seed: u64) {
    files.sort();
    let lengths = |files: &Files| {
        files.iter().map(|(name, content)| format!("{name} {}", content.len())).collect::<Vec<_>>()
    };
    let Case { loss, code, version, compressed, .. } = case;
    assert!(
        files == case.files,
        "from {from}, seed {seed}, {loss} %, {code}, version {version}, compressed {compressed}: {:?} of {:?}",
        lengths(&files),
        lengths(&case.files)
    );
}

#[test]
fn files_reach_another_implementation() {
    let runs = if is_long_tier() { 100 } else { 8 };
    for seed in seeds(runs) {
        for loss in LOSSES {
            let mut case = Case::new(seed, loss);
            let packets = sent(&case);
            let files = received_by_crate(&mut case, &packets);
            check(files, &case, "carillon", seed);
        }
    }
}

#[test]
fn files_of_another_implementation_arrive() {
    let runs = if is_long_tier() { 100 } else { 8 };
    for seed in seeds(runs) {
        for loss in LOSSES {
            let mut case = Case::new(seed, loss);
            let packets = sent_by_crate(&case);
            let (files, ends) = received(&mut case, &packets);
            check(files, &case, "the crate", seed);
            assert!(
                matches!(ends[..], [PlainNews::Closed { lost: 0, ended: true, .. }]),
                "seed {seed}, {loss} %: {ends:?}"
            );
        }
    }
}

/// A file of 10 MB, in the long tier; one of 1 MB otherwise.
#[test]
fn large_files_pass_in_both_directions() {
    let length = if is_long_tier() { 10_000_000 } else { 1_000_000 };
    for code in ["no-code", "reed-solomon"] {
        let mut case = Case::new(2, 5);
        let mut content = vec![0; length];
        case.rng.fill(&mut content);
        (case.code, case.compressed) = (code, false);
        case.files = vec![("file:///large".to_owned(), content.into())];
        let packets = sent(&case);
        let files = received_by_crate(&mut case, &packets);
        check(files, &case, "carillon", 2);
        let packets = sent_by_crate(&case);
        let (files, _) = received(&mut case, &packets);
        check(files, &case, "the crate", 2);
    }
}
