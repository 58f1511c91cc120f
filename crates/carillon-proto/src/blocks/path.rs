//! What the path to one receiver carries, and how much may therefore be under way.
//!
//! Loss says nothing of a bottleneck where loss is random, and delay little where processes share a
//! machine. So the window is never less than what arrives asks for: the greatest rate at which packets were seen
//! to reach the receiver, times the round trip without queues, and a bounded queue on top (Cardwell et al.,
//! *BBR: Congestion-Based Congestion Control*, 2016, from which the filters and the pauses are; the queue is
//! Carillon's). How long the queue may be is tried out: it grows until more is lost than usual. Beyond
//! that the window grows as long as neither a queue nor more loss than usual is seen: lost questions make the
//! sender pause, and what arrives is then less than what could.
//!
//! Who shares a bottleneck gets a share in proportion to what it has in the queue there. So the queue is counted in
//! packets, grows by as many for whoever shares it, is cut by a part of itself, and is bounded by less than in proportion to the
//! rate where links are slow: shares become equal (Chiu and Jain, *Analysis of the Increase and Decrease Algorithms*, 1989).
//!
//! What is usual is what is lost while hardly anything is under way. It is found out before the first time that more counts as a sign
//! of a bottleneck, and again whenever it seems to be one for long: less sent that loses as much was not too much.

use std::time::Duration;

use carillon_core::{PathMeasure, Time};

use super::EmptyPath;
use super::path_loss::{LEARNING_PACKETS, PathLoss};
use super::train::{FILLING_GAIN, Seen, Train};
use super::windowed::Windowed;

/// The sender's model of the path to one receiver.
#[derive(Clone, Debug)]
pub struct Path {
    /// What the receiver last said had reached it, and when.
    last: Mark,
    /// Packets a second that arrived, at most.
    rate: Windowed,
    /// What it is like without queues.
    empty: EmptyPath,
    /// Part of the packets that is lost.
    loss: PathLoss,
    /// Packets that may stand in queues.
    queue: f64,
    /// Rounds in which the rate has not grown any more, while the path is being filled.
    flat: u32,
    /// In one of them, or the last in which it has grown, as much was under way as may be, or nearly.
    busy: bool,
    /// What is sent in a round trip, as long as it is found out what the path carries.
    train: Train,
    /// The rate that the next round is compared with, and when that round begins.
    full: (f64, Time),
    /// When the next round begins in which the window may grow.
    round: Time,
    /// Twice the rounds that have lost more than usual, less the others.
    doubt: u32,
    /// Packets that may be under way to it.
    window: f64,
    /// No more than so many may stand in queues and receive buffers.
    buffered: u64,
    /// Seconds that a question and its answer wait in queues, smoothed.
    queued: f64,
    /// Seconds that the last question and its answer took.
    trip: Option<f64>,
    /// By so many seconds one took longer or shorter than the one before, at most.
    uneven: Windowed,
}

/// How many packets had reached a receiver at some time, as far as the sender knew, and of how many.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    arrived: u64,
    serial: u64,
    /// When it was asked and when it was said.
    asked: Time,
    at: Option<Time>,
}

/// What an answer says of the path.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// When the question was asked, and what was known then.
    pub asked: Time,
    /// What was known of the path then.
    pub then: Mark,
    /// Packets sent up to the question, and since.
    pub serial: u64,
    /// Packets sent since the question.
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
    /// A path of which nothing is known.
    pub fn new() -> Self {
        Path::with_buffers(u64::MAX)
    }

    /// The same, where no more than so many packets may stand in queues and receive buffers.
    pub fn with_buffers(buffered: u64) -> Self {
        Path {
            buffered,
            last: Mark { arrived: 0, serial: 0, asked: Time::ZERO, at: None },
            rate: Windowed::default(),
            empty: EmptyPath::default(),
            loss: PathLoss::default(),
            queue: 0.0,
            flat: 0,
            busy: false,
            train: Train::default(),
            full: (0.0, Time::ZERO),
            round: Time::ZERO,
            doubt: 0,
            window: FIRST_WINDOW,
            queued: 0.0,
            trip: None,
            uneven: Windowed::default(),
        }
    }

    /// What is known now, to be kept with a question that is asked now.
    pub fn mark(&self) -> Mark {
        self.last
    }

    /// Packets that may be under way.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// The same, if no more stand in queues and receive buffers than may: what the path itself holds is beside them.
    pub fn bounded_window(&self) -> u64 {
        self.window().min(self.buffered.saturating_add(self.held() as u64))
    }

    /// Packets that the path itself is known to hold.
    fn held(&self) -> f64 {
        let rate = self.rate.greatest();
        // What goes out twice as fast as it arrives, over a path that keeps up, is spread over it.
        let told = self.train.rate().filter(|_| self.is_filling()).map(|told| told.max(rate * FILLING_GAIN));
        let held = told.unwrap_or(rate) * self.empty.least();
        if held.is_finite() { held.max(0.0) } else { 0.0 }
    }

    /// Which part of the packets is lost, smoothed.
    pub fn loss(&self) -> f64 {
        self.loss.part
    }

    /// What was measured, once there was an answer; whether it has room and for how long it held others up is not the path's to say.
    pub fn measured(&self, has_room: bool, held: Duration) -> Option<PathMeasure> {
        self.last.at?;
        let least = self.empty.least();
        Some(PathMeasure {
            sent: self.last.serial,
            arrived: self.last.arrived,
            loss: self.loss.part.clamp(0.0, 1.0),
            round_trip: Duration::try_from_secs_f64(least).ok(),
            window: self.window(),
            has_room,
            queued: Duration::try_from_secs_f64(self.queued).unwrap_or_default(),
            blocked: held,
        })
    }

    /// Packets a second that may leave, if anything is known: more than arrive, so that a window is spread over a
    /// round trip instead of filling a queue at once, and a path that can carry more is still found out.
    pub fn pace(&self) -> Option<f64> {
        let rate = self.rate.greatest();
        // A round of which little has come back tells less than what is known.
        let told = self.train.pace().filter(|_| self.is_filling()).map(|told| told.max(rate * FILLING_GAIN));
        let gain = if self.is_filling() { FILLING_PACE } else { PACE + LOST_PACE * self.lost_questions() };
        told.or_else(|| (rate > 0.0).then(|| gain * rate / (1.0 - self.loss.usual())))
    }

    /// How much more is to be tried than arrives, from 0 to 1, since questions are lost as packets are.
    fn lost_questions(&self) -> f64 {
        (self.loss.usual() / LOST).min(1.0)
    }

    /// The receiver answers.
    pub fn on_answer(&mut self, now: Time, answer: Answer) {
        let Answer { asked, then, serial, since, arrived } = answer;
        let step = arrived.wrapping_sub(self.last.arrived as u32);
        // An older answer overtaken by a newer one counts backwards.
        if step > u32::MAX / 2 {
            return;
        }
        self.last = Mark { arrived: self.last.arrived + u64::from(step), serial, asked, at: Some(now) };
        let round_trip = now.since(asked).as_secs_f64();
        if let Some(found) = self.empty.on_answer(now, asked, serial, self.last.arrived) {
            self.loss.learn(now, found);
        }
        if let Some(before) = self.trip.replace(round_trip).filter(|_| !self.empty.is_paused()) {
            self.uneven.note(now, (round_trip - before).abs(), RATE_MEMORY);
        }
        self.queued += ((round_trip - self.empty.least()).max(0.0) - self.queued) * QUEUED_GAIN;
        // Over a round trip at least, so that answers that come in a heap do not look like a fast path, and not less than between
        // the questions, so that a late answer does not.
        let span = now.since(then.at.unwrap_or(asked).min(asked));
        let span = then.at.map_or(span, |_| span.max(asked.since(then.asked))).as_secs_f64();
        let came = (self.last.arrived - then.arrived) as f64;
        if span > 0.0 {
            let memory = now.since(asked).saturating_mul(RATE_ROUNDS).max(RATE_MEMORY);
            self.rate.note(now, came / span, memory);
        }
        self.loss.note(now, came, serial.saturating_sub(then.serial) as f64);
        if self.is_filling() {
            let seen = Seen { now, asked, serial, arrived: self.last.arrived };
            self.train.on_answer(seen, self.empty.least());
            self.note_full(now, asked, since);
        }
        let crowded = self.loss.is_more_than_usual();
        let next_round = asked >= self.round;
        if next_round {
            self.round = now;
            self.note_crowded(now, asked, crowded);
        }
        self.weigh_queue(next_round, crowded);
        self.weigh_window(round_trip, since, next_round, crowded);
    }

    /// Whether it is still being found out what it carries.
    pub fn is_filling(&self) -> bool {
        self.flat < FLAT_ROUNDS
    }

    /// Nothing came of what was sent: it may be too much.
    pub fn on_silence(&mut self) {
        self.window = (self.window / 2.0).max(SILENT_WINDOW.min(self.window));
    }

    /// The path is full once its rate has not grown by a quarter in three rounds.
    fn note_full(&mut self, now: Time, asked: Time, since: u64) {
        self.empty.put_off(now);
        if asked < self.full.1 {
            return;
        }
        let rate = self.rate.greatest();
        let busy = since as f64 >= IDLE * self.bounded_window() as f64;
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

    /// A round has lost more than usual, or not: what it was cut for does not count again. Where most rounds do, it is looked for what is usual.
    fn note_crowded(&mut self, now: Time, asked: Time, crowded: bool) {
        if !crowded {
            self.doubt = self.doubt.saturating_sub(1);
            return;
        }
        self.loss.forgive();
        self.doubt += 2;
        if self.doubt >= DOUBTED && !self.empty.is_paused() {
            self.doubt = 0;
            self.empty.pause(now, now.since(asked), LEARNING_PACKETS);
        }
    }

    /// How much may stand in queues; it is another round, and maybe one that has lost more than usual.
    fn weigh_queue(&mut self, next_round: bool, crowded: bool) {
        let rate = self.rate.greatest();
        if next_round {
            self.queue = match crowded {
                _ if self.is_filling() => FIRST_QUEUE * rate,
                true => self.queue * QUEUE_CUT,
                false => self.queue + QUEUE_GROWTH,
            };
        }
        let fewest = (LEAST_QUEUE * rate).max(FEWEST_QUEUED);
        let near = NEAR_QUEUE.max(UNEVEN * self.uneven.greatest());
        let seconds = (near + QUEUED_TRIP * self.empty.least()).min(MOST_QUEUE);
        let most = seconds * rate.max((rate * EQUAL_BELOW).sqrt());
        self.queue = self.queue.clamp(fewest, most.max(fewest));
    }

    /// How much may be under way, after this round trip, since the question of which so many packets were sent.
    fn weigh_window(&mut self, round_trip: f64, since: u64, next_round: bool, crowded: bool) {
        let (rate, least) = (self.rate.greatest(), self.empty.least());
        if self.empty.is_paused() {
            self.window = (rate * least * PAUSE).clamp(LEAST_WINDOW, self.window.max(LEAST_WINDOW));
            return;
        }
        // More is tried where questions are lost, and less where a little more was lost lately.
        let most = GROWTH + LOST_GROWTH * self.lost_questions();
        let growth = 1.0 + most * (self.queue / (FIRST_QUEUE * rate)).min(1.0);
        // What came before the first answers was little, and says little.
        let (gain, floor) = match self.is_filling() {
            true if self.flat > 0 => (FLAT_GAIN, FIRST_WINDOW),
            true => (self.train.gain(rate).unwrap_or(FILLING_GAIN), FIRST_WINDOW),
            false if crowded => (CROWDED_GAIN, LEAST_WINDOW),
            false => (growth, LEAST_WINDOW),
        };
        let asked_for = (rate * gain * least + self.queue).max(floor);
        let queued = (round_trip - least) * rate > self.queue / 2.0;
        self.window = if queued || crowded {
            asked_for
        } else if next_round {
            // Twice what was made use of, so that it does not grow while there is nothing to send.
            asked_for.max((self.window * growth).min(since as f64 * 2.0))
        } else {
            self.window.max(asked_for)
        };
    }
}

/// Packets under way before anything is known.
const FIRST_WINDOW: f64 = 128.0;
/// Packets under way to one that does not answer.
const SILENT_WINDOW: f64 = 32.0;
/// Fewer would not carry a question and a repair.
const LEAST_WINDOW: f64 = 8.0;
/// As soon as the rate does not grow with it, what stands in queues does: less is enough to see whether it grows still.
const FLAT_GAIN: f64 = 1.5;
/// Of what arrives at most, which is more than what arrives, so much where more is lost than usual.
const CROWDED_GAIN: f64 = 0.9;
/// So much more than what arrives is tried, in each round, so that a path that can carry more is found out.
const GROWTH: f64 = 0.2;
/// So much more beside it where this part of the packets is usually lost, or more: lost questions make the sender pause.
const LOST_GROWTH: f64 = 0.3;
const LOST: f64 = 0.05;
/// So much faster than packets arrive they leave, at most: hardly, so that what goes out after a pause does not come in a heap.
const FILLING_PACE: f64 = 3.0;
const PACE: f64 = 1.05;
/// So much faster beside it where packets are usually lost.
const LOST_PACE: f64 = 0.95;
/// Rounds without growth after which the path counts as full.
const FLAT_ROUNDS: u32 = 3;
/// Part of what the path holds that may be under way in a pause.
const PAUSE: f64 = 0.5;
/// Seconds of packets that may stand in queues and receive buffers: at first, and at least.
const FIRST_QUEUE: f64 = 0.010;
const LEAST_QUEUE: f64 = 0.0005;
/// At most so many nearby, and beside them what arrives in this part of a round trip, up to so many. Who bounds what it has under
/// way by the round trip without queues, as BBR does, has little nearby, and would get little beside more.
const NEAR_QUEUE: f64 = 0.007;
/// Those of so many times what round trips were lately uneven by, if that is more: a queue in a network grows and shrinks slowly, but
/// processes that share a processor answer now at once, now late, and are not to wait for each other.
const UNEVEN: f64 = 1.5;
const QUEUED_TRIP: f64 = 1.0 / 3.0;
const MOST_QUEUE: f64 = 0.025;
/// Packets a second below which the most is in proportion to the root of the rate: 100 Mbit/s in frames of 1500 bytes, whose
/// queue nearby is 7 ms then, and that of 10 Mbit/s 22 ms, for one or several who share it.
const EQUAL_BELOW: f64 = 8333.0;
/// What the last answer counts for in the time that they wait.
const QUEUED_GAIN: f64 = 0.125;
/// Fewer packets in queues are not a sign of anything.
const FEWEST_QUEUED: f64 = 4.0;
/// By so many packets it grows in a round, and to this part it falls in one that lost more than usual.
const QUEUE_GROWTH: f64 = 0.5;
const QUEUE_CUT: f64 = 0.7;
/// Who has sent less than this part of what may be under way has nothing more to send, and is not the cause of what is lost.
const IDLE: f64 = 0.5;
/// With so much of it, it is doubted what is usual: eight rounds in a row.
const DOUBTED: u32 = 16;
/// How long a rate is remembered, at least, and in round trips.
const RATE_MEMORY: Duration = Duration::from_millis(500);
const RATE_ROUNDS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// A bottleneck that carries a packet each `spacing` microseconds and queues `room` of them, `delay`
    /// away: packets of a window, answered one by one if they arrive. Returns the path after so many packets, and
    /// which part of the second half of them is lost.
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

    /// Likewise, of the path its window.
    fn window_behind(spacing: u64, room: u64, delay: u64, packets: u64) -> (u64, f64) {
        let (path, lost) = behind_a_bottleneck(spacing, room, delay, packets);
        (path.window(), lost)
    }

    #[test]
    fn a_long_path_is_filled_in_few_round_trips_if_it_carries_what_is_sent_and_as_slowly_as_ever_if_not() {
        // Ten thousand packets a round trip of 100 ms, and a thousand.
        let windows = [10, 100].map(|spacing| window_behind(spacing, 100_000, 50_000, 3000).0);
        assert!(windows[0] > 2300 && windows[1] < 1800, "{windows:?}");
        let (path, _) = behind_a_bottleneck(10, 100_000, 50_000, 3000);
        // What a path is known to hold may be under way beside what is buffered.
        let (known, seen) = (path.held(), path.rate.greatest() * path.empty.least());
        assert!(known > seen * 1.2, "{known} {seen}");
    }

    #[test]
    fn a_path_is_not_overrun_for_long_while_it_is_filled() {
        // 100 Mbit/s, 300 ms away, with a queue of a tenth of what it holds: 5000 packets in a round trip.
        let (path, _) = behind_a_bottleneck(120, 500, 300_000, 60_000);
        let (_, lost) = behind_a_bottleneck(120, 500, 300_000, 120_000);
        assert!(!path.is_filling() && lost < 0.03, "{lost}");
    }

    /// 10 000 packets a second, 100 ms away.
    fn known() -> Path {
        let mut path = Path { full: (10_000.0, Time::ZERO), ..Path::with_buffers(100) };
        path.rate.note(at(0), 10_000.0, RATE_MEMORY);
        path.empty.on_answer(at(100_000), at(0), 0, 0);
        path
    }

    #[test]
    fn a_round_of_which_little_has_come_back_does_not_slow_down_what_leaves() {
        let mut path = known();
        for (asked, serial) in [(0, 0), (10_000, 50)] {
            let seen = Seen { now: at(asked + 100_000), asked: at(asked), serial, arrived: serial };
            path.train.on_answer(seen, 0.1);
        }
        assert!(path.train.rate().is_some_and(|told| told < 5000.0));
        assert_eq!(path.pace(), Some(20_000.0));
    }

    #[test]
    fn who_is_kept_from_sending_more_has_not_little_to_send() {
        // What may be under way beyond what the path holds is bounded, and half of what was sent is lost: is that usual?
        for (before, since, is_to_be_found_out) in [(400, 1000, true), (1000, 400, true), (400, 400, false)] {
            let mut path = Path { window: 10_000.0, flat: FLAT_ROUNDS - 2, ..known() };
            path.note_full(at(150_000), at(50_000), before);
            path.loss.part = 0.5;
            path.note_full(at(250_000), at(150_000), since);
            assert_eq!(path.empty.is_paused(), is_to_be_found_out, "{before} {since}");
        }
    }

    /// Two who share a bottleneck, each of whom asks with every packet; the second begins a second later. Returns what
    /// arrives of each, as a part of what the bottleneck carries, from the tenth second to the twentieth. If there is a bound the second has
    /// as much under way as that.
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
        // Nobody's packets always find the place that another's has just left.
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
                    // What is lost is missed a little later than it would have come.
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
    fn two_who_share_a_bottleneck_come_to_equal_shares_whoever_began() {
        // 100 and 10 Mbit/s, near and far, with queues that are long, and shorter than those that are tried.
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

    /// As BBR, which has some two dozen packets under way where a round trip takes 0.2 ms.
    #[test]
    fn who_has_little_under_way_nearby_keeps_a_third_of_a_fair_share() {
        let shares = sharing_a_bottleneck(120, 170, 100, Some(24));
        assert!(shares[1] > 0.5 / 3.0 && shares[0] + shares[1] > 0.99, "{shares:?}");
    }

    /// A packet each 5 ms, 30 ms away, and a fifth of them lost: nothing is found out by sending less of so little.
    #[test]
    fn who_has_little_to_send_is_not_held_up() {
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
    fn who_answers_now_at_once_and_now_late_may_have_more_in_queues() {
        // 8000 packets a second; round trips by turns of 1 ms and of so much more.
        for (late, least, most) in
            [(0, 59.0, 60.0), (4_000, 59.0, 60.0), (10_000, 125.0, 126.0), (90_000, 204.0, 205.0)]
        {
            let mut path = Path { queue: 1000.0, flat: FLAT_ROUNDS, ..Path::new() };
            path.rate.note(at(0), 8000.0, RATE_MEMORY);
            for turn in 0..4 {
                let asked = 100_000 * turn;
                let late = if turn % 2 == 0 { 0 } else { late };
                path.on_answer(at(asked + 1_000 + late), answer(&path, asked, 1 + turn as u32));
            }
            path.queue = 1000.0;
            path.weigh_queue(false, false);
            assert!((least..most).contains(&path.queue), "{late} us: {}", path.queue);
        }
    }

    #[test]
    fn a_pause_in_which_queues_empty_does_not_make_round_trips_uneven() {
        let mut path = Path::new();
        path.on_answer(at(150_000), answer(&path, 100_000, 1));
        path.empty.pause(at(150_000), Duration::from_secs(1), 0);
        path.on_answer(at(201_000), answer(&path, 200_000, 2));
        assert!(path.uneven.greatest() < 0.0, "{}", path.uneven.greatest());
    }

    #[test]
    fn queues_that_grow_and_are_cut_together_become_equal() {
        let mut queues = [150.0, 30.0].map(|queue| {
            let mut path = Path { queue, flat: FLAT_ROUNDS, ..Path::new() };
            // 8000 packets a second.
            path.rate.note(at(0), 8000.0, RATE_MEMORY);
            path
        });
        for round in 0..600 {
            queues.iter_mut().for_each(|path| path.weigh_queue(true, round % 50 == 49));
        }
        let [one, other] = queues.map(|path| path.queue);
        assert!(other > 0.9 * one && one < 100.0, "{one} and {other}");
    }

    #[test]
    fn a_group_whose_answers_are_lost_too_is_not_drawn_down_by_its_least_window() {
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
            // Each is asked twice; who does not answer holds the others up.
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
    fn the_window_is_what_the_path_carries_and_a_bounded_queue() {
        // 100 Mbit/s of 1500 bytes: a packet each 120 us.
        let queue = (NEAR_QUEUE * 1e6) as u64 / 120;
        let (near, _) = window_behind(120, 1000, 100, 60_000);
        assert!((queue - 20..queue + 20).contains(&near), "{near}");
        // With 20 ms there and back 167 packets are on the way, and half of that more looks for growth.
        let (far, _) = window_behind(120, 1000, 10_000, 50_000);
        assert!((167 + queue / 2..260 + 2 * queue).contains(&far), "{far}");
        // 1 Mbit/s.
        let (slow, _) = window_behind(12_000, 1000, 100, 1000);
        assert!(slow <= 36, "{slow}");
    }

    #[test]
    fn packets_leave_hardly_faster_than_a_full_path_carries_them() {
        for delay in [100, 10_000] {
            let (path, _) = behind_a_bottleneck(120, 1000, delay, 60_000);
            let share = path.pace().expect("something has arrived") * 120e-6;
            assert!(share > 1.0 && share < 1.2, "{share} of the bottleneck, {delay} us away");
        }
    }

    #[test]
    fn who_begins_late_counts_from_the_first_question() {
        let windows = [0, 3_600_000_000].map(|begin| {
            let mut path = Path::new();
            path.on_answer(at(begin + 20_000), answer(&path, begin, 128));
            (path.window(), path.pace().map(f64::round))
        });
        assert_eq!(windows[0], windows[1]);
        assert!(windows[0].1 >= Some(FILLING_PACE * 128.0 / 0.02), "{windows:?}");
    }

    #[test]
    fn what_may_be_buffered_bounds_the_queue_and_not_what_the_path_holds() {
        let mut path = Path::with_buffers(100);
        assert_eq!(path.bounded_window(), 100);
        assert_eq!(Path::with_buffers(1000).bounded_window(), FIRST_WINDOW as u64);
        // 10 000 packets a second, 50 ms away: 500 are on the way.
        path.on_answer(at(60_000), answer(&path, 10_000, 500));
        assert!(path.window() > 700, "{}", path.window());
        assert_eq!(path.bounded_window(), 600);
        path.buffered = u64::MAX;
        assert_eq!(path.bounded_window(), path.window());
    }

    #[test]
    fn a_queue_that_is_short_is_not_overrun_for_long() {
        for room in [40, 100, 200] {
            let (near, lost) = window_behind(120, room, 100, 40_000);
            assert!(near <= room + 20 && lost < 0.03, "room {room}: window {near}, lost {lost}");
            let (far, lost) = window_behind(120, room, 10_000, 40_000);
            assert!(far >= 130 && lost < 0.06, "room {room}: window {far}, lost {lost}");
        }
    }

    #[test]
    fn loss_at_random_does_not_keep_the_window_small_and_much_more_loss_than_before_does() {
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
        // A fifth is lost; the sender pauses for lost questions half of the time.
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
    fn a_path_that_begins_to_lose_at_random_is_not_slow_for_long() {
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
    fn silence_halves_it_and_answers_bring_it_back() {
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
    fn an_older_answer_that_comes_late_changes_nothing() {
        let mut path = Path::new();
        let late = answer(&path, 800, 16);
        path.on_answer(at(1000), answer(&path, 900, 32));
        let window = path.window();
        path.on_answer(at(1001), late);
        assert_eq!((path.window(), path.mark().arrived), (window, 32));
    }
}
