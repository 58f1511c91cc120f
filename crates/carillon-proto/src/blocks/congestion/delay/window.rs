//! Window of a path, and the bound of its queue.

use super::train::FILLING_GAIN;
use super::{DelayPath, INITIAL_WINDOW};

impl DelayPath {
    /// Updates the bound of the queue; `congested` tells if this round had unusual loss.
    pub(super) fn update_queue(&mut self, next_round: bool, congested: bool) {
        let rate = self.rate.greatest();
        if next_round {
            self.queue = match congested {
                // The rate still changes, so a queue in packets would soon be outdated.
                _ if self.is_filling() => INITIAL_QUEUE_SECONDS * rate,
                true => self.queue * QUEUE_DECREASE,
                false => self.queue + QUEUE_GROWTH,
            };
        }
        // Never less than the noise of timers, nor more than the bound for this distance and rate.
        let fewest = (MIN_QUEUE_SECONDS * rate).max(MIN_QUEUE_PACKETS);
        // Answers that come at uneven times need a longer queue, or the sender would stop for each late one.
        let near = MAX_NEAR_QUEUE_SECONDS.max(JITTER_FACTOR * self.jitter.greatest());
        let seconds = (near + QUEUE_ROUND_TRIP_SHARE * self.empty.min_rtt()).min(MAX_QUEUE_SECONDS);
        let most = seconds * rate.max((rate * SQUARE_ROOT_BELOW_RATE).sqrt());
        self.queue = self.queue.clamp(fewest, most.max(fewest));
    }

    /// Updates the window after this round-trip time. `since` is the number of packets sent since the poll.
    pub(super) fn update_window(&mut self, round_trip: f64, since: u64, next_round: bool, congested: bool) {
        let (rate, least) = (self.rate.greatest(), self.empty.min_rtt());
        if self.empty.is_paused() {
            // Part of the capacity in flight keeps the path in use while the queue drains. The window must not grow by
            // a pause.
            self.window = (rate * least * PAUSE_GAIN).clamp(MIN_WINDOW, self.window.max(MIN_WINDOW));
            return;
        }
        // Grow faster if polls are lost, and slower if the queue was cut lately.
        let most = WINDOW_GROWTH + LOSSY_WINDOW_GROWTH * self.lost_polls();
        let growth = 1.0 + most * (self.queue / (INITIAL_QUEUE_SECONDS * rate)).min(1.0);
        // The first answers cover few packets, so the window keeps its initial value as a floor.
        let (gain, floor) = match self.is_filling() {
            true if self.flat > 0 => (FLAT_GAIN, INITIAL_WINDOW),
            true => (self.train.gain(rate).unwrap_or(FILLING_GAIN), INITIAL_WINDOW),
            false if congested => (CONGESTED_GAIN, MIN_WINDOW),
            false => (growth, MIN_WINDOW),
        };
        // Base of the window: delivery rate times minimum round-trip time, plus the permitted queue.
        let asked_for = (rate * gain * least + self.queue).max(floor);
        // Grow beyond it only if no queue shows and no unusual loss.
        let queued = (round_trip - least) * rate > self.queue / 2.0;
        self.window = if queued || congested {
            asked_for
        } else if next_round {
            // Bounded by twice the packets sent, so that it does not grow while there is little to send.
            asked_for.max((self.window * growth).min(since as f64 * 2.0))
        } else {
            self.window.max(asked_for)
        };
    }
}

/// Minimum window in packets: room for a poll and a repair.
const MIN_WINDOW: f64 = 8.0;
/// Gain of the window once the rate no longer grows: less suffices to see if it grows still.
const FLAT_GAIN: f64 = 1.5;
/// Gain of the window under unusual loss. It applies to the largest delivery rate, which exceeds the mean.
const CONGESTED_GAIN: f64 = 0.9;
/// Growth of the window per round in search of more capacity, as a share.
const WINDOW_GROWTH: f64 = 0.2;
/// Additional growth at a usual loss of `FULL_GROWTH_LOSS` or more, since lost polls make the sender pause.
const LOSSY_WINDOW_GROWTH: f64 = 0.3;
/// Share of the path's capacity that may be in flight during a pause.
const PAUSE_GAIN: f64 = 0.5;
/// Initial length of the queue, in seconds of packets.
const INITIAL_QUEUE_SECONDS: f64 = 0.010;
/// Minimum length of the queue, in seconds of packets.
const MIN_QUEUE_SECONDS: f64 = 0.0005;
/// Maximum length of the queue on a near path, in seconds. A flow that bounds its window by the round-trip time, as
/// BBR does, would get little beside a longer queue.
pub(super) const MAX_NEAR_QUEUE_SECONDS: f64 = 0.007;
/// Factor of the recent variation of round-trip times that may replace that bound. Processes that share a processor
/// answer unevenly, and must not wait for each other.
const JITTER_FACTOR: f64 = 1.5;
/// Share of the round-trip time that adds to the bound.
const QUEUE_ROUND_TRIP_SHARE: f64 = 1.0 / 3.0;
/// Maximum length of the queue on any path, in seconds.
const MAX_QUEUE_SECONDS: f64 = 0.025;
/// Rate in packets per second below which the bound grows with the square root of the rate: 100 Mbit/s in frames of
/// 1500 bytes. The queue on a near path then is 7 ms at that rate and 22 ms at 10 Mbit/s.
const SQUARE_ROOT_BELOW_RATE: f64 = 8333.0;
/// Number of packets in queues below which a queue means nothing.
const MIN_QUEUE_PACKETS: f64 = 4.0;
/// Growth of the queue per round, in packets (additive increase).
const QUEUE_GROWTH: f64 = 0.5;
/// Factor of the queue after a round with unusual loss (multiplicative decrease).
const QUEUE_DECREASE: f64 = 0.7;
