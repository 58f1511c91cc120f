//! Catch-up sessions: for receivers that came late, or that a session expelled or set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use carillon_core::{Duration, Observer, Time};
use carillon_session::{SenderPhase, Slow};

use super::open::{Content, JobSession};
use super::run::{Earlier, Next, SendRun};
use crate::run_loop::Run as _;
use crate::{Error, SendReport};

impl<O: Observer> SendRun<O> {
    /// Returns true if the session has ended and a catch-up session should follow, for waiting or possibly returning
    /// receivers.
    pub fn is_wanted(&self) -> bool {
        let goes = self.next.options.has_lanes() && self.error.is_none() && !self.quits;
        let is_due = !self.wanting().is_empty() || !self.missed().is_empty() || self.series.is_interrupted();
        goes && self.is_over() && is_due
    }

    /// Names of the receivers that wait for a catch-up session.
    pub fn wanting(&self) -> &BTreeSet<String> {
        self.driver.machine().wanting()
    }

    /// Names of the expelled receivers that may return, with the remaining time to wait for each.
    pub fn missed(&self) -> BTreeMap<String, Duration> {
        self.missed_members().into_iter().map(|(name, missed)| (name, missed.left)).collect()
    }

    fn missed_members(&self) -> BTreeMap<String, Missed> {
        let (now, options) = (self.driver.now(), &self.next.options);
        if !self.facts.goes_again || options.slow != Slow::Lane {
            return BTreeMap::new();
        }
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.missed);
        let earlier = earlier.filter(|(name, _)| !self.joined.values().any(|joined| joined == *name));
        let reported: BTreeSet<&str> = self.driver.machine().reported_since().map(|(name, _)| name).collect();
        let earlier = earlier.filter(|(name, _)| !reported.contains(name.as_str()));
        // A member that was set aside waits at the request of the sender, so time in which a session runs without it
        // does not count.
        let running = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let earlier = earlier.map(|(name, (until, is_aside))| {
            let until = if *is_aside { *until + running } else { *until };
            let left = until.saturating_duration_since(Instant::now());
            (name.clone(), Missed { left, is_aside: *is_aside })
        });
        let these = self.driver.machine().missed().map(|(name, heard, is_aside)| {
            let silent = if is_aside { Duration::ZERO } else { now.since(heard.min(now)) };
            let left = (RETURN_TIMEOUTS * options.timeout).saturating_sub(silent);
            (name.to_owned(), Missed { left, is_aside })
        });
        earlier.chain(these).filter(|(_, missed)| !missed.left.is_zero()).collect()
    }

    /// Opens a catch-up session for receivers that came late, were set aside, or were expelled and sent packets
    /// since.
    pub fn again(mut self) -> Result<SendRun<O>, Error> {
        let since = self.earlier.as_ref().and_then(|earlier| earlier.since).or(self.since);
        let mut report = self.report();
        self.mark_interrupted(&mut report);
        let missed = self.missed_members();
        // Waiting receivers get two timeouts to join, the others their remaining time.
        let least = if self.wanting().is_empty() { Duration::ZERO } else { 2 * self.next.options.timeout };
        let within = missed.values().map(|missed| missed.left).max().unwrap_or_default().max(least);
        // It starts when all waiting receivers have joined; if none is waiting, when all that may return have.
        let mut awaited: BTreeSet<String> = match self.wanting().is_empty() {
            true => missed.keys().cloned().collect(),
            false => self.wanting().clone(),
        };
        // Members of an interrupted stream come back.
        awaited.extend(self.interrupted_members());
        let within = if self.series.is_interrupted() { 2 * self.next.options.timeout } else { within };
        let series = self.next_series();
        let wanting = self.wanting().len();
        let counts = !self.driver.machine().wants_only_aside() && !self.series.is_interrupted();
        let now = Instant::now();
        let missed =
            missed.into_iter().map(|(name, missed)| (name, (now + missed.left, missed.is_aside))).collect();
        // The catch-up session reuses sockets and manifest; receivers recognize the job.
        let (endpoint, session, outgoing, tally) = self.driver.into_parts();
        let Next { job, options, name, seeds } = self.next;
        let mut further = options.further(awaited, within, counts);
        if let Some(shorter) = session.falls_back() {
            // All further sessions keep this size, so that forged sizes cost a job one detour.
            further.datagram = Some(u32::from(shorter.datagram) + endpoint.seal_bytes() as u32);
        }
        let session = JobSession { job, former: session.earlier() };
        let manifest = outgoing.manifest().clone();
        let content = outgoing.into_stream().map_or(Content::Files, Content::Continued);
        let opened = further.open_on(&name, session, endpoint, seeds, manifest, content)?;
        let mut run = opened.with(tally.inner);
        run.series = series;
        run.earlier = Some(Earlier { report, since, missed, wanting });
        Ok(run)
    }

    /// Result so far, merged with the earlier sessions.
    pub fn report(&self) -> SendReport {
        let report = self.report_of_this();
        let Some(Earlier { report: earlier, since, .. }) = &self.earlier else { return report };
        let offset = match (since, self.since) {
            (Some(first), Some(this)) => this.duration_since(*first),
            _ => Duration::ZERO,
        };
        let mut report = earlier.clone().followed_by(report, offset);
        let (now, whole) = (self.driver.now(), since.map_or(Duration::ZERO, |since| since.elapsed()));
        self.note_absent(&mut report);
        for (name, at) in self.driver.machine().reported_since() {
            report.verify(name, whole.saturating_sub(now.since(at)));
        }
        report
    }

    /// Ends the session when every receiver that might return has reported that it has everything.
    pub(super) fn look_for_the_missed(&mut self, now: Time) {
        if self.driver.machine().phase() == SenderPhase::Gathering
            && self.earlier.as_ref().is_some_and(|earlier| earlier.wanting == 0 && !earlier.missed.is_empty())
            && self.missed().is_empty()
            && self.driver.machine().members().is_empty()
        {
            self.driver.machine_mut().abort(now, "every missing receiver has reported");
        }
    }
}

/// A member that was expelled and may return.
#[derive(Clone, Copy, Debug)]
struct Missed {
    /// Time for which the sender still waits for it.
    left: Duration,
    /// True if it was set aside as a straggler, alive.
    is_aside: bool,
}

/// Time for which an expelled, silent receiver may return, in receiver timeouts since its last packet.
const RETURN_TIMEOUTS: u32 = 3;
