//! The fault injector: drops datagrams on arrival, the same for every protocol.

use carillon_core::{Probability, Rng, Seeds};

/// Decides for each datagram that arrives, in order of arrival, whether it is lost.
#[derive(Debug)]
pub(crate) struct Injector {
    drop: f64,
    rng: Rng,
}

impl Injector {
    pub(crate) fn new(drop: Probability, seeds: &Seeds) -> Self {
        Injector { drop: drop.value(), rng: seeds.stream("net.drop") }
    }

    /// Whether the next datagram is lost. Draws nothing when nothing is to be lost.
    pub(crate) fn drops(&mut self) -> bool {
        self.drop > 0.0 && self.rng.chance(self.drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(p: f64, seed: u64) -> Vec<bool> {
        let drop = Probability::new(p).expect("a probability");
        let mut injector = Injector::new(drop, &Seeds::new(seed));
        (0..10_000).map(|_| injector.drops()).collect()
    }

    #[test]
    fn equal_seeds_drop_the_same_datagrams_and_other_seeds_others() {
        assert_eq!(pattern(0.1, 1), pattern(0.1, 1));
        assert_ne!(pattern(0.1, 1), pattern(0.1, 2));
    }

    #[test]
    fn drops_the_fraction_asked_for() {
        let dropped = pattern(0.1, 1).into_iter().filter(|&d| d).count();
        assert!((880..1120).contains(&dropped), "{dropped} of 10000 is more than four deviations from 1000");
        assert!(!pattern(0.0, 1).contains(&true));
        assert!(!pattern(1.0, 1).contains(&false));
    }
}
