//! The series of messages by which an idle sender shows how far it has come.

use std::time::Duration;

use super::config::Settings;
use crate::blocks::FeedbackDelay;

/// Where a sender is in its series: K status messages in intervals of T1, then sanity messages in
/// intervals of T2.
#[derive(Debug)]
pub(super) struct Idle {
    k: u64,
    t1: Duration,
    t2: Duration,
    /// Status messages since the last message, at most K.
    count: u64,
    due: bool,
}

/// What an idle sender says next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announcement {
    Status,
    Sanity,
}

impl Idle {
    /// Of a node that has never sent: sanity messages only.
    pub fn new(settings: &Settings) -> Self {
        Idle { k: settings.k, t1: settings.t1, t2: settings.t2, count: settings.k, due: false }
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

impl FeedbackDelay for Idle {
    fn delay(&mut self, attempt: u32, _distance: f64) -> Duration {
        if u64::from(attempt) >= self.k { self.t2 } else { self.t1 }
    }
}
