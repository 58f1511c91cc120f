//! Parameters of RRA.

use carillon_core::{HostValue, Parameter};

use crate::blocks::retransmission::parameters::{ACK_BYTES, ACK_WAIT, PAST_LIMIT, TIMEOUT_MAX, TIMEOUT_MIN};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("window", (1, 65_536), "256")
        .doc("messages that may be outstanding; with fewer than there are receivers, polls without a message fill the turns"),
    Parameter::count("burst", (1, 65_536), "1")
        .doc("messages sent for each acknowledgment: only the last of a burst names a receiver that answers; with flow_control = \"path\" at most so many, fewer where little may be under way"),
    Parameter::count("questions", (1, 65_536), "1")
        .doc("receivers that may be asked and have not answered yet: 1 waits for each acknowledgment, so that none contends with anything (the thesis); with more, sending goes on meanwhile (Carillon's)"),
    Parameter::choice("flow_control", &["window", "path"], "window")
        .doc("window: as much may be under way as the window holds; path: as much as the slowest path was seen to carry, and a few milliseconds more (Carillon's)"),
    Parameter::count("flight", (1, 65_536), "65536")
        .doc("with flow_control = \"path\", packets that may be under way beyond what the paths themselves hold"),
    ACK_WAIT,
    Parameter::choice("timeout_method", &["formula", "constant", "adaptive"], "formula")
        .doc("formula: d burst + a + i + timeout; constant: timeout; adaptive: RFC 6298, starting at timeout"),
    Parameter::span("timeout", "1000 bit")
        .doc("the increment, constant, or initial value that timeout_method says; nothing contends with the one acknowledgment, so it can be short"),
    TIMEOUT_MIN,
    TIMEOUT_MAX,
    Parameter::count("retransmission_limit", (0, 1_000_000), "10")
        .doc("a receiver is asked again while the count has not exceeded this"),
    PAST_LIMIT,
    ACK_BYTES,
];

/// Settings for files over a real network: concurrent polls and adaptive timeouts.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("burst", "32"),
    ("questions", "4096"),
    ("flow_control", "path"),
    ("timeout_method", "adaptive"),
    ("timeout", "50 ms"),
    ("timeout_min", "2 ms"),
    ("timeout_max", "250 ms"),
    ("past_limit", "wait"),
    ("ack_bytes", "0"),
];

/// Values from the host. Messages are kept until every receiver has them, and no more are in flight than fit the
/// receivers' buffers.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[
    ("window", HostValue::Outstanding(8 << 20)),
    ("flight", HostValue::AdaptiveWindow { min: 4, max: 65_536 }),
];
