//! Figures of any result folders: one metric over a swept key, in series and panels.
//!
//! A line joins points only where numbers stand along the axis; names stand beside each other without one.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::{Axis, DASHES, Figure, MARKERS, Marks, Series, capitalised, distinct, is_ordered, sample_sizes};
use crate::reproduce::PublishedValues;
use crate::summary_file::{Numbers, SummaryError, SummaryFile, SummaryRow};

/// Specification of a figure drawn from result folders.
#[derive(Clone, Debug, Default)]
pub struct PlotSpec {
    /// The key along the horizontal axis; the one with most values, numbers before names, if not said.
    pub x: Option<String>,
    /// The metric.
    pub y: String,
    /// The keys that tell series apart; all that do, if not said.
    pub series: Option<Vec<String>>,
    /// The key with a panel for each of its values.
    pub facets: Option<String>,
    /// Keys and the one value of each that is drawn.
    pub only: Vec<(String, String)>,
    /// Spread to draw beside each point.
    pub intervals: Intervals,
    /// True for a logarithmic axis: horizontal, vertical.
    pub log: (bool, bool),
    /// Title; without one it is composed of the drawn metrics.
    pub title: Option<String>,
}

/// The bar at each point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intervals {
    /// The 95 % confidence interval of the mean, over the means of runs; one run has none.
    #[default]
    Ci95,
    /// Spread from the first to the third quartile, around the median.
    Quartiles,
    /// Spread from the minimum to the maximum sample.
    Range,
    /// No spread.
    None,
}

/// A result folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Name of the folder in the legend.
    name: String,
    summary: SummaryFile,
    manifest: Manifest,
    published: Option<PublishedValues<'static>>,
    /// True if the samples are the means of the runs.
    of_runs: bool,
}

/// Part of the manifest that a figure quotes as its origin.
#[derive(Clone, Debug, Default, Deserialize)]
struct Manifest {
    #[serde(default)]
    name: String,
    source: Option<String>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    scenario: Value,
}

/// Why nothing was drawn.
#[derive(Debug, Error)]
pub enum PlotError {
    /// A folder.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// Something that was asked for.
    #[error("{0}")]
    Asked(String),
}

/// A row of a folder.
#[derive(Clone, Copy)]
struct Entry<'a> {
    folder: &'a Folder,
    row: &'a SummaryRow,
}

/// The column that says which folder a row is of.
const FOLDER_KEY: &str = "folder";

impl Folder {
    /// Reads a folder. One without a manifest is drawn too; its figure says less.
    pub fn read(path: &Path) -> Result<Self, PlotError> {
        let summary = SummaryFile::read(path)?;
        let manifest = std::fs::read(path.join("manifest.json")).ok();
        let manifest: Manifest =
            manifest.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let published = PublishedValues::of(&manifest.name, &manifest.scenario);
        let name = path.canonicalize().ok().and_then(|whole| Some(whole.file_name()?.display().to_string()));
        let name = name.unwrap_or_else(|| path.display().to_string());
        Ok(Folder { name, summary, manifest, published, of_runs: false })
    }

    /// Reads the folder with the mean of each run as one sample, also for quartiles and ranges.
    pub fn read_runs(path: &Path) -> Result<Self, PlotError> {
        let mut folder = Folder::read(path)?;
        for SummaryRow { numbers, runs, .. } in &mut folder.summary.rows {
            let Some(runs) = runs else {
                let path = path.join("runs.csv");
                return Err(PlotError::Asked(format!("--runs: there is no {}", path.display())));
            };
            *numbers = Numbers::of(std::mem::take(&mut numbers.metric), *runs);
        }
        folder.of_runs = true;
        Ok(folder)
    }

    /// Swept keys, each with its value at every row.
    pub(super) fn swept(&self) -> impl Iterator<Item = (&String, impl Iterator<Item = &String>)> {
        let SummaryFile { keys, rows } = &self.summary;
        keys.iter().enumerate().map(|(at, key)| (key, rows.iter().filter_map(move |row| row.point.get(at))))
    }

    /// The value of a key that is the same in the whole folder.
    fn fixed(&self, key: &str) -> Option<String> {
        match key.split('.').try_fold(&self.manifest.scenario, |table, part| table.get(part))? {
            Value::String(text) => Some(text.clone()),
            Value::Array(_) | Value::Object(_) | Value::Null => None,
            plain => Some(plain.to_string()),
        }
    }
}

impl<'a> Entry<'a> {
    fn value(&self, key: &str) -> Option<String> {
        if key == FOLDER_KEY {
            return Some(self.folder.name.clone());
        }
        match self.folder.summary.keys.iter().position(|swept| swept == key) {
            Some(at) => self.row.point.get(at).cloned(),
            None => self.folder.fixed(key),
        }
    }

    fn numbers(&self) -> &'a Numbers {
        &self.row.numbers
    }

    /// Number of values behind a point: runs behind a mean with its interval, samples otherwise.
    fn count(&self, intervals: Intervals) -> u64 {
        let runs = self.row.runs.as_ref().filter(|_| intervals == Intervals::Ci95);
        runs.map_or(self.numbers().n, |runs| runs.n)
    }

    /// Value of the point: the middle of its interval.
    fn centre(&self, intervals: Intervals) -> f64 {
        let runs = self.row.runs.as_ref().filter(|runs| runs.n > 0);
        match (intervals, runs) {
            (Intervals::Quartiles, _) => self.numbers().p50,
            (Intervals::Ci95, Some(runs)) => runs.mean,
            _ => self.numbers().mean,
        }
    }

    /// The values of several keys; of one that is nowhere, nothing.
    fn values(&self, keys: &[String]) -> Vec<String> {
        keys.iter().map(|key| self.value(key).unwrap_or_default()).collect()
    }
}

/// The figures of folders: one, or a panel for each value of the key of facets.
pub fn figures(folders: &[Folder], spec: &PlotSpec) -> Result<Vec<Figure>, PlotError> {
    let all: Vec<Entry<'_>> = folders
        .iter()
        .flat_map(|folder| folder.summary.rows.iter().map(move |row| Entry { folder, row }))
        .collect();
    let mut swept = distinct(folders.iter().flat_map(|folder| folder.summary.keys.iter().cloned()));
    if folders.len() > 1 {
        swept.push(FOLDER_KEY.to_owned());
    }
    let known = |option: &str, key: &String| match all.iter().any(|entry| entry.value(key).is_some()) {
        true => Ok(()),
        false => Err(PlotError::Asked(format!(
            "{option} {key}: no such column; there are {}, and every key of the scenario",
            if swept.is_empty() { FOLDER_KEY.to_owned() } else { swept.join(", ") }
        ))),
    };
    spec.x.iter().try_for_each(|key| known("--x", key))?;
    spec.facets.iter().try_for_each(|key| known("--facets", key))?;
    spec.series.iter().flatten().try_for_each(|key| known("--series", key))?;
    spec.only.iter().try_for_each(|(key, _)| known("--where", key))?;

    let of_metric: Vec<Entry<'_>> =
        all.iter().copied().filter(|entry| entry.numbers().metric == spec.y).collect();
    if of_metric.is_empty() {
        let metrics = distinct(all.iter().map(|entry| entry.numbers().metric.clone()));
        let metrics = metrics.join(", ");
        return Err(PlotError::Asked(match spec.y.as_str() {
            "" => format!("give --y METRIC; there are {metrics}"),
            unknown => format!("--y {unknown}: no such metric; there are {metrics}"),
        }));
    }
    let mut chosen = of_metric;
    for (key, wanted) in &spec.only {
        let values = distinct(chosen.iter().filter_map(|entry| entry.value(key)));
        chosen.retain(|entry| entry.value(key).is_some_and(|value| same(&value, wanted)));
        if chosen.is_empty() {
            let what = format!("--where {key}={wanted}: no such value; there are {}", values.join(", "));
            return Err(PlotError::Asked(what));
        }
    }
    let empty = chosen.iter().filter(|entry| entry.numbers().n == 0).count();
    let points = chosen.len();
    chosen.retain(|entry| entry.numbers().n > 0);
    if chosen.is_empty() {
        let what = format!("--y {}: has no samples in what is to be drawn", spec.y);
        return Err(PlotError::Asked(what));
    }
    let drawing = Drawing::new(spec, swept, &chosen)?;
    let mut notes = conditions(folders, &chosen);
    notes.extend(drawing.caption(spec, &chosen));
    if !spec.only.is_empty() {
        let only: Vec<String> =
            spec.only.iter().map(|(key, value)| format!("{} {value}", label(key))).collect();
        notes.push(format!("Only {}", only.join(", ")));
    }
    if empty > 0 {
        notes.push(format!("{empty} of {points} points have no samples and are not drawn"));
    }
    if spec.y.contains("delivery_latency") {
        notes.extend(undelivered(&all, &chosen));
    }
    let panels = match &spec.facets {
        None => vec![None],
        Some(key) => distinct(chosen.iter().map(|entry| entry.value(key))),
    };
    let panels = panels.iter().map(|panel| {
        let in_panel = |entry: &&Entry<'_>| spec.facets.as_ref().is_none_or(|key| entry.value(key) == *panel);
        let entries: Vec<Entry<'_>> = chosen.iter().filter(in_panel).copied().collect();
        let mut figure = drawing.figure(spec, &entries);
        if let (Some(key), Some(value)) = (&spec.facets, panel) {
            figure.title = format!("{} ({} {value})", figure.title, label(key));
            figure.id = format!("{}-{}", figure.id, value.replace(|c: char| !c.is_alphanumeric(), "-"));
        }
        figure.notes = notes.clone();
        figure
    });
    let mut panels: Vec<Figure> = panels.collect();
    share_axes(&mut panels);
    Ok(panels)
}

/// Layout of the points.
struct Drawing {
    x: String,
    /// The names along the horizontal axis, where it has names.
    categories: Vec<String>,
    unit: Option<String>,
    series: Vec<String>,
    names: Vec<Vec<String>>,
}

impl Drawing {
    fn new(spec: &PlotSpec, swept: Vec<String>, chosen: &[Entry<'_>]) -> Result<Self, PlotError> {
        let count = |key: &String| distinct(chosen.iter().map(|entry| entry.value(key))).len();
        let taken = |key: &String| {
            spec.facets.as_ref() == Some(key) || spec.series.iter().flatten().any(|s| s == key)
        };
        let mut varying: Vec<String> =
            swept.iter().filter(|key| count(key) > 1 && !taken(key)).cloned().collect();
        let x = spec.x.clone().unwrap_or_else(|| {
            let most = varying.iter().max_by_key(|key| (numeric(chosen, key).is_some(), count(key)));
            most.cloned().unwrap_or_else(|| FOLDER_KEY.to_owned())
        });
        varying.retain(|key| *key != x);
        let places = |series: &[String]| {
            let place = |entry: &Entry<'_>| {
                let facet = spec.facets.as_ref().and_then(|key| entry.value(key));
                (entry.value(&x), facet, entry.values(series))
            };
            let mut places: Vec<_> = chosen.iter().map(place).collect();
            places.sort();
            places
        };
        let is_unique = |series: &[String]| places(series).windows(2).all(|pair| pair[0] != pair[1]);
        let series = match &spec.series {
            Some(series) => series.clone(),
            None => {
                // A key that changes together with others tells nothing apart.
                let mut series = varying.clone();
                for key in &varying {
                    let without: Vec<String> = series.iter().filter(|kept| *kept != key).cloned().collect();
                    if is_unique(&without) {
                        series = without;
                    }
                }
                series
            }
        };
        if !is_unique(&series) {
            let left: Vec<String> = varying
                .iter()
                .filter(|key| !series.contains(key))
                .map(|key| {
                    let values = distinct(chosen.iter().filter_map(|entry| entry.value(key)));
                    format!("{key} ({})", values.join(", "))
                })
                .collect();
            return Err(PlotError::Asked(format!(
                "several points would stand at one place: these have several values: {}; choose one with --where KEY=VALUE, or name the key in --series or --facets",
                left.join("; ")
            )));
        }
        let (categories, unit) = match numeric(chosen, &x) {
            Some(unit) => (Vec::new(), (!unit.is_empty()).then_some(unit)),
            None => (distinct(chosen.iter().filter_map(|entry| entry.value(&x))), None),
        };
        let names = distinct(chosen.iter().map(|entry| entry.values(&series)));
        Ok(Drawing { x, categories, unit, series, names })
    }

    fn figure(&self, spec: &PlotSpec, entries: &[Entry<'_>]) -> Figure {
        let (mut bars, mut marks, mut published) = (Vec::new(), Vec::new(), Vec::new());
        for (at, name) in self.names.iter().enumerate() {
            let mut points: Vec<(f64, Entry<'_>)> = entries
                .iter()
                .filter(|entry| entry.values(&self.series) == *name)
                .filter_map(|&entry| Some((self.place(&entry, at)?, entry)))
                .collect();
            points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            let (colour, marker) = (at as u8 % 6, MARKERS[at % MARKERS.len()]);
            let unnamed = |marks| Series { name: String::new(), colour, marks };
            let intervals: Vec<_> = points
                .iter()
                .filter_map(|&(x, entry)| {
                    spec.intervals.of(entry.numbers()).map(|(low, high)| (x, low, high))
                })
                .collect();
            if !intervals.is_empty() {
                bars.push(unnamed(Marks::Whiskers { points: intervals }));
            }
            let printed: Vec<(f64, f64)> =
                points.iter().filter_map(|&(x, entry)| Some((x, spec.published(&entry)?))).collect();
            let drawn: Vec<(f64, f64)> =
                points.iter().map(|&(x, entry)| (x, entry.centre(spec.intervals))).collect();
            if drawn.is_empty() {
                continue;
            }
            let line = self.categories.is_empty() && is_ordered(&self.x) && drawn.len() > 1;
            marks.push(Series {
                name: self.name(name),
                colour,
                marks: match line {
                    true => {
                        let dash = DASHES[at % DASHES.len()];
                        Marks::Line { points: drawn, dash, marker: Some(marker) }
                    }
                    false => Marks::Points { points: drawn, marker },
                },
            });
            if !printed.is_empty() {
                if let Some(series) = marks.last_mut().filter(|series| series.name.is_empty()) {
                    series.name = "simulated".to_owned();
                }
                let name = if published.is_empty() { "published (outlines)" } else { "" };
                let marks = Marks::Points { points: printed, marker: marker.outline() };
                published.push(Series { name: name.to_owned(), colour, marks });
            }
        }
        let y = y_axis(&spec.y, spec.log.1);
        let x = Axis {
            log: spec.log.0 && self.categories.is_empty(),
            categories: self.categories.clone(),
            ..Axis::new(&capitalised(&label(&self.x)), self.unit.as_deref())
        };
        Figure {
            id: format!("{}-over-{}", spec.y, self.x.replace('.', "-")),
            title: spec.title.clone().unwrap_or_else(|| match self.series.is_empty() {
                true => y.label.clone(),
                false => format!(
                    "{} by {}",
                    y.label,
                    self.series.iter().map(|key| label(key)).collect::<Vec<_>>().join(", ")
                ),
            }),
            notes: Vec::new(),
            x,
            y,
            series: bars.into_iter().chain(marks).chain(published).collect(),
        }
    }

    /// Position of a point along the horizontal axis. Series with the same name are drawn side by side.
    fn place(&self, entry: &Entry<'_>, series: usize) -> Option<f64> {
        let value = entry.value(&self.x)?;
        if self.categories.is_empty() {
            return quantity(&value).map(|(number, _)| number);
        }
        let at = self.categories.iter().position(|name| *name == value)? as f64;
        Some(at + 0.7 * ((series as f64 + 0.5) / self.names.len() as f64 - 0.5))
    }

    /// A series in the legend: the values that tell it apart, with their key where the value alone is a number.
    fn name(&self, values: &[String]) -> String {
        let parts = self.series.iter().zip(values).map(|(key, value)| match quantity(value) {
            Some(_) => format!("{} {value}", label(key)),
            None => value.clone(),
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Caption: the drawn metric and its number of samples.
    fn caption(&self, spec: &PlotSpec, chosen: &[Entry<'_>]) -> Vec<String> {
        let samples = sample_sizes(chosen.iter().map(|entry| entry.count(spec.intervals)));
        let of_runs = chosen.iter().all(|entry| entry.folder.of_runs);
        let what = match spec.intervals {
            Intervals::Ci95 => {
                "Means; bars: 95 % confidence intervals (Student's t over the means of runs)".to_owned()
            }
            Intervals::Quartiles => "Medians; bars: first to third quartile".to_owned(),
            Intervals::Range => "Means; bars: least to greatest sample".to_owned(),
            Intervals::None => "Means".to_owned(),
        };
        let what =
            if of_runs && spec.intervals != Intervals::Ci95 { what + " of the means of runs" } else { what };
        let mut caption = vec![format!("{what}; {samples}")];
        let without: Vec<_> =
            chosen.iter().filter(|entry| spec.intervals.of(entry.numbers()).is_none()).collect();
        let unknown = without.iter().filter(|entry| entry.row.runs.is_none()).count();
        if spec.intervals == Intervals::Ci95 {
            let one_run = without.len() - unknown;
            let reasons = [(one_run, "have one run only"), (unknown, "are of a folder without runs.csv")];
            let remarks = reasons.iter().filter(|(count, _)| *count > 0);
            let points = chosen.len();
            caption.extend(
                remarks.map(|(count, reason)| format!("{count} of {points} points {reason}, so no interval")),
            );
        }
        caption
    }
}

impl Intervals {
    /// The bar, if there is one.
    fn of(self, numbers: &Numbers) -> Option<(f64, f64)> {
        let (low, high) = match self {
            Intervals::Ci95 => (numbers.ci95_low, numbers.ci95_high),
            Intervals::Quartiles => (numbers.p25, numbers.p75),
            Intervals::Range => (numbers.min, numbers.max),
            Intervals::None => return None,
        };
        (low.is_finite() && high.is_finite()).then_some((low, high))
    }
}

impl PlotSpec {
    /// Published mean at this point, if the folder repeats one of the shipped tables.
    fn published(&self, entry: &Entry<'_>) -> Option<f64> {
        if self.intervals == Intervals::Quartiles {
            return None;
        }
        entry.folder.published.as_ref()?.mean(&self.y, |key| {
            entry.value(key).and_then(|value| quantity(&value)).map(|(number, _)| number)
        })
    }
}

/// Origin of the numbers: one line per folder, up to four.
fn conditions(folders: &[Folder], chosen: &[Entry<'_>]) -> Vec<String> {
    let drawn = |folder: &&Folder| chosen.iter().any(|entry| std::ptr::eq(entry.folder, *folder));
    let mut lines: Vec<String> = folders
        .iter()
        .filter(drawn)
        .map(|folder| {
            let Manifest { name, source, seed, version, .. } = &folder.manifest;
            let mut line = if name.is_empty() { folder.name.clone() } else { name.clone() };
            line += &source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
            line += &seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
            if version.is_empty() { line } else { format!("{line}, carillon {version}") }
        })
        .collect();
    lines = distinct(lines.into_iter());
    let more = lines.len().saturating_sub(4);
    lines.truncate(4);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Note on undelivered messages: latencies only cover delivered ones, so the others are counted beside them.
fn undelivered(all: &[Entry<'_>], chosen: &[Entry<'_>]) -> Option<String> {
    let is_drawn = |entry: &&Entry<'_>| {
        let same = |drawn: &Entry<'_>| {
            std::ptr::eq(drawn.folder, entry.folder) && drawn.row.point == entry.row.point
        };
        entry.numbers().metric == "undelivered_share" && chosen.iter().any(same)
    };
    let most = all.iter().filter(is_drawn).map(|entry| entry.numbers().max).fold(0.0, f64::max);
    (most > 0.0).then(|| {
        format!(
            "What was never delivered has no latency: up to {:.3} % of the deliveries of a run",
            most * 100.0
        )
    })
}

/// Unit of a key if all its values are plain numbers or quantities of one unit.
fn numeric(entries: &[Entry<'_>], key: &str) -> Option<String> {
    let values = distinct(entries.iter().map(|entry| entry.value(key)));
    let units: Option<Vec<String>> = values.iter().map(|value| Some(quantity(value.as_ref()?)?.1)).collect();
    match &distinct(units?.into_iter())[..] {
        [unit] => Some(unit.clone()),
        _ => None,
    }
}

/// A number and its unit.
fn quantity(text: &str) -> Option<(f64, String)> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && !unit.contains(char::is_whitespace)).then(|| (number, unit.to_owned()))
}

/// Returns true if two texts denote the same value: `0.10` equals `0.1`.
fn same(one: &str, other: &str) -> bool {
    one == other || quantity(one).zip(quantity(other)).is_some_and(|(one, other)| one == other)
}

/// `group.receivers` as it stands at an axis.
fn label(key: &str) -> String {
    let name = match key.split_once('.') {
        Some(("protocol", "name")) => "protocol",
        Some(("loss", "p")) => "loss",
        Some((_, name)) => name,
        None => key,
    };
    name.replace('_', " ")
}

fn y_axis(metric: &str, log: bool) -> Axis {
    let (name, unit) = [("_s", "s"), ("_bps", "bit/s")]
        .into_iter()
        .find_map(|(ending, unit)| Some((metric.strip_suffix(ending)?, Some(unit))))
        .unwrap_or((metric, None));
    Axis { log, ..Axis::new(&capitalised(&name.replace('_', " ")), unit) }
}

/// Panels are compared by eye: all have the same axes.
fn share_axes(panels: &mut [Figure]) {
    if panels.len() < 2 {
        return;
    }
    let corners: Vec<(f64, f64)> = panels
        .iter()
        .flat_map(|figure| figure.series.iter().flat_map(|series| series.marks.extent()))
        .collect();
    let range = |values: &dyn Fn(&(f64, f64)) -> f64| {
        let ends = corners.iter().map(values);
        Some((ends.clone().fold(f64::INFINITY, f64::min), ends.fold(f64::NEG_INFINITY, f64::max)))
    };
    let (x, y) = (range(&|corner| corner.0), range(&|corner| corner.1));
    for figure in panels {
        (figure.x.range, figure.y.range) = (x, y);
    }
}
