//! Selection of one item in N, spread more evenly than by independent draws.

use crate::Rng;

/// Selects items of a sequence at random intervals, which are uniform from 1 to twice the mean minus 1.
#[derive(Clone, Debug)]
pub struct IntervalSampler {
    mean: u64,
    /// Number of items up to the next selected one.
    until: u64,
    rng: Rng,
}

impl IntervalSampler {
    /// Sampler that selects one item in `mean` on average; `mean` is 1 or more.
    pub fn new(mean: u64, rng: Rng) -> Self {
        let mut sampler = IntervalSampler { mean: mean.clamp(1, u64::MAX / 2), until: 0, rng };
        sampler.draw();
        sampler
    }

    /// Returns true if the next item is selected.
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
