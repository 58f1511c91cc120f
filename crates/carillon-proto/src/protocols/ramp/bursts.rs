//! Bursts of messages, and the mode of the sender.

use std::time::Duration;

use carillon_core::Time;

use super::config::{Mode, Settings};

/// Tells the first message of a burst from the others, and chooses the mode.
#[derive(Debug)]
pub(super) struct Bursts {
    gap: Duration,
    /// Maximum number of messages of a burst.
    most: u64,
    mode: Mode,
    /// Control packets per second in idle mode.
    idle_cost: f64,
    /// Control packets per burst in burst mode.
    burst_cost: f64,
    /// Time of the last message.
    last: Option<Time>,
    /// Messages of the present burst.
    count: u64,
    /// Time at which the present burst began after a pause.
    began: Option<Time>,
    /// Smoothed time between the beginnings of bursts.
    interval: Option<Duration>,
    is_idle_mode: bool,
}

impl Bursts {
    /// Creates the state before the first burst, for this number of sender-reliable receivers.
    pub fn new(settings: &Settings, receivers: usize) -> Self {
        let per_second = |interval: Duration| 1.0 / interval.as_secs_f64();
        let receivers = receivers as f64;
        Bursts {
            gap: settings.burst_gap,
            most: settings.burst_packets,
            mode: settings.mode,
            idle_cost: per_second(settings.idle_interval)
                + receivers * per_second(settings.receiver_idle_interval),
            burst_cost: 1.0 + receivers,
            last: None,
            count: 0,
            began: None,
            interval: None,
            is_idle_mode: settings.mode == Mode::Idle,
        }
    }

    /// Records a new message. Returns true if it is the first of a burst.
    pub fn on_message(&mut self, now: Time) -> bool {
        let paused = self.last.is_none_or(|last| now.since(last) > self.gap);
        self.last = Some(now);
        if paused {
            self.begin(now);
        }
        let first = paused || self.count >= self.most;
        self.count = if first { 1 } else { self.count + 1 };
        first
    }

    fn begin(&mut self, now: Time) {
        if let Some(began) = self.began.replace(now) {
            let sample = now.since(began);
            // Exponentially weighted moving average with a gain of 1/4: it follows a change within a few bursts.
            self.interval = Some(self.interval.map_or(sample, |mean| (mean * 3 + sample) / 4));
        }
        if self.mode == Mode::Adaptive {
            // Burst mode costs packets for each burst, idle mode for each second.
            let per_second = self.interval.map(|interval| self.burst_cost / interval.as_secs_f64().max(1e-9));
            self.is_idle_mode = per_second.is_some_and(|cost| cost > self.idle_cost);
        }
    }

    /// End of the present burst, unless another message comes.
    pub fn ends_at(&self) -> Option<Time> {
        // A message exactly one gap later still belongs to the burst.
        self.last.map(|last| last + self.gap + Duration::from_nanos(1))
    }

    /// Returns true in idle mode.
    pub fn is_idle_mode(&self) -> bool {
        self.is_idle_mode
    }
}
