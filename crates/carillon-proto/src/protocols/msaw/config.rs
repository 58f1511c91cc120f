//! Parameters, with the names and defaults of the thesis (section 3.6) where it has them.

use std::time::Duration;

use carillon_core::{AssociationId, BuildContext, Config, ConfigError, GroupId, Kind, Parameter};
use carillon_wire::msaw::HEADER_LEN;

use crate::blocks::TimeoutMethod;

/// How a message is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// To the receiver whose timer expired (section 2.5): a timer and a count for each.
    Unicast,
    /// To all (section 2.5.2): one timer and one count for each message.
    Multicast,
}

/// What the sender does with a message that has been sent again too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastLimit {
    /// Marks it failed and goes on with the next; the layer above has to notice (the thesis).
    Skip,
    /// Gives up the receivers that have not acknowledged it and goes on with the others.
    Expel,
}

/// The settings of a sender, resolved to times.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    pub(super) association: AssociationId,
    pub(super) group: GroupId,
    pub(super) retransmission: Retransmission,
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
        let value = settings.span("timeout").at(rate);
        let data_bytes =
            u64::from(context.max_payload) + HEADER_LEN as u64 + u64::from(context.link_overhead);
        let method = settings.choice("timeout_method");
        let timeout = match method {
            // d + a r + i + increment, section 4.4.
            "formula" => (
                rate.time_for_bytes(data_bytes) + settings.span("ack_wait").at(rate) + value,
                rate.time_for_bytes(settings.size("ack_bytes").0),
            ),
            _ => (value, Duration::ZERO),
        };
        if timeout == (Duration::ZERO, Duration::ZERO) {
            return Err(ConfigError::Conflict(
                "`timeout` is zero: with timeout_method = \"constant\" or \"adaptive\" give a span above zero".into(),
            ));
        }
        Ok(SenderConfig {
            association: context.association,
            group: context.group,
            retransmission: match settings.choice("retransmission") {
                "unicast" => Retransmission::Unicast,
                _ => Retransmission::Multicast,
            },
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
        name: "retransmission",
        kind: Kind::Choice(&["multicast", "unicast"]),
        default: "multicast",
        doc: "whom a retransmission goes to: all, or the receiver that is missing (SAWRETRANS; all published runs use multicast)",
    },
    Parameter {
        name: "ack_wait",
        kind: Kind::Span,
        default: "0 bit",
        doc: "upper end R of the random wait before an acknowledgment, drawn uniformly from [0, R] in bit times (SAWRANDWAIT)",
    },
    Parameter {
        name: "timeout_method",
        kind: Kind::Choice(&["formula", "constant", "adaptive"]),
        default: "formula",
        doc: "formula: d + a r + i + timeout; constant: timeout; adaptive: RFC 6298, starting at timeout (SAWTIMEOUTMETHOD; adaptive is Carillon's)",
    },
    Parameter {
        name: "timeout",
        kind: Kind::Span,
        default: "600000 bit",
        doc: "the increment, constant, or initial value that timeout_method says (SAWTIMEOUT; 600000 in the error-free runs)",
    },
    Parameter { name: "timeout_min", kind: Kind::Span, default: "1 ms", doc: "least adaptive timeout" },
    Parameter { name: "timeout_max", kind: Kind::Span, default: "1 s", doc: "greatest adaptive timeout" },
    Parameter {
        name: "retransmission_limit",
        kind: Kind::Count { min: 0, max: 1_000_000 },
        default: "10",
        doc: "a message is sent again while its count has not exceeded this (SAWRETRANSLIM; 10 in the sample file)",
    },
    Parameter {
        name: "past_limit",
        kind: Kind::Choice(&["skip", "expel"]),
        default: "skip",
        doc: "past the limit: skip the message (the thesis), or expel the receivers that miss it (Carillon's, for delivery)",
    },
    Parameter {
        name: "ack_bytes",
        kind: Kind::Size { min: 0, max: 1518 },
        default: "64",
        doc: "size of an acknowledgment on the link, all headers included; shorter ones are padded (ACKPKTSIZE)",
    },
];

/// For files over a real network: a timeout that finds its value, and no message ever skipped.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("timeout_method", "adaptive"),
    ("timeout", "50 ms"),
    // With the limit: a receiver is given up after some 6 seconds of silence.
    ("timeout_max", "250 ms"),
    ("retransmission_limit", "30"),
    ("past_limit", "expel"),
    ("ack_bytes", "0"),
];
