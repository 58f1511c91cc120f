//! A random acknowledgment wait that finds its own length.

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::{BuildContext, Config, HeaderBytes};

/// Measures how long the answers of a group are spread over, and sets the wait R from it.
///
/// Carillon's own; the thesis searches R by hand (Segovia 1996, sections 4.6 and 5.2). Drawn from
/// [0, R], answers that do not get into each other's way are spread over R; if R is too short they
/// collide, and the medium spreads them over more than R. Where the spread is about 1.15 R the last
/// answer comes soonest, whatever the size of the group, of packets and of windows (measured from 2 to
/// 1000 receivers; docs/explanation/open-questions.md). So R follows the spread divided by 1.15: no search, no
/// knowledge of the medium, and the same on any network.
///
/// The spread is counted from the fastest answer of late, which stands for what it takes without any
/// wait: the messages themselves, the way there and back.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveWait {
    wait: Duration,
    /// The fastest answer of each of the last rounds.
    fastest: VecDeque<Duration>,
    /// What the answers of each of the last rounds were spread over.
    spread: VecDeque<Duration>,
    /// The fastest and the last answer of the current round.
    round: Option<(Duration, Duration)>,
}

/// Rounds that the fastest answer is looked for in: with r receivers it is late by R / (r + 1) in one
/// round and by less in several, and a slower path is believed after so many.
const FASTEST_OF: usize = 16;

/// Rounds whose median spread is taken: a run of collisions now and then doubles it, and an average would
/// follow it.
const SPREAD_OF: usize = 9;

impl AdaptiveWait {
    /// The wait that the settings begin with, if `ack_wait_method` says that it adapts.
    pub fn first(context: &BuildContext, settings: &Config) -> Option<Duration> {
        is_wanted(settings).then(|| settings.span("ack_wait").at(context.bit_rate))
    }

    /// Where the wait adapts, every message says how long it is: its header is the one that has the time.
    pub fn header_bytes(settings: &Config, plain: usize, timed: usize) -> HeaderBytes {
        HeaderBytes::all(if is_wanted(settings) { timed } else { plain })
    }

    /// Starts with this wait.
    pub fn new(wait: Duration) -> Self {
        AdaptiveWait { wait, ..AdaptiveWait::default() }
    }

    /// A receiver answered so long after the last message of the round was sent for the first time.
    pub fn on_answer(&mut self, elapsed: Duration) {
        let (fastest, last) = self.round.unwrap_or((elapsed, elapsed));
        self.round = Some((fastest.min(elapsed), last.max(elapsed)));
    }

    /// All have answered, or those that have not are asked again.
    pub fn on_round_end(&mut self) {
        let Some((fastest, last)) = self.round.take() else { return };
        remember(&mut self.fastest, fastest, FASTEST_OF);
        let base = self.fastest.iter().min().copied().unwrap_or(fastest);
        remember(&mut self.spread, last - base, SPREAD_OF);
        let mut sorted: Vec<Duration> = self.spread.iter().copied().collect();
        sorted.sort_unstable();
        self.wait = sorted[sorted.len() / 2] * 20 / 23;
    }

    /// The wait R in force.
    pub fn current(&self) -> Duration {
        self.wait
    }

    /// The same in nanoseconds, as packets carry it: at most 4.29 seconds.
    pub fn current_nanos(&self) -> u32 {
        u32::try_from(self.wait.as_nanos()).unwrap_or(u32::MAX)
    }
}

fn is_wanted(settings: &Config) -> bool {
    settings.choice("ack_wait_method") == "adaptive"
}

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
    fn the_first_round_decides_and_one_late_answer_does_not() {
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
    fn a_slower_path_is_believed_after_some_rounds_and_a_faster_one_at_once() {
        let mut wait = AdaptiveWait::new(ms(0));
        let round = |wait: &mut AdaptiveWait, fastest: u64| {
            wait.on_answer(ms(fastest));
            wait.on_answer(ms(fastest + 23));
            wait.on_round_end();
        };
        round(&mut wait, 100);
        assert_eq!(wait.current(), ms(20));
        // 16 rounds forget the faster path, 9 more what was measured from it.
        for _ in 0..25 {
            round(&mut wait, 500);
        }
        assert_eq!(wait.current(), ms(20));
        round(&mut wait, 10);
        assert_eq!(wait.current(), ms(20));
    }
}
