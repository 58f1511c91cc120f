//! Analysis of transports with periodic status by Paul, Sabnani and Kristol: their equation (4).

use carillon_core::NodeId;
use carillon_sim::graph::PathTree;
use serde::Deserialize;

use super::kept::Text;
use crate::scenario::{RoutedNetwork, Scenario};

/// Which parameters the terms of the equation are. The experiment says so; no protocol is known here.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusTerms {
    /// W.
    window: Text,
    /// r_f, in percent.
    timeout_factor: Text,
    /// The interval between statuses.
    interval: Text,
    /// Parameter that marks protocols with local repair by exchanges.
    local: Text,
}

impl StatusTerms {
    /// Expected normalised throughput of a protocol with these parameters.
    pub(super) fn expected(&self, scenario: &Scenario) -> Option<f64> {
        StatusAnalysis::of(scenario, self).map(|terms| terms.normalized_throughput())
    }
}

/// The terms of equation (4).
#[derive(Clone, Copy, Debug, PartialEq)]
struct StatusAnalysis {
    /// n, number of destinations for which the source repairs. A region that repairs locally counts as the number of
    /// destinations with the same loss rate as the whole region.
    destinations: f64,
    /// b, block error rate of one destination.
    error_rate: f64,
    /// W, blocks.
    window: f64,
    /// r_f.
    timeout_factor: f64,
    /// Mean of w_s, blocks that fit the time until a status says that a block has arrived.
    mean_wait: f64,
    /// Greatest w_s.
    greatest_wait: f64,
}

impl StatusAnalysis {
    /// Equation (4), at most 1.
    fn normalized_throughput(&self) -> f64 {
        let StatusAnalysis {
            destinations: n,
            error_rate: b,
            window,
            timeout_factor,
            mean_wait,
            greatest_wait,
        } = *self;
        if b <= 0.0 || b >= 1.0 || n <= 0.0 {
            // Nothing is lost: the window is all that holds the source up.
            return (window / greatest_wait).min(1.0);
        }
        let between = 1.0 / (b * n);
        // Transmissions of a block until all have it, on average; no fewer than one.
        let transmissions = (1.0 - n.ln() / b.ln()).max(1.0);
        let wait = transmissions * (timeout_factor * mean_wait + 1.0) + greatest_wait;
        ((between + window) / (between + wait)).min(1.0)
    }

    /// Terms of the equation for a scenario of this protocol family on a routed network.
    fn of(scenario: &Scenario, terms: &StatusTerms) -> Option<Self> {
        let graph = scenario.network.graph()?;
        let has = |name: &str| scenario.protocol.parameters.iter().any(|parameter| parameter.name == name);
        if ![terms.timeout_factor, terms.window, terms.interval].iter().all(|name| has(name.0)) {
            return None;
        }
        let paths = PathTree::new(&graph.topology, graph.source(), |_| true);
        let round_trip = |node| paths.delay(node).map_or(0.0, |delay| 2.0 * delay.as_secs_f64());
        let table = &scenario.helpers;
        let receivers = scenario.members();
        let lost = |node: NodeId| {
            let loss = last_link(graph, &paths, node).and_then(|link| graph.loss_of(link));
            loss.map_or(0.0, |loss| loss.mean())
        };
        let mut aggregate = 0.0;
        let mut waits = Vec::new();
        let interval = scenario.config.span(terms.interval.0).at(scenario.network.bit_rate()).as_secs_f64();
        for child in table.children_of_sender(&receivers) {
            let is_exchange = table.is_helper(child) && scenario.only_helps(child);
            let region: Vec<NodeId> = match is_exchange {
                true => receivers.iter().copied().filter(|&node| table.parent(node) == Some(child)).collect(),
                false => vec![child],
            };
            // Whether a block has to be lost by one of the region for the source to repair it, or by all.
            aggregate += match has(terms.local.0) && is_exchange {
                true => region.iter().map(|&node| lost(node)).product::<f64>(),
                false => region.iter().map(|&node| lost(node)).sum::<f64>(),
            };
            // A status waits for its time, half an interval on average, at the receiver and again at the exchange.
            let stages = if is_exchange { 2.0 } else { 1.0 };
            waits.extend(region.iter().map(|&node| (round_trip(node), stages * interval)));
        }
        let error_rate = receivers.iter().map(|&node| lost(node)).sum::<f64>() / receivers.len() as f64;
        let blocks =
            scenario.network.bit_rate().bps() as f64 / (8.0 * f64::from(scenario.workload.message_bytes));
        let mean =
            waits.iter().map(|(trip, wait)| trip + wait / 2.0).sum::<f64>() / waits.len().max(1) as f64;
        let greatest = waits.iter().map(|(trip, wait)| trip + wait).fold(0.0, f64::max);
        Some(StatusAnalysis {
            destinations: if error_rate > 0.0 { aggregate / error_rate } else { 0.0 },
            error_rate,
            window: scenario.config.count(terms.window.0) as f64,
            timeout_factor: scenario.config.count(terms.timeout_factor.0) as f64 / 100.0,
            mean_wait: mean * blocks,
            greatest_wait: greatest * blocks,
        })
    }
}

/// The link by which a node is reached.
fn last_link(graph: &RoutedNetwork, paths: &PathTree, node: NodeId) -> Option<u32> {
    graph.topology.link_at(node, paths.port(node)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's numbers: 25 destinations, error 1e-3, r_f 1.2, and waits of 750 and 1190 blocks.
    const PAPER: StatusAnalysis = StatusAnalysis {
        destinations: 25.0,
        error_rate: 1e-3,
        window: 2198.0,
        timeout_factor: 1.2,
        mean_wait: 750.0,
        greatest_wait: 1190.0,
    };

    #[test]
    fn the_equation_as_it_is_printed() {
        // 1 - ln 25 / ln 0.001 = 1.46598; w_x = 1.46598 (1.2 x 750 + 1) + 1190 = 2510.8; (40 + 2198) / (40 + 2510.8).
        assert!((PAPER.normalized_throughput() - 0.87736).abs() < 1e-4, "{}", PAPER.normalized_throughput());
        // With one destination it is that of SNR: (b^-1 + W) / (b^-1 + (r_f w + 1) + w).
        let snr = StatusAnalysis { destinations: 1.0, mean_wait: 1190.0, window: 1190.0, ..PAPER };
        let expected = (1000.0 + 1190.0) / (1000.0 + 1.2 * 1190.0 + 1.0 + 1190.0);
        assert!((snr.normalized_throughput() - expected).abs() < 1e-9);
    }

    #[test]
    fn rises_with_window_and_falls_with_timeout_and_errors() {
        let at = |window: f64| StatusAnalysis { window, ..PAPER }.normalized_throughput();
        assert!(at(500.0) < at(1000.0) && at(1000.0) < at(2500.0));
        assert_eq!(at(3000.0), 1.0);
        let of = |timeout_factor: f64, error_rate: f64| {
            StatusAnalysis { timeout_factor, error_rate, ..PAPER }.normalized_throughput()
        };
        assert!(of(2.0, 1e-3) < of(1.2, 1e-3) && of(1.2, 1e-2) < of(1.2, 1e-3));
    }
}
