//! How long a node waits, and for what.

use std::time::Duration;

use carillon_core::{Rng, Time};

use super::view::Terms;

/// The one timer of a node.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    pub terms: Terms,
    rng: Rng,
    pub at: Option<Time>,
    /// Ballots that failed since a view was in force.
    failures: u32,
}

impl Clock {
    /// It does not run.
    pub fn new(terms: Terms, rng: Rng) -> Self {
        let terms = Terms { interval: terms.interval.max(LEAST_INTERVAL), ..terms };
        Clock { terms, rng, at: None, failures: 0 }
    }

    /// Stops if it is due; returns whether it was.
    pub fn expire(&mut self, now: Time) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }

    /// Until a packet is repeated.
    pub fn repeat(&mut self, now: Time) {
        self.at = Some(now + self.terms.interval);
    }

    /// For a sign of life of a coordinator.
    pub fn wait(&mut self, now: Time) {
        self.at = Some(now + self.terms.interval.saturating_mul(self.terms.tries.saturating_add(1)));
    }

    /// Until a ballot, unless another node makes one before.
    pub fn wait_at_random(&mut self, now: Time) {
        self.at = Some(now + self.random(1));
    }

    /// A ballot has failed: until the next.
    pub fn back_off(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        self.at = Some(now + self.random(2 << self.failures.min(MOST_DOUBLINGS)));
    }

    /// Until a node that has asked so often to be taken in asks again; one that nobody takes in falls silent. Returns
    /// whether it asks now.
    pub fn ask_again(&mut self, now: Time, tries: u32) -> bool {
        let asks = tries <= self.terms.tries.saturating_mul(JOIN_PATIENCE);
        if asks {
            let wait = 1 << (tries / 4).min(4);
            self.at = Some(now + self.random(wait) + self.terms.interval);
        }
        asks
    }

    /// A view is in force.
    pub fn on_view(&mut self) {
        (self.failures, self.at) = (0, None);
    }

    /// Uniform in up to so many intervals.
    fn random(&mut self, intervals: u32) -> Duration {
        let most = self.terms.interval.saturating_mul(intervals).as_nanos();
        Duration::from_nanos(1).saturating_add(Duration::from_nanos(
            self.rng.below(u64::try_from(most).unwrap_or(u64::MAX).max(1)),
        ))
    }
}

/// A node that nobody takes in asks so many times as often as others are asked.
const JOIN_PATIENCE: u32 = 4;
/// The wait between ballots is uniform in up to twice as many intervals as 2 to this, however many have
/// failed: when those that are missing come back it does not take long.
const MOST_DOUBLINGS: u32 = 5;
/// A timer moves on when it fires.
const LEAST_INTERVAL: Duration = Duration::from_micros(1);
