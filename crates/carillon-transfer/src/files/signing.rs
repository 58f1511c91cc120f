//! Signed transfers (Ed25519, RFC 8032): a sender is authenticated by its own key, beyond membership in the group.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use carillon_core::{Bytes, NodeId};
use carillon_wire::file::{Record, SIGNED_HEADER_LEN, Signed, needs_signature, records};
use ring::signature::{ED25519, UnparsedPublicKey};

use super::history::History;
use super::names::shown_name;
use super::problem::Problem;
use super::record_digest::RecordDigest;
use super::signing_keys::{SigningKey, VerifyingKey};
use crate::LocalError;

/// A verified signature of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Key of the sender.
    pub key: VerifyingKey,
    /// Start of the job by the sender's clock, in nanoseconds since 1970.
    pub time: u64,
}

impl Signature {
    /// Start of the job by the sender's clock, in seconds since 1970.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.time / 1_000_000_000
    }
}

/// Scope of a signature: it is valid only for this group and job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The group and its port.
    pub group: SocketAddr,
    /// The identity of the job.
    pub job: [u8; 16],
}

impl Default for Binding {
    fn default() -> Self {
        Binding { group: (Ipv4Addr::UNSPECIFIED, 0).into(), job: [0; 16] }
    }
}

impl Binding {
    fn text(&self, time: u64, digest: &[u8; 32]) -> Vec<u8> {
        let address = match self.group.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut group = [0; 18];
        group[..16].copy_from_slice(&address.octets());
        group[16..].copy_from_slice(&self.group.port().to_be_bytes());
        Signed::text(&group, &self.job, time, digest)
    }
}

/// Trusted keys of a receiver and its memory of accepted signatures.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Trusted signing keys; empty accepts unsigned data.
    pub keys: Vec<VerifyingKey>,
    /// File with the signing times of accepted transfers; without one they are forgotten at the end of the process.
    pub history: Option<PathBuf>,
    /// Accepts transfers that were signed before an accepted one.
    pub allow_older: bool,
}

impl Trust {
    /// Checks that the file of accepted signatures is usable, if there is one.
    ///
    /// # Errors
    /// The file cannot be read or written, or has another format.
    pub fn check(&self) -> Result<(), LocalError> {
        let history = self.history.as_deref().filter(|_| !self.keys.is_empty());
        History::open(history).map(drop)
    }
}

/// A signing key with the time of its job, which all sessions of the job share.
#[derive(Clone, Debug)]
pub(super) struct Signing {
    pub(super) key: SigningKey,
    pub(super) time: u64,
}

impl Signing {
    /// Uses the current time as the start of the job.
    pub(super) fn now(key: SigningKey) -> Signing {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Signing { key, time: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) }
    }
}

/// Signs the messages of one session.
#[derive(Debug)]
pub(super) struct Signer {
    key: SigningKey,
    time: u64,
    binding: Binding,
    digest: RecordDigest,
}

impl Signer {
    /// Creates the signer of a session of this job.
    pub(super) fn new(Signing { key, time }: &Signing, binding: Binding) -> Signer {
        Signer { key: key.clone(), time: *time, binding, digest: RecordDigest::default() }
    }

    /// Returns the next message, with a signature record if it needs one.
    pub(super) fn sign(&mut self, message: Bytes) -> Bytes {
        if take(&mut self.digest, &message) != Some(true) {
            return message;
        }
        let text = self.binding.text(self.time, &self.digest.so_far());
        let signature = self.key.sign(&text);
        let mut signed = Vec::with_capacity(SIGNED_HEADER_LEN + message.len());
        let key = *self.key.verifying_key().as_bytes();
        Signed { key, time: self.time, signature, message: &message }.emit(&mut signed);
        signed.into()
    }
}

/// Verifies the signatures of all senders' messages, if keys are configured.
#[derive(Debug, Default)]
pub(super) struct Checks {
    trust: Trust,
    binding: Binding,
    history: History,
    senders: BTreeMap<NodeId, Check>,
}

/// State of one sender.
#[derive(Debug, Default)]
struct Check {
    digest: RecordDigest,
    /// First verified signature; later ones must have the same key and time.
    signature: Option<Signature>,
    /// Top-level names that were checked against the history.
    names: BTreeSet<Vec<u8>>,
}

impl Checks {
    /// Verifies the messages of a session against the trusted keys.
    ///
    /// # Errors
    /// The file of accepted signatures is unusable.
    pub(super) fn new(trust: Trust, binding: Binding) -> Result<Checks, LocalError> {
        let history = match trust.keys.is_empty() {
            true => History::default(),
            false => History::open(trust.history.as_deref())?,
        };
        Ok(Checks { trust, binding, history, senders: BTreeMap::new() })
    }

    /// Begins with this sender.
    pub(super) fn begin(&mut self, node: NodeId) {
        self.senders.insert(node, Check::default());
    }

    /// Verifies the next message of this sender; fails if it must not be accepted.
    pub(super) fn check(&mut self, node: NodeId, message: &[u8]) -> Result<(), Problem> {
        if self.trust.keys.is_empty() {
            return Ok(());
        }
        let check = self.senders.entry(node).or_default();
        // The preceding messages were signed by a trusted sender, so an unsigned one is forged.
        let problem = match check.signature {
            Some(_) => Problem::Damaged,
            None => Problem::Transfer,
        };
        let Some(needs) = take(&mut check.digest, message) else {
            return Err(problem("what came is of no file transfer".to_owned()));
        };
        let Ok(Some(Signed { key, time, signature, .. })) = Signed::parse(message) else {
            return if needs {
                Err(problem("what came is not signed: it is not taken (--trust)".to_owned()))
            } else {
                Ok(())
            };
        };
        let by = Signature { key: VerifyingKey::from_bytes(key), time };
        if !self.trust.keys.contains(&by.key) || check.signature.is_some_and(|first| first != by) {
            let text = format!("the data is signed by {}, a key that is not trusted (--trust)", by.key);
            return Err(problem(text));
        }
        let binding = &self.binding;
        let text = binding.text(time, &check.digest.so_far());
        UnparsedPublicKey::new(&ED25519, key).verify(&text, &signature).map_err(|_| {
            problem(format!(
                "the data differs from what {} has signed for this group and job: refused",
                by.key
            ))
        })?;
        check.signature = Some(by);
        let mut new = Vec::new();
        for name in records(message).filter_map(|record| top_level_name(&record.ok()?).map(<[u8]>::to_owned))
        {
            if check.names.contains(&name) {
                continue;
            }
            let newest = self.history.newest(by.key, binding.group, &name);
            if let Some(newest) = newest.filter(|newest| *newest > time && !self.trust.allow_older) {
                let (newest, older) = (newest / 1_000_000_000, by.seconds());
                return Err(Problem::Transfer(format!(
                    "{} was signed {older} s after 1970, and one of the same name that was signed later ({newest}) was \
                     accepted before: the older one is not taken (--allow-older)",
                    shown_name(&name)
                )));
            }
            check.names.insert(name.clone());
            new.push(name);
        }
        // The history is updated before any file gets its final name.
        self.history.accept(by.key, binding.group, time, new).map_err(Problem::Local)
    }

    /// Verified signature of this sender; `None` before the first.
    pub(super) fn signature(&self, node: NodeId) -> Option<Signature> {
        self.senders.get(&node)?.signature
    }
}

/// First component of the name that a record creates.
fn top_level_name<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let path = match record {
        Record::File { path, .. } | Record::Directory { path, .. } | Record::Link { path, .. } => {
            path.as_bytes()
        }
        _ => return None,
    };
    path.split(|&byte| byte == b'/').next()
}

/// Adds the signed records of a message to the digest. Returns true if the message needs a signature; `None` if it is
/// invalid.
fn take(digest: &mut RecordDigest, message: &[u8]) -> Option<bool> {
    let mut needs = false;
    for record in records(message) {
        let record = record.ok()?;
        if needs_signature(&record) {
            needs = true;
            digest.add(&record);
        }
    }
    Some(needs)
}
