//! Comparison with the agents of another simulator on the same topologies and the same losses.

use serde::Deserialize;

use super::findings::{Findings, Plans};
use super::kept::{List, Source};
use super::quantities::Quantity;
use super::simulation::SimulatedPoint;
use crate::check::{Check, CheckVerdict};

/// Comparison: one row of the other simulator for each configuration, topology and place of loss.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsSpec {
    /// Results of the other simulator.
    measured: Source,
    /// The columns of theirs that are compared, and our metrics.
    quantities: List<Quantity>,
    /// The configurations, which are the names of plans, in which nothing is random.
    exact: Vec<String>,
    /// The relative difference that is accepted everywhere.
    tolerance: f64,
}

impl AgentsSpec {
    /// A check for each number that they give.
    pub(super) fn findings(&self, plans: &Plans<'_>) -> Findings {
        let mut reader = csv::Reader::from_reader(self.measured.text.as_bytes());
        let headers = reader.headers().cloned().unwrap_or_default();
        let mut checks = Vec::new();
        for record in reader.records().filter_map(Result::ok) {
            let text = |name: &str| {
                let column = headers.iter().position(|header| header == name);
                column.and_then(|column| record.get(column)).unwrap_or_default()
            };
            let (config, topology) = (text("config"), text("topo"));
            let place = match text("loss") {
                "receivers" => "each-receiver",
                "links" => "each-link",
                other => other,
            };
            let Some((plan, simulation)) = plans.0.iter().find(|(plan, _)| plan.name.0 == config) else {
                continue;
            };
            let at = |point: &&SimulatedPoint| {
                point.text("network.topology").as_deref() == Some(topology)
                    && point.text("loss.drop_one").as_deref() == Some(place)
            };
            let Some(point) = simulation.points.iter().find(at) else { continue };
            for column in self.quantities.0 {
                let Ok(theirs) = text(column.column.0).parse::<f64>() else { continue };
                let is_random = !self.exact.iter().any(|exact| exact == config);
                let id = format!("{} {topology} {place} {}", plan.name, column.column);
                checks.extend(self.compare(id, theirs, column, point, is_random));
            }
        }
        Findings { checks, ..Findings::default() }
    }

    /// Compares one of its numbers with ours. A scheme with random waits gives one draw there: it holds if it lies in
    /// the 95 % range of our draws, or within the tolerance.
    fn compare(
        &self,
        id: String,
        theirs: f64,
        column: &Quantity,
        point: &SimulatedPoint,
        is_random: bool,
    ) -> Option<Check> {
        let runs = point.replications(column.metric.0)?;
        let (mean, sd) = (runs.mean * column.scale, runs.sd * column.scale);
        let digits = column.digits;
        let close = (mean - theirs).abs() <= self.tolerance * theirs.abs() + 1e-9;
        // A prediction interval for one more run.
        let reach = crate::statistics::t_quantile_975(runs.n.saturating_sub(1) as usize)
            * sd
            * (1.0 + 1.0 / runs.n as f64).sqrt();
        let within = is_random && reach.is_finite() && (mean - theirs).abs() <= reach;
        let difference =
            if theirs == 0.0 { String::new() } else { format!("{:+.1} %", (mean / theirs - 1.0) * 100.0) };
        let note = match (close, within, is_random) {
            (_, true, _) => format!("{difference}, within the 95 % interval of one run"),
            (true, ..) => format!("{difference}, within {} %", self.tolerance * 100.0),
            (_, _, true) => format!("{difference}, 95 % interval ±{reach:.digits$}"),
            _ => difference,
        };
        Some(Check {
            id,
            claim: column.label.0.to_owned(),
            expected: format!("{theirs:.digits$}"),
            measured: format!("{mean:.digits$}"),
            verdict: CheckVerdict::of(close || within),
            note,
        })
    }
}
