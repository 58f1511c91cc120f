//! Congestion control of the path to one receiver: its window and pacing rate.
//!
//! Loss alone does not reveal a bottleneck where packets are lost at random, and delay alone does not where processes
//! share a host. The window therefore is at least the largest delivery rate times the round-trip time without queues,
//! plus a bounded queue. Filters and pauses are those of BBR (Cardwell et al., *BBR: Congestion-Based Congestion
//! Control*, 2016); the queue is Carillon's own. The queue grows until more is lost than usual. Beyond that, the
//! window grows while neither a queue nor unusual loss is seen: a sender that pauses for lost polls delivers less
//! than the path could carry.
//!
//! Flows that share a bottleneck get rates in proportion to their packets in its queue. The queue of a flow is
//! counted in packets, grows by a constant, and is cut by a factor, so that shares become equal (AIMD: Chiu and Jain,
//! *Analysis of the Increase and Decrease Algorithms*, 1989). On slow links its bound grows less than the rate, for
//! the same reason.
//!
//! The usual loss is what is lost with little in flight. It is measured before loss first counts as a sign of
//! congestion, and again if the path seems congested for long.

mod min_rtt_probe;
mod path_loss;
#[cfg(test)]
mod tests;
mod train;
mod window;

use std::time::Duration;

use carillon_core::Time;

use super::windowed::Windowed;
use super::{Acknowledgment, Controller, Limit, PathControl, PathEstimate, Slowest};
use min_rtt_probe::MinRttProbe;
use path_loss::{LEARNING_PACKETS, PathLoss};
use train::{FILLING_GAIN, PacketTrain, TrainAnswer};

/// Entry of the registry: the slowest path limits the group.
pub const CONTROLLER: Controller = Controller {
    name: "delay",
    summary: "delay and unusual loss of the slowest path, with a bounded queue",
    reference: "Carillon's own, with filters and pauses of BBR (Cardwell et al. 2016)",
    build: |settings| Ok(Box::new(Slowest::new(settings, DelayPath::with_buffers(settings.flight)))),
};

/// Model of the path to one receiver.
#[derive(Clone, Debug)]
pub struct DelayPath {
    /// Largest delivery rate in packets per second.
    rate: Windowed,
    /// Minimum round-trip time, without queues.
    empty: MinRttProbe,
    /// Loss rate, and the usual one.
    loss: PathLoss,
    /// Number of packets that may stand in queues.
    queue: f64,
    /// Number of rounds without growth of the rate while the path is being filled.
    flat: u32,
    /// True if in one of these rounds, or in the last one with growth, nearly the whole window was in flight.
    busy: bool,
    /// Estimate of the rate from packet trains while the path is being filled.
    train: PacketTrain,
    /// Rate to compare the next round with, and the start of that round.
    full: (f64, Time),
    /// Start of the next round in which the window may grow.
    round: Time,
    /// Twice the rounds with unusual loss, less the other rounds.
    doubt: u32,
    /// Congestion window in packets.
    window: f64,
    /// Maximum number of packets in queues and receive buffers.
    buffered: u64,
    /// EWMA of the time in seconds that a poll and its answer wait in queues.
    queued: f64,
    /// Last round-trip time in seconds.
    round_trip_seconds: Option<f64>,
    /// Largest recent difference between consecutive round-trip times, in seconds.
    jitter: Windowed,
}

impl DelayPath {
    /// Creates the model of an unknown path on which at most `buffered` packets may stand in queues and receive
    /// buffers.
    pub fn with_buffers(buffered: u64) -> Self {
        DelayPath {
            buffered,
            rate: Windowed::default(),
            empty: MinRttProbe::default(),
            loss: PathLoss::default(),
            queue: 0.0,
            flat: 0,
            busy: false,
            train: PacketTrain::default(),
            full: (0.0, Time::ZERO),
            round: Time::ZERO,
            doubt: 0,
            window: INITIAL_WINDOW,
            queued: 0.0,
            round_trip_seconds: None,
            jitter: Windowed::default(),
        }
    }

    /// Number of packets that the path itself holds (bandwidth-delay product).
    fn held(&self) -> f64 {
        let rate = self.rate.greatest();
        // While the path is filled, packets sent at twice the delivery rate are spread over a path that keeps up.
        let train_rate = self
            .train
            .rate()
            .filter(|_| self.is_filling())
            .map(|train_rate| train_rate.max(rate * FILLING_GAIN));
        let held = train_rate.unwrap_or(rate) * self.empty.min_rtt();
        if held.is_finite() { held.max(0.0) } else { 0.0 }
    }

    /// Share of the extra growth to use, from 0 to 1, as polls are lost like packets.
    fn lost_polls(&self) -> f64 {
        (self.loss.usual() / FULL_GROWTH_LOSS).min(1.0)
    }

    /// Returns true while the capacity of the path is still being searched (as in the startup phase of BBR).
    fn is_filling(&self) -> bool {
        self.flat < MAX_FLAT_ROUNDS
    }

    /// Updates the minimum round-trip time, jitter and queueing delay. A pause that ends reveals the usual loss.
    fn note_round_trip(&mut self, now: Time, acknowledgment: &Acknowledgment) {
        let &Acknowledgment { asked, sent, arrived, .. } = acknowledgment;
        let round_trip = acknowledgment.round_trip.as_secs_f64();
        if let Some(found) = self.empty.on_answer(now, asked, sent, arrived) {
            self.loss.learn(now, found);
        }
        if let Some(before) = self.round_trip_seconds.replace(round_trip).filter(|_| !self.empty.is_paused())
        {
            // In a pause the queue drains. Round-trip times that differ for that reason are no jitter, hence the
            // filter above.
            self.jitter.note(now, (round_trip - before).abs(), MIN_RATE_MEMORY);
        }
        self.queued += ((round_trip - self.empty.min_rtt()).max(0.0) - self.queued) * QUEUEING_DELAY_GAIN;
    }

    /// Detects a full path: its rate has not grown by a quarter in three rounds.
    fn note_full(&mut self, now: Time, asked: Time, since: u64) {
        // While the capacity is searched, no pause may interrupt the growth of the window.
        self.empty.postpone(now);
        // The poll belongs to a round that was judged already.
        if asked < self.full.1 {
            return;
        }
        let rate = self.rate.greatest();
        // A sender that was idle in all flat rounds cannot have caused the loss, so that this loss is the usual one.
        let busy = since as f64 >= IDLE_SHARE * self.bounded_window() as f64;
        if rate >= self.full.0 * 1.25 {
            self.full.0 = rate;
            (self.flat, self.busy) = (0, busy);
        } else {
            self.flat += 1;
            self.busy |= busy;
        }
        self.full.1 = now;
        if !self.is_filling() && !self.loss.on_full(!self.busy) {
            self.empty.pause(now, now.since(asked), LEARNING_PACKETS);
        }
    }

    /// Records if a round had unusual loss. Packets for which the queue was cut do not count again. If more than a
    /// third of the rounds have unusual loss, a pause measures the usual loss again.
    fn note_congestion(&mut self, now: Time, asked: Time, congested: bool) {
        if !congested {
            self.doubt = self.doubt.saturating_sub(1);
            return;
        }
        self.loss.forgive();
        self.doubt += 2;
        if self.doubt >= MAX_DOUBT && !self.empty.is_paused() {
            self.doubt = 0;
            self.empty.pause(now, now.since(asked), LEARNING_PACKETS);
        }
    }
}

impl PathControl for DelayPath {
    fn on_acknowledged(&mut self, now: Time, acknowledgment: &Acknowledgment) {
        let &Acknowledgment { asked, round_trip, sent, arrived, since, .. } = acknowledgment;
        self.note_round_trip(now, acknowledgment);
        if let Some(rate) = acknowledgment.delivery_rate() {
            // The memory covers several rounds also on a long path.
            let memory = round_trip.saturating_mul(RATE_MEMORY_ROUND_TRIPS).max(MIN_RATE_MEMORY);
            self.rate.note(now, rate, memory);
        }
        let (lately_sent, lately_arrived) = acknowledgment.over_round_trip;
        self.loss.note(now, lately_arrived as f64, lately_sent as f64);
        if self.is_filling() {
            let seen = TrainAnswer { now, asked, serial: sent, arrived };
            self.train.on_answer(seen, self.empty.min_rtt());
            self.note_full(now, asked, since);
        }
        let congested = self.loss.is_more_than_usual();
        // A round ends with the first answer to a poll that was sent after the previous round had ended. Queue and
        // doubt change once per round, as all answers of a round report the same event.
        let next_round = asked >= self.round;
        if next_round {
            self.round = now;
            self.note_congestion(now, asked, congested);
        }
        self.update_queue(next_round, congested);
        self.update_window(round_trip.as_secs_f64(), since, next_round, congested);
    }

    fn on_silent(&mut self, _now: Time) {
        // The window may be too large. One that is below the floor already stays as it is.
        self.window = (self.window / 2.0).max(SILENT_WINDOW.min(self.window));
    }

    /// Pacing rate. It exceeds the delivery rate a little, so that a window is spread over a round trip and a path with
    /// more capacity is still found.
    fn rate(&self) -> Option<f64> {
        let rate = self.rate.greatest();
        // A round with few answers says less than what is known already.
        let train_rate = self
            .train
            .pace()
            .filter(|_| self.is_filling())
            .map(|train_rate| train_rate.max(rate * FILLING_GAIN));
        let gain = if self.is_filling() {
            FILLING_PACING_GAIN
        } else {
            PACING_GAIN + LOSSY_PACING_GAIN * self.lost_polls()
        };
        // The rate counts arrivals. To fill the path, the sender must also send the packets that are usually lost.
        train_rate.or_else(|| (rate > 0.0).then(|| gain * rate / (1.0 - self.loss.usual())))
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    /// Congestion window with the bound on queues and receive buffers. The packets that the path itself holds are not
    /// part of that bound.
    fn bounded_window(&self) -> u64 {
        self.window().min(self.buffered.saturating_add(self.held() as u64))
    }

    fn limit(&self) -> Limit {
        match () {
            _ if self.is_filling() => Limit::Search,
            _ if self.empty.is_paused() => Limit::Pause,
            _ if self.loss.is_more_than_usual() => Limit::Loss,
            _ => Limit::Capacity,
        }
    }

    fn estimate(&self) -> Option<PathEstimate> {
        Some(PathEstimate {
            window: self.window(),
            loss: self.loss.rate,
            round_trip: Duration::try_from_secs_f64(self.empty.min_rtt()).ok(),
            queued: Duration::try_from_secs_f64(self.queued).unwrap_or_default(),
        })
    }
}

/// Initial window in packets.
const INITIAL_WINDOW: f64 = 128.0;
/// Window in packets toward a receiver that does not answer.
const SILENT_WINDOW: f64 = 32.0;
/// Usual loss rate at which the additional growth and pacing are full.
const FULL_GROWTH_LOSS: f64 = 0.05;
/// Pacing gain while the path is being filled.
const FILLING_PACING_GAIN: f64 = 3.0;
/// Pacing gain on a known path: barely above the delivery rate, so that no burst follows a pause.
const PACING_GAIN: f64 = 1.05;
/// Additional pacing gain at a usual loss of `FULL_GROWTH_LOSS` or more.
const LOSSY_PACING_GAIN: f64 = 0.95;
/// Number of rounds without growth after which the path counts as full.
const MAX_FLAT_ROUNDS: u32 = 3;
/// Gain of the EWMA of the queueing delay.
const QUEUEING_DELAY_GAIN: f64 = 0.125;
/// Share of the window below which the sender counts as idle and not as the cause of loss.
const IDLE_SHARE: f64 = 0.5;
/// Value of `doubt` at which the usual loss is measured again: eight rounds in a row.
const MAX_DOUBT: u32 = 16;
/// Minimum time for which a delivery rate is remembered.
const MIN_RATE_MEMORY: Duration = Duration::from_millis(500);
/// Minimum time of this memory in round trips, if that is longer.
const RATE_MEMORY_ROUND_TRIPS: u32 = 8;
