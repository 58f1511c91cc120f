//! Parameters, with the names and defaults of the thesis (section 3.6) where it has them.

use std::time::Duration;

use carillon_core::{BitRate, BuildContext, Config, ConfigError, HostValue, Parameter};
use carillon_wire::mbap::{HEADER_LEN, TIMED_HEADER_LEN};

use crate::blocks::retransmission::parameters::{
    ACK_BYTES, ACK_WAIT, ACK_WAIT_METHOD, PAST_LIMIT, TIMEOUT_MAX, TIMEOUT_MIN,
};
use crate::blocks::{AdaptiveWait, Retransmission};

/// Settings of a sender, resolved to times.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// n: maximum number of outstanding messages.
    pub(super) window: usize,
    /// True if receivers send NAKs (chapter 5).
    pub(super) negative: bool,
    /// True if only requested messages are retransmitted.
    pub(super) selective: bool,
    /// True if an advance of the window resets all slots of the acknowledgment vector.
    pub(super) resets: bool,
    /// Rate and overhead of the link if the packet timer runs from the departure of a message, `None` if from its
    /// hand-over.
    pub(super) from_departure: Option<(BitRate, u32)>,
    /// True if an acknowledgment with the last processed number of a receiver is a duplicate even after a reset.
    pub(super) remembers: bool,
    /// True if the next n messages wait until all present ones are complete.
    pub(super) by_blocks: bool,
    pub(super) retransmission: Retransmission,
}

impl SenderConfig {
    /// Reads the settings; refuses combinations that contradict each other.
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
        // Receivers with NAKs have no delay timer, so t is zero.
        let without = negative || settings.choice("timeout_delay") == "none";
        let ack_delay = if without { Duration::ZERO } else { ack_timeout };
        let data = AdaptiveWait::header_bytes(settings, HEADER_LEN, TIMED_HEADER_LEN).data;
        let retransmission = Retransmission::new(context, settings, data, window, ack_delay)?
            .with_ack_wait(context, settings)?;
        let resets = settings.choice("ack_vector") == "reset";
        let by_blocks = settings.choice("next_messages") == "after-all";
        if negative && (resets || by_blocks) {
            return Err(ConfigError::Conflict(
                "`ack_vector = \"reset\"` and `next_messages = \"after-all\"` are readings of positive acknowledgments: \
                 they go with feedback = \"ack\""
                    .into(),
            ));
        }
        let from_departure = settings.choice("packet_timer") == "departure";
        Ok(SenderConfig {
            window: window as usize,
            negative,
            selective,
            resets,
            remembers: settings.choice("ack_repeat") == "duplicate",
            by_blocks,
            from_departure: from_departure.then_some((context.bit_rate, context.link_overhead)),
            retransmission,
        })
    }
}

/// Parameters in the order of the protocol's page.
pub(super) const PARAMETERS: &[Parameter] = &[
    // Sequence numbers count modulo 2n in 16 bits.
    Parameter::count("window", (1, 32_768), "10")
        .doc("messages that may be outstanding, n (BAPWIN; 5, 10 and 15 in the published runs)"),
    Parameter::choice("feedback", &["ack", "nak"], "ack")
        .doc("ack: positive acknowledgments only (the thesis); nak: receivers also request missing \
        messages at once, and the sender goes back to them (proposed in its chapter 5)"),
    Parameter::choice("repair", &["go-back", "selective"], "go-back")
        .doc("with feedback = nak: go-back: the sender goes back to what was asked for and sends all from there on (the proposal); selective: receivers keep what comes out of order and ask for each message that they miss, which alone is sent again, and acknowledge each quarter of a window (Carillon's)"),
    ACK_WAIT,
    ACK_WAIT_METHOD,
    Parameter::span("ack_timeout", "95000 bit")
        .doc("acknowledgment delay t: a receiver to which nothing new arrives for this long \
        acknowledges its messages (BAPACKTIMEOUT; 95000 in the sample file)"),
    Parameter::choice("ack_timer", &["restart", "until-full-window"], "restart")
        .doc("restart: the acknowledgment timer runs again after each expiry and acknowledgment (the thesis); until-full-window: it stops after the acknowledgment of a full window (Carillon's)"),
    Parameter::choice("timeout_method", &["formula", "constant", "adaptive"], "formula")
        .doc("formula: d n + a r + i + t + timeout; constant: timeout; adaptive: RFC 6298, starting at timeout (BAPPKTIMEOUTMETHOD; adaptive is Carillon's)"),
    Parameter::choice("timeout_delay", &["ack-timeout", "none"], "ack-timeout")
        .doc("what stands for t in the formula. ack-timeout: the acknowledgment delay (section 3.6); none: nothing, as the published times under errors have it (Table 4.8: a message sent again k times took less than k times what the formula gives with t)"),
    Parameter::choice("packet_timer", &["hand-over", "departure"], "hand-over")
        .doc("from when the packet timer runs, which is set \"as each message is sent\" (section 2.6). hand-over: from when the interface is given the message; departure: from when it begins to leave, after those that were given before it"),
    Parameter::choice("ack_vector", &["keep", "reset"], "keep")
        .doc("what an advance of the window leaves of the acknowledgment vector. keep: what is ahead of the new start; reset: nothing, all slots are \"the appropriate slots\" of section 2.6"),
    Parameter::choice("ack_repeat", &["news", "duplicate"], "news")
        .doc("an acknowledgment with the number that was last processed from that receiver. news: it counts if its slot was reset; duplicate: it does not, having \"been received and processed before\" (section 2.6)"),
    Parameter::choice("next_messages", &["at-once", "after-all"], "at-once")
        .doc("what is sent when only a part of the window is acknowledged. at-once: \"as many messages as its window will allow\" (section 2.6); after-all: nothing before all are, then \"the next n messages\" (the same section's introduction)"),
    Parameter::span("timeout", "600000 bit")
        .doc("the increment, constant, or initial value that timeout_method says (BAPPKTIMEOUT; 600000 in the error-free runs)"),
    TIMEOUT_MIN,
    TIMEOUT_MAX,
    Parameter::count("retransmission_limit", (0, 1_000_000), "20")
        .doc("a message is sent again while its count has not exceeded this (BAPRETRANSLIM; 20 in the sample file)"),
    PAST_LIMIT,
    ACK_BYTES,
];

/// Settings for files over a real network: suitable times, and no message is skipped.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("window", "512"),
    // Acknowledgments on request avoid periodic acknowledgments of all receivers at once.
    ("feedback", "nak"),
    ("repair", "selective"),
    ("ack_timeout", "2 ms"),
    ("ack_timer", "until-full-window"),
    ("timeout_method", "adaptive"),
    ("timeout", "50 ms"),
    ("timeout_min", "5 ms"),
    // About fifty attempts fit into the member timeout: with 20 % loss at each port, one attempt in four succeeds.
    ("timeout_max", "100 ms"),
    ("past_limit", "wait"),
    ("ack_bytes", "0"),
];

/// Settings that the host derives: the window fits the buffers of the receivers.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[("window", HostValue::Window { min: 4, max: 512 })];
