//! Status messages of an idle sender.

use std::time::Duration;

use super::FeedbackDelay;

/// State of the series: K status messages at intervals of T1, then sanity messages at intervals of T2.
#[derive(Debug)]
pub struct StatusSeries {
    /// Number of status messages after a data message.
    k: u64,
    /// Interval between status messages.
    t1: Duration,
    /// Interval between sanity messages.
    t2: Duration,
    /// Number of status messages since the last data message, at most K.
    count: u64,
    /// True if an interval has ended and its message was not taken.
    due: bool,
}

/// Message that an idle sender sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Progress, for receivers that may miss something.
    Status,
    /// Progress, as a keepalive.
    Sanity,
}

impl StatusSeries {
    /// Creates the series of a node that has never sent: sanity messages only.
    pub fn new(k: u64, t1: Duration, t2: Duration) -> Self {
        StatusSeries { k, t1, t2, count: k, due: false }
    }

    /// Restarts the series after a data message. Returns the time until the first status message.
    pub fn restart(&mut self) -> Duration {
        self.count = 0;
        // The data message itself tells the progress, so a status message that was due is redundant.
        self.due = false;
        self.delay(0, 0.0)
    }

    /// Records the end of an interval.
    pub fn expire(&mut self) {
        self.due = true;
    }

    /// Takes the message to send now, with the interval until the next one.
    pub fn take(&mut self) -> Option<(Announcement, Duration)> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let announcement = if self.is_over() { Announcement::Sanity } else { Announcement::Status };
        // The count stays at K during sanity messages, until the next data message.
        self.count = (self.count + 1).min(self.k);
        Some((announcement, self.delay(self.count as u32, 0.0)))
    }

    /// Returns true if all K status messages were sent.
    pub fn is_over(&self) -> bool {
        self.count >= self.k
    }
}

impl FeedbackDelay for StatusSeries {
    fn delay(&mut self, attempt: u32, _distance: f64) -> Duration {
        // The distance plays no role: the sender addresses all receivers alike.
        if u64::from(attempt) >= self.k { self.t2 } else { self.t1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_statuses_then_sanity_messages_follow_message() {
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
