//! The registry of metrics: what each is, what it needs, and how it is taken. `docs/reference/metrics.md` has its
//! table.

use std::sync::LazyLock;

use carillon_core::NodeId;

use super::of_run::Run;
use super::recorder::{MessageRecord, Totals};
use crate::scenario::Scenario;

mod completions;
mod deliveries;
mod metric;
mod nodes;
mod recoveries;
mod routed;

pub use metric::Metric;

/// The samples of one metric in a run.
pub type Samples = (&'static str, Vec<f64>);

/// The nodes that the samples of a metric describe, in the order of the samples.
pub type SampleNodes = (&'static str, Vec<NodeId>);

/// Samples of every metric with satisfied requirements, and the nodes of samples as far as the scenario measures them.
pub fn samples(
    scenario: &Scenario,
    messages: &[MessageRecord],
    totals: Totals,
) -> (Vec<Samples>, Vec<SampleNodes>) {
    let repairs = scenario.network.graph().map(|graph| totals.recoveries.repairs_beside(scenario, graph));
    let mut run = Run { scenario, messages, totals, repairs: repairs.unwrap_or_default() };
    let given = METRICS.iter().filter(|metric| metric.needs.iter().all(|need| need.is_given(scenario)));
    let (mut samples, mut nodes) = (Vec::new(), Vec::new());
    for metric in given {
        // The samples may move out of the run.
        nodes.extend(metric.subject.nodes(&run).map(|nodes| (metric.name, nodes)));
        samples.push((metric.name, (metric.samples)(&mut run)));
    }
    (samples, nodes)
}

/// Every metric, in the order of the rows of a summary.
pub static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    [completions::METRICS, routed::METRICS, recoveries::METRICS, deliveries::METRICS, nodes::METRICS].concat()
});
