//! Comparison with the averages of the agents of ns-2.35 on the same network.
//!
//! The network is a binary tree of height 3 with the source (node 0), a root (node 1) and eight receivers at the
//! leaves. Links have 10 ms and 1.5 Mbit/s; messages of 1000 bytes leave every 100 ms. One original is lost every six
//! seconds, or every fifteen with adaptive timers.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{Event, MessageId, NodeId, Seeds, Time};
use carillon_sim::graph::{Graph, GraphConfig, Link, SingleLoss, Topology};
use carillon_wire::srm::HEADER_LEN;

use super::group::{count, is_repair, world};

/// Mean recovery latency in milliseconds, and requests and repairs per loss.
fn measure(timers: &str, losses: u64, lossy: impl Fn(u64) -> (u32, NodeId)) -> [f64; 3] {
    let spacing = if timers == "adaptive" { 150 } else { 60 };
    let mut topology = Topology::new(16);
    let up = |node: u32| NodeId(node / 2);
    for node in 1..16 {
        let delay = Duration::from_millis(10);
        topology.add_link(Link::new([up(node), NodeId(node)], delay));
    }
    let graph = Graph::new(Arc::new(topology), GraphConfig::default(), &Seeds::new(3));
    let members: Vec<NodeId> = std::iter::once(0).chain(8..16).map(NodeId).collect();
    let start = Duration::from_secs(4);
    let workload = (losses * spacing + 40, 1000 - HEADER_LEN as u32, start);
    let mut world = world(graph, 16, &members, &[("timers", timers)], workload);
    for loss in 0..losses {
        let number = 20 + spacing * loss;
        let at = Time::ZERO + start + Duration::from_millis(100 * number - 50);
        world.run(at, |_| false);
        let (link, from) = lossy(loss);
        world.network().lose(link, from, SingleLoss { source: NodeId(0), message: MessageId(number) });
    }
    world.run(Time::ZERO + start + Duration::from_millis(100 * spacing * losses + 6000), |_| false);
    let events = world.into_observer().events;
    let mut sum = 0.0;
    for event in &events {
        match event.event {
            Event::LossFound { .. } => sum -= event.time.as_secs_f64() * 1e3,
            Event::LossRepaired { .. } => sum += event.time.as_secs_f64() * 1e3,
            _ => {}
        }
    }
    let found = count(&events, |_, event| matches!(event, Event::LossFound { .. }));
    assert_eq!(found, count(&events, |_, event| matches!(event, Event::LossRepaired { .. })));
    let requests = count(&events, |_, event| matches!(event, Event::Requested { .. }));
    let repairs = count(&events, |_, event| is_repair(event));
    [sum / found as f64, requests as f64 / losses as f64, repairs as f64 / losses as f64]
}

/// Checks each figure against ns-2, within the accuracy of its single run of 20 or 8 losses.
fn near(found: [f64; 3], ns2: [f64; 3], tolerance: [f64; 3]) {
    for ((found_one, ns2), tolerance) in found.iter().zip(ns2).zip(tolerance) {
        assert!((found_one / ns2 - 1.0).abs() <= tolerance, "{found:?} and not {ns2}");
    }
}

#[test]
fn losses_at_source_cost_as_in_ns_2() {
    let found = measure("fixed", 40, |_| (0, NodeId(0)));
    near(found, [269.29, 4.8, 1.0], [0.03, 0.15, 0.0]);
}

#[test]
fn losses_of_single_receivers_cost_as_in_ns_2() {
    let found = measure("fixed", 40, |loss| {
        let leaf = 8 + loss as u32 % 8;
        (leaf - 1, NodeId(leaf / 2))
    });
    near(found, [214.503, 1.0, 3.625], [0.06, 0.0, 0.25]);
}

#[test]
fn adaptive_timers_reduce_requests_as_in_ns_2() {
    let found = measure("adaptive", 20, |_| (0, NodeId(0)));
    near(found, [222.48, 2.3, 1.0], [0.06, 0.4, 0.0]);
}
