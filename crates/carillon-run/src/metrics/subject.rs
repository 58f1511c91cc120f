//! Nodes that samples describe.

use carillon_core::NodeId;

use super::of_run::Run;
use crate::scenario::Scenario;

/// Nodes that the samples of a metric describe. Each list has one node for each sample, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    /// No single node: a sample describes a message, a run or a parent.
    Unnamed,
    /// Receivers.
    Receiver(fn(&Run<'_>) -> Vec<NodeId>),
    /// Nodes of any role.
    Node(fn(&Run<'_>) -> Vec<NodeId>),
}

/// Kind of the nodes that samples describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// Receivers.
    Receiver,
    /// Nodes of any role.
    Node,
}

impl SubjectKind {
    /// List of all kinds.
    pub const VARIANTS: [SubjectKind; 2] = [SubjectKind::Receiver, SubjectKind::Node];

    /// Returns true if a scenario measures nodes of this kind.
    pub fn is_measured(self, scenario: &Scenario) -> bool {
        match self {
            SubjectKind::Receiver => scenario.measurements.receivers,
            SubjectKind::Node => scenario.measurements.nodes,
        }
    }

    /// Name of the kind, and of its column in tables.
    pub fn name(self) -> &'static str {
        match self {
            SubjectKind::Receiver => "receiver",
            SubjectKind::Node => "node",
        }
    }
}

impl Subject {
    /// Nodes of the samples of a run; `None` if the scenario does not measure them.
    pub(super) fn nodes(self, run: &Run<'_>) -> Option<Vec<NodeId>> {
        let is_measured = self.kind()?.is_measured(run.scenario);
        match self {
            Subject::Receiver(nodes) | Subject::Node(nodes) if is_measured => Some(nodes(run)),
            _ => None,
        }
    }

    /// Kind of the nodes; `None` if the samples describe no single node.
    pub(super) fn kind(self) -> Option<SubjectKind> {
        match self {
            Subject::Unnamed => None,
            Subject::Receiver(_) => Some(SubjectKind::Receiver),
            Subject::Node(_) => Some(SubjectKind::Node),
        }
    }
}
