//! What each scheme costs and how fast it repairs, a row for each plan.

use serde::Deserialize;

use super::recovery::Pooled;
use super::study::Findings;
use super::{List, Quantity, Simulation, StudyPlan};
use crate::sheet::{Heading, Number, Sheet};

/// What is shown of each plan.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummarySpec {
    /// The columns.
    quantities: List<Quantity>,
}

impl SummarySpec {
    pub(super) fn findings(&self, simulations: &[(&StudyPlan, &Simulation)]) -> Findings {
        let row = |simulation: &Simulation| -> Vec<Number> {
            let number = |&Quantity { metric, scale, .. }: &Quantity| {
                let pooled = Pooled::of(simulation, metric.0, |_| true);
                let half_width = pooled.half_width.is_finite().then_some(pooled.half_width * scale);
                Number { value: pooled.mean * scale, half_width }
            };
            self.quantities.iter().map(number).collect()
        };
        let columns =
            self.quantities.iter().map(|quantity| Heading::rounded(quantity.label.0, quantity.digits));
        let sheet = Sheet {
            name: "summary".into(),
            title: "Scheme, topology, receivers, place of loss".into(),
            labels: simulations.iter().map(|(plan, _)| plan.name.0.to_owned()).collect(),
            columns: columns.collect(),
            rows: simulations.iter().map(|(_, simulation)| row(simulation)).collect(),
        };
        Findings { sheets: vec![sheet], ..Findings::default() }
    }
}
