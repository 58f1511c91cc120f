//! Delay policies for feedback: requests, status reports, acknowledgments, and repairs by members.
//!
//! A random delay spreads the feedback of many receivers, and lets one receiver's feedback suppress that of the
//! others (RFC 3208, section 6; Floyd et al. 1997).

use std::time::Duration;

use carillon_core::{Draws, Rng, Seeds};

/// Policy for the delay before feedback, which avoids collisions and allows suppression.
pub trait FeedbackDelay {
    /// Delay before this attempt, counted from 0. `distance` is the distance to the destination in seconds.
    fn delay(&mut self, attempt: u32, distance: f64) -> Duration;
}

/// Constant delay.
impl FeedbackDelay for Duration {
    fn delay(&mut self, _attempt: u32, _distance: f64) -> Duration {
        *self
    }
}

/// Uniform delay in `[0, most)`: the back-off of negative acknowledgments.
#[derive(Debug)]
pub struct Uniform {
    /// Upper bound in nanoseconds.
    most: u64,
    /// Source of randomness.
    draws: Draws,
}

impl Uniform {
    /// Creates the policy with the random stream of this name.
    pub fn new(most: Duration, seeds: &Seeds, stream: &str) -> Self {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Uniform { most, draws: seeds.draws(stream) }
    }
}

impl FeedbackDelay for Uniform {
    fn delay(&mut self, _attempt: u32, _distance: f64) -> Duration {
        match self.most {
            // An empty range holds no number to draw.
            0 => Duration::ZERO,
            most => Duration::from_nanos(self.draws.with(|rng| rng.below(most))),
        }
    }
}

/// Exponential back-off: twice as long at each attempt, up to a bound.
#[derive(Clone, Copy, Debug)]
pub struct Doubling {
    /// Delay before the first attempt.
    pub first: Duration,
    /// Upper bound of later delays, unless the first is longer.
    pub most: Duration,
}

impl FeedbackDelay for Doubling {
    fn delay(&mut self, attempt: u32, _distance: f64) -> Duration {
        let factor = 1u32.checked_shl(attempt).unwrap_or(u32::MAX);
        let most = self.most.max(self.first);
        // A factor beyond 2^31 exceeds any bound, unless the delay is zero.
        self.first.saturating_mul(factor).min(most)
    }
}

/// Delay by the distance d, longer at each attempt: d (first + second U(0, 1)) growth^attempt (SRM's requests and
/// repairs).
#[derive(Debug)]
pub struct ByDistance<'a> {
    /// C1 or D1.
    pub first: f64,
    /// C2 or D2.
    pub second: f64,
    /// Growth factor per attempt, and the number of attempts at which it stops.
    pub growth: (f64, u32),
    /// Source of randomness.
    pub draws: &'a mut Draws,
}

impl FeedbackDelay for ByDistance<'_> {
    fn delay(&mut self, attempt: u32, distance: f64) -> Duration {
        // Uniform in [first, first + second) times the distance (Floyd et al. 1997).
        let seconds = (self.first + self.second * self.draws.with(Rng::unit)) * distance;
        let (growth, most) = self.growth;
        // Repeated multiplication gives the same result on all platforms, which `powi` does not promise. The number of
        // steps is bounded, since attempts are not.
        in_seconds(seconds, (0..attempt.min(most)).fold(1.0, |factor, _| factor * growth))
    }
}

/// Delay of `seconds` times `factor`, between the minimum and a day.
pub fn in_seconds(seconds: f64, factor: f64) -> Duration {
    // The minimum applies before the factor, so that attempts back off at distance zero too.
    let seconds = seconds.max(MIN_DELAY.as_secs_f64()) * factor;
    Duration::from_secs_f64(seconds.min(MAX_DELAY.as_secs_f64()))
}

/// Minimum delay, so that nodes at distance zero do not repeat a request at the same instant.
pub const MIN_DELAY: Duration = Duration::from_micros(10);
/// Maximum delay: a day.
const MAX_DELAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_is_bounded_and_never_overflows() {
        let ms = Duration::from_millis;
        let mut delay = Doubling { first: ms(10), most: ms(35) };
        let waits: Vec<Duration> = (0..4).map(|attempt| delay.delay(attempt, 0.0)).collect();
        assert_eq!(waits, [ms(10), ms(20), ms(35), ms(35)]);
        assert_eq!((delay.delay(32, 0.0), delay.delay(u32::MAX, 0.0)), (ms(35), ms(35)));
        let mut long = Doubling { first: ms(50), most: ms(35) };
        assert_eq!((long.delay(0, 0.0), long.delay(1, 0.0)), (ms(50), ms(50)));
        let mut endless = Doubling { first: Duration::MAX, most: Duration::MAX };
        assert_eq!(endless.delay(9, 0.0), Duration::MAX);
    }

    #[test]
    fn uniform_fills_range_and_draws_nothing_if_empty() {
        let seeds = Seeds::new(1);
        let mut delay = Uniform::new(Duration::from_micros(100), &seeds, "a");
        let waits: Vec<u128> = (0..1000).map(|_| delay.delay(0, 0.0).as_nanos()).collect();
        assert!(waits.iter().all(|&wait| wait < 100_000));
        assert!(waits.iter().any(|&wait| wait < 5_000) && waits.iter().any(|&wait| wait > 95_000));
        let mut none = Uniform::new(Duration::ZERO, &seeds, "a");
        assert_eq!(none.delay(3, 1.0), Duration::ZERO);
        none.most = 100_000;
        assert_eq!(none.delay(3, 1.0).as_nanos(), waits[0]);
    }

    #[test]
    fn distance_delay_stays_in_range_and_grows_to_limit() {
        let mut draws = Seeds::new(1).draws("a");
        for (attempt, factor) in [(0, 1.0), (1, 3.0), (2, 9.0), (3, 9.0), (u32::MAX, 9.0)] {
            for _ in 0..100 {
                let mut delay = ByDistance { first: 2.0, second: 1.0, growth: (3.0, 2), draws: &mut draws };
                let wait = delay.delay(attempt, 0.010).as_secs_f64() / factor;
                assert!((0.02..=0.03 + 1e-9).contains(&wait), "{attempt}: {wait}");
            }
        }
        let mut delay = ByDistance { first: 0.0, second: 0.0, growth: (2.0, 9), draws: &mut draws };
        assert_eq!(delay.delay(0, 0.0), MIN_DELAY);
        assert_eq!(in_seconds(1e12, 1.0), MAX_DELAY);
    }
}
