//! Further sessions: of those who came late to one, or were given up by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use carillon_core::{Duration, Observer, Time};
use carillon_proto::session::{SenderPhase, Slow};

use super::open::JobSession;
use super::run::{Earlier, Next, SendRun};
use crate::run_loop::Run as _;
use crate::{Error, SendReport};

impl<O: Observer> SendRun<O> {
    /// Whether somebody is to be served in a further session now that this one is over, or may come back for one.
    pub fn is_wanted(&self) -> bool {
        let goes = self.next.options.has_lanes() && self.error.is_none() && !self.quits;
        goes && self.is_over() && (!self.wanting().is_empty() || !self.missed().is_empty())
    }

    /// The names of those who are.
    pub fn wanting(&self) -> &BTreeSet<String> {
        self.driver.machine().wanting()
    }

    /// The names of those who were given up and may come back, and how long it is worth waiting for each.
    pub fn missed(&self) -> BTreeMap<String, Duration> {
        let (now, options) = (self.driver.now(), &self.next.options);
        let waits = self.facts.goes_again && options.slow == Slow::Lane;
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.missed);
        let earlier = earlier.filter(|(name, _)| !self.joined.values().any(|joined| joined == *name));
        let reported: BTreeSet<&str> = self.driver.machine().reported_since().map(|(name, _)| name).collect();
        let earlier = earlier.filter(|(name, _)| !reported.contains(name.as_str()));
        let left =
            earlier.map(|(name, until)| (name.clone(), until.saturating_duration_since(Instant::now())));
        let these = self.driver.machine().missed().map(|(name, heard)| {
            let silent = now.since(heard.min(now));
            (name.to_owned(), (RETURN_TIMEOUTS * options.timeout).saturating_sub(silent))
        });
        left.chain(these).filter(|(_, left)| waits && !left.is_zero()).collect()
    }

    /// A further session, of those who came late to this one or were given up by it and have been heard since.
    pub fn again(self) -> Result<SendRun<O>, Error> {
        let since = self.earlier.as_ref().and_then(|earlier| earlier.since).or(self.since);
        let report = self.report();
        let missed = self.missed();
        // Those who are there have a while to join; of the others each its time.
        let least = if self.wanting().is_empty() { Duration::ZERO } else { 2 * self.next.options.timeout };
        let within = missed.values().copied().max().unwrap_or_default().max(least);
        // It starts as soon as all are there that are known to be; if none is, all that may come back.
        let awaited = match self.wanting().is_empty() {
            true => missed.keys().cloned().collect(),
            false => self.wanting().clone(),
        };
        let wanting = self.wanting().len();
        let counts = !self.driver.machine().wants_only_aside();
        let missed = missed.into_iter().map(|(name, left)| (name, Instant::now() + left)).collect();
        let (endpoint, session, outgoing, tally) = self.driver.into_parts();
        let Next { job, options, name, seeds } = self.next;
        let mut further = options.further(awaited, within, counts);
        if let Some(shorter) = session.falls_back() {
            // All further sessions keep this size, so that forged sizes cost a job one detour.
            further.datagram = Some(u32::from(shorter.datagram) + endpoint.seal_bytes() as u32);
        }
        let session = JobSession { job, former: session.earlier() };
        let opened = further.open_on(&name, session, endpoint, seeds, outgoing.manifest().clone(), false)?;
        let mut run = opened.with(tally.inner);
        run.earlier = Some(Earlier { report, since, missed, wanting });
        Ok(run)
    }

    /// What has become of it so far, with what became of the sessions before.
    pub fn report(&self) -> SendReport {
        let report = self.report_of_this();
        let Some(Earlier { report: earlier, since, .. }) = &self.earlier else { return report };
        let offset = match (since, self.since) {
            (Some(first), Some(this)) => this.duration_since(*first),
            _ => Duration::ZERO,
        };
        let mut report = earlier.clone().followed_by(report, offset);
        let (now, whole) = (self.driver.now(), since.map_or(Duration::ZERO, |since| since.elapsed()));
        for (name, at) in self.driver.machine().reported_since() {
            report.verify(name, whole.saturating_sub(now.since(at)));
        }
        report
    }

    /// Ends when all that might come back have said that they have everything.
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

/// Who was given up and is not heard may come back for so many member timeouts since it was heard last.
const RETURN_TIMEOUTS: u32 = 3;
