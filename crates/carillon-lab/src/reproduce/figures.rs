//! Figures of a source, drawn from the simulations of its tables or from formulas.

use std::collections::BTreeMap;

use carillon_core::BitRate;
use serde::Deserialize;

use super::comparison::Comparison;
use super::kept::Text;
use super::simulation::{SimulatedPoint, Simulation};
use super::table::TableSpec;
use crate::metrics::{Bounds, Terms};
use crate::plot::{
    Axis, DASHES, Dash, Figure, HiLoMean, MARKERS, Marker, Marks, Percentiles, Series, sample_sizes,
};

/// Specification of a figure; the horizontal axis is the number of receivers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FigureSpec {
    /// The upper bound on relative throughput, from its formula.
    UpperBound {
        /// A curve for each window.
        windows: Vec<u32>,
        /// Maximum number of receivers on the axis.
        receivers: f64,
    },
    /// A quantity of one curve: its range, middle half and mean, the bound, the published means.
    Spread(Curve),
    /// A quantity of one curve: its percentiles, the bound, the published means.
    Percentiles(Curve),
    /// The means of several curves.
    Means {
        /// The curves.
        curves: Vec<Curve>,
        /// Selection of the bounds that are drawn.
        bounds: EachBound,
    },
}

/// Selection of the bounds that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EachBound {
    /// The bound of each curve.
    Own,
    /// Common bound of all curves: that of the last one.
    Common,
}

/// Some rows of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The table.
    pub table: Text,
    /// The table itself, once it is found.
    #[serde(skip)]
    pub spec: Option<TableSpec>,
    /// The rows with this value of this swept key; all if none is named.
    pub only: Option<(String, f64)>,
    /// The metric; the table must have it.
    pub metric: Text,
    /// Name of the curve in the legend.
    #[serde(default)]
    pub name: String,
}

impl FigureSpec {
    fn curves(&self) -> &[Curve] {
        match self {
            FigureSpec::UpperBound { .. } => &[],
            FigureSpec::Spread(curve) | FigureSpec::Percentiles(curve) => std::slice::from_ref(curve),
            FigureSpec::Means { curves, .. } => curves,
        }
    }

    /// The tables it is drawn from.
    pub fn tables(&self) -> Vec<(&'static str, TableSpec)> {
        self.curves().iter().map(|curve| (curve.table.0, curve.spec())).collect()
    }

    /// Looks up the named tables, which must have the metrics.
    pub(super) fn find_tables(&mut self, tables: &BTreeMap<&str, TableSpec>) -> Result<(), String> {
        let curves = match self {
            FigureSpec::UpperBound { .. } => &mut [],
            FigureSpec::Spread(curve) | FigureSpec::Percentiles(curve) => std::slice::from_mut(curve),
            FigureSpec::Means { curves, .. } if curves.is_empty() => return Err("has no curves".to_owned()),
            FigureSpec::Means { curves, .. } => curves,
        };
        for curve in curves {
            let spec =
                tables.get(curve.table.0).ok_or_else(|| format!("there is no table {}", curve.table))?;
            if !spec.quantities.iter().any(|quantity| quantity.metric == curve.metric) {
                return Err(format!("the table {} has no {}", curve.table, curve.metric));
            }
            curve.spec = Some(*spec);
        }
        Ok(())
    }

    /// The figure.
    pub(super) fn draw<'a>(
        &self,
        id: &str,
        title: &str,
        simulation: &dyn Fn(&str) -> &'a Simulation,
    ) -> Figure {
        let of_curve = |curve: &Curve| curve.points(simulation(curve.table.0));
        let points: Vec<Vec<CurvePoint<'_>>> = self.curves().iter().map(of_curve).collect();
        // All curves of a figure have one size of data.
        let first = points.first().and_then(|points| points.first());
        let data_bytes = first.map_or(DATA_BYTES, |point| point.simulated.message_bytes);
        let series = match self {
            FigureSpec::UpperBound { windows, receivers } => upper_bounds(windows, *receivers),
            FigureSpec::Spread(_) => spread(&points[0]),
            FigureSpec::Percentiles(_) => percentiles(&points[0]),
            FigureSpec::Means { curves, bounds } => means(curves, &points, *bounds),
        };
        let (label, unit) = self.quantity();
        let log = matches!(self, FigureSpec::UpperBound { .. });
        let mut notes = vec![format!("10 Mbit/s Ethernet, {data_bytes}-byte data, 64-byte acknowledgments")];
        if !points.is_empty() {
            let counts = points.iter().flatten().filter_map(CurvePoint::samples_simulated);
            notes.push(format!("Simulated packets: {}", sample_sizes(counts)));
        }
        if let Some(parameter) = ["SAWrand", "BAPrand"].into_iter().find(|name| title.contains(name)) {
            notes.push(format!("{parameter}: longest random wait before an acknowledgment, in bit times"));
        }
        if series.iter().any(|series| series.name == PUBLISHED_MEANS_LABEL) {
            notes.push("Filled marks are simulated means; outlines around them are published ones".into());
        }
        if series.iter().any(|series| series.name == PUBLISHED_LABEL) {
            notes.push("Extremes are those of more packets than the published run sent".into());
        }
        Figure {
            id: id.to_owned(),
            title: title.to_owned(),
            notes,
            x: Axis { log, ..Axis::new("Receivers", None) },
            y: Axis { log, ..Axis::new(label, unit) },
            series,
        }
    }

    fn quantity(&self) -> (&'static str, Option<&'static str>) {
        let metric = self.curves().first().map_or("relative_throughput", |curve| curve.metric.0);
        match metric {
            "message_latency_s" => ("Message latency", Some("bit times")),
            _ => ("Relative throughput", None),
        }
    }
}

/// Data of the upper bounds, and of most figures.
const DATA_BYTES: u32 = 1518;
const PUBLISHED_LABEL: &str = "published mean";

/// A point of a curve, in the units of the table.
struct CurvePoint<'a> {
    x: f64,
    simulated: &'a SimulatedPoint,
    metric: &'static str,
    scale: f64,
    published: Option<f64>,
    /// Independent samples behind a published mean.
    samples: f64,
}

impl CurvePoint<'_> {
    fn percentiles(&self) -> Option<(Percentiles, f64)> {
        let summary = self.simulated.summary(self.metric)?;
        let at = |value: f64| value * self.scale;
        let percentiles = Percentiles {
            x: self.x,
            min: at(summary.min),
            p25: at(summary.p25),
            p50: at(summary.p50),
            p75: at(summary.p75),
            max: at(summary.max),
        };
        Some((percentiles, at(summary.mean)))
    }

    /// Range of the mean of a run as long as the published one: three standard errors, exceeded by chance in a few of
    /// a thousand cases.
    fn chance(&self) -> Option<(f64, f64, f64)> {
        let summary = self.simulated.summary(self.metric)?;
        let reach = 3.0 * summary.sd / self.samples.sqrt();
        Some((self.x, (summary.mean - reach).max(0.0) * self.scale, (summary.mean + reach) * self.scale))
    }

    fn samples_simulated(&self) -> Option<u64> {
        self.simulated.summary(self.metric).map(|summary| summary.n)
    }

    fn bound(&self) -> Option<(f64, f64)> {
        Some((self.x, self.simulated.bound(self.metric)? * self.scale))
    }
}

impl Curve {
    fn spec(&self) -> TableSpec {
        self.spec.expect("the tables of a figure are looked up when its file is read")
    }

    fn points<'a>(&self, simulation: &'a Simulation) -> Vec<CurvePoint<'a>> {
        let spec = self.spec();
        let quantity = spec.quantities.iter().position(|quantity| quantity.metric == self.metric);
        let quantity = quantity.expect("a figure shows a quantity of its table");
        let comparison = Comparison::new("", "", &spec, simulation, None);
        let rows = simulation.points.iter().zip(&comparison.rows);
        rows.filter(|(point, _)| {
            self.only
                .as_ref()
                .is_none_or(|(key, value)| point.number(key).is_some_and(|x| (x - value).abs() < 1e-9))
        })
        .filter_map(|(point, row)| {
            Some(CurvePoint {
                x: point.number("group.receivers")?,
                simulated: point,
                metric: self.metric.0,
                scale: spec.quantities[quantity].scale,
                samples: spec.published_samples.count(point),
                published: row.cells[quantity].published.as_ref().map(|published| published.value),
            })
        })
        .collect()
    }
}

fn upper_bounds(windows: &[u32], to: f64) -> Vec<Series> {
    let mut series = Vec::new();
    let mut limits = Vec::new();
    for (at, &window) in windows.iter().enumerate() {
        let rate = BitRate::mbps(10);
        let seconds = |bytes: f64| bytes * 8.0 / rate.bps() as f64;
        let bound = |receivers: f64| {
            let terms = Terms { receivers, data: seconds(DATA_BYTES.into()), ack: seconds(64.0), rate };
            Bounds::new(&terms, window.into()).relative_throughput
        };
        let steps = 20.0 * to.log10();
        let points = (0..=steps.round() as u32).map(|step| 10.0_f64.powf(f64::from(step) / 20.0));
        let limit = (f64::from(window) * f64::from(DATA_BYTES) + 64.0) / 64.0;
        let name = if windows.len() == 1 { String::new() } else { format!("window {window}: ") };
        let curve = Marks::line(points.map(|r| (r, bound(r))), DASHES[at % 3]);
        series.push(Series::new(format!("{name}upper bound"), at, curve));
        let constant = Marks::line([(1.0, limit), (to, limit)], Dash::Dotted);
        limits.push(Series::new(format!("{name}its limit, {limit:.3}"), at, constant));
    }
    series.extend(limits);
    series
}

fn spread(points: &[CurvePoint<'_>]) -> Vec<Series> {
    let all: Vec<(Percentiles, f64)> = points.iter().filter_map(CurvePoint::percentiles).collect();
    let band = all.iter().map(|(point, _)| (point.x, point.p25, point.p75)).collect();
    let bars =
        all.iter().map(|&(Percentiles { x, min, max, .. }, mean)| HiLoMean { x, low: min, mean, high: max });
    let mut series = vec![
        Series::new("simulated, 25th to 75th percentile", 1, Marks::Band { points: band }),
        Series::new("simulated, mean and extremes", 1, Marks::HiLoMean { points: bars.collect() }),
    ];
    series.push(bound(points, "theoretical upper bound", 0));
    series.extend(published(points));
    series
}

fn percentiles(points: &[CurvePoint<'_>]) -> Vec<Series> {
    let all: Vec<(Percentiles, f64)> = points.iter().filter_map(CurvePoint::percentiles).collect();
    let means = Marks::line(all.iter().map(|(point, mean)| (point.x, *mean)), Dash::Dashed);
    let boxes = Marks::Boxes { points: all.iter().map(|(point, _)| *point).collect() };
    let mut series = vec![
        Series::new("simulated, quartiles and extremes", 1, boxes),
        Series::new("simulated, mean", 1, means),
    ];
    series.push(bound(points, "theoretical lower bound", 0));
    series.extend(published(points));
    series
}

fn means(curves: &[Curve], points: &[Vec<CurvePoint<'_>>], bounds: EachBound) -> Vec<Series> {
    let (mut bands, mut lines, mut bounded, mut published) = (vec![], vec![], vec![], vec![]);
    for (at, (curve, points)) in curves.iter().zip(points).enumerate() {
        let (colour, dash, marker) = (at as u8, DASHES[at % 3], MARKERS[at % MARKERS.len()]);
        let first = |name: &str| if at == 0 { name.to_owned() } else { String::new() };
        let band = points.iter().filter_map(CurvePoint::chance).collect();
        bands.push(Series { name: first(CHANCE_LABEL), colour, marks: Marks::Band { points: band } });
        let means = points.iter().filter_map(|point| Some((point.x, point.percentiles()?.1))).collect();
        let marks = Marks::Line { points: means, dash, marker: Some(marker) };
        lines.push(Series { name: curve.name.clone(), colour, marks });
        if bounds == EachBound::Own {
            // The dashes of its curve, without marks: colours are lost in print.
            let marks = Marks::line(points.iter().filter_map(CurvePoint::bound), dash);
            bounded.push(Series { name: format!("{}, upper bound", curve.name), colour, marks });
        } else if at + 1 == curves.len() {
            bounded.push(bound(points, "theoretical upper bound", 5));
        }
        let printed: Vec<_> = points.iter().filter_map(|point| Some((point.x, point.published?))).collect();
        if !printed.is_empty() {
            let name = if published.is_empty() { PUBLISHED_MEANS_LABEL } else { "" };
            let marks = Marks::Points { points: printed, marker: marker.outline() };
            published.push(Series { name: name.into(), colour, marks });
        }
    }
    bands.into_iter().chain(lines).chain(bounded).chain(published).collect()
}

const CHANCE_LABEL: &str = "3 standard errors, published run";

const PUBLISHED_MEANS_LABEL: &str = "published means (outlines)";

fn bound(points: &[CurvePoint<'_>], name: &str, colour: usize) -> Series {
    Series::new(name, colour, Marks::line(points.iter().filter_map(CurvePoint::bound), Dash::Dotted))
}

fn published(points: &[CurvePoint<'_>]) -> Option<Series> {
    let points: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((point.x, point.published?))).collect();
    let found = !points.is_empty();
    let marks = Marks::Points { points, marker: Marker::Circle };
    found.then(|| Series { name: PUBLISHED_LABEL.into(), colour: 0, marks })
}
