//! Parameters of the protocol. The source gives no defaults; these suit a 10 Mbit/s Ethernet.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Parameter};

use crate::blocks::{Addressed, WireNumbers};

/// Parameters in the order of the protocol's page.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::choice("mode", &["conference", "lecture"], "conference")
        .doc("conference: all members may send; lecture: the first member only, the others send sanity messages"),
    Parameter::count("b", (1, 65_536), "256")
        .doc("back window B, messages: the last b messages sent are kept for retransmission, older ones cannot be repaired"),
    Parameter::count("n", (2, 1 << 31), "2147483648")
        .doc("sequence numbers run from 1 to n, n > b; safe from 2 b on (the default is the largest)"),
    Parameter::count("k", (0, 1_000_000), "4")
        .doc("status messages K after the last message, before the interval grows from t1 to t2"),
    Parameter::span("t1", "10 ms").doc("interval T1 of status messages"),
    Parameter::span("t2", "200 ms").doc("interval T2 of sanity messages, at least t1"),
    Parameter::span("t3", "20 ms").doc("pause T3 that a choke asks for, at most 71 minutes"),
    Parameter::choice("repeat", &["requested", "go-back"], "requested")
        .doc("what answers a NAK: the requested message (the source), or all from it on"),
    Parameter::choice("retransmission", &["unicast", "multicast"], "unicast")
        .doc("destination of a retransmission: the requester (the thesis's recommendation), or all"),
    Parameter::span("repair_guard", "20000 bit")
        .doc("a message repeated to someone is not repeated to them again within this time, however many NAKs come (Carillon's)"),
    Parameter::span("nak_timer", "0 bit")
        .doc("a receiver that still misses messages asks again after this time; zero is never: it waits for the next data or status (the source)"),
    Parameter::switch("nak_all", "false")
        .doc("true: a receiver asks for each message that it misses, once when it finds it missing and again after nak_timer; false: for the first one alone, as often as that is shown to be missing (the source; Carillon's)"),
    Parameter::count("buffer", (1, 65_536), "256")
        .doc("receive buffer for each source, messages; what does not fit is dropped"),
    Parameter::probability("choke_at", "0.75")
        .doc("share of a receive buffer that is full when the node sends a choke"),
    Parameter::span("send_interval", "15000 bit")
        .doc("least time between data packets of a node, repairs too; zero hands all to the interface at once (Carillon's)"),
    Parameter::count("failure_intervals", (1, 1_000_000), "4")
        .doc("a member that was silent for this many t2 has failed; the source says 1"),
    Parameter::span("failure_margin", "10 ms")
        .doc("added to that time for delays on the way; none in the source"),
    Parameter::count("finish_intervals", (1, 1_000_000), "2")
        .doc("a sender with nothing more to send takes its messages for delivered when this many t2 bring no NAK (Carillon's)"),
];

/// Settings for files over a real network.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("b", "4096"),
    ("k", "5"),
    ("t1", "5 ms"),
    ("t2", "100 ms"),
    ("t3", "5 ms"),
    ("repeat", "requested"),
    ("retransmission", "multicast"),
    ("repair_guard", "20 ms"),
    ("nak_timer", "25 ms"),
    ("nak_all", "true"),
    ("buffer", "1024"),
    ("send_interval", "20 us"),
    ("failure_intervals", "1"),
    ("finish_intervals", "10"),
];

/// Settings that the host derives: a member is expelled exactly when the session expels it.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[("failure_margin", HostValue::MemberTimeout)];

/// Settings of a member, read from the configuration.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// True if only the first member may send.
    pub lecture: bool,
    /// Back window B: messages kept for retransmission.
    pub b: u64,
    /// Sequence numbers on the wire, from 1 to n.
    pub numbers: WireNumbers,
    /// K: status messages before the interval grows from T1 to T2.
    pub k: u64,
    pub t1: Duration,
    pub t2: Duration,
    pub t3: Duration,
    /// True if a NAK is answered with all messages from the requested one on.
    pub go_back: bool,
    pub scope: Addressed,
    /// Time within which a repair to the same addressee is not repeated.
    pub repair_guard: Duration,
    /// Time after which a receiver repeats its NAK; `None` for never.
    pub nak_timer: Option<Duration>,
    /// True if a receiver requests every missing message, false if only the first.
    pub nak_all: bool,
    /// Receive buffer for each source, in messages.
    pub buffer: u64,
    /// Number of buffered messages of one source that triggers a choke.
    pub choke_at: u64,
    /// Minimum time between data packets of a node.
    pub send_interval: Duration,
    /// Silence after which a member has failed.
    pub silence: Duration,
    /// Time without a NAK after which a sender completes its messages.
    pub quiet: Duration,
}

impl Settings {
    /// Reads the settings, and refuses combinations that the protocol does not allow.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name| config.span(name).at(context.bit_rate);
        let intervals = |name| u32::try_from(config.count(name)).unwrap_or(u32::MAX);
        let (b, n, buffer) = (config.count("b"), config.count("n"), config.count("buffer"));
        let buffer = context.max_messages_per_member(buffer);
        let (t1, t2, t3, nak_timer) = (span("t1"), span("t2"), span("t3"), span("nak_timer"));
        if n <= b {
            return Err(ConfigError::Conflict(format!(
                "n = {n}: there must be more sequence numbers than messages in the back window, b = {b}"
            )));
        }
        if t1.is_zero() || t2 < t1 {
            return Err(ConfigError::Conflict(
                "t1 must be more than zero, and t2 not less than t1".to_owned(),
            ));
        }
        if t3 > MAX_PAUSE {
            return Err(ConfigError::Conflict(format!("t3 is longer than {MAX_PAUSE:?}")));
        }
        let choke_at = (config.probability("choke_at").value() * buffer as f64).ceil() as u64;
        Ok(Settings {
            lecture: config.choice("mode") == "lecture",
            b,
            numbers: WireNumbers::new(n),
            k: config.count("k"),
            t1,
            t2,
            t3,
            go_back: config.choice("repeat") == "go-back",
            scope: Addressed::new(config),
            repair_guard: span("repair_guard"),
            nak_all: config.switch("nak_all"),
            nak_timer: (!nak_timer.is_zero()).then_some(nak_timer),
            buffer,
            choke_at: choke_at.max(1),
            send_interval: span("send_interval"),
            silence: t2.saturating_mul(intervals("failure_intervals")).saturating_add(span("failure_margin")),
            quiet: t2.saturating_mul(intervals("finish_intervals")),
        })
    }
}

/// Maximum pause T3: the field of a CHOKE has 32 bits for microseconds.
const MAX_PAUSE: Duration = Duration::from_micros(u32::MAX as u64);
