//! Values of single nodes, in lists with one entry for each node.

use carillon_core::NodeId;

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
