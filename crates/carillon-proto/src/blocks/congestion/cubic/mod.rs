//! Window of TCP on the slowest path: CUBIC (RFC 9438), paced as RFC 9002, section 7.7, recommends.
//!
//! Each receiver has a window. Left out: HyStart++, and the recovery of the window after a spurious cut.

mod window;

use std::time::Duration;

use carillon_core::Time;

use super::{Acknowledgment, Controller, Limit, PathControl, Slowest};
pub use window::CubicWindow;

/// Entry of the registry.
pub const CONTROLLER: Controller = Controller {
    name: "cubic",
    summary: "window of TCP CUBIC to each receiver; the smallest counts, and each loss shrinks it",
    reference: "RFC 9438; pacing of RFC 9002, section 7.7",
    build: |settings| Ok(Box::new(Slowest::new(settings, CubicPath::default()))),
};

/// Window of the path to one receiver.
#[derive(Clone, Debug, Default)]
struct CubicPath {
    window: CubicWindow,
    /// Smoothed round-trip time in seconds (RFC 6298); none before the first answer.
    smoothed: Option<f64>,
    /// Number of packets sent at the last cut. Losses of these belong to the same congestion.
    recover: u64,
    is_silent: bool,
}

impl PathControl for CubicPath {
    fn on_acknowledged(&mut self, now: Time, acknowledgment: &Acknowledgment) {
        let &Acknowledgment { sent, since, newly_arrived, lost_up_to, round_trip, .. } = acknowledgment;
        let seconds = round_trip.as_secs_f64();
        let smoothed = self.smoothed.map_or(seconds, |mean| mean + (seconds - mean) / 8.0);
        self.smoothed = Some(smoothed);
        self.is_silent = false;
        if sent <= self.recover {
            return;
        }
        if lost_up_to > self.recover {
            self.recover = sent + since;
            self.window.on_loss();
        } else if acknowledgment.in_flight() as f64 >= self.window.size() * MIN_USED_SHARE {
            // A window that another path keeps from use says nothing about its size.
            self.window.on_acknowledged(now, newly_arrived as f64, Duration::from_secs_f64(smoothed));
        }
    }

    fn on_silent(&mut self, _now: Time) {
        // Before the first answer the round-trip time is unknown, and the initial window bounds the sender.
        if self.smoothed.is_some() {
            self.window.on_timeout();
        }
        self.is_silent = true;
    }

    fn rate(&self) -> Option<f64> {
        let gain = if self.window.is_searching() { SLOW_START_PACING_GAIN } else { PACING_GAIN };
        let smoothed = self.smoothed?.max(MIN_ROUND_TRIP_SECONDS);
        Some(gain * self.window.size() / smoothed)
    }

    fn window(&self) -> u64 {
        self.window.size() as u64
    }

    fn limit(&self) -> Limit {
        match () {
            _ if self.is_silent => Limit::Silence,
            _ if self.window.is_searching() => Limit::Search,
            _ => Limit::Loss,
        }
    }
}

/// Share of the window that must be in flight for it to grow.
const MIN_USED_SHARE: f64 = 0.5;
/// Pacing gain, and pacing gain in slow start, in which the window doubles within a round trip.
const PACING_GAIN: f64 = 1.25;
const SLOW_START_PACING_GAIN: f64 = 2.0;
/// Minimum round-trip time in seconds: the share of clock and process.
const MIN_ROUND_TRIP_SECONDS: f64 = 0.000_1;
