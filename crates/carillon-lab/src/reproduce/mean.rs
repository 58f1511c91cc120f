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
    /// Number of samples behind the mean; 0 for a value derived from several means.
    pub n: u64,
    /// Value expected by an analysis.
    pub expected: Option<f64>,
}
