//! End of a simulated run.

use std::time::Duration;

use carillon_core::{NodeId, Observer, Time};

use super::settled::SettledCount;
use super::steps_between_questions;
use super::world::SimulatedWorld;
use crate::metrics::expected_deliveries;
use crate::scenario::Scenario;

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
    pub(super) finished_at: Option<Time>,
    /// Mask of the numbers of steps after which it asks whether to stop.
    question_mask: u64,
    /// True if the supervisor or the observer stopped the run between two steps.
    pub(super) stopped: bool,
    /// True if the run reached its limit of steps.
    pub(super) spent: bool,
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
