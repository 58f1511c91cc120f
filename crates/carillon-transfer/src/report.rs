//! What became of a transfer.

use std::net::SocketAddr;
use std::path::PathBuf;

use carillon_core::Duration;
use carillon_proto::session::{MemberOutcome, UnservedReason};

use crate::files::{Signature, Skipped};

/// What became of a transfer, by its sender.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SendReport {
    /// The protocol that carried it.
    pub protocol: &'static str,
    /// Files that were to be sent.
    pub files: usize,
    /// Bytes of them that were given to the protocol, and those that all had from an earlier attempt.
    pub bytes: u64,
    /// Bytes that all had from an earlier attempt: they were not sent.
    pub resumed: u64,
    /// From the first message to the end of whoever took longest.
    pub time: Duration,
    /// Bits in a second that those who have everything got of it; 0 if nobody has.
    pub goodput: f64,
    /// Data packets that went out again.
    pub repairs: u64,
    /// Datagrams that left, and their bytes.
    pub datagrams_sent: u64,
    /// Bytes of all of them.
    pub bytes_sent: u64,
    /// Everyone who was let in, but those who only help; and each receiver that was expected by name and did not join.
    pub receivers: Vec<ReceiverReport>,
    /// Those who only help.
    pub helpers: Vec<HelperReport>,
    /// Those who were not served, 64 of them.
    pub unserved: Vec<UnservedReport>,
    /// How many more were not.
    pub more_unserved: u64,
    /// Number of receivers that did not join, where a number was expected and no names.
    pub more_missing: u64,
    /// Other senders on the group: names and addresses.
    pub rivals: Vec<(String, Option<SocketAddr>)>,
    /// Files that were not delivered because they changed or could not be read, a line each.
    pub withdrawn: Vec<String>,
    /// Entries of directories that were not sent.
    pub skipped: Vec<Skipped>,
    /// Links that lead out of the tree and were followed all the same, with their targets.
    pub followed_out: Vec<(PathBuf, PathBuf)>,
    /// Why the whole has failed, if it has.
    pub failure: Option<String>,
    /// Whether the protocol waits for its receivers.
    pub waits: bool,
    /// Whether receivers may be there that never say anything, so that what became of them nobody knows.
    pub silent: bool,
    /// How many sessions it took.
    pub sessions: u32,
}

impl SendReport {
    /// The receiver of this name has everything after all, as it said so much after the start.
    pub(crate) fn verify(&mut self, name: &str, time: Duration) {
        let bytes = self.bytes;
        if let Some(one) = self.receivers.iter_mut().find(|one| one.name == name) {
            (one.outcome, one.bytes, one.time) = (Outcome::Verified, bytes, Some(time));
            self.time = self.time.max(time);
        }
        self.measure();
    }

    /// With what became of a further session, which began so much later. What it says of a receiver counts.
    pub(crate) fn followed_by(mut self, later: SendReport, offset: Duration) -> SendReport {
        self.sessions += later.sessions;
        self.repairs += later.repairs;
        // The sockets count on.
        self.datagrams_sent = later.datagrams_sent;
        self.bytes_sent = later.bytes_sent;
        if later.receivers.is_empty() {
            // Nobody came after all.
            return self;
        }
        self.bytes = self.bytes.max(later.bytes);
        self.time = self.time.max(offset + later.time);
        self.failure = later.failure;
        self.withdrawn.extend(later.withdrawn);
        self.withdrawn.sort();
        self.withdrawn.dedup();
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
        self.rivals.extend(later.rivals);
        self.rivals.sort();
        self.rivals.dedup();
        self.measure();
        self
    }

    /// The goodput of those who have everything.
    fn measure(&mut self) {
        let verified = self.receivers.iter().filter(|one| one.outcome == Outcome::Verified);
        let last = verified.filter_map(|one| one.time).max().unwrap_or_default();
        let bytes = self.bytes.saturating_sub(self.resumed);
        self.goodput = if last.is_zero() { 0.0 } else { bytes as f64 * 8.0 / last.as_secs_f64() };
    }

    /// Whether everyone who was let in or expected, and at least one unless they may be silent, has everything, verified.
    pub fn is_success(&self) -> bool {
        let verified = self.verified();
        self.withdrawn.is_empty()
            && self.skipped.iter().all(|skipped| skipped.reason.is_wanted())
            && self.failure.is_none()
            && (verified > 0 || self.silent)
            && verified == self.receivers.len()
            && self.more_missing == 0
            && !self.has_other_releases()
    }

    /// Whether receivers of another release were there, which cannot be served.
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

    /// How many have everything, verified.
    pub fn verified(&self) -> usize {
        self.receivers.iter().filter(|one| one.outcome == Outcome::Verified).count()
    }
}

/// What became of one receiver, or further sender.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceiverReport {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// It is a further sender.
    pub sends: bool,
    /// What its program attached when it joined.
    pub attached: Vec<u8>,
    /// Bytes it has, by its own word.
    pub bytes: u64,
    /// Repairs that went out while it lacked something, if the protocol tells who does.
    pub repairs: Option<u64>,
    /// Which part of the data packets was lost on the way to it, from 0 to 1, by its own word and as of the last answer, if the
    /// protocol measures paths.
    pub loss: Option<f64>,
    /// From the first message to its end, if it had one.
    pub time: Option<Duration>,
    /// How long the sender was held up by it.
    pub waited: Duration,
    /// What became of it.
    pub outcome: Outcome,
}

impl ReceiverReport {
    /// Bits in a second that it got, if it had an end.
    pub fn goodput(&self) -> Option<f64> {
        let time = self.time.filter(|time| !time.is_zero())?;
        Some(self.bytes as f64 * 8.0 / time.as_secs_f64())
    }
}

/// What became of a helper, by the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HelperReport {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// Why it was given up, if it was.
    pub lost: Option<String>,
}

/// What became of a helper, by itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HelpReport {
    /// The one whom it helped; nobody if none was found.
    pub sender: Option<String>,
    /// Whether it helped to the end; or why not.
    pub outcome: Result<(), String>,
    /// Those who turned to it last.
    pub served: Vec<String>,
    /// Repairs that it sent.
    pub repairs: u64,
    /// Members that are gone: names and reasons.
    pub lost: Vec<(String, String)>,
    /// Datagrams that arrived.
    pub datagrams_received: u64,
    /// Datagrams that left.
    pub datagrams_sent: u64,
    /// Bytes of them.
    pub bytes_sent: u64,
}

impl HelpReport {
    /// Whether it helped to the end.
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// What became of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was still receiving.
    Receiving,
    /// It has everything, and every digest is right.
    Verified,
    /// It has not, by its own word.
    Failed(String),
    /// It was given up.
    Lost(String),
    /// It was expected and did not join.
    Missing,
}

impl Outcome {
    /// In one word.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Receiving => "receiving",
            Outcome::Verified => "verified",
            Outcome::Failed(_) => "failed",
            Outcome::Lost(_) => "lost",
            Outcome::Missing => "missing",
        }
    }

    /// Why it has not everything, if it has not.
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

/// Somebody who was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnservedReport {
    /// Its name, by its own word.
    pub name: String,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// Why.
    pub reason: UnservedReason,
}

/// What became of a transfer, by a receiver.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// The one who sent, or organised; nobody if none was found.
    pub sender: Option<String>,
    /// Whether everything came, verified; or why not.
    pub outcome: Result<(), String>,
    /// Whether the sender has confirmed that it knows.
    pub acknowledged: bool,
    /// Files completed.
    pub files: u32,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Those of them that were there from an earlier attempt, and did not come again.
    pub resumed: u64,
    /// From the first of them to the last.
    pub time: Duration,
    /// Messages of live streams.
    pub messages: u64,
    /// Of each sender: its name, bytes, and how it ended.
    pub senders: Vec<SenderReport>,
    /// Entries that this receiver cannot store, with reasons in words that follow the path; 10 000 of each sender at most.
    pub unstored: Vec<(PathBuf, String)>,
    /// Members that are gone: names and reasons.
    pub lost: Vec<(String, String)>,
    /// Those who turned to it at the end, if it helped.
    pub served: Vec<String>,
    /// Repairs that it sent.
    pub repairs: u64,
    /// Datagrams that arrived.
    pub datagrams_received: u64,
}

impl ReceiveReport {
    /// Whether everything came, verified.
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// What came of one sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderReport {
    /// Its name.
    pub name: String,
    /// Files completed.
    pub files: u32,
    /// Bytes that arrived.
    pub bytes: u64,
    /// How it ended, if it did.
    pub outcome: Option<Result<(), String>>,
    /// Whose signature it had, if the receiver trusts some only.
    pub signature: Option<Signature>,
}

/// What became of what a further sender had.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JoinReport {
    /// The one who organised; nobody if none was found.
    pub organiser: Option<String>,
    /// Whether everything is through to all that are left; or why not.
    pub outcome: Result<(), String>,
    /// Whether the organiser has confirmed that it knows.
    pub acknowledged: bool,
    /// Bytes of files given to the protocol.
    pub bytes: u64,
    /// From the first message to the moment all were through.
    pub time: Duration,
    /// Members that are gone: names and reasons.
    pub lost: Vec<(String, String)>,
    /// Datagrams that left, and their bytes.
    pub datagrams_sent: u64,
    /// Bytes of all of them.
    pub bytes_sent: u64,
}

impl JoinReport {
    /// Whether everything is through.
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok()
    }
}
