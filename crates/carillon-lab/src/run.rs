//! Runs: a scenario in a world, and all runs of a plan on several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carillon_core::{
    Addresses, Application, AssociationId, BuildContext, ConfigError, Event, GroupId, HelperTable,
    Identities, Machine, NodeId, Notice, Observer, ProtocolEntry, Role, Seeds, Time,
};
use carillon_sim::applications::{Sink, Source};
use carillon_sim::graph::Graph;
use carillon_sim::{Crashed, Hosts, Lan, Network, StopReason, World};
use thiserror::Error;

use crate::drops;
use crate::metrics::{self, MessageRecord, Recorder, Samples};
use crate::plan::{Plan, Run};
use crate::scenario::{RoutedNetwork, Scenario, ScenarioNetwork};

/// What a run gave.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Which sweep point.
    pub point: usize,
    /// Which replication of it.
    pub replication: u32,
    /// The messages, in the order of their completion.
    pub messages: Vec<MessageRecord>,
    /// The metrics.
    pub samples: Vec<Samples>,
    /// Steps of the simulation.
    pub steps: u64,
    /// Real time it took.
    pub wall: Duration,
}

/// Why a run gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The settings do not go together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A frame of this size has no room for the headers.
    #[error(
        "workload.message_bytes is {message_bytes}: {headers} bytes of headers leave no room for a payload"
    )]
    NoRoom {
        /// Bytes of the frame.
        message_bytes: u32,
        /// Bytes of the headers.
        headers: u32,
    },
    /// The senders were not done in the time they had.
    #[error(
        "after {limit:?} of simulated time the senders had completed {done} of {messages} messages; raise run.time_limit or lower the loss"
    )]
    Unfinished {
        /// The time.
        limit: Duration,
        /// Messages completed.
        done: u64,
        /// Messages offered.
        messages: u64,
    },
}

/// Runs one scenario; `observer` watches too.
pub fn run_one(run: &Run, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    run_while(run, observer, &|| false).map(|result| result.expect("nobody stopped the run"))
}

/// The same, unless it is stopped before its end.
fn run_while(
    run: &Run,
    observer: &mut dyn Observer,
    stop: &dyn Fn() -> bool,
) -> Result<Option<RunResult>, RunError> {
    let begin = Instant::now();
    let scenario = &run.scenario;
    let settled = Settled::default();
    let watch = Watch { scenario, recorder: Recorder::new(scenario), settled: settled.clone(), observer };
    let mut world = match build_counted(scenario, &run.seeds, watch, &settled) {
        Ok(world) => world,
        // It delivers nothing.
        Err(_) if scenario.keeps_unfinished => {
            let mut result = RunResult::new(run, Recorder::new(scenario), true, 0, begin.elapsed())?;
            result.samples.retain(|(metric, _)| *metric == "undelivered_share");
            return Ok(Some(result));
        }
        Err(error) => return Err(error),
    };
    world.start();
    let limit = Time::ZERO + scenario.time_limit;
    let mut ending = Ending::of(scenario);
    let (mut stopped, mut spent) = (false, false);
    let mut run_to = |world: &mut SimulatedWorld<_>, limit| {
        world.run(limit, |world| {
            // A look at it costs more than a step.
            stopped = world.steps() % 1024 == 0 && stop();
            spent = world.steps() >= scenario.step_limit;
            stopped || spent || ending.has_come(scenario, world, &settled)
        })
    };
    let mut reason = StopReason::TimeLimit;
    if let Some(death) = scenario.death {
        let at = |after| (Time::ZERO + after).min(limit);
        reason = run_to(&mut world, at(death.at));
        if reason != StopReason::Done {
            world.pass_to(at(death.at));
            world.replace(death.node, Box::new(Crashed), None);
        }
        if let (Some(told), true) = (death.told, reason != StopReason::Done) {
            reason = run_to(&mut world, at(told));
            if reason != StopReason::Done {
                world.pass_to(at(told));
                world.lose(scenario.sender(), death.node);
            }
        }
    }
    // What was idle may not be any more.
    if reason != StopReason::Done {
        reason = run_to(&mut world, limit);
    }
    if stopped {
        return Ok(None);
    }
    let done = !spent && (reason == StopReason::Done || ending.finished_at.is_some());
    let steps = world.steps();
    let Watch { recorder, .. } = world.into_observer();
    RunResult::new(run, recorder, done, steps, begin.elapsed()).map(Some)
}

impl RunResult {
    /// What a run gave, whether it was simulated or not: the metrics of what was recorded, if the
    /// senders are `done`.
    pub fn new(
        run: &Run,
        recorder: Recorder,
        done: bool,
        steps: u64,
        wall: Duration,
    ) -> Result<Self, RunError> {
        let scenario = &run.scenario;
        let (messages, totals) = recorder.into_messages();
        if !done && !scenario.keeps_unfinished {
            return Err(RunError::Unfinished {
                limit: scenario.time_limit,
                done: messages.len() as u64,
                messages: scenario.workload.messages * u64::from(scenario.senders),
            });
        }
        let samples = metrics::samples(scenario, &messages, totals);
        Ok(RunResult { point: run.point, replication: run.replication, messages, samples, steps, wall })
    }
}

/// Whether a run is over whose senders finished so long ago: at once where senders know what has
/// arrived; among peers, and where nobody tells them, when every message has been delivered to every
/// member or given up by it (`settled` times), or they have had their time for it.
pub fn is_over(scenario: &Scenario, finished_for: Duration, settled: u64) -> bool {
    (!scenario.is_among_peers() && scenario.protocol.confirms(&scenario.config))
        || finished_for >= scenario.linger
        || settled >= metrics::expected_deliveries(scenario)
}

/// How often a message was taken by an application that is not its source's, or given up at such a node, so far in
/// a run. It goes by what applications take and machines give notice of.
#[derive(Clone, Debug, Default)]
pub struct Settled(Arc<AtomicU64>);

impl Settled {
    /// The machine of a node gave notice of something. What one gives up that only helps nobody lacks by that.
    pub fn note(&self, scenario: &Scenario, node: NodeId, notice: &Notice) {
        if matches!(notice, Notice::GivenUp { .. }) && !scenario.only_helps(node) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Watches for the end of a simulated run.
#[derive(Debug)]
struct Ending {
    /// Who sends.
    senders: Vec<NodeId>,
    /// So many of them have finished.
    finished: usize,
    /// When the last of them had.
    finished_at: Option<Time>,
}

impl Ending {
    fn of(scenario: &Scenario) -> Self {
        Ending { senders: scenario.sending(), finished: 0, finished_at: None }
    }

    fn has_come<O: Observer>(
        &mut self,
        scenario: &Scenario,
        world: &mut SimulatedWorld<O>,
        settled: &Settled,
    ) -> bool {
        while let Some(&sender) = self.senders.get(self.finished) {
            if world.machine(sender).as_sender().is_some_and(|sender| !sender.is_finished()) {
                return false;
            }
            self.finished += 1;
        }
        let finished_at = *self.finished_at.get_or_insert(world.now());
        is_over(scenario, world.now().since(finished_at), settled.count())
    }
}

/// Runs these runs of a plan on `jobs` threads, and hands over the result of each as it ends, with its place in the plan. The
/// first error ends it, of a run or of `take`; so does `stop`, after which no run is begun and those under way are dropped.
pub fn run_each<E: From<RunError> + Send>(
    plan: &Plan,
    runs: &[usize],
    jobs: usize,
    stop: &(dyn Fn() -> bool + Sync),
    take: &mut (dyn FnMut(usize, RunResult) -> Result<(), E> + Send),
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let taken = Mutex::new((take, Ok(())));
    let failed = AtomicBool::new(false);
    let work = || {
        let over = || stop() || failed.load(Ordering::Relaxed);
        while !over()
            && let Some(&run) = runs.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let result = run_while(&plan.runs[run], &mut carillon_core::NoObserver, &over);
            // A thread that died with the lock has failed with a panic of its own.
            let Ok(mut taken) = taken.lock() else { return };
            let (take, outcome) = &mut *taken;
            let done = match result {
                Ok(None) => return,
                Ok(Some(result)) => take(run, result),
                Err(error) => Err(error.into()),
            };
            if outcome.is_ok() && done.is_err() {
                *outcome = done;
                failed.store(true, Ordering::Relaxed);
            }
        }
    };
    // Not more threads than runs.
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(runs.len()).max(1) {
            scope.spawn(work);
        }
    });
    taken.into_inner().map_or_else(|_| panic!("a thread of the laboratory died"), |(_, outcome)| outcome)
}

/// Runs a whole plan on `jobs` threads and keeps everything; the results come in the order of the plan whatever their
/// number.
pub fn run_plan(plan: &Plan, jobs: usize) -> Result<Vec<RunResult>, RunError> {
    let mut results: Vec<Option<RunResult>> = plan.runs.iter().map(|_| None).collect();
    let all: Vec<usize> = (0..plan.runs.len()).collect();
    run_each::<RunError>(plan, &all, jobs, &|| false, &mut |run, result| {
        results[run] = Some(result);
        Ok(())
    })?;
    Ok(results.into_iter().flatten().collect())
}

/// A world on any kind of network.
pub type SimulatedWorld<O> = World<Box<dyn Network>, O>;

/// The network of a scenario with a machine and an application at each node: on a LAN the sender is
/// node 0, the receivers are 1 to r, and those that only help follow; on a graph they are where its topology says, helpers
/// where the scenario's table says, and its other nodes are routers. Among peers the sender and the receivers are the
/// members, and the first send.
pub fn build_world<O: Observer>(
    scenario: &Scenario,
    seeds: &Seeds,
    observer: O,
) -> Result<SimulatedWorld<O>, RunError> {
    build_counted(scenario, seeds, observer, &Settled::default())
}

fn build_counted<O: Observer>(
    scenario: &Scenario,
    seeds: &Seeds,
    observer: O,
    settled: &Settled,
) -> Result<SimulatedWorld<O>, RunError> {
    let payload = payload_bytes(scenario)?;
    let members = scenario.members();
    let numbering = Numbering::global(scenario, members.clone());
    let (network, nodes): (Box<dyn Network>, usize) = match &scenario.network {
        ScenarioNetwork::Lan(lan) => {
            let nodes = scenario.stations();
            (Box::new(Lan::new(lan.clone(), nodes, seeds)), nodes)
        }
        ScenarioNetwork::Graph(graph) => {
            (Box::new(routed(scenario, graph, &members, seeds)), graph.topology.nodes())
        }
    };
    let network = match scenario.hosts {
        Some(hosts) => Box::new(Hosts::new(network, hosts, nodes, seeds)),
        None => network,
    };
    let mut is_host = vec![false; nodes];
    members.iter().chain([&scenario.sender()]).for_each(|host| is_host[host.index()] = true);
    scenario.only_helping().for_each(|host| is_host[host.index()] = true);
    let mut world = World::new(network, observer).with_helpers(scenario.helpers.clone());
    for node in (0..nodes as u32).map(NodeId) {
        let numbering = Numbering { node, ..numbering.clone() };
        if is_host[node.index()] {
            let (machine, application) = build_node(scenario, seeds, payload, node, &numbering, settled)?;
            world.add_node(machine, application);
        } else if scenario.protocol.roles.contains(&Role::Relay) {
            let numbering = Numbering { members: [].into(), ..numbering };
            let context = context(scenario, &seeds.node(node), payload, &numbering);
            world.add_node(build(scenario, Role::Relay, &context)?, None);
        } else {
            world.add_node(Box::new(Crashed), None);
        }
    }
    Ok(world)
}

/// The routed network of a scenario, with its members, its relays and its losses.
fn routed(scenario: &Scenario, routed: &RoutedNetwork, members: &[NodeId], seeds: &Seeds) -> Graph {
    let mut graph = Graph::new(routed.topology.clone(), routed.config, seeds);
    members.iter().copied().chain(scenario.only_helping()).for_each(|node| graph.join(drops::GROUP, node));
    for (link, ends) in (0_u32..).zip(routed.topology.links().iter().map(|link| link.ends)) {
        if let Some(loss) = routed.loss_of(link) {
            ends.into_iter().for_each(|end| graph.set_loss(link, end, loss));
        }
        if let Some(own) = routed.own.get(link as usize) {
            ends.into_iter().for_each(|end| graph.set_deviation(link, end, own.deviation));
        }
    }
    if let Some(input) = routed.input {
        let helpers = scenario.helpers.helpers().iter().map(|helper| helper.node);
        let parents = helpers.chain([routed.source()]);
        parents.for_each(|parent| graph.set_input(parent, input.interval, input.places));
    }
    if scenario.protocol.roles.contains(&Role::Relay) {
        let nodes = (0..routed.topology.nodes() as u32).map(NodeId);
        let hosts: std::collections::BTreeSet<NodeId> =
            members.iter().copied().chain([scenario.sender()]).chain(scenario.only_helping()).collect();
        nodes.filter(|node| !hosts.contains(node)).for_each(|node| graph.set_relay(node));
    }
    if let Some(losses) = &routed.drops {
        let per_second = 1.0 / scenario.workload.interval.as_secs_f64();
        drops::arm(&mut graph, routed, losses, drops::stride(losses, per_second));
    }
    graph
}

/// How a host numbers itself and the other nodes of the run.
#[derive(Clone, Debug)]
pub struct Numbering {
    /// Itself.
    pub node: NodeId,
    /// The sender.
    pub sender: NodeId,
    /// The members: the receivers, or all peers.
    pub members: Arc<[NodeId]>,
    /// Who turns to which helper.
    pub helpers: Arc<HelperTable>,
    /// What packets call them.
    pub identities: Identities,
}

impl Numbering {
    /// That of the simulator, where all hosts agree; seen from the sender.
    fn global(scenario: &Scenario, members: Arc<[NodeId]>) -> Self {
        // The numbers of the run name the nodes in packets too.
        Numbering {
            node: scenario.sender(),
            sender: scenario.sender(),
            members,
            helpers: scenario.helpers.clone(),
            identities: Identities::default(),
        }
    }

    /// That of the host of `node`, which calls a node what `local` says.
    pub fn with(scenario: &Scenario, node: NodeId, local: impl Fn(NodeId) -> NodeId) -> Self {
        let members = scenario.members();
        Numbering {
            node: local(node),
            sender: local(scenario.sender()),
            identities: Identities::agreed(
                node.0.into(),
                members.iter().map(|member| u64::from(member.0)).collect(),
            ),
            members: members.iter().map(|&member| local(member)).collect(),
            helpers: scenario.helpers.renumbered(local).into(),
        }
    }
}

/// The machine of a node, and its application, if it has one: who only helps has none.
pub type NodeParts = (Box<dyn Machine>, Option<Box<dyn Application>>);

/// Builds the machine and the application of a node.
pub fn build_node(
    scenario: &Scenario,
    seeds: &Seeds,
    payload: u32,
    node: NodeId,
    numbering: &Numbering,
    settled: &Settled,
) -> Result<NodeParts, ConfigError> {
    let sink = Sink::counting(numbering.node, settled.0.clone());
    let workload = &scenario.workload;
    let start = Time::ZERO + workload.start;
    let last = workload.last_payload(payload);
    let source = |messages| {
        Source::new(messages, payload as usize, workload.interval).ending_with(last).starting(start)
    };
    let context = context(scenario, &seeds.node(node), payload, numbering);
    if scenario.only_helps(node) {
        return Ok((build(scenario, Role::Helper, &context)?, None));
    }
    let (role, application): (_, Box<dyn Application>) = if scenario.is_among_peers() {
        let messages = if scenario.is_sending(node) { workload.messages } else { 0 };
        (Role::Peer, Box::new((source(messages), sink)))
    } else if node == scenario.sender() {
        (Role::Sender, Box::new(source(workload.messages)))
    } else {
        (Role::Receiver, Box::new(sink))
    };
    Ok((build(scenario, role, &context)?, Some(application)))
}

fn context(scenario: &Scenario, seeds: &Seeds, payload: u32, numbering: &Numbering) -> BuildContext {
    BuildContext {
        association: AssociationId(1),
        node: numbering.node,
        sender: numbering.sender,
        members: numbering.members.clone(),
        helpers: numbering.helpers.clone(),
        identities: numbering.identities.clone(),
        addresses: Addresses::default(),
        group: GroupId(0),
        seeds: seeds.clone(),
        bit_rate: scenario.network.bit_rate(),
        link_overhead: scenario.network.overhead(),
        max_payload: payload,
        memory: usize::MAX,
        rejoining: false,
    }
}

fn build(scenario: &Scenario, role: Role, context: &BuildContext) -> Result<Box<dyn Machine>, ConfigError> {
    let ProtocolEntry { build, .. } = scenario.protocol;
    build(role, context, &scenario.config)
}

/// The payload that makes a frame of the size the workload asks for.
pub fn payload_bytes(scenario: &Scenario) -> Result<u32, RunError> {
    let header = (scenario.protocol.header_bytes)(&scenario.config).data as u32;
    let headers = header + scenario.network.overhead();
    let message_bytes = scenario.workload.message_bytes;
    message_bytes.checked_sub(headers).ok_or(RunError::NoRoom { message_bytes, headers })
}

/// The recorder, what the run ends by, and whoever else watches.
struct Watch<'a> {
    scenario: &'a Scenario,
    recorder: Recorder,
    settled: Settled,
    observer: &'a mut dyn Observer,
}

impl Observer for Watch<'_> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.recorder.event(time, node, event);
        self.observer.event(time, node, event);
    }

    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        self.settled.note(self.scenario, node, notice);
        self.observer.notice(time, node, notice);
    }

    fn watches_held(&self) -> bool {
        self.recorder.watches_held()
    }

    fn held(&mut self, node: NodeId, messages: u64) {
        self.recorder.held(node, messages);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &carillon_core::Dest, bytes: &carillon_core::Bytes) {
        self.recorder.datagram(time, from, to, bytes);
        self.observer.datagram(time, from, to, bytes);
    }
}
