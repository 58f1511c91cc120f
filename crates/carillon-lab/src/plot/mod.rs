//! Figures: a description, and its drawing as SVG, PNG and PDF.
//!
//! A [`Figure`] is plain data. Another program can draw the same figure from its JSON; the format is in
//! `docs/reference/experiments.md`. Equal figures give equal bytes.

mod axis;
mod drawing;
mod figure;
mod folders;
mod overview;
mod pdf;
mod png;
mod svg;

pub use drawing::DrawingError;
pub use figure::{Axis, Dash, Figure, HiLoMean, Marker, Marks, Percentiles, Series};
pub(crate) use figure::{DASHES, MARKERS};
pub use folders::{Folder, Intervals, PlotError, PlotSpec, figures};
pub use pdf::{panels_pdf, pdf};
pub use png::{panels_png, png};
pub use svg::{escape, panels_svg, svg};

/// Describes the number of samples behind the points of a figure, for its caption.
pub(crate) fn sample_sizes(counts: impl Iterator<Item = u64> + Clone) -> String {
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    if least == most {
        format!("n = {least} at each point")
    } else {
        format!("n = {least} to {most} at a point")
    }
}

/// Returns true if the numbers of a key have an order that a line may follow; seeds have none.
pub(crate) fn is_ordered(key: &str) -> bool {
    !key.ends_with("seed")
}

/// Returns the distinct values in the order of their first appearance.
pub(crate) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
