//! Parameters of the sequencer protocol.

use std::time::Duration;

use carillon_core::{BuildContext, Config, HostValue, Kind, Parameter};

use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout};

/// Settings of one member.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Resilience r: number of members besides the sequencer that hold a message before it is accepted.
    pub resilience: usize,
    /// Minimum payload, in bytes, that a member broadcasts itself (method BB).
    pub large: usize,
    pub window: usize,
    pub history: usize,
    pub request_timeout: Duration,
    pub retrans_interval: Duration,
    pub sync_interval: Duration,
    pub alive_interval: Duration,
    pub vote_interval: Duration,
    pub patience: FailureTimeout,
}

impl Settings {
    pub fn new(context: &BuildContext, config: &Config) -> Self {
        let span = |name| config.span(name).at(context.bit_rate);
        let interval = |name| span(name).max(MIN_INTERVAL);
        Settings {
            resilience: config.count("resilience") as usize,
            large: match config.choice("method") {
                "pb" => usize::MAX,
                "bb" => 0,
                _ => config.size("large").0 as usize,
            },
            window: config.count("window") as usize,
            // Between views, a member may hold a fetched log beside its own.
            history: (context.max_messages(config.count("history").saturating_mul(MAX_HISTORIES))
                / MAX_HISTORIES)
                .max(1) as usize,
            request_timeout: interval("request_timeout"),
            retrans_interval: interval("retrans_interval"),
            sync_interval: interval("sync_interval"),
            alive_interval: span("alive_interval"),
            vote_interval: interval("vote_interval"),
            patience: FailureTimeout::new(config.count("tries") as u32, span("failure_timeout")),
        }
    }
}

/// Minimum interval of a timer, so that time advances when it fires.
pub(super) const MIN_INTERVAL: Duration = Duration::from_micros(1);

/// Maximum number of histories that a member holds at once, which divide its memory.
const MAX_HISTORIES: u64 = 2 * MAX_FETCHED_HISTORIES;

/// Maximum number of histories that a member fetches while a new view is agreed on.
pub(super) const MAX_FETCHED_HISTORIES: u64 = 4;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        former: None,
        name: "resilience",
        kind: Kind::Count { min: 0, max: 31 },
        default: "1",
        doc: "r: members besides the sequencer that hold a message before it is accepted; r crashes are survived while a majority lives; 0 is the form of the source, which does not replace a crashed sequencer (Amoeba: 0 to 31)",
    },
    Parameter {
        former: None,
        name: "method",
        kind: Kind::Choice(&["auto", "pb", "bb"]),
        default: "auto",
        doc: "pb: a message goes to the sequencer, which sends it to the group (the source); bb: it goes to the group, and the sequencer sends its sequence number (Amoeba); auto: bb from the size large on",
    },
    Parameter {
        former: None,
        name: "large",
        kind: Kind::Size { min: 0, max: 1 << 32 },
        default: "10000 byte",
        doc: "minimum size for bb with method auto (Amoeba)",
    },
    Parameter {
        former: None,
        name: "window",
        kind: Kind::Count { min: 1, max: 64 },
        default: "1",
        doc: "maximum number of outstanding messages of a member (1 in Amoeba)",
    },
    Parameter {
        former: None,
        name: "history",
        kind: Kind::Count { min: 4, max: 65_536 },
        default: "128",
        doc: "messages that the sequencer keeps for repairs; when this many are not known to be with \
        all members, it stops and synchronises (128 in Amoeba)",
    },
    Parameter {
        former: None,
        name: "request_timeout",
        kind: Kind::Span,
        default: "100 ms",
        doc: "time after which a message not yet delivered to its own source is sent to the sequencer again; doubled at most twice without progress (1 s in Amoeba)",
    },
    Parameter {
        former: None,
        name: "retrans_interval",
        kind: Kind::Span,
        default: "50 ms",
        doc: "interval of repeated requests for a missing message (50 ms in Amoeba)",
    },
    Parameter {
        former: None,
        name: "sync_interval",
        kind: Kind::Span,
        default: "100 ms",
        doc: "idle time after which the sequencer polls members not known to be complete, and the interval of further polls (100 ms in Amoeba while the history is full)",
    },
    Parameter {
        former: None,
        name: "alive_interval",
        kind: Kind::Span,
        default: "0 ms",
        doc: "in an idle group, interval at which members check that the sequencer is alive; 0: only members that wait for something check (10 s in Amoeba)",
    },
    Parameter {
        former: None,
        name: "vote_interval",
        kind: Kind::Span,
        default: "100 ms",
        doc: "interval of repeated packets in an election (2 s in Amoeba)",
    },
    Parameter {
        former: None,
        name: "tries",
        kind: Kind::Count { min: 1, max: 1000 },
        default: "10",
        doc: "unanswered packets after which a member or sequencer is considered crashed (10 in Amoeba)",
    },
    FAILURE_TIMEOUT,
];

/// Settings for files over a real network.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("window", "32"),
    ("history", "1024"),
    ("request_timeout", "50 ms"),
    ("retrans_interval", "25 ms"),
    ("sync_interval", "50 ms"),
    ("vote_interval", "20 ms"),
    ("tries", "10"),
];

/// Values from the host: as many messages as fit the receivers' buffers, and the session's own timeout for silent
/// members.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] =
    &[("window", HostValue::Window { min: 1, max: 64 }), ("failure_timeout", HostValue::MemberTimeout)];
