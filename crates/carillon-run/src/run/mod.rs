//! Runs: a scenario in a world, supervised by the host.

pub(crate) mod competitor;
mod ending;
mod error;
mod node;
mod parts;
mod settled;
mod supervisor;
mod world;

use std::time::Duration;

use carillon_core::{Event, Frame, Handling, Machine, NodeId, Notice, Observer, Time};
use carillon_sim::{Crashed, Runaway, StopReason};

pub use ending::is_over;
pub use error::RunError;
pub use node::{NodeParts, Numbering, build_node, payload_bytes};
pub use settled::SettledCount;
pub use supervisor::{OneThread, Supervisor, Task, Unsupervised, Workers};
pub use world::{SimulatedWorld, build_world};

use crate::metrics::{self, MessageRecord, Recorder, SampleNodes, Samples};
use crate::plan::Run;
use crate::scenario::{Scenario, ScenarioNetwork};
use ending::Ending;
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
    /// Real time it took, if the supervisor knows it.
    pub wall: Duration,
}

/// Simulates one run of a plan, which `observer` watches too. `None` if the supervisor or the observer stops it before
/// its end.
pub fn simulate(
    run: &Run,
    observer: &mut dyn Observer,
    supervisor: &mut dyn Supervisor,
) -> Result<Option<RunResult>, RunError> {
    simulate_on(run, observer, supervisor, &OneThread)
}

/// Simulates one run as [`simulate`] does, on several threads if the scenario allows it. The results are the same for
/// any number of threads.
pub fn simulate_on(
    run: &Run,
    observer: &mut dyn Observer,
    supervisor: &mut dyn Supervisor,
    workers: &dyn Workers,
) -> Result<Option<RunResult>, RunError> {
    let scenario = &run.scenario;
    if let Some(partition) = parts::partition(scenario, observer, workers) {
        return parts::simulate(run, observer, supervisor, workers, partition);
    }
    let settled = SettledCount::default();
    let watch = RunObserver::new(scenario, observer, supervisor, &settled);
    let mut world = match build_counted(scenario, &run.seeds, watch, &settled) {
        Ok(world) => world,
        Err(_) if scenario.keeps_unfinished => return RunResult::of_nothing(run).map(Some),
        Err(error) => return Err(error),
    };
    world.start();
    let limit = Time::ZERO + scenario.time_limit;
    let mut ending = Ending::of(scenario);
    let mut run_to = |world: &mut SimulatedWorld<RunObserver<'_>>, limit| {
        world.run(limit, |world| {
            ending.is_cut_off(scenario, world.steps(), || world.observer().stops())
                || ending.has_come(scenario, world, &settled)
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
    let end = End { steps: world.steps(), now: world.now(), reason, ending };
    end.result(run, world.into_observer())
}

/// End of a run.
struct End {
    steps: u64,
    now: Time,
    reason: StopReason,
    ending: Ending,
}

impl End {
    /// Result of a run that ended so. `None` if it was stopped.
    fn result(self, run: &Run, observer: RunObserver<'_>) -> Result<Option<RunResult>, RunError> {
        let End { steps, now, reason, ending: Ending { stopped, mut spent, finished_at, .. } } = self;
        let scenario = &run.scenario;
        let RunObserver { recorder, supervisor, .. } = observer;
        if let Some((resident, limit)) = supervisor.exceeded_memory() {
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
        let steps = if spent { steps.max(scenario.step_limit) } else { steps };
        let done = !spent && (reason == StopReason::Done || finished_at.is_some());
        RunResult::new(run, recorder, done, steps, supervisor.elapsed()).map(Some)
    }
}

impl RunResult {
    /// Result of a run that cannot begin and delivers nothing.
    fn of_nothing(run: &Run) -> Result<RunResult, RunError> {
        let mut result = RunResult::new(run, Recorder::new(&run.scenario), true, 0, Duration::ZERO)?;
        result.samples.retain(|(metric, _)| *metric == "undelivered_share");
        result.nodes.clear();
        Ok(result)
    }

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
            let done = messages.len() as u64;
            let messages = scenario.workload.messages * u64::from(scenario.senders);
            return Err(match steps >= scenario.step_limit {
                true => RunError::Steps { steps, done, messages },
                false => RunError::Unfinished { limit: scenario.time_limit, done, messages },
            });
        }
        let (samples, nodes) = metrics::samples(scenario, &messages, totals);
        let Run { point, replication, .. } = *run;
        Ok(RunResult { point, replication, messages, samples, nodes, steps, wall })
    }
}

/// Number of steps after which a run asks its supervisor and its observer again whether to stop, at most.
pub const STEPS_BETWEEN_QUESTIONS: u64 = 1024;

/// Number of steps after which this run asks, a power of two. On a LAN each step may have an event at every host, so a
/// large group asks more often.
fn steps_between_questions(scenario: &Scenario) -> u64 {
    match scenario.network {
        ScenarioNetwork::Lan(_) => {
            let hosts = (scenario.stations() as u64).next_power_of_two();
            (MAX_EVENTS_BETWEEN_QUESTIONS / hosts).clamp(1, STEPS_BETWEEN_QUESTIONS)
        }
        ScenarioNetwork::Graph(_) => STEPS_BETWEEN_QUESTIONS,
    }
}

/// Number of events between two questions, roughly, if each step has one event at each host.
const MAX_EVENTS_BETWEEN_QUESTIONS: u64 = 1 << 18;

/// Observers of a run: the recorder, the condition of its end, and the observer of the caller.
struct RunObserver<'a> {
    scenario: &'a Scenario,
    recorder: Recorder,
    settled: SettledCount,
    supervisor: &'a mut dyn Supervisor,
    /// True if `observer` records receptions; the recorder does not.
    receptions_watched: bool,
    /// True if `observer` wants to know the frames of events.
    frames_watched: bool,
    /// True if `observer` wants to see machines after each call.
    machines_watched: bool,
    observer: &'a mut dyn Observer,
}

impl<'a> RunObserver<'a> {
    fn new(
        scenario: &'a Scenario,
        observer: &'a mut dyn Observer,
        supervisor: &'a mut dyn Supervisor,
        settled: &SettledCount,
    ) -> Self {
        RunObserver {
            scenario,
            recorder: Recorder::new(scenario),
            settled: settled.clone(),
            supervisor,
            receptions_watched: observer.watches_receptions(),
            frames_watched: observer.watches_frames(),
            machines_watched: observer.watches_machines(),
            observer,
        }
    }
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

    fn watches_receptions(&self) -> bool {
        self.receptions_watched
    }

    fn watches_frames(&self) -> bool {
        self.frames_watched
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if self.frames_watched {
            self.observer.frame(frame);
        }
    }

    fn frame_event(&mut self, time: Time, node: NodeId, event: &Event, frame: &Frame<'_>) {
        self.recorder.frame_event(time, node, event, frame);
        if self.frames_watched {
            self.observer.frame(frame);
        }
        self.observer.event(time, node, event);
    }

    fn watches_machines(&self) -> bool {
        self.machines_watched
    }

    fn machine(&mut self, time: Time, node: NodeId, machine: &dyn Machine, deadline: Option<Time>) {
        self.observer.machine(time, node, machine, deadline);
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
        self.supervisor.stops() || self.observer.stops()
    }
}
