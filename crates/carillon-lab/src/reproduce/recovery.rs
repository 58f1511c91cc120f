//! Recovery from losses over topologies: mean, least and greatest value, as in the figures of chapter 5
//! of Papadopoulos.

use serde::Deserialize;

use super::means::{capitalised, distinct};
use super::sheet::{Heading, Number, Sheet};
use super::study::Findings;
use super::{Key, Quantity, SimulatedPoint, Simulation, StudyPlan, files};
use crate::plot::{Axis, Dash, Figure, HiLoMean, Marker, Marks, Series};
use crate::statistics::Summary;

/// What is shown of recovery, over what.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverySpec {
    /// The swept key along the horizontal axis.
    pub over: Key,
    /// What is shown.
    #[serde(deserialize_with = "files::list")]
    pub quantities: &'static [Quantity],
    /// Whether the least and greatest values are shown too.
    pub extremes: bool,
}

/// What many runs say of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Pooled {
    /// The mean of the runs' means.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval, over topologies and placements.
    pub half_width: f64,
    /// The least value of any run.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Pooled {
    /// Of the points for which `wanted` holds.
    pub(super) fn of(
        simulation: &Simulation,
        metric: &str,
        wanted: impl Fn(&SimulatedPoint) -> bool,
    ) -> Pooled {
        let points = || simulation.points.iter().filter(|point| wanted(point));
        let summaries = || points().filter_map(|point| point.summary(metric)).filter(|summary| summary.n > 0);
        // The mean of each run counts the same, as in the source: over recoveries, then over topologies.
        let mut means: Vec<f64> = points()
            .filter_map(|point| point.replications(metric))
            .flat_map(|summary| std::iter::repeat_n(summary.mean, summary.n as usize))
            .collect();
        let all = Summary::of(&mut means);
        Pooled {
            mean: all.mean,
            half_width: all.ci95_high - all.mean,
            min: summaries().map(|summary| summary.min).fold(f64::NAN, f64::min),
            max: summaries().map(|summary| summary.max).fold(f64::NAN, f64::max),
        }
    }
}

impl RecoverySpec {
    pub(super) fn findings(
        &self,
        id: &str,
        title: &str,
        simulations: &[(&StudyPlan, &Simulation)],
    ) -> Findings {
        let mut findings = Findings::default();
        for quantity in self.quantities {
            findings.sheets.push(self.sheet(quantity, simulations));
            findings.figures.push(self.figure(id, title, quantity, simulations));
        }
        findings
    }

    /// The values along the horizontal axis.
    fn places(&self, simulations: &[(&StudyPlan, &Simulation)]) -> Vec<f64> {
        let points = simulations.iter().flat_map(|(_, simulation)| &simulation.points);
        distinct(points.filter_map(|point| point.number(self.over.scenario)))
    }

    /// The curves: the name of a plan, and a value at each place.
    fn curves(
        &self,
        quantity: &Quantity,
        simulations: &[(&StudyPlan, &Simulation)],
    ) -> Vec<(&'static str, Vec<Pooled>)> {
        let places = self.places(simulations);
        let curve = |simulation: &Simulation| {
            let at = |place: &f64| {
                let is_there = |point: &SimulatedPoint| point.number(self.over.scenario) == Some(*place);
                Pooled::of(simulation, quantity.metric, is_there)
            };
            places.iter().map(at).collect()
        };
        simulations.iter().map(|(plan, simulation)| (plan.name, curve(simulation))).collect()
    }

    fn sheet(&self, quantity: &Quantity, simulations: &[(&StudyPlan, &Simulation)]) -> Sheet {
        let curves = self.curves(quantity, simulations);
        let mut columns = vec![Heading::exact(self.over.label)];
        for (name, _) in &curves {
            let headed = |what: &str| format!("{name} {what}").trim().to_owned();
            columns.push(Heading::rounded(headed("mean"), quantity.digits));
            if self.extremes {
                columns.push(Heading::rounded(headed("min"), quantity.digits));
                columns.push(Heading::rounded(headed("max"), quantity.digits));
            }
        }
        let rows = self.places(simulations).into_iter().enumerate().map(|(at, place)| {
            let mut row = vec![Number::from(place)];
            for (_, values) in &curves {
                let value = values[at];
                let half_width = value.half_width.is_finite().then_some(value.half_width * quantity.scale);
                row.push(Number { value: value.mean * quantity.scale, half_width });
                if self.extremes {
                    row.push((value.min * quantity.scale).into());
                    row.push((value.max * quantity.scale).into());
                }
            }
            row
        });
        Sheet {
            labels: Vec::new(),
            name: quantity.column.into(),
            title: quantity.label.into(),
            rows: rows.collect(),
            columns,
        }
    }

    fn figure(
        &self,
        id: &str,
        title: &str,
        quantity: &Quantity,
        simulations: &[(&StudyPlan, &Simulation)],
    ) -> Figure {
        let places = self.places(simulations);
        let curves = self.curves(quantity, simulations);
        let series = curves.into_iter().enumerate().map(|(at, (name, values))| {
            let scaled = |value: f64| value * quantity.scale;
            let marks = match self.extremes && simulations.len() == 1 {
                true => Marks::HiLoMean {
                    points: places
                        .iter()
                        .zip(&values)
                        .map(|(&x, value)| HiLoMean {
                            x,
                            low: scaled(value.min),
                            mean: scaled(value.mean),
                            high: scaled(value.max),
                        })
                        .collect(),
                },
                false => Marks::Line {
                    points: places.iter().zip(&values).map(|(&x, value)| (x, scaled(value.mean))).collect(),
                    dash: DASHES[at % DASHES.len()],
                    marker: Some(MARKERS[at % MARKERS.len()]),
                },
            };
            let name = if name.is_empty() { "mean, from least to greatest" } else { name };
            Series { name: name.to_owned(), colour: at as u8, marks }
        });
        Figure {
            id: match self.quantities.len() {
                1 => id.to_owned(),
                _ => format!("{id}-{}", quantity.column),
            },
            title: title.to_owned(),
            notes: Vec::new(),
            x: Axis::new(&capitalised(self.over.label), None),
            y: match quantity.label.split_once(", ") {
                Some((label, unit)) => Axis::new(&capitalised(label), Some(unit)),
                None => Axis::new(&capitalised(quantity.label), None),
            },
            series: series.collect(),
        }
    }
}

const DASHES: [Dash; 4] = [Dash::Solid, Dash::Dashed, Dash::DashDot, Dash::Dotted];
const MARKERS: [Marker; 5] =
    [Marker::Disc, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Circle];
