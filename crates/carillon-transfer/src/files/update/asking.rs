//! Answers of the receivers to the questions of an update, combined by the sender.

use std::collections::BTreeMap;

use carillon_core::{Duration, NodeId, Time};
use carillon_session::{Member, MemberOutcome, SenderSession};
use carillon_wire::deletions::Deletions;
use carillon_wire::file::SUBTREE_BYTES;
use carillon_wire::holdings::{Holding, Holdings};

use super::super::manifest::{Kind, Manifest};
use super::{Asked, DELETIONS_QUESTION, Plan, Presence, Update, is_described};

/// Collects the answers.
#[derive(Debug, Default)]
pub(in crate::files) struct Asking {
    /// Question that waits for answers, and the time until which it does.
    asked: Option<(u32, Time)>,
    presence: BTreeMap<NodeId, Presence>,
    /// Answers to QUESTION 1, for a preview.
    states: Option<BTreeMap<NodeId, Vec<Holding>>>,
    /// Number of described parts of files that a receiver has in full.
    parts: BTreeMap<NodeId, u64>,
    /// Bytes that every receiver has, so that they are not sent.
    pub common: u64,
    /// True if no question follows.
    pub is_last: bool,
    /// True if QUESTION 3 follows, and its answers.
    deletes: bool,
    deletions: BTreeMap<NodeId, Deletions>,
}

impl Asking {
    /// Begins an update; the answers of single receivers are kept for a preview.
    pub fn new(update: Update) -> Self {
        let states = update.dry_run.then(BTreeMap::new);
        Asking { states, deletes: update.delete, ..Asking::default() }
    }

    /// Entries that a receiver deletes, if it said so.
    pub fn deletions(&self, node: NodeId) -> Option<&Deletions> {
        self.deletions.get(&node)
    }

    /// Answer of a receiver to QUESTION 1, if it was kept.
    pub fn states(&self, node: NodeId) -> Option<&[Holding]> {
        Some(self.states.as_ref()?.get(&node)?)
    }

    /// Files and bytes that each receiver had.
    pub fn presence(&self) -> &BTreeMap<NodeId, Presence> {
        &self.presence
    }

    /// Time until which answers are awaited.
    pub fn until(&self) -> Option<Time> {
        self.asked.map(|(_, until)| until)
    }

    /// Combines the answers to a question, once every active receiver has answered or its time is over. A receiver
    /// without a valid answer counts as one that has nothing.
    pub fn collect(
        &mut self,
        now: Time,
        session: &SenderSession,
        manifest: &Manifest,
        asked: Asked,
    ) -> Option<Plan> {
        let Asked { question, items } = asked;
        if self.asked.is_none_or(|(current, _)| current != question) {
            self.asked = Some((question, now + answer_time(manifest, question)));
        }
        let until = self.until()?;
        let active = |member: &&Member| member.part.receives() && member.outcome == MemberOutcome::Active;
        let members: Vec<&Member> = session.members().iter().filter(active).collect();
        let waits = |member: &&Member| session.holdings(member.node, question).is_none();
        if now < until && members.iter().any(waits) {
            return None;
        }
        self.asked = None;
        if question == DELETIONS_QUESTION {
            for member in &members {
                let answer = session.holdings(member.node, question);
                let answer = answer.and_then(|bytes| Deletions::parse(bytes).ok());
                self.deletions.extend(answer.map(|deletions| (member.node, deletions)));
            }
            self.is_last = true;
            return Some(Plan::Deletions);
        }
        let mut combined = vec![Holding::Same; items];
        for member in &members {
            let answer =
                session.holdings(member.node, question).and_then(|bytes| Holdings::parse(bytes).ok());
            let states: Vec<Holding> = match &answer {
                Some(answer) => answer.states(items).collect(),
                None => vec![Holding::Missing; items],
            };
            for (all, one) in combined.iter_mut().zip(&states) {
                *all = worst(*all, *one);
            }
            match question {
                1 => {
                    let presence = presence(manifest, &states);
                    self.presence.insert(member.node, presence);
                    if let Some(all) = &mut self.states {
                        all.insert(member.node, states);
                    }
                }
                _ => {
                    let parts = states.iter().filter(|state| **state == Holding::Same).count() as u64;
                    let parts = parts.saturating_sub(self.parts.get(&member.node).copied().unwrap_or(0));
                    if let Some(presence) = self.presence.get_mut(&member.node) {
                        let bytes = (parts * SUBTREE_BYTES).min(presence.missing_bytes);
                        presence.bytes += bytes;
                        presence.missing_bytes -= bytes;
                    }
                }
            }
        }
        if question > 1 {
            self.is_last = !self.deletes;
            let parts = combined.iter().filter(|holding| **holding == Holding::Same).count() as u64;
            self.common += parts * SUBTREE_BYTES;
            return Some(Plan::Parts(combined.iter().map(|holding| *holding == Holding::Same).collect()));
        }
        let sizes = || manifest.entries().iter().map(|entry| entry.size());
        for member in members {
            let answer =
                session.holdings(member.node, question).and_then(|bytes| Holdings::parse(bytes).ok());
            let own = answer.iter().flat_map(|answer| answer.states(items)).zip(&combined).zip(sizes());
            let described =
                own.filter(|((own, all), size)| *own == Holding::Same && is_described(**all, *size));
            self.parts.insert(member.node, described.map(|(_, size)| size / SUBTREE_BYTES).sum());
        }
        let same = combined.iter().zip(sizes()).filter(|(holding, _)| **holding == Holding::Same);
        self.common = same.map(|(_, size)| size).sum();
        self.is_last = !self.deletes
            && !combined.iter().zip(sizes()).any(|(holding, size)| is_described(*holding, size));
        Some(Plan::Entries(combined))
    }
}

/// Holding of two receivers together: another version helps only if none is missing the file.
pub(super) fn worst(a: Holding, b: Holding) -> Holding {
    match (a, b) {
        (Holding::Missing, _) | (_, Holding::Missing) => Holding::Missing,
        (Holding::Other, _) | (_, Holding::Other) => Holding::Other,
        (Holding::Same, Holding::Same) => Holding::Same,
    }
}

fn presence(manifest: &Manifest, states: &[Holding]) -> Presence {
    let mut presence = Presence::default();
    for (entry, state) in manifest.entries().iter().zip(states) {
        if !matches!(entry.kind, Kind::File { .. }) {
            continue;
        }
        let (files, bytes) = match state {
            Holding::Same => (&mut presence.files, &mut presence.bytes),
            Holding::Missing | Holding::Other => (&mut presence.missing_files, &mut presence.missing_bytes),
        };
        *files += 1;
        *bytes += entry.size();
    }
    presence
}

/// Time for the answer to a question: receivers look at every entry, and may have to hash every file.
fn answer_time(manifest: &Manifest, question: u32) -> Duration {
    let entries = manifest.entries().len() as u32;
    let bytes = Duration::from_secs(manifest.bytes().unwrap_or(0) / MIN_HASH_RATE);
    let looks = if question != 2 { MAX_LOOK_TIME * entries } else { Duration::ZERO };
    MIN_ANSWER_TIME + looks + bytes
}

/// Minimum time for an answer.
const MIN_ANSWER_TIME: Duration = Duration::from_secs(30);
/// Time to look at an entry on a slow disk.
const MAX_LOOK_TIME: Duration = Duration::from_millis(10);
/// Rate of hashing on a slow disk, in bytes per second.
const MIN_HASH_RATE: u64 = 10_000_000;
