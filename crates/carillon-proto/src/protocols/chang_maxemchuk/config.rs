//! Parameters of the protocol and the settings that a site derives from them.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Kind, Parameter};

use super::context::Timer;
use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout, TokenWatch};

/// Parameters in the order of the protocol's page.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        former: None,
        name: "resilience",
        kind: Kind::Count { min: 0, max: 255 },
        default: "1",
        doc: "L: a message is delivered when the token has been accepted this many times since it \
        was acknowledged; this many sites may fail while a majority lives",
    },
    Parameter {
        former: None,
        name: "transfer_every",
        kind: Kind::Count { min: 1, max: 64 },
        default: "1",
        doc: "acknowledgments a token site gives until it passes the token on (the source's token passing rate; it suggests 1)",
    },
    Parameter {
        former: None,
        name: "window",
        kind: Kind::Count { min: 1, max: 64 },
        default: "1",
        doc: "messages of one source that may be unacknowledged; 1 is the source's stop-and-wait",
    },
    Parameter {
        former: None,
        name: "buffer",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "256",
        doc: "messages that may wait for a slow application; then the site takes nothing new, and the token waits for it",
    },
    Parameter {
        former: None,
        name: "retries",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "10",
        doc: "R: repetitions without an answer until a site is taken to have failed",
    },
    FAILURE_TIMEOUT,
    Parameter {
        former: None,
        name: "message_timeout",
        kind: Kind::Span,
        default: "100 ms",
        doc: "a source repeats a message that is not acknowledged; a site that waits for the token asks for it after this and idle_timeout",
    },
    Parameter {
        former: None,
        name: "transfer_timeout",
        kind: Kind::Span,
        default: "30 ms",
        doc: "a token site repeats a transfer that is not accepted; longer than confirm_timeout",
    },
    Parameter {
        former: None,
        name: "request_timeout",
        kind: Kind::Span,
        default: "20 ms",
        doc: "a site asks again for what it misses",
    },
    Parameter {
        former: None,
        name: "confirm_timeout",
        kind: Kind::Span,
        default: "10 ms",
        doc: "a new token site with nothing to acknowledge waits so long before it passes the token on, for what is to be committed, or confirms",
    },
    Parameter {
        former: None,
        name: "reform_timeout",
        kind: Kind::Span,
        default: "50 ms",
        doc: "a packet of the reformation is repeated; up to `retries` times, then its addressee is done without",
    },
    Parameter {
        former: None,
        name: "tail",
        kind: Kind::Choice(&["confirm", "none"]),
        default: "confirm",
        doc: "confirm: in an idle group the token goes around once, so that every site has everything; none: a \
        member that is missing the last messages detects it with the next one",
    },
    Parameter {
        former: None,
        name: "idle_timeout",
        kind: Kind::Span,
        default: "200 ms",
        doc: "when a group is idle, with tail = \"confirm\"",
    },
];

/// Settings for files over a real network: several messages of a source in flight.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    // A token that moves after each message would cost one network delay per message.
    ("transfer_every", "8"),
    ("window", "32"),
    ("retries", "10"),
    ("message_timeout", "250 ms"),
    ("transfer_timeout", "30 ms"),
    ("request_timeout", "20 ms"),
    ("confirm_timeout", "2 ms"),
    ("idle_timeout", "50 ms"),
];

/// Settings that the host derives: the window fits the buffers of the receivers, and no member is expelled before the
/// session expels it.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] =
    &[("window", HostValue::Window { min: 1, max: 64 }), ("failure_timeout", HostValue::MemberTimeout)];

/// Settings of a site, read from the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// L: transfers of the token that must be accepted before a message is delivered.
    pub resilience: u64,
    /// Acknowledgments that a token site gives before it passes the token on.
    pub transfer_every: u64,
    /// Maximum number of unacknowledged messages of one source.
    pub window: u64,
    /// Maximum number of messages that wait for the application.
    pub buffer: usize,
    /// Maximum number of messages of all sources that wait for their acknowledgment.
    pub waiting: usize,
    /// R repetitions, and the minimum time that they take.
    pub patience: FailureTimeout,
    /// Interval at which a source repeats a message.
    pub message_timeout: Duration,
    /// Interval at which a token site repeats a transfer.
    pub transfer_timeout: Duration,
    /// Interval at which a site repeats a request.
    pub request_timeout: Duration,
    /// Time without anything to acknowledge after which a token site passes the token on or confirms.
    pub confirm_timeout: Duration,
    /// Interval at which a packet of the reformation is repeated.
    pub reform_timeout: Duration,
    /// Time after which an idle group sends the token around; `None` with `tail = "none"`.
    pub idle_timeout: Option<Duration>,
}

impl Settings {
    /// Reads the settings; refuses an interval of zero.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let span = |name: &str| match config.span(name).at(context.bit_rate) {
            Duration::ZERO => Err(ConfigError::Conflict(format!("`{name}` is zero: give a span above zero"))),
            span => Ok(span),
        };
        let idle_timeout = match config.choice("tail") {
            "confirm" => Some(span("idle_timeout")?),
            _ => None,
        };
        Ok(Settings {
            resilience: config.count("resilience"),
            transfer_every: config.count("transfer_every"),
            window: config.count("window"),
            buffer: context.max_messages(config.count("buffer").saturating_mul(2)).div_ceil(2) as usize,
            waiting: (context.max_messages(u64::MAX) / 2) as usize,
            patience: FailureTimeout::new(
                config.count("retries") as u32,
                config.span("failure_timeout").at(context.bit_rate),
            ),
            message_timeout: span("message_timeout")?,
            transfer_timeout: span("transfer_timeout")?,
            request_timeout: span("request_timeout")?,
            confirm_timeout: span("confirm_timeout")?,
            reform_timeout: span("reform_timeout")?,
            idle_timeout,
        })
    }

    /// Watch over a token that should move.
    pub fn watch(&self) -> TokenWatch<Timer> {
        let interval = self.message_timeout.saturating_add(self.idle_timeout.unwrap_or_default());
        TokenWatch::new(self.patience, interval, Timer::Watch)
    }
}
