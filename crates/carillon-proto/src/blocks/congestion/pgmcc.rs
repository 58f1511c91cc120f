//! PGMCC (draft-ietf-rmt-bb-pgmcc-03): a window of TCP Reno's kind, to the receiver to which TCP would be slowest.
//!
//! The sender computes the throughput that TCP would have to each receiver, from its round-trip time and loss rate. The
//! receiver with the lowest one is the acker, and its answers alone change the window.
//!
//! Deviations: where receivers report no loss rate, the sender compares the packets that arrived with those it
//! sent. The tokens of the draft are the difference between the window and the packets in flight. In protocols that
//! poll, the acker is polled every second time and answers for several packets. There packets leave at 1.25 times
//! the window per round trip instead of one by one after each acknowledgment.

use std::time::Duration;

use carillon_core::Time;

use super::{Acknowledgment, CongestionControl, ControlSettings, Controller, Limit, PathReport};

/// Entry of the registry.
pub const CONTROLLER: Controller = Controller {
    name: "pgmcc",
    summary: "window of TCP Reno's kind to the receiver to which TCP would be slowest",
    reference: "draft-ietf-rmt-bb-pgmcc-03; Rizzo 2000",
    build: |settings| Ok(Box::new(Pgmcc::new(settings))),
};

/// Window of the acker.
#[derive(Debug)]
struct Pgmcc {
    receivers: Vec<Receiver>,
    /// Receiver that decides; none before the first answer and after a long silence.
    acker: Option<usize>,
    /// Window in packets.
    window: f64,
    /// Number of packets sent at the last cut. Answers to earlier polls change nothing.
    recover: u64,
    /// True since the acker became silent.
    is_silent: bool,
}

/// Measurements of a receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Receiver {
    /// Loss rate, by an EWMA over packets (section 2.6).
    loss: f64,
    /// Smoothed round-trip time in seconds; none before the first answer.
    round_trip: Option<f64>,
    /// Number of packets sent up to the last answered poll.
    sent: u64,
    /// True if the receiver reports its loss rate.
    is_reporting: bool,
}

impl Receiver {
    fn note_round_trip(&mut self, sample: Duration) {
        let sample = sample.as_secs_f64();
        self.round_trip = Some(self.round_trip.map_or(sample, |mean| mean + (sample - mean) / 8.0));
    }

    fn note(&mut self, acknowledgment: &Acknowledgment) {
        // A report came with the acknowledgment.
        if self.is_reporting {
            return;
        }
        self.note_round_trip(acknowledgment.round_trip);
        let sent = acknowledgment.sent.saturating_sub(self.sent);
        self.sent = self.sent.max(acknowledgment.sent);
        if sent > 0 {
            let lost = (acknowledgment.newly_lost as f64 / sent as f64).min(1.0);
            // As many steps of the filter as packets, each with their mean.
            self.loss += (lost - self.loss) * (1.0 - libm::pow(1.0 - LOSS_GAIN, sent as f64));
        }
    }

    /// Inverse of TCP's throughput, without constant factors (section 2.4).
    fn cost(&self) -> f64 {
        let p = self.loss;
        self.round_trip.unwrap_or(0.0) * libm::sqrt(p) * (1.0 + 9.0 * p * (1.0 + 32.0 * p * p))
    }
}

impl Pgmcc {
    fn new(settings: &ControlSettings) -> Self {
        Pgmcc {
            receivers: vec![Receiver::default(); settings.receivers],
            acker: None,
            window: MIN_WINDOW,
            recover: 0,
            is_silent: false,
        }
    }

    /// Makes this receiver the acker if it is clearly slower than the present one (section 2.3).
    fn elect(&mut self, receiver: usize) {
        let is_slower =
            |acker: usize| self.receivers[acker].cost() < HYSTERESIS * self.receivers[receiver].cost();
        if self.acker.is_none_or(is_slower) {
            (self.acker, self.is_silent) = (Some(receiver), false);
        }
    }

    /// Changes the window after an answer of the acker (section 2.2).
    fn update_window(&mut self, acknowledgment: &Acknowledgment) {
        let &Acknowledgment { sent, since, newly_arrived, lost_up_to, .. } = acknowledgment;
        if sent <= self.recover {
            return;
        }
        // Losses of packets that were sent before the last cut cause no further one.
        if lost_up_to > self.recover {
            self.window = (self.window / 2.0).max(MIN_WINDOW);
            self.recover = sent + since;
        } else if acknowledgment.in_flight() as f64 >= self.window * MIN_USED_SHARE {
            // A window that is not used says nothing about its size (RFC 7661).
            let arrived = newly_arrived as f64;
            let opening = arrived.min((SLOW_START_THRESHOLD - self.window).max(0.0));
            self.window += opening;
            self.window = (self.window + (arrived - opening) / self.window).min(MAX_WINDOW);
        }
    }
}

impl CongestionControl for Pgmcc {
    fn on_acknowledged(&mut self, _now: Time, receiver: usize, acknowledgment: &Acknowledgment) {
        self.receivers[receiver].note(acknowledgment);
        self.elect(receiver);
        if self.acker == Some(receiver) {
            self.is_silent = false;
            self.update_window(acknowledgment);
        }
    }

    fn on_report(&mut self, _now: Time, receiver: usize, report: &PathReport) {
        let entry = &mut self.receivers[receiver];
        (entry.loss, entry.is_reporting) = (report.loss.clamp(0.0, 1.0), true);
        entry.note_round_trip(report.round_trip);
        self.elect(receiver);
    }

    fn on_silent(&mut self, _now: Time, receiver: usize) {
        if self.acker == Some(receiver) {
            self.window = MIN_WINDOW;
            // Section 2.7: after a second timeout the next receiver that answers becomes the acker.
            if std::mem::replace(&mut self.is_silent, true) {
                self.acker = None;
            }
        }
    }

    fn remove(&mut self, receiver: usize) {
        self.acker = self.acker.filter(|&acker| acker != receiver);
        self.receivers[receiver] = Receiver::default();
    }

    fn rate(&self) -> Option<f64> {
        let round_trip = self.receivers[self.acker?].round_trip?;
        Some(PACING_GAIN * self.window / round_trip.max(MIN_ROUND_TRIP_SECONDS))
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    /// Window of the acker; for another receiver twice the packets in flight to it at that rate, so that a silent acker
    /// does not unleash the sender.
    fn window_to(&self, receiver: usize) -> u64 {
        let own = self.receivers[receiver].round_trip;
        let of_acker =
            self.acker.filter(|&acker| acker != receiver).and_then(|acker| self.receivers[acker].round_trip);
        let times = own.zip(of_acker).map_or(1.0, |(own, of_acker)| {
            2.0 * own.max(MIN_ROUND_TRIP_SECONDS) / of_acker.max(MIN_ROUND_TRIP_SECONDS)
        });
        (self.window * times.max(1.0)) as u64
    }

    fn limit(&self, _receiver: usize) -> Limit {
        match () {
            _ if self.is_silent || self.acker.is_none() => Limit::Silence,
            _ if self.window < SLOW_START_THRESHOLD => Limit::Search,
            _ => Limit::Loss,
        }
    }

    fn deciding(&self) -> Option<usize> {
        self.acker
    }
}

/// Initial and minimum window in packets.
const MIN_WINDOW: f64 = 1.0;
/// Maximum window, so that no sequence of answers overflows a number.
const MAX_WINDOW: f64 = (1 << 30) as f64;
/// Share of the window that must be in flight for it to grow.
const MIN_USED_SHARE: f64 = 0.5;
/// Window up to which each arrival adds a packet (section 2.2 suggests 4).
const SLOW_START_THRESHOLD: f64 = 4.0;
/// Factor by which another receiver must be slower than the acker (section 2.3).
const HYSTERESIS: f64 = 0.75;
/// Weight of a packet in the loss rate (section 2.6).
pub const LOSS_GAIN: f64 = 500.0 / 65_536.0;
/// Pacing gain, as of CUBIC.
const PACING_GAIN: f64 = 1.25;
/// Minimum round-trip time in seconds: the share of clock and process.
const MIN_ROUND_TRIP_SECONDS: f64 = 0.000_1;
