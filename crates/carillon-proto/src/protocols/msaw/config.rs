//! Parameters, with the names and defaults of the thesis (section 3.6) where it has them.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, Parameter};
use carillon_wire::msaw::{HEADER_LEN, TIMED_HEADER_LEN};

use crate::blocks::retransmission::parameters::{
    ACK_BYTES, ACK_WAIT, ACK_WAIT_METHOD, PAST_LIMIT, TIMEOUT_MAX, TIMEOUT_MIN,
};
use crate::blocks::{AdaptiveWait, Addressed, Retransmission};

/// The settings of a sender, resolved to times.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Addressees of retransmissions. With unicast (section 2.5) each receiver has a timer and a count, with
    /// multicast (section 2.5.2) each message.
    pub(super) addressed: Addressed,
    pub(super) retransmission: Retransmission,
}

impl SenderConfig {
    /// Reads the settings; fails if they contradict each other.
    pub(super) fn new(context: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let data = AdaptiveWait::header_bytes(settings, HEADER_LEN, TIMED_HEADER_LEN).data;
        let retransmission = Retransmission::new(context, settings, data, 1, Duration::ZERO)?
            .with_ack_wait(context, settings)?;
        Ok(SenderConfig { addressed: Addressed::new(settings), retransmission })
    }
}

/// Parameters in the order of the protocol's page.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::choice("retransmission", &["multicast", "unicast"], "multicast")
        .doc("destination of a retransmission: the group, or the receiver that is missing the message (SAWRETRANS; all published runs use multicast)"),
    Parameter::choice("feedback", &["ack", "nak"], "ack")
        .doc("ack: every receiver acknowledges every message (the thesis); nak: receivers request \
        missing messages, and acknowledge when they are polled (proposed in its chapter 5)"),
    Parameter::count("poll_interval", (1, 64), "16")
        .doc("with feedback = nak: number of messages between polls of all receivers"),
    Parameter::span("nak_wait", "1000 bit")
        .doc("with feedback = nak: the sender waits d + a + i and this long for negative acknowledgments before it sends the next message"),
    ACK_WAIT,
    ACK_WAIT_METHOD,
    Parameter::choice("timeout_method", &["formula", "constant", "adaptive"], "formula")
        .doc("formula: d + a r + i + timeout; constant: timeout; adaptive: RFC 6298, starting at timeout (SAWTIMEOUTMETHOD; adaptive is Carillon's)"),
    Parameter::span("timeout", "600000 bit")
        .doc("the increment, constant, or initial value that timeout_method says (SAWTIMEOUT; 600000 in the error-free runs)"),
    TIMEOUT_MIN,
    TIMEOUT_MAX,
    Parameter::count("retransmission_limit", (0, 1_000_000), "10")
        .doc("a message is sent again while its count has not exceeded this (SAWRETRANSLIM; 10 in the sample file)"),
    PAST_LIMIT,
    ACK_BYTES,
];

/// Settings for files over a real network: an adaptive timeout, and no message is skipped.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("timeout_method", "adaptive"),
    ("timeout", "50 ms"),
    // About fifty attempts fit into the member timeout: with 20 % loss at each port, one attempt in four succeeds.
    ("timeout_max", "100 ms"),
    ("past_limit", "wait"),
    ("ack_bytes", "0"),
];
