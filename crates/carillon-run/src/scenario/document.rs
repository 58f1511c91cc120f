//! The sections and keys of a scenario file. Each is documented in `docs/reference/scenario.md`.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use carillon_core::{BitRate, DataSize, Probability, Span};
use carillon_sim::graph::GraphConfig;
use carillon_sim::{LanConfig, RadioConfig, TimerRule};
use serde::Deserialize;
use toml::{Table, Value};

use super::error::ScenarioError;
use super::group::Group;
use super::loss::{LossSections, Words};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub name: String,
    pub source: Option<String>,
    pub network: Network,
    #[serde(default)]
    pub loss: LossSections,
    #[serde(default)]
    pub group: Group,
    pub protocol: Table,
    pub workload: Workload,
    pub reader: Option<Reader>,
    pub competitor: Option<Competitor>,
    /// Sweep section; checked separately, as its keys are keys of the other sections.
    #[serde(rename = "sweep")]
    pub _sweep: Option<Table>,
    #[serde(default)]
    pub run: Run,
}

/// `[network]`: the keys of all kinds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    pub kind: NetworkKind,
    pub bit_rate: Option<BitRate>,
    pub interframe_gap: Option<Span>,
    pub propagation_delay: Option<Span>,
    pub timers: Option<Timers>,
    pub backoff: Option<Backoff>,
    pub turnaround: Option<Span>,
    pub contention_slots: Option<NonZeroU32>,
    pub topology: Option<String>,
    pub link_rate: Option<BitRate>,
    pub queue: Option<u32>,
    pub port_queue: Option<NonZeroU32>,
    pub overhead: Option<Bytes>,
    pub height: Option<u32>,
    pub fanout: Option<String>,
    pub regions: Option<Vec<Region>>,
    #[serde(default)]
    pub failure: Vec<Failure>,
    pub convergence: Option<Span>,
    pub link_delay: Option<Span>,
    #[serde(default)]
    pub component: Component,
    pub routers: Option<u32>,
    pub plane: Option<Span>,
    pub edge_probability: Option<Probability>,
    pub alpha: Option<f64>,
    pub beta: Option<f64>,
    pub host_delay: Option<Span>,
    pub topology_seed: Option<u64>,
    pub placement_seed: Option<u64>,
    pub latency: Option<Span>,
    pub latency_deviation: Option<Span>,
    pub children: Option<Vec<Child>>,
    pub implosion_rate: Option<PacketRate>,
    pub implosion_buffer: Option<NonZeroU32>,
    pub host_call: Option<Span>,
    pub host_packet: Option<Span>,
    pub host_read: Option<Span>,
    pub host_receive: Option<Span>,
}

/// `[[network.failure]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    pub link: String,
    pub from: Span,
    pub to: Option<Span>,
}

/// `network.component`
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Component {
    /// Whole topology; several components are an error.
    #[default]
    All,
    /// The component with most nodes.
    Largest,
}

/// Region of `network.regions`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Region {
    pub round_trip: Span,
    pub local_round_trip: Option<Span>,
    pub rate: Option<BitRate>,
    pub p: Option<Probability>,
    pub uplink_p: Option<Probability>,
    pub endpoints: Option<u32>,
    #[serde(default)]
    pub regions: Vec<Region>,
}

/// Kind of children: its latency, link rate and loss.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Child {
    pub latency: Span,
    pub deviation: Option<Span>,
    pub p: Option<Probability>,
    pub rate: Option<BitRate>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum NetworkKind {
    Lan,
    Radio,
    Star,
    Graph,
}

impl NetworkKind {
    /// Returns true if all nodes share one medium.
    pub fn is_shared(self) -> bool {
        matches!(self, NetworkKind::Lan | NetworkKind::Radio)
    }
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

/// `[workload]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub messages: Option<u64>,
    pub total_bytes: Option<Bytes>,
    pub message_bytes: Option<Bytes>,
    pub payload_bytes: Option<Bytes>,
    pub rate: Option<PacketRate>,
    pub burst: Option<NonZeroU32>,
    pub start: Option<Span>,
}

/// `[reader]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reader {
    pub rate: Option<PacketRate>,
    pub burst: Option<NonZeroU32>,
    pub start: Option<Span>,
    pub receivers: Option<Words>,
}

/// `[competitor]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Competitor {
    pub kind: CompetitorKind,
    pub start: Option<Span>,
}

/// `competitor.kind`
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CompetitorKind {
    /// No competing traffic, for sweeps.
    None,
    Cubic,
    Session,
}

impl Workload {
    /// The size of a message, as far as it is known before the protocol is.
    pub fn size(&self) -> Bytes {
        self.message_bytes.or(self.payload_bytes).unwrap_or(Bytes(0))
    }
}

/// A size of packets: `"1 KiB"`, or a number of bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Bytes(pub u32);

impl TryFrom<Value> for Bytes {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let bytes = match &value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => text.parse::<DataSize>().ok().map(|size| size.0),
            _ => None,
        };
        let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
        bytes.map(Bytes).ok_or_else(|| format!("{value} is no size, such as \"1 KiB\", or a number of bytes"))
    }
}

/// `"10 packet/s"`, or `"10 message/s"`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct PacketRate(f64);

impl TryFrom<Value> for PacketRate {
    type Error = String;
    fn try_from(value: Value) -> Result<Self, String> {
        let text = match value {
            Value::String(text) => text,
            Value::Integer(_) | Value::Float(_) => {
                return Err(format!("{value} has no unit: write \"{value} packet/s\" for a rate of packets"));
            }
            other => return Err(format!("{other} is not a rate of packets, such as \"10 packet/s\"")),
        };
        let number = text.strip_suffix("packet/s").or_else(|| text.strip_suffix("message/s"));
        let number = number.and_then(|number| number.trim().parse().ok());
        match number {
            Some(rate) if (1e-6..=1e9).contains(&rate) => Ok(PacketRate(rate)),
            _ => Err(format!("\"{text}\" is not a rate of packets, such as \"10 packet/s\"")),
        }
    }
}

impl PacketRate {
    pub fn per_second(self) -> f64 {
        self.0
    }

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
    #[serde(default)]
    pub precision: Option<f64>,
    #[serde(default)]
    pub precision_of: Vec<String>,
    #[serde(default = "first_seed")]
    pub seed: u64,
    #[serde(default = "ten_days")]
    pub time_limit: Span,
    #[serde(default)]
    pub step_limit: Option<NonZeroU64>,
    #[serde(default)]
    pub emission_limit: Option<NonZeroU64>,
    #[serde(default)]
    pub memory_limit: Option<DataSize>,
    #[serde(default = "ten_seconds")]
    pub linger: Span,
    #[serde(default)]
    pub unfinished: Unfinished,
    #[serde(default)]
    pub measure: Vec<Measurement>,
}

/// Item of `run.measure`
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Measurement {
    /// Metrics of each receiver.
    Receivers,
    /// Packets and stored messages of each node.
    Nodes,
    /// Queue of the source.
    Queues,
}

/// `run.unfinished`
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unfinished {
    /// A run that is not done by its limit, or cannot begin, is an error.
    #[default]
    Error,
    /// The metrics of an unfinished run count as they stand.
    Keep,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            replications: one(),
            precision: None,
            precision_of: Vec::new(),
            seed: first_seed(),
            time_limit: ten_days(),
            step_limit: None,
            emission_limit: None,
            memory_limit: None,
            linger: ten_seconds(),
            unfinished: Unfinished::default(),
            measure: Vec::new(),
        }
    }
}

impl Network {
    /// The rate of an interface.
    pub fn rate(&self) -> BitRate {
        match self.kind {
            NetworkKind::Lan => self.bit_rate.unwrap_or(BitRate::mbps(10)),
            NetworkKind::Radio => self.bit_rate.unwrap_or(DEFAULT_RADIO_RATE),
            NetworkKind::Star => self.star_rate(),
            NetworkKind::Graph => self.link_rate.unwrap_or(GraphConfig::default().rate),
        }
    }

    /// The rate of the links of a star that says none: a packet takes next to no time on it, as in the paper, which has none.
    fn star_rate(&self) -> BitRate {
        self.link_rate.unwrap_or(BitRate::mbps(1000))
    }

    /// The Ethernet or radio that these keys describe.
    pub fn lan(&self) -> LanConfig {
        let bit_rate = self.rate();
        let span = |span: Option<Span>| span.unwrap_or(Span::ZERO);
        LanConfig {
            bit_rate,
            interframe_gap_bits: span(self.interframe_gap).bits_at(bit_rate),
            propagation_delay: span(self.propagation_delay).at(bit_rate),
            timers: match self.timers.unwrap_or_default() {
                Timers::Exact => TimerRule::Exact,
                Timers::AfterBusActivity => TimerRule::AfterBusActivity,
            },
            backoff_inclusive: self.backoff == Some(Backoff::Inclusive),
            port_queue: self.port_queue,
            radio: (self.kind == NetworkKind::Radio).then(|| RadioConfig {
                turnaround: self.turnaround.map_or(DEFAULT_TURNAROUND, |span| span.at(bit_rate)),
                contention_slots: self.contention_slots.map_or(DEFAULT_CONTENTION_SLOTS, |n| n.get().into()),
            }),
            ..LanConfig::default()
        }
    }
}

/// Keys of an Ethernet and a radio.
pub(super) const MEDIUM_KEYS: &[&str] = &["network.bit_rate", "network.propagation_delay"];
/// Keys that only one kind of network has.
pub(super) const LAN_KEYS: &[&str] = &["network.interframe_gap", "network.timers", "network.backoff"];
pub(super) const RADIO_KEYS: &[&str] = &["network.turnaround", "network.contention_slots"];
pub(super) const LINK_KEYS: &[&str] = &["network.link_rate", "network.queue", "network.overhead"];
pub(super) const STAR_KEYS: &[&str] = &["network.latency", "network.latency_deviation", "network.children"];
/// Keys of networks with parents that have a limited input rate.
pub(super) const INPUT_KEYS: &[&str] = &["network.implosion_rate", "network.implosion_buffer"];
pub(super) const GRAPH_KEYS: &[&str] = &[
    "network.topology",
    "network.height",
    "network.fanout",
    "network.regions",
    "network.link_delay",
    "network.component",
    "network.failure",
    "network.convergence",
    "network.routers",
    "network.plane",
    "network.edge_probability",
    "network.alpha",
    "network.beta",
    "network.host_delay",
    "network.topology_seed",
    "network.placement_seed",
];

/// The typed document of a table that has no text.
pub(super) fn typed(origin: &str, table: &Table) -> Result<Document, ScenarioError> {
    Document::deserialize(table.clone()).map_err(|error| ScenarioError::toml(origin, "", &error))
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

/// Bit rate of a radio without `network.bit_rate`: the order of a narrow-band link of ships.
const DEFAULT_RADIO_RATE: BitRate = BitRate::new(64_000).expect("above zero");
/// Turnaround of a radio without `network.turnaround`.
const DEFAULT_TURNAROUND: Duration = Duration::from_millis(5);
/// Contention slots of a radio without `network.contention_slots`.
const DEFAULT_CONTENTION_SLOTS: u64 = 16;
