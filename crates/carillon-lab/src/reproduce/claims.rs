//! Claims of a source in words, each checked against the simulation.

use serde::Deserialize;
use toml::{Table, Value};

use super::findings::{Findings, Plans};
use super::kept::{Source, Text};
use super::recovery::Pooled;
use super::simulation::SimulatedPoint;
use super::status_analysis::StatusTerms;
use crate::check::{Check, CheckVerdict};
use crate::scenario::{number_of, text_of};
use crate::sheet::Number;

/// The claims as they were collected from the text, and how each is checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsSpec {
    /// A row for each: its name first, its words third, the numbers in them eighth and ninth.
    text: Source,
    checks: Vec<Claim>,
}

/// Claim: the values measured for it, and the rule by which it holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    id: String,
    #[serde(default)]
    values: Vec<Values>,
    /// Number of consecutive values that are compared with each other; all without it.
    each: Option<usize>,
    rule: Rule,
}

/// Numbers of simulations: one of each plan, metric, and combination of values of swept keys, of which the last
/// varies fastest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    /// The plans.
    of: Vec<String>,
    metrics: Vec<String>,
    /// The points that are meant, by the values of swept keys; all if none is named.
    #[serde(default)]
    at: Table,
    #[serde(default)]
    take: PointStatistic,
    /// Plan used as divisor: the value is divided by its number.
    over: Option<String>,
    /// Plan used as subtrahend: its number is subtracted from the value.
    less: Option<String>,
    /// Parameters of equation (4) of Paul, Sabnani and Kristol; the value is divided by its result.
    equation: Option<StatusTerms>,
}

/// Statistic computed over the selected points.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PointStatistic {
    /// The mean, with its 95 % interval.
    #[default]
    Mean,
    /// The greatest value.
    Max,
    /// The greatest of the means at the values of a swept key.
    MaxMean(String),
    /// The value of a swept key at which the mean is greatest.
    ArgMax(String),
    /// The widest 95 % confidence interval at any point, from its middle, as a share of the mean in %.
    Confidence,
    /// Members reached by a packet of SRM, as a share of all others; needed and unneeded repairs both count.
    Reached(f64),
}

/// A number as it stands with a claim.
fn text(number: Number) -> String {
    // Small values get two more digits, so that losses of a thousandth are visible.
    let digits = if number.value.abs() < 0.1 { 5 } else { 3 };
    Number { half_width: number.half_width.filter(|half| *half > 0.0), ..number }.text(digits)
}

/// Rule by which a claim holds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    /// Every value lies in this range: the numbers of the text, to half a unit of their last digit.
    About(f64, f64),
    /// Every value is this, to rounding.
    Exactly(f64),
    /// Every value is no more than this.
    AtMost(f64),
    /// Every value is no less than this.
    AtLeast(f64),
    /// Every value is less than its predecessor.
    Falling,
    /// No value is less than the one before, but for what their 95 % intervals leave open.
    Rising,
    /// Consecutive pairs of values are equal up to this share of the greater value.
    Pairs(f64),
    /// The values differ by less than a fifth of their mean.
    Alike,
    /// The claim holds by construction, as checked by the named test or plan.
    Held(Text),
    /// The claim defines a metric; docs/reference/metrics.md has the same definition.
    Definition,
}

/// The latencies that a source may have divided by another round trip.
const LATENCY_METRIC: &str = "normalized_recovery_latency";
const PROPAGATION_METRIC: &str = "normalized_recovery_latency_propagation";

impl ClaimsSpec {
    /// Every claim, checked.
    pub(super) fn findings(&self, plans: &Plans<'_>) -> Findings {
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
            let checked = self.checks.iter().filter(|claim| claim.id == id).map(|claim| claim.check(plans));
            let both = |one: String, other: &str| {
                if one.is_empty() || other.is_empty() { one + other } else { one + "; " + other }
            };
            let (measured, verdict, note) = checked
                .reduce(|one, other| {
                    let verdict = if one.1 == CheckVerdict::Holds { other.1 } else { one.1 };
                    (both(one.0, &other.0), verdict, both(one.2, &other.2))
                })
                .unwrap_or_else(|| {
                    (String::new(), CheckVerdict::Undecided, "no experiment decides it".to_owned())
                });
            Check { id, claim: text(2), expected, measured, verdict, note }
        });
        Findings { checks: checks.collect(), ..Findings::default() }
    }
}

impl Claim {
    fn check(&self, plans: &Plans<'_>) -> (String, CheckVerdict, String) {
        let measured: Vec<Number> = self.values.iter().flat_map(|values| values.numbers(plans)).collect();
        let values: Vec<f64> = measured.iter().map(|number| number.value).collect();
        let halves: Vec<f64> = measured.iter().map(|number| number.half_width.unwrap_or(0.0)).collect();
        let texts: Vec<String> = measured.into_iter().map(text).collect();
        let each = |fits: &dyn Fn(f64) -> bool| values.iter().all(|&value| fits(value));
        let size = self.each.unwrap_or(values.len()).max(1);
        // Neighbours that are compared: the place of the first of them, and both.
        let neighbours = || {
            let pairs = values.windows(2).enumerate();
            pairs.filter(|(at, _)| (at + 1) % size != 0).map(|(at, pair)| (at, pair[0], pair[1]))
        };
        let (holds, note) = match self.rule {
            Rule::About(low, high) => (each(&|value| (low..=high).contains(&value)), ""),
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
            Rule::Definition => (true, "the definition of the metric in docs/reference/metrics.md"),
        };
        let mut note = match self.rule {
            Rule::About(low, high) => format!("from {low} to {high}, as exact as the text"),
            _ => note.to_owned(),
        };
        // What the source divides by is its agents' own measure of the round trip; by another one a
        // claim may read differently.
        let others = self.values.iter().filter_map(Values::by_propagation);
        let others = others.flat_map(|values| values.numbers(plans));
        let others: Vec<String> = others.map(|number| format!("{:.3}", number.value)).collect();
        if !others.is_empty() {
            let separator = if note.is_empty() { "" } else { "; " };
            note += &format!("{separator}over twice the propagation delay: {}", others.join(", "));
        }
        (texts.join(", "), CheckVerdict::of(holds), note)
    }
}

impl Values {
    /// Latencies divided by twice the propagation delay instead.
    fn by_propagation(&self) -> Option<Self> {
        let is_whole = self.at.is_empty() && self.over.is_none();
        let is_latency = is_whole && self.metrics == [LATENCY_METRIC];
        is_latency.then(|| Values { metrics: vec![PROPAGATION_METRIC.to_owned()], ..self.clone() })
    }

    fn numbers(&self, plans: &Plans<'_>) -> Vec<Number> {
        let mut places = vec![Vec::new()];
        for (key, values) in &self.at {
            let values = values.as_array().map_or(std::slice::from_ref(values), Vec::as_slice);
            let with = |place: Place| {
                values.iter().map(move |value| [&place[..], &[(key.clone(), value.clone())]].concat())
            };
            places = places.into_iter().flat_map(with).collect();
        }
        let mut numbers = Vec::new();
        for plan in &self.of {
            for metric in &self.metrics {
                let number = |place: &Place| self.number(plans, plan, metric, place);
                numbers.extend(places.iter().map(|place| number(place).unwrap_or(f64::NAN.into())));
            }
        }
        numbers
    }

    fn number(&self, plans: &Plans<'_>, plan: &str, metric: &str, place: &Place) -> Option<Number> {
        let points = |plan: &str| {
            let is_at = |point: &SimulatedPoint, key: &str, value: &Value| match number_of(value) {
                None => point.text(key) == Some(text_of(value)),
                number => point.number(key) == number,
            };
            let is_meant =
                |point: &&SimulatedPoint| place.iter().all(|(key, value)| is_at(point, key, value));
            Some(plans.find(plan)?.points.iter().filter(is_meant).collect::<Vec<_>>())
        };
        let taken = |plan: &str| self.take.of(&points(plan)?, metric);
        let mut number = taken(plan)?;
        if let Some(below) = &self.over {
            number = number.over(taken(below)?);
        }
        if let Some(less) = &self.less {
            number = number.less(taken(less)?);
        }
        if let Some(terms) = &self.equation {
            let expected = terms.expected(&points(plan)?.first()?.scenario)?;
            number = number.over(Number { value: expected, half_width: Some(0.0) });
        }
        Some(number)
    }
}

/// Swept keys and their values.
type Place = Vec<(String, Value)>;

impl PointStatistic {
    fn of(&self, points: &[&SimulatedPoint], metric: &str) -> Option<Number> {
        let mean = |metric| Pooled::of(points.iter().copied(), metric).means.mean;
        Some(match self {
            // Of one point the means of its runs are as many numbers.
            PointStatistic::Mean => match points {
                [] => return None,
                [point] => Number::of(point.replications(metric)?, 1.0),
                points => Number::of(&Pooled::of(points.iter().copied(), metric).means, 1.0),
            },
            PointStatistic::Max => Pooled::of(points.iter().copied(), metric).max.into(),
            PointStatistic::MaxMean(key) => {
                let keys = points.iter().filter_map(|point| point.number(key));
                let mean = |at: f64| {
                    let there = points.iter().copied().filter(|point| point.number(key) == Some(at));
                    Pooled::of(there, metric).means.mean
                };
                keys.map(mean).fold(f64::NAN, f64::max).into()
            }
            PointStatistic::ArgMax(key) => {
                let mean = |point: &&SimulatedPoint| Some((point.number(key)?, point.summary(metric)?.mean));
                let means = points.iter().filter_map(mean);
                means.max_by(|(_, one), (_, other)| one.total_cmp(other))?.0.into()
            }
            PointStatistic::Confidence => {
                let replications = points.iter().filter_map(|point| point.replications(metric));
                let shares = replications.map(|all| 100.0 * (all.ci95_high - all.mean) / all.mean.abs());
                shares.fold(f64::NAN, f64::max).into()
            }
            // Repairs received by members: duplicates, and repairs that ended a loss. The sender of a repair does not
            // receive it.
            PointStatistic::Reached(receivers) => {
                let others = mean("recoveries_per_loss") / receivers + mean("exposure");
                (others / mean(metric)).into()
            }
        })
    }
}
