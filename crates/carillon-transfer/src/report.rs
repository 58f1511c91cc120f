//! Reports: the result of a transfer at each kind of end.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use carillon_core::Duration;
use carillon_net::Path;
use carillon_session::{MemberOutcome, UnservedReason};

use crate::files::{Loss, Presence, Signature, Skipped};

/// Result of a transfer at its sender.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SendReport {
    /// The protocol that carried it.
    pub protocol: &'static str,
    /// Number of files to send.
    pub files: usize,
    /// Bytes given to the protocol, plus the `resumed` ones.
    pub bytes: u64,
    /// Bytes that every receiver had from an earlier attempt; they were not sent.
    pub resumed: u64,
    /// Time from the first message to the end of the slowest receiver.
    pub time: Duration,
    /// Goodput in bit/s over the time of the slowest verified receiver; 0 if none is verified.
    pub goodput: f64,
    /// Packets and datagrams that were sent.
    pub sent: SentCounts,
    /// Admitted members except pure helpers, and each receiver that was expected by name and did not join.
    pub receivers: Vec<ReceiverReport>,
    /// Members that only help.
    pub helpers: Vec<HelperReport>,
    /// Endpoints that were not served, at most 64.
    pub unserved: Vec<UnservedReport>,
    /// Number of unserved endpoints beyond those listed.
    pub more_unserved: u64,
    /// Number of receivers that did not join, if a number was expected instead of names.
    pub more_missing: u64,
    /// Other senders on the group: names and addresses.
    pub rivals: Vec<(String, Option<SocketAddr>)>,
    /// Entries that were not sent as they were listed.
    pub omitted: Omissions,
    /// Reason why the whole transfer failed, if it did.
    pub failure: Option<String>,
    /// True if the protocol waits for its receivers.
    pub waits: bool,
    /// True if silent receivers are possible; their result stays unknown.
    pub silent: bool,
    /// Number of sessions, including catch-up sessions.
    pub sessions: u32,
    /// Number of messages of a live stream, each counted once; `None` for files.
    pub messages: Option<u64>,
    /// Receivers that could not say what they have, so that an update sent everything.
    pub unable: Vec<String>,
}

/// Packets and datagrams that a sender has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentCounts {
    /// Data packets that were sent again.
    pub repairs: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes of all datagrams sent.
    pub bytes_sent: u64,
}

/// Entries that a transfer omits, and links that it follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omissions {
    /// Files that were not delivered because they changed or could not be read, a line each.
    pub withdrawn: Vec<String>,
    /// Entries of directories that were not sent.
    pub skipped: Vec<Skipped>,
    /// Number of entries that patterns left out.
    pub excluded: u64,
    /// Links that lead out of the tree and were followed, with their targets.
    pub followed_out: Vec<(PathBuf, PathBuf)>,
}

impl SendReport {
    /// Marks a receiver as verified `time` after the start, when its confirmation arrives late.
    pub(crate) fn verify(&mut self, name: &str, time: Duration) {
        let bytes = self.bytes;
        if let Some(one) = self.receivers.iter_mut().find(|one| one.name == name) {
            (one.outcome, one.bytes, one.time) = (Outcome::Verified, bytes, Some(time));
            self.time = self.time.max(time);
        }
        self.measure();
    }

    /// Merges the report of a catch-up session that began `offset` later. For each receiver the later result counts.
    pub(crate) fn followed_by(mut self, later: SendReport, offset: Duration) -> SendReport {
        self.sessions += later.sessions;
        self.sent.repairs += later.sent.repairs;
        // The counters of the sockets run on across sessions.
        self.sent.datagrams_sent = later.sent.datagrams_sent;
        self.sent.bytes_sent = later.sent.bytes_sent;
        if later.receivers.is_empty() {
            // The catch-up session had no receivers.
            return self;
        }
        self.bytes = match later.messages {
            // Each session of a stream sends other messages, and some again.
            Some(_) => self.bytes + later.bytes,
            None => self.bytes.max(later.bytes),
        };
        self.messages = later.messages;
        self.time = self.time.max(offset + later.time);
        self.failure = later.failure;
        self.omitted.withdrawn.extend(later.omitted.withdrawn);
        self.omitted.withdrawn.sort();
        self.omitted.withdrawn.dedup();
        for mut one in later.receivers {
            one.time = one.time.map(|time| offset + time);
            match self.receivers.iter_mut().find(|before| before.name == one.name) {
                Some(before) => {
                    one.repairs = one.repairs.zip(before.repairs).map(|(these, those)| these + those);
                    one.waited += before.waited;
                    *before = one;
                }
                None => {
                    self.more_missing = self.more_missing.saturating_sub(1);
                    self.receivers.push(one);
                }
            }
        }
        let served = |name: &str| self.receivers.iter().any(|one| one.name == name);
        let mut unserved = self.unserved;
        unserved.extend(later.unserved);
        unserved.retain(|one| !served(&one.name));
        self.unserved = unserved;
        self.more_unserved += later.more_unserved;
        self.unable.extend(later.unable);
        self.unable.sort();
        self.unable.dedup();
        self.rivals.extend(later.rivals);
        self.rivals.sort();
        self.rivals.dedup();
        self.measure();
        self
    }

    /// Computes the goodput from the time of the slowest verified receiver.
    fn measure(&mut self) {
        let verified = self.receivers.iter().filter(|one| one.outcome == Outcome::Verified);
        let last = verified.filter_map(|one| one.time).max().unwrap_or_default();
        let bytes = self.bytes.saturating_sub(self.resumed);
        self.goodput = if last.is_zero() { 0.0 } else { bytes as f64 * 8.0 / last.as_secs_f64() };
    }

    /// Returns true if every expected or admitted receiver is verified. At least one is required unless receivers may
    /// be silent.
    pub fn is_success(&self) -> bool {
        let verified = self.verified();
        self.omitted.withdrawn.is_empty()
            && self.omitted.skipped.iter().all(|skipped| skipped.reason.is_wanted())
            && self.failure.is_none()
            && (verified > 0 || self.silent)
            && verified == self.receivers.len()
            && self.more_missing == 0
            && !self.has_other_releases()
    }

    /// Returns true if receivers of another release were refused.
    pub fn has_other_releases(&self) -> bool {
        self.unserved.iter().any(|one| matches!(one.reason, UnservedReason::Release(_)))
    }

    /// Number of receivers that have joined.
    pub fn joined(&self) -> usize {
        self.receivers.iter().filter(|one| one.outcome != Outcome::Missing).count()
    }

    /// Number of receivers that were expected and did not join.
    pub fn missing(&self) -> u64 {
        self.receivers.len() as u64 - self.joined() as u64 + self.more_missing
    }

    /// Number of receivers that have joined or were expected.
    pub fn expected(&self) -> u64 {
        self.receivers.len() as u64 + self.more_missing
    }

    /// Number of receivers with everything, verified.
    pub fn verified(&self) -> usize {
        self.receivers.iter().filter(|one| one.outcome == Outcome::Verified).count()
    }
}

/// Result of one receiver or further sender.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceiverReport {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// Path of the data to it, if it asked for unicast copies; otherwise multicast.
    pub path: Option<Path>,
    /// True for a further sender.
    pub sends: bool,
    /// Bytes that its program attached when it joined.
    pub attached: Vec<u8>,
    /// Bytes that it has, as it reported.
    pub bytes: u64,
    /// Part of a live stream that it gets, if late receivers are served.
    pub stream: Option<StreamPart>,
    /// Files and bytes that it had before an update.
    pub had: Option<Presence>,
    /// Entries that it deletes when it has everything, if the update deletes and it has said so.
    pub deletes: Option<Deleted>,
    /// Repairs sent while it was missing data, if the protocol attributes repairs to receivers.
    pub repairs: Option<u64>,
    /// Loss rate on the path to it, from 0 to 1, from its last report; only for protocols that measure paths.
    pub loss: Option<f64>,
    /// Time from the first message to its end, if it ended.
    pub time: Option<Duration>,
    /// Time for which the sender waited for it.
    pub waited: Duration,
    /// Its result.
    pub outcome: Outcome,
}

impl ReceiverReport {
    /// Goodput of this receiver in bit/s, if it ended.
    pub fn goodput(&self) -> Option<f64> {
        let time = self.time.filter(|time| !time.is_zero())?;
        Some(self.bytes as f64 * 8.0 / time.as_secs_f64())
    }
}

/// Part of a live stream that a receiver gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPart {
    /// Number of the first message sent to its present process, from 0; `None` if no message was sent since it joined.
    pub first: Option<u64>,
    /// Number of messages that were not sent to its present process: those before `first`, and those of the time in
    /// which the sender had expelled it, unless the history had them.
    pub missed: u64,
    /// Number of earlier processes of the receiver, which was started again. They may have some of the missed messages.
    pub restarts: u64,
}

/// Entries that an update deletes at a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Number of entries.
    pub count: u64,
    /// Their paths below the destination, as many as are known; directories end with a slash.
    pub paths: Vec<PathBuf>,
}

impl Deleted {
    pub(crate) fn new(count: u64, names: &[Vec<u8>]) -> Self {
        let path = |name: &Vec<u8>| PathBuf::from(OsStr::from_bytes(name));
        Deleted { count, paths: names.iter().map(path).collect() }
    }
}

/// Files that an update would send, and what its receivers have.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Preview {
    /// The receivers that have joined.
    pub receivers: Vec<PreviewedReceiver>,
    /// Files that would be sent, each with its path at the receivers, its size, and the indices of the receivers that
    /// are missing it or have another version.
    pub files: Vec<(PathBuf, u64, Vec<usize>)>,
}

/// A receiver in a [`Preview`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PreviewedReceiver {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// Files and bytes that it has; `None` if it cannot tell.
    pub had: Option<Presence>,
    /// Entries that it would delete, if the update deletes.
    pub deletes: Option<Deleted>,
}

/// Result of a helper at the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HelperReport {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// Reason why the sender expelled it, if it did.
    pub lost: Option<String>,
}

/// Result of a helper at the helper itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HelpReport {
    /// Name of the sender that it helped; `None` if it found none.
    pub sender: Option<String>,
    /// `Ok` if it helped to the end, else the reason.
    pub outcome: Result<(), String>,
    /// Names of the members that it served last.
    pub served: Vec<String>,
    /// Repairs sent.
    pub repairs: u64,
    /// Members that are gone: names and reasons.
    pub lost: Vec<(String, String)>,
    /// Datagrams that arrived.
    pub datagrams_received: u64,
    /// Datagrams that left.
    pub datagrams_sent: u64,
    /// Bytes of all datagrams sent.
    pub bytes_sent: u64,
}

impl HelpReport {
    /// Returns true if it helped to the end.
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// Result of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Still receiving when the sender ended.
    Receiving,
    /// Received everything, with every digest right.
    Verified,
    /// Reported a failure, for this reason.
    Failed(String),
    /// Expelled by the sender, for this reason.
    Lost(String),
    /// Expected and did not join.
    Missing,
}

impl Outcome {
    /// Name of the result in one word.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Receiving => "receiving",
            Outcome::Verified => "verified",
            Outcome::Failed(_) => "failed",
            Outcome::Lost(_) => "lost",
            Outcome::Missing => "missing",
        }
    }

    /// Reason why it does not have everything, if so.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Receiving | Outcome::Verified => None,
            Outcome::Failed(reason) | Outcome::Lost(reason) => Some(reason),
            Outcome::Missing => Some("did not join"),
        }
    }
}

impl From<&MemberOutcome> for Outcome {
    fn from(outcome: &MemberOutcome) -> Outcome {
        match outcome {
            MemberOutcome::Active => Outcome::Receiving,
            MemberOutcome::Verified => Outcome::Verified,
            MemberOutcome::Failed(reason) => Outcome::Failed(reason.clone()),
            MemberOutcome::Lost(reason) => Outcome::Lost(reason.clone()),
        }
    }
}

/// An endpoint that was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnservedReport {
    /// The name that it gave.
    pub name: String,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// The reason.
    pub reason: UnservedReason,
}

/// Result of a transfer at a receiver.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// Name of the sender or organiser; `None` if none was found.
    pub sender: Option<String>,
    /// `Ok` if everything arrived and was verified, else the reason.
    pub outcome: Result<(), String>,
    /// True if the sender confirmed this receiver's result.
    pub acknowledged: bool,
    /// Files completed.
    pub files: u32,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Bytes that were present from an earlier attempt and were not received again.
    pub resumed: u64,
    /// Bytes of changed files that were copied from their earlier versions.
    pub copied: u64,
    /// Entries that were deleted on request of the sender.
    pub deleted: Option<Deleted>,
    /// Time from the first byte to the last.
    pub time: Duration,
    /// Messages of live streams.
    pub messages: u64,
    /// Number of the first message that this receiver could get of the last live stream: above 0 if it joined late.
    pub first: u64,
    /// Number of messages of the last live stream that it did not get, because it joined late or was expelled.
    pub missed: u64,
    /// Results per sender.
    pub senders: Vec<SenderReport>,
    /// Entries that this receiver cannot store, each with a reason that follows the path; at most 10 000 per sender.
    pub unstored: Vec<(PathBuf, String)>,
    /// Attributes of an archive that this receiver cannot store.
    pub losses: Vec<Loss>,
    /// Paths of files below the directory that are neither their old nor their new version, because a transfer that
    /// changed them in place did not end well. The next one repairs them.
    pub partly_changed: Vec<PathBuf>,
    /// Members that are gone: names and reasons.
    pub lost: Vec<(String, String)>,
    /// Names of the members that it served at the end, if it helped.
    pub served: Vec<String>,
    /// Repairs sent.
    pub repairs: u64,
    /// Datagrams that arrived.
    pub datagrams_received: u64,
}

impl ReceiveReport {
    /// Returns true if everything arrived and was verified.
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// Result of one sender at a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderReport {
    /// Its name.
    pub name: String,
    /// Files completed.
    pub files: u32,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Its result, if it ended.
    pub outcome: Option<Result<(), String>>,
    /// Its signature, if the receiver accepts only trusted keys.
    pub signature: Option<Signature>,
}

/// Result of a further sender's contribution.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JoinReport {
    /// Name of the organiser; `None` if none was found.
    pub organiser: Option<String>,
    /// `Ok` if every remaining member has everything, else the reason.
    pub outcome: Result<(), String>,
    /// True if the organiser confirmed this sender's end.
    pub acknowledged: bool,
    /// Bytes of files given to the protocol.
    pub bytes: u64,
    /// Time from the first message until every member had everything.
    pub time: Duration,
    /// Members that are gone: names and reasons.
    pub lost: Vec<(String, String)>,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes of all datagrams sent.
    pub bytes_sent: u64,
}

impl JoinReport {
    /// Returns true if every remaining member has everything.
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok()
    }
}
