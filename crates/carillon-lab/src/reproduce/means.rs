//! Means of a metric side by side: over one swept key, for others, by alternative.

use serde::Deserialize;

use super::findings::{Findings, Plans, StudyPlan};
use super::kept::{List, Static, Text};
use super::mean::Mean;
use super::quantities::{Key, Quantity, joined};
use super::quotient::Quotient;
use super::simulation::SimulatedPoint;
use super::status_analysis::StatusTerms;
use crate::plot::{Axis, Dash, Figure, Marks, Series, capitalised, distinct, sample_sizes};
use crate::sheet::{Heading, Number, Sheet};

/// Which means are shown, and how.
///
/// Rows are named by keys, columns are alternatives: the plans, or the values of a key, or both. A figure
/// shows one quantity over the last key.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeansSpec {
    /// The keys that name a row. The last one is the horizontal axis of figures.
    pub keys: List<Key>,
    /// Number of leading keys with a separate figure for each value; the other keys have curves.
    pub figures_by: usize,
    /// Swept key with the alternatives as values, in plans that have it.
    pub alternatives: Option<Text>,
    /// Quantities to show.
    pub quantities: List<Quantity>,
    /// Number of leading quantities that have figures.
    pub drawn: usize,
    /// The first quantity is drawn beside what equation (4) of Paul, Sabnani and Kristol expects of it, and divided
    /// by that: where the terms of it are.
    pub analysis: Option<StatusTerms>,
    /// Two values of the key of alternatives. Their quotient is shown too, for the first quantity.
    pub quotient: Option<Quotient>,
}

impl MeansSpec {
    pub(super) fn findings(&self, id: &str, plans: &Plans<'_>) -> Findings {
        let mut findings = Findings::default();
        for (at, quantity) in self.quantities.iter().enumerate() {
            let means: Vec<Mean> = plans
                .0
                .iter()
                .flat_map(|(plan, simulation)| {
                    simulation.points.iter().filter_map(|point| self.mean(quantity, plan, point))
                })
                .collect();
            findings.sheets.push(self.sheet(quantity, &means));
            if let (0, Some(quotient)) = (at, &self.quotient) {
                let quotients = quotient.means(&means);
                findings.sheets.push(self.sheet(&quotient.quantity, &quotients));
                let figures = self.figures(id, &quotient.quantity, quotient.figures_by, &quotients);
                findings.figures.extend(figures);
            }
            if at == 0 && self.analysis.is_some() {
                let (expected, shares) = beside_analysis(&means);
                let heading = |column: &'static str, label: &'static str, digits: usize| Quantity {
                    column: Static(column),
                    label: Static(label),
                    digits,
                    ..*quantity
                };
                let analysis = heading("analysis", "by equation (4)", 3);
                let share = heading("share", "simulated / by equation (4)", 3);
                findings.sheets.push(self.sheet(&analysis, &expected));
                findings.sheets.push(self.sheet(&share, &shares));
                findings.figures.extend(self.figures(id, &share, self.figures_by, &shares));
            }
            if at < self.drawn {
                findings.figures.extend(self.figures(id, quantity, self.figures_by, &means));
            }
        }
        findings
    }

    fn figures(&self, id: &str, quantity: &Quantity, figures_by: usize, means: &[Mean]) -> Vec<Figure> {
        let panels = distinct(means.iter().map(|mean| &mean.row[..figures_by]));
        panels.iter().map(|panel| self.figure(id, quantity, panel, means)).collect()
    }

    fn mean(&self, quantity: &Quantity, plan: &StudyPlan, point: &SimulatedPoint) -> Option<Mean> {
        // Where no run has it there is nothing to show.
        let summary = point.summary(quantity.metric.0).filter(|summary| summary.n > 0)?;
        let row = self.keys.iter().map(|key| Some(point.number(key.scenario.0)? * key.scale));
        let way = self.alternatives.and_then(|key| point.text(key.0));
        let parts = [Some(plan.name.0), way.as_deref()].into_iter().flatten();
        let replications = Number::of(point.replications(quantity.metric.0)?, quantity.scale);
        Some(Mean {
            row: row.collect::<Option<_>>()?,
            alternative: parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "),
            way,
            n: summary.n,
            number: Number { value: summary.mean * quantity.scale, ..replications },
            expected: self.analysis.and_then(|terms| terms.expected(&point.scenario)),
        })
    }

    fn sheet(&self, quantity: &Quantity, means: &[Mean]) -> Sheet {
        let keys = self.keys.iter().map(|key| Heading::exact(key.label.0));
        let cells = means.iter().map(|mean| (&mean.row[..], mean.alternative.as_str(), mean.number));
        Sheet::crossed(quantity.column.0, capitalised(quantity.label.0), keys, quantity.digits, cells)
    }

    /// Figure of one quantity over the last key, with the first keys at the values of the panel.
    fn figure(&self, id: &str, quantity: &Quantity, panel: &[f64], means: &[Mean]) -> Figure {
        let last = self.keys.len() - 1;
        let means: Vec<&Mean> = means.iter().filter(|mean| mean.row.starts_with(panel)).collect();
        let groups = distinct(means.iter().map(|mean| &mean.row[panel.len()..last]));
        let alternatives = distinct(means.iter().map(|mean| mean.alternative.as_str()));
        let (mut bands, mut lines) = (Vec::new(), Vec::new());
        for (at_group, group) in groups.iter().enumerate() {
            for (at, alternative) in alternatives.iter().enumerate() {
                let curve = || {
                    means.iter().filter(|mean| {
                        mean.row[panel.len()..last] == **group && mean.alternative == *alternative
                    })
                };
                // Where there are groups, alternatives share the colour of theirs.
                let colour = if groups.len() > 1 { at_group } else { at } as u8;
                let look = if alternatives.len() > 1 { at } else { at_group };
                let band = curve().filter_map(|mean| {
                    let Number { value, half_width } = mean.number;
                    let half = half_width?;
                    // On a logarithmic axis nothing comes down to zero.
                    let least = if quantity.log { value / 10.0 } else { 0.0 };
                    Some((mean.row[last], (value - half).max(least), value + half))
                });
                let points: Vec<_> = band.collect();
                if !points.is_empty() {
                    bands.push(Series { name: String::new(), colour, marks: Marks::Band { points } });
                }
                let named = self.keys[panel.len()..last].iter().zip(group.iter());
                let mut name: Vec<String> = named.map(|(key, value)| named_value(key, *value)).collect();
                if alternatives.len() > 1 {
                    name.push((*alternative).to_owned());
                }
                let shown = |mean: &&&Mean| !quantity.log || mean.number.value > 0.0;
                let points = curve().filter(shown).map(|mean| (mean.row[last], mean.number.value)).collect();
                let marks = joined(&self.keys[last], look, points);
                let name = name.join(", ");
                if self.analysis.is_some() && quantity.column == self.quantities[0].column {
                    let points: Vec<_> =
                        curve().filter_map(|mean| Some((mean.row[last], mean.expected?))).collect();
                    let line = Marks::Line { points, dash: Dash::Dotted, marker: None };
                    lines.push(Series { name: format!("{name}, equation (4)"), colour, marks: line });
                }
                lines.push(Series { name, colour, marks });
            }
        }
        let panel: Vec<String> =
            self.keys.iter().zip(panel).map(|(key, value)| named_value(key, *value)).collect();
        let x = match self.keys[last].label.strip_suffix(" %") {
            Some(label) => Axis::new(&capitalised(label), Some("%")),
            None => Axis::new(&capitalised(self.keys[last].label.0), None),
        };
        let x = Axis { log: self.keys[last].log, ..x };
        let y = Axis { log: quantity.log, ..quantity.axis() };
        let shaded =
            (!bands.is_empty()).then_some("Shaded: 95 % confidence interval of the mean, from replications");
        let counts = means.iter().map(|mean| mean.n).filter(|n| *n > 0);
        let samples = (counts.clone().count() > 0).then(|| format!("Means; {}", sample_sizes(counts)));
        Figure {
            id: format!("{id}-{}", [quantity.column.0.to_owned(), in_a_name(&panel.join("-"))].join("-")),
            title: format!("{} ({})", y.label, panel.join(", ")),
            notes: samples.into_iter().chain(shaded.map(str::to_owned)).collect(),
            x,
            y,
            series: bands.into_iter().chain(lines).collect(),
        }
    }
}

/// The text as part of a file's name: a label may speak of `Mbit/s`.
fn in_a_name(text: &str) -> String {
    text.replace([' ', '/', '\\'], "-")
}

/// Values expected by the analysis, and the means as shares of them.
fn beside_analysis(means: &[Mean]) -> (Vec<Mean>, Vec<Mean>) {
    let with = |mean: &Mean, number: Number| Mean { number, n: 0, expected: None, ..mean.clone() };
    let expected = means.iter().filter_map(|mean| Some(with(mean, mean.expected?.into())));
    let share = |mean: &Mean| {
        let expected = mean.expected.filter(|expected| *expected > 0.0)?;
        let half_width = mean.number.half_width.map(|half| half / expected);
        Some(with(mean, Number { value: mean.number.value / expected, half_width }))
    };
    (expected.collect(), means.iter().filter_map(share).collect())
}

/// `20 receivers`
fn named_value(key: &Key, value: f64) -> String {
    format!("{value} {}", key.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_leads_to_no_other_directory() {
        assert_eq!(in_a_name("100 Mbit/s-..\\x"), "100-Mbit-s-..-x");
    }
}
