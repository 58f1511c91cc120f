//! One suite for every protocol whose receivers ask for what they miss, over random routed networks.
//! Each protocol's module says how it is set up and what traffic it may make.
//!
//! `CARILLON_RUNS` says how many runs each test makes (the nightly ones: 10 000); a failure prints
//! the command that repeats its run.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{Event, NodeId, Probability, ProtocolEntry, Rng, Seeds};
use carillon_proto::{REGISTRY, find};
use carillon_sim::graph::{GraphConfig, LossModel, Topology};
use carillon_testkit::{Group, Place, Report, for_each_seed, random_network};

mod promises;

/// How a protocol is set up for these networks, where a round trip takes at most a fifth of a second.
#[derive(Clone, Copy, Debug)]
struct Promises {
    /// Random settings with which it repairs everything that can be repaired, within the time of a
    /// test: a minute after the last message.
    settings: fn(Group, rng: &mut Rng) -> Group,
    /// Packets without a message that nodes may originate in a second, for each node of the network,
    /// whatever is lost: heartbeats and session messages, and requests for what is missing.
    control_per_node_and_second: f64,
    /// The request that routers repeat in their own name until it is confirmed, if they do.
    repeated_by_routers: Option<&'static str>,
}

/// The tests of each protocol: its module in [`promises`] has a constant `PROMISES`.
macro_rules! suite {
    ($($module:ident: $name:literal),* $(,)?) => {
        #[test]
        fn every_protocol_by_request_has_its_suite() {
            let by_request = REGISTRY.iter().filter(|entry| !entry.confirmed);
            let names: Vec<&str> = by_request.map(|entry| entry.name).collect();
            let suites: &[&str] = &[$($name),*];
            assert_eq!(names, suites);
        }
        $(mod $module {
            use super::*;
            fn over_seeds(test: &'static str, runs: u64, body: fn(&Suite, u64) -> Result<(), String>) {
                let suite = Suite { entry: find($name).expect("it is in the registry"), promises: promises::$module::PROMISES };
                for_each_seed(Place { package: "carillon-proto", target: "routed", test }, runs, |seed| body(&suite, seed));
            }

            #[test]
            fn repairs_everything_over_lossy_routes() {
                over_seeds(concat!(stringify!($module), "::repairs_everything_over_lossy_routes"), 30, Suite::lossy_routes);
            }

            #[test]
            fn loses_nothing_in_silence_where_a_fifth_is_lost_on_every_link() {
                over_seeds(concat!(stringify!($module), "::loses_nothing_in_silence_where_a_fifth_is_lost_on_every_link"), 20, Suite::a_fifth);
            }

            #[test]
            fn goes_on_when_routers_forget_everything() {
                over_seeds(concat!(stringify!($module), "::goes_on_when_routers_forget_everything"), 20, Suite::router_restarts);
            }

            #[test]
            fn goes_on_when_receivers_die() {
                over_seeds(concat!(stringify!($module), "::goes_on_when_receivers_die"), 20, Suite::receivers_die);
            }

            #[test]
            fn goes_on_when_routes_change() {
                over_seeds(concat!(stringify!($module), "::goes_on_when_routes_change"), 20, Suite::routes_change);
            }

            #[test]
            fn is_the_same_for_the_same_seed() {
                over_seeds(concat!(stringify!($module), "::is_the_same_for_the_same_seed"), 3, Suite::same);
            }
        })*
    };
}

suite!(
    lms: "lms",
    srm: "srm",
    pgm: "pgm",
);

#[derive(Clone, Copy, Debug)]
struct Suite {
    entry: &'static ProtocolEntry,
    promises: Promises,
}

/// A group that is about to run, and where.
struct Setting {
    group: Group,
    topology: Arc<Topology>,
    config: GraphConfig,
    receivers: u32,
    rng: Rng,
}

impl Suite {
    /// A random network with a random group of this protocol on it: 30 messages, one each 20 ms, after
    /// the routers have come to know the source by the first ones, none of which is to be lost.
    fn setting(&self, seed: u64) -> Setting {
        let mut rng = Seeds::new(seed).stream("routed");
        let receivers = 1 + rng.below(8) as u32;
        let routers = 1 + rng.below(8) as u32;
        let detours = rng.below(3) as u32;
        let longest = Duration::from_millis(1 + rng.below(8));
        let topology = Arc::new(random_network(receivers, routers, detours, longest, &mut rng));
        let config = GraphConfig { overhead: 28, ..GraphConfig::default() };
        let group = Group::new(self.entry, seed).receivers(receivers).messages(MESSAGES);
        let group = group.interval(Duration::from_millis(20)).afterwards(AFTERWARDS);
        let group = (self.promises.settings)(group, &mut rng);
        // In every other run machines are held up by their port.
        let port_queue = NonZeroU32::new(rng.below(2) as u32 * (1 + rng.below(4) as u32));
        Setting { group, topology, config: GraphConfig { port_queue, ..config }, receivers, rng }
    }

    fn lossy_routes(&self, seed: u64) -> Result<(), String> {
        let Setting { group, topology, config, mut rng, .. } = self.setting(seed);
        let loss = LossModel::Bernoulli(p(rng.unit() * 0.1));
        let report = group.run_graph(topology.clone(), config, loss);
        report.check_reliable()?;
        self.check_traffic(&report, &topology)
    }

    fn a_fifth(&self, seed: u64) -> Result<(), String> {
        let Setting { group, topology, config, .. } = self.setting(seed);
        let report = group.run_graph(topology.clone(), config, LossModel::Bernoulli(p(0.2)));
        report.check_told()?;
        self.check_traffic(&report, &topology)
    }

    fn router_restarts(&self, seed: u64) -> Result<(), String> {
        let Setting { mut group, topology, config, receivers, mut rng } = self.setting(seed);
        for router in (receivers + 1..topology.nodes() as u32).map(NodeId) {
            if rng.chance(0.5) {
                group = group.restart(router, Duration::from_micros(rng.below(1_000_000)));
            }
        }
        let report = group.run_graph(topology.clone(), config, LossModel::Bernoulli(p(0.05)));
        report.check_reliable()?;
        self.check_traffic(&report, &topology)
    }

    fn receivers_die(&self, seed: u64) -> Result<(), String> {
        let Setting { mut group, topology, config, receivers, mut rng } = self.setting(seed);
        for node in (1..=receivers).map(NodeId) {
            if rng.chance(0.4) {
                group = group.crash(node, Duration::from_micros(rng.below(1_000_000)));
            }
        }
        let report = group.run_graph(topology.clone(), config, LossModel::Bernoulli(p(0.05)));
        report.check_reliable()?;
        self.check_traffic(&report, &topology)
    }

    fn routes_change(&self, seed: u64) -> Result<(), String> {
        let Setting { mut group, topology, config, mut rng, .. } = self.setting(seed);
        for link in 0..topology.links().len() as u32 {
            if rng.chance(0.3) {
                let down = Duration::from_micros(rng.below(800_000));
                let up = down + Duration::from_micros(1 + rng.below(300_000));
                group = group.link_up(link, false, down).link_up(link, true, up);
            }
        }
        let report = group.run_graph(topology.clone(), config, LossModel::Bernoulli(p(0.02)));
        report.check_reliable()?;
        self.check_traffic(&report, &topology)
    }

    fn same(&self, seed: u64) -> Result<(), String> {
        let Setting { group, topology, config, .. } = self.setting(seed);
        let run = || group.run_graph(topology.clone(), config, LossModel::Bernoulli(p(0.1)));
        if run().events != run().events {
            return Err("the same group ran differently the second time".to_owned());
        }
        Ok(())
    }

    /// Nothing storms or circles: control traffic keeps to what the protocol promises.
    fn check_traffic(&self, report: &Report, topology: &Topology) -> Result<(), String> {
        let control = report.count(|_, event| matches!(event, Event::ControlSent { .. }));
        let end = report.events.last().map_or(0.0, |event| event.time.as_secs_f64());
        let allowed = self.promises.control_per_node_and_second * topology.nodes() as f64 * end.max(1.0);
        if control as f64 > allowed {
            return Err(format!("{control} packets without a message in {end:.1} s: {allowed:.0} allowed"));
        }
        // Each repair has a request, of a member or of a router that repeats one which nobody confirms; a
        // message has at most a few at each receiver.
        let repairs = report.count(|_, event| {
            matches!(event, Event::RepairSent { .. } | Event::Forwarded { repair: true, .. })
        });
        let nodes = report.receivers.len() + 1;
        let requests = report.count(|node, event| match event {
            Event::Requested { .. } => true,
            Event::ControlSent { packet, .. } => {
                node.index() >= nodes && self.promises.repeated_by_routers == Some(*packet)
            }
            _ => false,
        });
        if repairs > requests * nodes {
            return Err(format!("{repairs} repairs for {requests} requests among {nodes} members"));
        }
        Ok(())
    }
}

fn p(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}

const MESSAGES: u64 = 30;

/// How long a group is watched after its sender has finished.
const AFTERWARDS: Duration = Duration::from_secs(60);
