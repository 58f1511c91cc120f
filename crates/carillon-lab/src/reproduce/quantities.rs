//! The quantities that are shown, and the keys they are shown over.

use serde::Deserialize;

use super::kept::Text;
use crate::plot::{Axis, DASHES, MARKERS, Marks, capitalised, is_ordered};

/// A column of the published table that is also a key of the scenario.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The column.
    pub column: Text,
    /// Heading.
    pub label: Text,
    /// The swept key.
    pub scenario: Text,
    /// The column's value is the key's times this.
    #[serde(default = "one")]
    pub scale: f64,
    /// Its axis is logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// A quantity that a table has the mean, least and greatest value of, and perhaps a bound.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Its columns in a published table are `mean_`, `min_` and `max_` before this.
    pub column: Text,
    /// Heading, with the unit.
    pub label: Text,
    /// The metric.
    pub metric: Text,
    /// The published value is the metric's times this.
    #[serde(default = "one")]
    pub scale: f64,
    /// Digits after the point.
    pub digits: usize,
    /// The published table's column of the theoretical bound, if the table has it.
    pub bound: Option<Text>,
    /// Its axis is logarithmic.
    #[serde(default)]
    pub log: bool,
}

impl Quantity {
    /// The axis of it, with the unit that its label ends with.
    pub(super) fn axis(&self) -> Axis {
        match self.label.split_once(", ") {
            Some((label, unit)) => Axis::new(&capitalised(label), Some(unit)),
            None => Axis::new(&capitalised(self.label.0), None),
        }
    }
}

/// Points of a curve over a key: joined by a line where its numbers have an order.
pub(super) fn joined(over: &Key, look: usize, points: Vec<(f64, f64)>) -> Marks {
    let (dash, marker) = (DASHES[look % DASHES.len()], MARKERS[look % MARKERS.len()]);
    match is_ordered(over.scenario.0) {
        true => Marks::Line { points, dash, marker: Some(marker) },
        false => Marks::Points { points, marker },
    }
}

/// Default factor: no scaling.
fn one() -> f64 {
    1.0
}
