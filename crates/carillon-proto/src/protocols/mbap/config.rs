//! Parameters, with the names and defaults of the thesis (section 3.6) where it has them.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Parameter};

use super::ENTRY;
use crate::blocks::Retransmission;
use crate::blocks::retransmission::parameters::{
    ACK_BYTES, ACK_WAIT, ACK_WAIT_METHOD, PAST_LIMIT, TIMEOUT_MAX, TIMEOUT_MIN,
};

/// The settings of a sender, resolved to times.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    pub(super) window: usize,
    /// Receivers ask for what they miss.
    pub(super) negative: bool,
    /// And only what they ask for is sent again.
    pub(super) selective: bool,
    pub(super) retransmission: Retransmission,
}

impl SenderConfig {
    pub(super) fn new(context: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let window = settings.count("window");
        let negative = settings.choice("feedback") == "nak";
        let selective = settings.choice("repair") == "selective";
        if selective && !negative {
            return Err(ConfigError::Conflict(
                "`repair = \"selective\"` goes with feedback = \"nak\": what is missing has to be asked for"
                    .into(),
            ));
        }
        let ack_timeout = settings.span("ack_timeout").at(context.bit_rate);
        if ack_timeout.is_zero() {
            return Err(ConfigError::Conflict("`ack_timeout` is zero: give a span above zero".into()));
        }
        // Receivers that ask for what they miss have no delay timer to wait for.
        let ack_delay = if negative { Duration::ZERO } else { ack_timeout };
        let data = (ENTRY.header_bytes)(settings).data;
        let retransmission = Retransmission::new(context, settings, data, window, ack_delay)?
            .with_ack_wait(context, settings)?;
        Ok(SenderConfig { window: window as usize, negative, selective, retransmission })
    }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    // Sequence numbers count modulo 2n in 16 bits.
    Parameter::count("window", (1, 32_768), "10")
        .doc("messages that may be outstanding, n (BAPWIN; 5, 10 and 15 in the published runs)"),
    Parameter::choice("feedback", &["ack", "nak"], "ack")
        .doc("ack: positive acknowledgments only (the thesis); nak: receivers also ask at once for what they miss, and the sender goes back to it (proposed in its chapter 5)"),
    Parameter::choice("repair", &["go-back", "selective"], "go-back")
        .doc("with feedback = nak: go-back: the sender goes back to what was asked for and sends all from there on (the proposal); selective: receivers keep what comes out of order and ask for each message that they miss, which alone is sent again, and acknowledge each quarter of a window (Carillon's)"),
    ACK_WAIT,
    ACK_WAIT_METHOD,
    Parameter::span("ack_timeout", "95000 bit")
        .doc("acknowledgment delay t: a receiver that hears nothing new for this long acknowledges what it has (BAPACKTIMEOUT; 95000 in the sample file)"),
    Parameter::choice("ack_timer", &["restart", "until-full-window"], "restart")
        .doc("restart: the acknowledgment timer runs again after each expiry and acknowledgment (the thesis); until-full-window: it stops after the acknowledgment of a full window (Carillon's)"),
    Parameter::choice("timeout_method", &["formula", "constant", "adaptive"], "formula")
        .doc("formula: d n + a r + i + t + timeout; constant: timeout; adaptive: RFC 6298, starting at timeout (BAPPKTIMEOUTMETHOD; adaptive is Carillon's)"),
    Parameter::span("timeout", "600000 bit")
        .doc("the increment, constant, or initial value that timeout_method says (BAPPKTIMEOUT; 600000 in the error-free runs)"),
    TIMEOUT_MIN,
    TIMEOUT_MAX,
    Parameter::count("retransmission_limit", (0, 1_000_000), "20")
        .doc("a message is sent again while its count has not exceeded this (BAPRETRANSLIM; 20 in the sample file)"),
    PAST_LIMIT,
    ACK_BYTES,
];

/// For files over a real network: times that suit it, and no message ever skipped.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("window", "512"),
    // Acknowledgments that are asked for do not come from all at once, again and again.
    ("feedback", "nak"),
    ("repair", "selective"),
    ("ack_timeout", "2 ms"),
    ("ack_timer", "until-full-window"),
    ("timeout_method", "adaptive"),
    ("timeout", "50 ms"),
    ("timeout_min", "5 ms"),
    // Within the member timeout some fifty tries: where a fifth is lost at each port one in four gets on.
    ("timeout_max", "100 ms"),
    ("past_limit", "wait"),
    ("ack_bytes", "0"),
];

/// As many messages as fit the receivers' buffers.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[("window", HostValue::Window { min: 4, max: 512 })];
