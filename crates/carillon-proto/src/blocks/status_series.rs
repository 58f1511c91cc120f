//! The series of messages by which an idle sender shows how far it has come.

use std::time::Duration;

use super::FeedbackDelay;

/// Where a sender is in its series: K status messages in intervals of T1, then sanity messages in
/// intervals of T2.
#[derive(Debug)]
pub struct StatusSeries {
    k: u64,
    t1: Duration,
    t2: Duration,
    /// Status messages since the last message, at most K.
    count: u64,
    due: bool,
}

/// What an idle sender says next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// How far it has come, to those who may lack something.
    Status,
    /// The same, as a sign of life.
    Sanity,
}

impl StatusSeries {
    /// Of a node that has never sent: sanity messages only.
    pub fn new(k: u64, t1: Duration, t2: Duration) -> Self {
        StatusSeries { k, t1, t2, count: k, due: false }
    }

    /// A new message was sent: the series starts again, and first of all with a wait.
    pub fn restart(&mut self) -> Duration {
        self.count = 0;
        self.due = false;
        self.delay(0, 0.0)
    }

    /// The interval is over.
    pub fn expire(&mut self) {
        self.due = true;
    }

    /// What is to be said now, if anything, and after which interval more.
    pub fn take(&mut self) -> Option<(Announcement, Duration)> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let announcement = if self.is_over() { Announcement::Sanity } else { Announcement::Status };
        self.count = (self.count + 1).min(self.k);
        Some((announcement, self.delay(self.count as u32, 0.0)))
    }

    /// Whether all K status messages have been sent.
    pub fn is_over(&self) -> bool {
        self.count >= self.k
    }
}

impl FeedbackDelay for StatusSeries {
    fn delay(&mut self, attempt: u32, _distance: f64) -> Duration {
        if u64::from(attempt) >= self.k { self.t2 } else { self.t1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_each_message_there_are_k_statuses_and_then_signs_of_life() {
        let (t1, t2) = (Duration::from_millis(10), Duration::from_millis(200));
        for k in 0..5 {
            let mut series = StatusSeries::new(k, t1, t2);
            assert_eq!(
                (series.take(), series.is_over()),
                (None, true),
                "nothing is due, and nothing was sent"
            );
            for rounds in 0..9 {
                let mut waits = vec![series.restart()];
                assert_eq!((series.take(), series.is_over()), (None, k == 0));
                for said in 0..rounds {
                    series.expire();
                    let what = if said < k { Announcement::Status } else { Announcement::Sanity };
                    let (announcement, wait) = series.take().expect("it is due");
                    assert_eq!(announcement, what);
                    waits.push(wait);
                }
                let short = waits.iter().take_while(|&&wait| wait == t1).count() as u64;
                assert_eq!(short, k.min(rounds + 1));
                assert!(waits[short as usize..].iter().all(|&wait| wait == t2));
            }
        }
    }
}
