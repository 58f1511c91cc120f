//! Adaptive length of the random wait before acknowledgments.

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::{BuildContext, Config, HeaderBytes};

/// Measures the time over which the answers of a group are spread, and derives the wait R from it.
///
/// Answers drawn from [0, R] without collisions are spread over R. If R is too short, they collide and the medium
/// spreads them over more than R. The last answer comes soonest if the spread is about 1.15 R, for any size of group,
/// packet and window (measured: docs/explanation/open-questions.md). R therefore follows the spread divided by 1.15,
/// without knowledge of the medium. Segovia 1996, sections 4.6 and 5.2, searches R by hand.
///
/// The spread counts from the fastest recent answer, which stands for the time without any wait: message and round
/// trip.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveWait {
    /// Current wait R.
    wait: Duration,
    /// Fastest answer of each recent round.
    fastest: VecDeque<Duration>,
    /// Spread of the answers in each recent round.
    spread: VecDeque<Duration>,
    /// Fastest and last answer of the current round.
    round: Option<(Duration, Duration)>,
}

/// Number of rounds in which the fastest answer is searched. With r receivers it is late by R / (r + 1) in one round
/// and by less in several; a slower path is accepted after this many.
const ROUNDS_FOR_FASTEST: usize = 16;

/// Number of rounds of which the median spread is taken. Collisions double the spread now and then, and an average
/// would follow them.
const ROUNDS_FOR_SPREAD: usize = 9;

impl AdaptiveWait {
    /// Initial wait of the settings, if `ack_wait_method` is `adaptive`.
    pub fn first(context: &BuildContext, settings: &Config) -> Option<Duration> {
        is_wanted(settings).then(|| settings.span("ack_wait").at(context.bit_rate))
    }

    /// Header sizes: if the wait adapts, each message carries it in the longer header.
    pub fn header_bytes(settings: &Config, plain: usize, timed: usize) -> HeaderBytes {
        HeaderBytes::all(if is_wanted(settings) { timed } else { plain })
    }

    /// Creates the estimator with this initial wait.
    pub fn new(wait: Duration) -> Self {
        AdaptiveWait { wait, ..AdaptiveWait::default() }
    }

    /// Records an answer this long after the last first transmission of the round.
    pub fn on_answer(&mut self, elapsed: Duration) {
        let (fastest, last) = self.round.unwrap_or((elapsed, elapsed));
        self.round = Some((fastest.min(elapsed), last.max(elapsed)));
    }

    /// Ends a round: all have answered, or the others are polled again.
    pub fn on_round_end(&mut self) {
        // A round without answers says nothing about the spread.
        let Some((fastest, last)) = self.round.take() else { return };
        remember(&mut self.fastest, fastest, ROUNDS_FOR_FASTEST);
        let base = self.fastest.iter().min().copied().unwrap_or(fastest);
        // The base is the minimum of several rounds with this one, so the difference is never negative.
        remember(&mut self.spread, last - base, ROUNDS_FOR_SPREAD);
        let mut sorted: Vec<Duration> = self.spread.iter().copied().collect();
        sorted.sort_unstable();
        // The factor 20/23 is 1 / 1.15.
        self.wait = sorted[sorted.len() / 2] * 20 / 23;
    }

    /// Current wait R.
    pub fn current(&self) -> Duration {
        self.wait
    }

    /// Current wait R in nanoseconds, as packets carry it: at most 4.29 seconds.
    pub fn current_nanos(&self) -> u32 {
        u32::try_from(self.wait.as_nanos()).unwrap_or(u32::MAX)
    }
}

fn is_wanted(settings: &Config) -> bool {
    settings.choice("ack_wait_method") == "adaptive"
}

/// Appends a value, and drops the oldest one beyond the limit.
fn remember(values: &mut VecDeque<Duration>, value: Duration, limit: usize) {
    if values.len() == limit {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn first_round_decides_and_single_late_answer_does_not() {
        let mut wait = AdaptiveWait::new(ms(1));
        wait.on_round_end();
        assert_eq!(wait.current(), ms(1), "no answer, no news");
        let round = |wait: &mut AdaptiveWait, last: u64| {
            for answer in [last - 5, 10, last] {
                wait.on_answer(ms(answer));
            }
            wait.on_round_end();
        };
        round(&mut wait, 33);
        assert_eq!(wait.current(), ms(20), "(33 - 10) / 1.15");
        round(&mut wait, 33);
        round(&mut wait, 99);
        assert_eq!(wait.current(), ms(20), "the median of three");
        wait.on_round_end();
        round(&mut wait, 56);
        round(&mut wait, 56);
        assert_eq!(wait.current(), ms(40), "the median of 33, 33, 99, 56, 56");
    }

    #[test]
    fn slower_path_is_accepted_late_and_faster_at_once() {
        let mut wait = AdaptiveWait::new(ms(0));
        let round = |wait: &mut AdaptiveWait, fastest: u64| {
            wait.on_answer(ms(fastest));
            wait.on_answer(ms(fastest + 23));
            wait.on_round_end();
        };
        round(&mut wait, 100);
        assert_eq!(wait.current(), ms(20));
        // Sixteen rounds forget the faster path, and nine more its spreads.
        for _ in 0..25 {
            round(&mut wait, 500);
        }
        assert_eq!(wait.current(), ms(20));
        round(&mut wait, 10);
        assert_eq!(wait.current(), ms(20));
    }
}
