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
