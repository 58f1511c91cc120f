//! What a member is about to do for one message: ask for it, or repair it.

use std::time::Duration;

use carillon_core::Time;

use crate::blocks::{Reach, SHORTEST};

/// A request object.
#[derive(Debug)]
pub(super) struct Request {
    /// When the loss was found.
    pub since: Time,
    pub distance: Distance,
    /// The constants when the loss was found: they hold for all rounds.
    pub c1: f64,
    pub c2: f64,
    /// Request timers set, counted from the first time that the message was missed.
    pub round: u32,
    /// Requests for it are heard and nothing more until then (ignore-backoff).
    pub ignore_until: Option<Time>,
}

/// A repair object.
#[derive(Debug)]
pub(super) struct Repair {
    /// When the request came.
    pub since: Time,
    /// Rank of the member that asked.
    pub requester: u32,
    /// To that member.
    pub distance: Distance,
    pub round: u32,
    /// This member has sent it.
    pub is_sent: bool,
    /// How far it goes: to the group in any case.
    pub reach: Reach,
}

/// A distance in seconds, smoothed over the samples of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    value: Option<f64>,
    gain: f64,
}

impl Distance {
    /// No sample yet.
    pub fn new(gain: f64) -> Self {
        Distance { value: None, gain }
    }

    /// Takes a sample; returns the smoothed distance.
    pub fn sample(&mut self, distance: f64) -> f64 {
        let value = self.value.map_or(distance, |old| (1.0 - self.gain) * old + self.gain * distance);
        self.value = Some(value);
        value
    }

    /// A span of time in round trips.
    pub fn round_trips(&self, span: Duration) -> f64 {
        let round_trip = 2.0 * self.value.unwrap_or_default();
        span.as_secs_f64() / round_trip.max(SHORTEST.as_secs_f64())
    }
}
