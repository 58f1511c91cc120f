//! How long an answer takes.

use std::time::Duration;

/// A round trip as RFC 6298 estimates it: the smoothed mean of the samples and their mean deviation. Of a retransmitted
/// message no sample is to be taken (Karn's rule).
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    /// Mean and deviation, once there was a sample.
    smoothed: Option<(Duration, Duration)>,
}

impl RoundTrip {
    /// An answer took so long.
    pub fn on_sample(&mut self, sample: Duration) {
        // RFC 6298, section 2: alpha = 1/8, beta = 1/4.
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => ((mean * 7 + sample) / 8, (deviation * 3 + mean.abs_diff(sample)) / 4),
        });
    }

    /// The smoothed mean, once an answer has come.
    pub fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// How long to wait for an answer, once one has come: RFC 6298 (2.3), K = 4, with a quarter of the round trip in
    /// the place of the clock's granularity: on a path that never varies the wait stays clear of the round trip all the
    /// same.
    pub fn timeout(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, deviation)| mean + (deviation * 4).max(mean / 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_lies_beyond_the_mean_and_within_what_the_samples_bear_out() {
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
                // The mean lies between the extremes, and the deviation is at most as great as the first sample's half
                // or the distance of the extremes.
                assert!(timeout >= least + least / 8, "{timeout:?} {least:?}");
                assert!(timeout <= most + (most / 2).max(most - least) * 4, "{timeout:?} {most:?}");
            }
        }
    }

    #[test]
    fn the_first_and_second_sample_as_the_rfc_counts() {
        let mut trip = RoundTrip::default();
        trip.on_sample(Duration::from_millis(10));
        assert_eq!(trip.timeout(), Some(Duration::from_millis(30)));
        trip.on_sample(Duration::from_millis(10));
        assert_eq!(trip.timeout(), Some(Duration::from_millis(25)));
    }
}
