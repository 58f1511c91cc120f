//! Runs: a scenario in a world, and all runs of a plan on several threads.

use std::time::{Duration, Instant};

use carillon_core::{
    AssociationId, BuildContext, ConfigError, GroupId, Machine, NodeId, Observer, ProtocolEntry, Role, Seeds,
    Time,
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
    /// The sender was not done in the time it had.
    #[error(
        "after {limit:?} of simulated time the sender had completed {done} of {messages} messages; raise run.time_limit or lower the loss"
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
    let stop =
        world.run(limit, |world| world.machine(SENDER).as_sender().is_none_or(|sender| sender.is_finished()));
    let steps = world.steps();
    let Both(recorder, _) = world.into_observer();
    let (messages, totals) = recorder.into_messages();
    if stop != StopReason::Done {
        return Err(RunError::Unfinished {
            limit: scenario.time_limit,
            done: messages.len() as u64,
            messages: scenario.workload.messages,
        });
    }
    let samples = metrics::samples(scenario, &messages, totals);
    Ok(RunResult {
        point: run.point,
        replication: run.replication,
        messages,
        samples,
        steps,
        wall: begin.elapsed(),
    })
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

/// The network of a scenario with a machine and an application at each node: the sender is node
/// 0, the receivers are 1 to r.
pub fn build_world<O: Observer>(
    scenario: &Scenario,
    seeds: &Seeds,
    observer: O,
) -> Result<World<Lan, O>, RunError> {
    let payload = payload_bytes(scenario, seeds)?;
    let lan = Lan::new(scenario.network.clone(), scenario.receivers as usize + 1, seeds);
    let mut world = World::new(lan, observer);
    let workload = &scenario.workload;
    let context = context(scenario, seeds, payload);
    let source = Source::new(workload.messages, payload as usize, workload.interval);
    world.add_node(build(scenario, Role::Sender, &context)?, Some(Box::new(source)));
    for node in (1..=scenario.receivers).map(NodeId) {
        let context = BuildContext { node, seeds: seeds.node(node), ..context.clone() };
        world.add_node(build(scenario, Role::Receiver, &context)?, Some(Box::new(Sink)));
    }
    Ok(world)
}

fn context(scenario: &Scenario, seeds: &Seeds, payload: u32) -> BuildContext {
    BuildContext {
        association: AssociationId(1),
        node: SENDER,
        sender: SENDER,
        members: (1..=scenario.receivers).map(NodeId).collect(),
        identities: Default::default(),
        group: GroupId(0),
        seeds: seeds.node(SENDER),
        bit_rate: scenario.network.bit_rate,
        link_overhead: scenario.network.frame_overhead,
        max_payload: payload,
    }
}

fn build(scenario: &Scenario, role: Role, context: &BuildContext) -> Result<Box<dyn Machine>, ConfigError> {
    let ProtocolEntry { build, .. } = scenario.protocol;
    build(role, context, &scenario.config)
}

/// The payload that makes a frame of the size the workload asks for.
fn payload_bytes(scenario: &Scenario, seeds: &Seeds) -> Result<u32, RunError> {
    let small = Scenario { receivers: 1, ..scenario.clone() };
    let mut sender = build(&small, Role::Sender, &context(&small, seeds, 0))?;
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
