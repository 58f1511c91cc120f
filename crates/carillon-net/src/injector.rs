//! The fault injector: drops arriving datagrams before any protocol sees them.

use carillon_core::{IntervalSampler, Probability, Rng, Seeds};

/// Decides for each arriving datagram, in order of arrival, whether it is dropped.
#[derive(Debug)]
pub(crate) struct Injector {
    drop: f64,
    rng: Rng,
    one_in: Option<IntervalSampler>,
}

impl Injector {
    pub(crate) fn new(drop: Probability, seeds: &Seeds) -> Self {
        Injector { drop: drop.value(), rng: seeds.stream("net.drop"), one_in: None }
    }

    /// Drops datagrams at these intervals as well.
    pub(crate) fn drop_one_in(&mut self, one_in: IntervalSampler) {
        self.one_in = Some(one_in);
    }

    /// Returns true if the next datagram is dropped. Draws no random number without configured loss.
    #[inline]
    pub(crate) fn drops(&mut self) -> bool {
        let chosen = self.one_in.as_mut().is_some_and(IntervalSampler::selects);
        chosen || (self.drop > 0.0 && self.rng.chance(self.drop))
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
    fn injector_drops_are_determined_by_the_seed() {
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

    #[test]
    fn interval_drops_add_to_the_share() {
        for (share, expected) in [(0.0, 2000), (0.5, 6000)] {
            let mut injector = Injector::new(Probability::new(share).expect("a share"), &Seeds::new(1));
            injector.drop_one_in(IntervalSampler::new(5, Seeds::new(2).stream("one in")));
            let dropped = (0..10_000).filter(|_| injector.drops()).count();
            assert!(dropped.abs_diff(expected) < 250, "{dropped} of 10000 are not {expected}");
        }
    }
}
