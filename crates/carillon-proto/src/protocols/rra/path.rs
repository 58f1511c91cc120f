//! What the path to one receiver carries, and how much may therefore be under way.
//!
//! Loss says nothing of a bottleneck where loss is random, and delay little where processes share a
//! machine. So the window is never less than what arrives asks for: the greatest rate at which packets were seen
//! to reach the receiver, times the least round trip, and a bounded queue on top (Cardwell et al.,
//! *BBR: Congestion-Based Congestion Control*, 2016, from which the filters are; the bounded queue and
//! the absence of pacing are Carillon's). Beyond that it grows as long as neither a queue nor more loss than
//! usual is seen: lost questions make the sender pause, and what arrives is then less than what could.

use std::time::Duration;

use carillon_core::Time;

/// The sender's model of the path to one receiver.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// What the receiver last said had reached it, and when.
    last: Mark,
    /// Packets a second that arrived, at most.
    rate: Windowed,
    /// Round trip in seconds, at least, as its negative.
    least: Windowed,
    /// Part of the packets that is lost, smoothed, and the least it was, as its negative.
    loss: f64,
    least_loss: Windowed,
    /// Rounds in which the rate has not grown any more, while the path is being filled.
    flat: u32,
    /// The rate that the next round is compared with, and when that round begins.
    full: (f64, Time),
    /// When the next round begins in which the window may grow.
    round: Time,
    /// Packets that may be under way to it.
    window: f64,
}

/// How many packets had reached a receiver at some time, as far as the sender knew, and of how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    arrived: u64,
    serial: u64,
    at: Option<Time>,
}

/// What an answer says of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// When the question was asked, and what was known then.
    pub asked: Time,
    pub then: Mark,
    /// Packets sent up to the question, and since.
    pub serial: u64,
    pub since: u64,
    /// Packets that have reached the receiver, modulo 2^32.
    pub arrived: u32,
}

impl Path {
    /// A path of which nothing is known.
    pub fn new() -> Self {
        Path {
            last: Mark { arrived: 0, serial: 0, at: None },
            rate: Windowed::default(),
            least: Windowed::default(),
            loss: 0.0,
            least_loss: Windowed::default(),
            flat: 0,
            full: (0.0, Time::ZERO),
            round: Time::ZERO,
            window: FIRST_WINDOW,
        }
    }

    /// What is known now, to be kept with a question that is asked now.
    pub fn mark(&self) -> Mark {
        self.last
    }

    /// Packets that may be under way.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// The receiver answers.
    pub fn on_answer(&mut self, now: Time, answer: Answer) {
        let Answer { asked, then, serial, since, arrived } = answer;
        let step = arrived.wrapping_sub(self.last.arrived as u32);
        // An older answer overtaken by a newer one counts backwards.
        if step > u32::MAX / 2 {
            return;
        }
        self.last = Mark { arrived: self.last.arrived + u64::from(step), serial, at: Some(now) };
        let round_trip = now.since(asked).as_secs_f64();
        self.least.note(now, -round_trip, LEAST_MEMORY);
        // Over a round trip at least, so that answers that come in a heap do not look like a fast path.
        let begin = then.at.unwrap_or(asked);
        let span = now.since(begin.min(asked)).as_secs_f64();
        let came = (self.last.arrived - then.arrived) as f64;
        if span > 0.0 {
            let memory = now.since(asked).saturating_mul(RATE_ROUNDS).max(RATE_MEMORY);
            self.rate.note(now, came / span, memory);
        }
        self.note_loss(now, came, serial.saturating_sub(then.serial) as f64);
        let (rate, least) = (self.rate.greatest(), -self.least.greatest());
        self.note_round(now, asked, rate);
        // What came before the first answers was little, and says little.
        let (gain, floor) = match self.flat < FLAT_ROUNDS {
            true => (FILLING_GAIN, FIRST_WINDOW),
            false => (GAIN, LEAST_WINDOW),
        };
        let asked_for = (rate * (gain * least + QUEUE.as_secs_f64())).max(floor);
        let queued = round_trip > least + QUEUE.as_secs_f64() / 2.0;
        let congested = queued || self.loss > MORE_LOSS - self.least_loss.greatest();
        if congested {
            self.window = asked_for;
        } else if asked >= self.round {
            self.round = now;
            // Twice what was made use of, so that it does not grow while there is nothing to send.
            self.window = asked_for.max((self.window * GROWTH).min(since as f64 * 2.0));
        } else {
            self.window = self.window.max(asked_for);
        }
    }

    /// Nothing came of what was sent: it may be too much.
    pub fn on_silence(&mut self) {
        self.window = (self.window / 2.0).max(FIRST_WINDOW.min(self.window));
    }

    fn note_loss(&mut self, now: Time, came: f64, sent: f64) {
        if sent > 0.0 {
            let weight = (sent / LOSS_PACKETS).min(1.0);
            self.loss += weight * ((1.0 - came / sent).max(0.0) - self.loss);
        }
        self.least_loss.note(now, -self.loss, LEAST_MEMORY);
    }

    /// The path is full once its rate has not grown by a quarter in three rounds.
    fn note_round(&mut self, now: Time, asked: Time, rate: f64) {
        if self.flat >= FLAT_ROUNDS || asked < self.full.1 {
            return;
        }
        if rate >= self.full.0 * 1.25 {
            self.full.0 = rate;
            self.flat = 0;
        } else {
            self.flat += 1;
        }
        self.full.1 = now;
    }
}

/// The greatest of the values of the last one to two spans of time.
#[derive(Clone, Copy, Debug, Default)]
struct Windowed {
    before: Option<f64>,
    current: Option<f64>,
    since: Time,
}

impl Windowed {
    fn note(&mut self, now: Time, value: f64, memory: Duration) {
        if self.current.is_none() || now.since(self.since) >= memory {
            self.before = self.current.take();
            self.since = now;
        }
        self.current = Some(self.current.map_or(value, |greatest| greatest.max(value)));
    }

    fn greatest(&self) -> f64 {
        self.before.into_iter().chain(self.current).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Packets under way before anything is known.
const FIRST_WINDOW: f64 = 32.0;
/// Fewer would not carry a question and a repair.
const LEAST_WINDOW: f64 = 8.0;
/// While the path is being filled the window may double with each round.
const FILLING_GAIN: f64 = 2.0;
/// Above one, so that a path that can carry more is found out.
const GAIN: f64 = 1.5;
/// Rounds without growth after which the path counts as full.
const FLAT_ROUNDS: u32 = 3;
/// What may stand in queues and receive buffers: enough that processes that share a processor do not
/// wait for each other, and less than the queue of a port that is the bottleneck.
const QUEUE: Duration = Duration::from_millis(10);
/// By this factor the window grows in a round that shows no congestion.
const GROWTH: f64 = 1.5;
/// So much more loss than the least of the last seconds is a sign of congestion: a queue that is too short to
/// be seen by its delay.
const MORE_LOSS: f64 = 0.25;
/// Packets over which loss is smoothed.
const LOSS_PACKETS: f64 = 256.0;
/// How long a rate is remembered, at least, and in round trips.
const RATE_MEMORY: Duration = Duration::from_millis(500);
const RATE_ROUNDS: u32 = 8;
/// How long a round trip is remembered.
const LEAST_MEMORY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// A bottleneck that carries a packet each `spacing` microseconds, `delay` away: packets of a
    /// window, answered one by one; returns the window after so many answers.
    fn behind_a_bottleneck(spacing: u64, delay: u64, answers: u64) -> u64 {
        let mut path = Path::new();
        let mut free = 0;
        let mut serial = 0;
        let mut under_way = std::collections::VecDeque::new();
        let mut now = 0;
        for arrived in 1..=answers as u32 {
            while (under_way.len() as u64) < path.window() {
                free = free.max(now) + spacing;
                serial += 1;
                under_way.push_back((now, path.mark(), serial, free + 2 * delay));
            }
            let (asked, then, asked_serial, answer) = under_way.pop_front().expect("something is under way");
            now = answer;
            let since = serial - asked_serial;
            path.on_answer(at(now), Answer { asked: at(asked), then, serial: asked_serial, since, arrived });
        }
        path.window()
    }

    fn answer(path: &Path, asked: u64, arrived: u32) -> Answer {
        Answer { asked: at(asked), then: path.mark(), serial: arrived.into(), since: 100, arrived }
    }

    #[test]
    fn the_window_is_what_the_path_carries_and_a_bounded_queue() {
        // 100 Mbit/s of 1500 bytes: a packet each 120 us.
        let queue = QUEUE.as_micros() as u64 / 120;
        let near = behind_a_bottleneck(120, 100, 20_000);
        assert!((queue..queue + 20).contains(&near), "{near}");
        // With 20 ms there and back 167 packets are on the way, and half of that more looks for growth.
        let far = behind_a_bottleneck(120, 10_000, 20_000);
        assert!((167 + queue..260 + 2 * queue).contains(&far), "{far}");
        // 1 Mbit/s.
        let slow = behind_a_bottleneck(12_000, 100, 1000);
        assert!(slow <= 12, "{slow}");
    }

    #[test]
    fn loss_at_random_does_not_keep_the_window_small_and_much_more_loss_than_before_does() {
        let mut path = Path::new();
        let (mut serial, mut arrived) = (0, 0);
        let mut round = |path: &mut Path, from: u64, share: f64| {
            let then = path.mark();
            let sent = path.window();
            serial += sent;
            arrived += (sent as f64 * share) as u32;
            path.on_answer(at(from + 20_000), Answer { asked: at(from), then, serial, since: sent, arrived });
            path.window()
        };
        // A fifth is lost; the sender pauses for lost questions half of the time.
        let grown = (1..20).map(|n| round(&mut path, n * 40_000, 0.8)).max().expect("rounds");
        assert!(grown > 1000, "{grown}");
        let mut window = 0;
        for n in 20..80 {
            let share = if path.window() > 200 { 200.0 / path.window() as f64 } else { 0.8 };
            window = round(&mut path, n * 40_000, share);
        }
        assert!(window < 700, "{window}");
    }

    #[test]
    fn silence_halves_it_and_answers_bring_it_back() {
        let mut path = Path::new();
        path.on_answer(at(1000), answer(&path, 900, 320));
        assert!(path.window() > 64);
        for _ in 0..10 {
            path.on_silence();
        }
        assert_eq!(path.window(), FIRST_WINDOW as u64);
        path.on_answer(at(2000), answer(&path, 1900, 640));
        assert!(path.window() > 64);
    }

    #[test]
    fn an_older_answer_that_comes_late_changes_nothing() {
        let mut path = Path::new();
        let late = answer(&path, 800, 16);
        path.on_answer(at(1000), answer(&path, 900, 32));
        let window = path.window();
        path.on_answer(at(1001), late);
        assert_eq!((path.window(), path.mark().arrived), (window, 32));
    }
}
