//! Parameters of MTP and MTP-2.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, HostValue, Kind, Parameter};

use crate::blocks::{FAILURE_TIMEOUT, FailureTimeout};

/// Settings of one member.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub heartbeat: Duration,
    /// Number of data packets that a member sends per heartbeat.
    pub window: u16,
    pub retention: u16,
    /// True if a member waits at random before a NAK.
    pub spreading: bool,
    /// Maximum number of data packets of a message.
    pub batch: u16,
    /// Number of messages that a member may have outstanding.
    pub queue: usize,
    /// True if the master announces each decision at once.
    pub is_prompt: bool,
    pub hibernation: Duration,
    /// Number of messages of the application that a member keeps.
    pub history: usize,
    pub streams: u64,
    /// Rank of the master in MTP.
    pub master: usize,
    pub patience: FailureTimeout,
    /// Settings of MTP-2; none in MTP.
    pub election: Option<Election>,
}

/// Settings of MTP-2's election.
#[derive(Clone, Debug)]
pub(super) struct Election {
    pub resilience: usize,
    pub vote_interval: Duration,
    /// Number of own messages in a row after which the master's role moves to the producer; 0 for never.
    pub migrate_after: u64,
}

impl Settings {
    /// Reads and checks the parameters.
    pub fn new(build: &BuildContext, config: &Config, has_election: bool) -> Result<Self, ConfigError> {
        let span = |name| config.span(name).at(build.bit_rate);
        let heartbeat = span("heartbeat");
        // The header carries whole milliseconds.
        if heartbeat < Duration::from_millis(1) || heartbeat.as_millis() > u32::MAX.into() {
            return Err(ConfigError::Conflict("heartbeat is not between 1 ms and 2^32 ms".to_owned()));
        }
        let retention = config.count("retention") as u16;
        let spreading = config.choice("nak_spreading") == "on";
        if spreading && retention < MIN_SPREAD_RETENTION {
            let text = format!("nak_spreading needs a retention of at least {MIN_SPREAD_RETENTION}");
            return Err(ConfigError::Conflict(text));
        }
        let shares = if has_election { SHARES + MAX_FETCHED_HISTORIES } else { SHARES };
        let wanted = config.count("history").saturating_mul(shares);
        let history = (build.max_messages(wanted) / shares).max(1);
        Ok(Settings {
            heartbeat,
            window: config.count("window") as u16,
            retention,
            spreading,
            batch: config.count("message_packets").min(history) as u16,
            queue: config.count("queue") as usize,
            is_prompt: config.choice("announce") == "prompt",
            hibernation: span("hibernation").max(heartbeat),
            history: history as usize,
            streams: config.count("streams"),
            // The first view of MTP-2 is the same for all members.
            master: if has_election { 0 } else { config.count("master") as usize },
            patience: FailureTimeout::new(retention.into(), span("failure_timeout")),
            election: has_election.then(|| Election {
                resilience: config.count("resilience") as usize,
                vote_interval: span("vote_interval").max(MIN_INTERVAL),
                migrate_after: config.count("migrate_after"),
            }),
        })
    }

    /// Stream of a message of this number: all packets of one MTP message are of one stream.
    pub fn stream(&self, number: u64) -> u8 {
        (number / u64::from(self.batch) % self.streams) as u8
    }

    /// Time for which data is kept after it was sent.
    pub fn retention_time(&self) -> Duration {
        self.heartbeat.saturating_mul(self.retention.into())
    }

    /// Number of heartbeats after which a silent member has failed.
    pub fn tries(&self) -> u32 {
        self.patience.tries(self.heartbeat)
    }
}

/// Minimum interval of a timer, so that time advances when it fires.
pub(super) const MIN_INTERVAL: Duration = Duration::from_micros(1);
/// Maximum number of histories that a member keeps of the messages it owes to others.
pub(super) const MAX_OWED_HISTORIES: u64 = 2;
/// Maximum number of histories that a member fetches while a new view is agreed on.
pub(super) const MAX_FETCHED_HISTORIES: u64 = 4;
/// Number of histories that share the memory: those in the log, of incomplete messages, and one that is not read.
const SHARES: u64 = MAX_OWED_HISTORIES + 2;
/// Minimum retention with NAK spreading (RFC 1301, 3.2.4).
const MIN_SPREAD_RETENTION: u16 = 5;

const HEARTBEAT: Parameter = Parameter {
    former: None,
    name: "heartbeat",
    kind: Kind::Span,
    default: "200 ms",
    doc: "time unit of the web: interval of retries, and in which the window is sent (RFC 1301: at least 160 to 200 ms, for hosts of 1 MIPS)",
};
const WINDOW: Parameter = Parameter {
    former: None,
    name: "window",
    kind: Kind::Count { min: 1, max: 65_535 },
    default: "20",
    doc: "data packets, repairs included, that one member sends per heartbeat (RFC 1301: at most 17 to 20)",
};
const RETENTION: Parameter = Parameter {
    former: None,
    name: "retention",
    kind: Kind::Count { min: 1, max: 65_535 },
    default: "3",
    doc: "heartbeats for which data can be repaired, and number of retries (RFC 1301: at least 3, in internets 5)",
};
const NAK_SPREADING: Parameter = Parameter {
    former: None,
    name: "nak_spreading",
    kind: Kind::Choice(&["off", "on"]),
    default: "off",
    doc: "on: a member waits 0 to retention - 2 heartbeats at random before a NAK (RFC 1301, for internets)",
};
const MESSAGE_PACKETS: Parameter = Parameter {
    former: None,
    name: "message_packets",
    kind: Kind::Count { min: 1, max: 1024 },
    default: "1",
    doc: "maximum data packets of an MTP message; each carries one message of the application, and all of them share a token",
};
const QUEUE: Parameter = Parameter {
    former: None,
    name: "queue",
    kind: Kind::Count { min: 1, max: 65_536 },
    default: "12",
    doc: "messages of the application that a member may have outstanding (Carillon's)",
};
const ANNOUNCE: Parameter = Parameter {
    former: None,
    name: "announce",
    kind: Kind::Choice(&["heartbeat", "prompt"]),
    default: "heartbeat",
    doc: "heartbeat: a decision of the master travels with its next packet, at least one per heartbeat (RFC 1301); prompt: in a packet at once (Carillon's)",
};
const HIBERNATION: Parameter = Parameter {
    former: None,
    name: "hibernation",
    kind: Kind::Span,
    default: "1 s",
    doc: "heartbeat of an idle web",
};
const HISTORY: Parameter = Parameter {
    former: None,
    name: "history",
    kind: Kind::Count { min: 1, max: 65_536 },
    default: "1024",
    doc: "messages of the application that a member keeps for others, and that it takes ahead of a gap (Carillon's)",
};
const STREAMS: Parameter = Parameter {
    former: None,
    name: "streams",
    kind: Kind::Count { min: 1, max: 255 },
    default: "1",
    doc: "subchannels over which a member distributes its messages in turn",
};
const MTP2_STREAMS: Parameter = Parameter {
    doc: "subchannels over which a member distributes its messages in turn; the master grants tokens of higher streams first",
    ..STREAMS
};

pub(super) const PARAMETERS: &[Parameter] = &[
    HEARTBEAT,
    WINDOW,
    RETENTION,
    NAK_SPREADING,
    MESSAGE_PACKETS,
    QUEUE,
    ANNOUNCE,
    HIBERNATION,
    HISTORY,
    STREAMS,
    Parameter {
        former: None,
        name: "master",
        kind: Kind::Count { min: 0, max: 255 },
        default: "0",
        doc: "rank of the member that is the master; the last member if there are fewer (Carillon's)",
    },
    FAILURE_TIMEOUT,
];

pub(super) const MTP2_PARAMETERS: &[Parameter] = &[
    HEARTBEAT,
    WINDOW,
    RETENTION,
    NAK_SPREADING,
    MESSAGE_PACKETS,
    QUEUE,
    ANNOUNCE,
    HIBERNATION,
    HISTORY,
    MTP2_STREAMS,
    Parameter {
        former: None,
        name: "resilience",
        kind: Kind::Count { min: 0, max: 31 },
        default: "1",
        doc: "members besides the master that hold a message before it is accepted, so that as many crashes lose nothing (Carillon's)",
    },
    Parameter {
        former: None,
        name: "vote_interval",
        kind: Kind::Span,
        default: "100 ms",
        doc: "interval of repeated packets in the election of a master (Carillon's)",
    },
    Parameter {
        former: None,
        name: "migrate_after",
        kind: Kind::Count { min: 0, max: 1 << 32 },
        default: "0",
        doc: "own messages in a row after which a producer takes the master's role; 0: the role stays",
    },
    FAILURE_TIMEOUT,
];

/// Settings for files over a real network.
pub(super) const DELIVERY_SETTINGS: &[(&str, &str)] = &[
    ("heartbeat", "20 ms"),
    ("window", "64"),
    ("retention", "100"),
    ("message_packets", "16"),
    ("queue", "256"),
    ("announce", "prompt"),
    ("hibernation", "200 ms"),
];

/// Values from the host.
pub(super) const HOST_SETTINGS: &[(&str, HostValue)] = &[
    ("queue", HostValue::Window { min: 1, max: 1024 }),
    ("window", HostValue::Window { min: 1, max: 64 }),
    ("failure_timeout", HostValue::MemberTimeout),
];
