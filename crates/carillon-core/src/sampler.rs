//! One thing in so many, spread more evenly than by chance alone.

use crate::Rng;

/// Says of one thing after the other whether it is chosen: one in so many is, and from one to the next their number is
/// uniform about this mean, from 1 to twice as many less one.
#[derive(Clone, Debug)]
pub struct IntervalSampler {
    mean: u64,
    /// Things up to the next one that is chosen.
    until: u64,
    rng: Rng,
}

impl IntervalSampler {
    /// One in `mean`, which is 1 or more.
    pub fn new(mean: u64, rng: Rng) -> Self {
        let mut sampler = IntervalSampler { mean: mean.clamp(1, u64::MAX / 2), until: 0, rng };
        sampler.draw();
        sampler
    }

    /// Whether the next one is.
    pub fn selects(&mut self) -> bool {
        self.until -= 1;
        let chosen = self.until == 0;
        if chosen {
            self.draw();
        }
        chosen
    }

    fn draw(&mut self) {
        self.until = 1 + self.rng.below(2 * self.mean - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seeds;

    #[test]
    fn gaps_average_the_mean_and_stay_below_twice_the_mean() {
        for mean in [1, 5, 10, 25] {
            let mut sampler = IntervalSampler::new(mean, Seeds::new(3).stream("test"));
            let chosen: Vec<u64> = (1..=10_000).filter(|_| sampler.selects()).collect();
            assert!((chosen.len() as u64 * mean).abs_diff(10_000) < 900, "{} of 10000", chosen.len());
            let gaps: Vec<u64> = chosen.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(gaps.iter().min().zip(gaps.iter().max()), Some((&1, &(2 * mean - 1))));
        }
    }
}
