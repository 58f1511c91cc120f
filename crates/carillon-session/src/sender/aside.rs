//! Setting aside: members without which the others could receive much faster are left to a catch-up session.

use carillon_core::{Duration, Time};
use carillon_wire::session::MemberRole;

use super::SenderSession;
use super::state::Reply;
use super::watch::Seen;
use crate::config::Slow;
use crate::roster::MemberOutcome;
use crate::trial::{Progress, Sight, Step};

impl SenderSession {
    /// Returns true if a catch-up session serves the members that this one sets aside.
    pub(super) fn sets_aside(&self) -> bool {
        self.config.slow == Slow::Lane && self.config.serves_aside()
    }

    /// Returns true if everything offered was sent, and no more will be offered.
    fn is_all_sent(&self) -> bool {
        self.sending.finishing && self.watching.pulse.sent >= self.watching.pulse.offered
    }

    /// Messages still to be sent for the first time, by the mean size of all messages so far; `None` if the total is
    /// unknown.
    fn messages_left(&self) -> Option<f64> {
        // Data in no message take no time to send.
        let total = self.config.job.total_bytes?.saturating_sub(self.sending.unsent);
        let mean = self.sending.offered_bytes as f64 / self.watching.pulse.offered.max(1) as f64;
        (mean > 0.0).then(|| (total as f64 / mean - self.watching.pulse.sent as f64).max(0.0))
    }

    /// Tries at times how fast the fastest member could receive, and sets aside the members that cannot keep up.
    pub(super) fn try_fastest(&mut self, now: Time, awake: Time, elapsed: Duration, seen: &[Seen]) {
        if !self.sets_aside() || elapsed.is_zero() || self.config.has_roster() {
            return;
        }
        // A trial needs a protocol that measures for how long its members hold it up.
        let sender = self.hosted.machine.as_mut().and_then(|inner| inner.as_sender());
        let Some(held_up) = sender.and_then(|sender| sender.held_up(now)) else { return };
        let sight = |seen: &Seen| {
            let path = self.roster.record(seen.index).lag.path;
            Sight {
                index: seen.index,
                arrived: path.map_or(0, |path| path.arrived),
                acknowledged: seen.acknowledged,
                held: path.map_or(Duration::ZERO, |path| path.blocked),
                round_trip: path.and_then(|path| path.round_trip),
            }
        };
        let sights: Vec<Sight> = seen.iter().map(sight).collect();
        let progress = Progress {
            now: awake,
            tick: elapsed,
            held_up,
            sent: self.watching.pulse.sent,
            is_all_sent: self.is_all_sent(),
            is_waited_for: self.has_aside_waiting(),
            left: self.messages_left(),
        };
        match self.watching.pulse.trials.on_tick(progress, &sights) {
            Step::GoOn => {}
            Step::Begin => self.follow_fastest(now, true),
            Step::End(aside) => {
                self.follow_fastest(now, false);
                for (index, reason) in aside {
                    // A silent member falls under another rule: it has not shown what it could receive.
                    if !self.is_silent(awake, index) {
                        self.set_aside(now, index, reason);
                    }
                }
            }
            Step::SetAllAside(reason) => {
                // Members with everything are not awaited, and may stay.
                for one in seen.iter().filter(|one| one.awaited) {
                    self.set_aside(now, one.index, reason.clone());
                }
            }
        }
    }

    fn follow_fastest(&mut self, now: Time, on: bool) {
        self.with_inner(|inner| {
            if let Some(sender) = inner.as_sender() {
                sender.follow_fastest(now, on);
            }
        });
    }

    /// Sets a member aside: a catch-up session serves it from where it is.
    pub(super) fn set_aside(&mut self, now: Time, index: usize, reason: String) {
        let member = &self.roster.members()[index];
        // Helpers and peers serve other members, so they stay. A member that has reported needs no more data.
        if member.part == MemberRole::Receives && member.outcome == MemberOutcome::Active {
            self.note_aside(index);
            self.give_up(now, index, reason);
        }
    }

    /// Returns true if a member that was set aside waits for a catch-up session.
    fn has_aside_waiting(&self) -> bool {
        let is_aside = |index| self.roster.record(index).is_aside();
        let members = self.roster.members().iter().enumerate();
        members
            .filter(|(index, _)| is_aside(*index))
            .any(|(_, member)| self.catch_up.wanting.contains(&member.name))
    }

    /// Returns true if this session set aside all receivers that a catch-up session is to serve.
    pub fn wants_only_aside(&self) -> bool {
        let members = self.roster.members().iter().enumerate();
        let aside = members.filter(|(index, _)| self.roster.record(*index).is_aside());
        let aside: Vec<&str> = aside.map(|(_, member)| member.name.as_str()).collect();
        !self.catch_up.wanting.is_empty()
            && self.catch_up.wanting.iter().all(|name| aside.contains(&name.as_str()))
    }

    /// Releases members that reported everything [some ticks](VERIFIED_TICKS) ago, so that they need not wait for the
    /// slowest one.
    pub(super) fn release_verified(&mut self, now: Time, tick: Duration) {
        if self.config.has_roster() {
            return;
        }
        for index in 0..self.roster.members().len() {
            let member = &self.roster.members()[index];
            let (node, finished) = (member.node, member.finished);
            let is_due = finished.is_some_and(|at| now.since(at) >= tick * VERIFIED_TICKS);
            if member.outcome == MemberOutcome::Verified && is_due && !self.roster.record(index).expelled {
                // The result stays: `refuse_expelled` answers later packets of a verified member with REPORT_ACK.
                self.roster.record_mut(index).expelled = true;
                self.answering.replies.insert(node, Reply::ReportAck);
                self.release(now, node);
            }
        }
    }
}

/// Number of ticks for which a verified member stays, so that the protocol gets its last acknowledgments.
const VERIFIED_TICKS: u32 = 8;
