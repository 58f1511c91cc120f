//! Retransmission timer of a sender.

use std::time::Duration;

use super::{Retransmission, RoundTrip, TimeoutMethod};

/// Current retransmission timeout.
///
/// [`TimeoutMethod::Adaptive`] is Carillon's own addition: Segovia 1996 has fixed timeouts, which suit one network
/// only. It follows RFC 6298: smoothed mean and deviation of the time from the first transmission to the last
/// acknowledgment, without samples of retransmitted messages (Karn's rule), doubled at each expiry.
#[derive(Clone, Debug)]
pub struct RetransmissionTimeout {
    method: TimeoutMethod,
    /// Present timeout, with its back-off.
    current: Duration,
    round_trip: RoundTrip,
    /// Lower bound of an adaptive timeout.
    min: Duration,
    /// Upper bound of an adaptive timeout.
    max: Duration,
    /// True if `max` bounds only the back-off and not the round-trip time.
    spares_round_trips: bool,
}

impl RetransmissionTimeout {
    /// Creates the timer with the configured value. An adaptive one stays within its bounds.
    pub fn new(config: &Retransmission) -> Self {
        let (min, max) = config.bounds;
        Self::with(config.method, config.timeout(), min, max)
    }

    /// Creates an adaptive timer with this initial value and these bounds.
    pub fn adaptive(initial: Duration, min: Duration, max: Duration) -> Self {
        Self::with(TimeoutMethod::Adaptive, initial, min, max)
    }

    /// Lets the timeout exceed `max` on a path with a longer round-trip time, so that no answer is early counted as
    /// missing.
    pub fn sparing_round_trips(self) -> Self {
        RetransmissionTimeout { spares_round_trips: true, ..self }
    }

    pub(super) fn with(method: TimeoutMethod, initial: Duration, min: Duration, max: Duration) -> Self {
        RetransmissionTimeout {
            method,
            current: initial,
            round_trip: RoundTrip::default(),
            min,
            max,
            spares_round_trips: false,
        }
    }

    /// Adds a sample: all receivers acknowledged a message this long after its only transmission.
    pub fn on_sample(&mut self, sample: Duration) {
        // A constant timeout has no back-off, and ends none.
        if self.method == TimeoutMethod::Constant {
            return;
        }
        self.round_trip.on_sample(sample);
        self.on_recovery();
    }

    /// Doubles the timeout after an expiry: RFC 6298, rule 5.5. On a measured path it doubles at most three times.
    /// Under random loss, a sender that waits ever longer would be taken for dead.
    pub fn on_expiry(&mut self) {
        if self.method == TimeoutMethod::Adaptive {
            let known = self.known().map(|known| known * MAX_BACKOFF);
            let doubled = (self.current * 2).min(self.max).min(known.unwrap_or(self.max));
            // The first timeout may exceed the bound. An expiry must not shorten it.
            self.current = self.current.max(doubled);
        }
    }

    /// Ends the back-off, since a message was completed after retransmissions. It gives no sample.
    pub fn on_recovery(&mut self) {
        // Before any sample, the doubled timeout is the best estimate.
        self.current = self.known().unwrap_or(self.current);
    }

    /// Current timeout.
    pub fn current(&self) -> Duration {
        self.current
    }

    /// Timeout from the samples, within the bounds.
    fn known(&self) -> Option<Duration> {
        let timeout = self.round_trip.timeout()?.clamp(self.min, self.max);
        // A bound below the round-trip time would make each answer late.
        let least = self.round_trip.mean().filter(|_| self.spares_round_trips);
        Some(least.map_or(timeout, |mean| timeout.max(mean + mean / 4)))
    }
}

/// Bound of the back-off: three doublings of the measured timeout.
const MAX_BACKOFF: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn constant_timeout_never_changes() {
        let mut timeout = RetransmissionTimeout::with(TimeoutMethod::Constant, 20 * MS, MS, 1000 * MS);
        timeout.on_sample(MS);
        timeout.on_expiry();
        assert_eq!(timeout.current(), 20 * MS);
    }

    #[test]
    fn adaptive_timeout_follows_samples_and_doubles() {
        let mut timeout = RetransmissionTimeout::with(TimeoutMethod::Adaptive, 100 * MS, MS, 1000 * MS);
        timeout.on_sample(10 * MS);
        assert_eq!(timeout.current(), 30 * MS); // RFC 6298 (2.2): R + 4 R/2
        timeout.on_sample(10 * MS);
        assert_eq!(timeout.current(), 25 * MS); // (2.3): deviation 5 -> 3.75
        timeout.on_expiry();
        assert_eq!(timeout.current(), 50 * MS);
        for _ in 0..20 {
            timeout.on_expiry();
        }
        assert_eq!(timeout.current(), 200 * MS, "eight times as long at most");
        timeout.on_recovery();
        assert_eq!(timeout.current(), 25 * MS);
        for _ in 0..100 {
            timeout.on_sample(10 * MS);
        }
        assert!(timeout.current() >= 12 * MS, "nothing is sent again while the answer is on its way");
    }

    #[test]
    fn bound_below_round_trip_is_exceeded() {
        let mut timeout = RetransmissionTimeout::adaptive(50 * MS, 2 * MS, 250 * MS).sparing_round_trips();
        for _ in 0..8 {
            timeout.on_expiry();
        }
        assert_eq!(timeout.current(), 250 * MS, "the bound, as long as nothing is known");
        timeout.on_sample(600 * MS);
        assert_eq!(timeout.current(), 750 * MS);
        timeout.on_expiry();
        assert_eq!(timeout.current(), 750 * MS, "not less for being late");
    }
}
