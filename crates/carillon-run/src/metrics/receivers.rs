//! Deliveries of each receiver, and the fairness among receivers.

use std::time::Duration;

use carillon_core::{NodeId, Time};

use super::node_value::NodeValue;
use crate::scenario::Scenario;

/// Deliveries of each receiver. The memory grows with the number of receivers, not with that of deliveries, except for
/// the receivers of kept latencies.
#[derive(Clone, Debug, Default)]
pub struct Receivers {
    /// Nodes that expect deliveries, in ascending order; empty if the scenario does not measure them.
    nodes: Vec<NodeId>,
    tallies: Vec<Tally>,
    /// Index in `nodes` by node; `NO_RECEIVER` for others.
    index: Vec<u32>,
    /// Receiver of each kept latency.
    of_latencies: Vec<NodeId>,
}

/// Deliveries of a receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    deliveries: u64,
    /// Sum of the latencies in nanoseconds, and their number.
    latency: u128,
    latencies: u64,
    last: Time,
}

/// Index of nodes that are no receivers.
const NO_RECEIVER: u32 = u32::MAX;

impl Receivers {
    /// Creates empty tallies.
    pub(super) fn new(scenario: &Scenario) -> Self {
        if !scenario.measurements.receivers {
            return Receivers::default();
        }
        let nodes = scenario.receiving();
        let mut index = vec![NO_RECEIVER; nodes.last().map_or(0, |last| last.index() + 1)];
        (0..).zip(&nodes).for_each(|(at, node)| index[node.index()] = at);
        Receivers { tallies: vec![Tally::default(); nodes.len()], nodes, index, of_latencies: Vec::new() }
    }

    /// Counts a delivery. `latency` is `None` if the offer of the message is unknown; `keeps` says that the latency is
    /// kept as a sample.
    pub(super) fn delivered(&mut self, now: Time, node: NodeId, latency: Option<Duration>, keeps: bool) {
        let index = self.index.get(node.index()).copied().unwrap_or(NO_RECEIVER);
        let Some(tally) = self.tallies.get_mut(index as usize) else { return };
        tally.deliveries += 1;
        tally.last = now;
        if let Some(latency) = latency {
            tally.latency += latency.as_nanos();
            tally.latencies += 1;
            if keeps {
                self.of_latencies.push(node);
            }
        }
    }

    /// Receiver of each kept latency, in the order of the latencies.
    pub(super) fn of_latencies(&self) -> Vec<NodeId> {
        self.of_latencies.clone()
    }

    /// Mean latency in seconds of each receiver with deliveries.
    pub(super) fn latencies(&self) -> Vec<NodeValue> {
        let mean = |tally: &Tally| tally.latency as f64 * 1e-9 / tally.latencies as f64;
        let all = self.nodes.iter().zip(&self.tallies);
        all.filter(|(_, tally)| tally.latencies > 0).map(|(&node, tally)| (node, mean(tally))).collect()
    }

    /// Messages delivered to each receiver per second, from `start` until its last delivery; 0 without deliveries.
    pub(super) fn rates(&self, start: Time) -> Vec<NodeValue> {
        let rate = |tally: &Tally| match tally.deliveries {
            0 => 0.0,
            deliveries => deliveries as f64 / tally.last.since(start).as_secs_f64(),
        };
        self.nodes.iter().zip(&self.tallies).map(|(&node, tally)| (node, rate(tally))).collect()
    }

    /// Number of messages delivered to each receiver.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.nodes.iter().zip(&self.tallies).map(|(&node, tally)| (node, tally.deliveries))
    }
}

/// Greatest value if `sign` is 1, least value if it is -1; of equal ones the first.
pub(super) fn worst(values: &[NodeValue], sign: f64) -> Option<NodeValue> {
    values.iter().copied().reduce(|worst, next| if sign * next.1 > sign * worst.1 { next } else { worst })
}

/// Jain's fairness index (Jain, Chiu and Hawe 1984, DEC-TR-301): (sum of x)^2 / (n x sum of x^2). `None` if all
/// values are zero or there are none.
pub(super) fn jain_index(values: &[NodeValue]) -> Option<f64> {
    let sum: f64 = values.iter().map(|(_, x)| x).sum();
    let squares: f64 = values.iter().map(|(_, x)| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[f64]) -> Vec<NodeValue> {
        (1..).map(NodeId).zip(values.iter().copied()).collect()
    }

    /// Jain, Chiu and Hawe, section 3: k of n users that share everything equally have the index k/n.
    #[test]
    fn jain_index_of_k_equal_shares_among_n_is_k_over_n() {
        for k in 1..=5 {
            let shares: Vec<f64> = (0..5).map(|at| if at < k { 3.5 } else { 0.0 }).collect();
            assert!((jain_index(&values(&shares)).unwrap() - k as f64 / 5.0).abs() < 1e-15);
        }
        // (1 + 2 + 3)^2 / (3 (1 + 4 + 9)); the unit does not matter.
        assert!((jain_index(&values(&[1.0, 2.0, 3.0])).unwrap() - 6.0 / 7.0).abs() < 1e-15);
        assert!((jain_index(&values(&[1e9, 2e9, 3e9])).unwrap() - 6.0 / 7.0).abs() < 1e-15);
        assert_eq!(jain_index(&values(&[0.0, 0.0])), None);
        assert_eq!(jain_index(&[]), None);
    }

    #[test]
    fn worst_of_equal_values_is_the_first() {
        let values = values(&[2.0, 5.0, 1.0, 5.0, 1.0]);
        assert_eq!(worst(&values, 1.0), Some((NodeId(2), 5.0)));
        assert_eq!(worst(&values, -1.0), Some((NodeId(3), 1.0)));
        assert_eq!(worst(&[], 1.0), None);
    }
}
