//! Tests of ports with back-pressure: a machine decides what to send when there is room, not earlier.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{
    Bytes, Dest, Event, GroupId, Machine, NoObserver, NodeId, Observer, Received, Seeds, Time, Transmit,
};
use carillon_sim::graph::{Graph, GraphConfig, Link, Topology};
use carillon_sim::{Lan, LanConfig, Network, StopReason, World};

/// Machine that sends this number of datagrams and stops when it receives one.
#[derive(Debug)]
struct Talker(u64);

impl Machine for Talker {
    fn handle_datagram(&mut self, _: Time, _: Received<'_>) {
        self.0 = 0;
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_transmit(&mut self, _: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.0 = self.0.checked_sub(1)?;
        buf.resize(buf.len() + 1000, 0);
        Some(Transmit::now(Dest::group(GroupId(0))))
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

/// Recorder of transmissions (sender, microseconds) and of discarded packets.
#[derive(Default)]
struct EventRecorder(Vec<(u32, u64)>, usize);

impl Observer for EventRecorder {
    fn event(&mut self, _time: Time, _node: NodeId, event: &Event) {
        self.1 += usize::from(*event == Event::FrameDiscarded);
    }
    fn datagram(&mut self, time: Time, from: NodeId, _: &Dest, _: &Bytes) {
        self.0.push((from.0, time.as_nanos() / 1000));
    }
}

fn run(network: impl Network, to_send: [u64; 2]) -> EventRecorder {
    let mut world = World::new(network, EventRecorder::default());
    for messages in to_send {
        world.add_node(Box::new(Talker(messages)), None);
    }
    world.start();
    assert_eq!(world.run(Time::MAX, |_| false), StopReason::Idle);
    world.into_observer()
}

fn on_lan(port_queue: u32, to_send: [u64; 2]) -> Vec<u32> {
    let config = LanConfig { port_queue: NonZeroU32::new(port_queue), ..LanConfig::default() };
    run(Lan::new(config, 2, &Seeds::new(1)), to_send).0.iter().map(|sent| sent.0).collect()
}

/// Runs two hosts on a link of 8 Mbit/s and 1 ms.
fn on_graph(port_queue: u32, to_send: [u64; 2]) -> EventRecorder {
    let mut topology = Topology::new(2);
    let ends = [NodeId(0), NodeId(1)];
    let rate = Some(carillon_core::BitRate::mbps(8));
    topology.add_link(Link { rate, ..Link::new(ends, Duration::from_millis(1)) });
    let config = GraphConfig { queue: 3, port_queue: NonZeroU32::new(port_queue), ..GraphConfig::default() };
    let mut graph = Graph::new(Arc::new(topology), config, &Seeds::new(1));
    ends.into_iter().for_each(|node| graph.join(GroupId(0), node));
    run(graph, to_send)
}

#[test]
fn unbounded_port_cannot_suppress_queued_packets() // Segovia 3.2
{
    let sent = on_lan(0, [10, 1]);
    assert_eq!(sent.iter().filter(|&&node| node == 0).count(), 10);
}

#[test]
fn full_port_leaves_packets_open_to_suppression() {
    for port_queue in [1, 2, 4] {
        let sent = on_lan(port_queue, [10, 1]);
        // Until the first arrival a host has sent the contents of its port and their successors.
        let first = sent.iter().position(|&node| node == 1).expect("the other has sent");
        let after = sent.len() - first - 1;
        assert!(after <= port_queue as usize, "{after} were sent after it was heard: {sent:?}");
    }
}

#[test]
fn a_port_with_a_queue_of_one_sends_all_there_is_to_send() {
    assert_eq!(on_lan(1, [50, 0]).len(), 50);
    let tape = on_graph(1, [50, 0]);
    let expected: Vec<_> = (0..50).map(|n: u64| (0, n.saturating_sub(1) * 1000)).collect();
    assert_eq!(tape.0, expected, "one is sent, one waits, the next comes when the first has left");
}

#[test]
fn a_host_is_held_up_before_the_queue_of_its_link_discards() {
    assert_eq!(on_graph(0, [10, 0]).1, 6, "one is sent, three wait");
    for port_queue in [1, 3, 100] {
        let tape = on_graph(port_queue, [10, 0]);
        assert_eq!((tape.0.len(), tape.1), (10, 0), "{port_queue}");
    }
}

#[test]
fn a_graph_decides_late_too() {
    let sent = |port_queue| on_graph(port_queue, [20, 1]).0.iter().filter(|sent| sent.0 == 0).count();
    // The first arrival is after 2 ms: by then two datagrams have left, and the port has been refilled.
    assert_eq!((sent(1), sent(2), sent(0)), (3, 4, 20));
}

#[test]
fn waiting_node_is_ready_once() {
    let config = LanConfig { port_queue: NonZeroU32::new(1), ..LanConfig::default() };
    let mut lan = Lan::new(config, 2, &Seeds::new(1));
    let (at, node) = (Time::ZERO, NodeId(0));
    assert!(lan.is_ready(at, node));
    let to = Transmit::now(Dest::Node(NodeId(1)));
    lan.transmit(at, node, to, Bytes::from_static(&[0; 100]), &mut NoObserver);
    assert!(!lan.is_ready(at, node));
    assert!(!lan.is_ready(at, node));
    assert_eq!(lan.next_ready(), None, "it has not left");
    lan.advance(at, &mut Default::default(), &mut NoObserver);
    assert_eq!((lan.next_ready(), lan.next_ready()), (Some(node), None));
}
