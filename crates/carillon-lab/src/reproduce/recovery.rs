//! Recovery from losses over topologies: mean, least and greatest value, as in the figures of chapter 5
//! of Papadopoulos.

use serde::Deserialize;

use super::findings::{Findings, Plans};
use super::kept::List;
use super::quantities::{Key, Quantity, joined};
use super::simulation::{SimulatedPoint, Simulation};
use crate::plot::{Axis, Figure, Marks, Series, capitalised, distinct, is_ordered, sample_sizes};
use crate::sheet::{Heading, Number, Sheet};
use crate::statistics::Summary;

/// Specification of a recovery study: its quantities and keys.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverySpec {
    /// The swept key along the horizontal axis.
    pub over: Key,
    /// Quantities to show.
    pub quantities: List<Quantity>,
    /// True if minimum and maximum are shown too.
    pub extremes: bool,
}

/// Statistics of a metric pooled over many runs.
#[derive(Clone, Copy, Debug)]
pub struct Pooled {
    /// The runs' means, over topologies and placements.
    pub means: Summary,
    /// The least value of any run.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Pooled {
    /// Pools these points.
    pub(super) fn of<'a>(points: impl IntoIterator<Item = &'a SimulatedPoint>, metric: &str) -> Self {
        let (mut means, mut min, mut max) = (Vec::new(), f64::NAN, f64::NAN);
        for point in points {
            if let Some(summary) = point.summary(metric).filter(|summary| summary.n > 0) {
                (min, max) = (summary.min.min(min), summary.max.max(max));
            }
            // The mean of each run counts the same, as in the source: over recoveries, then over topologies.
            let runs = point.replications(metric);
            means.extend(runs.iter().flat_map(|runs| std::iter::repeat_n(runs.mean, runs.n as usize)));
        }
        Pooled { means: Summary::of(&mut means), min, max }
    }
}

impl RecoverySpec {
    pub(super) fn findings(&self, id: &str, title: &str, plans: &Plans<'_>) -> Findings {
        let mut findings = Findings::default();
        for quantity in self.quantities.0 {
            findings.sheets.push(self.sheet(quantity, plans));
            findings.figures.push(self.figure(id, title, quantity, plans));
        }
        findings
    }

    /// The values along the horizontal axis.
    fn places(&self, plans: &Plans<'_>) -> Vec<f64> {
        let points = plans.0.iter().flat_map(|(_, simulation)| &simulation.points);
        distinct(points.filter_map(|point| point.number(self.over.scenario.0)))
    }

    /// The curves: the name of a plan, and a value at each place.
    fn curves(&self, quantity: &Quantity, plans: &Plans<'_>) -> Vec<(&'static str, Vec<Pooled>)> {
        let places = self.places(plans);
        let curve = |simulation: &Simulation| {
            let at = |place: &f64| {
                let is_there = |point: &&SimulatedPoint| point.number(self.over.scenario.0) == Some(*place);
                Pooled::of(simulation.points.iter().filter(is_there), quantity.metric.0)
            };
            places.iter().map(at).collect()
        };
        plans.0.iter().map(|(plan, simulation)| (plan.name.0, curve(simulation))).collect()
    }

    fn sheet(&self, quantity: &Quantity, plans: &Plans<'_>) -> Sheet {
        let curves = self.curves(quantity, plans);
        let mut columns = vec![Heading::exact(self.over.label.0)];
        for (name, _) in &curves {
            let headed = |what: &str| format!("{name} {what}").trim().to_owned();
            columns.push(Heading::rounded(headed("mean"), quantity.digits));
            if self.extremes {
                columns.push(Heading::rounded(headed("min"), quantity.digits));
                columns.push(Heading::rounded(headed("max"), quantity.digits));
            }
        }
        let rows = self.places(plans).into_iter().enumerate().map(|(at, place)| {
            let mut row = vec![Number::from(place)];
            for (_, values) in &curves {
                let value = values[at];
                row.push(Number::of(&value.means, quantity.scale));
                if self.extremes {
                    row.push((value.min * quantity.scale).into());
                    row.push((value.max * quantity.scale).into());
                }
            }
            row
        });
        Sheet {
            labels: Vec::new(),
            name: quantity.column.0.into(),
            title: quantity.label.0.into(),
            rows: rows.collect(),
            columns,
        }
    }

    fn figure(&self, id: &str, title: &str, quantity: &Quantity, plans: &Plans<'_>) -> Figure {
        let places = self.places(plans);
        let curves = self.curves(quantity, plans);
        let sizes =
            sample_sizes(curves.iter().flat_map(|(_, values)| values.iter().map(|value| value.means.n)));
        // With one curve there is room for the extremes, with several for intervals.
        let extremes = self.extremes && plans.0.len() == 1;
        let mut series = Vec::new();
        for (at, (name, values)) in curves.iter().enumerate() {
            let aside = match is_ordered(self.over.scenario.0) {
                true => 0.0,
                false => 0.5 * ((at as f64 + 0.5) / curves.len() as f64 - 0.5),
            };
            let placed = || places.iter().map(|x| x + aside).zip(values);
            let scaled = |value: f64| value * quantity.scale;
            let bars = placed().map(|(x, value)| {
                let (mean, half) = (value.means.mean, value.means.ci95_high - value.means.mean);
                let (low, high) = if extremes { (value.min, value.max) } else { (mean - half, mean + half) };
                (x, scaled(low), scaled(high))
            });
            let bars = bars.filter(|(_, low, high)| low.is_finite() && high.is_finite());
            let points = placed().map(|(x, value)| (x, scaled(value.means.mean))).collect();
            let bars = Marks::Whiskers { points: bars.collect() };
            series.push(Series { name: String::new(), colour: at as u8, marks: bars });
            let name = if name.is_empty() { "mean" } else { name };
            let marks = joined(&self.over, at, points);
            series.push(Series { name: name.to_owned(), colour: at as u8, marks });
        }
        let bars = if extremes { "least to greatest value of any run" } else { "95 % confidence intervals" };
        Figure {
            id: match self.quantities.len() {
                1 => id.to_owned(),
                _ => format!("{id}-{}", quantity.column),
            },
            title: title.to_owned(),
            notes: vec![format!("Means of runs; bars: {bars}; {sizes}")],
            x: Axis::new(&capitalised(self.over.label.0), None),
            y: quantity.axis(),
            series,
        }
    }
}
