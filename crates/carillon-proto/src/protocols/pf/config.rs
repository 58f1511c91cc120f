//! Parameters of polling feedback, and the rules that a parent derives from them.

use std::time::Duration;

use carillon_core::{BitRate, BuildContext, Config, ConfigError, HostValue, Parameter};

use crate::blocks::retransmission::parameters::PAST_LIMIT;
use crate::blocks::{PastLimit, REPAIR_BUDGET};

/// S, the window. PRMP, the protocol over many levels, uses the same parameters.
pub(crate) const WINDOW: Parameter = Parameter::count("window", (1, 65_536), "64")
    .doc("S: messages that the buffers of a parent and of each child hold; as many as there are messages is the infinite window (IW)");
/// IPG, the inter-packet gap.
pub(crate) const IPG: Parameter = Parameter::span("ipg", "1 ms")
    .doc("IPG: the least time from one transmission of a parent to the next, whatever it is");
/// ε, the length of an epoch.
pub(crate) const EPOCH: Parameter = Parameter::span("epoch", "10 ms")
    .doc("ε: responses are planned by epochs of this length, rounded up to a multiple of ipg");
/// RR, the response rate.
pub(crate) const RESPONSE_RATE: Parameter = Parameter::count("response_rate", (1, 1_000_000_000), "1500")
    .doc("RR: responses that may come to a parent in a second; each epoch has a quota RQ of floor(RR ε), one at least");
/// MTR, the multicast threshold ratio.
pub(crate) const MTR: Parameter = Parameter::probability("mtr", "0.2").doc(
    "MTR: a packet that at least this share of the children need goes to all; others go to each \
    child that needs them",
);
/// Initial estimate of a round-trip time.
pub(crate) const RTT: Parameter =
    Parameter::span("rtt", "20 ms").doc("the estimate of a round trip before a child has answered (the source leaves the set-up of connections open)");
/// Maximum round-trip time that an estimate accepts.
pub(crate) const RTT_MAX: Parameter =
    Parameter::span("rtt_max", "2 s").doc("RTT_MAX: no round trip is taken to be longer");
/// Minimum retransmission timeout (RTO).
pub(crate) const RTO_MIN: Parameter = Parameter::span("rto_min", "0 ms")
    .doc("responses are waited for twice the greatest estimate of a round trip among the children asked (RTO), and this long at least (Carillon's: machines may stop for a while)");
/// Number of consecutive unanswered polls after which a child has failed.
pub(crate) const ABSENT_POLLS: Parameter = Parameter::count("absent_polls", (1, 1_000_000), "10")
    .doc("number of consecutive unanswered polls after which a child counts as failed (\"a user configurable protocol variable\")");
/// Consequence of a failed child.
pub(crate) const CHILD_PAST_LIMIT: Parameter = Parameter {
    default: "expel",
    doc: "a child that has not answered that often: expel it from the set of children (the paper), skip what it has not acknowledged, or wait: ask on until it has left (both Carillon's; delivery waits)",
    ..PAST_LIMIT
};
/// Burst that the token bucket allows.
pub(crate) const BURST: Parameter = Parameter::span("burst", "0 ms")
    .doc("what a parent could have sent in so much time may go at once, so that a timer that is late costs nothing (Carillon's; 0: the paper's gap)");

/// Congestion control.
pub(crate) const CONGESTION: Parameter = Parameter::choice("congestion", &["none", "window"], "none")
    .doc("none: the gap sets the rate (the paper); window: the number of outstanding messages adapts to losses as in TCP (Jacobson 1988, which the paper's conclusion names)");

/// Parameters in the order of the protocol's page.
pub(crate) const PARAMETERS: &[Parameter] = &[
    WINDOW,
    IPG,
    EPOCH,
    RESPONSE_RATE,
    MTR,
    RTT,
    RTT_MAX,
    RTO_MIN,
    ABSENT_POLLS,
    CHILD_PAST_LIMIT,
    BURST,
    REPAIR_BUDGET,
    CONGESTION,
];

/// Settings for files over a real network.
pub(crate) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("ipg", "40 us"),
    ("response_rate", "20000"),
    ("rto_min", "20 ms"),
    ("past_limit", "wait"),
    ("burst", "4 ms"),
    ("repair_budget", "9"),
];

/// Settings that the host derives: no more data is in flight than fits the receivers' buffers, because no receiver
/// reports how much reaches it.
pub(crate) const HOST_SETTINGS: &[(&str, HostValue)] =
    &[("window", HostValue::Window { min: 16, max: 8192 })];

/// Rules of a parent, read from the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// S: messages that the buffers of a parent and of a child hold.
    pub window: u64,
    /// IPG: minimum time between two transmissions of a parent.
    pub gap: Duration,
    /// ε: length of an epoch, a multiple of the gap.
    pub epoch: Duration,
    /// RQ: number of responses planned for an epoch.
    pub quota: u32,
    /// MTR: share of the children that must miss a packet before it is multicast.
    pub multicast_ratio: f64,
    /// Round-trip estimate of a child before its first response.
    pub round_trip: Duration,
    /// Maximum round-trip sample.
    pub round_trip_max: Duration,
    /// Minimum time to wait for a response.
    pub timeout_min: Duration,
    /// Consecutive unanswered polls after which a child has failed.
    pub absent_polls: u32,
    pub past_limit: PastLimit,
    /// Token bucket of the gap: its rate, the bytes of a packet at this rate, and the burst.
    pub rate: Option<BitRate>,
    pub packet: u64,
    pub burst: Duration,
    pub repair_budget: u64,
    pub congestion: CongestionRule,
    /// True if a message completes only when all children have consumed it. Inner nodes consume a message when all
    /// nodes below them have it.
    pub consumed: bool,
    /// Maximum silence of a child that has children of its own.
    pub helper_timeout: Duration,
    /// True if children may have messages that this parent has not, because another node sends too.
    pub ahead: bool,
}

impl Rules {
    /// Reads the rules; refuses a zero interval and an epoch without room for a response.
    pub fn new(context: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let span = |name: &str| settings.span(name).at(context.bit_rate);
        let (gap, epoch) = (span("ipg"), span("epoch"));
        let epoch = match gap.as_nanos() {
            0 => epoch,
            gap => nanos(epoch.as_nanos().div_ceil(gap).max(1) * gap),
        };
        if epoch.is_zero() || span("rtt").is_zero() {
            let what = "`epoch` or `rtt` is zero: give a span above zero";
            return Err(ConfigError::Conflict(what.into()));
        }
        let expected = epoch.as_nanos() * u128::from(settings.count("response_rate")) / 1_000_000_000;
        let quota = u32::try_from(expected).unwrap_or(u32::MAX);
        if quota == 0 {
            let what =
                "an epoch has room for no response: give a longer `epoch` or a greater `response_rate`";
            return Err(ConfigError::Conflict(what.into()));
        }
        Ok(Rules {
            window: settings.count("window"),
            gap,
            epoch,
            quota,
            multicast_ratio: settings.probability("mtr").value(),
            round_trip: span("rtt").min(span("rtt_max")),
            round_trip_max: span("rtt_max"),
            timeout_min: span("rto_min").max(MIN_TIMEOUT),
            absent_polls: settings.count("absent_polls") as u32,
            past_limit: match settings.choice("past_limit") {
                "expel" => PastLimit::Expel,
                "wait" => PastLimit::Wait,
                _ => PastLimit::Skip,
            },
            // The bucket runs at 1 bit per nanosecond, so the gap in nanoseconds divided by eight is a size in bytes.
            rate: (!gap.is_zero()).then_some(BitRate::mbps(1000)),
            packet: (gap.as_nanos() / 8) as u64,
            burst: span("burst"),
            repair_budget: settings.count("repair_budget"),
            congestion: match settings.choice("congestion") {
                "window" => CongestionRule::Window,
                _ => CongestionRule::None,
            },
            consumed: false,
            helper_timeout: Duration::MAX,
            ahead: false,
        })
    }
}

/// Congestion control of a parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CongestionRule {
    /// No congestion control (the paper).
    #[default]
    None,
    /// The windows limit the messages of this parent.
    Window,
    /// The windows are reported to the node that sends the messages.
    Reported,
}

/// Lower limit of the response timeout. It exceeds zero, so that time passes even at a round-trip time of zero.
pub(crate) const MIN_TIMEOUT: Duration = Duration::from_micros(10);

/// Duration in nanoseconds, capped at the largest 64-bit value.
fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
