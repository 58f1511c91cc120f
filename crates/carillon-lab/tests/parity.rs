//! Parity: one scenario through the simulator and over UDP on loopback gives the same deliveries
//! and the same kinds of events, for it is the same machines that run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Event, GroupId, Machine, NodeId, Probability,
    ProtocolEntry, Role, Seeds, Time, TraceEvent,
};
use carillon_net::{Driver, Endpoint, EndpointConfig};
use carillon_proto::find;
use carillon_sim::{Lan, LanConfig, World};
use carillon_testkit::{Contents, Offers, Oracle, Received, SENDER, Tape};

/// What is run in both ways.
struct Scenario {
    protocol: &'static ProtocolEntry,
    settings: &'static [(&'static str, &'static str)],
    receivers: u32,
    messages: u64,
    /// At every reception.
    loss: f64,
}

/// What came of it.
struct Outcome {
    receivers: Vec<Received>,
    /// The events by role, network-level ones aside.
    sender: Vec<Event>,
    receiver: Vec<Vec<Event>>,
}

const PAYLOAD: usize = 1_000;

fn contents() -> Contents {
    Contents::new(&Seeds::new(1), PAYLOAD)
}

/// The machine of node `node`; on UDP a host numbers itself 0 and its peers from 1, so the
/// numbers are the host's own.
fn machine(scenario: &Scenario, role: Role, node: NodeId, sender: NodeId, seed: u64) -> Box<dyn Machine> {
    let mut config = Config::defaults(scenario.protocol.parameters);
    for (key, value) in scenario.settings {
        config.set(scenario.protocol.parameters, key, value).unwrap();
    }
    let members = match role {
        Role::Sender => (1..=scenario.receivers).map(NodeId).collect(),
        Role::Receiver => [].into(),
        Role::Peer | Role::Relay | Role::Helper => unreachable!("protocols with one sender are compared"),
    };
    let context = BuildContext {
        association: AssociationId(1),
        node,
        sender,
        members,
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: Seeds::new(seed).part("machine"),
        bit_rate: BitRate::mbps(10),
        link_overhead: 18,
        max_payload: PAYLOAD as u32,
        memory: usize::MAX,
        rejoining: false,
    };
    (scenario.protocol.build)(role, &context, &config).unwrap()
}

fn simulated(scenario: &Scenario) -> Outcome {
    // A UDP host drops what arrives only; an interface of the Ethernet also what it sends. So half of
    // the loss at each end: the kinds of events are the same, their numbers are not compared.
    let loss = Probability::new(1.0 - (1.0 - scenario.loss).sqrt()).unwrap();
    let config = LanConfig { loss, ..LanConfig::default() };
    let lan = Lan::new(config, scenario.receivers as usize + 1, &Seeds::new(1));
    let mut world = World::new(lan, Tape::default());
    let offers = Offers::new(contents(), scenario.messages);
    world.add_node(machine(scenario, Role::Sender, SENDER, SENDER, 0), Some(Box::new(offers)));
    let mut received = Vec::new();
    for node in (1..=scenario.receivers).map(NodeId) {
        let oracle = Oracle::new(node, SENDER, contents(), Duration::ZERO);
        received.push(oracle.received());
        let machine = machine(scenario, Role::Receiver, node, SENDER, node.0.into());
        world.add_node(machine, Some(Box::new(oracle)));
    }
    world.start();
    world.run(Time::ZERO + Duration::from_secs(600), |world| {
        world.machine(SENDER).as_sender().is_some_and(|sender| sender.is_finished())
    });
    let tape = world.into_observer();
    let of = |node| protocol_events(tape.events.iter().filter(|event| event.node == node));
    Outcome {
        receivers: received.iter().map(|received| received.lock().unwrap().clone()).collect(),
        sender: of(SENDER),
        receiver: (1..=scenario.receivers).map(|node| of(NodeId(node))).collect(),
    }
}

/// One thread for each host. `None` if this machine has no multicast on loopback.
fn over_udp(scenario: &Scenario) -> Option<Outcome> {
    let group = group();
    let open = |listen: bool, seed: u64| {
        let config = EndpointConfig {
            interface: Some("lo".to_owned()),
            ttl: 1,
            listen,
            drop: Probability::new(scenario.loss).unwrap(),
            seeds: Seeds::new(seed),
            ..EndpointConfig::new(group)
        };
        Endpoint::open(config)
    };
    let endpoints: Result<Vec<Endpoint>, _> =
        (0..=scenario.receivers).map(|number| open(number > 0, number.into())).collect();
    let mut endpoints = match endpoints {
        Ok(endpoints) => endpoints.into_iter(),
        Err(error) => {
            carillon_testkit::skip(format_args!("{}: {error}", scenario.protocol.name));
            return None;
        }
    };
    let mut sender = endpoints.next().expect("the sender's is the first");
    let from = sender.local_addr();
    let done = Arc::new(AtomicBool::new(false));
    let ready = Arc::new(Barrier::new(scenario.receivers as usize + 1));
    let mut hosts = Vec::new();
    let mut received: Vec<Arc<Mutex<Received>>> = Vec::new();
    for (mut endpoint, number) in endpoints.zip(1..) {
        assert_eq!(sender.keep_peer(Time::ZERO, endpoint.local_addr()), Some(NodeId(number)));
        let source = endpoint.keep_peer(Time::ZERO, from).expect("the table is empty");
        let oracle = Oracle::new(NodeId(number), source, contents(), Duration::ZERO);
        received.push(oracle.received());
        let machine = machine(scenario, Role::Receiver, NodeId(0), source, number.into());
        let (done, ready) = (done.clone(), ready.clone());
        hosts.push(std::thread::spawn(move || {
            let mut driver = Driver::new(endpoint, machine, oracle, Tape::default());
            ready.wait();
            while !done.load(Ordering::Relaxed) {
                driver.step(Duration::from_millis(5)).unwrap();
            }
            let heard = driver.stats().datagrams_received;
            (driver.into_parts().3, heard)
        }));
    }
    let machine = machine(scenario, Role::Sender, SENDER, SENDER, 0);
    let mut driver =
        Driver::new(sender, machine, Offers::new(contents(), scenario.messages), Tape::default());
    ready.wait();
    let limit = Instant::now() + Duration::from_secs(30);
    let finished = loop {
        driver.step(Duration::from_millis(5)).unwrap();
        if driver.machine_mut().as_sender().is_some_and(|sender| sender.is_finished()) {
            break true;
        }
        if Instant::now() > limit {
            break false;
        }
    };
    done.store(true, Ordering::Relaxed);
    let (tapes, heard): (Vec<Tape>, Vec<u64>) =
        hosts.into_iter().map(|host| host.join().expect("no host panics")).unzip();
    if !finished && heard.iter().all(|&heard| heard == 0) {
        carillon_testkit::skip("a multicast sent on loopback does not arrive");
        return None;
    }
    assert!(finished, "{} was not done in half a minute", scenario.protocol.name);
    Some(Outcome {
        receivers: received.iter().map(|received| received.lock().unwrap().clone()).collect(),
        sender: protocol_events(driver.observer().events.iter()),
        receiver: tapes.iter().map(|tape| protocol_events(tape.events.iter())).collect(),
    })
}

/// A group and port that nobody uses.
fn group() -> SocketAddr {
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|s| s.local_addr()).unwrap().port();
    let [a, b, _, _] = std::process::id().to_le_bytes();
    SocketAddr::from(([239, 193, a, b], port))
}

/// What the protocol did; not what the network did, nor what only depends on how fast it was.
fn protocol_events<'a>(events: impl Iterator<Item = &'a TraceEvent>) -> Vec<Event> {
    let kept = |event: &&TraceEvent| {
        matches!(
            event.event,
            Event::Sent { .. }
                | Event::RepairSent { .. }
                | Event::ControlSent { .. }
                | Event::Received { .. }
                | Event::Delivered { .. }
                | Event::Completed { .. }
        )
    };
    let all = events.filter(kept).map(|event| match event.event {
        // Each host numbers its peers by itself.
        Event::Delivered { message, .. } => Event::Delivered { source: SENDER, message },
        _ => event.event.clone(),
    });
    all.collect()
}

/// How many events there are of each name.
fn kinds(events: &[Event]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for event in events {
        let value = serde_json::to_value(event).unwrap();
        *kinds.entry(value["event"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    kinds
}

fn compare(scenario: &Scenario) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let sim = simulated(scenario);
    let Some(udp) = over_udp(scenario) else { return };
    let name = scenario.protocol.name;
    for (index, (sim, udp)) in sim.receivers.iter().zip(&udp.receivers).enumerate() {
        for (way, received) in [("simulated", sim), ("udp", udp)] {
            let got = received.deliveries.len() as u64;
            assert_eq!(got, scenario.messages, "{name}, {way}, receiver {index}");
            assert_eq!(received.violations, [""; 0], "{name}, {way}");
        }
        let deliveries = |received: &Received| -> Vec<_> {
            received.deliveries.iter().map(|d| (d.message, d.payload.clone())).collect()
        };
        assert_eq!(deliveries(sim), deliveries(udp), "{name}, receiver {index}");
    }
    let names = |events: &[Event]| kinds(events).into_keys().collect::<BTreeSet<_>>();
    assert_eq!(names(&sim.sender), names(&udp.sender), "{name}, sender");
    assert_eq!(names(&sim.sender).contains("repair_sent"), scenario.loss > 0.0, "{name}");
    for (sim, udp) in sim.receiver.iter().zip(&udp.receiver) {
        assert_eq!(names(sim), names(udp), "{name}, receiver");
    }
    if scenario.loss == 0.0 {
        assert_eq!(kinds(&sim.sender), kinds(&udp.sender), "{name}, sender");
        for (sim, udp) in sim.receiver.iter().zip(&udp.receiver) {
            assert_eq!(kinds(sim), kinds(udp), "{name}, receiver");
        }
        // Nothing depends on time then: every receiver saw the very same.
        assert_eq!(sim.receiver, udp.receiver, "{name}");
    }
}

/// Timeouts long enough that no delay of a busy machine looks like a loss.
const PATIENT: &[(&str, &str)] =
    &[("timeout_method", "constant"), ("timeout", "20 s"), ("retransmission_limit", "1000")];
const PATIENT_WINDOWS: &[(&str, &str)] = &[
    ("timeout_method", "constant"),
    ("timeout", "20 s"),
    ("retransmission_limit", "1000"),
    ("window", "4"),
    ("ack_timeout", "20 s"),
];
const QUICK: &[(&str, &str)] =
    &[("timeout_method", "constant"), ("timeout", "20 ms"), ("retransmission_limit", "1000")];
const QUICK_WINDOWS: &[(&str, &str)] = &[
    ("timeout_method", "constant"),
    ("timeout", "40 ms"),
    ("retransmission_limit", "1000"),
    ("window", "4"),
    ("ack_timeout", "15 ms"),
];

fn entry(name: &str) -> &'static ProtocolEntry {
    find(name).expect("a protocol of the registry")
}

#[test]
fn without_loss_the_same_deliveries_and_the_same_events() {
    for (name, settings) in
        [("msaw", PATIENT), ("saw", PATIENT), ("mbap", PATIENT_WINDOWS), ("bap", PATIENT_WINDOWS)]
    {
        let protocol = entry(name);
        compare(&Scenario { protocol, settings, receivers: 3, messages: 24, loss: 0.0 });
    }
}

#[test]
fn under_loss_the_same_deliveries_and_the_same_kinds_of_events() {
    for (name, settings) in [("msaw", QUICK), ("saw", QUICK), ("mbap", QUICK_WINDOWS), ("bap", QUICK_WINDOWS)]
    {
        let protocol = entry(name);
        compare(&Scenario { protocol, settings, receivers: 3, messages: 24, loss: 0.1 });
    }
}

/// Real time is shared: one run after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
