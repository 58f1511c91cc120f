//! Parameters, with the names and defaults of the thesis (section 3.6) where it has them.

use std::time::Duration;

use carillon_core::{AssociationId, BuildContext, Config, ConfigError, GroupId, Kind, Parameter};
use carillon_wire::mbap::HEADER_LEN;

use crate::blocks::TimeoutMethod;
use crate::protocols::msaw::PastLimit;

/// The settings of a sender, resolved to times.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    pub(super) association: AssociationId,
    pub(super) group: GroupId,
    pub(super) window: usize,
    pub(super) retransmission_limit: u32,
    pub(super) past_limit: PastLimit,
    pub(super) timeout_method: TimeoutMethod,
    /// The part of the timeout that does not depend on the number of receivers, then the part for
    /// each of them.
    timeout: (Duration, Duration),
    receivers: u32,
    pub(super) timeout_bounds: (Duration, Duration),
}

impl SenderConfig {
    pub(super) fn new(context: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let rate = context.bit_rate;
        let window = settings.count("window") as usize;
        let value = settings.span("timeout").at(rate);
        let data_bytes =
            u64::from(context.max_payload) + HEADER_LEN as u64 + u64::from(context.link_overhead);
        let method = settings.choice("timeout_method");
        let timeout = match method {
            // d n + a r + i + t + increment, section 4.4.
            "formula" => (
                rate.time_for_bytes(data_bytes * window as u64)
                    + settings.span("ack_wait").at(rate)
                    + settings.span("ack_timeout").at(rate)
                    + value,
                rate.time_for_bytes(settings.size("ack_bytes").0),
            ),
            _ => (value, Duration::ZERO),
        };
        if timeout == (Duration::ZERO, Duration::ZERO) {
            return Err(ConfigError::Conflict(
                "`timeout` is zero: with timeout_method = \"constant\" or \"adaptive\" give a span above zero".into(),
            ));
        }
        if settings.span("ack_timeout").at(rate).is_zero() {
            return Err(ConfigError::Conflict("`ack_timeout` is zero: give a span above zero".into()));
        }
        Ok(SenderConfig {
            association: context.association,
            group: context.group,
            window,
            retransmission_limit: settings.count("retransmission_limit") as u32,
            past_limit: match settings.choice("past_limit") {
                "expel" => PastLimit::Expel,
                _ => PastLimit::Skip,
            },
            timeout_method: if method == "adaptive" {
                TimeoutMethod::Adaptive
            } else {
                TimeoutMethod::Constant
            },
            timeout,
            receivers: context.members.len() as u32,
            timeout_bounds: (settings.span("timeout_min").at(rate), settings.span("timeout_max").at(rate)),
        })
    }

    /// The same for another number of receivers, on which the formula depends.
    pub(super) fn for_receivers(self, receivers: u32) -> Self {
        SenderConfig { receivers, ..self }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout.0 + self.timeout.1 * self.receivers
    }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "window",
        // Sequence numbers count modulo 2n in 16 bits.
        kind: Kind::Count { min: 1, max: 32_768 },
        default: "10",
        doc: "messages that may be outstanding, n (BAPWIN; 5, 10 and 15 in the published runs)",
    },
    Parameter {
        name: "ack_wait",
        kind: Kind::Span,
        default: "0 bit",
        doc: "upper end R of the random wait before an acknowledgment, drawn uniformly from [0, R] in bit times (BAPRANDWAIT)",
    },
    Parameter {
        name: "ack_timeout",
        kind: Kind::Span,
        default: "95000 bit",
        doc: "acknowledgment delay t: a receiver that hears nothing new for this long acknowledges what it has (BAPACKTIMEOUT; 95000 in the sample file)",
    },
    Parameter {
        name: "ack_timer",
        kind: Kind::Choice(&["restart", "until-full-window"]),
        default: "restart",
        doc: "restart: the acknowledgment timer runs again after each expiry and acknowledgment (the thesis); until-full-window: it stops after the acknowledgment of a full window (Carillon's)",
    },
    Parameter {
        name: "timeout_method",
        kind: Kind::Choice(&["formula", "constant", "adaptive"]),
        default: "formula",
        doc: "formula: d n + a r + i + t + timeout; constant: timeout; adaptive: RFC 6298, starting at timeout (BAPPKTIMEOUTMETHOD; adaptive is Carillon's)",
    },
    Parameter {
        name: "timeout",
        kind: Kind::Span,
        default: "600000 bit",
        doc: "the increment, constant, or initial value that timeout_method says (BAPPKTIMEOUT; 600000 in the error-free runs)",
    },
    Parameter { name: "timeout_min", kind: Kind::Span, default: "1 ms", doc: "least adaptive timeout" },
    Parameter { name: "timeout_max", kind: Kind::Span, default: "1 s", doc: "greatest adaptive timeout" },
    Parameter {
        name: "retransmission_limit",
        kind: Kind::Count { min: 0, max: 1_000_000 },
        default: "20",
        doc: "a message is sent again while its count has not exceeded this (BAPRETRANSLIM; 20 in the sample file)",
    },
    Parameter {
        name: "past_limit",
        kind: Kind::Choice(&["skip", "expel"]),
        default: "skip",
        doc: "past the limit: skip the messages (the thesis), or expel the receivers that miss them (Carillon's, for delivery)",
    },
    Parameter {
        name: "ack_bytes",
        kind: Kind::Size { min: 0, max: 1518 },
        default: "64",
        doc: "size of an acknowledgment on the link, all headers included; shorter ones are padded (ACKPKTSIZE)",
    },
];

/// For files over a real network: times that suit it, and no message ever skipped.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("window", "32"),
    ("ack_timeout", "2 ms"),
    ("ack_timer", "until-full-window"),
    ("timeout_method", "adaptive"),
    ("timeout", "50 ms"),
    ("timeout_min", "3 ms"),
    // With the limit: a receiver is given up after some 6 seconds of silence.
    ("timeout_max", "250 ms"),
    ("retransmission_limit", "30"),
    ("past_limit", "expel"),
    ("ack_bytes", "0"),
];
