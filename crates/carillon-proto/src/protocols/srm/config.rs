//! Parameters of SRM. Unless a parameter says otherwise, its default is that of `Agent/SRM` in ns-2.35.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Parameter};

use crate::blocks::{AVERAGE_GAIN, LocalRecovery, REPAIR_BUDGET};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::choice("timers", &["fixed", "log", "adaptive", "deterministic", "probabilistic"], "fixed")
        .doc("fixed: C1, C2, D1 and D2 as given; log: D1 = D2 = log10 G at each repair, for G known members (the paper's simulations; Agent/SRM/Fixed); adaptive: all four follow duplicates and delays; deterministic: C2 = D2 = 0; probabilistic: C1 = D1 = 0"),
    Parameter::count("c1_percent", (0, 100_000), "200")
        .doc("C1 in hundredths: a request waits d (C1 + C2 U(0, 1)), where d is the distance to the source; initial value if adaptive"),
    Parameter::count("c2_percent", (0, 100_000), "200").doc("C2 in hundredths"),
    Parameter::count("d1_percent", (0, 100_000), "100")
        .doc("D1 in hundredths: a repair waits d (D1 + D2 U(0, 1)), where d is the distance to the requester; unused with log and adaptive"),
    Parameter::count("d2_percent", (0, 100_000), "100").doc("D2 in hundredths"),
    Parameter::count("request_backoff_limit", (0, 16), "5")
        .doc("maximum number of times that the wait of a request is doubled (tripled, if adaptive)"),
    Parameter::count("sending_step_percent", (0, 100), "10")
        .doc("adaptive: decrease of C1 or D1 when a request or repair is sent, in hundredths (the paper's authors: 5)"),
    Parameter::span("session_ivl", "1 s")
        .doc("interval of a member's session messages, also before the first, times U(0.9, 1.1)"),
    Parameter::choice("session_scaling", &["none", "log"], "none")
        .doc("log: the interval is multiplied by 1 + ln G (SRM/session/log-scaled)"),
    Parameter::count("session_entries", (1, 4000), "4000")
        .doc("maximum number of members in one session message; larger groups are listed in turn (Carillon's)"),
    Parameter::span("initial_distance", "1 s")
        .doc("distance to a member before the first exchange of session messages with it, at most one minute"),
    Parameter::choice("distance_compute", &["ewma", "instantaneous"], "ewma")
        .doc("distance used by a request or repair: ewma: smoothed over its own timers with gain 1/4; instantaneous: the last measurement"),
    Parameter::span("clock_tick", "0 bit")
        .doc("resolution of clocks in session messages; ns-2: 1 ms; zero: a microsecond"),
    Parameter::size("request_bytes", (0, 65_507), "16 byte")
        .doc("minimum size of a request on the network, all headers included"),
    Parameter::span("request_ivl", "1 ms")
        .doc("minimum interval of a member's requests (Carillon's)"),
    Parameter::span("send_ivl", "0 bit")
        .doc("minimum interval of a member's messages and repairs (Carillon's)"),
    Parameter::count("buffer", (1, 65_536), "256")
        .doc("number of messages per source that a member keeps for repairs; the same at all members (Carillon's; the paper keeps all)"),
    Parameter::choice("flow_control", &["none", "members"], "none")
        .doc("none: a source does not wait for members (the paper); members: it sends at most `buffer` messages beyond the first that a member is missing according to session messages (Carillon's)"),
    Parameter::span("hold_down_min", "0 bit")
        .doc("minimum time before a message is repaired again, however near the requester is (Carillon's)"),
    REPAIR_BUDGET,
    Parameter::choice("local_recovery", &["off", "one-step", "two-step"], "off")
        .doc("scope of first requests: off: the group; one-step: local_scope hops, and repairs as far as that plus the way to the requester; two-step: repairs go to local_scope hops and are repeated by the requester; in the paper, not in ns-2"),
    Parameter::count("local_scope", (1, 254), "4").doc("hops of the first request, with local recovery"),
];

/// Settings for files over a real network.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("session_ivl", "100 ms"),
    // A wide range of repair timers: of the many members that hold a message, few repair before the first repair
    // suppresses them.
    ("d2_percent", "600"),
    ("initial_distance", "5 ms"),
    ("request_ivl", "100 us"),
    ("request_backoff_limit", "3"),
    ("send_ivl", "50 us"),
    ("buffer", "5698"),
    ("flow_control", "members"),
    // As many entries as fit one datagram; later session messages carry the others.
    ("session_entries", "64"),
    ("hold_down_min", "2 ms"),
    ("repair_budget", "9"),
];

/// Values from the host: unacknowledged messages fit the members' memory, beside the messages of other sources.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[("buffer", HostValue::Bytes(8 << 20))];

/// Rule that sets the timer constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Fixed,
    Log,
    Adaptive,
}

/// Parameters in the units that the member uses.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub mode: Mode,
    pub c1: f64,
    pub c2: f64,
    pub d1: f64,
    pub d2: f64,
    pub backoff_limit: u32,
    pub sending_step: f64,
    pub session_ivl: Duration,
    pub session_log: bool,
    pub session_entries: usize,
    /// Distance before the first exchange of session messages, in seconds.
    pub initial_distance: f64,
    /// Gain of the EWMA of distances (1: no smoothing).
    pub distance_gain: f64,
    /// Resolution of the clock, in microseconds, at least one.
    pub clock_tick: u64,
    /// Minimum size of a request datagram, in bytes.
    pub request_bytes: usize,
    pub request_ivl: Duration,
    pub send_ivl: Duration,
    pub buffer: u64,
    /// True with flow control: a source waits for the slowest member.
    pub flow: bool,
    pub hold_down_min: Duration,
    pub repair_budget: u64,
    /// Memory for messages of other sources, in bytes, shared equally by the sources.
    pub room: usize,
    pub local: LocalRecovery,
    pub local_scope: u8,
}

impl Settings {
    /// Reads and checks the parameters. Fails for session intervals or distances out of range.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name| config.span(name).at(context.bit_rate);
        let hundredths = |name| config.count(name) as f64 / 100.0;
        let session_ivl = span("session_ivl");
        if session_ivl < MIN_SESSION_INTERVAL {
            return Err(ConfigError::Conflict(format!(
                "session_ivl is shorter than {MIN_SESSION_INTERVAL:?}"
            )));
        }
        for name in ["initial_distance", "clock_tick"] {
            if span(name) > MAX_DISTANCE {
                return Err(ConfigError::Conflict(format!("{name} is longer than {MAX_DISTANCE:?}")));
            }
        }
        let timers = config.choice("timers");
        // Clamped at zero, since the network's overhead may exceed the whole size.
        let request_bytes = config.size("request_bytes").0.saturating_sub(context.link_overhead.into());
        Ok(Settings {
            mode: match timers {
                "log" => Mode::Log,
                "adaptive" => Mode::Adaptive,
                _ => Mode::Fixed,
            },
            c1: if timers == "probabilistic" { 0.0 } else { hundredths("c1_percent") },
            c2: if timers == "deterministic" { 0.0 } else { hundredths("c2_percent") },
            d1: if timers == "probabilistic" { 0.0 } else { hundredths("d1_percent") },
            d2: if timers == "deterministic" { 0.0 } else { hundredths("d2_percent") },
            backoff_limit: config.count("request_backoff_limit") as u32,
            sending_step: hundredths("sending_step_percent"),
            session_ivl,
            session_log: config.choice("session_scaling") == "log",
            session_entries: config.count("session_entries") as usize,
            initial_distance: span("initial_distance").as_secs_f64(),
            distance_gain: if config.choice("distance_compute") == "ewma" { AVERAGE_GAIN } else { 1.0 },
            clock_tick: (span("clock_tick").as_micros() as u64).max(1),
            request_bytes: request_bytes as usize,
            request_ivl: span("request_ivl"),
            send_ivl: span("send_ivl"),
            buffer: config.count("buffer"),
            flow: config.choice("flow_control") == "members",
            hold_down_min: span("hold_down_min"),
            repair_budget: config.count("repair_budget"),
            // The other half is for messages that wait for the application.
            room: context.memory / 2,
            local: LocalRecovery::new(config),
            local_scope: config.count("local_scope") as u8,
        })
    }
}

/// Maximum distance to a member.
pub(super) const MAX_DISTANCE: Duration = Duration::from_secs(60);
/// Minimum interval of session messages.
const MIN_SESSION_INTERVAL: Duration = Duration::from_micros(100);
