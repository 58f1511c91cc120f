//! Loss event rate after RFC 5348: losses are counted by events, not by packets.
//!
//! Losses within one round-trip time are one event (section 5.2). The rate is the inverse of the weighted mean of the
//! last eight intervals between events, in which the older half weighs less (section 5.4).

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::Time;

/// Intervals between the loss events of one receiver, in packets.
#[derive(Clone, Debug, Default)]
pub struct LossIntervals {
    /// Packets since the last event began; all packets if there was none.
    open: f64,
    /// Closed intervals, newest first.
    closed: VecDeque<f64>,
    /// Time at which the last event began.
    began: Option<Time>,
}

impl LossIntervals {
    /// Records packets that were sent, and those of them that were lost. The first event closes no interval of known
    /// length; `first` gives the one to assume.
    pub fn note(&mut self, now: Time, sent: u64, lost: u64, trip: Duration, first: impl FnOnce() -> f64) {
        self.open += sent as f64;
        // Within a round-trip time the sender cannot have reacted yet, so further losses tell nothing new.
        if lost == 0 || self.began.is_some_and(|began| now.since(began) < trip) {
            return;
        }
        let interval = if self.began.is_none() { first() } else { self.open };
        // An interval contains at least the lost packet itself, so that the rate never exceeds 1.
        self.closed.push_front(interval.max(1.0));
        self.closed.truncate(WEIGHTS.len());
        (self.open, self.began) = (0.0, Some(now));
    }

    /// Loss event rate per packet; 0 before the first event.
    pub fn rate(&self) -> f64 {
        let mean = |intervals: &mut dyn Iterator<Item = f64>| {
            // Divide by the weights in use, since there may be fewer than eight intervals.
            let (sum, weights) =
                intervals.zip(WEIGHTS).fold((0.0, 0.0), |(sum, weights), (interval, weight)| {
                    (sum + interval * weight, weights + weight)
                });
            sum / weights
        };
        if self.closed.is_empty() {
            return 0.0;
        }
        // The open interval counts only once it raises the mean (section 5.4).
        let closed = mean(&mut self.closed.iter().copied());
        let with_open = mean(&mut std::iter::once(self.open).chain(self.closed.iter().copied()));
        1.0 / closed.max(with_open)
    }
}

/// Weights of the intervals, newest first (RFC 5348, section 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRIP: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn losses_within_round_trip_are_one_event() {
        let mut intervals = LossIntervals::default();
        intervals.note(at(0), 100, 1, TRIP, || 50.0);
        assert_eq!(intervals.rate(), 1.0 / 50.0);
        intervals.note(at(5), 100, 9, TRIP, || unreachable!("it is not the first"));
        assert_eq!(intervals.closed.len(), 1);
        intervals.note(at(10), 100, 9, TRIP, || unreachable!("it is not the first"));
        assert_eq!(intervals.closed, [200.0, 50.0]);
    }

    proptest! {
        #[test]
        fn rate_lies_between_extremes_of_intervals(lengths in prop::collection::vec(1..5000_u64, 9..40)) {
            let mut intervals = LossIntervals::default();
            for (number, &length) in (1..).zip(&lengths) {
                intervals.note(at(number * 20), length, 1, TRIP, || length as f64);
            }
            let last = &lengths[lengths.len() - 8..];
            let (shortest, longest) = (last.iter().min().unwrap(), last.iter().max().unwrap());
            let mean = 1.0 / intervals.rate();
            prop_assert!(mean >= *shortest as f64 - 1e-6 && mean <= *longest as f64 + 1e-6, "{mean} of {last:?}");
        }

        #[test]
        fn rate_only_falls_without_loss(steps in prop::collection::vec(1..500_u64, 1..40)) {
            let mut intervals = LossIntervals::default();
            intervals.note(at(0), 10, 1, TRIP, || 30.0);
            let mut before = intervals.rate();
            for (number, sent) in (1..).zip(steps) {
                intervals.note(at(number), sent, 0, TRIP, || unreachable!("nothing is lost"));
                prop_assert!(intervals.rate() <= before);
                before = intervals.rate();
            }
        }
    }
}
