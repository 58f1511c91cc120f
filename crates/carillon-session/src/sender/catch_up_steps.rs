//! Steps of a sender that serves receivers across the sessions of a job.

use std::collections::BTreeSet;

use carillon_core::{ObservedState, Time};
use carillon_wire::session::MemberRole;

use super::SenderSession;
use super::catch_up::STATES;
use crate::config::EarlierSessions;
use crate::roster::MemberOutcome;
use crate::unserved::Unserved;

impl SenderSession {
    /// State of each receiver in the ledger.
    pub(super) fn observe_receivers(&self) -> impl Iterator<Item = ObservedState> {
        (0..self.catch_up.ledger.len()).map(|index| {
            let name = &self.catch_up.ledger.entry(index).name;
            let state = match (self.is_done(index), self.catch_up.wanting.contains(name)) {
                (true, _) => "Verified",
                (false, true) => "Wanted",
                (false, false) => "Known",
            };
            ObservedState { of: STATES.of, about: index as u64, state, turn: 0 }
        })
    }

    /// Unserved receivers: each node once, in order of appearance, at most 64.
    pub fn unserved(&self) -> &[Unserved] {
        self.catch_up.unserved.list()
    }

    /// Number of unserved receivers beyond the list.
    pub fn more_unserved(&self) -> u64 {
        self.catch_up.unserved.more()
    }

    /// Names of the receivers that a catch-up session is to serve: they were late, or were expelled and heard since.
    pub fn wanting(&self) -> &BTreeSet<String> {
        &self.catch_up.wanting
    }

    /// Returns true if an expelled member may do better in a catch-up session: it receives, and received something in
    /// this one.
    pub(super) fn may_go_on(&self, index: usize) -> bool {
        let member = &self.roster.members()[index];
        let record = self.roster.record(index);
        member.part == MemberRole::Receives
            && (member.bytes > 0 || record.lag.has_progressed() || record.is_aside())
    }

    /// Lets late receivers wait for a later session no longer: they are refused from now on.
    pub fn refuse_late(&mut self) {
        self.config.job.further = false;
    }

    /// Declares that another session of the job continues the stream: a report of this session covers a part of it.
    pub fn continue_later(&mut self) {
        self.catch_up.continues = true;
    }

    /// Returns true if another session of the job continues the stream.
    pub fn is_continued(&self) -> bool {
        self.catch_up.continues
    }

    /// Receivers that received something, were expelled, and have not been heard since, with the time at which they
    /// were last heard, and true for members that were set aside as stragglers.
    pub fn missed(&self) -> impl Iterator<Item = (&str, Time, bool)> {
        self.roster.members().iter().enumerate().filter_map(|(index, member)| {
            let lost = matches!(member.outcome, MemberOutcome::Lost(_)) && self.may_go_on(index);
            let record = self.roster.record(index);
            let is_served = self.config.job.further || record.is_aside();
            let missed = lost && is_served && !self.catch_up.wanting.contains(&member.name);
            missed.then_some((member.name.as_str(), record.heard, record.is_aside()))
        })
    }

    /// State of the job for its next session: receivers, and members expelled so far.
    pub fn earlier(&self) -> EarlierSessions {
        let mut former = self.config.job.earlier.clone();
        former.sessions.push(self.config.association);
        former.ledger = self.catch_up.ledger.next();
        // Reports to earlier sessions count in the next one.
        for name in self.catch_up.reported_since.keys() {
            if let Some(index) = former.ledger.named(name) {
                former.ledger.entry_mut(index).verified = true;
            }
        }
        for (index, member) in self.roster.members().iter().enumerate() {
            let made_progress = self.may_go_on(index);
            if let Some(index) = former.ledger.named(&member.name) {
                let entry = former.ledger.entry_mut(index);
                entry.verified |= member.outcome == MemberOutcome::Verified && !self.catch_up.continues;
                entry.has_some |= made_progress;
            }
        }
        // A lost member can have everything only if everything was offered, so no late report is expected before.
        if self.sending.finishing && !self.catch_up.continues {
            for (index, member) in self.roster.members().iter().enumerate() {
                let nonce = self.roster.record(index).nonce;
                if let MemberOutcome::Lost(_) = member.outcome {
                    former.members.insert((self.config.association, member.node, nonce), member.name.clone());
                }
            }
        }
        former
    }

    /// Names of receivers that reported complete data to an earlier session since its end, with the time.
    pub fn reported_since(&self) -> impl Iterator<Item = (&str, Time)> {
        self.catch_up.reported_since.iter().map(|(name, at)| (name.as_str(), *at))
    }
}
