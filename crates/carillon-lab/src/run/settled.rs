//! What has become of messages so far in a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carillon_core::{NodeId, Notice};

use crate::scenario::Scenario;

/// How often a message was taken by an application that is not its source's, or given up at such a node, so far in
/// a run. It goes by what applications take and machines give notice of.
#[derive(Clone, Debug, Default)]
pub struct SettledCount(pub(super) Arc<AtomicU64>);

impl SettledCount {
    /// The machine of a node gave notice of something. What one gives up that only helps nobody lacks by that.
    pub fn note(&self, scenario: &Scenario, node: NodeId, notice: &Notice) {
        if matches!(notice, Notice::LossFinal { .. }) && !scenario.only_helps(node) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
