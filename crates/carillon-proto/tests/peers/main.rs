//! One suite for every protocol whose members are peers, over random groups, losses, crashes and
//! seeds. Each protocol's module says what it promises.
//!
//! `CARILLON_RUNS` says how many runs each test makes (the nightly ones: 10 000); a failure prints
//! the command that repeats its run.

use std::num::NonZeroU32;
use std::time::Duration;

use carillon_core::{NodeId, Probability, ProtocolEntry, Rng, Role, Seeds};
use carillon_proto::{REGISTRY, find};
use carillon_sim::LanConfig;
use carillon_testkit::{Group, Link, Place, for_each_seed};

mod promises;

/// What a protocol promises, and how it is set up for that.
#[derive(Clone, Copy, Debug)]
struct Promises {
    /// Random settings with which a group of so many nodes survives so many crashes on these
    /// networks, where a round trip takes a few milliseconds.
    settings: fn(Group, nodes: u32, crashes: u32, rng: &mut Rng) -> Group,
    /// How many crashes a group of so many nodes can survive.
    crashes: fn(nodes: u32) -> u32,
}

/// The tests of each protocol: its module in [`promises`] has a constant `PROMISES`.
macro_rules! suite {
    ($($module:ident: $name:literal),* $(,)?) => {
        #[test]
        fn every_protocol_with_peers_has_its_suite() {
            let peers = REGISTRY.iter().filter(|entry| entry.confirmed && entry.roles.contains(&Role::Peer));
            let names: Vec<&str> = peers.map(|entry| entry.name).collect();
            let suites: &[&str] = &[$($name),*];
            assert_eq!(names, suites);
        }
        $(mod $module {
            use super::*;
            fn over_seeds(test: &'static str, runs: u64, body: fn(&Suite, u64) -> Result<(), String>) {
                let suite = Suite { entry: find($name).expect("it is in the registry"), promises: promises::$module::PROMISES };
                for_each_seed(Place { package: "carillon-proto", target: "peers", test }, runs, |seed| body(&suite, seed));
            }

            #[test]
            fn delivers_everything_over_lossy_links() {
                over_seeds(concat!(stringify!($module), "::delivers_everything_over_lossy_links"), 40, Suite::lossy_links);
            }

            #[test]
            fn delivers_everything_over_a_lossy_ethernet() {
                over_seeds(concat!(stringify!($module), "::delivers_everything_over_a_lossy_ethernet"), 20, Suite::lossy_ethernet);
            }

            #[test]
            fn survives_as_many_crashes_as_it_promises() {
                over_seeds(concat!(stringify!($module), "::survives_as_many_crashes_as_it_promises"), 40, Suite::crashes);
            }

            #[test]
            fn delivers_nothing_wrong_whatever_crashes() {
                over_seeds(concat!(stringify!($module), "::delivers_nothing_wrong_whatever_crashes"), 30, Suite::too_many_crashes);
            }

            #[test]
            fn is_the_same_for_the_same_seed() {
                over_seeds(concat!(stringify!($module), "::is_the_same_for_the_same_seed"), 3, Suite::same);
            }
        })*
    };
}

suite!(
    chang_maxemchuk: "chang-maxemchuk",
    erramilli_singh: "erramilli-singh",
    sequencer: "sequencer",
);

#[derive(Clone, Copy, Debug)]
struct Suite {
    entry: &'static ProtocolEntry,
    promises: Promises,
}

impl Suite {
    /// A group whose members and senders are drawn, and how many nodes it has.
    fn group(&self, seed: u64, rng: &mut Rng) -> (Group, u32) {
        let nodes = 2 + rng.below(7) as u32;
        let senders = 1 + rng.below(nodes.into()) as u32;
        let group = Group::new(self.entry, seed).receivers(nodes - 1).senders(senders);
        (group.messages(3 + rng.below(15)).afterwards(AFTERWARDS), nodes)
    }

    /// Loss of up to 30 % in either direction of every link, duplication and reordering.
    fn lossy_links(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.links");
        let (mut group, nodes) = self.group(seed, &mut rng);
        group = (self.promises.settings)(group, nodes, 0, &mut rng);
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

    /// One Ethernet, with loss of up to 10 % at every interface.
    fn lossy_ethernet(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.ethernet");
        let (group, nodes) = self.group(seed, &mut rng);
        let group = (self.promises.settings)(group.max_payload(1000), nodes, 0, &mut rng);
        let loss = Probability::new(rng.unit() * 0.1).expect("a tenth at most");
        // In every other run machines are held up by their port.
        let port_queue = NonZeroU32::new(rng.below(2) as u32 * (1 + rng.below(4) as u32));
        group.run_lan(LanConfig { loss, port_queue, ..LanConfig::default() }).check_reliable()
    }

    /// Nodes crash, as many as the protocol survives; some come back.
    fn crashes(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.crashes");
        let (group, nodes) = self.group(seed, &mut rng);
        let crashes = (self.promises.crashes)(nodes).min(1 + rng.below(3) as u32);
        let group = (self.promises.settings)(group, nodes, crashes, &mut rng);
        let link = Link { jitter: Duration::from_micros(rng.below(2_000)), ..lossy(&mut rng, 0.05) };
        crashing(group.all_links(link), nodes, crashes, &mut rng).run().check_reliable()
    }

    /// More crash than the protocol survives: it may stop, but not deliver anything wrong.
    fn too_many_crashes(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.too_many");
        let (group, nodes) = self.group(seed, &mut rng);
        let crashes = (self.promises.crashes)(nodes);
        let group = (self.promises.settings)(group, nodes, crashes, &mut rng);
        let more = (1 + rng.below(nodes.into()) as u32).max(crashes + 1).min(nodes);
        let group = group.all_links(lossy(&mut rng, 0.1)).limit(Duration::from_secs(60));
        crashing(group, nodes, more, &mut rng).run().check_safety()
    }

    /// Equal seeds, equal runs.
    fn same(&self, seed: u64) -> Result<(), String> {
        let mut rng = Seeds::new(seed).stream("peers.same");
        let (group, nodes) = self.group(seed, &mut rng);
        let group = (self.promises.settings)(group, nodes, 0, &mut rng).all_links(lossy(&mut rng, 0.2));
        let (one, other) = (group.run(), group.run());
        if one.events != other.events {
            return Err("the same group ran differently the second time".to_owned());
        }
        one.check_reliable()
    }
}

/// So many nodes of the group crash, any of them, within a third of a second; half of them come
/// back.
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

fn lossy(rng: &mut Rng, most: f64) -> Link {
    Link { delay: Duration::from_micros(100 + rng.below(2_000)), ..Link::losing(rng.unit() * most) }
}

/// How long a group is watched after its senders have finished.
const AFTERWARDS: Duration = Duration::from_secs(10);
