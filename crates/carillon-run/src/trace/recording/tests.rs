use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{
    BitRate, Bytes, Dest, DropReason, MessageId, NetworkKind as Kind, Note, Outcome, Seeds, Transmit,
};
use carillon_proto::REGISTRY;
use carillon_sim::graph::{Graph, GraphConfig, Link, Topology};
use carillon_sim::{Arrival, Network};
use serde_json::Value as Json;

use super::*;
use crate::plan::Plan;
use crate::run::{Unsupervised, simulate};
use crate::scenario::ScenarioFile;

/// Recording as a viewer reads it.
struct Read {
    bytes: Vec<u8>,
    /// Offset at which the header ends.
    start: usize,
    header: Json,
    columns: BTreeMap<String, Vec<f64>>,
}

impl Read {
    fn new(bytes: &[u8]) -> Self {
        check(bytes).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((&bytes[..4], word(4)), (&b"CARR"[..], 1));
        let start = 12 + word(8);
        assert_eq!(start % 8, 0);
        let header: Json = serde_json::from_slice(&bytes[12..start]).unwrap();
        let count = header["count"].as_u64().unwrap() as usize;
        let columns = header["columns"].as_object().unwrap();
        let mut read =
            Read { columns: BTreeMap::new(), bytes: bytes.to_vec(), start, header: header.clone() };
        read.columns =
            columns.iter().map(|(name, place)| (name.clone(), read.column(place, count))).collect();
        read
    }

    /// Values of a column.
    fn column(&self, place: &Json, count: usize) -> Vec<f64> {
        let at = self.start + place["offset"].as_u64().unwrap() as usize;
        assert_eq!(at % 8, 0);
        let size = match place["type"].as_str().unwrap() {
            "f64" => 8,
            "u32" | "i32" => 4,
            "u16" => 2,
            _ => 1,
        };
        let values = self.bytes[at..at + size * count].chunks_exact(size);
        let value = |bytes: &[u8]| match (place["type"].as_str().unwrap(), bytes) {
            ("f64", bytes) => f64::from_le_bytes(bytes.try_into().unwrap()),
            ("u32", bytes) => u32::from_le_bytes(bytes.try_into().unwrap()).into(),
            ("i32", bytes) => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
            ("u16", bytes) => u16::from_le_bytes(bytes.try_into().unwrap()).into(),
            (_, bytes) => bytes[0].into(),
        };
        values.map(value).collect()
    }

    fn len(&self) -> usize {
        self.header["count"].as_u64().unwrap() as usize
    }

    fn at(&self, column: &str, event: usize) -> f64 {
        self.columns[column][event]
    }

    fn word(&self, table: &str, event: usize) -> String {
        let column = if table == "strings" { "text" } else { table.trim_end_matches('s') };
        match &self.header[table][self.at(column, event) as usize] {
            Json::String(name) => name.clone(),
            Json::Object(packet) => {
                format!("{} {}", packet["name"].as_str().unwrap(), packet["kind"].as_str().unwrap())
            }
            _ => "-".to_owned(),
        }
    }

    /// Events of this name.
    fn named(&self, event: &str) -> Vec<usize> {
        (0..self.len()).filter(|&at| self.word("events", at) == event).collect()
    }
}

fn entry(name: &str) -> &'static carillon_core::ProtocolEntry {
    REGISTRY.iter().find(|entry| entry.name == name).unwrap()
}

fn ms(millis: f64) -> f64 {
    millis * 1e6
}

/// Two links of 10 and 20 ms: frames of 1000 bytes take 8 ms on the first one and 16 ms on the second, where they wait.
#[test]
fn frames_start_and_arrive_as_queue_rate_and_latency_say() {
    let mut topology = Topology::new(3);
    let link = |a, b, millis, rate| {
        let ends = [NodeId(a), NodeId(b)];
        Link { rate: BitRate::new(rate), ..Link::new(ends, Duration::from_millis(millis)) }
    };
    topology.add_link(link(0, 1, 10, 1_000_000));
    topology.add_link(link(2, 1, 20, 500_000));
    let config = GraphConfig { overhead: 28, ..GraphConfig::default() };
    let mut graph = Graph::new(Arc::new(topology), config, &Seeds::new(1));
    let nodes = (0..3).map(|id| RecordedNode { id, role: NodeRole::Node, name: None }).collect();
    let recorded = |a, b| RecordedLink { a, b, rate: None, latency_ns: None };
    let network = RecordedNetwork::new(NetworkKind::Graph, nodes, vec![recorded(0, 1), recorded(2, 1)]);
    let mut recording = Recording::new(network, entry("ff").packets.format, 100);

    let header = 972 - carillon_wire::ff::HEADER_LEN;
    for (at, seq) in [(0, 5), (0, 6), (0, 7), (50, 8)] {
        let now = Time::from_nanos(at * 1_000_000);
        let payload = vec![0; header];
        let packet = carillon_wire::ff::Packet::Data { seq, first: 5, time: 0, payload: &payload };
        let mut bytes = Vec::new();
        packet.emit(carillon_core::AssociationId(1), &mut bytes);
        assert_eq!(bytes.len(), 972);
        let transmit = Transmit::now(Dest::Node(NodeId(2)));
        run_until(&mut graph, now, &mut recording);
        graph.transmit(now, NodeId(0), transmit, Bytes::from(bytes), &mut recording);
    }
    run_until(&mut graph, Time::MAX, &mut recording);
    let read = Read::new(&recording.to_bytes(&Description::default()));
    let frames: Vec<[f64; 5]> = read
        .named("frame_sent")
        .into_iter()
        .map(|at| ["link", "message", "time", "start", "arrival"].map(|column| read.at(column, at)))
        .collect();
    // On the first link message n of the burst starts after n - 5 others; the last one meets an idle link.
    let first = |seq: f64, time, start| [0.0, seq, ms(time), ms(start), ms(start + 8.0 + 10.0)];
    // The second link takes twice as long, so that each frame waits 8 ms longer than the one before it.
    let second = |seq, time, start| [3.0, seq, ms(time), ms(start), ms(start + 16.0 + 20.0)];
    let mut expected = vec![
        first(5.0, 0.0, 0.0),
        first(6.0, 0.0, 8.0),
        first(7.0, 0.0, 16.0),
        second(5.0, 18.0, 18.0),
        second(6.0, 26.0, 34.0),
        second(7.0, 34.0, 50.0),
        first(8.0, 50.0, 50.0),
        second(8.0, 68.0, 68.0),
    ];
    expected.sort_by(|a, b| a[2].total_cmp(&b[2]));
    assert_eq!(frames, expected);
    assert!(read.named("frame_sent").into_iter().all(|at| read.word("packets", at) == "data data"));
    assert!(read.named("frame_sent").into_iter().all(|at| read.at("bytes", at) == 1000.0));
}

fn run_until(graph: &mut Graph, until: Time, recording: &mut Recording) {
    let mut arrival = Arrival::default();
    while let Some((next, _)) = graph.next_time()
        && next <= until
    {
        graph.advance(next, &mut arrival, recording);
    }
}

/// Compares the columns of each event with its fields as text; `-` is a column without a value.
#[test]
fn each_event_fills_its_columns_and_no_other() {
    let (message, source, member) = (MessageId(7), NodeId(1), NodeId(2));
    let fields = vec![("message", Value::Count(7)), ("share", Value::Real(0.5))];
    let events = [
        (Event::Offered { message, since: Time::ZERO }, "offered 7 - - - -"),
        (Event::Sent { message, bytes: 90 }, "sent 7 90 - - -"),
        (Event::Continued { message, bytes: 91 }, "continued 7 91 - - -"),
        (Event::RepairSent { message, bytes: 92 }, "repair_sent 7 92 - - -"),
        (Event::Forwarded { source, message, bytes: 93, repair: true }, "forwarded 7 93 1 - repair"),
        (Event::Forwarded { source, message, bytes: 93, repair: false }, "forwarded 7 93 1 - -"),
        (Event::RepairNeeded { member, messages: 3 }, "repair_needed - - 2 - 3 messages"),
        (Event::ControlSent { packet: "nak", message }, "control_sent 7 - - nak request -"),
        (Event::Received { packet: "rdata", message }, "received 7 - - rdata repair -"),
        (Event::Received { packet: "new", message }, "received 7 - - new control -"),
        (Event::Delivered { source, message }, "delivered 7 - 1 - -"),
        (
            Event::Completed { message, outcome: Outcome::Acknowledged, window: 1 },
            "completed 7 - - - acknowledged",
        ),
        (Event::LossFound { source: None, message }, "loss_found 7 - - - -"),
        (Event::LossFound { source: Some(source), message }, "loss_found 7 - 1 - -"),
        (Event::Requested { source, message }, "requested 7 - 1 - -"),
        (Event::LossRepaired { source, message }, "loss_repaired 7 - 1 - -"),
        (Event::LossFinal { source, message }, "loss_final 7 - 1 - -"),
        (Event::RequestSuppressed { message }, "request_suppressed 7 - - - -"),
        (Event::TimerArmed { timer: "back_off" }, "timer_armed - - - - back_off"),
        (Event::TimerFired { timer: "back_off" }, "timer_fired - - - - back_off"),
        (Event::StateChanged { state: "Idle" }, "state_changed - - - - Idle"),
        (Event::Dropped { reason: DropReason::Duplicate }, "dropped - - - - duplicate"),
        (Event::MemberJoined { member }, "member_joined - - 2 - -"),
        (Event::MemberLost { member }, "member_lost - - 2 - -"),
        (Event::FrameSent { bytes: 118 }, "frame_sent - 118 - - -"),
        (Event::FrameLost { receiver: None, original: false }, "frame_lost - - - - -"),
        (Event::FrameLost { receiver: Some(member), original: true }, "frame_lost - - 2 - -"),
        (Event::FrameDiscarded, "frame_discarded - - - - -"),
        (Event::Collision { frames: 3 }, "collision - - - - 3 frames"),
        (Event::Note(Box::new(Note { name: "rate", fields })), "note 7 - - - rate message 7 share 0.5"),
        (Event::LossFound { source: None, message: MessageId(1 << 40) }, "loss_found - - - - -"),
    ];
    let network = RecordedNetwork::new(NetworkKind::Real, Vec::new(), Vec::new());
    let mut recording = Recording::new(network, entry("pgm").packets.format, 100);
    for (nanos, (event, _)) in (10..).zip(&events) {
        recording.event(Time::from_nanos(nanos), NodeId(9), event);
        // The names are those of the JSON trace.
        assert_eq!(serde_json::to_value(event).unwrap()["event"], event.name());
    }
    let read = Read::new(&recording.to_bytes(&Description::default()));
    let number = |value: f64, none: f64| if value == none { "-".to_owned() } else { value.to_string() };
    for (at, (_, expected)) in events.iter().enumerate() {
        let none = f64::from(columns::NO_NUMBER);
        let [name, packet, text] = ["events", "packets", "strings"].map(|table| read.word(table, at));
        let message = number(read.at("message", at), none);
        let (bytes, other) = (number(read.at("bytes", at), 0.0), number(read.at("other", at), none));
        assert_eq!(format!("{name} {message} {bytes} {other} {packet} {text}"), *expected);
        assert_eq!(
            [read.at("time", at), read.at("node", at), read.at("link", at)],
            [at as f64 + 10.0, 9.0, -1.0]
        );
        assert!(read.at("start", at).is_nan() && read.at("arrival", at).is_nan());
    }
}

#[test]
fn header_describes_the_run() {
    let network = RecordedNetwork::new(NetworkKind::Lan, Vec::new(), Vec::new());
    let mut recording =
        Recording::new(network, entry("pgm").packets.format, 2).titled("a \"title\"".to_owned(), "pgm");
    for nanos in [5, 9, 11] {
        recording.event(Time::from_nanos(nanos), NodeId(0), &Event::FrameDiscarded);
    }
    let metrics = RecordedMetric::means(&[("losses", vec![1.0, 4.0]), ("throughput_bps", vec![])]);
    let description =
        Description { seed: Some(3), scenario: Some("name = \"x\"\n"), metrics, ..Description::default() };
    let read = Read::new(&recording.to_bytes(&description));
    assert_eq!(read.header["title"], "a \"title\"");
    assert_eq!(read.header["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&read.header["seed"], &read.header["scenario"]), (&3.into(), &"name = \"x\"\n".into()));
    assert_eq!((&read.header["count"], &read.header["truncated"]), (&2.into(), &true.into()));
    assert_eq!(read.header["duration_ns"], 9.0);
    assert_eq!(read.header["metrics"].as_array().unwrap().len(), 1);
    assert_eq!(read.header["metrics"][0]["value"], 2.5);
    assert!(recording.is_truncated());
}

#[test]
fn damaged_files_are_refused_with_the_reason() {
    let network = RecordedNetwork::new(NetworkKind::Lan, Vec::new(), Vec::new());
    let mut recording = Recording::new(network, entry("pgm").packets.format, 2);
    recording.event(Time::ZERO, NodeId(0), &Event::FrameDiscarded);
    let whole = recording.to_bytes(&Description::default());
    let reason = |bytes: &[u8]| check(bytes).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(reason(&whole), Ok(()));
    for length in 0..whole.len() - 8 {
        let why = reason(&whole[..length]).unwrap_err();
        assert!(why.contains("truncated") || length < 12 && why.contains("first bytes"), "{length}: {why}");
    }
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        reason(&bytes).unwrap_err()
    };
    assert!(changed(0, b'X').contains("first bytes"));
    assert!(changed(4, 2).contains("version 2"));
    assert!(changed(12, b'[').contains("header"));
    assert!(changed(11, 0x7f).contains("needs 21"), "{}", changed(11, 0x7f));
    let count = b"\"count\":";
    let at = whole.windows(count.len()).position(|bytes| bytes == count).unwrap() + count.len();
    assert!(changed(at, b'9').contains("needs"));
}

/// Runs each protocol without losses: no packet is a repair.
#[test]
fn lossless_runs_have_no_repairs_but_links_and_roles() {
    for entry in REGISTRY {
        let network = match entry.networks {
            networks if networks.contains(&Kind::Graph) => {
                "kind = \"graph\"\ntopology = \"binary-tree\"\nheight = 2"
            }
            _ => "kind = \"lan\"\npropagation_delay = \"10 us\"",
        };
        let receivers = if network.contains("graph") { "" } else { "[group]\nreceivers = 3\n" };
        let text = format!(
            "name = \"x\"\n[network]\n{network}\n{receivers}[protocol]\nname = \"{}\"\n\
             [workload]\nmessages = 5\nmessage_bytes = 500\n",
            entry.name
        );
        let file =
            ScenarioFile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let run = &Plan::new(&file).unwrap().runs[0];
        let mut recording = Recording::of(&run.scenario, 100_000);
        let result = simulate(run, &mut recording, &mut Unsupervised)
            .unwrap_or_else(|error| panic!("{}: {error}", entry.name))
            .unwrap();
        let description =
            Description { metrics: RecordedMetric::means(&result.samples), ..Description::default() };
        let read = Read::new(&recording.to_bytes(&description));
        let frames = read.named("frame_sent");
        assert!(!frames.is_empty() && !read.named("delivered").is_empty(), "{}", entry.name);
        assert!(read.columns["time"].is_sorted(), "{}", entry.name);
        let repairs = frames.iter().filter(|&&at| read.word("packets", at).ends_with(" repair")).count();
        let resent = read.named("repair_sent").len();
        // Repetition and proactive parity repair before a loss.
        if resent == 0 {
            assert_eq!(repairs, 0, "{}: {:?}", entry.name, read.header["packets"]);
        }
        let is_lan = network.contains("lan");
        for at in frames {
            assert!(read.word("packets", at) != "-", "{}", entry.name);
            assert_eq!(read.at("link", at) < 0.0, is_lan, "{}", entry.name);
            assert!(
                read.at("start", at) >= read.at("time", at) && read.at("arrival", at) > read.at("start", at)
            );
        }
        let nodes = read.header["network"]["nodes"].as_array().unwrap();
        let roles = |role: &str| nodes.iter().filter(|node| node["role"] == role).count();
        assert!(roles("source") > 0 && roles("receiver") > 0, "{}: {nodes:?}", entry.name);
        assert_eq!(roles("router") > 0, network.contains("graph"), "{}", entry.name);
    }
}

/// A JSON trace of a run tells the same frames as the recording of the run, and the same arrivals.
#[test]
fn json_trace_becomes_the_recording_of_its_run() {
    let text = "name = \"x\"\n[network]\nkind = \"graph\"\ntopology = \"binary-tree\"\nheight = 3\n\
        [[loss]]\nmodel = \"bernoulli\"\np = 0.05\nlinks = \"all\"\n[protocol]\nname = \"pgm\"\n\
        [workload]\nmessages = 60\nmessage_bytes = 700\nrate = \"100 packet/s\"\n";
    let plan = Plan::new(&ScenarioFile::parse("x.toml", text).unwrap()).unwrap();
    let run = &plan.runs[0];
    let mut recording = Recording::of(&run.scenario, 100_000);
    simulate(run, &mut recording, &mut Unsupervised).unwrap().unwrap();
    let mut json = Vec::new();
    let mut lines =
        crate::trace::JsonLines::new(&mut json).naming_frames(run.scenario.protocol.packets.format);
    simulate(run, &mut lines, &mut Unsupervised).unwrap().unwrap();
    lines.finish().unwrap();
    let mut import = JsonImport::new(run.scenario.protocol.packets.format.kinds_by_name(), 100_000);
    for line in String::from_utf8(json).unwrap().lines() {
        import.line(line).unwrap();
    }
    let own = Read::new(&recording.to_bytes(&Description::default()));
    let read = Read::new(&import.finish().to_bytes(&Description::default()));
    assert_eq!(own.len(), read.len());
    let link = |read: &Read, at: usize| {
        let number = read.at("link", at) as i64;
        let link = (number >= 0).then(|| read.header["network"]["links"][number as usize / 2].clone())?;
        let (a, b) = (link["a"].as_u64()?, link["b"].as_u64()?);
        Some(if number % 2 == 0 { (a, b) } else { (b, a) })
    };
    let (mut same, mut frames) = (0, 0);
    for at in 0..own.len() {
        for column in ["time", "node", "bytes", "other"] {
            assert_eq!(own.at(column, at), read.at(column, at), "{column} of event {at}");
        }
        assert_eq!(own.word("events", at), read.word("events", at));
        assert_eq!(own.word("strings", at), read.word("strings", at));
        assert_eq!(link(&own, at), link(&read, at));
        if own.word("events", at) == "frame_sent" {
            frames += 1;
            let is_control = own.word("packets", at).ends_with(" control");
            let is_same = own.at("arrival", at) == read.at("arrival", at)
                && (is_control || own.at("message", at) == read.at("message", at))
                && own.word("packets", at) == read.word("packets", at);
            same += usize::from(is_same);
        }
    }
    // A lost frame has no arrival in the trace, and two copies of a request may be mistaken for each other.
    assert!(frames > 1000 && same * 100 > frames * 90, "{same} of {frames}");
    let roles = |read: &Read, role: &str| {
        let nodes = read.header["network"]["nodes"].as_array().unwrap().clone();
        nodes.iter().filter(|node| node["role"] == role).map(|node| node["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(roles(&own, "source"), roles(&read, "source"));
    assert_eq!(roles(&own, "receiver"), roles(&read, "receiver"));
}

#[test]
fn lines_that_are_no_events_are_refused_with_their_number() {
    let refused = |lines: &[&str]| {
        let mut import = JsonImport::new(BTreeMap::new(), 10);
        lines.iter().find_map(|line| import.line(line).err()).unwrap().to_string()
    };
    let good = "{\"time_ns\":0,\"node\":0,\"event\":\"offered\",\"message\":0,\"since_ns\":0}";
    assert!(refused(&[good, "", "{}"]).starts_with("line 3: no event of a trace: missing field"));
    assert!(refused(&["[1]"]).starts_with("line 1: "));
    let link = "{\"time_ns\":0,\"node\":0,\"event\":\"frame_sent\",\"link\":\"3-7\"}";
    assert_eq!(refused(&[link]), "line 1: no link \"3-7\": a link is two nodes, such as 3>7");
}

/// Rows of a table beside the events, as texts.
fn table(bytes: &[u8], name: &str) -> Vec<BTreeMap<String, f64>> {
    let read = Read::new(bytes);
    let table = &read.header[name];
    let count = table["count"].as_u64().unwrap() as usize;
    let columns = table["columns"].as_object().unwrap();
    let columns: Vec<_> = columns.iter().map(|(name, place)| (name, read.column(place, count))).collect();
    (0..count)
        .map(|row| columns.iter().map(|(name, values)| ((*name).clone(), values[row])).collect())
        .collect()
}

/// Every state and transition of the table is declared, and every instance that enters a state leaves it.
#[test]
fn tables_have_declared_states_and_timers_before_their_deadline() {
    let text = "name = \"x\"\n[network]\nkind = \"star\"\nlatency = \"5 ms\"\n[loss]\nmodel = \"bernoulli\"\np = 0.1\n\
        [group]\nreceivers = 4\n[protocol]\nname = \"pgm\"\n[workload]\nmessages = 100\nmessage_bytes = 100\n\
        rate = \"100 packet/s\"\n";
    let plan = Plan::new(&ScenarioFile::parse("x.toml", text).unwrap()).unwrap();
    let mut recording = Recording::of(&plan.runs[0].scenario, 100_000);
    simulate(&plan.runs[0], &mut recording, &mut Unsupervised).unwrap();
    let bytes = recording.to_bytes(&Description::default());
    check(&bytes).unwrap();
    let strings = Read::new(&bytes).header["strings"].clone();
    let declared = &entry("pgm").study.states[0];

    let mut open: BTreeMap<[u64; 2], String> = BTreeMap::new();
    let states = table(&bytes, "states");
    assert!(states.windows(2).all(|rows| rows[0]["time"] <= rows[1]["time"]));
    for row in &states {
        assert_eq!(strings[row["machine"] as usize], declared.of);
        let to = strings[row["state"] as usize].as_str().unwrap_or(carillon_core::PSEUDO_STATE);
        let instance = [row["node"] as u64, row["about"] as u64];
        let from = open.remove(&instance);
        let from = from.as_deref().unwrap_or(carillon_core::PSEUDO_STATE);
        assert!(declared.transition(from, to).is_some(), "{from} to {to}");
        if to != carillon_core::PSEUDO_STATE {
            open.insert(instance, to.to_owned());
        }
    }
    assert!(states.len() > 50, "{}", states.len());
    assert_eq!(open, BTreeMap::new(), "the run ends when every message is delivered");

    let timers = table(&bytes, "timers");
    assert!(timers.len() > 100, "{}", timers.len());
    assert!(timers.windows(2).all(|rows| rows[0]["since"] <= rows[1]["since"]));
    for row in &timers {
        assert!(row["since"] < row["end"] && row["end"] <= row["deadline"], "{row:?}");
    }
    let fired = timers.iter().filter(|row| row["end"] == row["deadline"]).count();
    assert!((1..timers.len()).contains(&fired), "{fired} of {}", timers.len());
}

/// The limit of events bounds the tables too.
#[test]
fn full_tables_truncate_the_recording() {
    let network = RecordedNetwork::new(NetworkKind::Star, Vec::new(), Vec::new());
    let mut recording = Recording::new(network, entry("ff").packets.format, 3);
    let idle = carillon_sim::Crashed;
    for at in 0..4 {
        assert!(!recording.is_truncated(), "{at}");
        let deadline = Time::from_nanos(10 + at * 10);
        recording.machine(Time::from_nanos(at * 10), NodeId(0), &idle, Some(deadline));
    }
    recording.machine(Time::from_nanos(40), NodeId(0), &idle, None);
    assert!(recording.is_truncated());
    assert_eq!(table(&recording.to_bytes(&Description::default()), "timers").len(), 3);
}
