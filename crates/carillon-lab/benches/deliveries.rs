//! Cost of one delivery: a 1 KB packet through a boxed machine (parse, window, event, drain) and
//! its application, by the number of receivers. The network is an ideal one that delivers every
//! datagram to the whole group at once, so that only the kernel and the machine are measured.
//!
//! `cargo bench -p carillon-lab --bench deliveries [-- --quick]`

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use carillon_core::{
    AssociationId, BitRate, BuildContext, Bytes, Config, Dest, GroupId, NoObserver, NodeId, Observer, Role,
    Seeds, Time, Transmit,
};
use carillon_sim::applications::{Sink, Source};
use carillon_sim::{Arrival, Network, Precedence, World};
use carillon_testkit::resident_bytes;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let deliveries: u64 = if quick { 2_000_000 } else { 20_000_000 };
    println!(
        "{:>10} {:>14} {:>16} {:>20}",
        "receivers", "ns/delivery", "deliveries/s", "bytes/receiver (RSS)"
    );
    for receivers in [10, 100, 1_000, 10_000, 100_000] {
        let messages = (deliveries / receivers).max(20);
        let before = resident_bytes();
        let mut world = world(receivers as u32, messages);
        world.start();
        let memory = resident_bytes().saturating_sub(before) / receivers;
        let begin = Instant::now();
        world.run(Time::MAX, |world| {
            world.machine(NodeId(0)).as_sender().is_some_and(|sender| sender.is_finished())
        });
        let each = begin.elapsed().as_secs_f64() / (messages * receivers) as f64;
        println!("{receivers:>10} {:>14.1} {:>16.2e} {memory:>20}", each * 1e9, 1.0 / each);
    }
}

fn world(receivers: u32, messages: u64) -> World<Ideal, NoObserver> {
    let entry = carillon_proto::find("mbap").expect("a registered protocol");
    let mut config = Config::defaults(entry.parameters);
    for (key, value) in [("window", "1000"), ("ack_timeout", "1 h"), ("timeout", "10 h")] {
        config.set(entry.parameters, key, value).expect("a valid setting");
    }
    let seeds = Seeds::new(1);
    let context = BuildContext {
        association: AssociationId(1),
        node: NodeId(0),
        sender: NodeId(0),
        members: (1..=receivers).map(NodeId).collect(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Default::default(),
        group: GroupId(0),
        seeds: seeds.clone(),
        bit_rate: BitRate::mbps(1000),
        link_overhead: 28,
        max_payload: 1000,
        memory: usize::MAX,
        rejoining: false,
    };
    let build = |role, context| (entry.build)(role, &context, &config).expect("a valid configuration");
    let mut world = World::new(Ideal { nodes: receivers + 1, ..Ideal::default() }, NoObserver);
    let source = Source::new(messages, 1000, Duration::ZERO);
    world.add_node(build(Role::Sender, context.clone()), Some(Box::new(source)));
    for node in (1..=receivers).map(NodeId) {
        world.add_node(
            build(Role::Receiver, BuildContext { node, ..context.clone() }),
            Some(Box::new(Sink::default())),
        );
    }
    world
}

/// Delivers every datagram after a microsecond.
#[derive(Debug, Default)]
struct Ideal {
    nodes: u32,
    queue: VecDeque<(Time, NodeId, Dest, Bytes)>,
}

impl Network for Ideal {
    fn transmit(&mut self, now: Time, from: NodeId, transmit: Transmit, bytes: Bytes, _: &mut dyn Observer) {
        self.queue.push_back((now + Duration::from_micros(1), from, transmit.dest, bytes));
    }

    fn next_time(&self) -> Option<(Time, Precedence)> {
        self.queue.front().map(|(time, ..)| (*time, Precedence::NetworkFirst))
    }

    fn advance(&mut self, _: Time, arrival: &mut Arrival, _: &mut dyn Observer) -> bool {
        let Some((_, source, dest, bytes)) = self.queue.pop_front() else { return false };
        arrival.receivers.clear();
        match dest {
            Dest::Node(node) => arrival.receivers.push(node),
            _ => arrival.receivers.extend((0..self.nodes).map(NodeId).filter(|&node| node != source)),
        }
        (arrival.source, arrival.dest, arrival.bytes) = (source, dest, bytes);
        true
    }
}
