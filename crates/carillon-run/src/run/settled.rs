//! Count of messages with a final outcome in a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carillon_core::{NodeId, Notice};

use crate::scenario::Scenario;

/// Number of final outcomes so far in a run: deliveries to applications of other nodes than the source, and messages
/// abandoned at such nodes. It counts what applications take and what machines report in notices.
#[derive(Clone, Debug, Default)]
pub struct SettledCount(pub(super) Arc<AtomicU64>);

impl SettledCount {
    /// Counts the notice of a machine if it reports an abandoned message. Helpers that deliver to no application are
    /// skipped.
    pub fn note(&self, scenario: &Scenario, node: NodeId, notice: &Notice) {
        if matches!(notice, Notice::LossFinal { .. }) && !scenario.only_helps(node) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of final outcomes so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
