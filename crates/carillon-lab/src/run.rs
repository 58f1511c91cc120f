//! Runs: a scenario in a world, and all runs of a plan on several threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use carillon_core::{
    Addresses, Application, AssociationId, BuildContext, ConfigError, GroupId, Identities, Machine, NodeId,
    Observer, ProtocolEntry, Role, Seeds, Time,
};
use carillon_sim::applications::{Sink, Source};
use carillon_sim::{Lan, StopReason, World};
use rayon::prelude::*;
use thiserror::Error;

use crate::metrics::{self, MessageRecord, Recorder, Samples};
use crate::plan::{Plan, Run};
use crate::scenario::Scenario;

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
    let begin = Instant::now();
    let scenario = &run.scenario;
    let watch = Both(Recorder::default(), observer);
    let mut world = build_world(scenario, &run.seeds, watch)?;
    world.start();
    let limit = Time::ZERO + scenario.time_limit;
    let mut ending = Ending::default();
    let stop = world.run(limit, |world| ending.has_come(scenario, world));
    let done = stop == StopReason::Done || ending.finished_at.is_some();
    let steps = world.steps();
    let Both(recorder, _) = world.into_observer();
    RunResult::new(run, recorder, done, steps, begin.elapsed())
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
        if !done {
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

/// Whether a run is over whose senders finished so long ago: at once or, among peers, when also
/// everything has been delivered or they have had their time for it.
pub fn is_over(scenario: &Scenario, finished_for: Duration, deliveries: u64) -> bool {
    !scenario.is_among_peers()
        || finished_for >= scenario.linger
        || deliveries >= metrics::expected_deliveries(scenario)
}

/// Watches for the end of a simulated run.
#[derive(Debug, Default)]
struct Ending {
    /// Senders below this have finished.
    finished: u32,
    /// When the last of them had.
    finished_at: Option<Time>,
}

impl Ending {
    fn has_come(&mut self, scenario: &Scenario, world: &mut World<Lan, Both<'_>>) -> bool {
        while self.finished < scenario.senders {
            if world.machine(NodeId(self.finished)).as_sender().is_some_and(|sender| !sender.is_finished()) {
                return false;
            }
            self.finished += 1;
        }
        let finished_at = *self.finished_at.get_or_insert(world.now());
        is_over(scenario, world.now().since(finished_at), world.observer().0.deliveries())
    }
}

/// Runs a whole plan on `jobs` threads; the results come in the order of the plan whatever their
/// number. `progress` is told after each run.
pub fn run_plan(plan: &Plan, jobs: usize, progress: &(dyn Fn() + Sync)) -> Result<Vec<RunResult>, RunError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().expect("threads can be started");
    pool.install(|| {
        plan.runs
            .par_iter()
            .map(|run| {
                let result = run_one(run, &mut carillon_core::NoObserver);
                progress();
                result
            })
            .collect()
    })
}

/// The network of a scenario with a machine and an application at each node. The sender is node 0,
/// the receivers are 1 to r; all of them are peers where the protocol has peers, and the first ones
/// send.
pub fn build_world<O: Observer>(
    scenario: &Scenario,
    seeds: &Seeds,
    observer: O,
) -> Result<World<Lan, O>, RunError> {
    let payload = payload_bytes(scenario, seeds)?;
    let numbering = Numbering::global(scenario);
    let lan = Lan::new(scenario.network.clone(), scenario.receivers as usize + 1, seeds);
    let mut world = World::new(lan, observer);
    for node in (0..=scenario.receivers).map(NodeId) {
        let numbering = Numbering { node, ..numbering.clone() };
        let (machine, application) = build_node(scenario, seeds, payload, node, &numbering)?;
        world.add_node(machine, Some(application));
    }
    Ok(world)
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
    /// What packets call them.
    pub identities: Identities,
}

impl Numbering {
    /// That of the simulator, where all hosts agree; seen from the sender.
    fn global(scenario: &Scenario) -> Self {
        // The numbers of the run name the nodes in packets too.
        Numbering { identities: Identities::default(), ..Self::with(scenario, SENDER, |node| node) }
    }

    /// That of the host of `node`, which calls a node what `local` says.
    pub fn with(scenario: &Scenario, node: NodeId, local: impl Fn(NodeId) -> NodeId) -> Self {
        let first_member = if scenario.is_among_peers() { 0 } else { 1 };
        let members = (first_member..=scenario.receivers).map(NodeId);
        Numbering {
            node: local(node),
            sender: local(SENDER),
            identities: Identities::agreed(
                node.0.into(),
                members.clone().map(|member| u64::from(member.0)).collect(),
            ),
            members: members.map(local).collect(),
        }
    }
}

/// The machine and the application of a node.
pub type NodeParts = (Box<dyn Machine>, Box<dyn Application>);

/// Builds the machine and the application of a node.
pub fn build_node(
    scenario: &Scenario,
    seeds: &Seeds,
    payload: u32,
    node: NodeId,
    numbering: &Numbering,
) -> Result<NodeParts, ConfigError> {
    let workload = &scenario.workload;
    let source = |messages| Source::new(messages, payload as usize, workload.interval);
    let (role, application): (_, Box<dyn Application>) = if scenario.is_among_peers() {
        let messages = if node.0 < scenario.senders { workload.messages } else { 0 };
        (Role::Peer, Box::new((source(messages), Sink)))
    } else if node == SENDER {
        (Role::Sender, Box::new(source(workload.messages)))
    } else {
        (Role::Receiver, Box::new(Sink))
    };
    let context = context(scenario, &seeds.node(node), payload, numbering);
    Ok((build(scenario, role, &context)?, application))
}

fn context(scenario: &Scenario, seeds: &Seeds, payload: u32, numbering: &Numbering) -> BuildContext {
    BuildContext {
        association: AssociationId(1),
        node: numbering.node,
        sender: numbering.sender,
        members: numbering.members.clone(),
        identities: numbering.identities.clone(),
        addresses: Addresses::default(),
        group: GroupId(0),
        seeds: seeds.clone(),
        bit_rate: scenario.network.bit_rate,
        link_overhead: scenario.network.frame_overhead,
        max_payload: payload,
        rejoining: false,
    }
}

fn build(scenario: &Scenario, role: Role, context: &BuildContext) -> Result<Box<dyn Machine>, ConfigError> {
    let ProtocolEntry { build, .. } = scenario.protocol;
    build(role, context, &scenario.config)
}

/// The payload that makes a frame of the size the workload asks for.
pub fn payload_bytes(scenario: &Scenario, seeds: &Seeds) -> Result<u32, RunError> {
    let small = Scenario { receivers: 1, ..scenario.clone() };
    let role = if scenario.is_among_peers() { Role::Peer } else { Role::Sender };
    let mut sender =
        build(&small, role, &context(&small, &seeds.node(SENDER), 0, &Numbering::global(&small)))?;
    let header = sender.as_sender().map_or(0, |sender| sender.header_bytes()) as u32;
    let headers = header + scenario.network.frame_overhead;
    let message_bytes = scenario.workload.message_bytes;
    message_bytes.checked_sub(headers).ok_or(RunError::NoRoom { message_bytes, headers })
}

/// The node of the sender.
pub const SENDER: NodeId = NodeId(0);

/// The recorder and whoever else watches.
struct Both<'a>(Recorder, &'a mut dyn Observer);

impl Observer for Both<'_> {
    fn event(&mut self, event: &carillon_core::TraceEvent) {
        self.0.event(event);
        self.1.event(event);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &carillon_core::Dest, bytes: &carillon_core::Bytes) {
        self.1.datagram(time, from, to, bytes);
    }
}
