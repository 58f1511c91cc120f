//! The mean of a quantity at a point.

use crate::sheet::Number;

/// The mean of a quantity at a point.
#[derive(Clone)]
pub(super) struct Mean {
    /// The values of the keys.
    pub row: Vec<f64>,
    /// The value of the key of alternatives, if the plan has it.
    pub way: Option<String>,
    /// The plan and the way.
    pub alternative: String,
    /// The mean.
    pub number: Number,
    /// Samples behind it; none of what is made of several.
    pub n: u64,
    /// What an analysis expects of it.
    pub expected: Option<f64>,
}
