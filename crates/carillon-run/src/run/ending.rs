//! End of a simulated run.

use std::time::Duration;

use carillon_core::{NodeId, Observer, Time};
use carillon_sim::{Runaway, StopReason};

use super::error::RunError;
use super::observer::RunObserver;
use super::result::RunResult;
use super::settled::SettledCount;
use super::world::SimulatedWorld;
use crate::metrics::expected_deliveries;
use crate::plan::Run;
use crate::scenario::{Scenario, ScenarioNetwork};

/// Returns true if a run is over, `finished_for` after its senders finished. Where senders learn what has arrived,
/// that is at once. Otherwise (and among peers) it is when every message has been delivered to, or abandoned by,
/// every member (`settled` counts these), and at the latest after `linger`.
pub fn is_over(scenario: &Scenario, finished_for: Duration, settled: u64) -> bool {
    (!scenario.is_among_peers() && scenario.protocol.confirms(&scenario.config))
        || finished_for >= scenario.linger
        || settled >= expected_deliveries(scenario)
}

/// Watches for the end of a simulated run.
#[derive(Debug)]
pub(super) struct Ending {
    /// Nodes that send.
    senders: Vec<NodeId>,
    /// Number of senders that have finished, counted from the first.
    finished: usize,
    /// Time at which the last sender finished.
    finished_at: Option<Time>,
    /// Mask of the numbers of steps after which it asks whether to stop.
    question_mask: u64,
    /// True if the supervisor or the observer stopped the run between two steps.
    stopped: bool,
    /// True if the run reached its limit of steps.
    spent: bool,
}

impl Ending {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Ending {
            senders: scenario.sending(),
            finished: 0,
            finished_at: None,
            question_mask: steps_between_questions(scenario) - 1,
            stopped: false,
            spent: false,
        }
    }

    /// Returns true if the run ends after this number of steps because of its limit, or because `stops` returns true.
    pub(super) fn is_cut_off(
        &mut self,
        scenario: &Scenario,
        steps: u64,
        stops: impl FnOnce() -> bool,
    ) -> bool {
        // The question costs more than a step.
        self.stopped = steps & self.question_mask == 0 && stops();
        self.spent = steps >= scenario.step_limit;
        self.stopped || self.spent
    }

    /// Returns true if the run of a world is over after its last step.
    pub(super) fn has_come<O: Observer>(
        &mut self,
        scenario: &Scenario,
        world: &mut SimulatedWorld<O>,
        settled: &SettledCount,
    ) -> bool {
        if self.finished < self.senders.len() && !world.take_senders_moved() {
            return false;
        }
        let now = world.now();
        let is_finished =
            |sender| world.machine(sender).as_sender().is_none_or(|sender| sender.is_finished());
        self.has_come_at(scenario, now, is_finished, settled.count())
    }

    /// Returns true if the run is over at this time, with these senders finished and this number of final outcomes.
    pub(super) fn has_come_at(
        &mut self,
        scenario: &Scenario,
        now: Time,
        mut is_finished: impl FnMut(NodeId) -> bool,
        settled: u64,
    ) -> bool {
        while let Some(&sender) = self.senders.get(self.finished) {
            if !is_finished(sender) {
                return false;
            }
            self.finished += 1;
        }
        let finished_at = *self.finished_at.get_or_insert(now);
        is_over(scenario, now.since(finished_at), settled)
    }
}

/// End of a run.
pub(super) struct End {
    pub(super) steps: u64,
    pub(super) now: Time,
    pub(super) reason: StopReason,
    pub(super) ending: Ending,
}

impl End {
    /// Result of a run that ended so. `None` if it was stopped.
    pub(super) fn result(self, run: &Run, observer: RunObserver<'_>) -> Result<Option<RunResult>, RunError> {
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
