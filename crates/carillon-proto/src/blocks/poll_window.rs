//! How many answers of a crowd may be under way.

/// How many questions may be open at once: what answers them comes in a heap, and meets queues on its way. As with a window of packets they become
/// more with each answer, and half as many where more answers are missing than are lost by chance (Chiu and Jain 1989).
#[derive(Clone, Copy, Debug)]
pub struct PollWindow {
    limit: usize,
    /// Answers that came and did not since it was last looked at.
    answered: u32,
    missed: u32,
    /// So many that are missing were asked before it became less.
    forgiven: usize,
}

impl Default for PollWindow {
    fn default() -> Self {
        PollWindow { limit: LEAST, answered: 0, missed: 0, forgiven: 0 }
    }
}

impl PollWindow {
    /// So many.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// A question was answered, by one of a group of this size: no more than a part of it is asked at once.
    pub fn on_answer(&mut self, group: usize) {
        self.limit = (self.limit + 1).min(group / PART).max(LEAST);
        self.answered += 1;
        self.look();
    }

    /// A question was not answered in time, as happens to this part of them by chance; so many are open.
    pub fn on_no_answer(&mut self, by_chance: f64, open: usize) {
        if self.forgiven > 0 {
            self.forgiven -= 1;
            return;
        }
        self.missed += 1;
        let asked = f64::from(self.answered + self.missed);
        if f64::from(self.missed) > FEW + asked * (by_chance * MORE + ALWAYS) {
            (self.limit, self.answered, self.missed) = ((self.limit / 2).max(LEAST), 0, 0);
            self.forgiven = open;
        }
        self.look();
    }

    /// What was long ago says nothing; but those that are missing come together, after the answers of the others.
    fn look(&mut self) {
        if (self.answered + self.missed) as usize >= LOOK.max(2 * self.limit) {
            (self.answered, self.missed) = (self.answered / 2, self.missed / 2);
        }
    }
}

/// So many are no burden.
const LEAST: usize = 256;
/// No more than one in so many of a group.
const PART: usize = 4;
/// So many answers may be missing, and this part beside them, and so many times as many as by chance.
const FEW: f64 = 16.0;
const ALWAYS: f64 = 0.1;
const MORE: f64 = 1.5;
/// Answers that are looked at, at least.
const LOOK: usize = 1024;

#[cfg(test)]
mod tests {
    use carillon_core::Seeds;

    use super::*;

    /// Questions to a crowd in rounds, each answer of which is lost with a chance, and all beyond a queue. Returns how many were open at the end, and
    /// which part of the second half was lost in the queue.
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
    fn as_many_are_open_as_a_queue_takes_whatever_is_lost_by_chance() {
        for loss in [0.0, 0.02, 0.36] {
            let (open, _) = asked(loss, usize::MAX);
            assert_eq!(open, 25_000, "nothing is in the way, {loss}");
            let (open, dropped) = asked(loss, 2000);
            assert!((1000..8000).contains(&open) && dropped < 0.5, "{open} and {dropped}, {loss}");
        }
    }

    #[test]
    fn a_small_group_is_asked_whole_times_over() {
        let mut poll_window = PollWindow::default();
        (0..10_000).for_each(|_| poll_window.on_answer(100));
        (0..10_000).for_each(|_| poll_window.on_no_answer(0.0, 100));
        assert_eq!(poll_window.limit(), LEAST);
    }
}
