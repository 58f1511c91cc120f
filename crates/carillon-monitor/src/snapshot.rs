//! State of an end at one time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use carillon_core::PathMeasure;
use carillon_net::RelayStats;

use crate::DaemonStatus;

/// State of an end at one time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Time of the snapshot.
    pub taken: SystemTime,
    /// Role: `sender`, `joined_sender`, `receiver`, `helper`, `router`, `daemon`.
    pub role: &'static str,
    /// Name of the end; empty for roles without one.
    pub name: String,
    /// The group and its port, for roles with one.
    pub group: Option<SocketAddr>,
    /// The interface, for roles with one.
    pub interface: Option<String>,
    /// The protocol, once it is known.
    pub protocol: Option<String>,
    /// Name of the organiser, at other members, once it is known.
    pub organiser: Option<String>,
    /// Phase of the session, and all phases of the role.
    pub phase: Option<(&'static str, &'static [&'static str])>,
    /// Datagram counters.
    pub traffic: Option<Traffic>,
    /// Amounts of data.
    pub amounts: Amounts,
    /// Factor that limits a running sender.
    pub limit: Option<Limit>,
    /// Receivers, at the organiser.
    pub receivers: Vec<ReceiverView>,
    /// Number of endpoints that contacted the organiser and are not served.
    pub unserved: Option<u64>,
    /// Senders, at a receiver.
    pub senders: Vec<SenderView>,
    /// Names of the members that it serves, if it helps.
    pub serves: Option<Vec<String>>,
    /// Counters of a router.
    pub router: Option<Router>,
    /// Status of a daemon.
    pub daemon: Option<DaemonStatus>,
}

/// Amounts of data that an end has transferred.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Amounts {
    /// Repairs sent: repeated data packets and parity packets.
    pub repairs: Option<u64>,
    /// Bytes of files or messages over all transfers of this end: given to the protocol at a sender, delivered by it
    /// at a receiver.
    pub bytes: u64,
    /// True if this role transfers bytes.
    pub has_bytes: bool,
    /// Bytes of the current transfer.
    pub transfer_bytes: u64,
    /// Total bytes of the current transfer, if known.
    pub size: Option<u64>,
    /// Bytes per second over the last seconds, while it runs.
    pub rate: Option<f64>,
    /// Sent bytes of datagrams per second over the last seconds, while it runs.
    pub sent_rate: Option<f64>,
    /// Files completed, of a receiver of files.
    pub files: Option<u64>,
    /// Transfers that ended verified and unverified, at a receiver.
    pub transfers: Option<(u64, u64)>,
}

impl Snapshot {
    /// Creates a snapshot of this role without any values.
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
            amounts: Amounts::default(),
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

/// Datagrams sent and received since the sockets were opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes of sent datagrams, without headers.
    pub bytes_sent: u64,
    /// Bytes of sent datagrams with IP and UDP headers.
    pub ip_bytes_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes of received datagrams, without headers.
    pub bytes_received: u64,
    /// Dropped datagrams by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Datagrams lost to temporary send errors.
    pub send_errors: u64,
    /// Datagrams that the system dropped because of a full receive buffer, where it reports them.
    pub kernel_drops: Option<u64>,
}

/// A receiver as the sender knows it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceiverView {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// State, one of [`ReceiverView::STATES`].
    pub state: &'static str,
    /// Bytes that it reported; unknown for pure helpers.
    pub bytes: Option<u64>,
    /// Bytes per second over the last seconds, while it receives.
    pub rate: Option<f64>,
    /// Repairs sent while it was missing data, if the protocol attributes repairs to receivers.
    pub repairs: Option<u64>,
    /// Time for which the sender waited for it, if the protocol waits.
    pub waited: Option<Duration>,
    /// Time of the last packet from it.
    pub heard: SystemTime,
    /// Measurements of the path to it, if the protocol measures paths.
    pub path: Option<PathView>,
}

impl ReceiverView {
    /// Creates a receiver in this state, without values that are not always known.
    #[must_use]
    pub fn new(name: String, state: &'static str, heard: SystemTime) -> Self {
        ReceiverView {
            name,
            address: None,
            state,
            bytes: None,
            rate: None,
            repairs: None,
            waited: None,
            heard,
            path: None,
        }
    }

    /// States of a receiver: `waiting` for the start, `receiving`, `verified` with everything, `failed` as it
    /// reported, `given_up` after expulsion.
    pub const STATES: &'static [&'static str] = &["waiting", "receiving", "verified", "failed", "given_up"];
}

/// Measurements of a path.
pub type PathView = PathMeasure;

/// A sender as a receiver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderView {
    /// Its name.
    pub name: String,
    /// State, one of [`SenderView::STATES`].
    pub state: &'static str,
    /// Bytes received from it in this transfer.
    pub bytes: u64,
    /// Number of its complete files.
    pub files: u64,
}

impl SenderView {
    /// Creates a sender in this state, from which nothing arrived.
    #[must_use]
    pub fn new(name: String, state: &'static str) -> Self {
        SenderView { name, state, bytes: 0, files: 0 }
    }

    /// States of a sender: `sending`, `verified` when everything arrived, `failed`.
    pub const STATES: &'static [&'static str] = &["sending", "verified", "failed"];
}

/// Counters of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Router {
    /// Datagram counters.
    pub stats: RelayStats,
    /// Packets of the protocol: result, type, number.
    pub packets: Vec<(&'static str, String, u64)>,
}

impl Router {
    /// Creates the counters.
    #[must_use]
    pub fn new(stats: RelayStats, packets: Vec<(&'static str, String, u64)>) -> Self {
        Router { stats, packets }
    }
}

/// Factor that limited a sender for most of the last interval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// No data to send: the files, the input or the program are too slow.
    Input,
    /// The configured rate.
    Rate,
    /// The interface queue is full.
    Interface,
    /// The processor: the sender was busy nine tenths of the time.
    Processor,
    /// The window is full, or the protocol waits for an answer, of this receiver if it is slower than the others.
    Path {
        /// Its name.
        receiver: Option<String>,
    },
    /// The receive window of this receiver is full: its disk or program is too slow.
    Room {
        /// Its name.
        receiver: String,
    },
    /// Everything arrived, and receivers still verify and write; names the receiver if it is the last one.
    Report {
        /// Its name.
        receiver: Option<String>,
    },
}

impl Limit {
    /// Name of the factor and the receiver concerned.
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
