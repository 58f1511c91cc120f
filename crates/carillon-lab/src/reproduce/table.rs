//! Tables of a source: what is run, what is shown of it, and beside what.

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
    /// What is shown of each point.
    pub quantities: List<Quantity>,
    /// Independent samples behind a published mean.
    pub published_samples: PublishedSamples,
    /// Relative difference that is accepted even if it is more than three standard errors.
    pub tolerance: f64,
    /// The rows that are known to deviate, if there are any.
    pub expected: Option<ExpectedDeviation>,
    /// The same on a testbed, in a column of its own.
    pub testbed: Option<TestbedSpec>,
    /// What deviates from the source, and why.
    #[serde(default)]
    pub deviations: Text,
}

/// A table's scenario on a testbed: what was measured before, unless it is measured anew.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedSpec {
    /// What is set there in the scenario.
    #[serde(default)]
    pub settings: Settings,
    /// What was measured: the `summary.csv` of a result folder, or what is wanted of it.
    pub measured: Source,
    /// Where and how.
    pub conditions: Text,
}

/// Rows of a table that are known to deviate from the published ones.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDeviation {
    /// Those whose value of this column ...
    pub column: Text,
    /// ... is above this.
    pub above: f64,
    /// Why.
    pub reason: Text,
}

/// How many independent samples a published mean was taken over.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedSamples {
    /// One for each packet.
    Packets(u32),
    /// One for each window of packets, which share their fate.
    Windows {
        /// Packets.
        packets: u32,
        /// The key that says how many make a window.
        key: Text,
    },
}
