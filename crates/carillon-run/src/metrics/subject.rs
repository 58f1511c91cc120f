//! Nodes that samples describe.

use carillon_core::NodeId;

use super::of_run::Run;
use super::registry::Metric;
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

    fn kind(self) -> Option<SubjectKind> {
        match self {
            Subject::Unnamed => None,
            Subject::Receiver(_) => Some(SubjectKind::Receiver),
            Subject::Node(_) => Some(SubjectKind::Node),
        }
    }
}

impl Metric {
    /// Kind of the nodes that the samples describe; `None` if they describe no single node.
    pub fn subject_kind(&self) -> Option<SubjectKind> {
        self.subject.kind()
    }
}

/// Value of a node.
pub(super) type NodeValue = (NodeId, f64);

/// Nodes of a list of values.
pub(super) fn nodes_of(values: &[NodeValue]) -> Vec<NodeId> {
    values.iter().map(|(node, _)| *node).collect()
}

/// Values of a list.
pub(super) fn values_of(values: &[NodeValue]) -> Vec<f64> {
    values.iter().map(|(_, value)| *value).collect()
}
