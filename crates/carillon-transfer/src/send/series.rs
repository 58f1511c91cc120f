//! Live streams with late receivers: a series of sessions of one job.
//!
//! A session has a fixed list of members. When a receiver waits to join, the sender therefore ends its session at a
//! message boundary, gathers again, and continues the stream with the old members and the new ones. Messages that come
//! meanwhile wait in the queue of the stream. [`Series`] bounds how often that happens.

use std::collections::BTreeMap;
use std::time::Instant;

use carillon_core::Duration;

use crate::report::StreamPart;

/// State of a stream across its sessions.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Receivers of this session by name, once it runs.
    pub receivers: Option<BTreeMap<String, Place>>,
    /// Receivers of the session before.
    pub earlier: BTreeMap<String, Place>,
    /// Time since which a receiver waits to join.
    pub awaited_since: Option<Instant>,
    /// Time of the interruption, from the end of the session until the next one runs.
    pub interrupted: Option<Instant>,
    /// Earliest time of the next interruption.
    pub earliest: Option<Instant>,
    /// Exponent of the time without an interruption: it grows while receivers that joined late fail.
    pub patience: u32,
}

/// Place of a receiver in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// First message that is sent to its present process.
    pub first: u64,
    pub missed: u64,
    /// Bytes that it had before this session.
    pub bytes: u64,
    /// True if it joined late, or again after the sender had lost it.
    pub is_late: bool,
    /// True if it was still a member at the end of the last session.
    pub stayed: bool,
    /// Number of its earlier processes.
    pub restarts: u64,
}

impl Series {
    /// Returns true if this session was ended for a late receiver, and the stream goes on.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some() && self.receivers.is_some()
    }

    /// Bytes that a receiver had before this session.
    pub fn earlier_bytes(&self, name: &str) -> u64 {
        self.receivers.as_ref().and_then(|receivers| receivers.get(name)).map_or(0, |place| place.bytes)
    }

    /// Part of a stream of `messages` messages so far that a receiver gets.
    pub fn place(&self, name: &str, messages: Option<u64>) -> Option<StreamPart> {
        let place = self.receivers.as_ref()?.get(name)?;
        let first = Some(place.first).filter(|&first| messages.is_some_and(|messages| first < messages));
        Some(StreamPart { first, missed: place.missed, restarts: place.restarts })
    }

    /// Returns true if the stream may be interrupted now for a receiver that waits to join. Several receivers are often
    /// started together, and one interruption serves all that wait.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let since = *self.awaited_since.get_or_insert(now);
        let is_early = self.earliest.is_some_and(|earliest| now < earliest);
        !is_early && now.duration_since(since) >= COLLECTION_TIME
    }

    /// Sets the earliest time of the next interruption. One that took `pause` is followed by nine times as long
    /// without one, and by two timeouts at least. Each session in which a receiver that had joined late failed
    /// makes that time four times as long, up to 32 times, and each other session halves it again.
    pub fn rest(&mut self, now: Instant, pause: Duration, timeout: Duration) {
        let rest = (pause * PAUSE_SHARE).max(REST_TIMEOUTS * timeout);
        self.earliest = now.checked_add(rest * (1 << self.patience));
    }
}

/// Exponent of the time without an interruption after a session, in which a late receiver has failed or none has.
pub(super) fn patience_after(patience: u32, has_failed: bool) -> u32 {
    match has_failed {
        true => (patience + 2).min(MAX_PATIENCE),
        false => patience.saturating_sub(1),
    }
}

/// Time for which the sender waits for further late receivers after the first.
const COLLECTION_TIME: Duration = Duration::from_millis(250);
/// Time without an interruption, as a multiple of the time that the last one took.
const PAUSE_SHARE: u32 = 9;
/// Minimum time without an interruption, in receiver timeouts.
const REST_TIMEOUTS: u32 = 2;
/// Maximum exponent of the time without an interruption.
const MAX_PATIENCE: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Time after an interruption of this length at which the stream may be interrupted again, in tenths of a second.
    fn rest_after(pause: Duration, patience: u32) -> u32 {
        let begin = Instant::now();
        let mut series = Series { patience, awaited_since: Some(begin), ..Series::default() };
        series.rest(begin, pause, SECOND);
        (0..100_000).find(|tenths| series.is_due(begin + *tenths * SECOND / 10)).expect("it comes")
    }

    #[test]
    fn interruptions_take_a_tenth_of_the_time_at_most() {
        assert_eq!(rest_after(SECOND / 10, 0), 20, "two timeouts");
        assert_eq!(rest_after(SECOND, 0), 90);
        assert_eq!(rest_after(2 * SECOND, 0), 180);
        assert_eq!(rest_after(SECOND, 5), 32 * 90);
    }

    #[test]
    fn one_interruption_serves_receivers_that_come_together() {
        let (now, mut series) = (Instant::now(), Series::default());
        assert!(!series.is_due(now) && !series.is_due(now + COLLECTION_TIME - SECOND / 1000));
        assert!(series.is_due(now + COLLECTION_TIME));
    }

    #[test]
    fn failures_of_late_receivers_make_interruptions_rare() {
        let after =
            |failures: &[bool]| failures.iter().fold(0, |patience, &failed| patience_after(patience, failed));
        assert_eq!((after(&[true]), after(&[true; 9])), (2, 5));
        assert_eq!((after(&[true, false]), after(&[true, false, false, false])), (1, 0));
    }
}
