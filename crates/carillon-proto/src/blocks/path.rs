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

use std::time::Duration;

use carillon_core::{PathMeasure, Time};

use super::MinRttProbe;
use super::path_loss::{LEARNING_PACKETS, PathLoss};
use super::train::{FILLING_GAIN, PacketTrain, TrainAnswer};
use super::windowed::Windowed;

/// Model of the path to one receiver, kept by the sender.
#[derive(Clone, Debug)]
pub struct Path {
    /// Last report of the receiver: packets arrived, and when.
    last: Mark,
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

/// Number of packets that had reached a receiver at some time, as far as the sender knew, and the number sent.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    arrived: u64,
    serial: u64,
    /// Time of the poll, and of its answer.
    asked: Time,
    at: Option<Time>,
}

/// Measurement from the answer to a poll.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Time of the poll.
    pub asked: Time,
    /// State of the path when the poll was sent.
    pub then: Mark,
    /// Number of packets sent up to the poll.
    pub serial: u64,
    /// Number of packets sent since the poll.
    pub since: u64,
    /// Packets that have reached the receiver, modulo 2^32.
    pub arrived: u32,
}

impl Default for Path {
    fn default() -> Self {
        Path::new()
    }
}

impl Path {
    /// Creates the model of an unknown path.
    pub fn new() -> Self {
        Path::with_buffers(u64::MAX)
    }

    /// Creates the model of an unknown path on which at most `buffered` packets may stand in queues and receive
    /// buffers.
    pub fn with_buffers(buffered: u64) -> Self {
        Path {
            buffered,
            last: Mark { arrived: 0, serial: 0, asked: Time::ZERO, at: None },
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

    /// Present state, to be kept with a poll.
    pub fn mark(&self) -> Mark {
        self.last
    }

    /// Number of packets sent when the poll left that was answered last.
    pub fn answered(&self) -> u64 {
        self.last.serial
    }

    /// Congestion window in packets.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// Congestion window with the bound on queues and receive buffers. The packets that the path itself holds are not
    /// part of that bound.
    pub fn bounded_window(&self) -> u64 {
        self.window().min(self.buffered.saturating_add(self.held() as u64))
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

    /// Smoothed loss rate.
    pub fn loss(&self) -> f64 {
        self.loss.rate
    }

    /// Measurements, once there was an answer. `has_room` and `held` are the caller's to know.
    pub fn measured(&self, has_room: bool, held: Duration) -> Option<PathMeasure> {
        self.last.at?;
        let least = self.empty.min_rtt();
        Some(PathMeasure {
            sent: self.last.serial,
            arrived: self.last.arrived,
            loss: self.loss.rate.clamp(0.0, 1.0),
            round_trip: Duration::try_from_secs_f64(least).ok(),
            window: self.window(),
            has_room,
            queued: Duration::try_from_secs_f64(self.queued).unwrap_or_default(),
            blocked: held,
        })
    }

    /// Pacing rate in packets per second, if known. It exceeds the delivery rate a little, so that a window is spread
    /// over a round trip and a path with more capacity is still found.
    pub fn pace(&self) -> Option<f64> {
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

    /// Share of the extra growth to use, from 0 to 1, as polls are lost like packets.
    fn lost_polls(&self) -> f64 {
        (self.loss.usual() / FULL_GROWTH_LOSS).min(1.0)
    }

    /// Updates the model with an answer of the receiver.
    pub fn on_answer(&mut self, now: Time, answer: Answer) {
        let Answer { asked, then, serial, since, arrived } = answer;
        let step = arrived.wrapping_sub(self.last.arrived as u32);
        // A step beyond half of the range is a negative one: a newer answer has overtaken this one.
        if step > u32::MAX / 2 {
            return;
        }
        // Count arrivals, and update the minimum round-trip time. A pause that ends reveals the usual loss.
        self.last = Mark { arrived: self.last.arrived + u64::from(step), serial, asked, at: Some(now) };
        let round_trip = now.since(asked).as_secs_f64();
        if let Some(found) = self.empty.on_answer(now, asked, serial, self.last.arrived) {
            self.loss.learn(now, found);
        }
        if let Some(before) = self.round_trip_seconds.replace(round_trip).filter(|_| !self.empty.is_paused())
        {
            // In a pause the queue drains. Round-trip times that differ for that reason are no jitter, hence the
            // filter above.
            self.jitter.note(now, (round_trip - before).abs(), MIN_RATE_MEMORY);
        }
        self.queued += ((round_trip - self.empty.min_rtt()).max(0.0) - self.queued) * QUEUEING_DELAY_GAIN;
        // Delivery rate sample (Cheng et al., delivery rate estimation): packets arrived over the longer of send and
        // receive interval. Measure over at least a round trip, so that answers in a burst do not look like a fast
        // path, and over at least the distance between polls, so that a late answer does not.
        let span = now.since(then.at.unwrap_or(asked).min(asked));
        let span = then.at.map_or(span, |_| span.max(asked.since(then.asked))).as_secs_f64();
        let came = (self.last.arrived - then.arrived) as f64;
        if span > 0.0 {
            // The memory covers several rounds also on a long path.
            let memory = now.since(asked).saturating_mul(RATE_MEMORY_ROUND_TRIPS).max(MIN_RATE_MEMORY);
            self.rate.note(now, came / span, memory);
        }
        self.loss.note(now, came, serial.saturating_sub(then.serial) as f64);
        if self.is_filling() {
            let seen = TrainAnswer { now, asked, serial, arrived: self.last.arrived };
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
        self.update_window(round_trip, since, next_round, congested);
    }

    /// Returns true while the capacity of the path is still being searched (as in the startup phase of BBR).
    pub fn is_filling(&self) -> bool {
        self.flat < MAX_FLAT_ROUNDS
    }

    /// Handles a silent receiver: halves the window, which may be too large.
    pub fn on_silence(&mut self) {
        // A window that is below the floor already stays as it is.
        self.window = (self.window / 2.0).max(SILENT_WINDOW.min(self.window));
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

    /// Updates the bound of the queue; `congested` tells if this round had unusual loss.
    fn update_queue(&mut self, next_round: bool, congested: bool) {
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
    fn update_window(&mut self, round_trip: f64, since: u64, next_round: bool, congested: bool) {
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

/// Initial window in packets.
const INITIAL_WINDOW: f64 = 128.0;
/// Window in packets toward a receiver that does not answer.
const SILENT_WINDOW: f64 = 32.0;
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
/// Share of the path's capacity that may be in flight during a pause.
const PAUSE_GAIN: f64 = 0.5;
/// Initial length of the queue, in seconds of packets.
const INITIAL_QUEUE_SECONDS: f64 = 0.010;
/// Minimum length of the queue, in seconds of packets.
const MIN_QUEUE_SECONDS: f64 = 0.0005;
/// Maximum length of the queue on a near path, in seconds. A flow that bounds its window by the round-trip time, as
/// BBR does, would get little beside a longer queue.
const MAX_NEAR_QUEUE_SECONDS: f64 = 0.007;
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
/// Gain of the EWMA of the queueing delay.
const QUEUEING_DELAY_GAIN: f64 = 0.125;
/// Number of packets in queues below which a queue means nothing.
const MIN_QUEUE_PACKETS: f64 = 4.0;
/// Growth of the queue per round, in packets (additive increase).
const QUEUE_GROWTH: f64 = 0.5;
/// Factor of the queue after a round with unusual loss (multiplicative decrease).
const QUEUE_DECREASE: f64 = 0.7;
/// Share of the window below which the sender counts as idle and not as the cause of loss.
const IDLE_SHARE: f64 = 0.5;
/// Value of `doubt` at which the usual loss is measured again: eight rounds in a row.
const MAX_DOUBT: u32 = 16;
/// Minimum time for which a delivery rate is remembered.
const MIN_RATE_MEMORY: Duration = Duration::from_millis(500);
/// Minimum time of this memory in round trips, if that is longer.
const RATE_MEMORY_ROUND_TRIPS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// Simulates a bottleneck with one packet per `spacing` microseconds, a queue of `room` packets and this delay,
    /// for a sender with a full window and an answer per packet. Returns the path, and the loss rate of the second
    /// half.
    fn behind_a_bottleneck(spacing: u64, room: u64, delay: u64, packets: u64) -> (Path, f64) {
        let mut path = Path::new();
        let (mut free, mut now) = (0, 0);
        let (mut serial, mut arrived, mut arrived_by_half) = (0u64, 0u32, 0);
        let mut under_way = std::collections::VecDeque::new();
        while serial < packets {
            while (under_way.len() as u64) < path.window() {
                serial += 1;
                let fits = u64::max(free, now) - now <= room * spacing;
                if fits {
                    free = free.max(now) + spacing;
                }
                under_way.push_back((now, path.mark(), serial, free + 2 * delay, fits));
            }
            let (asked, then, asked_serial, answer, fits) =
                under_way.pop_front().expect("something is under way");
            now = now.max(answer);
            if fits {
                arrived += 1;
                let since = serial - asked_serial;
                path.on_answer(
                    at(now),
                    Answer { asked: at(asked), then, serial: asked_serial, since, arrived },
                );
            }
            if asked_serial == packets / 2 {
                arrived_by_half = arrived;
            }
        }
        let half = (serial - under_way.len() as u64).saturating_sub(packets / 2);
        (path, 1.0 - f64::from(arrived - arrived_by_half) / half as f64)
    }

    /// Runs `behind_a_bottleneck` and returns the window.
    fn window_behind(spacing: u64, room: u64, delay: u64, packets: u64) -> (u64, f64) {
        let (path, lost) = behind_a_bottleneck(spacing, room, delay, packets);
        (path.window(), lost)
    }

    #[test]
    fn long_path_is_filled_fast_only_if_it_keeps_up() {
        // Ten thousand packets per round trip of 100 ms, and one thousand.
        let windows = [10, 100].map(|spacing| window_behind(spacing, 100_000, 50_000, 3000).0);
        assert!(windows[0] > 2300 && windows[1] < 1800, "{windows:?}");
        let (path, _) = behind_a_bottleneck(10, 100_000, 50_000, 3000);
        // The path's capacity may be in flight beside the buffered packets.
        let (known, seen) = (path.held(), path.rate.greatest() * path.empty.min_rtt());
        assert!(known > seen * 1.2, "{known} {seen}");
    }

    #[test]
    fn filling_overruns_path_only_briefly() {
        // 100 Mbit/s at 300 ms with a queue of a tenth of the capacity: 5000 packets per round trip.
        let (path, _) = behind_a_bottleneck(120, 500, 300_000, 60_000);
        let (_, lost) = behind_a_bottleneck(120, 500, 300_000, 120_000);
        assert!(!path.is_filling() && lost < 0.03, "{lost}");
    }

    /// Path of 10 000 packets a second at 100 ms.
    fn known() -> Path {
        let mut path = Path { full: (10_000.0, Time::ZERO), ..Path::with_buffers(100) };
        path.rate.note(at(0), 10_000.0, MIN_RATE_MEMORY);
        path.empty.on_answer(at(100_000), at(0), 0, 0);
        path
    }

    #[test]
    fn round_with_few_answers_keeps_pace() {
        let mut path = known();
        for (asked, serial) in [(0, 0), (10_000, 50)] {
            let seen = TrainAnswer { now: at(asked + 100_000), asked: at(asked), serial, arrived: serial };
            path.train.on_answer(seen, 0.1);
        }
        assert!(path.train.rate().is_some_and(|train_rate| train_rate < 5000.0));
        assert_eq!(path.pace(), Some(20_000.0));
    }

    #[test]
    fn bounded_sender_does_not_count_as_idle() {
        // The packets beyond the path's capacity are bounded, and half of the packets are lost: a case for measuring
        // the usual loss.
        for (before, since, is_to_be_found_out) in [(400, 1000, true), (1000, 400, true), (400, 400, false)] {
            let mut path = Path { window: 10_000.0, flat: MAX_FLAT_ROUNDS - 2, ..known() };
            path.note_full(at(150_000), at(50_000), before);
            path.loss.rate = 0.5;
            path.note_full(at(250_000), at(150_000), since);
            assert_eq!(path.empty.is_paused(), is_to_be_found_out, "{before} {since}");
        }
    }

    /// Two flows share a bottleneck and poll with every packet; the second begins a second later. Returns the share
    /// of each between the tenth and the twentieth second. With a bound, the second flow has that many packets in
    /// flight.
    fn sharing_a_bottleneck(spacing: u64, room: u64, delay: u64, bound: Option<u64>) -> [f64; 2] {
        struct Flow {
            path: Path,
            serial: u64,
            arrived: u32,
            counted: u32,
            under_way: std::collections::VecDeque<(u64, Mark, u64, u64, bool)>,
        }
        let flow =
            || Flow { path: Path::new(), serial: 0, arrived: 0, counted: 0, under_way: Default::default() };
        let mut flows = [flow(), flow()];
        // Random jitter, so that no flow always finds the place that another packet has just left.
        let mut random = carillon_core::Seeds::new(1).stream("jitter");
        let (mut free, mut now) = (0, 0);
        while now < 20_000_000 {
            for (number, flow) in flows.iter_mut().enumerate() {
                let window = bound.filter(|_| number == 1).unwrap_or(flow.path.window());
                while now >= number as u64 * 1_000_000 && (flow.under_way.len() as u64) < window {
                    flow.serial += 1;
                    let fits = u64::max(free, now) - now <= room * spacing;
                    if fits {
                        free = free.max(now) + spacing;
                    }
                    // A loss is noticed a little later than the packet would have arrived.
                    let answer = free.max(now) + 2 * delay + u64::from(!fits) + random.below(2 * spacing);
                    flow.under_way.push_back((now, flow.path.mark(), flow.serial, answer, fits));
                }
            }
            let first = |flow: &&mut Flow| flow.under_way.front().map_or(u64::MAX, |next| next.3);
            let flow = flows.iter_mut().min_by_key(first).expect("two");
            let (asked, then, serial, answer, fits) =
                flow.under_way.pop_front().expect("something is under way");
            now = now.max(answer);
            if fits {
                flow.arrived += 1;
                flow.counted += u32::from(now > 10_000_000);
                let (since, arrived) = (flow.serial - serial, flow.arrived);
                flow.path.on_answer(at(now), Answer { asked: at(asked), then, serial, since, arrived });
            }
        }
        flows.map(|flow| f64::from(flow.counted) * spacing as f64 / 10e6)
    }

    #[test]
    fn two_flows_reach_equal_shares_in_any_order() {
        // 100 and 10 Mbit/s, near and far, with queues longer and shorter than the ones tried.
        for (spacing, delay) in [(120, 100), (120, 25_000), (1200, 100), (1200, 25_000)] {
            for room in [50, 170, 1000].into_iter().step_by(carillon_testkit::sampling_step(2)) {
                let shares = sharing_a_bottleneck(spacing, room, delay, None);
                let least = shares[0].min(shares[1]);
                assert!(
                    least > 0.25 && shares[0] + shares[1] > 0.9,
                    "spacing {spacing}, delay {delay}, room {room}: {shares:?}"
                );
            }
        }
    }

    /// Like a BBR flow, which has some two dozen packets in flight at a round-trip time of 0.2 ms.
    #[test]
    fn small_near_flow_keeps_third_of_fair_share() {
        let shares = sharing_a_bottleneck(120, 170, 100, Some(24));
        assert!(shares[1] > 0.5 / 3.0 && shares[0] + shares[1] > 0.99, "{shares:?}");
    }

    /// A packet per 5 ms at 30 ms with a loss of a fifth: reducing so small a rate teaches nothing.
    #[test]
    fn slow_sender_is_not_paused() {
        let mut path = Path::new();
        let mut random = carillon_core::Seeds::new(1).stream("losses");
        let (mut marks, mut arrived) = (std::collections::VecDeque::new(), 0);
        for serial in 1..1000 {
            let now = serial * 5_000;
            marks.push_back((now, path.mark(), serial));
            if marks.len() > 6 {
                let (asked, then, asked_serial) = marks.pop_front().expect("the oldest");
                if random.below(5) > 0 {
                    arrived += 1;
                    let (asked, since) = (at(asked), serial - asked_serial);
                    path.on_answer(at(now), Answer { asked, then, serial: asked_serial, since, arrived });
                }
            }
            assert!(!path.empty.is_paused() && path.window() >= 10, "{} at {now}", path.window());
        }
        assert!(path.loss.usual() > 0.1 && path.loss.usual() < 0.25, "{}", path.loss.usual());
    }

    #[test]
    fn uneven_answers_permit_longer_queue() {
        // 8000 packets a second with round-trip times that alternate between 1 ms and more.
        for (late, least, most) in
            [(0, 59.0, 60.0), (4_000, 59.0, 60.0), (10_000, 125.0, 126.0), (90_000, 204.0, 205.0)]
        {
            let mut path = Path { queue: 1000.0, flat: MAX_FLAT_ROUNDS, ..Path::new() };
            path.rate.note(at(0), 8000.0, MIN_RATE_MEMORY);
            for turn in 0..4 {
                let asked = 100_000 * turn;
                let late = if turn % 2 == 0 { 0 } else { late };
                path.on_answer(at(asked + 1_000 + late), answer(&path, asked, 1 + turn as u32));
            }
            path.queue = 1000.0;
            path.update_queue(false, false);
            assert!((least..most).contains(&path.queue), "{late} us: {}", path.queue);
        }
    }

    #[test]
    fn pause_does_not_count_as_jitter() {
        let mut path = Path::new();
        path.on_answer(at(150_000), answer(&path, 100_000, 1));
        path.empty.pause(at(150_000), Duration::from_secs(1), 0);
        path.on_answer(at(201_000), answer(&path, 200_000, 2));
        assert!(path.jitter.greatest() < 0.0, "{}", path.jitter.greatest());
    }

    #[test]
    fn queues_grown_and_cut_together_become_equal() {
        let mut queues = [150.0, 30.0].map(|queue| {
            let mut path = Path { queue, flat: MAX_FLAT_ROUNDS, ..Path::new() };
            // 8000 packets a second.
            path.rate.note(at(0), 8000.0, MIN_RATE_MEMORY);
            path
        });
        for round in 0..600 {
            queues.iter_mut().for_each(|path| path.update_queue(true, round % 50 == 49));
        }
        let [one, other] = queues.map(|path| path.queue);
        assert!(other > 0.9 * one && one < 100.0, "{one} and {other}");
    }

    #[test]
    fn lost_answers_do_not_shrink_group_window() {
        let mut random = carillon_core::Seeds::new(1).stream("losses");
        let mut lost = |part: f64| random.unit() < part;
        let mut paths = vec![Path::new(); 16];
        let (mut now, mut serial, mut arrived) = (0, 0, [0u32; 16]);
        for round in 0..600 {
            let window = paths.iter().map(Path::window).min().expect("some");
            assert!(round < 40 || window > 64, "round {round}: {window}");
            let window = window.min(2000);
            serial += window;
            let marks: Vec<Mark> = paths.iter().map(Path::mark).collect();
            // Each receiver is polled twice, and a silent one holds the others up.
            let answers: Vec<bool> = paths.iter().map(|_| !(lost(0.36) && lost(0.36))).collect();
            let asked = now;
            now += if answers.contains(&false) { 60_000 } else { 20_000 };
            for (index, path) in paths.iter_mut().enumerate() {
                arrived[index] += (0..window).filter(|_| !lost(0.2)).count() as u32;
                if answers[index] {
                    let (then, arrived) = (marks[index], arrived[index]);
                    let answer = Answer { asked: at(asked), then, serial, since: window, arrived };
                    path.on_answer(at(asked + 20_000), answer);
                }
            }
        }
    }

    fn answer(path: &Path, asked: u64, arrived: u32) -> Answer {
        Answer { asked: at(asked), then: path.mark(), serial: arrived.into(), since: 100, arrived }
    }

    #[test]
    fn window_is_path_capacity_plus_bounded_queue() {
        // 100 Mbit/s in packets of 1500 bytes: one per 120 us.
        let queue = (MAX_NEAR_QUEUE_SECONDS * 1e6) as u64 / 120;
        let (near, _) = window_behind(120, 1000, 100, 60_000);
        assert!((queue - 20..queue + 20).contains(&near), "{near}");
        // At a round-trip time of 20 ms the path holds 167 packets; half of that more looks for growth.
        let (far, _) = window_behind(120, 1000, 10_000, 50_000);
        assert!((167 + queue / 2..260 + 2 * queue).contains(&far), "{far}");
        // Rate of 1 Mbit/s.
        let (slow, _) = window_behind(12_000, 1000, 100, 1000);
        assert!(slow <= 36, "{slow}");
    }

    #[test]
    fn pace_barely_exceeds_delivery_rate() {
        for delay in [100, 10_000] {
            let (path, _) = behind_a_bottleneck(120, 1000, delay, 60_000);
            let share = path.pace().expect("something has arrived") * 120e-6;
            assert!(share > 1.0 && share < 1.2, "{share} of the bottleneck, {delay} us away");
        }
    }

    #[test]
    fn late_receiver_counts_from_first_poll() {
        let windows = [0, 3_600_000_000].map(|begin| {
            let mut path = Path::new();
            path.on_answer(at(begin + 20_000), answer(&path, begin, 128));
            (path.window(), path.pace().map(f64::round))
        });
        assert_eq!(windows[0], windows[1]);
        assert!(windows[0].1 >= Some(FILLING_PACING_GAIN * 128.0 / 0.02), "{windows:?}");
    }

    #[test]
    fn buffers_bound_queue_but_not_path_capacity() {
        let mut path = Path::with_buffers(100);
        assert_eq!(path.bounded_window(), 100);
        assert_eq!(Path::with_buffers(1000).bounded_window(), INITIAL_WINDOW as u64);
        // 10 000 packets a second at 50 ms: 500 are on the way.
        path.on_answer(at(60_000), answer(&path, 10_000, 500));
        assert!(path.window() > 700, "{}", path.window());
        assert_eq!(path.bounded_window(), 600);
        path.buffered = u64::MAX;
        assert_eq!(path.bounded_window(), path.window());
    }

    #[test]
    fn short_queue_is_overrun_only_briefly() {
        for room in [40, 100, 200] {
            let (near, lost) = window_behind(120, room, 100, 40_000);
            assert!(near <= room + 20 && lost < 0.03, "room {room}: window {near}, lost {lost}");
            let (far, lost) = window_behind(120, room, 10_000, 40_000);
            assert!(far >= 130 && lost < 0.06, "room {room}: window {far}, lost {lost}");
        }
    }

    #[test]
    fn only_unusual_loss_shrinks_window() {
        let mut path = Path::new();
        let (mut serial, mut arrived) = (0, 0);
        let mut round = |path: &mut Path, from: u64, share: f64| {
            let then = path.mark();
            let sent = path.window();
            serial += sent;
            arrived += (sent as f64 * share) as u32;
            path.on_answer(at(from + 20_000), Answer { asked: at(from), then, serial, since: sent, arrived });
            path.window()
        };
        // A fifth is lost, and the sender pauses half of the time for lost polls.
        let grown = (1..20).map(|n| round(&mut path, n * 40_000, 0.8)).max().expect("rounds");
        assert!(grown > 1000, "{grown}");
        let mut window = 0;
        for n in 20..80 {
            let share = if path.window() > 200 { 200.0 / path.window() as f64 } else { 0.8 };
            window = round(&mut path, n * 40_000, share);
        }
        assert!(window < 700, "{window}");
    }

    #[test]
    fn window_recovers_after_random_loss_begins() {
        let mut random = carillon_core::Seeds::new(1).stream("losses");
        let mut path = Path::new();
        let (mut serial, mut arrived) = (0, 0);
        for n in 0..120 {
            let (then, asked) = (path.mark(), n * 20_000);
            let sent = path.window().min(2000);
            serial += sent;
            arrived += (0..sent).filter(|_| n < 20 || random.unit() >= 0.2).count() as u32;
            let answer = Answer { asked: at(asked), then, serial, since: sent, arrived };
            path.on_answer(at(asked + 20_000), answer);
        }
        // Two seconds later.
        assert!(path.window() > 1000, "{}", path.window());
    }

    #[test]
    fn silence_halves_window_and_answers_restore_it() {
        let mut path = Path::new();
        path.on_answer(at(1000), answer(&path, 900, 320));
        assert!(path.window() > 64);
        for _ in 0..20 {
            path.on_silence();
        }
        assert_eq!(path.window(), SILENT_WINDOW as u64);
        path.on_answer(at(2000), answer(&path, 1900, 640));
        assert!(path.window() > 64);
    }

    #[test]
    fn overtaken_answer_changes_nothing() {
        let mut path = Path::new();
        let late = answer(&path, 800, 16);
        path.on_answer(at(1000), answer(&path, 900, 32));
        let window = path.window();
        path.on_answer(at(1001), late);
        assert_eq!((path.window(), path.mark().arrived), (window, 32));
    }
}
