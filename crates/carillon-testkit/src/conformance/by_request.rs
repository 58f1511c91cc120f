//! Protocols that recover by request, over random routed networks.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::{same, with_drawn_settings};
use crate::{DeliveryGuarantee, Group, Report, TrialNetwork, protocol_tests, random_network};
use carillon_core::{Event, NodeId, Probability, ProtocolEntry, Rng, Seeds};
use carillon_sim::graph::{GraphConfig, LossModel, Topology};

/// Parameters of the guarantee.
#[derive(Clone, Copy)]
pub struct Promised {
    control_per_node_and_second: f64,
    repeated_by_routers: Option<&'static str>,
}

/// Parameters of the guarantee; `None` for another guarantee.
pub fn by_request(guarantee: &DeliveryGuarantee) -> Option<Promised> {
    match *guarantee {
        DeliveryGuarantee::ByRequest { control_per_node_and_second, repeated_by_routers } => {
            Some(Promised { control_per_node_and_second, repeated_by_routers })
        }
        _ => None,
    }
}

/// Runs each test once.
///
/// # Errors
/// The first violation of the guarantee.
pub fn run_of_each_test(entry: &'static ProtocolEntry, seed: u64) -> Result<(), String> {
    let Some(promised) = by_request(&protocol_tests(entry).guarantee) else { return Ok(()) };
    let suite = Suite { entry, promised };
    let tests = [
        Suite::lossy_routes,
        Suite::a_fifth,
        Suite::router_restarts,
        Suite::receivers_die,
        Suite::routes_change,
    ];
    tests.into_iter().try_for_each(|test| test(&suite, seed))
}

/// Tests of one protocol.
pub struct Suite {
    /// Protocol.
    pub entry: &'static ProtocolEntry,
    /// Guarantee.
    pub promised: Promised,
}

/// A group ready to run, and its network.
struct Setting {
    group: Group,
    topology: Arc<Topology>,
    config: GraphConfig,
    receivers: u32,
    rng: Rng,
}

impl Suite {
    /// Random network and group of this protocol: 30 messages, one every 20 ms. The routers learn of the source
    /// through the first messages, which are not lost.
    fn setting(&self, seed: u64) -> Setting {
        let mut rng = Seeds::new(seed).stream("routed");
        let receivers = 1 + rng.below(8) as u32;
        let routers = 1 + rng.below(8) as u32;
        let detours = rng.below(3) as u32;
        let longest = Duration::from_millis(1 + rng.below(8));
        let topology = Arc::new(random_network(receivers, routers, detours, longest, &mut rng));
        let config = GraphConfig { overhead: 28, ..GraphConfig::default() };
        let group = Group::new(self.entry, seed).receivers(receivers).messages(MESSAGES);
        let group = group.interval(Duration::from_millis(20)).afterwards(WATCH_TIME);
        let group =
            with_drawn_settings(group, self.entry, TrialNetwork::Routed, receivers + 1, &mut rng, |_| {});
        // In every other run ports hold machines up.
        let port_queue = NonZeroU32::new(rng.below(2) as u32 * (1 + rng.below(4) as u32));
        Setting { group, topology, config: GraphConfig { port_queue, ..config }, receivers, rng }
    }

    /// Loss of up to 10 % on every link.
    ///
    /// # Errors
    /// A violation of the guarantee.
    pub fn lossy_routes(&self, seed: u64) -> Result<(), String> {
        let Setting { group, topology, config, mut rng, .. } = self.setting(seed);
        let loss = LossModel::Bernoulli(p(rng.unit() * 0.1));
        let report = group.run_graph(topology.clone(), config, loss);
        report.check_reliable()?;
        self.check_traffic(&report, &topology)
    }

    /// A loss rate of 20 %: every receiver has each message or reports its loss.
    ///
    /// # Errors
    /// A violation of the guarantee.
    pub fn a_fifth(&self, seed: u64) -> Result<(), String> {
        let Setting { group, topology, config, .. } = self.setting(seed);
        let report = group.run_graph(topology.clone(), config, LossModel::Bernoulli(p(0.2)));
        report.check_losses_announced()?;
        self.check_traffic(&report, &topology)
    }

    /// Routers lose their state during the run.
    ///
    /// # Errors
    /// A violation of the guarantee.
    pub fn router_restarts(&self, seed: u64) -> Result<(), String> {
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

    /// Receivers crash during the run.
    ///
    /// # Errors
    /// A violation of the guarantee.
    pub fn receivers_die(&self, seed: u64) -> Result<(), String> {
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

    /// Links fail and recover during the run.
    ///
    /// # Errors
    /// A violation of the guarantee.
    pub fn routes_change(&self, seed: u64) -> Result<(), String> {
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

    /// Equal seeds give equal runs.
    ///
    /// # Errors
    /// A violation of the guarantee.
    pub fn same(&self, seed: u64) -> Result<(), String> {
        let Setting { group, topology, config, .. } = self.setting(seed);
        same(|| group.run_graph(topology.clone(), config, LossModel::Bernoulli(p(0.1)))).map(drop)
    }

    /// Checks that control traffic stays within the guarantee, without storms or loops.
    fn check_traffic(&self, report: &Report, topology: &Topology) -> Result<(), String> {
        let control = report.count(|_, event| matches!(event, Event::ControlSent { .. }));
        let end = report.events.last().map_or(0.0, |event| event.time.as_secs_f64());
        let allowed = self.promised.control_per_node_and_second * topology.nodes() as f64 * end.max(1.0);
        if control as f64 > allowed {
            return Err(format!("{control} packets without a message in {end:.1} s: {allowed:.0} allowed"));
        }
        // Each repair has a request by a member or a repeating router, and each request causes at most a few repairs
        // per receiver.
        let repairs = report.count(|_, event| {
            matches!(event, Event::RepairSent { .. } | Event::Forwarded { repair: true, .. })
        });
        let nodes = report.receivers.len() + 1;
        let requests = report.count(|node, event| match event {
            Event::Requested { .. } => true,
            Event::ControlSent { packet, .. } => {
                node.index() >= nodes && self.promised.repeated_by_routers == Some(*packet)
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

/// Time that a group is watched after its sender has finished.
const WATCH_TIME: Duration = Duration::from_secs(60);
