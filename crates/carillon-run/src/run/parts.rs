//! Runs that several threads simulate: each a part of the network.

use std::time::Duration;

use carillon_core::{Observer, Time};
use carillon_sim::graph::Partition;
use carillon_sim::loss::LossRule;
use carillon_sim::{Merge, Part, Step, StopReason, Tape, Window};

use super::ending::{End, Ending};
use super::error::RunError;
use super::observer::RunObserver;
use super::result::RunResult;
use super::settled::SettledCount;
use super::supervisor::{Supervisor, Task, Workers};
use super::world::build_part;
use crate::plan::Run;
use crate::scenario::Scenario;

/// Partition of a run's network for these workers, if the run can be simulated in parts and is worth it.
///
/// Parts affect each other by packets on links only. So a run is simulated as a whole if something else connects its
/// nodes: a shared medium, helpers with a common table, several senders, losses that a program decides, links that
/// fail, or an observer that looks at machines.
pub(super) fn partition(
    scenario: &Scenario,
    observer: &dyn Observer,
    workers: &dyn Workers,
) -> Option<Partition> {
    let graph = scenario.network.graph()?;
    let is_simple = scenario.hosts.is_none()
        && scenario.competitor.is_none()
        && scenario.death.is_none()
        && scenario.helpers.helpers().is_empty()
        && !scenario.is_among_peers()
        && graph.outages.all.is_empty()
        && !scenario.losses.iter().any(|loss| matches!(loss.section.rule, LossRule::Custom(_)));
    let is_worth_it = workers.number() > 1 && graph.topology.nodes() >= workers.least_nodes();
    if !is_simple || !is_worth_it || observer.watches_machines() || observer.watches_buffers() {
        return None;
    }
    let parts = workers.number() * PARTS_PER_WORKER + 1;
    let varies = |link: u32| graph.own.get(link as usize).is_some_and(|own| !own.deviation.is_zero());
    Partition::new(&graph.topology, scenario.sender(), parts, LOOKAHEAD_LIMIT, varies)
}

/// Simulates a run in parts.
pub(super) fn simulate(
    run: &Run,
    observer: &mut dyn Observer,
    supervisor: &mut dyn Supervisor,
    workers: &dyn Workers,
    partition: Partition,
) -> Result<Option<RunResult>, RunError> {
    let scenario = &run.scenario;
    let settled = SettledCount::default();
    let mut watch = RunObserver::new(scenario, observer, supervisor, &settled);
    let mut parts = match build(run, &watch, workers, &partition) {
        Ok(parts) => parts,
        Err(_) if scenario.keeps_unfinished => return RunResult::of_nothing(run).map(Some),
        Err(error) => return Err(error),
    };
    let mut merge = Merge::new(partition);
    let mut progress = Progress::of(scenario, settled);
    let (limit, most) = (Time::ZERO + scenario.time_limit, workers.most_steps());
    // The window that was simulated last; it is played while the next one is simulated.
    let mut simulated = merge.end_window(&mut parts, Window::default());
    let mut used = Window::default();
    loop {
        let is_halted = simulated.is_halted();
        let next = merge.next_window(&parts).filter(|next| !is_halted && next.first <= limit);
        let end = next.map(|next| next.last.min(limit));
        let mut tasks: Vec<Task<'_>> = vec![Box::new(|| progress.play(&simulated, &mut watch))];
        if let Some(end) = end {
            tasks.extend(parts.iter_mut().map(|part| Box::new(move || part.run(end, most)) as Task<'_>));
        }
        workers.complete(tasks);
        if progress.is_over() {
            break;
        }
        if end.is_none() {
            if !progress.has_started {
                progress.ask(&mut watch);
                if progress.is_over() {
                    break;
                }
            }
            let is_idle = merge.next_window(&parts).is_none();
            progress.reason = Some(if is_idle { StopReason::Idle } else { StopReason::TimeLimit });
            break;
        }
        let played = std::mem::take(&mut simulated);
        simulated = merge.end_window(&mut parts, std::mem::replace(&mut used, played));
    }
    let Progress { ending, steps, now, reason, .. } = progress;
    End { steps, now, reason: reason.unwrap_or(StopReason::Done), ending }.result(run, watch)
}

/// Builds all parts and starts their machines.
fn build(
    run: &Run,
    watch: &RunObserver<'_>,
    workers: &dyn Workers,
    partition: &Partition,
) -> Result<Vec<Part>, RunError> {
    let scenario = &run.scenario;
    let Some(graph) = scenario.network.graph() else { return Ok(Vec::new()) };
    let tapes: Vec<Tape> = partition.parts().map(|_| Tape::of(watch)).collect();
    let mut parts: Vec<Option<Result<Part, RunError>>> = partition.parts().map(|_| None).collect();
    let tasks = partition.parts().zip(tapes).zip(&mut parts).map(|((part, tape), place)| {
        let build = move || {
            let settled = SettledCount::default();
            let world = build_part(scenario, graph, &run.seeds, tape, &settled, (partition, part))?;
            let sender = Some(scenario.sender()).filter(|&sender| partition.part_of(sender) == part);
            let mut part = Part::new(world, settled.0, sender);
            part.start();
            Ok(part)
        };
        Box::new(move || *place = Some(build())) as Task<'_>
    });
    workers.complete(tasks.collect());
    parts.into_iter().flatten().collect()
}

/// Progress of a run, as far as its windows have been played.
struct Progress<'a> {
    scenario: &'a Scenario,
    ending: Ending,
    /// Number of final outcomes that observers count, and those that applications count.
    settled: SettledCount,
    taken: u64,
    steps: u64,
    now: Time,
    /// Reason for the end; `None` before it.
    reason: Option<StopReason>,
    sender_finished: bool,
    /// True if all machines have started and the first question was asked.
    has_started: bool,
}

impl<'a> Progress<'a> {
    fn of(scenario: &'a Scenario, settled: SettledCount) -> Self {
        Progress {
            scenario,
            ending: Ending::of(scenario),
            settled,
            taken: 0,
            steps: 0,
            now: Time::ZERO,
            reason: None,
            sender_finished: false,
            has_started: false,
        }
    }

    fn is_over(&self) -> bool {
        self.reason.is_some()
    }

    /// Plays a window to the observer, up to the end of the run.
    fn play(&mut self, window: &Window, watch: &mut RunObserver<'_>) {
        window.play(watch, |watch, step, halts| {
            // The first question comes when all machines have started.
            if !step.is_start() && !self.has_started {
                self.has_started = true;
                self.ask(watch);
                if self.is_over() {
                    return true;
                }
            }
            self.after(step);
            if let Some(reason) = halts {
                self.reason = Some(reason);
            } else if !step.is_start() {
                self.ask(watch);
            }
            self.is_over()
        });
    }

    fn after(&mut self, step: &Step) {
        self.now = step.time;
        self.taken += u64::from(step.settled);
        self.steps += u64::from(!step.is_start());
        if let Some(finished) = step.finished {
            self.sender_finished = finished;
        }
    }

    /// Asks whether the run is over after a step.
    fn ask(&mut self, watch: &mut RunObserver<'_>) {
        let settled = self.settled.count() + self.taken;
        let finished = self.sender_finished;
        if self.ending.is_cut_off(self.scenario, self.steps, || watch.stops())
            || self.ending.has_come_at(self.scenario, self.now, |_| finished, settled)
        {
            self.reason = Some(StopReason::Done);
        }
    }
}

/// Number of parts for each thread: more of them are distributed more evenly, beside the play of the window before.
const PARTS_PER_WORKER: usize = 2;
/// Lookahead from which on a window has enough steps for the overhead of its begin and end.
const LOOKAHEAD_LIMIT: Duration = Duration::from_micros(200);
