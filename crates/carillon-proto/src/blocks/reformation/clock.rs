//! Timer of a node during a reformation: repetitions, timeouts, and random back-off between ballots.

use std::time::Duration;

use carillon_core::{Rng, Time};

use super::view::Terms;

/// Single timer of a node.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Timing of the agreement.
    pub terms: Terms,
    /// Source of the random waits.
    rng: Rng,
    /// Time at which the timer fires; `None` while it is stopped.
    pub at: Option<Time>,
    /// Number of failed ballots since a view was last in force.
    failures: u32,
}

impl Clock {
    /// Creates a stopped timer.
    pub fn new(terms: Terms, rng: Rng) -> Self {
        let terms = Terms { interval: terms.interval.max(MIN_INTERVAL), ..terms };
        Clock { terms, rng, at: None, failures: 0 }
    }

    /// Stops the timer if it is due. Returns true if it was.
    pub fn expire(&mut self, now: Time) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }

    /// Starts the wait until a packet is repeated.
    pub fn repeat(&mut self, now: Time) {
        self.at = Some(now + self.terms.interval);
    }

    /// Starts the silence timeout of a coordinator.
    pub fn wait(&mut self, now: Time) {
        // Longer than the coordinator needs for all repetitions of one packet.
        self.at = Some(now + self.terms.interval.saturating_mul(self.terms.tries.saturating_add(1)));
    }

    /// Starts the random wait before a ballot, which another node's ballot cancels.
    pub fn wait_at_random(&mut self, now: Time) {
        self.at = Some(now + self.random(1));
    }

    /// Starts the random back-off after a failed ballot.
    pub fn back_off(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        // Ballots that collide fail together. The range doubles with each failure, so that one of them soon runs
        // alone.
        self.at = Some(now + self.random(2 << self.failures.min(MAX_DOUBLINGS)));
    }

    /// Starts the wait before the next JOIN, after `tries` of them. Returns false once the node has asked so often
    /// that it falls silent.
    pub fn ask_again(&mut self, now: Time, tries: u32) -> bool {
        let asks = tries <= self.terms.tries.saturating_mul(JOIN_TRIES_FACTOR);
        if asks {
            // The wait doubles with every fourth JOIN, up to 16 intervals.
            let wait = 1 << (tries / 4).min(4);
            self.at = Some(now + self.random(wait) + self.terms.interval);
        }
        asks
    }

    /// Stops the timer and resets the back-off, as a view is in force.
    pub fn on_view(&mut self) {
        (self.failures, self.at) = (0, None);
    }

    /// Random duration, uniform in up to this many intervals.
    fn random(&mut self, intervals: u32) -> Duration {
        let most = self.terms.interval.saturating_mul(intervals).as_nanos();
        // At least one nanosecond, so that the timer is never due at the time it starts.
        Duration::from_nanos(1).saturating_add(Duration::from_nanos(
            self.rng.below(u64::try_from(most).unwrap_or(u64::MAX).max(1)),
        ))
    }
}

/// Factor of the number of JOINs over that of other repetitions.
const JOIN_TRIES_FACTOR: u32 = 4;
/// Bound of the exponential back-off: the wait between ballots is uniform in at most two to this, plus one, intervals.
/// It stays short enough that returning nodes soon form a view.
const MAX_DOUBLINGS: u32 = 5;
/// Minimum interval, so that a timer moves on when it fires.
const MIN_INTERVAL: Duration = Duration::from_micros(1);
