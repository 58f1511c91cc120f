//! Adaptive timers of SRM: constants of a [`ByDistance`](super::ByDistance) delay that follow the measured duplicates
//! and delays.
//!
//! Many duplicates lengthen the waits, and long delays shorten them (Floyd et al. 1997, section 5). Constants and
//! order of the steps are those of `Agent/SRM/Adaptive` in ns-2.35.

/// Pair of constants, (C1, C2) or (D1, D2), with the averages that adapt it.
#[derive(Clone, Debug)]
pub struct AdaptiveDelay {
    /// C1 or D1.
    pub first: f64,
    /// C2 or D2.
    pub second: f64,
    /// Duplicates in the current period.
    duplicates: f64,
    /// EWMA of the duplicates per period; `None` before the first period has ended.
    average_duplicates: Option<f64>,
    /// EWMA of the delay in round trips; `None` before the first request or repair.
    average_delay: Option<f64>,
    /// True if this member is assumed to be the closest one to the source.
    closest: bool,
    /// Decrease of `first` each time this member sends.
    sending_step: f64,
}

impl AdaptiveDelay {
    /// Creates a pair with these initial constants. `sending_step` is the decrease of `first` each time this member
    /// sends.
    pub fn new(first: f64, second: f64, sending_step: f64) -> Self {
        AdaptiveDelay {
            first,
            second,
            // Marks that no period has ended yet.
            duplicates: NO_PERIOD,
            average_duplicates: None,
            average_delay: None,
            closest: false,
            sending_step,
        }
    }

    /// Returns true if no delay has been measured yet.
    pub fn is_new(&self) -> bool {
        self.average_delay.is_none()
    }

    /// Adapts the constants before a new request or repair. `max_first` is the upper bound of C1 or D1, `group` the
    /// number of known members.
    pub fn adapt(&mut self, max_first: f64, group: f64) {
        if let Some(delay) = self.average_delay {
            self.average();
            let duplicates = self.average_duplicates.unwrap_or(NO_PERIOD);
            // The closest member sends anyway, so a shorter random part costs no duplicates.
            if std::mem::take(&mut self.closest) {
                self.second -= 0.1;
            // Too many duplicates: wait longer, mostly at random.
            } else if duplicates >= TARGET_DUPLICATES {
                self.first += 0.1;
                self.second += 0.5;
            // Few duplicates: shorten the random part if requests are late, and the fixed part if duplicates are
            // rare.
            } else if duplicates < TARGET_DUPLICATES - DUPLICATES_TOLERANCE {
                if delay > TARGET_DELAY {
                    self.second -= 0.1;
                }
                if duplicates < 0.25 {
                    self.first -= 0.05;
                }
            } else {
                self.first += 0.05;
            }
        }
        self.first = bounded(self.first, MIN_FIRST, max_first);
        self.second = bounded(self.second, MIN_SECOND, group);
    }

    /// Ends the period of counted duplicates and begins the next one.
    pub fn mark_period(&mut self) {
        self.average();
        self.duplicates = 0.0;
    }

    /// Counts a duplicate of the first round.
    pub fn count_duplicate(&mut self) {
        self.duplicates += 1.0;
    }

    /// Records the delay of the first round until its first request or repair, in round trips.
    pub fn on_delay(&mut self, round_trips: f64) {
        let average = self.average_delay.map_or(round_trips, |average| smooth(average, round_trips));
        self.average_delay = Some(average);
    }

    /// Records that this member sends in the first round.
    pub fn on_sending(&mut self, max_first: f64) {
        self.first = bounded(self.first - self.sending_step, MIN_FIRST, max_first);
        self.closest = true;
    }

    /// Records whether this member is closer than another one that sent too.
    pub fn set_closest(&mut self, closest: bool) {
        self.closest = closest;
    }

    /// Includes the duplicates of the current period in their average.
    fn average(&mut self) {
        let average = match self.average_duplicates {
            Some(average) => smooth(average, self.duplicates),
            None => self.duplicates,
        };
        // A negative average stems from before the first period.
        self.average_duplicates = (average >= 0.0).then_some(average);
    }
}

/// Gain of all averages (`alpha` in ns-2).
pub const AVERAGE_GAIN: f64 = 0.25;

/// Exponentially weighted moving average.
fn smooth(average: f64, sample: f64) -> f64 {
    (1.0 - AVERAGE_GAIN) * average + AVERAGE_GAIN * sample
}

/// Clamps a value. As in ns-2, the lower bound is tested first, as it may exceed the upper bound.
fn bounded(value: f64, least: f64, most: f64) -> f64 {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}

/// Lower bound of C1 and D1.
const MIN_FIRST: f64 = 0.5;
/// Lower bound of C2 and D2.
const MIN_SECOND: f64 = 1.0;
/// Target of the average number of duplicates.
const TARGET_DUPLICATES: f64 = 1.0;
/// Target of the average delay in round trips.
const TARGET_DELAY: f64 = 1.0;
/// Tolerance below the target of duplicates within which nothing changes.
const DUPLICATES_TOLERANCE: f64 = 0.1;
/// Number of duplicates before the first period.
const NO_PERIOD: f64 = -1.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Simulates a period with these duplicates, and a request after this delay.
    fn period(delay: &mut AdaptiveDelay, duplicates: u32, round_trips: f64) {
        delay.mark_period();
        (0..duplicates).for_each(|_| delay.count_duplicate());
        delay.on_delay(round_trips);
        delay.adapt(100.0, 100.0);
    }

    #[test]
    fn constants_move_as_in_ns2() {
        let mut delay = AdaptiveDelay::new(2.0, 2.0, 0.05);
        assert!(delay.is_new());
        delay.adapt(100.0, 100.0);
        assert_eq!((delay.first, delay.second), (2.0, 2.0), "nothing was measured");
        // With many duplicates both constants grow.
        let (mut first, mut second) = (2.0, 2.0);
        for _ in 0..5 {
            period(&mut delay, 8, 0.5);
            (first, second) = (first + 0.1, second + 0.5);
            assert!((delay.first - first).abs() < 1e-9 && (delay.second - second).abs() < 1e-9);
        }
        // Without duplicates or delay only the first shrinks, once the average is far enough below a quarter.
        for _ in 0..20 {
            period(&mut delay, 0, 0.5);
        }
        let (first, second) = (delay.first, delay.second);
        period(&mut delay, 0, 0.5);
        assert!((delay.first - (first - 0.05)).abs() < 1e-9 && delay.second == second);
        // Late requests shrink the second one too.
        (0..20).for_each(|_| period(&mut delay, 0, 5.0));
        assert!(delay.second < second - 1.0);
        let (first, second) = (delay.first, delay.second);
        period(&mut delay, 0, 5.0);
        assert!((delay.second - (second - 0.1)).abs() < 1e-9);
        assert!((delay.first - (first - 0.05).max(MIN_FIRST)).abs() < 1e-9);
    }

    #[test]
    fn closest_sender_gets_shorter_delay() {
        let mut delay = AdaptiveDelay::new(2.0, 3.0, 0.25);
        delay.on_delay(1.0);
        delay.on_sending(100.0);
        assert_eq!(delay.first, 1.75);
        delay.adapt(100.0, 100.0);
        assert_eq!((delay.first, delay.second), (1.75, 2.9));
        delay.on_sending(100.0);
        delay.set_closest(false);
        let second = delay.second;
        delay.mark_period();
        delay.adapt(100.0, 100.0);
        assert_eq!(delay.second, second, "another one is closer");
    }

    proptest! {
        #[test]
        fn constants_stay_within_bounds(
            max_first in 0.5..20.0,
            group in 1.0..1000.0,
            steps in prop::collection::vec((0..5_u8, 0.0..20.0), 1..200)
        ) {
            let mut delay = AdaptiveDelay::new(2.0, 2.0, 0.05);
            for (step, round_trips) in steps {
                match step {
                    0 => delay.mark_period(),
                    1 => delay.count_duplicate(),
                    2 => delay.on_delay(round_trips),
                    3 => delay.on_sending(max_first),
                    _ => delay.adapt(max_first, group),
                }
                if matches!(step, 3 | 4) {
                    prop_assert!((MIN_FIRST..=max_first).contains(&delay.first));
                }
                if step == 4 {
                    prop_assert!((MIN_SECOND..=group).contains(&delay.second));
                }
            }
        }
    }
}
