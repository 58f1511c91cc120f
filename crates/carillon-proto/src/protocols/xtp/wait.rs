//! WTIMER, the wait for a requested status, as in the thesis and as repaired.

use std::time::Duration;

use carillon_core::{BuildContext, Config};

use crate::blocks::RoundTrip;

/// Rules of WTIMER.
#[derive(Clone, Copy, Debug)]
pub(super) struct WtimerRules {
    /// WTIMER before the first RTT sample.
    initial: Duration,
    min: Duration,
    /// Upper bound and maximum number of doublings; `None` in the thesis's behaviour.
    bounds: Option<(Duration, u32)>,
}

impl WtimerRules {
    pub fn new(context: &BuildContext, config: &Config) -> Self {
        let span = |name: &str| config.span(name).at(context.bit_rate);
        let is_repaired = config.choice("handshake") == "repaired";
        WtimerRules {
            initial: span("wtimer").max(MIN_WTIMER),
            min: span("wtimer_min").max(MIN_WTIMER),
            bounds: is_repaired.then(|| (span("wtimer_max").max(MIN_WTIMER), MAX_DOUBLINGS)),
        }
    }

    /// Returns true if the back-off is bounded and RTT samples belong to the answered request.
    pub fn is_repaired(&self) -> bool {
        self.bounds.is_some()
    }

    /// WTIMER for the awaited receivers' RTT estimators, after a number of consecutive expiries.
    pub fn wait<'a>(&self, silent_rtts: impl Iterator<Item = &'a RoundTrip>, expiries: u32) -> Duration {
        let (mut mean, mut base) = (Duration::ZERO, None);
        for trip in silent_rtts {
            mean = mean.max(trip.mean().unwrap_or_default());
            base = base.max(Some(trip.timeout().unwrap_or(self.initial)));
        }
        let base = base.unwrap_or(self.initial).max(self.min);
        match self.bounds {
            // A single late answer does not raise the bound; a path that is always longer does.
            Some((max, doublings)) => {
                (base * 2_u32.pow(expiries.min(doublings))).min(max.max(self.min).max(mean + mean / 4))
            }
            // Three weeks, in practice without bound.
            None => base.saturating_mul(2_u32.saturating_pow(expiries.min(20))).min(MAX_UNBOUNDED_WTIMER),
        }
    }
}

const MIN_WTIMER: Duration = Duration::from_micros(100);
const MAX_UNBOUNDED_WTIMER: Duration = Duration::from_secs(1_800_000);
const MAX_DOUBLINGS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repaired_wtimer_is_bounded() {
        let mut trip = RoundTrip::default();
        let rules = |bounds| WtimerRules { initial: MS * 500, min: MS * 10, bounds };
        let (thesis, repaired) = (rules(None), rules(Some((MS * 1000, 3))));
        for rules in [thesis, repaired] {
            assert_eq!(rules.wait([&trip].into_iter(), 0), MS * 500);
        }
        trip.on_sample(MS * 10);
        let waits = |rules: WtimerRules, trip: &RoundTrip| {
            [0, 1, 3, 4, 12].map(|n| rules.wait([trip].into_iter(), n).as_millis())
        };
        assert_eq!(waits(thesis, &trip), [30, 60, 240, 480, 122_880]);
        assert_eq!(waits(repaired, &trip), [30, 60, 240, 240, 240]);
        trip.on_sample(MS * 2000);
        assert!(trip.timeout().unwrap() > MS * 2000);
        assert_eq!(waits(repaired, &trip)[0], 1000, "one answer that came late");
        trip.on_sample(MS * 100_000);
        let mean = trip.mean().unwrap();
        assert!(mean > MS * 10_000);
        assert_eq!(repaired.wait([&trip].into_iter(), 9), mean + mean / 4, "not shorter than the path");
        assert!(thesis.wait([&trip].into_iter(), u32::MAX) <= MAX_UNBOUNDED_WTIMER);
        let min = WtimerRules { min: MS * 3000, ..repaired };
        assert_eq!(min.wait([].into_iter(), 9), MS * 3000, "not shorter than wtimer_min");
    }

    const MS: Duration = Duration::from_millis(1);
}
