//! Parameters of the protocol and the settings that a member derives from them.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Kind, Parameter};

use super::context::Timer;
use super::service::Service;
use crate::blocks::reformation::Terms;
use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout, MeasuredTimeout, TokenWatch};

/// Qualities of service, as settings name them.
pub(super) const QUALITIES: &[&str] =
    &["unreliable", "reliable", "source", "total", "resilient", "majority", "totally-resilient", "all"];

/// Parameters in the order of the protocol's page.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        former: None,
        name: "qos",
        kind: Kind::Choice(QUALITIES),
        default: "total",
        doc: "quality of service of the messages; all: each quality in turn",
    },
    Parameter {
        former: None,
        name: "other_qos",
        kind: Kind::Choice(QUALITIES),
        default: "totally-resilient",
        doc: "quality of service of every other_every-th message",
    },
    Parameter {
        former: None,
        name: "other_every",
        kind: Kind::Count { min: 0, max: 1_000_000 },
        default: "0",
        doc: "interval, in messages, between messages with other_qos; 0: none",
    },
    Parameter {
        former: None,
        name: "resilience",
        kind: Kind::Count { min: 0, max: 255 },
        default: "1",
        doc: "K of resilient messages: they are delivered after the token was accepted K more times",
    },
    Parameter {
        former: None,
        name: "failures",
        kind: Kind::Count { min: 0, max: 255 },
        default: "255",
        doc: "maximum number of members that may be missing in a reformation; a majority is required in any case",
    },
    Parameter {
        former: None,
        name: "min_members",
        kind: Kind::Count { min: 0, max: 255 },
        default: "0",
        doc: "minimum number of members of a new view (minimum partition); below a majority of the group, the majority",
    },
    Parameter {
        former: None,
        name: "lists",
        kind: Kind::Choice(&["ordered", "reformation"]),
        default: "ordered",
        doc: "changes of the list of members: ordered: by a new list in the total order, where the token moves; \
        reformation: always by a reformation",
    },
    Parameter {
        former: None,
        name: "nack",
        kind: Kind::Choice(&["multicast", "source", "token-site"]),
        default: "multicast",
        doc: "destination of negative acknowledgments and repairs: the group, or one member: the source of a known \
        message and else the token site, or always the token site",
    },
    Parameter {
        former: None,
        name: "nack_delay",
        kind: Kind::Span,
        default: "5 ms",
        doc: "upper bound of the random delay before a multicast negative acknowledgment",
    },
    Parameter {
        former: None,
        name: "batch",
        kind: Kind::Count { min: 1, max: 64 },
        default: "32",
        doc: "maximum number of messages in one acknowledgment",
    },
    Parameter {
        former: None,
        name: "window",
        kind: Kind::Count { min: 1, max: 64 },
        default: "32",
        doc: "maximum number of messages of one source that may be without a slot",
    },
    Parameter {
        former: None,
        name: "flow",
        kind: Kind::Choice(&["adaptive", "fixed"]),
        default: "adaptive",
        doc: "adaptive: a congestion window below `window`, with slow start, linear growth, and cuts by timeouts and \
        negative acknowledgments; fixed: always `window`",
    },
    Parameter {
        former: None,
        name: "buffer",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "256",
        doc: "messages that may wait for a slow application; then the member takes nothing new, and the token waits for it",
    },
    Parameter {
        former: None,
        name: "retries",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "10",
        doc: "R: repetitions without an answer until a member is taken to have failed",
    },
    FAILURE_TIMEOUT,
    Parameter {
        former: None,
        name: "data_timeout",
        kind: Kind::Span,
        default: "100 ms",
        doc: "a source repeats a message without a slot after this time; later the measured time decides",
    },
    Parameter {
        former: None,
        name: "pass_timeout",
        kind: Kind::Span,
        default: "30 ms",
        doc: "a token site repeats an acknowledgment if the next site does not accept the token; longer than confirm_timeout; \
        with measured timeouts the first value",
    },
    Parameter {
        former: None,
        name: "request_timeout",
        kind: Kind::Span,
        default: "30 ms",
        doc: "a member repeats a negative acknowledgment; with measured timeouts the first value",
    },
    Parameter {
        former: None,
        name: "timeouts",
        kind: Kind::Choice(&["measured", "fixed"]),
        default: "measured",
        doc: "measured: pass_timeout and request_timeout are first values, and follow the measured times of answers (RFC \
        6298); fixed: they stay",
    },
    Parameter {
        former: None,
        name: "timeout_min",
        kind: Kind::Span,
        default: "10 ms",
        doc: "lower bound of the measured pass_timeout and request_timeout",
    },
    Parameter {
        former: None,
        name: "confirm_timeout",
        kind: Kind::Span,
        default: "2 ms",
        doc: "a new token site without messages waits this long before it confirms, or passes the token on for resilience",
    },
    Parameter {
        former: None,
        name: "idle_interval",
        kind: Kind::Span,
        default: "10 ms",
        doc: "interval between null acknowledgments of the first round in an idle group; it doubles with each round",
    },
    Parameter {
        former: None,
        name: "max_idle_interval",
        kind: Kind::Span,
        default: "500 ms",
        doc: "upper bound of the interval between null acknowledgments",
    },
    Parameter {
        former: None,
        name: "reform_timeout",
        kind: Kind::Span,
        default: "50 ms",
        doc: "a packet of the reformation is repeated; up to `retries` times, then its addressee is left out",
    },
];

/// Settings for files over a real network.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[("window", "64"), ("data_timeout", "250 ms")];

/// Settings that the host derives: the window fits the buffers of the receivers, and no member is expelled before the
/// session expels it.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[
    ("window", HostValue::AdaptiveWindow { min: 1, max: 64 }),
    ("failure_timeout", HostValue::MemberTimeout),
];

/// Destination of negative acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NackPolicy {
    /// The group; repairs go to the group too.
    Multicast,
    /// The source of a message with a known slot, and the token site otherwise.
    Source,
    /// The token site.
    TokenSite,
}

/// Settings of a member, read from the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub service: Service,
    /// Number of members that may be missing in a reformation.
    pub failures: usize,
    /// Minimum number of members of a view.
    pub min_members: usize,
    /// True if members join and leave by a list in the order.
    pub has_ordered_lists: bool,
    pub nack: NackPolicy,
    pub nack_delay: Duration,
    /// Maximum number of messages in an acknowledgment.
    pub batch: usize,
    /// Maximum number of messages of one source without a slot.
    pub window: u64,
    /// True if the source adapts its window to congestion.
    pub is_adaptive: bool,
    /// Maximum number of messages that wait for the application.
    pub buffer: usize,
    /// Number of kept messages, with and without a slot, from which on no further ones are accepted.
    pub waiting: u64,
    /// R repetitions, and the minimum time that they take.
    pub patience: FailureTimeout,
    pub data_timeout: Duration,
    pub pass_timeout: Duration,
    pub request_timeout: Duration,
    /// True if both follow the measured times of answers.
    pub is_measured: bool,
    /// Lower bound of measured timeouts.
    pub timeout_min: Duration,
    pub confirm_timeout: Duration,
    pub idle_interval: Duration,
    pub max_idle_interval: Duration,
    pub reform_timeout: Duration,
}

impl Settings {
    /// Reads the settings; refuses an interval of zero.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name: &str| match config.span(name).at(context.bit_rate) {
            Duration::ZERO => Err(ConfigError::Conflict(format!("`{name}` is zero: give a span above zero"))),
            span => Ok(span),
        };
        let idle_interval = span("idle_interval")?;
        Ok(Settings {
            service: Service::new(config),
            failures: config.count("failures") as usize,
            min_members: config.count("min_members") as usize,
            has_ordered_lists: config.choice("lists") == "ordered",
            nack: match config.choice("nack") {
                "multicast" => NackPolicy::Multicast,
                "source" => NackPolicy::Source,
                _ => NackPolicy::TokenSite,
            },
            nack_delay: config.span("nack_delay").at(context.bit_rate),
            batch: config.count("batch") as usize,
            window: config.count("window"),
            is_adaptive: config.choice("flow") == "adaptive",
            buffer: context.max_messages(config.count("buffer").saturating_mul(2)).div_ceil(2) as usize,
            waiting: context.max_messages(u64::MAX) / 2,
            patience: FailureTimeout::new(
                config.count("retries") as u32,
                config.span("failure_timeout").at(context.bit_rate),
            ),
            data_timeout: span("data_timeout")?,
            pass_timeout: span("pass_timeout")?,
            request_timeout: span("request_timeout")?,
            is_measured: config.choice("timeouts") == "measured",
            timeout_min: span("timeout_min")?,
            confirm_timeout: span("confirm_timeout")?,
            idle_interval,
            max_idle_interval: span("max_idle_interval")?.max(idle_interval),
            reform_timeout: span("reform_timeout")?,
        })
    }

    /// Timing and demands of the agreement on a view.
    pub fn terms(&self) -> Terms {
        Terms {
            min_members: self.min_members,
            admits_in_order: self.has_ordered_lists,
            ..Terms::new(self.reform_timeout, self.patience, self.failures)
        }
    }

    /// Timeout with this first value.
    pub fn measured<K: Copy + PartialEq>(&self, first: Duration) -> MeasuredTimeout<K> {
        MeasuredTimeout::new(first, self.timeout_min, self.is_measured)
    }

    /// Watch over a token that should move.
    pub fn watch(&self) -> TokenWatch<Timer> {
        let interval = self.data_timeout.saturating_add(self.max_idle_interval);
        TokenWatch::new(self.patience, interval, Timer::Watch)
    }
}
