//! Tests of the routed network: delays in closed form, pruned trees, scopes, losses and relays.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{
    Dest, DropReason, Event, GroupId, Machine, MessageId, NodeId, PortId, PortSet, Received, Relay, Scope,
    Seeds, Time, Transmit, Verdict,
};
use carillon_sim::World;
use carillon_sim::graph::{Graph, GraphConfig, Link, Outage, SingleLoss, Topology};

use super::recorder::EventRecorder;

const GROUP: GroupId = GroupId(0);

/// Sends given datagrams at the start and records received ones; as a relay it follows a rule.
#[derive(Debug, Default)]
struct Talker {
    say: Vec<(Transmit, usize)>,
    /// Rule of a relay: its verdict, and a datagram of its own.
    rule: Option<(Verdict, Option<Transmit>)>,
    events: Vec<Event>,
}

impl Machine for Talker {
    fn handle_datagram(&mut self, _: Time, datagram: Received<'_>) {
        let at = MessageId(u64::from(datagram.scope.0) << 16 | u64::from(datagram.ingress.0));
        self.events.push(Event::Delivered { source: datagram.source, message: at });
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_transmit(&mut self, _: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, len) = self.say.pop()?;
        buf.resize(len, 0);
        Some(transmit)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }
    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        self.rule.is_some().then_some(self as &mut dyn Relay)
    }
}

impl Relay for Talker {
    fn handle_transit(&mut self, _: Time, _: Received<'_>) -> Verdict {
        self.events.push(Event::Dropped { reason: DropReason::Foreign });
        let Some((verdict, own)) = self.rule.clone() else { return Verdict::Forward };
        self.say.extend(own.map(|own| (own, 1000)));
        verdict
    }
}

/// 0 - 1 - 2 - 3 with 4 at 1 and 5 at 2; 10 ms a link; all but the routers 1 and 2 are members.
fn network() -> Graph {
    let mut topology = Topology::new(6);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (1, 4), (2, 5)] {
        let ends = [NodeId(a), NodeId(b)];
        topology.add_link(Link::new(ends, Duration::from_millis(10)));
    }
    let mut graph = Graph::new(Arc::new(topology), GraphConfig::default(), &Seeds::new(1));
    for node in [0, 3, 4, 5] {
        graph.join(GROUP, NodeId(node));
    }
    graph
}

/// Runs a network; returns each arrival (receiver, sender, microseconds) and the number of packets over links.
fn run(mut graph: Graph, talkers: Vec<(u32, Talker)>) -> (Vec<(u32, u32, u64)>, usize) {
    for (node, talker) in &talkers {
        if talker.rule.is_some() {
            graph.set_relay(NodeId(*node));
        }
    }
    let mut world = World::new(graph, EventRecorder::default());
    let mut talkers: std::collections::BTreeMap<_, _> = talkers.into_iter().collect();
    for node in 0..6 {
        world.add_node(Box::new(talkers.remove(&node).unwrap_or_default()), None);
    }
    world.start();
    world.run(Time::ZERO + Duration::from_secs(10), |_| false);
    let tape = world.into_observer().0;
    let heard = tape.iter().filter_map(|event| match event.event {
        Event::Delivered { source, .. } => Some((event.node.0, source.0, event.time.as_nanos() / 1000)),
        _ => None,
    });
    let sent = tape.iter().filter(|event| matches!(event.event, Event::FrameSent { .. })).count();
    (heard.collect(), sent)
}

fn says(dest: Dest) -> Talker {
    Talker { say: vec![(Transmit::now(dest), 1000)], ..Talker::default() }
}

/// Time of `count` hops in microseconds, each with 1000 bytes at 1.5 Mbit/s and 10 ms of propagation.
fn hops(count: u64) -> u64 {
    (count * (5_333_333 + 10_000_000)) / 1000
}

#[test]
fn each_hop_costs_sending_and_propagation() {
    let (heard, sent) = run(network(), vec![(0, says(Dest::Node(NodeId(3))))]);
    assert_eq!(heard, [(3, 0, hops(3))]);
    assert_eq!(sent, 3);
}

#[test]
fn multicast_crosses_each_link_of_the_tree_once() {
    let (heard, sent) = run(network(), vec![(0, says(Dest::group(GROUP)))]);
    assert_eq!(heard, [(4, 0, hops(2)), (3, 0, hops(3)), (5, 0, hops(3))]);
    assert_eq!(sent, 5);
    // Another source has another tree, and the sender does not receive its own packet.
    let (heard, sent) = run(network(), vec![(4, says(Dest::group(GROUP)))]);
    assert_eq!(heard, [(0, 4, hops(2)), (3, 4, hops(3)), (5, 4, hops(3))]);
    assert_eq!(sent, 5);
}

#[test]
fn branches_without_members_are_pruned() {
    let mut graph = network();
    graph.leave(GROUP, NodeId(3));
    graph.leave(GROUP, NodeId(5));
    let (heard, sent) = run(graph, vec![(0, says(Dest::group(GROUP)))]);
    assert_eq!((heard, sent), (vec![(4, 0, hops(2))], 2));
}

#[test]
fn a_scope_counts_routers() {
    let scoped = |hops| says(Dest::Group { group: GROUP, scope: Scope(hops) });
    assert_eq!(run(network(), vec![(0, scoped(1))]), (vec![], 1), "to the first router");
    let (heard, sent) = run(network(), vec![(0, scoped(2))]);
    assert_eq!((heard, sent), (vec![(4, 0, hops(2))], 3));
    assert_eq!(run(network(), vec![(0, scoped(3))]).0.len(), 3);
}

#[test]
fn one_original_is_lost_below_one_link() {
    let loss = SingleLoss { source: NodeId(0), message: MessageId(0) };
    let mut graph = network();
    graph.lose(1, NodeId(1), loss);
    let mut talker = says(Dest::group(GROUP));
    talker.say[0].0.original = Some(MessageId(0));
    // The last datagram is sent first: the original, then a repair.
    talker.say.insert(0, (Transmit::now(Dest::group(GROUP)), 1000));
    let (heard, _) = run(graph, vec![(0, talker)]);
    let of = |node| heard.iter().filter(|(at, ..)| *at == node).count();
    assert_eq!([of(3), of(4), of(5)], [1, 2, 1]);
}

#[test]
fn a_link_that_is_down_carries_nothing_and_comes_back() {
    let mut graph = network();
    graph.set_up(1, false);
    let (heard, _) = run(graph, vec![(0, says(Dest::group(GROUP)))]);
    assert_eq!(heard, [(4, 0, hops(2))]);
}

/// Node 3 is behind link 1 alone. A packet takes 10 ms on each link and some time to be sent.
#[test]
fn packets_on_a_link_that_fails_are_lost() {
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    let heard = |from: u64, to: Option<u64>, convergence: u64| {
        let mut graph = network();
        let outage = Outage { link: 1, from: at(from), to: to.map(at) };
        graph.set_outages(&[outage], Duration::from_millis(convergence));
        let (heard, lost) = run(graph, vec![(0, says(Dest::group(GROUP)))]);
        (heard.len(), lost)
    };
    assert_eq!(heard(1000, None, 0).0, 3, "all have arrived before");
    assert_eq!(heard(0, None, 0).0, 1, "routes have no path to the others");
    assert_eq!(heard(0, None, 10_000).0, 1, "routes lead to the failed link");
    assert_eq!(heard(18, Some(30), 0).0, 1, "the link fails before the packet arrives");
    assert_eq!(heard(0, Some(9), 0).0, 3, "the link has recovered");
}

#[test]
fn relays_absorb_narrow_and_send_in_anothers_name() {
    let relay = |verdict, own| Talker { rule: Some((verdict, own)), ..Talker::default() };
    let source = || (0, says(Dest::group(GROUP)));
    assert_eq!(run(network(), vec![source(), (1, relay(Verdict::Forward, None))]).0.len(), 3);
    assert_eq!(run(network(), vec![source(), (1, relay(Verdict::Absorb, None))]).0, []);
    // The ports of node 1 lead to 0, 2 and 4.
    let only: PortSet = [PortId(2), PortId(0)].into_iter().collect();
    let (heard, _) = run(network(), vec![source(), (1, relay(Verdict::ForwardOn(only.clone()), None))]);
    assert_eq!(heard, [(4, 0, hops(2))], "not back to where it came from");
    let own = Transmit::now(Dest::Ports {
        ports: [PortId(2)].into_iter().collect(),
        source: NodeId(0),
        dest: Box::new(Dest::group(GROUP)),
    });
    let (heard, _) = run(network(), vec![source(), (1, relay(Verdict::Absorb, Some(own)))]);
    assert_eq!(heard, [(4, 0, hops(2))]);
}

#[test]
fn packets_off_the_reverse_path_are_dropped() {
    let own = Transmit::now(Dest::Ports {
        ports: [PortId(0)].into_iter().collect(),
        source: NodeId(3),
        dest: Box::new(Dest::group(GROUP)),
    });
    // Node 4 sends in the name of 3; packets of 3 reach node 1 by another port.
    let talker = Talker { say: vec![(own, 1000)], ..Talker::default() };
    assert_eq!(run(network(), vec![(4, talker)]), (vec![], 1));
}

#[test]
fn an_interface_holds_a_datagram_until_its_departure() {
    let mut talker = says(Dest::Node(NodeId(1)));
    talker.say[0].0.departure = Some(Time::ZERO + Duration::from_millis(7));
    assert_eq!(run(network(), vec![(0, talker)]).0, [(1, 0, 7_000 + hops(1))]);
}
