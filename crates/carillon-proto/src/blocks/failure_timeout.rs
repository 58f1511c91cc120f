//! Failure detection: number of unanswered polls after which a member has failed.

use std::time::Duration;

use carillon_core::{Kind, Parameter};

/// Failure timeout. The source of a protocol limits the number of unanswered polls, and the host sets a minimum time,
/// however short the interval between polls.
#[derive(Clone, Copy, Debug)]
pub struct FailureTimeout {
    /// Number of unanswered polls of the protocol's source.
    tries: u32,
    /// Minimum time without an answer; zero if the number alone decides.
    least: Duration,
}

impl FailureTimeout {
    /// Creates the limit of `tries` polls and at least this time.
    pub fn new(tries: u32, least: Duration) -> Self {
        FailureTimeout { tries, least }
    }

    /// Number of polls if they are sent at this interval.
    pub fn tries(&self, interval: Duration) -> u32 {
        if self.least.is_zero() {
            return self.tries;
        }
        // Number of intervals that cover the minimum time. An interval of 0 counts as a nanosecond.
        let least = self.least.as_nanos().div_ceil(interval.as_nanos().max(1)).saturating_add(1);
        self.tries.max(u32::try_from(least).unwrap_or(u32::MAX))
    }
}

/// Number of consecutive unanswered polls.
#[derive(Clone, Copy, Debug, Default)]
pub struct MissedPolls(u32);

impl MissedPolls {
    /// Records an unanswered poll that repeats at this interval. Returns true if the member has failed.
    pub fn missed(&mut self, patience: FailureTimeout, interval: Duration) -> bool {
        self.0 = self.0.saturating_add(1);
        // The interval can change from poll to poll, so the limit is computed each time.
        self.0 > patience.tries(interval)
    }

    /// Records a packet of the member.
    pub fn heard(&mut self) {
        self.0 = 0;
    }
}

/// Parameter with the minimum time until a member has failed.
pub const FAILURE_TIMEOUT: Parameter = Parameter {
    former: None,
    name: "failure_timeout",
    kind: Kind::Span,
    default: "0 ms",
    doc: "minimum time without an answer before a member counts as failed, in addition to the number \
    of unanswered polls; 0: the number alone decides, as in the source (Carillon's: in a delivery the session's member timeout)",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_time_adds_polls_at_short_intervals() {
        let ms = Duration::from_millis;
        let source = FailureTimeout::new(10, Duration::ZERO);
        assert_eq!((source.tries(ms(1)), source.tries(ms(1000))), (10, 10));
        let timed = FailureTimeout::new(10, ms(5000));
        assert_eq!((timed.tries(ms(20)), timed.tries(ms(499)), timed.tries(ms(2000))), (251, 12, 10));
        assert_eq!(timed.tries(Duration::ZERO), u32::MAX);
    }

    #[test]
    fn member_fails_after_consecutive_missed_polls() {
        let (patience, ms) = (FailureTimeout::new(2, Duration::ZERO), Duration::from_millis(1));
        let mut silence = MissedPolls::default();
        for _ in 0..2 {
            assert_eq!([1, 2, 3].map(|_| silence.missed(patience, ms)), [false, false, true]);
            silence.heard();
        }
    }
}
