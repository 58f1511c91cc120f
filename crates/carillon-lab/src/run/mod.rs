//! Runs: a scenario in a world, and all runs of a plan on several threads.

mod ending;
mod error;
mod memory;
mod node;
mod settled;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carillon_core::{Event, Frame, Handling, NodeId, Notice, Observer, Time};
use carillon_sim::{Crashed, Runaway, StopReason};

pub use ending::is_over;
pub use error::RunError;
pub use node::{NodeParts, Numbering, build_node, payload_bytes};
pub use settled::SettledCount;
pub use world::{SimulatedWorld, build_world};

use crate::metrics::{self, MessageRecord, Recorder, SampleNodes, Samples};
use crate::plan::{Plan, Run};
use crate::scenario::Scenario;
use ending::Ending;
use memory::MemoryWatch;
use world::build_counted;

/// Results of a run.
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
    /// Nodes of the samples, for metrics of nodes that the scenario measures (`run.measure`).
    pub nodes: Vec<SampleNodes>,
    /// Steps of the simulation.
    pub steps: u64,
    /// Real time it took.
    pub wall: Duration,
}

/// Runs one scenario; `observer` watches too.
pub fn run_one(run: &Run, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    run_while(run, observer, &|| false).map(|result| result.expect("the run cannot be stopped"))
}

/// Runs one run of a plan, unless it is stopped before its end, by `stop` or by the observer.
pub fn run_while(
    run: &Run,
    observer: &mut dyn Observer,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<RunResult>, RunError> {
    let begin = Instant::now();
    let scenario = &run.scenario;
    let settled = SettledCount::default();
    let watch = RunObserver {
        scenario,
        recorder: Recorder::new(scenario),
        settled: settled.clone(),
        memory: MemoryWatch::new(scenario.memory_limit),
        stop,
        frames_watched: observer.watches_frames(),
        observer,
    };
    let mut world = match build_counted(scenario, &run.seeds, watch, &settled) {
        Ok(world) => world,
        // It delivers nothing.
        Err(_) if scenario.keeps_unfinished => {
            let mut result = RunResult::new(run, Recorder::new(scenario), true, 0, begin.elapsed())?;
            result.samples.retain(|(metric, _)| *metric == "undelivered_share");
            result.nodes.clear();
            return Ok(Some(result));
        }
        Err(error) => return Err(error),
    };
    world.start();
    let limit = Time::ZERO + scenario.time_limit;
    let mut ending = Ending::of(scenario);
    let (mut stopped, mut spent) = (false, false);
    let mut run_to = |world: &mut SimulatedWorld<RunObserver<'_>>, limit| {
        world.run(limit, |world| {
            // A look at it costs more than a step.
            stopped = world.steps() % 1024 == 0 && world.observer().stops();
            spent = world.steps() >= scenario.step_limit;
            stopped || spent || ending.has_come(scenario, world, &settled)
        })
    };
    let goes_on = |reason| matches!(reason, StopReason::Idle | StopReason::TimeLimit);
    let mut reason = StopReason::TimeLimit;
    if let Some(death) = scenario.death {
        let at = |after| (Time::ZERO + after).min(limit);
        reason = run_to(&mut world, at(death.at));
        if goes_on(reason) {
            world.pass_to(at(death.at));
            world.replace(death.node, Box::new(Crashed), None);
        }
        if let (Some(told), true) = (death.told, goes_on(reason)) {
            reason = run_to(&mut world, at(told));
            if goes_on(reason) {
                world.pass_to(at(told));
                world.lose(scenario.sender(), death.node);
            }
        }
    }
    // The death may have given an idle run new events.
    if goes_on(reason) {
        reason = run_to(&mut world, limit);
    }
    let (steps, now) = (world.steps(), world.now());
    let RunObserver { recorder, memory, .. } = world.into_observer();
    if let Some((resident, limit)) = memory.exceeded() {
        return Err(RunError::Memory { time: now, resident, limit });
    }
    if stopped || reason == StopReason::Stopped {
        return Ok(None);
    }
    if let StopReason::Runaway(Runaway { node, time, datagrams, records }) = reason {
        // Each datagram is a step to come.
        spent = datagrams > scenario.step_limit;
        if !spent || datagrams > scenario.emission_limit {
            let (role, protocol) = (scenario.role_of(node), scenario.protocol.name);
            return Err(RunError::Runaway { node, role, protocol, time, datagrams, records });
        }
    }
    let done = !spent && (reason == StopReason::Done || ending.finished_at.is_some());
    RunResult::new(run, recorder, done, steps, begin.elapsed()).map(Some)
}

impl RunResult {
    /// Computes the results of a run, simulated or on a testbed: the metrics of the recorded trace, if the senders
    /// are `done`.
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
        let (samples, nodes) = metrics::samples(scenario, &messages, totals);
        let Run { point, replication, .. } = *run;
        Ok(RunResult { point, replication, messages, samples, nodes, steps, wall })
    }
}

/// Runs these runs of a plan on `jobs` threads and passes each result to `take` as it ends, with its index in the
/// plan. The first error of a run or of `take` ends it. So does `stop`: no further run starts, and runs in progress
/// are abandoned.
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
    // Not more threads than runs. This one works too, so that the runs are done if the system refuses the others.
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(runs.len()) {
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    taken.into_inner().map_or_else(|_| panic!("a thread of the laboratory died"), |(_, outcome)| outcome)
}

/// Runs a whole plan on `jobs` threads and returns all results in the order of the plan, independent of the number of
/// threads.
pub fn run_plan(plan: &Plan, jobs: usize) -> Result<Vec<RunResult>, RunError> {
    let mut results: Vec<Option<RunResult>> = plan.runs.iter().map(|_| None).collect();
    let all: Vec<usize> = (0..plan.runs.len()).collect();
    run_each::<RunError>(plan, &all, jobs, &|| false, &mut |run, result| {
        results[run] = Some(result);
        Ok(())
    })?;
    Ok(results.into_iter().flatten().collect())
}

/// The recorder, what the run ends by, and whoever else watches.
struct RunObserver<'a> {
    scenario: &'a Scenario,
    recorder: Recorder,
    settled: SettledCount,
    memory: MemoryWatch,
    stop: &'a (dyn Fn() -> bool + Sync),
    /// True if `observer` wants to know the frames of events.
    frames_watched: bool,
    observer: &'a mut dyn Observer,
}

impl Observer for RunObserver<'_> {
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

    fn watches_frames(&self) -> bool {
        self.frames_watched
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if self.frames_watched {
            self.observer.frame(frame);
        }
    }

    fn held(&mut self, time: Time, node: NodeId, messages: u64) {
        self.recorder.held(time, node, messages);
    }

    fn watches_packets(&self) -> bool {
        self.recorder.watches_packets()
    }

    fn handled(&mut self, time: Time, node: NodeId, handling: Handling) {
        self.recorder.handled(time, node, handling);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &carillon_core::Dest, bytes: &carillon_core::Bytes) {
        self.recorder.datagram(time, from, to, bytes);
        self.observer.datagram(time, from, to, bytes);
    }

    fn stops(&mut self) -> bool {
        (self.stop)() || self.memory.is_exceeded() || self.observer.stops()
    }
}
