//! Recovery from losses over topologies: mean, least and greatest value, as in the figures of chapter 5
//! of Papadopoulos.

use super::means::{capitalised, distinct};
use super::sheet::{Heading, Number, Sheet};
use super::study::Findings;
use super::{Key, Quantity, Simulation, StudyPlan};
use crate::plot::{Axis, Dash, Figure, HiLoMean, Marker, Marks, Series};
use crate::statistics::Summary;

/// What is shown of recovery, over what.
#[derive(Clone, Copy, Debug)]
pub struct RecoverySpec {
    /// The swept key along the horizontal axis; without it each plan is one point, at these values.
    pub over: Over,
    /// What is shown.
    pub quantities: &'static [Quantity],
    /// Whether the least and greatest values are shown too.
    pub extremes: bool,
}

/// What the horizontal axis is.
#[derive(Clone, Copy, Debug)]
pub enum Over {
    /// A swept key.
    Key(Key),
    /// A number of each plan, such as its receivers; how it is headed, and the numbers.
    Plans(&'static str, &'static [f64]),
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
        wanted: impl Fn(&super::SimulatedPoint) -> bool,
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
        match self.over {
            Over::Plans(_, places) => places.to_vec(),
            Over::Key(key) => {
                let points = simulations.iter().flat_map(|(_, simulation)| &simulation.points);
                distinct(points.filter_map(|point| point.number(key.scenario)))
            }
        }
    }

    /// The curves: a name, and a value at each place.
    fn curves(
        &self,
        quantity: &Quantity,
        simulations: &[(&StudyPlan, &Simulation)],
    ) -> Vec<(String, Vec<Pooled>)> {
        match self.over {
            Over::Key(key) => simulations
                .iter()
                .map(|(plan, simulation)| {
                    let at = |place: &f64| {
                        Pooled::of(simulation, quantity.metric, |point| {
                            point.number(key.scenario) == Some(*place)
                        })
                    };
                    (plan.name.to_owned(), self.places(simulations).iter().map(at).collect())
                })
                .collect(),
            Over::Plans(..) => {
                let values = simulations
                    .iter()
                    .map(|(_, simulation)| Pooled::of(simulation, quantity.metric, |_| true))
                    .collect();
                vec![(String::new(), values)]
            }
        }
    }

    fn sheet(&self, quantity: &Quantity, simulations: &[(&StudyPlan, &Simulation)]) -> Sheet {
        let curves = self.curves(quantity, simulations);
        let mut columns = vec![Heading::exact(self.label())];
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

    fn label(&self) -> &'static str {
        match self.over {
            Over::Key(key) => key.label,
            Over::Plans(label, _) => label,
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
            let name = if name.is_empty() { "mean, from least to greatest".to_owned() } else { name };
            Series { name, colour: at as u8, marks }
        });
        Figure {
            id: match self.quantities.len() {
                1 => id.to_owned(),
                _ => format!("{id}-{}", quantity.column),
            },
            title: title.to_owned(),
            notes: Vec::new(),
            x: Axis::new(&capitalised(self.label()), None),
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
