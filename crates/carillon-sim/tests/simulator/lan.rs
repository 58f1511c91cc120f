//! Properties of the shared Ethernet (Segovia 1996, sections 3.2 to 3.4), observed at its interface.

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::{
    BitRate, Bytes, Dest, Event, GroupId, NodeId, Probability, Seeds, Time, TraceEvent, Transmit,
};
use carillon_sim::{Arrival, Lan, LanConfig, Network};
use proptest::prelude::*;

use super::recorder::EventRecorder;

const GROUP: Dest = Dest::group(GroupId(0));
/// Bit times of the smallest frame, which carries a datagram of up to 46 bytes.
const SMALL: u64 = 512;

/// Medium with a record of its events. Times are bit times at 10 Mbit/s.
struct LanFixture {
    lan: Lan,
    tape: EventRecorder,
    now: Time,
    /// Arrivals: time, sender, receivers, bytes.
    heard: Vec<(u64, u32, Vec<u32>, Bytes)>,
}

fn bits(time: Time) -> u64 {
    BitRate::mbps(10).bits_in(time - Time::ZERO)
}

fn time(bits: u64) -> Time {
    Time::ZERO + BitRate::mbps(10).time_for_bits(bits)
}

impl LanFixture {
    fn new(config: LanConfig, stations: usize, seed: u64) -> Self {
        let lan = Lan::new(config, stations, &Seeds::new(seed));
        LanFixture { lan, tape: EventRecorder::default(), now: Time::ZERO, heard: Vec::new() }
    }

    /// Gives a station a frame to send now.
    fn send(&mut self, from: u32, dest: Dest, len: usize, departure: Option<u64>) {
        let bytes = Bytes::from(vec![from as u8; len]);
        let transmit = Transmit { departure: departure.map(time), ..Transmit::now(dest) };
        self.lan.transmit(self.now, NodeId(from), transmit, bytes, &mut self.tape);
    }

    /// Runs the medium up to this time.
    fn until(&mut self, when: u64) -> &mut Self {
        let mut arrival = Arrival::default();
        while let Some((next, _)) = self.lan.next_time().filter(|(next, _)| *next <= time(when)) {
            assert!(next >= self.now, "time goes back");
            self.now = next;
            if self.lan.advance(next, &mut arrival, &mut self.tape) {
                let receivers = arrival.receivers.iter().map(|node| node.0).collect();
                self.heard.push((bits(next), arrival.source.0, receivers, arrival.bytes.clone()));
            }
        }
        self.now = time(when);
        self
    }

    fn events<T>(&self, pick: impl Fn(&TraceEvent) -> Option<T>) -> Vec<T> {
        self.tape.0.iter().filter_map(pick).collect()
    }

    /// Frames: start, sender, and bit times.
    fn frames(&self) -> Vec<(u64, u32, u64)> {
        self.events(|event| match event.event {
            Event::FrameSent { bytes } => Some((bits(event.time), event.node.0, u64::from(bytes) * 8)),
            _ => None,
        })
    }

    /// Collisions: time, and number of frames.
    fn collisions(&self) -> Vec<(u64, u32)> {
        self.events(|event| match event.event {
            Event::Collision { frames } => Some((bits(event.time), frames)),
            _ => None,
        })
    }
}

fn lossy(p: f64) -> LanConfig {
    LanConfig { loss: Probability::new(p).expect("a probability"), ..LanConfig::default() }
}

#[test]
fn a_frame_arrives_when_its_last_bit_does_at_all_but_its_sender() // 3.2
{
    let mut lan = LanFixture::new(LanConfig::default(), 4, 1);
    lan.send(1, GROUP, 1500, None);
    lan.until(1_000_000);
    assert_eq!(lan.frames(), [(0, 1, 12_144)]);
    assert_eq!(lan.heard[0].0, 12_144);
    assert_eq!(lan.heard[0].2, [0, 2, 3]);
    // Only the addressed node receives the frame; a short frame is padded.
    lan.send(2, Dest::Node(NodeId(3)), 1, None);
    lan.until(2_000_000);
    assert_eq!((lan.heard[1].0, &lan.heard[1].2), (1_000_000 + SMALL, &vec![3]));
    assert_eq!(lan.heard[1].3.len(), 1);
}

#[test]
fn a_station_sends_its_frames_one_after_the_other_in_order() // 3.3
{
    let mut lan = LanFixture::new(LanConfig::default(), 2, 1);
    for len in [100, 200, 300] {
        lan.send(0, GROUP, len, None);
    }
    lan.until(1_000_000);
    let sizes: Vec<_> = lan.heard.iter().map(|(_, _, _, bytes)| bytes.len()).collect();
    assert_eq!(sizes, [100, 200, 300]);
    assert_eq!(lan.frames().iter().map(|frame| frame.0).collect::<Vec<_>>(), [0, 944, 944 + 1744]);
}

#[test]
fn stations_waiting_for_the_medium_collide_after_the_frame() // 3.2: 1-persistent
{
    let mut lan = LanFixture::new(LanConfig::default(), 5, 1);
    lan.send(0, GROUP, 1500, None);
    for (when, station) in [(1, 1), (5_000, 2), (12_143, 3)] {
        lan.until(when).send(station, GROUP, 10, None);
    }
    lan.until(12_144);
    assert_eq!(lan.collisions(), [(12_144, 3)]);
    lan.until(10_000_000);
    assert_eq!(lan.frames().len(), 4);
}

#[test]
fn collision_takes_32_bit_times_then_whole_slots_pass() // 3.2, 3.3
{
    let mut slots = BTreeSet::new();
    for seed in 0..200 {
        let mut lan = LanFixture::new(LanConfig::default(), 2, seed);
        lan.send(0, GROUP, 10, None);
        lan.send(1, GROUP, 10, None);
        lan.until(100_000);
        assert_eq!(lan.collisions()[0], (0, 2));
        let first = lan.frames()[0].0;
        if lan.collisions().len() == 1 {
            // One station waits no slot, the other one slot, which is as long as the frame.
            assert_eq!((first, lan.frames()[1].0), (32, 32 + 512));
        }
        slots.insert(lan.collisions().len());
    }
    assert!(slots.contains(&1) && slots.contains(&2) && slots.contains(&3), "{slots:?}");
}

/// Slots that stations wait after collision number `collision` of a frame, for two stations in many runs. The medium
/// is free again at once.
fn waits(config: &LanConfig, collision: usize, runs: u64) -> BTreeSet<u64> {
    let mut seen = BTreeSet::new();
    for seed in 0..runs {
        let mut lan = LanFixture::new(config.clone(), 2, seed);
        lan.send(0, GROUP, 10, None);
        lan.send(1, GROUP, 10, None);
        lan.until(100_000_000);
        let collisions = lan.collisions();
        let Some(&(at, _)) = collisions.get(collision - 1) else { continue };
        let next = collisions.get(collision).map(|next| next.0);
        let frame = lan.frames().iter().map(|frame| frame.0).find(|&start| start > at);
        let first = next.into_iter().chain(frame).min().expect("something follows a collision");
        assert_eq!((first - at - 32) % 512, 0);
        seen.insert((first - at - 32) / 512);
        // Both frames are sent in the end: the second one waited for its own slot.
        if next.is_none() {
            let second = lan.frames()[1].0;
            let wait = second - at - 32;
            assert_eq!(wait % 512, 0);
            seen.insert(wait / 512);
        }
    }
    seen
}

#[test]
fn back_off_range_doubles_with_each_attempt() // 3.3
{
    let exclusive = LanConfig::default();
    let inclusive = LanConfig { backoff_inclusive: true, ..LanConfig::default() };
    assert_eq!(waits(&exclusive, 1, 200), BTreeSet::from([0, 1]));
    assert_eq!(waits(&inclusive, 1, 200), BTreeSet::from([0, 1, 2]));
    assert_eq!(waits(&exclusive, 2, 600), (0..4).collect());
    assert_eq!(waits(&inclusive, 2, 600), (0..5).collect());
    // The exponent stops at its limit.
    let limited = LanConfig { backoff_limit: 1, ..LanConfig::default() };
    assert_eq!(waits(&limited, 3, 600), BTreeSet::from([0, 1]));
    assert_eq!(waits(&exclusive, 3, 4_000), (0..8).collect());
}

#[test]
fn frame_is_discarded_at_its_16th_collision() // 3.3
{
    // Without back-off every attempt of both stations collides, every 32 bit times.
    let config = LanConfig { slot_bits: 0, ..LanConfig::default() };
    let mut lan = LanFixture::new(config, 2, 1);
    lan.send(0, GROUP, 10, None);
    lan.send(1, GROUP, 10, None);
    lan.send(1, GROUP, 20, None);
    lan.until(1_000_000);
    assert_eq!(lan.collisions(), (0..16).map(|i| (32 * i, 2)).collect::<Vec<_>>());
    let discarded = lan
        .events(|event| (event.event == Event::FrameDiscarded).then_some((bits(event.time), event.node.0)));
    assert_eq!(discarded, [(480, 0), (480, 1)]);
    assert_eq!(lan.frames(), [(512, 1, SMALL)]);
    assert_eq!(lan.heard[0].3.len(), 20);
    // The next frame has all its attempts again.
    let mut lan = LanFixture::new(LanConfig { slot_bits: 0, ..LanConfig::default() }, 2, 1);
    for station in [0, 0, 1, 1] {
        lan.send(station, GROUP, 10, None);
    }
    lan.until(1_000_000);
    assert_eq!(lan.collisions().len(), 2 * 16);
}

#[test]
fn a_departure_time_is_honoured_and_holds_what_comes_after() // requests go down with a start time
{
    let mut lan = LanFixture::new(LanConfig::default(), 3, 1);
    lan.send(0, GROUP, 10, Some(6_000));
    lan.send(0, GROUP, 10, None);
    lan.send(1, GROUP, 10, Some(1_000));
    lan.until(100_000);
    assert_eq!(lan.frames(), [(1_000, 1, SMALL), (6_000, 0, SMALL), (6_512, 0, SMALL)]);
    // A departure time in the past means now.
    lan.send(2, GROUP, 10, Some(5));
    lan.until(200_000);
    assert_eq!(lan.frames()[3].0, 100_000);
}

#[test]
fn with_a_gap_and_a_delay_everything_is_later_by_them() {
    let delay = Duration::from_nanos(10_000); // 100 bit times
    let config = LanConfig { propagation_delay: delay, interframe_gap_bits: 96, ..LanConfig::default() };
    let mut lan = LanFixture::new(config, 2, 1);
    lan.send(0, GROUP, 10, None);
    lan.send(0, GROUP, 10, None);
    lan.until(100_000);
    // The medium is free when the last bit has reached every station; the gap follows.
    assert_eq!(lan.frames(), [(0, 0, SMALL), (SMALL + 100 + 96, 0, SMALL)]);
    assert_eq!(lan.heard.iter().map(|heard| heard.0).collect::<Vec<_>>(), [612, 612 + 96 + 612]);
    // A station that begins within the delay has not sensed the other one.
    lan.send(0, GROUP, 10, Some(200_000));
    lan.send(1, GROUP, 10, Some(200_100));
    lan.until(300_000);
    assert_eq!(lan.collisions()[0], (200_100, 2));
    let mut lan = LanFixture::new(LanConfig { propagation_delay: delay, ..LanConfig::default() }, 2, 1);
    lan.send(0, GROUP, 10, Some(200_000));
    lan.send(1, GROUP, 10, Some(200_101));
    lan.until(300_000);
    assert_eq!(lan.collisions(), []);
    assert_eq!(lan.frames()[1].0, 200_000 + SMALL + 100);
}

#[test]
fn transmit_loss_reaches_no_station_and_the_queue_goes_on() // 3.4
{
    let mut lan = LanFixture::new(lossy(1.0), 3, 1);
    lan.send(0, GROUP, 10, None);
    lan.send(0, GROUP, 10, None);
    lan.until(1_000);
    assert_eq!(lan.frames(), []);
    assert!(lan.heard.is_empty());
    let lost = lan.events(|event| match event.event {
        Event::FrameLost { receiver, .. } => Some((bits(event.time), event.node.0, receiver)),
        _ => None,
    });
    // The lost frame took no time on the medium.
    assert_eq!(lost, [(0, 0, None), (0, 0, None)]);
    assert_eq!(lan.lan.next_time(), None);
}

#[test]
fn loss_is_independent_at_each_interface_at_its_rate() // 3.4
{
    let (frames, stations, p) = (20_000u64, 5, 0.1);
    let mut lan = LanFixture::new(lossy(p), stations, 42);
    for _ in 0..frames {
        lan.send(0, GROUP, 10, None);
        lan.until(bits(lan.now) + 1_000);
    }
    // 99.9 % confidence intervals.
    let near = |count: f64, n: f64, p: f64, what: &str| {
        let bound = 3.2905 * (p * (1.0 - p) / n).sqrt();
        assert!((count / n - p).abs() < bound, "{what}: {} of {n}, expected {p} +- {bound}", count / n);
    };
    let sent = lan.frames().len() as f64;
    near(frames as f64 - sent, frames as f64, p, "lost as they were sent");
    let mut got = vec![vec![true; sent as usize]; stations];
    let mut frame = -1isize;
    for event in &lan.tape.0 {
        match event.event {
            Event::FrameSent { .. } => frame += 1,
            Event::FrameLost { receiver: Some(node), .. } => got[node.index()][frame as usize] = false,
            _ => {}
        }
    }
    for a in 1..stations {
        let lost = got[a].iter().filter(|got| !**got).count() as f64;
        near(lost, sent, p, &format!("lost at {a}"));
        for b in 1..a {
            let both = got[a].iter().zip(&got[b]).filter(|(a, b)| !**a && !**b).count() as f64;
            near(both, sent, p * p, &format!("lost at {a} and at {b}"));
        }
    }
}

#[test]
fn each_interface_meets_the_same_losses_whatever_is_sent() {
    // One protocol sends large frames, another one small frames at other times, with other traffic between: the n-th
    // reception of an interface is lost in both or in neither.
    let losses = |len: usize, gap: u64, others: bool| {
        let mut lan = LanFixture::new(lossy(0.3), 3, 9);
        let mut got: Vec<bool> = Vec::new();
        for round in 0..400u64 {
            let before = (lan.heard.len(), lan.frames().len());
            lan.send(0, Dest::Node(NodeId(1)), len, None);
            lan.until(bits(lan.now) + gap);
            if lan.frames().len() > before.1 {
                got.push(lan.heard.len() > before.0);
            }
            if others && round % 3 == 0 {
                lan.send(2, Dest::Node(NodeId(0)), 700, None);
                lan.until(bits(lan.now) + gap);
            }
        }
        got
    };
    let one = losses(1_400, 20_000, false);
    let other = losses(10, 9_000, true);
    assert!(one.len() > 200 && one.contains(&false));
    assert_eq!(one, other);
}

#[test]
fn transmit_and_receive_loss_are_independent() // 3.4
{
    // Station 1 alternates between sending and receiving, and station 0 does the opposite, each with its own losses.
    let mut lan = LanFixture::new(lossy(0.5), 2, 5);
    let mut sent = [Vec::new(), Vec::new()];
    for round in 0..2_000u32 {
        let before = lan.frames().len();
        lan.send(round % 2, GROUP, 10, None);
        lan.until(bits(lan.now) + 1_000);
        sent[round as usize % 2].push(lan.frames().len() > before);
    }
    let mut got = [Vec::new(), Vec::new()];
    for (start, from, length) in lan.frames() {
        got[1 - from as usize].push(lan.heard.iter().any(|heard| heard.0 == start + length));
    }
    for station in 0..2 {
        let alike = sent[station].iter().zip(&got[station]).filter(|(sent, got)| sent == got).count();
        let pairs = got[station].len() as f64;
        let bound = 3.2905 * 0.5 / pairs.sqrt();
        assert!((alike as f64 / pairs - 0.5).abs() < bound, "{alike} of {pairs} alike at {station}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    /// Random traffic: frames never overlap or start before the gap is over, and every frame is received once, lost,
    /// or discarded.
    #[test]
    fn one_frame_at_a_time(
        seed: u64,
        gap in prop_oneof![Just(0u64), Just(96)],
        delay in 0u64..=256,
        loss in prop_oneof![Just(0.0), Just(0.2)],
        traffic in prop::collection::vec((0u64..20_000, 0u32..6, 0usize..1500, any::<bool>()), 1..60),
    ) {
        let config = LanConfig {
            interframe_gap_bits: gap,
            propagation_delay: Duration::from_nanos(delay * 100),
            ..lossy(loss)
        };
        let mut lan = LanFixture::new(config, 6, seed);
        let mut traffic = traffic;
        traffic.sort();
        for &(when, from, len, later) in &traffic {
            lan.until(when);
            lan.send(from, GROUP, len, later.then_some(when + 3_000));
        }
        lan.until(1_000_000_000);
        prop_assert_eq!(lan.lan.next_time(), None);
        let mut busy: Vec<(u64, u64)> =
            lan.frames().iter().map(|&(start, _, bits)| (start, start + bits + delay + gap)).collect();
        // A collision is detected one delay after it began.
        busy.extend(lan.collisions().iter().map(|&(at, _)| (at, at + 32 + gap)));
        busy.sort();
        for pair in busy.windows(2) {
            prop_assert!(pair[0].1 <= pair[1].0, "{:?} and {:?} overlap", pair[0], pair[1]);
        }
        let discarded = lan.events(|event| (event.event == Event::FrameDiscarded).then_some(())).len();
        let lost = lan.events(|event| (event.event == Event::FrameLost { receiver: None, original: false }).then_some(())).len();
        prop_assert_eq!(lan.frames().len() + discarded + lost, traffic.len());
        if loss == 0.0 {
            prop_assert_eq!(lan.heard.len(), lan.frames().len());
            let whole = lan.heard.iter().all(|(_, from, to, bytes)| {
                to.len() == 5 && !to.contains(from) && bytes.iter().all(|&byte| u32::from(byte) == *from)
            });
            prop_assert!(whole);
        }
        let starts = |from| lan.frames().iter().filter(|frame| frame.1 == from).count();
        prop_assert!((0..6).all(|from| starts(from) <= traffic.iter().filter(|t| t.1 == from).count()));
    }
}
