//! Description of a figure: its axes, its series and their marks.

use serde::{Deserialize, Serialize};

/// A figure with one pair of axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: of files, and in lists.
    pub id: String,
    /// Title.
    pub title: String,
    /// Lines below the title: the conditions.
    pub notes: Vec<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Series in drawing order, the first at the bottom.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// Its unit; none for a count or a ratio.
    pub unit: Option<String>,
    /// True for a logarithmic axis.
    pub log: bool,
    /// Category names at 0, 1, 2 and so on, for values that are names; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// The least range that the axis covers, so that several figures can be compared by eye.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: &str, unit: Option<&str>) -> Self {
        Axis {
            label: label.to_owned(),
            unit: unit.map(str::to_owned),
            log: false,
            categories: Vec::new(),
            range: None,
        }
    }

    /// The quantity and its unit, as they stand beside the axis.
    pub fn caption(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.label),
            None => self.label.clone(),
        }
    }
}

/// Series: an entry of the legend and its marks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its text in the legend; without one it is not in the legend.
    pub name: String,
    /// Series of one colour belong together; colours are counted from 0. Colour never is the only
    /// difference.
    pub colour: u8,
    /// Marks of the series.
    #[serde(flatten)]
    pub marks: Marks,
}

impl Series {
    /// These marks under a name.
    pub fn new(name: impl Into<String>, colour: usize, marks: Marks) -> Self {
        Series { name: name.into(), colour: colour as u8, marks }
    }
}

impl Marks {
    /// A line without marks on it.
    pub fn line(points: impl IntoIterator<Item = (f64, f64)>, dash: Dash) -> Self {
        Marks::Line { points: points.into_iter().collect(), dash, marker: None }
    }
}

/// Marks of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Marks {
    /// A line through points (x, y).
    Line {
        /// The points.
        points: Vec<(f64, f64)>,
        /// Dash pattern of the line.
        dash: Dash,
        /// The mark at each point.
        marker: Option<Marker>,
    },
    /// Points (x, y).
    Points {
        /// The points.
        points: Vec<(f64, f64)>,
        /// The mark at each.
        marker: Marker,
    },
    /// An area between two lines: (x, low, high).
    Band {
        /// Its edges.
        points: Vec<(f64, f64, f64)>,
    },
    /// A thin bar at each x: (x, low, high).
    Whiskers {
        /// The bars.
        points: Vec<(f64, f64, f64)>,
    },
    /// A bar from low to high, and a line through the means.
    HiLoMean {
        /// The bars.
        points: Vec<HiLoMean>,
    },
    /// A bar over the whole range and a box over its middle half.
    Boxes {
        /// The boxes.
        points: Vec<Percentiles>,
    },
}

/// A range and its mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HiLoMean {
    /// Horizontal position.
    pub x: f64,
    /// The least value.
    pub low: f64,
    /// The mean.
    pub mean: f64,
    /// The greatest value.
    pub high: f64,
}

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Horizontal position.
    pub x: f64,
    /// The least value.
    pub min: f64,
    /// The first quartile.
    pub p25: f64,
    /// The median.
    pub p50: f64,
    /// The third quartile.
    pub p75: f64,
    /// The greatest value.
    pub max: f64,
}

/// Dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dash {
    /// Solid line.
    Solid,
    /// Dashes.
    Dashed,
    /// Dots.
    Dotted,
    /// Dashes and dots in turn.
    DashDot,
}

/// A mark at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marker {
    /// A ring.
    Circle,
    /// A filled disc.
    Disc,
    /// A filled square.
    Square,
    /// A filled triangle.
    Triangle,
    /// A filled diamond.
    Diamond,
    /// The outline of a square, around a filled one.
    OpenSquare,
    /// The outline of a triangle, around a filled one.
    OpenTriangle,
    /// The outline of a diamond, around a filled one.
    OpenDiamond,
}

impl Marker {
    /// The outline that goes around a filled mark: the same thing from another source.
    pub fn outline(self) -> Marker {
        match self {
            Marker::Circle | Marker::Disc => Marker::Circle,
            Marker::Square | Marker::OpenSquare => Marker::OpenSquare,
            Marker::Triangle | Marker::OpenTriangle => Marker::OpenTriangle,
            Marker::Diamond | Marker::OpenDiamond => Marker::OpenDiamond,
        }
    }
}

impl Marks {
    /// The least and greatest x and y that are drawn: `((x, x), (y, y))`.
    pub(super) fn extent(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let corners: Vec<(f64, f64)> = match self {
            Marks::Line { points, .. } | Marks::Points { points, .. } => points.clone(),
            Marks::Band { points } | Marks::Whiskers { points } => {
                points.iter().flat_map(|&(x, a, b)| [(x, a), (x, b)]).collect()
            }
            Marks::HiLoMean { points } => {
                points.iter().flat_map(|point| [(point.x, point.low), (point.x, point.high)]).collect()
            }
            Marks::Boxes { points } => {
                points.iter().flat_map(|point| [(point.x, point.min), (point.x, point.max)]).collect()
            }
        };
        corners.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite())
    }
}

/// Dash patterns that distinguish the curves of a figure when it is printed without colours.
pub(crate) const DASHES: [Dash; 4] = [Dash::Solid, Dash::Dashed, Dash::DashDot, Dash::Dotted];
pub(crate) const MARKERS: [Marker; 4] = [Marker::Disc, Marker::Square, Marker::Triangle, Marker::Diamond];
