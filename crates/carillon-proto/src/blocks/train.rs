//! What a path carries, as the packets of one round tell that went out close to each other.
//!
//! Packets that go out faster than a path carries them arrive as fast as it does (Jain and Dovrolis, *End-to-End Available Bandwidth*, 2002), while
//! the rate over a whole round trip says only how much was sent. So the window need not be doubled round by round until it fills the path. That is worth something where round trips are
//! long; in short ones it is what systems take to wake somebody that is measured.

use carillon_core::Time;

/// The packets of a round, by the answers to the questions among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    /// Its first answer.
    first: Option<Seen>,
    /// What it has told, and before it has, what the one before did.
    told: Option<Told>,
    /// It has told something.
    has_told: bool,
    /// A bottleneck was seen: from now on the window grows as the rate over whole round trips does.
    is_over: bool,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When it came, and when it was asked for.
    pub now: Time,
    pub asked: Time,
    /// Packets sent when it was asked for, and those of them that had arrived.
    pub serial: u64,
    pub arrived: u64,
}

/// What a train tells.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Packets a second.
    rate: f64,
    /// It arrived as it went out.
    kept_up: bool,
}

impl Train {
    /// The answer to a question, over a path whose round trip takes so many seconds without queues.
    pub fn on_answer(&mut self, seen: Seen, trip: f64) {
        if !trip.is_finite() || trip < LONG {
            *self = Train::default();
            return;
        }
        let Some(first) = self.first.filter(|first| seen.asked < first.now) else {
            // What it was asked about went out when an answer of the round before had come.
            self.is_over |= self.has_told && self.told.is_some_and(|told| !told.kept_up);
            (self.first, self.has_told) = (Some(seen), false);
            return;
        };
        let came = seen.arrived.saturating_sub(first.arrived);
        if came < TELLING {
            return;
        }
        // A system that was busy hands over at once what came one by one: no faster than it went out.
        let spread = seen.now.since(first.now).as_secs_f64();
        let sent = seen.asked.since(first.asked).as_secs_f64();
        let slack = trip * SLACK;
        let rate = came as f64 / (spread.max(sent) + slack);
        // What comes later, after a pause, says less.
        if !self.has_told || self.told.is_none_or(|told| rate >= told.rate) {
            let is_whole = came as f64 > seen.serial.saturating_sub(first.serial) as f64 * MOSTLY;
            let kept_up = is_whole && spread <= sent * STRETCHED + slack;
            (self.told, self.has_told) = (Some(Told { rate, kept_up }), true);
        }
    }

    /// Packets a second that the path is known to carry, if that is more than has been sent so far.
    pub fn rate(&self) -> Option<f64> {
        self.told.filter(|told| told.kept_up && !self.is_over).map(|told| told.rate)
    }

    /// How many times what arrives in a round trip may be under way in the next, if a train has told.
    pub fn gain(&self, rate: f64) -> Option<f64> {
        self.rate().map(|fastest| (fastest / rate).clamp(FILLING_GAIN, MOST_GAIN))
    }

    /// Packets a second that may leave for the next train to tell more, if one has told.
    pub fn pace(&self) -> Option<f64> {
        self.rate().map(|fastest| fastest * FASTER)
    }
}

/// Seconds that a round trip takes at least for trains to be looked at.
const LONG: f64 = 0.008;
/// Packets that tell something.
const TELLING: u64 = 32;
/// Of a round trip, what is added to the time in which a train arrives: answers do not come to the moment.
const SLACK: f64 = 1.0 / 32.0;
/// A path that carries less than a train needs draws it out by more than this.
const STRETCHED: f64 = 1.25;
/// One whose queue is full drops more than what is left of this part.
const MOSTLY: f64 = 0.6;
/// The window grows by this in a round at most: a first burst may go through where a steady one does not.
const MOST_GAIN: f64 = 8.0;
/// Packets go out so much faster than is known to be carried, so that the next train tells more.
const FASTER: f64 = 2.0;

/// While the path is being filled the window may double with each round, or grow by more if a [train](Train) has told that the path carries it.
pub(super) const FILLING_GAIN: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: f64 = 0.1;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// A round of questions, each after 16 packets, asked each `gap` microseconds from `from` on; `way` says when each is answered, and how many of the packets came.
    fn round(train: &mut Train, from: u64, gap: u64, questions: u64, way: impl Fn(u64) -> (u64, u64)) {
        for question in 0..questions {
            let asked = from + question * gap;
            let (now, came) = way(question);
            let serial = from + question * 16;
            train.on_answer(Seen { now: at(now), asked: at(asked), serial, arrived: from + came }, TRIP);
        }
    }

    #[test]
    fn a_path_that_keeps_up_lets_the_window_grow_by_as_much_as_it_carries() {
        let mut train = Train::default();
        assert_eq!(train.gain(1000.0), None);
        // 128 packets at once: they come within a millisecond, as nothing is known to be faster than a 32nd of a round trip.
        round(&mut train, 0, 0, 8, |question| (100_000 + question * 100, question * 16));
        let told = train.rate().expect("it has told");
        assert!((25_000.0..40_000.0).contains(&told), "{told}");
        assert_eq!((train.gain(1280.0), train.gain(told)), (Some(MOST_GAIN), Some(FILLING_GAIN)));
        // The next train goes out twice as fast, and keeps up.
        let before = told;
        round(&mut train, 101_000, 250, 64, |question| (201_000 + question * 250, question * 16));
        let told = train.rate().expect("it has told");
        assert!(told > before * 1.5 && told < 64_000.0, "{told}");
        assert_eq!(train.pace(), Some(told * FASTER));
        // A pause after it says nothing less.
        let serial = 101_000 + 65 * 16;
        train.on_answer(Seen { now: at(290_000), asked: at(189_000), serial, arrived: serial }, TRIP);
        assert_eq!(train.rate(), Some(told));
    }

    #[test]
    fn a_bottleneck_is_noticed_and_not_forgotten() {
        // It carries 16 packets in 2 ms; or drops half of them.
        let slow = |question: u64| (100_000 + question * 2000, question * 16);
        let full = |question: u64| (100_000 + question * 100, question * 8);
        for (way, questions) in [(&slow as &dyn Fn(u64) -> (u64, u64), 8), (&full, 8)] {
            let mut train = Train::default();
            round(&mut train, 0, 0, questions, way);
            assert_eq!((train.rate(), train.pace()), (None, None));
            for next in [200_000, 400_000] {
                round(&mut train, next, 0, 8, |question| (next + 100_000 + question, question * 16));
                assert_eq!(train.rate(), None);
            }
        }
    }

    #[test]
    fn answers_that_a_busy_system_gives_in_a_heap_are_no_bottleneck_and_no_faster_path() {
        let mut train = Train::default();
        // 16 packets each half millisecond, and nothing is answered for 8 ms in the middle.
        let late = |question: u64| {
            let now = 100_000 + question * 500;
            (if (104_000..112_000).contains(&now) { 112_000 } else { now }, question * 16)
        };
        round(&mut train, 0, 500, 64, late);
        let told = train.rate().expect("it has told");
        assert!((28_000.0..32_000.0).contains(&told), "{told}");
        // Or nothing at all until the last one, and then everything.
        let mut train = Train::default();
        round(&mut train, 0, 500, 64, |question| (140_000, question * 16));
        let told = train.rate().expect("it has told");
        assert!((28_000.0..32_000.0).contains(&told), "{told}");
    }

    #[test]
    fn short_round_trips_are_not_looked_at() {
        for trip in [f64::INFINITY, 0.0079] {
            let mut train = Train::default();
            for question in 0..8 {
                let seen =
                    Seen { now: at(5000), asked: at(0), serial: question * 16, arrived: question * 16 };
                train.on_answer(seen, trip);
            }
            assert_eq!(train.rate(), None);
        }
    }
}
