//! Parameters of RRA.

use carillon_core::{HostValue, Parameter};

use crate::blocks::congestion::CONTROLLER_NAMES;
use crate::blocks::retransmission::parameters::{ACK_BYTES, ACK_WAIT, PAST_LIMIT, TIMEOUT_MAX, TIMEOUT_MIN};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::count("window", (1, 65_536), "256")
        .doc("maximum number of outstanding messages; with fewer than receivers, POLLs fill the turns"),
    Parameter::count("burst", (1, 65_536), "1")
        .doc("data packets per acknowledgment: the last of a burst polls a receiver; with flow_control = \"path\" a maximum, reduced for small windows"),
    Parameter::count("questions", (1, 65_536), "1")
        .doc("maximum number of outstanding polls: 1 waits for each acknowledgment, so that none contends for the medium (the thesis); with more, sending continues meanwhile (Carillon's)"),
    Parameter::choice("flow_control", &["window", "path"], "window")
        .doc("limit of data in flight: window: the window alone; path: what the controller of `congestion` permits (Carillon's)"),
    Parameter::choice("congestion", &CONTROLLER_NAMES, CONTROLLER_NAMES[0])
        .doc("with flow_control = \"path\", controller that finds the rate; the page \"Which congestion control?\" compares them"),
    Parameter::rate("rate", "0").doc("with flow_control = \"path\", of data, at most; 0: what the paths carry"),
    Parameter::count("flight", (1, 65_536), "65536")
        .doc("with flow_control = \"path\", packets in flight beyond what the paths hold"),
    ACK_WAIT,
    Parameter::choice("timeout_method", &["formula", "constant", "adaptive"], "formula")
        .doc("formula: d burst + a + i + timeout; constant: timeout; adaptive: RFC 6298, starting at timeout"),
    Parameter::span("timeout", "1000 bit")
        .doc("increment, constant, or initial value of the timeout, according to timeout_method; it can be short, since nothing contends with the single acknowledgment"),
    TIMEOUT_MIN,
    TIMEOUT_MAX,
    Parameter::count("retransmission_limit", (0, 1_000_000), "10")
        .doc("a receiver is polled again while the number of repetitions has not exceeded this; then past_limit applies"),
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
