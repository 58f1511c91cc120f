//! What an end looks like at one time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use carillon_core::PathMeasure;
use carillon_net::{Endpoint, RelayStats};

use crate::daemon::DaemonStatus;

/// What an end looks like at one time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// When that was.
    pub taken: SystemTime,
    /// What it is: `sender`, `joined_sender`, `receiver`, `helper`, `router`, `daemon`.
    pub role: &'static str,
    /// By what name the others know it; empty where they know none.
    pub name: String,
    /// The group and its port, of those that have one.
    pub group: Option<SocketAddr>,
    /// The interface, likewise.
    pub interface: Option<String>,
    /// The protocol, once it is known.
    pub protocol: Option<String>,
    /// The one who opened the session, for the others, once that is known.
    pub organiser: Option<String>,
    /// How far the session is, and how far it could be.
    pub phase: Option<(&'static str, &'static [&'static str])>,
    /// Datagrams that came and went.
    pub traffic: Option<Traffic>,
    /// Data packets that it sent again, and those that it sent in place of others.
    pub repairs: Option<u64>,
    /// Bytes of files or messages: given to the protocol by one who sends, taken from it by one who receives. All
    /// transfers of this end together.
    pub bytes: u64,
    /// Whether there is anything of that at this end.
    pub has_bytes: bool,
    /// Of these, in this transfer.
    pub transfer_bytes: u64,
    /// Bytes of this transfer, if that is known.
    pub size: Option<u64>,
    /// Bytes a second over the last seconds, while it runs.
    pub rate: Option<f64>,
    /// Bytes of datagrams that left, a second, likewise.
    pub sent_rate: Option<f64>,
    /// Files completed, of a receiver of files.
    pub files: Option<u64>,
    /// Transfers that have ended: verified, and not; of a receiver.
    pub transfers: Option<(u64, u64)>,
    /// What keeps a sender from sending faster, while it sends.
    pub limit: Option<Limit>,
    /// Those who receive, of the one who opened the session.
    pub receivers: Vec<ReceiverView>,
    /// Those who spoke up and are not served, likewise.
    pub unserved: Option<u64>,
    /// Those who send, of a receiver.
    pub senders: Vec<SenderView>,
    /// Those who turn to it, if it helps.
    pub serves: Option<Vec<String>>,
    /// What a router has counted.
    pub router: Option<Router>,
    /// What a daemon holds.
    pub daemon: Option<DaemonStatus>,
}

impl Snapshot {
    /// Nothing is known yet of an end in this role.
    #[must_use]
    pub fn new(role: &'static str) -> Self {
        Snapshot {
            taken: SystemTime::now(),
            role,
            name: String::new(),
            group: None,
            interface: None,
            protocol: None,
            organiser: None,
            phase: None,
            traffic: None,
            repairs: None,
            bytes: 0,
            has_bytes: false,
            transfer_bytes: 0,
            size: None,
            rate: None,
            sent_rate: None,
            files: None,
            transfers: None,
            limit: None,
            receivers: Vec::new(),
            unserved: None,
            senders: Vec::new(),
            serves: None,
            router: None,
            daemon: None,
        }
    }
}

/// Datagrams that came and went, since the sockets were opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Datagrams that left.
    pub datagrams_sent: u64,
    /// Their bytes, without headers.
    pub bytes_sent: u64,
    /// Their bytes with the headers of IP and UDP.
    pub ip_bytes_sent: u64,
    /// Datagrams that arrived.
    pub datagrams_received: u64,
    /// Their bytes, without headers.
    pub bytes_received: u64,
    /// Datagrams that were of no use, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Datagrams lost to errors that pass while they were sent.
    pub send_errors: u64,
    /// Datagrams that the system dropped because a receive buffer was full, where it tells.
    pub kernel_drops: Option<u64>,
}

impl Traffic {
    /// Of this endpoint; what its machine has dropped is counted elsewhere.
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let stats = endpoint.stats();
        let headers = if endpoint.group().is_ipv4() { 20 + 8 } else { 40 + 8 };
        Traffic {
            datagrams_sent: stats.datagrams_sent,
            bytes_sent: stats.bytes_sent,
            ip_bytes_sent: stats.bytes_sent + headers * stats.datagrams_sent,
            datagrams_received: stats.datagrams_received,
            bytes_received: stats.bytes_received,
            dropped: [(TOO_MANY_PEERS, stats.refused_peers)].into(),
            send_errors: stats.send_errors + stats.unroutable,
            kernel_drops: None,
        }
    }
}

/// One who receives, as the sender sees it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceiverView {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// One of [`ReceiverView::STATES`].
    pub state: &'static str,
    /// Bytes it has, by its own word; unknown of one that only helps.
    pub bytes: Option<u64>,
    /// The same a second over the last seconds, while it receives.
    pub rate: Option<f64>,
    /// Repairs that went out while it lacked something, if the protocol tells who does.
    pub repairs: Option<u64>,
    /// How long the sender was held up by it, if the protocol waits.
    pub waited: Option<Duration>,
    /// When it was last heard.
    pub heard: SystemTime,
    /// What was measured of the path to it, if the protocol measures that.
    pub path: Option<PathView>,
}

impl ReceiverView {
    /// `waiting` for the transfer to begin, `receiving`; `verified`: it has everything; `failed` by its own word; `given_up`.
    pub const STATES: &'static [&'static str] = &["waiting", "receiving", "verified", "failed", "given_up"];
}

/// What was measured of a path.
pub type PathView = PathMeasure;

/// One who sends, as a receiver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderView {
    /// Its name.
    pub name: String,
    /// One of [`SenderView::STATES`].
    pub state: &'static str,
    /// Bytes that came of it in this transfer.
    pub bytes: u64,
    /// Files of it that are complete.
    pub files: u64,
}

impl SenderView {
    /// It is `sending`; `verified`: everything came; `failed`.
    pub const STATES: &'static [&'static str] = &["sending", "verified", "failed"];
}

/// What a router has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Router {
    /// Datagrams.
    pub stats: RelayStats,
    /// Packets of its protocol: what became of them, which, how many.
    pub packets: Vec<(&'static str, String, u64)>,
}

impl Router {
    /// These counts.
    #[must_use]
    pub fn new(stats: RelayStats, packets: Vec<(&'static str, String, u64)>) -> Self {
        Router { stats, packets }
    }
}

/// What keeps a sender from sending faster, most of the last quarter of a second.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// There is nothing to send yet: its files, its input or its program do not keep up.
    Input,
    /// The rate that it was given.
    Rate,
    /// The interface takes no more.
    Interface,
    /// The processor: the sender was at work nine tenths of the time.
    Processor,
    /// As much is under way as the path carries, or the protocol waits for an answer: to this receiver, if it is one that is
    /// slower than the others.
    Path {
        /// Its name.
        receiver: Option<String>,
    },
    /// This receiver has no room: its disk or its program does not keep up.
    Room {
        /// Its name.
        receiver: String,
    },
    /// Everything has arrived, and receivers have still to check and write it: this one, if it is the last.
    Report {
        /// Its name.
        receiver: Option<String>,
    },
}

impl Limit {
    /// In one word, and the receiver that it is about.
    #[must_use]
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Limit::Input => ("input", None),
            Limit::Rate => ("rate", None),
            Limit::Interface => ("interface", None),
            Limit::Processor => ("processor", None),
            Limit::Path { receiver } => ("path", receiver.as_deref()),
            Limit::Room { receiver } => ("room", Some(receiver)),
            Limit::Report { receiver } => ("report", receiver.as_deref()),
        }
    }
}

/// Counted by the sockets, which outlive a transfer.
pub(super) const TOO_MANY_PEERS: &str = "too_many_peers";
