//! Traces in files: frames byte by byte, checksums recomputed, and captures as other programs
//! read them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use carillon_core::{
    Bytes, Dest, DropReason, Duration, Event, GroupId, MessageId, NodeId, Note, Observer, PortId, PortSet,
    Scope, Time, Value,
};
use carillon_lab::plan::Plan;
use carillon_lab::run::run_one;
use carillon_lab::scenario::ScenarioFile;
use carillon_lab::trace::{Capture, CaptureOptions, JsonLines, TraceError, TraceFile};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;

struct Datagram {
    nanos: u64,
    from: u32,
    to: Dest,
    bytes: Vec<u8>,
}

fn datagram(nanos: u64, from: u32, to: Dest, bytes: impl Into<Vec<u8>>) -> Datagram {
    Datagram { nanos, from, to, bytes: bytes.into() }
}

fn group(group: u16) -> Dest {
    Dest::group(GroupId(group))
}

fn node(node: u32) -> Dest {
    Dest::Node(NodeId(node))
}

fn capture(path: &Path, options: CaptureOptions, datagrams: &[Datagram]) {
    let mut trace = TraceFile::create(path, options).unwrap();
    for Datagram { nanos, from, to, bytes } in datagrams {
        trace.datagram(Time::from_nanos(*nanos), NodeId(*from), to, &Bytes::from(bytes.clone()));
    }
    trace.finish().unwrap();
}

fn packets(path: &Path) -> Vec<EnhancedPacketBlock<'static>> {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap().into_owned() {
            packets.push(packet);
        }
    }
    packets
}

/// The frames that a capture makes of datagrams.
fn frames(options: CaptureOptions, datagrams: &[Datagram]) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pcapng");
    capture(&path, options, datagrams);
    packets(&path).into_iter().map(|packet| packet.data.into_owned()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// The ones' complement sum with end-around carry at every step: all ones if a checksum is right.
fn ones_complement(bytes: &[u8]) -> u16 {
    let mut sum = 0_u16;
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
        let (next, carry) = sum.overflowing_add(word);
        sum = next + u16::from(carry);
    }
    sum
}

/// Checks lengths and checksums of a frame and returns its UDP payload.
fn checked_payload(frame: &[u8]) -> &[u8] {
    let (addresses, udp) = match frame[12..14] {
        [0x08, 0x00] => {
            let ip = &frame[14..];
            assert_eq!(ip[0], 0x45);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            assert_eq!(ip[9], 17);
            assert_eq!(ones_complement(&ip[..20]), 0xffff);
            (&ip[12..20], &ip[20..])
        }
        [0x86, 0xdd] => {
            let ip = &frame[14..];
            assert_eq!(ip[..4], [0x60, 0, 0, 0]);
            assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), ip.len() - 40);
            assert_eq!(ip[6], 17);
            (&ip[8..40], &ip[40..])
        }
        _ => panic!("neither IPv4 nor IPv6: {:02x?}", &frame[12..14]),
    };
    assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
    assert_ne!(udp[6..8], [0, 0], "a checksum of zero is none");
    let mut covered = addresses.to_vec();
    covered.extend_from_slice(&[0, 17]);
    covered.extend_from_slice(&udp[4..6]);
    covered.extend_from_slice(udp);
    assert_eq!(ones_complement(&covered), 0xffff);
    &udp[8..]
}

#[test]
fn the_file_and_its_first_frame_byte_by_byte() {
    let mut file = Vec::new();
    let mut trace =
        Capture::new(&mut file, CaptureOptions { name: "run".into(), ..CaptureOptions::default() }).unwrap();
    // 2^32 ns and 5 more, so that the two halves of the time tell themselves apart.
    let time = Time::from_nanos((1 << 32) + 5);
    trace.datagram(time, NodeId(0x010203), &group(1), &Bytes::from_static(b"hello"));
    trace.finish().unwrap();

    let interface = hex("01000000 28000000  0100 0000 00000400
         0200 0300 72756e00  0900 0100 09000000  00000000  28000000");
    let packet = hex("06000000 50000000  00000000  01000000 05000000  2f000000 2f000000
         01005e7f0002  020000010203  0800
         45 00 0021  0000 4000  ff 11 7fc5  0a010204 efff0002
         1de6 1de6 000d 842f  68656c6c6f
         00  50000000");
    let section_length = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    assert_eq!(file[..4], hex("0a0d0d0a"));
    assert_eq!(file[8..16], hex("4d3c2b1a 0100 0000"));
    assert_eq!(file[section_length..section_length + 0x28], interface);
    assert_eq!(file[section_length + 0x28..], packet);
}

/// Sent on by a relay, in the name of node 5 to node 6.
fn by_ports(ports: PortSet) -> Dest {
    Dest::Ports { ports, source: NodeId(5), dest: Box::new(node(6)) }
}

#[test]
fn destinations_have_their_addresses() {
    let ports = [PortId(2), PortId(0)].into_iter().collect();
    let scope = Dest::Group { group: GroupId(300), scope: Scope(3) };
    let datagrams = [
        datagram(0, 0, node(7), "a"),
        datagram(0, 255, scope, "b"),
        datagram(0, 1, by_ports(ports), "c"),
        datagram(0, 0x00ff_ffff, node(0x0100_0000), "d"),
    ];
    let frames = frames(CaptureOptions::default(), &datagrams);
    let head = |frame: &[u8]| (frame[..12].to_vec(), frame[22], frame[26..34].to_vec());
    assert_eq!(head(&frames[0]), (hex("020000000007 020000000000"), 64, vec![10, 0, 0, 1, 10, 0, 0, 8]));
    assert_eq!(head(&frames[1]), (hex("01005e7f012d 0200000000ff"), 3, vec![10, 0, 1, 0, 239, 255, 1, 45]));
    // A packet that a relay forwards keeps the addresses it stands for.
    assert_eq!(head(&frames[2]), (hex("020000000006 020000000005"), 64, vec![10, 0, 0, 6, 10, 0, 0, 7]));
    // Numbers that 24 bits do not hold wrap around.
    assert_eq!(head(&frames[3]), (hex("020000000000 020000ffffff"), 64, vec![10, 0, 0, 0, 10, 0, 0, 1]));
    for (frame, payload) in frames.iter().zip(["a", "b", "c", "d"]) {
        assert_eq!(checked_payload(frame), payload.as_bytes());
    }
}

#[test]
fn addresses_of_a_real_run_replace_the_made_up_ones() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let options = CaptureOptions {
        nodes: [
            (NodeId(0), address("192.0.2.1:5000")),
            (NodeId(1), address("[2001:db8::1]:5001")),
            (NodeId(2), address("[2001:db8::2]:5002")),
        ]
        .into(),
        groups: [(GroupId(0), address("[ff3e::1234:5678]:6000"))].into(),
        port: 9000,
        ..CaptureOptions::default()
    };
    let datagrams = [
        datagram(0, 0, node(3), "to a node without an address"),
        datagram(0, 1, node(2), "within a family"),
        datagram(0, 1, group(0), "to a group"),
        datagram(0, 1, node(0), "to a node of the other family"),
        datagram(0, 0, group(0), "to a group of the other family"),
        datagram(0, 2, group(1), "to a group without an address"),
    ];
    let frames = frames(options, &datagrams);
    for (frame, datagram) in frames.iter().zip(&datagrams) {
        assert_eq!(checked_payload(frame), datagram.bytes);
    }
    assert_eq!(frames[0][26..38], hex("c0000201 0a000004 1388 2328"));
    assert_eq!(frames[1][..14], hex("020000000002 020000000001 86dd"));
    let v6 = |frame: &[u8]| frame[22..58].to_vec();
    let source = "20010db8 00000000 00000000 00000001";
    assert_eq!(v6(&frames[1]), hex(&format!("{source} 20010db8 00000000 00000000 00000002 1389 138a")));
    assert_eq!(frames[2][..6], hex("3333 12345678"));
    assert_eq!(v6(&frames[2]), hex(&format!("{source} ff3e0000 00000000 00000000 12345678 1389 1770")));
    assert_eq!(v6(&frames[3]), hex(&format!("{source} fd000000 00000000 00000000 0a000001 1389 2328")));
    assert_eq!(frames[4][26..38], hex("c0000201 efff0001 1388 2328"));
    assert_eq!(frames[5][..6], hex("3333 00000002"));
    assert_eq!(v6(&frames[5])[16..32], hex("ff150000 00000000 00000000 00000002"));
}

#[test]
fn times_are_nanoseconds_since_the_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pcapng");
    let start = Duration::new(1_700_000_000, 123_456_789);
    let options = CaptureOptions { start, name: "é".repeat(200), ..CaptureOptions::default() };
    let datagrams = [
        datagram(0, 0, group(0), "a"),
        datagram(1, 0, group(0), "b"),
        datagram(876_543_211, 0, group(0), "c"),
        datagram(u64::MAX, 0, group(0), "d"),
    ];
    capture(&path, options, &datagrams);

    let times: Vec<Duration> = packets(&path).iter().map(|packet| packet.timestamp).collect();
    let expected = [
        start,
        start + Duration::from_nanos(1),
        Duration::from_secs(1_700_000_001),
        Duration::from_nanos(u64::MAX),
    ];
    assert_eq!(times, expected);

    let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
    let Block::InterfaceDescription(interface) = reader.next_block().unwrap().unwrap() else { panic!() };
    assert!(interface.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
    // 255 bytes hold 127 whole letters of this name.
    assert!(interface.options.contains(&InterfaceDescriptionOption::IfName("é".repeat(127).into())));
}

#[test]
fn a_datagram_too_long_for_ip_is_cut_and_its_length_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pcapng");
    let options = CaptureOptions {
        nodes: [(NodeId(1), "[2001:db8::1]:5001".parse().unwrap())].into(),
        ..CaptureOptions::default()
    };
    let lengths = [(0, 65_507, 65_507), (0, 65_508, 65_507), (1, 65_527, 65_527), (1, 100_000, 65_527)];
    let datagrams = lengths.map(|(from, length, _)| datagram(0, from, group(0), vec![0xa5; length]));
    capture(&path, options, &datagrams);
    for (packet, (from, length, carried)) in packets(&path).iter().zip(lengths) {
        let headers = if from == 0 { 42 } else { 62 };
        assert_eq!(checked_payload(&packet.data).len(), carried);
        assert_eq!(packet.data.len(), headers + carried);
        assert_eq!(packet.original_len as usize, headers + length);
    }
}

#[test]
fn a_checksum_that_comes_to_zero_is_sent_as_all_ones() {
    // Some pair of last bytes makes the sum all ones; every other pair is checked on the way.
    let datagrams: Vec<_> = (0..=u16::MAX).map(|word| datagram(0, 0, group(0), word.to_be_bytes())).collect();
    let frames = frames(CaptureOptions::default(), &datagrams);
    frames.iter().for_each(|frame| drop(checked_payload(frame).to_vec()));
    assert!(frames.iter().any(|frame| frame[40..42] == [0xff, 0xff]));
}

#[test]
fn ports_of_a_relay_are_in_a_comment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pcapng");
    let ports = [PortId(2), PortId(0)].into_iter().collect();
    capture(&path, CaptureOptions::default(), &[datagram(0, 1, by_ports(ports), "c")]);
    let comment = EnhancedPacketOption::Comment("out of ports p0 p2".into());
    assert_eq!(packets(&path)[0].options, [comment]);
}

#[test]
fn tcpdump_reads_the_capture() {
    if !carillon_testkit::is_installed("tcpdump") {
        return carillon_testkit::skip("tcpdump(8) is needed");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pcapng");
    let options = CaptureOptions {
        start: Duration::new(1_700_000_000, 0),
        nodes: [(NodeId(9), "[2001:db8::9]:5009".parse().unwrap())].into(),
        ..CaptureOptions::default()
    };
    let datagrams = [
        datagram(0, 0, group(0), ""),
        datagram(1, 0, group(0), "x"),
        datagram(123_456_789, 258, node(3), vec![7; 1400]),
        datagram(999_999_999, 9, group(4), vec![1; 333]),
        datagram(3_000_000_001, 2, by_ports([PortId(1)].into_iter().collect()), "relayed"),
        datagram(3_000_000_002, 0, group(0), vec![3; 65_507]),
        datagram(3_000_000_003, 0, group(0), vec![3; 70_000]),
    ];
    capture(&path, options, &datagrams);

    // Its user may not read a folder that only we may: it gets the file as its input.
    let tcpdump = |arguments: &[&str]| {
        let command = Command::new("tcpdump")
            .args(["-r", "-", "-nn", "-tt", "--nano"])
            .args(arguments)
            .stdin(File::open(&path).unwrap())
            .output()
            .unwrap();
        assert!(command.status.success(), "{}", String::from_utf8_lossy(&command.stderr));
        String::from_utf8(command.stdout).unwrap()
    };
    let text = tcpdump(&["-e"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), datagrams.len(), "{text}");
    let expected = [
        ("1700000000.000000000", "01:00:5e:7f:00:01", "10.0.0.1.7654 > 239.255.0.1.7654", 0),
        ("1700000000.000000001", "01:00:5e:7f:00:01", "10.0.0.1.7654 > 239.255.0.1.7654", 1),
        ("1700000000.123456789", "02:00:00:00:00:03", "10.0.1.3.7654 > 10.0.0.4.7654", 1400),
        ("1700000000.999999999", "33:33:00:00:00:05", "2001:db8::9.5009 > ff15::5.7654", 333),
        ("1700000003.000000001", "02:00:00:00:00:06", "10.0.0.6.7654 > 10.0.0.7.7654", 7),
        ("1700000003.000000002", "01:00:5e:7f:00:01", "10.0.0.1.7654 > 239.255.0.1.7654", 65_507),
        ("1700000003.000000003", "01:00:5e:7f:00:01", "10.0.0.1.7654 > 239.255.0.1.7654", 65_507),
    ];
    for (line, (time, hardware, addresses, length)) in lines.iter().zip(expected) {
        assert!(line.starts_with(time), "{time}: {line}");
        assert!(line.contains(&format!("> {hardware}")), "{hardware}: {line}");
        assert!(line.contains(addresses), "{addresses}: {line}");
        assert!(line.ends_with(&format!("UDP, length {length}")), "{length}: {line}");
    }
    // The last frame is the only one of which a part is missing.
    assert!(lines[6].contains(&format!("length {}", 42 + 70_000)), "{}", lines[6]);

    let verbose = tcpdump(&["-vv"]);
    assert!(!verbose.contains("bad") && !verbose.contains("wrong"), "{verbose}");
    assert_eq!(verbose.matches("[udp sum ok]").count(), 7, "{verbose}");
}

#[test]
fn events_are_lines_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.JSONL");
    let mut trace = TraceFile::create(&path, CaptureOptions::default()).unwrap();
    let fields = vec![("rounds", Value::Count(3)), ("why", Value::Text("a\n\"b\"".into()))];
    let events = [
        (0, Event::Sent { message: MessageId(4), bytes: 1058 }),
        (u64::MAX, Event::Dropped { reason: DropReason::OutOfOrder }),
        (2, Event::FrameDiscarded),
        (3, Event::Note(Box::new(Note { name: "poll", fields }))),
    ];
    for (nanos, event) in events {
        trace.event(Time::from_nanos(nanos), NodeId(7), &event);
    }
    trace.datagram(Time::ZERO, NodeId(0), &group(0), &Bytes::from_static(b"not an event"));
    trace.finish().unwrap();
    let expected = concat!(
        r#"{"time_ns":0,"node":7,"event":"sent","message":4,"bytes":1058}"#,
        "\n",
        r#"{"time_ns":18446744073709551615,"node":7,"event":"dropped","reason":"out_of_order"}"#,
        "\n",
        r#"{"time_ns":2,"node":7,"event":"frame_discarded"}"#,
        "\n",
        r#"{"time_ns":3,"node":7,"event":"note","name":"poll","fields":[["rounds",3],["why","a\n\"b\""]]}"#,
        "\n",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn a_trace_of_no_known_format_names_the_file_and_the_formats() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run.pcap", "run", ".jsonl"] {
        let path = folder.path().join(name);
        let error = TraceFile::create(&path, CaptureOptions::default()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, TraceError::UnknownFormat { .. }));
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains(".jsonl") && text.contains(".pcapng"), "{text}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

    let path = folder.path().join("missing").join("run.pcapng");
    let error = TraceFile::create(&path, CaptureOptions::default()).unwrap_err();
    assert!(error.to_string().contains("run.pcapng"), "{error}");
}

/// Takes some bytes, then is full.
struct FillsUp {
    room: usize,
}

impl Write for FillsUp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.room {
            self.room = 0;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_first_error_is_told_at_the_end() {
    for room in [0, 10_000, 50_000] {
        let full = || FillsUp { room };
        let mut capture = Capture::new(full(), CaptureOptions::default()).unwrap();
        let mut lines = JsonLines::new(full());
        let event =
            Event::Note(Box::new(Note { name: "long", fields: vec![("x", Value::Text("y".repeat(999)))] }));
        for nanos in 0..100 {
            let time = Time::from_nanos(nanos);
            capture.datagram(time, NodeId(0), &group(0), &Bytes::from(vec![0; 1000]));
            lines.event(time, NodeId(0), &event);
        }
        assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(lines.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
    // An error of the last flush counts too.
    let capture = Capture::new(FillsUp { room: 0 }, CaptureOptions::default()).unwrap();
    assert_eq!(capture.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
}

proptest! {
    #[test]
    fn every_frame_is_sound(
        from in any::<u32>(), to in any::<u32>(), over_v6 in any::<bool>(), to_group in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 0..300), port in any::<u16>(),
    ) {
        let mut options = CaptureOptions { port, ..CaptureOptions::default() };
        if over_v6 {
            options.nodes.insert(NodeId(from), "[2001:db8::fffe]:5001".parse().unwrap());
        }
        let to = if to_group { group(to as u16) } else { node(to) };
        let frames = frames(options, &[datagram(0, from, to, payload.clone())]);
        prop_assert_eq!(checked_payload(&frames[0]), payload);
    }
}

/// Objects of a JSON trace of 100 messages of PGM on a binary tree of height 2, or on a LAN.
fn traced(network: &str, losses: &str) -> Vec<serde_json::Value> {
    let text = format!(
        "name = \"x\"\n[network]\n{network}\n{losses}\n[protocol]\nname = \"pgm\"\n[workload]\nmessages = 100\n\
         message_bytes = 200\nrate = \"100 packet/s\"\n"
    );
    let file = ScenarioFile::parse("x.toml", &text).unwrap();
    let plan = Plan::new(&file).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let format = plan.runs[0].scenario.protocol.packets.format;
    let mut trace = TraceFile::create(&path, CaptureOptions::default()).unwrap().naming_frames(format);
    run_one(&plan.runs[0], &mut trace).unwrap();
    trace.finish().unwrap();
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn frames_name_their_link_and_packet() {
    let tree = "kind = \"graph\"\ntopology = \"binary-tree\"\nheight = 2";
    let chosen = "[[loss]]\nmodel = \"chosen\"\npackets = [5, 6]\nlinks = \"2>4\"\n\
                  [[loss]]\nmodel = \"chosen\"\npackets = 9\nreceivers = 7";
    let trace = traced(tree, chosen);
    let named = |name: &'static str| trace.iter().filter(move |event| event["event"] == name);
    let lost: Vec<_> =
        named("frame_lost").map(|event| (event["link"].as_str(), event["packet"].as_str())).collect();
    assert_eq!(
        lost,
        [(Some("2>4"), Some("odata")), (Some("2>4"), Some("odata")), (Some("3>7"), Some("odata"))]
    );
    let frames = ["frame_sent", "frame_lost", "received", "dropped"];
    for event in frames.iter().flat_map(|name| named(name)) {
        assert!(event["link"].is_string() && event["packet"].is_string(), "{event}");
        // A frame leaves the first end of its link and arrives at the other.
        let (from, to) = event["link"].as_str().unwrap().split_once('>').unwrap();
        let end = if event["event"] == "frame_sent" { from } else { to };
        let node = if event["event"] == "frame_lost" { &event["receiver"] } else { &event["node"] };
        assert_eq!(node.to_string(), end, "{event}");
    }
    let sent: std::collections::BTreeSet<_> =
        named("frame_sent").map(|event| event["packet"].as_str().unwrap()).collect();
    assert!(["odata", "rdata", "nak", "ncf", "spm"].iter().all(|packet| sent.contains(packet)), "{sent:?}");
    // A medium has no links.
    let trace = traced("kind = \"lan\"\n[group]\nreceivers = 2", "[loss]\nmodel = \"bernoulli\"\np = 0.1");
    let lost = || trace.iter().filter(|event| event["event"] == "frame_lost");
    assert!(lost().count() > 5 && lost().all(|event| event["packet"].is_string() && event["link"].is_null()));
}
