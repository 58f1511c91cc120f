//! The best random acknowledgment wait for each group, and what a law and other ways of choosing cost.

use serde::Deserialize;

use super::findings::{Findings, Plans};
use super::kept::{List, Text};
use super::law::{Fit, Law, Row, Sweep};
use super::simulation::{SimulatedPoint, Simulation};
use crate::plot::{Axis, Dash, Figure, Marker, Marks, Series};
use crate::sheet::{Heading, Sheet};

/// Comparison of fixed and adaptive acknowledgment waits; plans of the study are referred to by identifier.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AckWaitSpec {
    /// Conditions, each with a sweep of fixed waits and a run with the adaptive wait.
    pub conditions: List<Condition>,
    /// Number of conditions, from the first, to which the law is fitted.
    pub fitted: usize,
}

/// Condition: one protocol, window and packet size.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Part of file names.
    pub id: Text,
    /// Name of the condition.
    pub name: Text,
    /// The plan that tries constant waits.
    pub constant: Text,
    /// Plan with the adaptive wait.
    pub adaptive: Text,
}

/// Results under one condition; times in bit times.
struct Measured {
    condition: &'static Condition,
    sweep: Sweep,
    /// Latency with the adaptive wait, for each row of the sweep.
    adaptive: Vec<f64>,
    /// Minimum time for a window, n d + a r, for each row of the sweep.
    bounds: Vec<f64>,
}

impl AckWaitSpec {
    pub(super) fn findings(&self, id: &str, plans: &Plans<'_>) -> Findings {
        let of_condition = |condition: &'static Condition| {
            Measured::new(condition, plans.find(condition.constant.0)?, plans.find(condition.adaptive.0)?)
        };
        let measured: Vec<Measured> = self.conditions.0.iter().filter_map(of_condition).collect();
        let fitted = &measured[..self.fitted.min(measured.len())];
        let sweeps: Vec<Sweep> = fitted.iter().map(|measured| measured.sweep.clone()).collect();
        let Some(fit) = Fit::of(&sweeps) else { return Findings::default() };
        let mut figures = vec![waits(id, &fit, &measured)];
        figures.extend(measured.iter().map(|measured| measured.latencies(id, &fit.law)));
        Findings {
            sheets: measured.iter().map(|measured| measured.sheet(&fit.law)).collect(),
            figures,
            remarks: remarks(&fit, &sweeps, &measured),
            ..Findings::default()
        }
    }
}

impl Measured {
    fn new(condition: &'static Condition, constant: &Simulation, adaptive: &Simulation) -> Option<Self> {
        let first = constant.points.first()?.terms?;
        let ack = first.ack * first.rate.bps() as f64;
        let mut measured =
            Measured { condition, sweep: Sweep { ack, rows: vec![] }, adaptive: vec![], bounds: vec![] };
        for point in &adaptive.points {
            let (receivers, latency) = (point.number("group.receivers")?, latency(point)?);
            let of_group = || {
                let points = constant.points.iter();
                points.filter(|point| point.number("group.receivers") == Some(receivers))
            };
            let tried =
                of_group().map(|point| Some((point.number("protocol.ack_wait")?, self::latency(point)?)));
            let mut latencies = tried.collect::<Option<Vec<_>>>()?;
            latencies.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            let bound =
                of_group().find_map(|point| point.bound("message_latency_s"))? * first.rate.bps() as f64;
            measured.sweep.rows.push(Row { receivers, latencies });
            measured.adaptive.push(latency);
            measured.bounds.push(bound);
        }
        Some(measured)
    }

    fn rows(&self) -> impl Iterator<Item = (&Row, f64, f64)> {
        let rows = self.sweep.rows.iter().zip(&self.adaptive).zip(&self.bounds);
        rows.map(|((row, adaptive), bound)| (row, *adaptive, *bound))
    }

    fn sheet(&self, law: &Law) -> Sheet {
        let ack = self.sweep.ack;
        let rows = self.rows().filter_map(|(row, adaptive, _)| {
            let (best, least) = row.best()?;
            let wait = law.wait(row.receivers, ack);
            let per_cent = |latency: Option<f64>| {
                latency.and_then(|latency| row.excess(latency)).map_or(f64::NAN, |excess| excess * 100.0)
            };
            let numbers = [
                row.receivers,
                best / (ack * row.receivers),
                wait / (ack * row.receivers),
                least,
                per_cent(row.latency(wait)),
                per_cent(Some(adaptive)),
                per_cent(row.latency(0.0)),
            ];
            Some(numbers.map(Into::into).to_vec())
        });
        Sheet {
            labels: Vec::new(),
            name: self.condition.id.0.into(),
            title: format!(
                "{}; excess of the message latency over the least one in per cent",
                self.condition.name
            ),
            columns: vec![
                Heading::exact("receivers r"),
                Heading::rounded("best R/(a r)", 3),
                Heading::rounded("law R/(a r)", 2),
                Heading::rounded("least latency, bit times", 0),
                Heading::rounded("law: excess %", 1),
                Heading::rounded("adaptive: excess %", 1),
                Heading::rounded("no wait: excess %", 0),
            ],
            rows: rows.collect(),
        }
    }

    /// Latencies over the size of the group, as multiples of their bound.
    fn latencies(&self, id: &str, law: &Law) -> Figure {
        let curve = |latency: &dyn Fn(&Row, f64) -> Option<f64>| {
            let points = self
                .rows()
                .filter_map(|(row, adaptive, bound)| Some((row.receivers, latency(row, adaptive)? / bound)));
            points.collect::<Vec<_>>()
        };
        let law_wait = |row: &Row| law.wait(row.receivers, self.sweep.ack);
        let best = curve(&|row, _| Some(row.best()?.1));
        let lines = [
            ("no wait", curve(&|row, _| row.latency(0.0)), Dash::DashDot, Marker::Diamond),
            ("adaptive", curve(&|_, adaptive| Some(adaptive)), Dash::Dotted, Marker::Triangle),
            ("law", curve(&|row, _| row.latency(law_wait(row))), Dash::Dashed, Marker::Square),
            ("best constant wait", best, Dash::Solid, Marker::Disc),
        ];
        let series = lines.into_iter().enumerate().map(|(at, (name, points, dash, marker))| {
            Series::new(name, 3 - at, Marks::Line { points, dash, marker: Some(marker) })
        });
        Figure {
            id: format!("{id}-{}", self.condition.id),
            title: format!("Message latency by the choice of the wait R ({})", self.condition.name),
            notes: vec![law_text(law)],
            x: Axis { log: true, ..Axis::new("Receivers r", None) },
            y: Axis {
                log: self.rows().any(|(row, _, bound)| row.latency(0.0).is_some_and(|y| y > 20.0 * bound)),
                ..Axis::new("Latency / (n d + a r)", None)
            },
            series: series.collect(),
        }
    }
}

/// The best wait under each condition, and the law through them.
fn waits(id: &str, fit: &Fit, measured: &[Measured]) -> Figure {
    // Best waits coincide: outlines leave those below to be seen.
    let markers =
        [Marker::Circle, Marker::Disc, Marker::OpenTriangle, Marker::OpenDiamond, Marker::OpenSquare];
    let mut series: Vec<Series> = measured
        .iter()
        .enumerate()
        .map(|(at, measured)| {
            let ratio =
                |row: &Row| Some((row.receivers, row.best()?.0 / (measured.sweep.ack * row.receivers)));
            let points = measured.sweep.rows.iter().filter_map(ratio).collect();
            let marks = Marks::Points { points, marker: markers[at % markers.len()] };
            Series { name: measured.condition.name.0.into(), colour: 1 + at as u8, marks }
        })
        .collect();
    let receivers = (0..=60).map(|step| 2.0 * 500.0_f64.powf(f64::from(step) / 60.0));
    let law = Marks::line(receivers.map(|r| (r, fit.law.wait(r, 1.0) / r)), Dash::Solid);
    series.push(Series::new(law_text(&fit.law), 0, law));
    Figure {
        id: format!("{id}-waits"),
        title: "The random acknowledgment wait R with the least message latency".into(),
        notes: vec!["Marks: the best of 21 waits that were tried, 0 to 2.5 a r; the minima are flat".into()],
        x: Axis { log: true, ..Axis::new("Receivers r", None) },
        y: Axis::new("R / (a r)", None),
        series,
    }
}

fn remarks(fit: &Fit, sweeps: &[Sweep], measured: &[Measured]) -> Vec<String> {
    let names: Vec<&str> =
        measured.iter().take(sweeps.len()).map(|measured| measured.condition.name.0).collect();
    vec![
        format!(
            "{}, at least 0, fitted to {}: excess over the least latency {:.1} % on average, {:.1} % at most.",
            law_text(&fit.law),
            names.join("; "),
            fit.mean_excess * 100.0,
            fit.greatest_excess * 100.0
        ),
        "The least latency is that of the best of 21 constant waits; of several means the least is a little below its expectation, so excesses are a little too great.".into(),
        "Latencies of the adaptive wait include its start from no wait.".into(),
    ]
}

fn law_text(law: &Law) -> String {
    format!("R = a ({} r - {})", law.alpha, law.beta)
}

/// Message latency in bit times.
fn latency(point: &SimulatedPoint) -> Option<f64> {
    let rate = point.terms?.rate.bps() as f64;
    point.summary("message_latency_s").map(|summary| summary.mean * rate)
}
