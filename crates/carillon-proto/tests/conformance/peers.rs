//! Protocols of peers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{Config, Event, NodeId, Probability, ProtocolEntry, Rng, Seeds};
use carillon_sim::LanConfig;
use carillon_sim::graph::{GraphConfig, Link as GraphLink, LossModel, Topology};
use carillon_testkit::{DeliveryGuarantee, Group, Link, Report, TrialNetwork, protocol_tests};

use super::{lossy, run_test, same, with_drawn_settings};

/// Number of crashes that a group of `nodes` nodes survives.
type Crashes = fn(nodes: u32) -> u32;

fn peers(guarantee: &DeliveryGuarantee) -> Option<Crashes> {
    match guarantee {
        DeliveryGuarantee::Peers { crashes } => Some(*crashes),
        _ => None,
    }
}

#[test]
fn delivers_everything_over_lossy_links() {
    run_test("peers::delivers_everything_over_lossy_links", peers, 20, |entry, survives, seed| {
        Suite { entry, survives }.lossy_links(seed)
    });
}

#[test]
fn delivers_everything_over_a_lossy_ethernet() {
    run_test("peers::delivers_everything_over_a_lossy_ethernet", peers, 10, |entry, survives, seed| {
        Suite { entry, survives }.lossy_ethernet(seed)
    });
}

#[test]
fn survives_as_many_crashes_as_it_promises() {
    run_test("peers::survives_as_many_crashes_as_it_promises", peers, 25, |entry, survives, seed| {
        Suite { entry, survives }.crashes(seed)
    });
}

#[test]
fn delivers_nothing_wrong_whatever_crashes() {
    run_test("peers::delivers_nothing_wrong_whatever_crashes", peers, 15, |entry, survives, seed| {
        Suite { entry, survives }.too_many_crashes(seed)
    });
}

#[test]
fn survives_a_partition_of_as_many_members() {
    run_test("peers::survives_a_partition_of_as_many_members", peers, 15, |entry, survives, seed| {
        Suite { entry, survives }.partition(seed)
    });
}

#[test]
fn is_the_same_for_the_same_seed() {
    run_test("peers::is_the_same_for_the_same_seed", peers, 3, |entry, survives, seed| {
        Suite { entry, survives }.same(seed)
    });
}

pub fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let Some(survives) = peers(&protocol_tests(entry).guarantee) else { return Ok(()) };
    let suite = Suite { entry, survives };
    let tests = [
        Suite::lossy_links,
        Suite::lossy_ethernet,
        Suite::crashes,
        Suite::too_many_crashes,
        Suite::partition,
    ];
    tests.into_iter().try_for_each(|test| test(&suite, seed))
}

struct Suite {
    entry: &'static ProtocolEntry,
    survives: Crashes,
}

impl Suite {
    /// Group with random members and senders, and its number of nodes.
    fn group(&self, seed: u64, rng: &mut Rng) -> (Group, u32) {
        let nodes = 2 + rng.below(7) as u32;
        let senders = 1 + rng.below(nodes.into()) as u32;
        let group = Group::new(self.entry, seed).receivers(nodes - 1).senders(senders);
        (group.messages(3 + rng.below(15)).afterwards(WATCH_TIME), nodes)
    }

    fn with_drawn_settings(&self, group: Group, nodes: u32, crashes: u32, rng: &mut Rng) -> Group {
        with_drawn_settings(group, self.entry, TrialNetwork::Links, nodes, rng, |trial| {
            trial.crashes = crashes
        })
    }

    /// Loss of up to 30 % in either direction of every link, with duplication and reordering.
    fn lossy_links(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.links");
        let (mut group, nodes) = self.group(seed, &mut rng);
        group = self.with_drawn_settings(group, nodes, 0, &mut rng);
        let unordered = rng.chance(0.5);
        for from in (0..nodes).map(NodeId) {
            for to in (0..nodes).map(NodeId).filter(|&to| to != from) {
                let mut link = lossy(&mut rng, 0.3);
                if unordered {
                    link.jitter = Duration::from_micros(rng.below(5_000));
                    link.duplication = Probability::new(rng.unit() * 0.3).expect("less than one");
                }
                group = group.link(from, to, link);
            }
        }
        if rng.chance(0.25) {
            group = group.pace(Duration::from_millis(1 + rng.below(20)));
        }
        group.run().check_reliable()
    }

    /// Single Ethernet with loss of up to 10 % at every interface.
    fn lossy_ethernet(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.ethernet");
        let (group, nodes) = self.group(seed, &mut rng);
        let group = self.with_drawn_settings(group.max_payload(1000), nodes, 0, &mut rng);
        let loss = Probability::new(rng.unit() * 0.1).expect("a tenth at most");
        // In every other run ports hold machines up.
        let port_queue = NonZeroU32::new(rng.below(2) as u32 * (1 + rng.below(4) as u32));
        let report = group.run_lan(LanConfig { loss, port_queue, ..LanConfig::default() });
        self.repairs_fit(&report, 1000)?;
        report.check_reliable()
    }

    /// Checks that no data packet adds more to a message than the entry says, since hosts choose payloads by it.
    fn repairs_fit(&self, report: &Report, payload: u32) -> Result<(), String> {
        let config = Config::defaults(self.entry.parameters);
        let max = payload + (self.entry.packets.header_bytes)(&config).max as u32;
        let larger = report.events.iter().find(|event| match event.event {
            Event::Sent { bytes, .. } | Event::RepairSent { bytes, .. } | Event::Forwarded { bytes, .. } => {
                bytes > max
            }
            _ => false,
        });
        larger.map_or(Ok(()), |event| Err(format!("larger than {max} bytes: {event:?}")))
    }

    /// At most as many nodes crash as the protocol survives; some restart.
    fn crashes(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.crashes");
        let (group, nodes) = self.group(seed, &mut rng);
        let crashes = (self.survives)(nodes).min(1 + rng.below(3) as u32);
        let group = self.with_drawn_settings(group, nodes, crashes, &mut rng);
        let link = Link { jitter: Duration::from_micros(rng.below(2_000)), ..lossy(&mut rng, 0.05) };
        crashing(group.all_links(link), nodes, crashes, &mut rng).run().check_reliable()
    }

    /// Further crashes than the protocol survives may stop it, but cause no wrong delivery.
    fn too_many_crashes(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.too_many");
        let (group, nodes) = self.group(seed, &mut rng);
        let crashes = (self.survives)(nodes);
        let group = self.with_drawn_settings(group, nodes, crashes, &mut rng);
        let more = (1 + rng.below(nodes.into()) as u32).max(crashes + 1).min(nodes);
        let group = group.all_links(lossy(&mut rng, 0.1)).limit(Duration::from_secs(60));
        crashing(group, nodes, more, &mut rng).run().check_safety()
    }

    /// A part of the group, no larger than the number of crashes that the protocol survives, is cut off for good. For
    /// the other members it has crashed. What it delivers until then and afterwards must agree with their deliveries,
    /// as far as the guarantee holds for crashed members.
    fn partition(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.partition");
        let nodes = 3 + rng.below(6) as u32;
        let cut = (self.survives)(nodes).min(1 + rng.below(3) as u32);
        let group = Group::new(self.entry, seed).receivers(nodes - 1).messages(3 + rng.below(15));
        let group = group.senders(1 + rng.below((nodes - cut).into()) as u32).afterwards(WATCH_TIME);
        // Two routers, each with its part of the group; their link fails.
        let (near, far) = (NodeId(nodes), NodeId(nodes + 1));
        let mut topology = Topology::new(nodes as usize + 2);
        let delay = Duration::from_micros(100 + rng.below(3_000));
        topology.add_link(GraphLink::new([near, far], delay));
        for node in 0..nodes {
            let router = if node < nodes - cut { near } else { far };
            topology.add_link(GraphLink::new([NodeId(node), router], delay));
        }
        topology.sources = vec![NodeId(0)];
        topology.receivers = (1..nodes).map(NodeId).collect();
        let group = self.with_drawn_settings(group, nodes, cut, &mut rng);
        let group = group.link_up(0, false, Duration::from_micros(rng.below(300_000)));
        let loss = LossModel::Bernoulli(Probability::new(rng.unit() * 0.02).expect("less than one"));
        let mut report = group.run_graph(Arc::new(topology), GraphConfig::default(), loss);
        let is_cut_off = |node: NodeId| node.0 >= nodes - cut;
        report.crashed = (0..nodes).map(NodeId).filter(|&node| is_cut_off(node)).collect();
        report.events.retain(|event| !is_cut_off(event.node));
        report.check_reliable()
    }

    /// Equal seeds give equal runs.
    fn same(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.same");
        let (group, nodes) = self.group(seed, &mut rng);
        let group = self.with_drawn_settings(group, nodes, 0, &mut rng).all_links(lossy(&mut rng, 0.2));
        same(|| group.run())?.check_reliable()
    }
}

/// Crashes random nodes of the group within 0.3 s, half of which restart.
fn crashing(mut group: Group, nodes: u32, crashes: u32, rng: &mut Rng) -> Group {
    let mut left: Vec<u32> = (0..nodes).collect();
    for _ in 0..crashes {
        let node = NodeId(left.swap_remove(rng.below(left.len() as u64) as usize));
        let at = Duration::from_micros(rng.below(300_000));
        group = group.crash(node, at);
        if rng.chance(0.5) {
            group = group.restart(node, at + Duration::from_micros(1 + rng.below(1_000_000)));
        }
    }
    group
}

/// Time that a group is watched after its senders have finished.
const WATCH_TIME: Duration = Duration::from_secs(10);
