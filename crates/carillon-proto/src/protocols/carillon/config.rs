//! Parameters of the protocol, and the values that hosts set for files and live messages.

use carillon_core::{Config, HostValue, OneWay, Order, Parameter};

use crate::blocks::congestion::CONTROLLER_NAMES;
use crate::blocks::retransmission::parameters::{PAST_LIMIT, TIMEOUT_MAX, TIMEOUT_MIN};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("window", (1, 1 << 20), "32768").doc("messages that are kept until all have them, at most"),
    Parameter::count("block", (1, 16_384), "16384")
        .doc("messages of a block and the symbols that may be coded of it, together, at most; a block is never longer than half of the window, or of what a receiver has room for"),
    Parameter::probability("redundancy", "0")
        .doc("coded symbols that go out with each block before anybody has asked, as a part of its messages"),
    Parameter::choice("proactive", &["fixed", "loss"], "fixed")
        .doc("`loss`: nine tenths of what the blocks before needed go out with each block, if that is more than `redundancy`"),
    Parameter::choice("feedback", &["polls", "none"], "polls")
        .doc("`none`: no receiver sends anything; a block goes out with its redundancy, and what is lost beyond that is lost. It needs a `rate`"),
    Parameter::choice("order", &["source", "arrival"], "source")
        .doc("of delivery: `source` as the messages were sent; `arrival` each as soon as it arrives, so that no message waits for the repair of another"),
    Parameter::span("block_time", "1 s").doc("a block is closed this long after its first message"),
    Parameter::span("quiet", "2 ms")
        .doc("a block is closed after this time without a transmission, or with nothing to send \
        after this time since its first message; receivers that have not confirmed everything are \
        then polled"),
    Parameter::count("burst", (1, 65_536), "32")
        .doc("maximum number of packets between two polls; fewer while few packets may be in flight"),
    Parameter::count("flight", (1, 65_536), "65536")
        .doc("packets that may be in flight beyond the capacity of the paths"),
    Parameter::rate("rate", "0").doc("of data and repairs, at most; 0: what the paths carry"),
    Parameter::choice("congestion", &CONTROLLER_NAMES, CONTROLLER_NAMES[0])
        .formerly("control")
        .doc("controller that finds the rate; the page \"Which congestion control?\" compares them"),
    Parameter::span("timeout", "50 ms").doc("for an answer, until round trips are known; then by RFC 6298"),
    TIMEOUT_MIN,
    TIMEOUT_MAX,
    Parameter::span("patience", "5 s").doc("a receiver that does not answer for this long is \
    expelled, unless past_limit is wait"),
    PAST_LIMIT,
];

/// Settings for file delivery over a real network.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] =
    &[("timeout_min", "2 ms"), ("timeout_max", "250 ms"), ("past_limit", "wait")];

/// Settings for live messages: no message waits longer than 500 µs for its repair to begin.
pub(super) const LIVE_SETTINGS: &[(&str, &str)] = &[("quiet", "500 us")];

/// Settings that a host derives from its memory: the sender keeps messages until all members have them, and has no more in
/// flight than the buffers of the receivers take.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[
    ("window", HostValue::Outstanding(64 << 20)),
    ("flight", HostValue::AdaptiveWindow { min: 4, max: 65_536 }),
];

/// Setting with which receivers send no feedback.
// With a redundancy of 25 %, a block of 1000 messages may lose more than a sixth of its packets.
pub(super) const ONE_WAY: OneWay =
    OneWay { key: "feedback", value: "none", rate: "rate", redundancy: ("redundancy", "25 %") };

/// Setting with which receivers deliver messages in the order of their arrival.
pub(super) const UNORDERED: (&str, &str) = ("order", "arrival");

/// Returns true if receivers send no feedback.
pub(super) fn is_one_way(settings: &Config) -> bool {
    settings.choice(ONE_WAY.key) == ONE_WAY.value
}

/// Order in which receivers deliver.
pub(super) fn order(settings: &Config) -> Order {
    let (key, arrival) = UNORDERED;
    if settings.choice(key) == arrival { Order::Arrival } else { Order::Source }
}
