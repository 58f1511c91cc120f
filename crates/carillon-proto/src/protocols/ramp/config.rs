//! Parameters of RAMP. The sources give no numbers; these suit networks with delays of some tens of milliseconds.

use std::time::Duration;

use carillon_core::{BitRate, BuildContext, Config, ConfigError, HostValue, Parameter};
use carillon_wire::ramp::Service;

use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout, MeasuredTimeout, PastLimit, REPAIR_BUDGET};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::choice("mode", &["burst", "idle", "adaptive"], "burst")
        .doc("burst: an acknowledgment per burst and receiver; idle: Idles of sender and receivers; adaptive: the one with fewer control packets at the measured interval between bursts (Carillon's)"),
    Parameter::span("burst_gap", "10 ms").doc("a pause between two messages that is longer than this ends the burst"),
    Parameter::count("burst_packets", (1, 65_536), "32")
        .doc("messages of a burst, at most half a window: the next one begins a new burst without a pause (Carillon's)"),
    Parameter::switch("idle_ack", "false")
        .doc("true: the Idle at the end of a burst asks for acknowledgments too, so that the last burst is confirmed in silence (Carillon's)"),
    Parameter::span("idle_interval", "100 ms").doc("in idle mode, interval of the sender's Idles"),
    Parameter::span("receiver_idle_interval", "100 ms").doc("in idle mode, interval of each receiver's Idles"),
    Parameter::count("idle_tolerance", (1, 1000), "3")
        .doc("idle intervals without a packet of the sender after which a receiver sends Respond"),
    Parameter::span("response_timeout", "50 ms")
        .doc("time without an answer after which a flagged packet, Connect or Respond is sent again; with measured timeouts the first value"),
    Parameter::choice("timeouts", &["measured", "fixed"], "measured")
        .doc("measured: response_timeout and resend_timeout are first values, and follow the measured times of answers (RFC 6298; Carillon's); fixed: they stay"),
    Parameter::span("timeout_min", "10 ms").doc("lower bound of measured timeouts"),
    Parameter::count("response_limit", (1, 1_000_000), "10")
        .doc("number of unanswered packets, or of missing Idles, after which past_limit applies; a receiver stops asking a silent sender after as many"),
    Parameter::choice("past_limit", &["wait", "expel", "skip"], "expel")
        .doc("action past the limit: expel: close the channel (the source); skip: skip the receiver's missing messages; wait: repeat (both Carillon's)"),
    Parameter::span("resend_timeout", "50 ms").doc("time after which a receiver requests missing messages again; with measured timeouts the first value"),
    Parameter::span("hold", "10 ms").doc("first value of the retransmission hold timer; 0 with hold_max 0: repairs at once, as in 1996"),
    Parameter::span("hold_max", "50 ms").doc("maximum of the hold timer; its minimum is 0"),
    Parameter::span("hold_step", "2 ms")
        .doc("the hold timer grows by this when more was requested than in the last period, and shrinks by it when less was"),
    Parameter::count("mcast_thresh", (0, 1_000_000), "2")
        .doc("number of requesters above which a message is multicast instead of sent to each of them; a large number: unicast only, as in 1996"),
    Parameter::span("repair_guard", "10 ms")
        .doc("time within which a repair to the same destination is not repeated (Carillon's)"),
    Parameter::rate("rate", "0").doc("maximum and first rate; 0: unlimited, without rate control"),
    Parameter::rate("rate_min", "1 Mbit/s").doc("minimum rate"),
    Parameter::count("rate_scale", (1, 1_000_000), "63")
        .doc("n requested messages in a hold period reduce the rate by the factor scale / (scale + n)"),
    Parameter::count("rate_clean", (1, 1_000_000), "16")
        .doc("messages without a request after which the rate grows, by half the smallest decrease"),
    Parameter::count("window", (1, 65_536), "64").doc("maximum number of unconfirmed messages (Carillon's)"),
    Parameter::count("buffer", (1, 1 << 20), "256")
        .doc("messages that the sender keeps for repairs, at least two windows; a request for an older one gets a NAK"),
    Parameter::count("receiver_reliable", (0, 1_000_000), "0")
        .doc("number of members, from the last, that are receiver-reliable: they request, and the sender does not wait for them"),
    Parameter::count("unreliable", (0, 1_000_000), "0")
        .doc("number of members, before these, that are unreliable: they request nothing"),
    FAILURE_TIMEOUT,
    REPAIR_BUDGET,
];

/// Settings for files over a real network.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("idle_ack", "true"),
    ("burst_packets", "64"),
    ("response_timeout", "30 ms"),
    ("resend_timeout", "20 ms"),
    ("hold", "2 ms"),
    ("hold_max", "10 ms"),
    ("hold_step", "1 ms"),
    ("repair_guard", "5 ms"),
    ("past_limit", "wait"),
    ("rate", "400 Mbit/s"),
    ("rate_min", "20 Mbit/s"),
    ("rate_scale", "1000"),
    ("repair_budget", "9"),
];

/// Values from the host: no more messages in flight than fit the receivers' buffers.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] =
    &[("window", HostValue::Window { min: 4, max: 8192 }), ("failure_timeout", HostValue::MemberTimeout)];

/// Mode of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Burst,
    Idle,
    Adaptive,
}

/// Parameters in the units that the machines use.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub mode: Mode,
    pub burst_gap: Duration,
    pub burst_packets: u64,
    pub idle_ack: bool,
    pub idle_interval: Duration,
    pub receiver_idle_interval: Duration,
    pub idle_tolerance: u32,
    pub response_timeout: Duration,
    /// True if timeouts follow the measured times of answers.
    pub is_measured: bool,
    /// Lower bound of measured timeouts.
    pub timeout_min: Duration,
    pub response_limit: u32,
    pub patience: FailureTimeout,
    pub past_limit: PastLimit,
    pub resend_timeout: Duration,
    pub hold: Duration,
    pub hold_max: Duration,
    pub hold_step: Duration,
    pub mcast_thresh: usize,
    pub repair_guard: Duration,
    pub rate: Option<BitRate>,
    pub rate_min: Option<BitRate>,
    pub rate_scale: u64,
    pub rate_clean: u64,
    pub window: u64,
    pub buffer: u64,
    pub receiver_reliable: usize,
    pub unreliable: usize,
    pub repair_budget: u64,
}

impl Settings {
    /// Reads and checks the parameters. Fails if an interval is zero.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name: &str| config.span(name).at(build.bit_rate);
        let positive = |name: &str| {
            Some(span(name))
                .filter(|span| !span.is_zero())
                .ok_or_else(|| ConfigError::Conflict(format!("{name} must be more than zero")))
        };
        let (window, response_limit) = (config.count("window"), config.count("response_limit") as u32);
        Ok(Settings {
            mode: match config.choice("mode") {
                "idle" => Mode::Idle,
                "adaptive" => Mode::Adaptive,
                _ => Mode::Burst,
            },
            burst_gap: positive("burst_gap")?,
            burst_packets: config.count("burst_packets").min(window / 2).max(1),
            idle_ack: config.switch("idle_ack"),
            idle_interval: positive("idle_interval")?,
            receiver_idle_interval: positive("receiver_idle_interval")?,
            idle_tolerance: config.count("idle_tolerance") as u32,
            response_timeout: positive("response_timeout")?,
            is_measured: config.choice("timeouts") == "measured",
            timeout_min: positive("timeout_min")?,
            response_limit,
            patience: FailureTimeout::new(response_limit, span("failure_timeout")),
            past_limit: match config.choice("past_limit") {
                "wait" => PastLimit::Wait,
                "skip" => PastLimit::Skip,
                _ => PastLimit::Expel,
            },
            resend_timeout: positive("resend_timeout")?,
            hold: span("hold").min(span("hold_max")),
            hold_max: span("hold_max"),
            hold_step: span("hold_step"),
            mcast_thresh: config.count("mcast_thresh") as usize,
            repair_guard: span("repair_guard"),
            rate: config.rate("rate"),
            rate_min: config.rate("rate_min"),
            rate_scale: config.count("rate_scale"),
            rate_clean: config.count("rate_clean"),
            window,
            buffer: config.count("buffer").max(2 * window),
            receiver_reliable: config.count("receiver_reliable") as usize,
            unreliable: config.count("unreliable") as usize,
            repair_budget: config.count("repair_budget"),
        })
    }

    /// Timeout of packets that are answered at once.
    pub fn response<K: Copy + PartialEq>(&self) -> MeasuredTimeout<K> {
        MeasuredTimeout::new(self.response_timeout, self.timeout_min, self.is_measured)
    }

    /// Timeout of requests for missing messages.
    pub fn resend<K: Copy + PartialEq>(&self) -> MeasuredTimeout<K> {
        MeasuredTimeout::new(self.resend_timeout, self.timeout_min, self.is_measured)
    }

    /// Service of the member with this index in a group of this size.
    pub fn service(&self, index: usize, members: usize) -> Service {
        // Receivers choose in the source. Here the settings of a session choose for them, and CONNECT says it.
        match members - index {
            from_last if from_last <= self.receiver_reliable => Service::ReceiverReliable,
            from_last if from_last <= self.receiver_reliable.saturating_add(self.unreliable) => {
                Service::Unreliable
            }
            _ => Service::SenderReliable,
        }
    }
}
