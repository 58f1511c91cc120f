//! Parity: one scenario gives the same deliveries and the same kinds of events in the simulator and over UDP on
//! loopback, as the same machines run in both. It covers every protocol of the registry, with settings for machines
//! that may pause for a while.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use carillon_core::{
    Addresses, Application, AssociationId, BitRate, BuildContext, Bytes, Config, Event, GroupId, Identities,
    Machine, MessageId, NetworkKind, NodeId, Probability, ProtocolEntry, Role, Seeds, Time, TraceEvent,
};
use carillon_net::{Driver, Endpoint, EndpointConfig};
use carillon_proto::REGISTRY;
use carillon_sim::World;
use carillon_testkit::{
    Contents, DeliveryGuarantee, Link, MessageSource, Oracle, Received, Recorder, Star, Trial, TrialNetwork,
    chosen, first_seed, loopback_group, protocol_tests, sampling_step,
};

/// Scenario for both drivers. Host 0 sends.
struct Scenario {
    entry: &'static ProtocolEntry,
    settings: Config,
    /// At every reception.
    loss: f64,
}

/// Outcome of a run, by host.
struct Outcome {
    /// Delivered messages with their bytes.
    delivered: Vec<Vec<(MessageId, Bytes)>>,
    violations: Vec<String>,
    events: Vec<Vec<Event>>,
}

const HOSTS: u32 = 4;
/// No more than any trial has room for.
const MESSAGES: u64 = 16;
const PAYLOAD: usize = 1_000;

#[test]
fn without_loss_the_same_deliveries_and_the_same_events() {
    for_all(0.0);
}

#[test]
fn under_loss_the_same_deliveries_and_the_same_kinds_of_events() {
    for_all(0.1);
}

fn for_all(loss: f64) {
    let _one = MULTICAST_LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let chosen = chosen(REGISTRY, REGISTRY.iter().copied());
    // With losses one of three, unless it is asked for.
    let step = if loss > 0.0 && chosen.len() > 1 { sampling_step(3) } else { 1 };
    for entry in chosen.into_iter().step_by(step) {
        let why = match protocol_tests(entry).guarantee {
            _ if !entry.networks.contains(&NetworkKind::Udp) => "it does not run on UDP",
            DeliveryGuarantee::BestEffort if loss > 0.0 => "it repairs nothing, and what is lost is chance",
            _ => "",
        };
        if !why.is_empty() {
            println!("{} is not compared at {loss} loss: {why}", entry.name);
            continue;
        }
        let seed = first_seed();
        let mut rng = Seeds::new(seed).stream("parity");
        let mut trial = Trial::new(entry.parameters, TrialNetwork::Loopback, HOSTS, &mut rng);
        trial.is_lossy = loss > 0.0;
        (protocol_tests(entry).trial)(&mut trial);
        let scenario = Scenario { entry, settings: trial.into_config(), loss };
        if !agrees(&scenario) {
            return;
        }
        println!("{} agrees at {loss} loss, seed {seed}", entry.name);
    }
}

/// A protocol, settings, and at which losses.
type Way = (&'static str, &'static [(&'static str, &'static str)], &'static [f64]);

/// The settings of XTP that name what an association is, each of which a trial seldom draws.
#[test]
fn each_paradigm_of_xtp_is_the_same_over_udp() {
    let _one = MULTICAST_LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let ways: &[Way] = &[
        ("xtp", &[("paradigm", "stream")], &[0.0, 0.1]),
        ("xtp", &[("paradigm", "stream"), ("data_in_first", "true")], &[0.0, 0.1]),
        ("xtp", &[("feedback", "slotted"), ("slots", "4")], &[0.0, 0.1]),
        ("xtp", &[("feedback", "slotted"), ("error_control", "selective")], &[0.1]),
        ("xtp", &[("paradigm", "acknowledged-datagram")], &[0.0, 0.1]),
        ("xtp", &[("paradigm", "transaction")], &[0.0, 0.1]),
        ("xtp-datagram", &[], &[0.0]),
    ];
    for &(name, way, losses) in ways.iter().step_by(sampling_step(3)) {
        let entry = carillon_proto::find(name).expect("it is in the registry");
        for &loss in losses {
            let mut settings = Config::defaults(entry.parameters);
            let common: &[(&str, &str)] = match entry.delivery.confirmed {
                true => &[("wtimer_min", "40 ms"), ("ctimeout", "10000 s")],
                false => &[("rate", "1 Mbit/s"), ("burst", "2000 byte")],
            };
            for (key, value) in common.iter().chain(way) {
                settings.set(entry.parameters, key, value).expect("it takes it");
            }
            if !agrees(&Scenario { entry, settings, loss }) {
                return;
            }
            println!("{name} {way:?} agrees at {loss} loss");
        }
    }
}

/// Returns false without a network; panics if the two drivers differ.
fn agrees(scenario: &Scenario) -> bool {
    let simulated = simulated(scenario);
    let Some(real) = over_udp(scenario) else { return false };
    compare(scenario, &simulated, &real);
    true
}

fn compare(scenario: &Scenario, simulated: &Outcome, real: &Outcome) {
    let Scenario { entry, loss, .. } = scenario;
    let name = entry.name;
    for (way, outcome) in [("simulated", simulated), ("over UDP", real)] {
        assert_eq!(outcome.violations, [""; 0], "{name} {way}");
        for host in 1..HOSTS as usize {
            assert_eq!(outcome.delivered[host].len() as u64, MESSAGES, "{name} {way}, host {host}");
        }
        let is_repair =
            |event: &Event| matches!(event, Event::RepairSent { .. } | Event::Forwarded { repair: true, .. });
        let repairs = outcome.events.iter().flatten().filter(|event| is_repair(event)).count();
        assert!(*loss == 0.0 || repairs > 0, "{name} {way}: nothing was repaired");
    }
    // A sender that delivers its own messages may not have them all yet.
    assert_eq!(simulated.delivered[1..], real.delivered[1..], "{name}");
    for (host, (one, other)) in simulated.events.iter().zip(&real.events).enumerate() {
        // Keep only events that occur once per message, and the outcome of each.
        let of_messages = |events: &[Event]| -> Vec<Event> {
            let kept = |event: &&Event| {
                matches!(event, Event::Delivered { .. }) && host > 0
                    || matches!(event, Event::Completed { .. }) && is_told_at_once(entry)
            };
            // How much shared an acknowledgment depends on the time.
            let plain = |event: &Event| match *event {
                Event::Completed { message, outcome, .. } => Event::Completed { message, outcome, window: 0 },
                ref event => event.clone(),
            };
            events.iter().filter(kept).map(plain).collect()
        };
        assert_eq!(of_messages(one), of_messages(other), "{name}, host {host}");
        let first_sent = |events: &[Event]| -> Vec<MessageId> {
            let sent = events.iter().filter_map(|event| match *event {
                Event::Sent { message, .. } => Some(message),
                _ => None,
            });
            sent.collect()
        };
        assert_eq!(first_sent(one), first_sent(other), "{name}, host {host}");
        // Packets about messages. Periodic packets depend on the clock and may or may not occur.
        if is_told_at_once(entry) && *loss == 0.0 {
            let packets = |events: &[Event]| -> BTreeSet<&'static str> {
                let packets = events.iter().filter_map(|event| match event {
                    Event::ControlSent { packet, .. } | Event::Received { packet, .. } => Some(*packet),
                    _ => None,
                });
                // A poll that could be piggybacked is sent alone if no packet leaves in time, and a sender's state is
                // periodic.
                packets.filter(|packet| !["poll", "state"].contains(packet)).collect()
            };
            // Hosts that stop for a while ask for more.
            let (one, other) = (packets(one), packets(other));
            assert!(one.is_subset(&other), "{name}, host {host}: {one:?} simulated, {other:?} over UDP");
        }
    }
}

/// Returns true if a sender finishes soon after the last arrival.
fn is_told_at_once(entry: &ProtocolEntry) -> bool {
    matches!(protocol_tests(entry).guarantee, DeliveryGuarantee::Acknowledged { .. })
}

/// Numbering of host `host`: the common one in the simulator; over UDP, 0 for itself and the others from 1.
#[derive(Clone, Copy)]
struct Numbering {
    host: u32,
    is_own: bool,
}

impl Numbering {
    fn of(self, other: u32) -> NodeId {
        NodeId(match other {
            other if !self.is_own => other,
            other if other == self.host => 0,
            other if other < self.host => other + 1,
            other => other,
        })
    }
}

/// The machine of a host.
fn machine(scenario: &Scenario, numbering: Numbering, addresses: Addresses) -> Box<dyn Machine> {
    let (entry, host) = (scenario.entry, numbering.host);
    let role = match host {
        _ if entry.roles.contains(&Role::Peer) => Role::Peer,
        0 => Role::Sender,
        _ => Role::Receiver,
    };
    let members: Vec<u32> = match role {
        Role::Peer => (0..HOSTS).collect(),
        Role::Sender => (1..HOSTS).collect(),
        _ => Vec::new(),
    };
    let names = members.iter().map(|&member| member.into()).collect();
    let context = BuildContext {
        association: AssociationId(1),
        node: numbering.of(host),
        sender: numbering.of(0),
        members: members.iter().map(|&member| numbering.of(member)).collect(),
        helpers: Default::default(),
        identities: Identities::agreed(host.into(), names),
        addresses,
        group: GroupId(0),
        seeds: Seeds::new(host.into()).part("machine"),
        bit_rate: BitRate::mbps(10),
        link_overhead: 18,
        max_payload: PAYLOAD as u32,
        memory: usize::MAX,
        rejoining: false,
    };
    (entry.build)(role, &context, &scenario.settings)
        .unwrap_or_else(|error| panic!("{}: {error}", entry.name))
}

/// Application of a host, and the messages it will have received.
fn application(scenario: &Scenario, numbering: Numbering) -> (Box<dyn Application>, Arc<Mutex<Received>>) {
    let contents = Contents::new(&Seeds::new(1), PAYLOAD);
    let oracle = Oracle::new(numbering.of(numbering.host), numbering.of(0), contents.clone(), Duration::ZERO);
    let received = oracle.received();
    let application: Box<dyn Application> = match (numbering.host, scenario.entry.roles.contains(&Role::Peer))
    {
        (0, false) => Box::new(MessageSource::new(contents, MESSAGES)),
        (0, true) => Box::new((MessageSource::new(contents, MESSAGES), oracle)),
        (_, false) => Box::new(oracle),
        (_, true) => Box::new((MessageSource::new(contents, 0), oracle)),
    };
    (application, received)
}

/// Returns true if all receivers have everything.
fn all_have(received: &[Arc<Mutex<Received>>]) -> bool {
    let has =
        |one: &Arc<Mutex<Received>>| one.lock().expect("no host panics").deliveries.len() as u64 >= MESSAGES;
    received[1..].iter().all(has)
}

fn outcome(received: &[Arc<Mutex<Received>>], tapes: Vec<Vec<TraceEvent>>) -> Outcome {
    let received: Vec<Received> =
        received.iter().map(|received| received.lock().expect("no host panics").clone()).collect();
    // Each host numbers the others independently.
    let plain = |event: TraceEvent| match event.event {
        Event::Delivered { message, .. } => Event::Delivered { source: NodeId(0), message },
        event => event,
    };
    Outcome {
        delivered: received
            .iter()
            .map(|received| received.deliveries.iter().map(|d| (d.message, d.payload.clone())).collect())
            .collect(),
        violations: received.into_iter().flat_map(|received| received.violations).collect(),
        events: tapes.into_iter().map(|tape| tape.into_iter().map(plain).collect()).collect(),
    }
}

fn simulated(scenario: &Scenario) -> Outcome {
    let star = Star::new(HOSTS, Link::losing(scenario.loss), &Seeds::new(1));
    let mut world = World::new(star, Recorder::default());
    let mut received = Vec::new();
    for host in 0..HOSTS {
        let numbering = Numbering { host, is_own: false };
        let (application, one) = application(scenario, numbering);
        received.push(one);
        world.add_node(machine(scenario, numbering, Addresses::default()), Some(application));
    }
    world.start();
    world.run(Time::ZERO + Duration::from_secs(600), |world| {
        let sender = world.machine(NodeId(0)).as_sender();
        let is_finished = sender.is_some_and(|sender| sender.is_finished());
        all_have(&received) && (is_finished || !is_told_at_once(scenario.entry))
    });
    let events = world.into_observer().events;
    let of = |host| events.iter().filter(|event| event.node == NodeId(host)).cloned().collect();
    outcome(&received, (0..HOSTS).map(of).collect())
}

/// Runs the scenario over UDP with one thread per host. `None` if this machine has no multicast on loopback.
fn over_udp(scenario: &Scenario) -> Option<Outcome> {
    let group = loopback_group()?;
    let open = |host: u32| {
        let config = EndpointConfig {
            interface: Some("lo".to_owned()),
            ttl: 1,
            listen: true,
            drop: Probability::new(scenario.loss).expect("a probability"),
            seeds: Seeds::new(host.into()),
            ..EndpointConfig::new(group)
        };
        Endpoint::open(config).unwrap_or_else(|error| panic!("{}: {error}", scenario.entry.name))
    };
    let endpoints: Vec<Endpoint> = (0..HOSTS).map(open).collect();
    let at: Vec<_> = endpoints.iter().map(Endpoint::local_addr).collect();
    let (over, finished) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let ready = Arc::new(Barrier::new(HOSTS as usize + 1));
    let (mut hosts, mut received) = (Vec::new(), Vec::new());
    for (mut endpoint, host) in endpoints.into_iter().zip(0..) {
        let numbering = Numbering { host, is_own: true };
        for other in (0..HOSTS).filter(|&other| other != host) {
            let number = endpoint.keep_peer(Time::ZERO, at[other as usize]);
            assert_eq!(number, Some(numbering.of(other)));
        }
        let machine = machine(scenario, numbering, endpoint.addresses(numbering.of(host)));
        let (application, one) = application(scenario, numbering);
        received.push(one);
        let (over, finished, ready) = (over.clone(), finished.clone(), ready.clone());
        hosts.push(std::thread::spawn(move || {
            let mut driver = Driver::new(endpoint, machine, application, Recorder::default());
            ready.wait();
            while !over.load(Ordering::Relaxed) {
                driver.step(Duration::from_millis(5)).expect("loopback works");
                if host == 0 && driver.machine_mut().as_sender().is_some_and(|sender| sender.is_finished()) {
                    finished.store(true, Ordering::Relaxed);
                }
            }
            let heard = driver.stats().datagrams_received;
            (driver.into_parts().3.events, heard)
        }));
    }
    ready.wait();
    let limit = Instant::now() + Duration::from_secs(60);
    let is_done =
        || all_have(&received) && (finished.load(Ordering::Relaxed) || !is_told_at_once(scenario.entry));
    while !is_done() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(2));
    }
    let is_done = is_done();
    over.store(true, Ordering::Relaxed);
    let (tapes, heard): (Vec<_>, Vec<u64>) =
        hosts.into_iter().map(|host| host.join().expect("no host panics")).unzip();
    if !is_done && heard[1..].iter().all(|&heard| heard == 0) {
        carillon_testkit::skip("a multicast sent on loopback does not arrive");
        return None;
    }
    assert!(is_done, "{} was not done in a minute: {:?}", scenario.entry.name, scenario.settings);
    Some(outcome(&received, tapes))
}

/// Real time is shared: one run after the other.
static MULTICAST_LOCK: Mutex<()> = Mutex::new(());
