//! Round-trip time estimator (RFC 6298; Jacobson 1988).

use std::time::Duration;

/// Smoothed round-trip time and mean deviation as in RFC 6298. The caller must not add samples of retransmitted
/// messages (Karn's rule: Karn and Partridge 1987).
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    /// Mean and deviation, once there was a sample.
    smoothed: Option<(Duration, Duration)>,
}

impl RoundTrip {
    /// Adds a sample.
    pub fn on_sample(&mut self, sample: Duration) {
        // RFC 6298, section 2: alpha = 1/8, beta = 1/4.
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => ((mean * 7 + sample) / 8, (deviation * 3 + mean.abs_diff(sample)) / 4),
        });
    }

    /// Smoothed mean, once there was a sample.
    pub fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// Retransmission timeout, once there was a sample: RFC 6298, rule 2.3, with K = 4. A quarter of the round-trip
    /// time replaces the clock granularity, so that the timeout exceeds the round-trip time also on a path without
    /// variation.
    pub fn timeout(&self) -> Option<Duration> {
        // On a steady path the deviation approaches zero.
        self.smoothed.map(|(mean, deviation)| mean + (deviation * 4).max(mean / 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_lies_between_mean_and_sample_bounds() {
        let mut rng = carillon_core::Seeds::new(1).stream("round-trip");
        for spread in [0, 10, 1000, 1_000_000] {
            let (mut trip, mut least, mut most) = (RoundTrip::default(), Duration::MAX, Duration::ZERO);
            assert_eq!(trip.timeout(), None);
            for _ in 0..500 {
                let sample = Duration::from_micros(1000 + rng.below(spread + 1));
                (least, most) = (least.min(sample), most.max(sample));
                trip.on_sample(sample);
                assert!(trip.mean().is_some_and(|mean| least <= mean && mean <= most));
                let timeout = trip.timeout().expect("there was a sample");
                // The mean lies between the extremes. The deviation is at most half of the first sample or the
                // distance of the extremes.
                assert!(timeout >= least + least / 8, "{timeout:?} {least:?}");
                assert!(timeout <= most + (most / 2).max(most - least) * 4, "{timeout:?} {most:?}");
            }
        }
    }

    #[test]
    fn first_two_samples_follow_rfc_6298() {
        let mut trip = RoundTrip::default();
        trip.on_sample(Duration::from_millis(10));
        assert_eq!(trip.timeout(), Some(Duration::from_millis(30)));
        trip.on_sample(Duration::from_millis(10));
        assert_eq!(trip.timeout(), Some(Duration::from_millis(25)));
    }
}
