//! When a run is over.

use std::time::Duration;

use carillon_core::{NodeId, Observer, Time};

use super::settled::SettledCount;
use super::world::SimulatedWorld;
use crate::metrics::expected_deliveries;
use crate::scenario::Scenario;

/// Whether a run is over whose senders finished so long ago: at once where senders know what has
/// arrived; among peers, and where nobody tells them, when every message has been delivered to every
/// member or given up by it (`settled` times), or they have had their time for it.
pub fn is_over(scenario: &Scenario, finished_for: Duration, settled: u64) -> bool {
    (!scenario.is_among_peers() && scenario.protocol.confirms(&scenario.config))
        || finished_for >= scenario.linger
        || settled >= expected_deliveries(scenario)
}

/// Watches for the end of a simulated run.
#[derive(Debug)]
pub(super) struct Ending {
    /// Who sends.
    senders: Vec<NodeId>,
    /// So many of them have finished.
    finished: usize,
    /// When the last of them had.
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
