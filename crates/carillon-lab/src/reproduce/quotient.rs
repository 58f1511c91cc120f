//! How one way compares with another, each with the plan that suits it best.

use super::Quantity;
use super::means::{Mean, distinct};

/// How much better one way does than another.
///
/// Of each way the greatest mean among the plans is taken: each with the settings that suit it best.
#[derive(Clone, Copy, Debug)]
pub struct Quotient {
    /// The way that is divided.
    pub of: &'static str,
    /// The way it is divided by.
    pub by: &'static str,
    /// The quotient.
    pub quantity: Quantity,
    /// How many of the first keys have a figure of it for each of their values.
    pub figures_by: usize,
}

impl Quotient {
    /// The quotient of each row, as a mean of its own.
    pub(super) fn means(&self, means: &[Mean]) -> Vec<Mean> {
        let rows = distinct(means.iter().map(|mean| &mean.row[..]));
        let quotients = rows.into_iter().map(|row| {
            let best = |way: &str| {
                let of_way = means.iter().filter(|mean| mean.row == row && mean.way.as_deref() == Some(way));
                of_way.map(|mean| mean.number.value).fold(f64::NAN, f64::max)
            };
            Mean {
                row: row.to_vec(),
                way: None,
                alternative: format!("{} / {}", self.of, self.by),
                number: (best(self.of) / best(self.by)).into(),
            }
        });
        quotients.collect()
    }
}
