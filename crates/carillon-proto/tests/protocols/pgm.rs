//! PGM over routed networks in figures: recovery latency, number of repairs, and packet sizes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, DropReason, Event, GroupId, MessageId, NodeId, Probability,
    ProtocolEntry, Role, Seeds, Time,
};
use carillon_proto::protocols::{lms, pgm::ENTRY};
use carillon_sim::World;
use carillon_sim::graph::{Graph, GraphConfig, Link, LossModel, SingleLoss, Topology};
use carillon_testkit::{Contents, Group, MessageSource, Oracle, Recorder, random_network};

/// Link with a delay in microseconds.
fn link(a: u32, b: u32, micros: u64) -> Link {
    Link::new([NodeId(a), NodeId(b)], Duration::from_micros(micros))
}

/// Runs with the source at node 0 and one loss of message 5 on the first link, from node 0.
fn run(topology: Topology, settings: &[(&str, &str)]) -> Recorder {
    run_with(topology, settings, (0, NodeId(0)), None)
}

/// Runs with a loss of message 5 on a link, and optionally a link that breaks after a third of a second. Messages are
/// packets of 1000 bytes every 100 ms on links of 1.5 Mbit/s.
fn run_with(
    topology: Topology,
    settings: &[(&str, &str)],
    (link, from): (u32, NodeId),
    breaks: Option<u32>,
) -> Recorder {
    let seeds = Seeds::new(1);
    let topology = Arc::new(topology);
    let config = GraphConfig { overhead: IP_UDP_OVERHEAD, ..GraphConfig::default() };
    let mut graph = Graph::new(topology.clone(), config, &seeds);
    graph.lose(link, from, SingleLoss { source: NodeId(0), message: MessageId(5) });
    let mut values = Config::defaults(ENTRY.parameters);
    for (key, value) in settings {
        values.set(ENTRY.parameters, key, value).expect("a setting");
    }
    let mut roles = Vec::new();
    for node in (0..topology.nodes() as u32).map(NodeId) {
        let role = match node {
            NodeId(0) => Role::Sender,
            _ if topology.receivers.contains(&node) => Role::Receiver,
            _ => Role::Relay,
        };
        match role {
            Role::Receiver => graph.join(GroupId(0), node),
            Role::Relay => graph.set_relay(node),
            _ => {}
        }
        roles.push((node, role));
    }
    let payload = 1000 - IP_UDP_OVERHEAD - 24;
    let contents = Contents::equal(&seeds, payload as usize);
    let mut world = World::new(graph, Recorder::default());
    for (node, role) in roles {
        let context = BuildContext {
            association: AssociationId(1),
            node,
            sender: NodeId(0),
            members: topology.receivers.clone().into(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: seeds.node(node),
            bit_rate: BitRate::mbps(10),
            link_overhead: IP_UDP_OVERHEAD,
            max_payload: payload,
            memory: usize::MAX,
            rejoining: false,
        };
        let machine = (ENTRY.build)(role, &context, &values).expect("a machine");
        let every = Duration::from_millis(100);
        world.add_node(
            machine,
            match role {
                Role::Sender => Some(Box::new(MessageSource::new(contents.clone(), 10).every(every))),
                Role::Receiver => {
                    Some(Box::new(Oracle::new(node, NodeId(0), contents.clone(), Duration::ZERO)))
                }
                _ => None,
            },
        );
    }
    world.start();
    if let Some(link) = breaks {
        let at = Time::ZERO + Duration::from_millis(333);
        world.run(at, |_| false);
        world.pass_to(at);
        world.network().set_up(link, false);
    }
    world.run(Time::ZERO + Duration::from_secs(10), |_| false);
    world.into_observer()
}

/// Latency of each recovery, and number of repairs by the source.
fn recoveries(recorder: &Recorder) -> (BTreeMap<NodeId, Duration>, usize) {
    let (mut found, mut latency, mut repairs) = (BTreeMap::new(), BTreeMap::new(), 0);
    for event in &recorder.events {
        match event.event {
            Event::LossFound { message, .. } => drop(found.insert((event.node, message), event.time)),
            Event::LossRepaired { message, .. } => {
                let since = found.remove(&(event.node, message)).expect("a loss is found first");
                latency.insert(event.node, event.time - since);
            }
            Event::RepairSent { .. } => repairs += 1,
            Event::LossFinal { .. } => panic!("{event}"),
            // PGM has no exposure: repairs reach only receivers that miss the packet.
            Event::Dropped { reason } => assert_ne!(reason, DropReason::Duplicate, "at {}", event.node),
            _ => {}
        }
    }
    assert!(found.is_empty(), "{found:?}");
    (latency, repairs)
}

/// Settings of the evaluation of LMS, SRM and PGM: no back-off, and immediate repairs by the source.
const NO_DELAYS: &[(&str, &str)] =
    &[("nak_bo_ivl", "0 ms"), ("rdata_delay", "0 ms"), ("ne_nak_rpt_rte", "1 s")];

/// ns-2 gives 153.621 ms for this tree with NAKs of 48 bytes; with IP and UDP they have 64 here.
#[test]
fn recovery_latency_is_the_round_trip_to_the_source() {
    // The source is at the root of a binary tree of height 5 with 32 receivers at the leaves: six links.
    let mut topology = Topology::new(64);
    topology.add_link(link(0, 1, 10_000));
    for node in 2..64 {
        topology.add_link(link(node / 2, node, 10_000));
    }
    topology.receivers = (32..64).map(NodeId).collect();
    let (latency, repairs) = recoveries(&run(topology, NO_DELAYS));
    let on_link = |bytes: u64| Duration::from_millis(10) + on_wire(bytes);
    // The NCF leaves the source before the repair.
    let expected = 6 * on_link(64) + on_wire(64) + 6 * on_link(1000);
    assert_eq!(latency.len(), 32);
    for (node, latency) in latency {
        assert!(
            latency.abs_diff(expected) < Duration::from_micros(1),
            "{node}: {latency:?}, not {expected:?}"
        );
    }
    assert_eq!(repairs, 1);
}

/// The repair for the near receiver deletes the state before the far receiver requests.
#[test]
fn slow_branch_causes_second_repair_unless_delayed() {
    let topology = || {
        let mut topology = Topology::new(4);
        for link in [link(0, 3, 10_000), link(3, 1, 1_000), link(3, 2, 20_000)] {
            topology.add_link(link);
        }
        topology.receivers = vec![NodeId(1), NodeId(2)];
        topology
    };
    let (latency, repairs) = recoveries(&run(topology(), NO_DELAYS));
    assert_eq!((latency.len(), repairs), (2, 2));
    let round_trip = 2 * Duration::from_millis(30) + 2 * (on_wire(64) + on_wire(1000));
    assert!(latency[&NodeId(2)].abs_diff(round_trip) < Duration::from_millis(2), "{latency:?}");
    // The far request reaches the branching router 40 ms after the near receiver found the loss, and the first repair
    // after 27 ms. A repair that arrives later serves both.
    let waits = [&NO_DELAYS[..1], &[("rdata_delay", "30 ms")], &NO_DELAYS[2..]].concat();
    let (latency, repairs) = recoveries(&run(topology(), &waits));
    assert_eq!((latency.len(), repairs), (2, 1));
}

/// Topology with a repairer 1 ms and a receiver 20 ms behind router 3, and the source 10 ms before it.
fn behind_one_router() -> Topology {
    let mut topology = Topology::new(4);
    for link in [link(0, 3, 10_000), link(3, 1, 1_000), link(3, 2, 20_000)] {
        topology.add_link(link);
    }
    topology.receivers = vec![NodeId(1), NodeId(2)];
    topology
}

/// Makes the first receiver a repairer.
const ONE_REPAIRER: (&str, &str) = ("dlr_every", "2");

#[test]
fn repairer_repairs_loss_beside_it_without_the_source() {
    let settings = [NO_DELAYS, &[ONE_REPAIRER]].concat();
    let recorder = run_with(behind_one_router(), &settings, (2, NodeId(3)), None);
    let (latency, repairs) = recoveries(&recorder);
    let ms = Duration::from_millis;
    // The repairer sends an NCF and an N-NAK before the repair.
    let expected = ms(20)
        + on_wire(64)
        + ms(1)
        + on_wire(64)
        + 2 * on_wire(64)
        + ms(1)
        + on_wire(1000)
        + ms(20)
        + on_wire(1000);
    assert_eq!((latency.len(), repairs), (1, 0));
    assert!(
        latency[&NodeId(2)].abs_diff(expected) < Duration::from_micros(1),
        "{latency:?}, not {expected:?}"
    );
    let by = |event: &Event| matches!(event, Event::Forwarded { repair: true, message: MessageId(5), .. });
    let by: Vec<NodeId> = recorder.events.iter().filter(|it| by(&it.event)).map(|it| it.node).collect();
    assert_eq!(by, [NodeId(1)]);
    // Without a repairer: the path to the source and back.
    let (latency, repairs) = recoveries(&run_with(behind_one_router(), NO_DELAYS, (2, NodeId(3)), None));
    assert_eq!(repairs, 1);
    let without = latency[&NodeId(2)];
    assert!(without.abs_diff(recovery_time_from_the_source()) < Duration::from_micros(1), "{without:?}");
    println!("with {expected:?}, without {without:?}");
}

/// Recovery time of receiver 2 from the source.
fn recovery_time_from_the_source() -> Duration {
    Duration::from_millis(60) + 3 * on_wire(64) + 2 * on_wire(1000)
}

#[test]
fn dead_repairer_costs_one_interval() {
    let settings = [NO_DELAYS, &[ONE_REPAIRER, ("dlr_nak_rpt_ivl", "100 ms")]].concat();
    let recorder = run_with(behind_one_router(), &settings, (2, NodeId(3)), Some(1));
    let (latency, repairs) = recoveries(&recorder);
    let expected = recovery_time_from_the_source() + Duration::from_millis(100);
    assert_eq!((latency.len(), repairs), (1, 1));
    assert!(
        latency[&NodeId(2)].abs_diff(expected) < Duration::from_micros(1),
        "{latency:?}, not {expected:?}"
    );
}

/// The loss is on the source's link, so that the repairer misses the packet too.
#[test]
fn source_repairs_loss_shared_with_the_repairer() {
    let settings = [NO_DELAYS, &[ONE_REPAIRER]].concat();
    let (latency, with) = recoveries(&run(behind_one_router(), &settings));
    let (plain, without) = recoveries(&run(behind_one_router(), NO_DELAYS));
    assert_eq!(latency[&NodeId(1)], plain[&NodeId(1)]);
    // The far receiver requests when the repairer has its repair already.
    assert_eq!((with, without), (1, 2));
    assert!(latency[&NodeId(2)] < plain[&NodeId(2)], "{latency:?}, {plain:?}");
}

/// Makes routers store and repair packets.
const ON_TREE: (&str, &str) = ("ne_dlr_sqns", "64");

/// Nodes that sent repairs, and the recovery latencies.
fn repairers(recorder: &Recorder) -> (Vec<NodeId>, BTreeMap<NodeId, Duration>) {
    let is_repair =
        |event: &Event| matches!(event, Event::RepairSent { .. } | Event::Forwarded { repair: true, .. });
    (
        recorder.events.iter().filter(|it| is_repair(&it.event)).map(|it| it.node).collect(),
        recoveries(recorder).0,
    )
}

/// Three routers in a row: the node above the loss repairs it, and the latency is the round trip to that node.
#[test]
fn router_above_the_loss_repairs() {
    let delays = [5_000, 7_000, 11_000, 13_000];
    for lost_by in 0..4_u32 {
        let mut topology = Topology::new(5);
        for (node, &micros) in (0..4).zip(&delays) {
            topology.add_link(link(node, node + 1, micros));
        }
        topology.receivers = vec![NodeId(4)];
        let run = |settings: &[(&str, &str)]| {
            let recorder = run_with(topology.clone(), settings, (lost_by, NodeId(lost_by)), None);
            repairers(&recorder)
        };
        // The repairing node sends an NCF before the repair.
        let from = |node: u32| {
            let way: u64 = delays[node as usize..].iter().sum();
            2 * Duration::from_micros(way) + (4 - node) * (on_wire(64) + on_wire(1000)) + on_wire(64)
        };
        for (settings, node) in [(NO_DELAYS, 0), (&[NO_DELAYS, &[ON_TREE]].concat(), lost_by)] {
            let (by, latency) = run(settings);
            let (expected, latency) = (from(node), latency[&NodeId(4)]);
            println!("lost by {lost_by}, repaired by {by:?} in {latency:?}");
            assert_eq!(by, [NodeId(node)]);
            assert!(latency.abs_diff(expected) < Duration::from_micros(1), "{latency:?}, not {expected:?}");
        }
    }
}

/// A packet that passed for the near branch is stored for the slow one: the source repairs once.
#[test]
fn repairing_router_spares_the_second_repair() {
    let settings = [NO_DELAYS, &[ON_TREE]].concat();
    let (by, latency) = repairers(&run(behind_one_router(), &settings));
    let (_, plain) = recoveries(&run(behind_one_router(), NO_DELAYS));
    assert_eq!((by, plain), (vec![NodeId(0), NodeId(3)], 2));
    let expected = 2 * Duration::from_millis(20) + 2 * on_wire(64) + on_wire(1000);
    let as_expected = |latency: &BTreeMap<NodeId, Duration>| {
        let latency = latency[&NodeId(2)];
        assert!(latency.abs_diff(expected) < Duration::from_micros(1), "{latency:?}, not {expected:?}");
    };
    as_expected(&latency);
    // As for a loss behind the router, which does not ask off-tree repairers for stored packets.
    for settings in [settings.clone(), [&settings[..], &[ONE_REPAIRER]].concat()] {
        let (by, latency) = repairers(&run_with(behind_one_router(), &settings, (2, NodeId(3)), None));
        assert_eq!(by, [NodeId(3)]);
        as_expected(&latency);
    }
}

/// Cost of repairs.
#[derive(Debug, Default)]
struct Costs {
    recoveries: u32,
    by_source: u32,
    by_others: u32,
    waits: Duration,
    control: u32,
    duplicates: u32,
}

impl Costs {
    fn per_recovery(&self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.recoveries)
    }
}

/// Cost in random networks of 4 routers and 12 receivers with 2 % loss on each link: ten networks, or
/// `CARILLON_RUNS`.
fn over_random_networks(entry: &'static ProtocolEntry, settings: &[(&str, &str)]) -> Costs {
    let mut costs = Costs::default();
    let runs = std::env::var("CARILLON_RUNS").ok().and_then(|text| text.parse().ok());
    for seed in 0..runs.unwrap_or(10) {
        let mut rng = Seeds::new(seed).stream("repairers");
        let topology = random_network(12, 4, 0, Duration::from_millis(20), &mut rng);
        let group = Group::new(entry, seed).receivers(12).messages(50).interval(Duration::from_millis(50));
        let group = settings.iter().fold(group, |group, (key, value)| group.set(key, value));
        let group = group.afterwards(Duration::from_secs(20));
        let loss = LossModel::Bernoulli(Probability::new(0.02).expect("a probability"));
        let config = GraphConfig { overhead: IP_UDP_OVERHEAD, ..GraphConfig::default() };
        let report = group.run_graph(Arc::new(topology), config, loss);
        report.check_reliable().expect("all is repaired");
        let mut found = BTreeMap::new();
        for it in &report.events {
            match it.event {
                Event::LossFound { message, .. } => drop(found.insert((it.node, message), it.time)),
                Event::LossRepaired { message, .. } => {
                    let since = found.remove(&(it.node, message)).expect("a loss is found first");
                    costs.recoveries += 1;
                    costs.waits += it.time - since;
                }
                Event::RepairSent { .. } => costs.by_source += 1,
                Event::Forwarded { repair: true, .. } => costs.by_others += 1,
                Event::ControlSent { packet: "nak" | "ncf" | "n-nak", .. } => costs.control += 1,
                Event::Dropped { reason: DropReason::Duplicate } => costs.duplicates += 1,
                _ => {}
            }
        }
    }
    println!(
        "{} {settings:?}: {} recoveries, {:.2} repairs each by the source, {:.2} by others, {:.1} ms, {:.1} requests, confirmations and N-NAKs, {} duplicates",
        entry.name,
        costs.recoveries,
        costs.per_recovery(costs.by_source),
        costs.per_recovery(costs.by_others),
        costs.waits.as_secs_f64() * 1e3 / f64::from(costs.recoveries),
        costs.per_recovery(costs.control),
        costs.duplicates
    );
    costs
}

/// Repairers relieve the source where receivers are spread over the routers, both off the tree and in the routers.
#[test]
fn repairers_take_most_repairs_from_the_source() {
    let with = |settings: &[(&str, &str)]| {
        over_random_networks(
            &ENTRY,
            &[&[("rdata_delay", "0 ms"), ("nak_bo_ivl", "10 ms")], settings].concat(),
        )
    };
    let none = with(&[]);
    let share = |costs: &Costs| costs.per_recovery(costs.by_source);
    for off_tree in ["4", "2", "1"] {
        assert!(3.0 * share(&with(&[("dlr_every", off_tree)])) < share(&none));
    }
    for settings in [&[("ne_dlr_sqns", "64")][..], &[("ne_dlr_sqns", "64"), ("dlr_every", "2")]] {
        let on_tree = with(settings);
        assert!(8.0 * share(&on_tree) < share(&none), "{on_tree:?}");
        let latency = |costs: &Costs| costs.waits / costs.recoveries;
        assert!(3 * latency(&on_tree) < 2 * latency(&none), "{on_tree:?}, {none:?}");
    }
    // A small store suffices if requests come soon.
    assert!(4.0 * share(&with(&[("ne_dlr_sqns", "4")])) < share(&none));
    // Lost repairs, which wait for the next request, dominate the mean.
    let soon = with(&[("ne_dlr_sqns", "64"), ("nak_rdata_ivl", "200 ms"), ("nak_elim_ivl", "100 ms")]);
    assert!(soon.waits / soon.recoveries < Duration::from_millis(60), "{soon:?}");
    over_random_networks(&lms::ENTRY, &[]);
}

/// Transmission time of a packet of `bytes` bytes.
fn on_wire(bytes: u64) -> Duration {
    Duration::from_nanos(bytes * 8 * 1_000_000_000 / 1_500_000)
}

/// Overhead of IP and UDP, in bytes.
const IP_UDP_OVERHEAD: u32 = 28;
