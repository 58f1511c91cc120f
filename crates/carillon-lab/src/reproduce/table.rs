//! Tables of a source: scenario, shown quantities, and published numbers.

use serde::Deserialize;

use super::kept::{List, Settings, Source, Text};
use super::published::Published;
use super::quantities::{Key, Quantity};

/// A table of a source.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// The scenario file.
    pub plan: Source,
    /// Settings under which the unicast equivalent is run too, to measure what relative
    /// throughput is relative to.
    pub unicast_settings: Option<Settings>,
    /// The published numbers.
    #[serde(default)]
    pub published: Published,
    /// Which columns of the published table say which point a row is of.
    pub keys: List<Key>,
    /// Quantities shown at each point.
    pub quantities: List<Quantity>,
    /// Independent samples behind a published mean.
    pub published_samples: PublishedSamples,
    /// Relative difference that is accepted even if it is more than three standard errors.
    pub tolerance: f64,
    /// The rows that are known to deviate, if there are any.
    pub expected: Option<ExpectedDeviation>,
    /// Testbed results, shown in a column of their own.
    pub testbed: Option<TestbedSpec>,
    /// Deviations from the source, with reasons.
    #[serde(default)]
    pub deviations: Text,
}

/// Testbed run of a table's scenario, with the stored results.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedSpec {
    /// Settings of the scenario on the testbed.
    #[serde(default)]
    pub settings: Settings,
    /// Stored results: the `summary.csv` of a result folder, or the needed part of it.
    pub measured: Source,
    /// Place and conditions of the measurement.
    pub conditions: Text,
}

/// Rows of a table that are known to deviate from the published ones.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDeviation {
    /// Column that selects the deviating rows, if it is above a limit.
    pub column: Option<Text>,
    /// Limit of that column.
    #[serde(default)]
    pub above: f64,
    /// Deviating rows: the numbers of the keys, separated by spaces; rows are separated by commas.
    pub rows: Option<Text>,
    /// Why.
    pub reason: Text,
}

impl ExpectedDeviation {
    /// Returns true if the row with these keys is declared.
    pub fn covers(&self, keys: &[Key], numbers: &[f64]) -> bool {
        let mut columns = keys.iter().zip(numbers);
        let is_above = columns.any(|(key, number)| Some(key.column) == self.column && *number > self.above);
        let row = || numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        is_above || self.rows.is_some_and(|rows| rows.0.split(',').any(|declared| declared.trim() == row()))
    }
}

/// Number of independent samples behind a published mean.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedSamples {
    /// A sample per packet.
    Packets(u32),
    /// A sample per window of packets, which are delivered together.
    Windows {
        /// Packets.
        packets: u32,
        /// The key that says how many make a window.
        key: Text,
    },
}
