//! Tests of the path model.

mod sharing;

use std::ops::{Deref, DerefMut};

use super::window::MAX_NEAR_QUEUE_SECONDS;
use super::*;
use crate::blocks::congestion::{Answer, Mark, PathRecord};

/// Path with the record of its answers, as a polling sender keeps both.
#[derive(Clone)]
struct Path {
    model: DelayPath,
    record: PathRecord,
}

impl Path {
    fn new() -> Self {
        Path::with_buffers(u64::MAX)
    }

    fn with_buffers(buffered: u64) -> Self {
        Path::of(DelayPath::with_buffers(buffered))
    }

    fn of(model: DelayPath) -> Self {
        Path { model, record: PathRecord::default() }
    }

    fn mark(&self) -> Mark {
        self.record.mark()
    }

    fn pace(&self) -> Option<f64> {
        PathControl::rate(&self.model)
    }

    fn on_answer(&mut self, now: Time, answer: Answer) {
        if let Some(acknowledgment) = self.record.on_answer(now, answer) {
            self.model.on_acknowledged(now, &acknowledgment);
        }
    }
}

impl Deref for Path {
    type Target = DelayPath;

    fn deref(&self) -> &DelayPath {
        &self.model
    }
}

impl DerefMut for Path {
    fn deref_mut(&mut self) -> &mut DelayPath {
        &mut self.model
    }
}

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
            path.on_answer(at(now), Answer { asked: at(asked), then, serial: asked_serial, since, arrived });
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
    let mut path = Path::of(DelayPath { full: (10_000.0, Time::ZERO), ..DelayPath::with_buffers(100) });
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
        let mut path = known();
        (path.window, path.flat) = (10_000.0, MAX_FLAT_ROUNDS - 2);
        path.note_full(at(150_000), at(50_000), before);
        path.loss.rate = 0.5;
        path.note_full(at(250_000), at(150_000), since);
        assert_eq!(path.empty.is_paused(), is_to_be_found_out, "{before} {since}");
    }
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
        let mut path = Path::new();
        (path.queue, path.flat) = (1000.0, MAX_FLAT_ROUNDS);
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
        let mut path = Path::new();
        (path.queue, path.flat) = (queue, MAX_FLAT_ROUNDS);
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
        let window = paths.iter().map(|path| path.window()).min().expect("some");
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
        path.on_silent(at(1000));
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
    assert_eq!((path.window(), path.record.counts().map(|(_, arrived)| arrived)), (window, Some(32)));
}
