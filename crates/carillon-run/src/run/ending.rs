//! End of a simulated run.

use std::time::Duration;

use carillon_core::{NodeId, Observer, Time};

use super::settled::SettledCount;
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
}

impl Ending {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Ending { senders: scenario.sending(), finished: 0, finished_at: None }
    }

    pub(super) fn has_come<O: Observer>(
        &mut self,
        scenario: &Scenario,
        world: &mut SimulatedWorld<O>,
        settled: &SettledCount,
    ) -> bool {
        if self.finished < self.senders.len() && !world.take_senders_moved() {
            return false;
        }
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
