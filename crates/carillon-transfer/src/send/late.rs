//! Late receivers of a live stream: interruptions that let them in.

use std::collections::BTreeMap;
use std::time::Instant;

use carillon_core::Observer;
use carillon_session::{Member, MemberOutcome, SenderPhase};

use super::run::SendRun;
use super::series::{Place, Series, patience_after};
use crate::files::stream_position;
use crate::network::detached;
use crate::report::{Outcome, SendReport};

impl<O: Observer> SendRun<O> {
    /// Interrupts a live stream if a receiver waits to join, and none has interrupted it for a while.
    pub(super) fn look_for_the_late(&mut self) {
        if !self.facts.series || self.driver.machine().phase() != SenderPhase::Running {
            return;
        }
        let now = Instant::now();
        if self.series.receivers.is_none() {
            let Some(first) = self.driver.application().begins_with() else { return };
            self.begin_series(now, first);
        }
        if self.driver.machine().wanting().is_empty() || self.series.interrupted.is_some() {
            return;
        }
        if self.series.is_due(now) && self.driver.application_mut().pause() {
            self.series.interrupted = Some(now);
            self.driver.machine_mut().continue_later();
            self.driver.endpoint().waker().wake();
        }
    }

    /// Notes the places of the members in a session that begins with the message `first`.
    fn begin_series(&mut self, now: Instant, first: u64) {
        let job = self.next.job.0;
        let mut receivers = BTreeMap::new();
        let mut all_resume = true;
        for member in self.driver.machine().members().iter().filter(|member| member.part.receives()) {
            all_resume &= detached(&member.attached).0.is_some();
            let before = self.series.earlier.get(&member.name).copied();
            let position = stream_position(&member.attached, job);
            let stayed = before.is_some_and(|before| before.stayed);
            let is_late = before.is_some_and(|before| before.is_late) || !stayed && self.earlier.is_some();
            let place = match (position, before) {
                (Some(position), Some(before)) => {
                    Place { missed: before.missed + first.saturating_sub(position), is_late, ..before }
                }
                _ => Place {
                    first,
                    missed: first,
                    bytes: 0,
                    is_late,
                    stayed: true,
                    restarts: before.map_or(0, |before| before.restarts + 1),
                },
            };
            receivers.insert(member.name.clone(), place);
        }
        self.series.receivers = Some(receivers);
        if let Some(since) = self.series.interrupted.take() {
            self.series.rest(now, now.duration_since(since), self.next.options.timeout);
        }
        // Members of an earlier release cannot continue in another session.
        if !all_resume {
            self.driver.machine_mut().refuse_late();
        }
    }

    /// Names of the members of an interrupted session that received all of it.
    pub(super) fn interrupted_members(&self) -> Vec<String> {
        let verified = |member: &&Member| member.outcome == MemberOutcome::Verified && member.part.receives();
        match self.series.is_interrupted() {
            true => {
                let members = self.driver.machine().members().iter();
                members.filter(verified).map(|member| member.name.clone()).collect()
            }
            false => Vec::new(),
        }
    }

    /// State of the stream for the next session.
    pub(super) fn next_series(&mut self) -> Series {
        let series = std::mem::take(&mut self.series);
        let mut earlier = series.receivers.unwrap_or(series.earlier);
        let mut has_failed = false;
        for member in self.driver.machine().members() {
            let Some(place) = earlier.get_mut(&member.name) else { continue };
            place.bytes += member.bytes;
            place.stayed = matches!(member.outcome, MemberOutcome::Active | MemberOutcome::Verified);
            has_failed |= place.is_late && !place.stayed;
        }
        Series {
            earlier,
            // Without an interruption the session ended because no member was left.
            interrupted: Some(series.interrupted.unwrap_or_else(Instant::now)),
            patience: patience_after(series.patience, has_failed),
            ..Series::default()
        }
    }

    /// Corrects the results of members of an interrupted session: they have everything only if they came back.
    pub(super) fn note_absent(&self, report: &mut SendReport) {
        if !self.facts.series {
            return;
        }
        let members = self.driver.machine().members();
        let is_over = self.driver.machine().phase() > SenderPhase::Gathering && !self.quits;
        for one in &mut report.receivers {
            let is_here = members.iter().any(|member| member.name == one.name);
            if one.outcome == Outcome::Receiving && !is_here && is_over {
                one.outcome = Outcome::Lost("did not come back after an interruption".to_owned());
            }
        }
    }

    /// Marks the members of an interrupted session: they have a part of the stream.
    pub(super) fn mark_interrupted(&self, report: &mut SendReport) {
        if !self.series.is_interrupted() {
            return;
        }
        let names = self.interrupted_members();
        for one in report.receivers.iter_mut().filter(|one| names.contains(&one.name)) {
            (one.outcome, one.time) = (Outcome::Receiving, None);
        }
    }
}
