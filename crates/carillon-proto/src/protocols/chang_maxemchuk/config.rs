//! Parameters.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Kind, Parameter};

use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "resilience",
        kind: Kind::Count { min: 0, max: 255 },
        default: "1",
        doc: "L: a message is delivered when the token has been accepted so often since it was acknowledged; so many sites may fail, if a majority lives",
    },
    Parameter {
        name: "transfer_every",
        kind: Kind::Count { min: 1, max: 64 },
        default: "1",
        doc: "acknowledgments a token site gives until it passes the token on (the source's token passing rate; it suggests 1)",
    },
    Parameter {
        name: "window",
        kind: Kind::Count { min: 1, max: 64 },
        default: "1",
        doc: "messages of one source that may be unacknowledged; 1 is the source's stop-and-wait",
    },
    Parameter {
        name: "buffer",
        kind: Kind::Count { min: 1, max: 65_536 },
        default: "256",
        doc: "messages that may wait for a slow application; then the site takes nothing new, and the token waits for it",
    },
    Parameter {
        name: "retries",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "10",
        doc: "R: repetitions without an answer until a site is taken to have failed",
    },
    FAILURE_TIMEOUT,
    Parameter {
        name: "message_timeout",
        kind: Kind::Span,
        default: "100 ms",
        doc: "a source repeats a message that is not acknowledged; a site that waits for the token asks for it after this and idle_timeout",
    },
    Parameter {
        name: "transfer_timeout",
        kind: Kind::Span,
        default: "30 ms",
        doc: "a token site repeats a transfer that is not accepted; longer than confirm_timeout",
    },
    Parameter {
        name: "request_timeout",
        kind: Kind::Span,
        default: "20 ms",
        doc: "a site asks again for what it misses",
    },
    Parameter {
        name: "confirm_timeout",
        kind: Kind::Span,
        default: "10 ms",
        doc: "a new token site with nothing to acknowledge waits so long before it passes the token on, for what is to be committed, or confirms",
    },
    Parameter {
        name: "reform_timeout",
        kind: Kind::Span,
        default: "50 ms",
        doc: "a packet of the reformation is repeated; up to `retries` times, then its addressee is done without",
    },
    Parameter {
        name: "tail",
        kind: Kind::Choice(&["confirm", "none"]),
        default: "confirm",
        doc: "confirm: in an idle group the token goes around once, so that every site has everything; none: who lacks the last messages finds out with the next",
    },
    Parameter {
        name: "idle_timeout",
        kind: Kind::Span,
        default: "200 ms",
        doc: "when a group is idle, with tail = \"confirm\"",
    },
];

/// For files over a real network: several messages of a source at a time.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    // A token that moves after each message would take a way across the network for each.
    ("transfer_every", "8"),
    ("window", "32"),
    ("retries", "10"),
    ("message_timeout", "250 ms"),
    ("transfer_timeout", "30 ms"),
    ("request_timeout", "20 ms"),
    ("confirm_timeout", "2 ms"),
    ("idle_timeout", "50 ms"),
];

/// As many messages as fit the receivers' buffers; nobody is given up before the session would.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] =
    &[("window", HostValue::Window { min: 1, max: 64 }), ("failure_timeout", HostValue::MemberTimeout)];

/// The settings, read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub resilience: u64,
    pub transfer_every: u64,
    pub window: u64,
    pub buffer: usize,
    /// Messages that may wait for their acknowledgment, of all sources together.
    pub waiting: usize,
    /// R, and how long it takes at least.
    pub patience: FailureTimeout,
    pub message_timeout: Duration,
    pub transfer_timeout: Duration,
    pub request_timeout: Duration,
    pub confirm_timeout: Duration,
    pub reform_timeout: Duration,
    /// After how long an idle group sends the token around, if it does.
    pub idle_timeout: Option<Duration>,
}

impl Settings {
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
}
