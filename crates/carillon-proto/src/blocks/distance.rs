//! Smoothed estimate of the distance to a node.

use std::time::Duration;

use super::MIN_DELAY;

/// Distance in seconds, as an EWMA over samples.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    /// Average in seconds; `None` before the first sample.
    value: Option<f64>,
    /// Weight of a new sample.
    gain: f64,
}

impl Distance {
    /// Creates an estimate without samples.
    pub fn new(gain: f64) -> Self {
        Distance { value: None, gain }
    }

    /// Adds a sample. Returns the smoothed distance.
    pub fn sample(&mut self, distance: f64) -> f64 {
        let value = self.value.map_or(distance, |old| (1.0 - self.gain) * old + self.gain * distance);
        self.value = Some(value);
        value
    }

    /// Converts a time span to a number of round trips.
    pub fn round_trips(&self, span: Duration) -> f64 {
        let round_trip = 2.0 * self.value.unwrap_or_default();
        // The minimum keeps the quotient finite at distance zero.
        span.as_secs_f64() / round_trip.max(MIN_DELAY.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_lies_between_samples() {
        let mut rng = carillon_core::Seeds::new(1).stream("distance");
        for gain in [0.25, 0.5, 1.0] {
            let mut distance = Distance::new(gain);
            let first = rng.unit();
            assert_eq!(distance.sample(first), first, "there is nothing to smooth it with");
            let (mut least, mut most) = (first, first);
            for _ in 0..1000 {
                let sample = rng.unit();
                (least, most) = (least.min(sample), most.max(sample));
                let smoothed = distance.sample(sample);
                assert!((least..=most).contains(&smoothed) && (gain < 1.0 || smoothed == sample));
                let trips = distance.round_trips(Duration::from_secs(1));
                assert!((trips * 2.0 * smoothed - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn zero_distance_gives_finite_round_trips() {
        assert!(Distance::new(1.0).round_trips(Duration::from_secs(1)).is_finite());
    }
}
