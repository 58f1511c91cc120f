//! Table 5.1: what each scheme costs and how fast it repairs, on every kind of topology.

use super::super::recovery::Pooled;
use super::super::sheet::{Heading, Number, Sheet};
use super::super::study::Findings;
use super::super::{Simulation, StudyPlan};

/// What is shown of each scheme: heading, metric, scale, digits.
const COLUMNS: &[(&str, &str, f64, usize)] = &[
    ("latency / unicast", "normalized_recovery_latency", 1.0, 3),
    ("exposure %", "exposure", 100.0, 2),
    ("requests / loss", "requests_per_loss", 1.0, 2),
    ("repairs / loss", "repairs_per_loss", 1.0, 2),
];

/// A row for each plan.
pub fn findings(simulations: &[(&StudyPlan, &Simulation)]) -> Findings {
    let row = |simulation: &Simulation| -> Vec<Number> {
        let number = |&(_, metric, scale, _): &(&str, &str, f64, usize)| {
            let pooled = Pooled::of(simulation, metric, |_| true);
            let half_width = pooled.half_width.is_finite().then_some(pooled.half_width * scale);
            Number { value: pooled.mean * scale, half_width }
        };
        COLUMNS.iter().map(number).collect()
    };
    let sheet = Sheet {
        name: "summary".into(),
        title: "Scheme, topology, receivers, place of loss".into(),
        labels: simulations.iter().map(|(plan, _)| plan.name.to_owned()).collect(),
        columns: COLUMNS.iter().map(|&(label, _, _, digits)| Heading::rounded(label, digits)).collect(),
        rows: simulations.iter().map(|(_, simulation)| row(simulation)).collect(),
    };
    Findings { sheets: vec![sheet], ..Findings::default() }
}
