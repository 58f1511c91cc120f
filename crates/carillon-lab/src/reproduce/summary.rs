//! Cost and repair time of each scheme, one row per scheme.

use serde::Deserialize;

use super::findings::{Findings, Plans};
use super::kept::List;
use super::quantities::Quantity;
use super::recovery::Pooled;
use super::simulation::Simulation;
use crate::sheet::{Heading, Number, Sheet};

/// Quantities shown for each plan.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummarySpec {
    /// The columns.
    quantities: List<Quantity>,
}

impl SummarySpec {
    pub(super) fn findings(&self, plans: &Plans<'_>) -> Findings {
        let row = |simulation: &Simulation| {
            let number = |&Quantity { metric, scale, .. }: &Quantity| {
                Number::of(&Pooled::of(&simulation.points, metric.0).means, scale)
            };
            self.quantities.iter().map(number).collect()
        };
        let columns =
            self.quantities.iter().map(|quantity| Heading::rounded(quantity.label.0, quantity.digits));
        let sheet = Sheet {
            name: "summary".into(),
            title: "Scheme, topology, receivers, place of loss".into(),
            labels: plans.0.iter().map(|(plan, _)| plan.name.0.to_owned()).collect(),
            columns: columns.collect(),
            rows: plans.0.iter().map(|(_, simulation)| row(simulation)).collect(),
        };
        Findings { sheets: vec![sheet], ..Findings::default() }
    }
}
