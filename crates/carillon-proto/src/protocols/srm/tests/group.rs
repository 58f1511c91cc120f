//! Small groups with one loss: times and counts computed by hand.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{
    Application, AssociationId, BitRate, BuildContext, Bytes, Config, DropReason, Event, GroupId, Machine,
    MessageId, NodeId, Seeds, Time, TraceEvent,
};
use carillon_sim::graph::{Graph, GraphConfig, Link, SingleLoss, Topology};
use carillon_sim::{Crashed, World};
use carillon_testkit::{CheckedMachine, Recorder};

use super::super::ENTRY;

/// Test application: offers a message every 100 ms if it is a source, and reads all messages.
#[derive(Debug)]
struct TestApplication {
    payload: Bytes,
    left: u64,
    next: Time,
}

impl Application for TestApplication {
    fn poll(&mut self, now: Time, machine: &mut (dyn Machine + 'static)) -> bool {
        let mut touched = false;
        if self.left > 0 && self.next <= now {
            let sender = machine.as_sender().expect("a member sends");
            sender.offer(now, self.payload.clone()).expect("there is room");
            self.left -= 1;
            self.next += Duration::from_millis(100);
            touched = true;
        }
        let receiver = machine.as_receiver().expect("a member receives");
        while receiver.poll_delivery().is_some() {
            touched = true;
        }
        touched
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }
}

/// Builds a world with these members. The first one sends `messages` messages of `bytes` bytes from `start` on.
pub(super) fn world(
    graph: Graph,
    nodes: u32,
    members: &[NodeId],
    settings: &[(&str, &str)],
    (messages, bytes, start): (u64, u32, Duration),
) -> World<Graph, Recorder> {
    let mut graph = graph;
    members.iter().for_each(|&node| graph.join(GroupId(0), node));
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in settings {
        config.set(ENTRY.parameters, key, value).expect("a good setting");
    }
    let mut world = World::new(graph, Recorder::default());
    for node in (0..nodes).map(NodeId) {
        if !members.contains(&node) {
            world.add_node(Box::new(Crashed), None);
            continue;
        }
        let context = BuildContext {
            association: AssociationId(1),
            node,
            sender: members[0],
            members: members.into(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: Seeds::new(3).node(node),
            bit_rate: BitRate::mbps(10),
            link_overhead: 0,
            max_payload: bytes,
            memory: usize::MAX,
            rejoining: false,
        };
        let machine = (ENTRY.build)(carillon_core::Role::Peer, &context, &config).expect("a member");
        let payload = Bytes::from(vec![1; bytes as usize]);
        let left = if node == members[0] { messages } else { 0 };
        let talk = TestApplication { payload, left, next: Time::ZERO + start };
        // The checked machine compares its state after every call, which is too slow for long runs.
        let machine: Box<dyn Machine> = match messages {
            ..=100 => Box::new(CheckedMachine::new(machine)),
            _ => machine,
        };
        world.add_node(machine, Some(Box::new(talk)));
    }
    world.start();
    world
}

/// Events of a run in which the original of message 5 is lost on one link. Links are `[node, node, ms]`, all of high
/// rate; members are the nodes below `members`, and node 0 sends.
pub(super) fn run(
    links: &[[u32; 3]],
    members: u32,
    lossy: usize,
    settings: &[(&str, &str)],
) -> Vec<TraceEvent> {
    let nodes = links.iter().flat_map(|&[a, b, _]| [a, b]).max().expect("a link") + 1;
    let mut topology = Topology::new(nodes as usize);
    for &[a, b, ms] in links {
        let delay = Duration::from_millis(ms.into());
        topology.add_link(Link::new([NodeId(a), NodeId(b)], delay));
    }
    let config = GraphConfig { rate: BitRate::mbps(100_000), ..GraphConfig::default() };
    let mut graph = Graph::new(Arc::new(topology), config, &Seeds::new(3));
    let loss = SingleLoss { source: NodeId(0), message: MessageId(5) };
    graph.lose(lossy as u32, NodeId(links[lossy][0]), loss);
    let members: Vec<NodeId> = (0..members).map(NodeId).collect();
    let settings = [&[("timers", "deterministic"), ("session_ivl", "400 ms")], settings].concat();
    let mut world = world(graph, nodes, &members, &settings, (20, 7, Duration::from_secs(2)));
    world.run(Time::ZERO + Duration::from_secs(8), |_| false);
    world.into_observer().events
}

/// Time from detection to repair of the loss at each member, in milliseconds.
pub(super) fn latencies(events: &[TraceEvent]) -> Vec<(u32, f64)> {
    let repaired = events.iter().filter(|event| matches!(event.event, Event::LossRepaired { .. }));
    let latency = |repaired: &TraceEvent| {
        let found = |event: &&TraceEvent| {
            event.node == repaired.node && matches!(event.event, Event::LossFound { .. })
        };
        let found = events.iter().find(found).expect("what is repaired was missed");
        (repaired.node.0, (repaired.time - found.time).as_secs_f64() * 1e3)
    };
    repaired.map(latency).collect()
}

/// Number of matching events.
pub(super) fn count(events: &[TraceEvent], fits: impl Fn(u32, &Event) -> bool) -> usize {
    events.iter().filter(|event| fits(event.node.0, &event.event)).count()
}

pub(super) fn is_repair(event: &Event) -> bool {
    matches!(event, Event::RepairSent { .. } | Event::Forwarded { repair: true, .. })
}

fn close(found: &[(u32, f64)], expected: &[(u32, f64)]) {
    let nodes = |list: &[(u32, f64)]| list.iter().map(|(node, _)| *node).collect::<Vec<_>>();
    assert_eq!(nodes(found), nodes(expected), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found.1 - expected.1).abs() < 0.02, "{found:?} and not {expected:?}");
    }
}

/// Source 0 and member 3 at one router, members 1 and 2 at another.
const TWO_ROUTERS: &[[u32; 3]] = &[[0, 4, 10], [4, 5, 10], [5, 1, 10], [5, 2, 10], [4, 3, 5]];

#[test]
fn loss_at_source_is_requested_by_nearest_member() {
    let events = run(TWO_ROUTERS, 4, 0, &[]);
    // Member 3 detects the loss first and requests after 2 d = 30 ms; then 15 ms on the path, d = 15 ms at the
    // source, and 15 ms back. The others detect it 15 ms later and get the repair 15 ms later.
    close(&latencies(&events), &[(3, 75.0), (1, 75.0), (2, 75.0)]);
    assert_eq!(count(&events, |_, event| matches!(event, Event::Requested { .. })), 1);
    assert_eq!(count(&events, |_, event| matches!(event, Event::RequestSuppressed { .. })), 2);
    assert_eq!(count(&events, |_, event| is_repair(event)), 1);
}

#[test]
fn single_loss_is_repaired_by_all_not_yet_suppressed() {
    let events = run(TWO_ROUTERS, 4, 2, &[]);
    // It waits for 60 ms; its neighbour is 20 ms away: the path there, d, and the path back.
    close(&latencies(&events), &[(1, 120.0)]);
    // The repair leaves 40 ms after the request. Member 3 repairs after 25 + 25 ms and the source after 30 + 30 ms,
    // before the first repair arrives after 40 + 25 and 40 + 30 ms.
    let repairing: Vec<u32> =
        events.iter().filter(|event| is_repair(&event.event)).map(|event| event.node.0).collect();
    assert_eq!(repairing, [2, 3, 0]);
    let duplicates = count(&events, |node, event| {
        node != 0 && matches!(event, Event::Dropped { reason: DropReason::Duplicate })
    });
    // Member 1 has it from 2; members 2 and 3 receive the other two.
    assert_eq!(duplicates, 2 + 2 + 2);
}

#[test]
fn last_message_is_repaired() {
    let mut settings = vec![];
    for timers in ["fixed", "log", "adaptive", "deterministic"] {
        settings.clear();
        settings.push(("timers", timers));
        // The next message reveals the loss of message 5. Session messages would reveal the loss of the last one, 19;
        // they are the only traffic at the end.
        let events = run(TWO_ROUTERS, 4, 0, &settings);
        assert_eq!(latencies(&events).len(), 3, "{timers}");
        let delivered =
            |member| count(&events, |node, event| node == member && matches!(event, Event::Delivered { .. }));
        assert_eq!([delivered(1), delivered(2), delivered(3)], [20; 3], "{timers}");
    }
}
