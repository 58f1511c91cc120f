//! Control of a group by its slowest path.
//!
//! Each packet goes to all receivers, so the path with the smallest window decides. Ordered sets keep the minima up to
//! date in logarithmic time, since a group may have 100 000 members.

use std::fmt::Debug;

use carillon_core::Time;

use super::{Acknowledgment, CongestionControl, ControlSettings, Limit, PathEstimate};
use crate::blocks::{Minimum, NodeMinimum};

/// Congestion control of the path to one receiver. [`Slowest`] makes a controller of a group of it.
pub trait PathControl: Clone + Debug + Send {
    /// Handles the answer of the receiver to a poll.
    fn on_acknowledged(&mut self, now: Time, acknowledgment: &Acknowledgment);

    /// Handles a receiver that does not answer.
    fn on_silent(&mut self, now: Time);

    /// Rate in packets per second, if known.
    fn rate(&self) -> Option<f64>;

    /// Congestion window in packets.
    fn window(&self) -> u64;

    /// Congestion window with a bound on queues and receive buffers.
    fn bounded_window(&self) -> u64 {
        self.window()
    }

    /// Reason for the window.
    fn limit(&self) -> Limit;

    /// Estimate of the path, if it is better than the record of the answers.
    fn estimate(&self) -> Option<PathEstimate> {
        None
    }
}

/// Paths of a group. The slowest limits the group.
#[derive(Clone, Debug)]
pub struct Slowest<P> {
    paths: Vec<P>,
    /// Windows of each path in the ordered sets; none once the receiver is removed.
    entries: Vec<Option<Windows>>,
    /// Minima over all paths.
    windows: NodeMinimum,
    bounded: Minimum,
    /// Window of a group without receivers.
    flight: u64,
}

/// Windows of one path.
#[derive(Clone, Copy, Debug)]
struct Windows {
    window: u64,
    bounded: u64,
}

impl Windows {
    fn of(path: &impl PathControl) -> Self {
        Windows { window: path.window(), bounded: path.bounded_window() }
    }
}

impl<P: PathControl> Slowest<P> {
    /// Creates a group in which nothing is known of any path.
    pub fn new(settings: &ControlSettings, path: P) -> Self {
        let mut slowest = Slowest {
            entries: vec![Some(Windows::of(&path)); settings.receivers],
            windows: NodeMinimum::default(),
            bounded: Minimum::default(),
            paths: vec![path; settings.receivers],
            flight: settings.flight,
        };
        for (receiver, entry) in slowest.entries.iter().flatten().enumerate() {
            slowest.windows.insert(receiver, entry.window);
            slowest.bounded.insert(entry.bounded);
        }
        slowest
    }

    /// Updates the ordered sets after a change of a path. A removed receiver stays out.
    fn update(&mut self, receiver: usize) {
        let Some(before) = self.entries[receiver] else { return };
        let now = Windows::of(&self.paths[receiver]);
        self.windows.change(receiver, before.window, now.window);
        self.bounded.change(before.bounded, now.bounded);
        self.entries[receiver] = Some(now);
    }
}

impl<P: PathControl> CongestionControl for Slowest<P> {
    fn on_acknowledged(&mut self, now: Time, receiver: usize, acknowledgment: &Acknowledgment) {
        self.paths[receiver].on_acknowledged(now, acknowledgment);
        self.update(receiver);
    }

    fn on_silent(&mut self, now: Time, receiver: usize) {
        self.paths[receiver].on_silent(now);
        self.update(receiver);
    }

    fn remove(&mut self, receiver: usize) {
        if let Some(Windows { window, bounded }) = self.entries[receiver].take() {
            self.windows.remove(receiver, window);
            self.bounded.remove(bounded);
        }
    }

    fn rate(&self) -> Option<f64> {
        let (_, slowest) = self.windows.get()?;
        self.paths[slowest].rate()
    }

    fn window(&self) -> u64 {
        self.bounded.get().unwrap_or(self.flight)
    }

    fn window_to(&self, receiver: usize) -> u64 {
        self.entries[receiver].map_or(self.flight, |entry| entry.bounded)
    }

    fn limit(&self, receiver: usize) -> Limit {
        self.paths[receiver].limit()
    }

    /// Slowest receiver, if its window is less than half of the next smallest.
    fn deciding(&self) -> Option<usize> {
        let (slow, slowest) = self.windows.get()?;
        self.windows.next().is_some_and(|next| slow < next / 2).then_some(slowest)
    }

    fn has_own_windows(&self) -> bool {
        true
    }

    fn estimate(&self, receiver: usize) -> Option<PathEstimate> {
        self.paths[receiver].estimate()
    }
}
