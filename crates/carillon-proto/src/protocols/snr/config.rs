//! Parameters and settings of the family.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Parameter, joined};
use carillon_wire::map::MAX_WORDS;
use carillon_wire::status::{Family, STATUS_LEN};

use super::rule::{Repairs, Rule};
use crate::blocks::{PastLimit, REPAIR_BUDGET};

/// Parameters of SNR, which all protocols of the family have.
pub const PARAMETERS: &[Parameter] = &[
    WINDOW,
    BUFFER,
    INTERVAL_METHOD,
    STATUS_INTERVAL,
    KOU,
    MAX_K,
    R_F,
    ROUND_TRIP,
    RATE,
    PATIENCE,
    PAST_LIMIT,
    REPAIR_BUDGET,
];

/// Parameters of protocols with local multicast.
pub const LOCAL_PARAMETERS: &[Parameter] =
    &joined::<_, { PARAMETERS.len() + 2 }>(&[PARAMETERS, &[RETRANSMISSION_BUFFER, SCOPE]]);

/// Parameters of DSP, with the addressees of the source.
pub const REPRESENTATIVE_PARAMETERS: &[Parameter] =
    &joined::<_, { LOCAL_PARAMETERS.len() + 1 }>(&[LOCAL_PARAMETERS, &[SOURCE_TO]]);

/// Parameters of CSP, with the addressees of repairs.
pub const ADDRESSED_PARAMETERS: &[Parameter] =
    &joined::<_, { PARAMETERS.len() + 1 }>(&[PARAMETERS, &[REPAIR_TO]]);

const REPAIR_TO: Parameter = Parameter::choice("repair_to", &["all", "lacking"], "all")
    .doc("destinations of a repair: all, or one by one the nodes whose status asks for it, where an \
    exchange passes it on to the receivers of its region that ask for it (the source, section 4: where there are point-to-point connections)");
const SOURCE_TO: Parameter = Parameter::choice("source_to", &["all", "representatives"], "all").doc(
    "destinations of data of the source: all, or only the nodes that send it their status, each \
    of which multicasts the data in its region",
);
const WINDOW: Parameter =
    Parameter::count("window", (1, 64 * MAX_WORDS as u64), "1024").doc("L: blocks that may be outstanding");
const BUFFER: Parameter = Parameter::count("buffer", (0, 65_534), "0")
    .doc("blocks that a receiver's reassembly buffer holds; 0: as many as the window (the source negotiates it with the window)");
const INTERVAL_METHOD: Parameter = Parameter::choice("interval_method", &["constant", "formula"], "constant")
    .doc("T_IN. constant: status_interval, as in the source's simulation; formula: max(RTD / kou, time of a packet), which the source's packets say, once an RTD is known (its table 1)");
const STATUS_INTERVAL: Parameter = Parameter::span("status_interval", "5 ms")
    .doc("T_IN, or what it is to begin with (once every 4 to 6 ms in the source's simulation: each interval is drawn from 0.8 to 1.2 times k T_IN)");
const KOU: Parameter = Parameter::count("kou", (2, 32), "8")
    .doc("statuses in a round trip, by the formula (between 2 and 32 in the source)");
const MAX_K: Parameter = Parameter::count("most_k", (1, 32), "32")
    .doc("k, the time to the next status in units of T_IN, doubles up to this while nothing changes, and is 1 again when something does (SNR)");
const R_F: Parameter = Parameter::count("r_f", (100, 10_000), "120")
    .doc("retransmission timeout factor in percent: a block is taken to be lost if a status that is r_f RTD younger does not have it (1.2 in the source's simulation)");
const ROUND_TRIP: Parameter = Parameter::span("round_trip", "100 ms")
    .doc("RTD as long as none was measured (the source assumes an estimate)");
const RATE: Parameter = Parameter::rate("rate", "0")
    .doc("rate at which a node sends data; 0: as fast as its interface takes it (Carillon's)");
const PATIENCE: Parameter = Parameter::span("patience", "10 s")
    .doc("a receiver without progress for this long while blocks are outstanding, or a helper that stays silent for this long, has failed (Carillon's: the source knows no failures)");
const PAST_LIMIT: Parameter = Parameter::choice("past_limit", &["skip", "expel", "wait"], "expel").doc(
    "effect of the failure of a receiver at the source. skip: abandon the data that it is \
    missing; expel: end its membership; wait: do nothing until the host reports that it is gone. A \
    helper expels (Carillon's)",
);
const RETRANSMISSION_BUFFER: Parameter = Parameter::count("retransmission_buffer", (0, 65_534), "0")
    .doc("blocks that a local source keeps until its region has them; 0: as many as twice the window");
const SCOPE: Parameter = Parameter::count("scope", (1, 255), "2")
    .doc("hops that the first local multicast of a block travels; each further one of the same block travels twice as far (Carillon's: the source leaves it to the network)");

/// Settings for files over a real network.
pub const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("window", "8192"),
    ("status_interval", "5 ms"),
    ("interval_method", "formula"),
    ("round_trip", "20 ms"),
    ("rate", "400 Mbit/s"),
    ("past_limit", "wait"),
    ("repair_budget", "9"),
];

/// Settings that the host derives from the session.
pub const HOST_SETTINGS: &[(&str, HostValue)] = &[
    ("window", HostValue::Window { min: 16, max: 64 * MAX_WORDS as u64 }),
    ("patience", HostValue::MemberTimeout),
];

/// Settings of the machines, read from the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// L: maximum number of outstanding blocks.
    pub window: u64,
    /// Capacity of the reassembly buffer in blocks.
    pub buffer: u64,
    /// Capacity of the retransmission buffer in blocks.
    pub kept: u64,
    /// Initial T_IN.
    pub interval: Duration,
    /// Statuses in a round trip if T_IN follows RTD; `None` for a constant T_IN.
    pub kou: Option<u32>,
    /// Transmission time of a full packet.
    pub packet_time: Duration,
    /// Maximum of k, the factor of T_IN while idle.
    pub max_k: u32,
    /// Retransmission timeout factor in percent.
    pub r_f: u32,
    /// Initial RTD.
    pub round_trip: Duration,
    /// Rate limit of data; `None` for no limit.
    pub rate: Option<carillon_core::BitRate>,
    /// Silence timeout of a child.
    pub patience: Duration,
    /// Consequence of the silence timeout at the source.
    pub past_limit: PastLimit,
    /// Maximum number of repairs that one receiver may cause in a window.
    pub repair_budget: u64,
    /// Scope in hops of the first local multicast of a block.
    pub scope: u8,
    /// True if the source sends to its children alone, which multicast in their regions.
    pub is_relayed: bool,
    /// True if repairs go only to the nodes that are missing them, through the exchanges.
    pub is_addressed: bool,
    /// Maximum number of repairs that an exchange forwards at a time.
    pub passing: u64,
    /// Maximum number of map words in a datagram.
    pub max_words: usize,
}

impl Settings {
    /// Reads the settings; refuses a zero interval or round-trip time.
    pub fn new(context: &BuildContext, config: &Config, rule: &Rule) -> Result<Self, ConfigError> {
        let is_local = rule.is_local();
        let span = |name| config.span(name).at(context.bit_rate);
        let (interval, round_trip) = (span("status_interval"), span("round_trip"));
        if interval < MIN_DURATION || round_trip.is_zero() {
            let what = format!(
                "status_interval must be {MIN_DURATION:?} at least, and round_trip more than nothing"
            );
            return Err(ConfigError::Conflict(what));
        }
        // A block beyond the map would count as missing, so the map limits the window.
        let words = (context.max_payload as usize).saturating_sub(STATUS_LEN) / 8;
        let max_words = words.clamp(1, MAX_WORDS);
        let window = config.count("window").min(64 * max_words as u64);
        let or = |count: u64, default: u64| if count == 0 { default } else { count };
        let kept = if is_local { or(config.count("retransmission_buffer"), 2 * window) } else { 0 };
        let wanted = or(config.count("buffer"), window);
        // The two buffers share the memory in proportion to their sizes.
        let most = context.max_messages(wanted + kept);
        let buffer = wanted.min((most.saturating_mul(wanted) / (wanted + kept)).max(1));
        Ok(Settings {
            window,
            buffer,
            kept: most.saturating_sub(buffer).max(1).min(kept),
            interval,
            kou: (config.choice("interval_method") == "formula").then(|| config.count("kou") as u32),
            packet_time: context.bit_rate.time_for_bytes(u64::from(context.max_payload)),
            max_k: config.count("most_k") as u32,
            r_f: config.count("r_f") as u32,
            round_trip,
            rate: config.rate("rate"),
            patience: span("patience").max(MIN_DURATION),
            past_limit: match config.choice("past_limit") {
                "expel" => PastLimit::Expel,
                "wait" => PastLimit::Wait,
                _ => PastLimit::Skip,
            },
            repair_budget: config.count("repair_budget"),
            scope: if is_local { config.count("scope") as u8 } else { u8::MAX },
            is_relayed: rule.repairs == Repairs::Representative
                && config.choice("source_to") == "representatives",
            passing: context.max_messages(64),
            is_addressed: rule.family == Family::Csp && config.choice("repair_to") == "lacking",
            max_words,
        })
    }

    /// Time after which a status should contain a block: r_f times the round-trip time.
    pub fn expected(&self, round_trip: Duration) -> Duration {
        round_trip.saturating_mul(self.r_f) / 100
    }
}

/// Lower limit of T_IN by the formula: the interval that the delivery guarantee promises for idle receivers allows no
/// shorter one.
pub const MIN_INTERVAL: Duration = Duration::from_millis(5);
/// Upper limit of T_IN by the formula.
pub const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Lower limit of configured times, so that time passes between two statuses.
const MIN_DURATION: Duration = Duration::from_micros(100);
