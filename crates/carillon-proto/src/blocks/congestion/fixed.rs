//! Fixed rate: the sender obeys its configured rate, whatever the network loses.

use std::time::Duration;

use carillon_core::{ConfigError, Time};

use super::{Acknowledgment, CongestionControl, Controller, Limit};
use crate::blocks::NOMINAL_PACKET_BYTES;

/// Entry of the registry.
pub const CONTROLLER: Controller = Controller {
    name: "fixed",
    summary: "the configured rate, without regard to losses and delays; only for reserved capacity",
    reference: "none",
    build: |settings| {
        let rate = settings.rate.ok_or_else(|| {
            let why = "`congestion` is fixed and `rate` is 0, so that nothing bounds the rate: set `rate`";
            ConfigError::Conflict(why.into())
        })?;
        let rate = rate.bps() as f64 / (8.0 * NOMINAL_PACKET_BYTES as f64);
        Ok(Box::new(Fixed { rate, round_trip: Duration::ZERO }))
    },
};

/// Sender at a fixed rate.
#[derive(Debug)]
struct Fixed {
    /// Packets per second.
    rate: f64,
    /// Longest round-trip time.
    round_trip: Duration,
}

impl CongestionControl for Fixed {
    fn on_acknowledged(&mut self, _now: Time, _receiver: usize, acknowledgment: &Acknowledgment) {
        self.round_trip = self.round_trip.max(acknowledgment.round_trip);
    }

    fn rate(&self) -> Option<f64> {
        Some(self.rate)
    }

    /// Twice the packets of a round trip, so that a group that does not answer stops the sender.
    fn window(&self) -> u64 {
        ((2.0 * self.rate * self.round_trip.as_secs_f64()) as u64).max(MIN_WINDOW)
    }

    fn limit(&self, _receiver: usize) -> Limit {
        Limit::Rate
    }
}

/// Minimum window in packets.
const MIN_WINDOW: u64 = 128;
