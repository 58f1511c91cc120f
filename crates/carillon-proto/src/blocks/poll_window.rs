//! AIMD limit of the number of outstanding polls.
//!
//! Responses of a large group arrive in a burst and queue on their way, so a sender must not poll all members at
//! once. The limit grows by one with each response, and is halved if more responses are missing than random loss
//! explains (additive increase, multiplicative decrease: Chiu and Jain 1989).

/// AIMD window of outstanding polls.
#[derive(Clone, Copy, Debug)]
pub struct PollWindow {
    /// Maximum number of outstanding polls.
    limit: usize,
    /// Responses received since the counts were last aged or reset.
    answered: u32,
    /// Responses that were missing in the same time.
    missed: u32,
    /// Number of missing responses to ignore, as their polls were outstanding when the limit was halved.
    forgiven: usize,
}

impl Default for PollWindow {
    fn default() -> Self {
        PollWindow { limit: MIN_LIMIT, answered: 0, missed: 0, forgiven: 0 }
    }
}

impl PollWindow {
    /// Maximum number of outstanding polls.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Counts a response from a member of a group of this size. The limit stays below a fixed share of the group.
    pub fn on_answer(&mut self, group: usize) {
        // In a small group the minimum prevails over the share: few responses harm no queue.
        self.limit = (self.limit + 1).min(group / MIN_ROUNDS).max(MIN_LIMIT);
        self.answered += 1;
        self.age();
    }

    /// Counts a missing response. `by_chance` is the share of responses that random loss takes, `open` the number
    /// of outstanding polls.
    pub fn on_no_answer(&mut self, by_chance: f64, open: usize) {
        // Each loss event halves the limit once: the other polls of the same window say nothing new (as in RFC 5681).
        if self.forgiven > 0 {
            self.forgiven -= 1;
            return;
        }
        self.missed += 1;
        let asked = f64::from(self.answered + self.missed);
        // Halve only if the missing responses exceed random loss with a margin.
        if f64::from(self.missed) > TOLERATED_MISSES + asked * (by_chance * LOSS_FACTOR + TOLERATED_SHARE) {
            (self.limit, self.answered, self.missed) = ((self.limit / 2).max(MIN_LIMIT), 0, 0);
            self.forgiven = open;
        }
        self.age();
    }

    /// Halves the counts once they are large, so that recent responses weigh most. They always cover two windows,
    /// since missing responses are noticed together, after all others arrived.
    fn age(&mut self) {
        if (self.answered + self.missed) as usize >= MIN_COUNTED.max(2 * self.limit) {
            (self.answered, self.missed) = (self.answered / 2, self.missed / 2);
        }
    }
}

/// Minimum limit: a burst of this many responses harms no queue in practice.
const MIN_LIMIT: usize = 256;
/// Minimum number of windows that a group is divided into, so that its responses never arrive in one burst.
const MIN_ROUNDS: usize = 4;
/// Missing responses tolerated in addition to the shares below, so that a small sample does not halve the limit.
const TOLERATED_MISSES: f64 = 16.0;
/// Share of the responses that may be missing beyond random loss.
const TOLERATED_SHARE: f64 = 0.1;
/// Factor of the expected random loss that is tolerated.
const LOSS_FACTOR: f64 = 1.5;
/// Minimum number of responses to count before the counts are aged.
const MIN_COUNTED: usize = 1024;

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    /// Polls a large group in rounds. Each response is lost at random, and all responses beyond the length of a queue
    /// are lost. Returns the limit at the end, and the share of the second half that the queue lost.
    fn asked(loss: f64, queue: usize) -> (usize, f64) {
        let (mut poll_window, mut rng) = (PollWindow::default(), Seeds::new(1).stream("answers"));
        let (mut asked, mut dropped) = (0, 0);
        for round in 0..200 {
            let open = poll_window.limit();
            let came = (0..open).filter(|&number| number < queue && rng.unit() >= loss).count();
            (0..came).for_each(|_| poll_window.on_answer(100_000));
            (came..open).for_each(|missed| poll_window.on_no_answer(loss, open - missed));
            if round >= 100 {
                asked += open;
                dropped += open.saturating_sub(queue);
            }
        }
        (poll_window.limit(), f64::from(dropped as u32) / f64::from(asked as u32))
    }

    #[test]
    fn limit_finds_queue_length_at_any_random_loss() {
        for loss in [0.0, 0.02, 0.36] {
            let (open, _) = asked(loss, usize::MAX);
            assert_eq!(open, 25_000, "nothing is in the way, {loss}");
            let (open, dropped) = asked(loss, 2000);
            assert!((1000..8000).contains(&open) && dropped < 0.5, "{open} and {dropped}, {loss}");
        }
    }

    #[test]
    fn small_group_keeps_minimum_limit() {
        let mut poll_window = PollWindow::default();
        (0..10_000).for_each(|_| poll_window.on_answer(100));
        (0..10_000).for_each(|_| poll_window.on_no_answer(0.0, 100));
        assert_eq!(poll_window.limit(), MIN_LIMIT);
    }
}
