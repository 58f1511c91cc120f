//! Constants of a [`ByDistance`](super::ByDistance) delay that follow what duplicates and delays were like.
//!
//! Constants and order of the steps are those of `Agent/SRM/Adaptive` in ns-2.35.

/// One pair of constants, (C1, C2) or (D1, D2), and the averages by which it is adapted.
#[derive(Clone, Debug)]
pub struct AdaptiveDelay {
    /// C1 or D1.
    pub first: f64,
    /// C2 or D2.
    pub second: f64,
    /// Duplicates of the period that runs.
    duplicates: f64,
    average_duplicates: Option<f64>,
    /// In round trips; `None` before the first request or repair.
    average_delay: Option<f64>,
    /// This member is taken for the closest one.
    closest: bool,
    /// What `first` loses when this member sends.
    sending_step: f64,
}

impl AdaptiveDelay {
    /// Begins with these constants; `first` loses so much when this member sends.
    pub fn new(first: f64, second: f64, sending_step: f64) -> Self {
        AdaptiveDelay {
            first,
            second,
            // A mark that there was no period yet.
            duplicates: NO_PERIOD,
            average_duplicates: None,
            average_delay: None,
            closest: false,
            sending_step,
        }
    }

    /// Whether no delay has been measured yet.
    pub fn is_new(&self) -> bool {
        self.average_delay.is_none()
    }

    /// A new request or repair begins: the constants are adapted. `most_first` is the greatest C1 or D1,
    /// `group` the number of members known.
    pub fn adapt(&mut self, most_first: f64, group: f64) {
        if let Some(delay) = self.average_delay {
            self.average();
            let duplicates = self.average_duplicates.unwrap_or(NO_PERIOD);
            if std::mem::take(&mut self.closest) {
                self.second -= 0.1;
            } else if duplicates >= AVE_DUPS {
                self.first += 0.1;
                self.second += 0.5;
            } else if duplicates < AVE_DUPS - EPSILON {
                if delay > AVE_DELAY {
                    self.second -= 0.1;
                }
                if duplicates < 0.25 {
                    self.first -= 0.05;
                }
            } else {
                self.first += 0.05;
            }
        }
        self.first = bounded(self.first, LEAST_FIRST, most_first);
        self.second = bounded(self.second, LEAST_SECOND, group);
    }

    /// The period in which duplicates are counted ends, and the next one begins.
    pub fn mark_period(&mut self) {
        self.average();
        self.duplicates = 0.0;
    }

    /// A duplicate of the first round.
    pub fn count_duplicate(&mut self) {
        self.duplicates += 1.0;
    }

    /// The first round took so many round trips until the first request or repair.
    pub fn on_delay(&mut self, round_trips: f64) {
        let average = self.average_delay.map_or(round_trips, |average| smooth(average, round_trips));
        self.average_delay = Some(average);
    }

    /// This member sends in the first round.
    pub fn on_sending(&mut self, most_first: f64) {
        self.first = bounded(self.first - self.sending_step, LEAST_FIRST, most_first);
        self.closest = true;
    }

    /// Another member has sent too, and its distance tells who is closer.
    pub fn set_closest(&mut self, closest: bool) {
        self.closest = closest;
    }

    fn average(&mut self) {
        let average = match self.average_duplicates {
            Some(average) => smooth(average, self.duplicates),
            None => self.duplicates,
        };
        // Below zero is what was averaged before the first period: as good as nothing.
        self.average_duplicates = (average >= 0.0).then_some(average);
    }
}

/// The gain of all averages (ns-2: `alpha`).
pub const GAIN: f64 = 0.25;

/// The exponentially weighted moving average.
fn smooth(average: f64, sample: f64) -> f64 {
    (1.0 - GAIN) * average + GAIN * sample
}

/// As in ns-2, where the least may be above the greatest: it is looked at first.
fn bounded(value: f64, least: f64, most: f64) -> f64 {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}

const LEAST_FIRST: f64 = 0.5;
const LEAST_SECOND: f64 = 1.0;
const AVE_DUPS: f64 = 1.0;
const AVE_DELAY: f64 = 1.0;
const EPSILON: f64 = 0.1;
const NO_PERIOD: f64 = -1.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A period with so many duplicates, and a request after so many round trips.
    fn period(delay: &mut AdaptiveDelay, duplicates: u32, round_trips: f64) {
        delay.mark_period();
        (0..duplicates).for_each(|_| delay.count_duplicate());
        delay.on_delay(round_trips);
        delay.adapt(100.0, 100.0);
    }

    #[test]
    fn the_constants_move_as_those_of_the_simulator_they_are_from() {
        let mut delay = AdaptiveDelay::new(2.0, 2.0, 0.05);
        assert!(delay.is_new());
        delay.adapt(100.0, 100.0);
        assert_eq!((delay.first, delay.second), (2.0, 2.0), "nothing was measured");
        // Many duplicates: both grow.
        let (mut first, mut second) = (2.0, 2.0);
        for _ in 0..5 {
            period(&mut delay, 8, 0.5);
            (first, second) = (first + 0.1, second + 0.5);
            assert!((delay.first - first).abs() < 1e-9 && (delay.second - second).abs() < 1e-9);
        }
        // None any more, and requests at once: only the first shrinks, once the average is far enough below a quarter.
        for _ in 0..20 {
            period(&mut delay, 0, 0.5);
        }
        let (first, second) = (delay.first, delay.second);
        period(&mut delay, 0, 0.5);
        assert!((delay.first - (first - 0.05)).abs() < 1e-9 && delay.second == second);
        // Requests that come late have the second shrink too.
        (0..20).for_each(|_| period(&mut delay, 0, 5.0));
        assert!(delay.second < second - 1.0);
        let (first, second) = (delay.first, delay.second);
        period(&mut delay, 0, 5.0);
        assert!((delay.second - (second - 0.1)).abs() < 1e-9);
        assert!((delay.first - (first - 0.05).max(LEAST_FIRST)).abs() < 1e-9);
    }

    #[test]
    fn who_is_closest_and_sends_comes_sooner() {
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
        fn the_constants_stay_within_their_bounds(
            most_first in 0.5..20.0,
            group in 1.0..1000.0,
            steps in prop::collection::vec((0..5_u8, 0.0..20.0), 1..200)
        ) {
            let mut delay = AdaptiveDelay::new(2.0, 2.0, 0.05);
            for (step, round_trips) in steps {
                match step {
                    0 => delay.mark_period(),
                    1 => delay.count_duplicate(),
                    2 => delay.on_delay(round_trips),
                    3 => delay.on_sending(most_first),
                    _ => delay.adapt(most_first, group),
                }
                if matches!(step, 3 | 4) {
                    prop_assert!((LEAST_FIRST..=most_first).contains(&delay.first));
                }
                if step == 4 {
                    prop_assert!((LEAST_SECOND..=group).contains(&delay.second));
                }
            }
        }
    }
}
