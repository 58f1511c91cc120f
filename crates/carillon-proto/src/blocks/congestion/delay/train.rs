//! Capacity estimate from packet trains.
//!
//! Packets sent faster than a path carries them arrive at the rate of the path (packet trains: Jain and Dovrolis,
//! *End-to-End Available Bandwidth*, 2002), while the rate over a whole round trip reveals only how much was sent.
//! The window therefore need not double round by round until it fills the path. This pays on long paths. On short
//! ones, the scheduling delay of hosts hides the arrival times.

use carillon_core::Time;

/// Train of packets within one round, seen through the answers to its polls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketTrain {
    /// First answer of the train.
    first: Option<TrainAnswer>,
    /// Latest estimate; the previous train's until this one has one.
    estimate: Option<Estimate>,
    /// True if this train has given an estimate.
    has_estimate: bool,
    /// True once a bottleneck was seen. Then the window grows with the rate over whole round trips.
    is_over: bool,
}

/// An answer within a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrainAnswer {
    /// Arrival of the answer.
    pub now: Time,
    /// Time of the poll.
    pub asked: Time,
    /// Packets sent when the poll was sent.
    pub serial: u64,
    /// Number of these that had arrived.
    pub arrived: u64,
}

/// Estimate from a train.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// Rate in packets per second.
    rate: f64,
    /// True if the train arrived as fast as it was sent.
    kept_up: bool,
}

impl PacketTrain {
    /// Adds an answer. `trip` is the minimum round-trip time of the path in seconds.
    pub fn on_answer(&mut self, seen: TrainAnswer, trip: f64) {
        if !trip.is_finite() || trip < MIN_ROUND_TRIP_SECONDS {
            // On a short path, the scheduling delay of hosts hides the spacing of the packets.
            *self = PacketTrain::default();
            return;
        }
        let Some(first) = self.first.filter(|first| seen.asked < first.now) else {
            // This poll was sent after an answer of the previous round had come, so a new train begins.
            self.is_over |= self.has_estimate && self.estimate.is_some_and(|estimate| !estimate.kept_up);
            (self.first, self.has_estimate) = (Some(seen), false);
            return;
        };
        let came = seen.arrived.saturating_sub(first.arrived);
        // A few packets may arrive together by chance.
        if came < MIN_TRAIN_PACKETS {
            return;
        }
        // A busy host hands over in a burst what arrived one by one. Assume it arrived no faster than it was sent.
        let spread = seen.now.since(first.now).as_secs_f64();
        let sent = seen.asked.since(first.asked).as_secs_f64();
        let slack = trip * SPREAD_SLACK;
        let rate = came as f64 / (spread.max(sent) + slack);
        // Answers after a pause would lower the estimate, so keep the highest one.
        if !self.has_estimate || self.estimate.is_none_or(|estimate| rate >= estimate.rate) {
            let is_whole = came as f64 > seen.serial.saturating_sub(first.serial) as f64 * MIN_ARRIVED_SHARE;
            let kept_up = is_whole && spread <= sent * MIN_STRETCH + slack;
            (self.estimate, self.has_estimate) = (Some(Estimate { rate, kept_up }), true);
        }
    }

    /// Capacity in packets per second, if it exceeds the present sending rate.
    pub fn rate(&self) -> Option<f64> {
        self.estimate.filter(|estimate| estimate.kept_up && !self.is_over).map(|estimate| estimate.rate)
    }

    /// Factor of the next window over the packets that arrive in a round trip, if a train gave an estimate.
    pub fn gain(&self, rate: f64) -> Option<f64> {
        self.rate().map(|fastest| (fastest / rate).clamp(FILLING_GAIN, MAX_GAIN))
    }

    /// Pacing rate for the next train, if this one gave an estimate.
    pub fn pace(&self) -> Option<f64> {
        self.rate().map(|fastest| fastest * PACING_GAIN)
    }
}

/// Minimum round-trip time in seconds at which trains are evaluated.
const MIN_ROUND_TRIP_SECONDS: f64 = 0.008;
/// Minimum number of packets of a train.
const MIN_TRAIN_PACKETS: u64 = 32;
/// Share of the round-trip time added to the duration of a train, since answers do not come exactly on time.
const SPREAD_SLACK: f64 = 1.0 / 32.0;
/// Factor by which a bottleneck stretches a train at least.
const MIN_STRETCH: f64 = 1.25;
/// Share of a train's packets that arrive at least if no queue overflows.
const MIN_ARRIVED_SHARE: f64 = 0.6;
/// Maximum growth of the window per round: a first burst may pass where a steady one does not.
const MAX_GAIN: f64 = 8.0;
/// Factor of the pacing rate over the known capacity, so that the next train can show more.
const PACING_GAIN: f64 = 2.0;

/// Factor of the window per round while the path is being filled, unless a [train](PacketTrain) has shown a higher
/// capacity.
pub(super) const FILLING_GAIN: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: f64 = 0.1;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// Sends a round of polls, one after each 16 packets, `gap` microseconds apart. `way` gives the time of each
    /// answer and the number of packets that arrived.
    fn round(train: &mut PacketTrain, from: u64, gap: u64, questions: u64, way: impl Fn(u64) -> (u64, u64)) {
        for question in 0..questions {
            let asked = from + question * gap;
            let (now, came) = way(question);
            let serial = from + question * 16;
            train.on_answer(
                TrainAnswer { now: at(now), asked: at(asked), serial, arrived: from + came },
                TRIP,
            );
        }
    }

    #[test]
    fn path_that_keeps_up_raises_gain_to_capacity() {
        let mut train = PacketTrain::default();
        assert_eq!(train.gain(1000.0), None);
        // 128 packets at once arrive within a millisecond: no rate above one train per 1/32 round trip can be
        // measured.
        round(&mut train, 0, 0, 8, |question| (100_000 + question * 100, question * 16));
        let estimate = train.rate().expect("it has told");
        assert!((25_000.0..40_000.0).contains(&estimate), "{estimate}");
        assert_eq!((train.gain(1280.0), train.gain(estimate)), (Some(MAX_GAIN), Some(FILLING_GAIN)));
        // The next train is sent twice as fast and keeps up.
        let before = estimate;
        round(&mut train, 101_000, 250, 64, |question| (201_000 + question * 250, question * 16));
        let estimate = train.rate().expect("it has told");
        assert!(estimate > before * 1.5 && estimate < 64_000.0, "{estimate}");
        assert_eq!(train.pace(), Some(estimate * PACING_GAIN));
        // A pause after it does not lower the estimate.
        let serial = 101_000 + 65 * 16;
        train.on_answer(TrainAnswer { now: at(290_000), asked: at(189_000), serial, arrived: serial }, TRIP);
        assert_eq!(train.rate(), Some(estimate));
    }

    #[test]
    fn bottleneck_is_detected_and_remembered() {
        // The path carries 16 packets in 2 ms, or drops half of them.
        let slow = |question: u64| (100_000 + question * 2000, question * 16);
        let full = |question: u64| (100_000 + question * 100, question * 8);
        for (way, questions) in [(&slow as &dyn Fn(u64) -> (u64, u64), 8), (&full, 8)] {
            let mut train = PacketTrain::default();
            round(&mut train, 0, 0, questions, way);
            assert_eq!((train.rate(), train.pace()), (None, None));
            for next in [200_000, 400_000] {
                round(&mut train, next, 0, 8, |question| (next + 100_000 + question, question * 16));
                assert_eq!(train.rate(), None);
            }
        }
    }

    #[test]
    fn burst_of_answers_changes_no_estimate() {
        let mut train = PacketTrain::default();
        // 16 packets every half millisecond, and no answers for 8 ms in the middle.
        let late = |question: u64| {
            let now = 100_000 + question * 500;
            (if (104_000..112_000).contains(&now) { 112_000 } else { now }, question * 16)
        };
        round(&mut train, 0, 500, 64, late);
        let estimate = train.rate().expect("it has told");
        assert!((28_000.0..32_000.0).contains(&estimate), "{estimate}");
        // Or no answers until the last packet, and then all of them.
        let mut train = PacketTrain::default();
        round(&mut train, 0, 500, 64, |question| (140_000, question * 16));
        let estimate = train.rate().expect("it has told");
        assert!((28_000.0..32_000.0).contains(&estimate), "{estimate}");
    }

    #[test]
    fn short_path_is_not_evaluated() {
        for trip in [f64::INFINITY, 0.0079] {
            let mut train = PacketTrain::default();
            for question in 0..8 {
                let seen = TrainAnswer {
                    now: at(5000),
                    asked: at(0),
                    serial: question * 16,
                    arrived: question * 16,
                };
                train.on_answer(seen, trip);
            }
            assert_eq!(train.rate(), None);
        }
    }
}
