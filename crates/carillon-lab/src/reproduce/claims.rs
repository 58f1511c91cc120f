//! What a source says in words, each claim checked against what was simulated.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::recovery::Pooled;
use super::status_analysis::StatusTerms;
use super::study::Findings;
use super::{SimulatedPoint, Simulation, Source, StudyPlan, Text};
use crate::check::{Check, CheckVerdict};
use crate::statistics::Summary;

/// The claims as they were collected from the text, and how each is checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsSpec {
    /// A row for each: its name first, its words third, the numbers in them eighth and ninth.
    text: Source,
    checks: Vec<Claim>,
}

/// One claim: what is measured for it, and when it holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    id: String,
    #[serde(default)]
    values: Vec<Value>,
    /// So many values in a row are compared with each other; all if this is not given.
    each: Option<usize>,
    rule: Rule,
}

/// A number of a simulation.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    /// The mean of a metric over all runs of a plan.
    Mean(String, String),
    /// Its greatest value.
    Max(String, String),
    /// The greatest of the means at the values of a swept key.
    MaxMean(String, String, String),
    /// The mean where a swept key has this value.
    MeanAt(String, String, String, f64),
    /// The mean over runs where the swept keys have these values, with its 95 % interval.
    At(String, String, BTreeMap<String, Is>),
    /// The mean there over what equation (4) of Paul, Sabnani and Kristol expects, whose terms are these parameters.
    OverEquation(String, String, BTreeMap<String, Is>, StatusTerms),
    /// The quotient of the means of a metric of two plans.
    Ratio(String, String, String),
    /// The quotient of the means of a metric of two plans where a swept key has this value.
    RatioAt(String, String, String, String, f64),
    /// Their difference there.
    DifferenceAt(String, String, String, String, f64),
    /// The value of a swept key at which the mean of a metric of a plan is greatest.
    ArgMax(String, String, String),
    /// The widest 95 % confidence interval of a metric at any point of a plan, from its middle, as a share of the mean in %.
    Confidence(String, String),
    /// How many members a packet of SRM reaches, as a share of all others: repairs needed and not.
    Reached(String, f64),
}

/// A value of a swept key.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Is {
    Number(f64),
    Text(String),
}

impl Is {
    fn fits(&self, point: &SimulatedPoint, key: &str) -> bool {
        match self {
            Is::Number(number) => point.number(key).is_some_and(|value| (value - number).abs() < 1e-9),
            Is::Text(text) => point.text(key).as_deref() == Some(text),
        }
    }
}

/// What was measured for a claim, with its 95 % confidence interval from replications where there is one.
#[derive(Clone, Copy, Debug)]
struct Measured {
    value: f64,
    half_width: Option<f64>,
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Two more digits for what is small, so that losses of a thousandth are seen.
        let digits = if self.value.abs() < 0.1 { 5 } else { 3 };
        write!(f, "{:.digits$}", self.value)?;
        match self.half_width {
            Some(half) if half > 0.0 => write!(f, " ± {half:.digits$}"),
            _ => Ok(()),
        }
    }
}

impl Measured {
    /// Of the runs of one point.
    fn of_runs(runs: &Summary) -> Self {
        let half_width = runs.ci95_high - runs.mean;
        Measured { value: runs.mean, half_width: half_width.is_finite().then_some(half_width) }
    }

    /// Of many points.
    fn of(pooled: Pooled) -> Self {
        let half_width = pooled.half_width.is_finite().then_some(pooled.half_width);
        Measured { value: pooled.mean, half_width }
    }

    /// The quotient of two that are independent.
    fn over(self, below: Self) -> Self {
        let value = self.value / below.value;
        let relative = |of: Self| Some(of.half_width? / of.value);
        let half_width = relative(self).zip(relative(below)).map(|(a, b)| value.abs() * a.hypot(b));
        Measured { value, half_width }
    }
}

impl Measured {
    /// The difference of two that are independent.
    fn less(self, other: Self) -> Self {
        let half_width = self.half_width.zip(other.half_width).map(|(a, b)| a.hypot(b));
        Measured { value: self.value - other.value, half_width }
    }
}

impl From<f64> for Measured {
    fn from(value: f64) -> Self {
        Measured { value, half_width: None }
    }
}

/// When a claim holds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    /// Every value lies in this range, or outside it by a fifth at most.
    About(f64, f64),
    /// Every value is this, to rounding.
    Exactly(f64),
    /// Every value is no more than this.
    AtMost(f64),
    /// Every value is no less than this.
    AtLeast(f64),
    /// Each value is less than the one before.
    Falling,
    /// No value is less than the one before, but for what their 95 % intervals leave open.
    Rising,
    /// Each value and the next, two by two, are the same, but for this share of the greater.
    Pairs(f64),
    /// The values differ by less than a fifth of their mean.
    Alike,
    /// It is held by construction: by what, a test or a plan.
    Held(Text),
    /// It says how a metric is defined: docs/metrics.md has the same definition.
    Definition,
}

/// The latencies that a source may have divided by another round trip.
const LATENCY: &str = "normalized_recovery_latency";
const PROPAGATION: &str = "normalized_recovery_latency_propagation";

impl ClaimsSpec {
    /// Every claim, checked.
    pub(super) fn findings(&self, simulations: &[(&StudyPlan, &Simulation)]) -> Findings {
        let mut reader = csv::Reader::from_reader(self.text.text.as_bytes());
        let checks = reader.records().filter_map(Result::ok).map(|record| {
            let text = |column: usize| record.get(column).unwrap_or_default().to_owned();
            let id = text(0);
            let expected = match (text(7).as_str(), text(8).as_str()) {
                ("", "") => String::new(),
                (low, "") => format!(">= {low}"),
                ("", high) => format!("<= {high}"),
                (low, high) if low == high => low.to_owned(),
                (low, high) => format!("{low} to {high}"),
            };
            // A claim that says several things has a check for each.
            let checked =
                self.checks.iter().filter(|claim| claim.id == id).map(|claim| claim.check(simulations));
            let both = |one: String, other: &str| {
                if one.is_empty() || other.is_empty() { one + other } else { one + "; " + other }
            };
            let (measured, verdict, note) = checked
                .reduce(|one, other| {
                    let verdict = if one.1 == CheckVerdict::Holds { other.1 } else { one.1 };
                    (both(one.0, &other.0), verdict, both(one.2, &other.2))
                })
                .unwrap_or_else(|| (String::new(), CheckVerdict::DoesNotHold, "not checked".to_owned()));
            Check { id, claim: text(2), expected, measured, verdict, note }
        });
        Findings { checks: checks.collect(), ..Findings::default() }
    }
}

impl Claim {
    fn check(&self, simulations: &[(&StudyPlan, &Simulation)]) -> (String, CheckVerdict, String) {
        let measured: Vec<Measured> = self.values.iter().map(|value| value.of(simulations)).collect();
        let values: Vec<f64> = measured.iter().map(|measured| measured.value).collect();
        let halves: Vec<f64> = measured.iter().map(|measured| measured.half_width.unwrap_or(0.0)).collect();
        let texts: Vec<String> = measured.iter().map(Measured::to_string).collect();
        let each = |fits: &dyn Fn(f64) -> bool| values.iter().all(|&value| fits(value));
        let size = self.each.unwrap_or(values.len()).max(1);
        // Neighbours that are compared: the place of the first of them, and both.
        let neighbours = || {
            let pairs = values.windows(2).enumerate();
            pairs.filter(|(at, _)| (at + 1) % size != 0).map(|(at, pair)| (at, pair[0], pair[1]))
        };
        let (holds, note) = match self.rule {
            Rule::About(low, high) => {
                (each(&|value| value >= 0.8 * low && value <= 1.2 * high), "within a fifth")
            }
            Rule::Exactly(number) => (each(&|value| (value - number).abs() < 1e-9), ""),
            Rule::AtMost(most) => (each(&|value| value <= most), ""),
            Rule::AtLeast(least) => (each(&|value| value >= least), ""),
            Rule::Falling => (neighbours().all(|(_, one, next)| next < one), "each less than the one before"),
            Rule::Rising => {
                let open = |at: usize| halves[at].max(0.0) + halves[at + 1].max(0.0);
                let rises = |(at, one, next): (usize, f64, f64)| next >= one - open(at) - 1e-9;
                (neighbours().all(rises), "none less than the one before, beyond both intervals")
            }
            Rule::Pairs(share) => {
                let alike = |(_, one, next): (usize, f64, f64)| {
                    (one - next).abs() <= share * one.abs().max(next.abs())
                };
                (neighbours().all(alike), "alike, as far as the rule allows")
            }
            Rule::Held(by) => (true, by.0),
            Rule::Alike => {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                (each(&|value| (value - mean).abs() < 0.2 * mean), "within a fifth of their mean")
            }
            Rule::Definition => (true, "the definition of the metric in docs/metrics.md"),
        };
        let mut note = note.to_owned();
        // What the source divides by is its agents' own measure of the round trip; by another one a
        // claim may read differently.
        let others: Vec<String> = self
            .values
            .iter()
            .filter_map(|value| Some(format!("{:.3}", value.by_propagation()?.of(simulations).value)))
            .collect();
        if !others.is_empty() {
            let separator = if note.is_empty() { "" } else { "; " };
            note += &format!("{separator}over twice the propagation delay: {}", others.join(", "));
        }
        (texts.join(", "), CheckVerdict::of(holds), note)
    }
}

impl Value {
    /// The same latency over twice the propagation delay.
    fn by_propagation(&self) -> Option<Value> {
        match self {
            Value::Mean(plan, metric) if metric == LATENCY => {
                Some(Value::Mean(plan.clone(), PROPAGATION.into()))
            }
            Value::Max(plan, metric) if metric == LATENCY => {
                Some(Value::Max(plan.clone(), PROPAGATION.into()))
            }
            _ => None,
        }
    }

    fn of(&self, simulations: &[(&StudyPlan, &Simulation)]) -> Measured {
        let simulation = |plan: &str| {
            let found = simulations.iter().find(|(of, _)| of.id.0 == plan);
            found.map(|(_, simulation)| *simulation)
        };
        let pooled =
            |plan: &str, metric: &str| simulation(plan).map(|found| Pooled::of(found, metric, |_| true));
        // Of one point: the means of its runs are as many numbers.
        let at = |plan: &str, metric: &str, key: &str, at: f64| {
            let point = simulation(plan)?.points.iter().find(|point| point.number(key) == Some(at))?;
            let runs = point.replications(metric)?;
            Some(Measured::of_runs(runs))
        };
        let value = match self {
            Value::Mean(plan, metric) => pooled(plan, metric).map(Measured::of),
            Value::Max(plan, metric) => pooled(plan, metric).map(|pooled| pooled.max.into()),
            Value::MeanAt(plan, metric, key, value) => at(plan, metric, key, *value),
            Value::At(plan, metric, at) => point_at(simulations, plan, at)
                .and_then(|point| point.replications(metric))
                .map(Measured::of_runs),
            Value::OverEquation(plan, metric, at, terms) => {
                point_at(simulations, plan, at).and_then(|point| {
                    let measured = Measured::of_runs(point.replications(metric)?);
                    let expected = terms.expected(&point.scenario)?;
                    Some(measured.over(Measured { value: expected, half_width: Some(0.0) }))
                })
            }
            Value::MaxMean(plan, metric, key) => simulation(plan).map(|found| {
                let keys = found.points.iter().filter_map(|point| point.number(key));
                let mean = |at: f64| Pooled::of(found, metric, |point| point.number(key) == Some(at)).mean;
                keys.map(mean).fold(f64::NAN, f64::max).into()
            }),
            Value::Ratio(metric, above, below) => pooled(above, metric)
                .zip(pooled(below, metric))
                .map(|(above, below)| Measured::of(above).over(Measured::of(below))),
            Value::RatioAt(metric, above, below, key, value) => at(above, metric, key, *value)
                .zip(at(below, metric, key, *value))
                .map(|(above, below)| above.over(below)),
            Value::DifferenceAt(metric, from, less, key, value) => at(from, metric, key, *value)
                .zip(at(less, metric, key, *value))
                .map(|(from, less)| from.less(less)),
            Value::ArgMax(plan, metric, key) => simulation(plan).and_then(|found| {
                let means = found
                    .points
                    .iter()
                    .filter_map(|point| Some((point.number(key)?, point.summary(metric)?.mean)));
                means.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at.into())
            }),
            Value::Confidence(plan, metric) => simulation(plan).map(|found| {
                let replications = found.points.iter().filter_map(|point| point.replications(metric));
                let shares = replications.map(|all| 100.0 * (all.ci95_high - all.mean) / all.mean.abs());
                shares.fold(f64::NAN, f64::max).into()
            }),
            Value::Reached(plan, receivers) => simulation(plan).map(|found| {
                // Repairs that came to members: duplicates, and those that ended a loss. The one who
                // sends a repair does not hear it.
                let mean = |metric| Pooled::of(found, metric, |_| true).mean;
                let others = mean("recoveries_per_loss") / receivers + mean("exposure");
                (others / mean("repairs_per_loss")).into()
            }),
        };
        value.unwrap_or(f64::NAN.into())
    }
}

/// The sweep point of a plan where keys have these values.
fn point_at<'a>(
    simulations: &[(&StudyPlan, &'a Simulation)],
    plan: &str,
    at: &BTreeMap<String, Is>,
) -> Option<&'a SimulatedPoint> {
    let (_, simulation) = simulations.iter().find(|(of, _)| of.id.0 == plan)?;
    simulation.points.iter().find(|point| at.iter().all(|(key, is)| is.fits(point, key)))
}
