//! The sections and keys of a scenario file. Each is documented in `docs/scenario.md`.

use std::time::Duration;

use carillon_core::{BitRate, Probability, Span};
use carillon_sim::{LanConfig, TimerRule};
use serde::Deserialize;
use toml::Table;

use super::ScenarioError;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub name: String,
    pub source: Option<String>,
    pub network: Network,
    pub loss: Option<Loss>,
    pub group: Group,
    pub protocol: Table,
    pub workload: Workload,
    /// Checked on its own: its keys are those of the other sections.
    #[serde(rename = "sweep")]
    pub _sweep: Option<Table>,
    #[serde(default)]
    pub run: Run,
}

/// `[network]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    #[serde(rename = "kind")]
    pub _kind: NetworkKind,
    #[serde(default = "ten_megabit")]
    pub bit_rate: BitRate,
    #[serde(default = "no_time")]
    pub interframe_gap: Span,
    #[serde(default = "no_time")]
    pub propagation_delay: Span,
    #[serde(default)]
    pub timers: Timers,
    #[serde(default)]
    pub backoff: Backoff,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NetworkKind {
    Lan,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Timers {
    #[default]
    Exact,
    AfterBusActivity,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Backoff {
    #[default]
    Exclusive,
    Inclusive,
}

/// `[loss]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Loss {
    #[serde(rename = "model")]
    pub _model: LossModel,
    pub p: Probability,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LossModel {
    Bernoulli,
}

/// `[group]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub receivers: u32,
    #[serde(default = "one")]
    pub senders: u32,
}

/// `[workload]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub messages: u64,
    pub message_bytes: u32,
    pub rate: Option<PacketRate>,
}

/// `"10 packet/s"`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PacketRate(f64);

impl TryFrom<String> for PacketRate {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let number = text.strip_suffix("packet/s").and_then(|number| number.trim().parse().ok());
        match number {
            Some(rate) if (1e-6..=1e9).contains(&rate) => Ok(PacketRate(rate)),
            _ => Err(format!("\"{text}\" is not a rate of packets, such as \"10 packet/s\"")),
        }
    }
}

impl PacketRate {
    pub fn interval(self) -> Duration {
        Duration::from_secs_f64(1.0 / self.0)
    }
}

/// `[run]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    #[serde(default = "one")]
    pub replications: u32,
    #[serde(default = "first_seed")]
    pub seed: u64,
    #[serde(default = "ten_days")]
    pub time_limit: Span,
    #[serde(default = "ten_seconds")]
    pub linger: Span,
}

impl Default for Run {
    fn default() -> Self {
        Run { replications: one(), seed: first_seed(), time_limit: ten_days(), linger: ten_seconds() }
    }
}

impl Network {
    pub fn config(&self, loss: Probability) -> LanConfig {
        let bit_rate = self.bit_rate;
        LanConfig {
            bit_rate,
            interframe_gap_bits: self.interframe_gap.bits_at(bit_rate),
            propagation_delay: self.propagation_delay.at(bit_rate),
            timers: match self.timers {
                Timers::Exact => TimerRule::Exact,
                Timers::AfterBusActivity => TimerRule::AfterBusActivity,
            },
            backoff_inclusive: self.backoff == Backoff::Inclusive,
            loss,
            ..LanConfig::default()
        }
    }
}

/// The typed document of a table that has no text.
pub(super) fn typed(origin: &str, table: &Table) -> Result<Document, ScenarioError> {
    Document::deserialize(table.clone()).map_err(|error| ScenarioError::toml(origin, "", &error))
}

fn ten_megabit() -> BitRate {
    BitRate::mbps(10)
}

fn no_time() -> Span {
    Span::ZERO
}

fn one() -> u32 {
    1
}

fn first_seed() -> u64 {
    1
}

fn ten_seconds() -> Span {
    Span::Time(Duration::from_secs(10))
}

fn ten_days() -> Span {
    Span::Time(Duration::from_secs(10 * 24 * 3600))
}
