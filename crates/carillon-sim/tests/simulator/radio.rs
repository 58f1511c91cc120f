//! Rules of the half-duplex radio, observed at its interface.

use std::time::Duration;

use carillon_core::{BitRate, Bytes, Dest, Event, GroupId, NodeId, Seeds, Time, TraceEvent, Transmit};
use carillon_sim::{Arrival, LanConfig, Network, Radio, RadioConfig};

use super::recorder::EventRecorder;

const GROUP: Dest = Dest::group(GroupId(0));
/// Bit times of the smallest frame, which carries a datagram of up to 46 bytes.
const SMALL: u64 = 512;

/// Channel with a record of its events. Times are bit times at 1 Mbit/s.
struct RadioFixture {
    radio: Radio,
    tape: EventRecorder,
    now: Time,
    /// Arrivals: time, sender, receivers.
    heard: Vec<(u64, u32, Vec<u32>)>,
}

fn time(bits: u64) -> Time {
    Time::ZERO + Duration::from_micros(bits)
}

fn bits(time: Time) -> u64 {
    time.as_nanos() / 1000
}

impl RadioFixture {
    fn new(turnaround: u64, delay: u64, contention_slots: u64, stations: usize) -> Self {
        let propagation_delay = Duration::from_micros(delay);
        let lan = LanConfig { bit_rate: BitRate::mbps(1), propagation_delay, ..LanConfig::default() };
        let config = RadioConfig { turnaround: Duration::from_micros(turnaround), contention_slots };
        let radio = Radio::new(lan, config, stations, &Seeds::new(1));
        RadioFixture { radio, tape: EventRecorder::default(), now: Time::ZERO, heard: Vec::new() }
    }

    /// Gives a station a frame for the group now.
    fn send(&mut self, from: u32, len: usize) {
        let bytes = Bytes::from(vec![0; len]);
        self.radio.transmit(self.now, NodeId(from), Transmit::now(GROUP), bytes, &mut self.tape);
    }

    /// Runs the channel up to this time.
    fn until(&mut self, when: u64) -> &mut Self {
        let mut arrival = Arrival::default();
        while let Some((next, _)) = self.radio.next_time().filter(|(next, _)| *next <= time(when)) {
            assert!(next >= self.now, "time goes back");
            self.now = next;
            if self.radio.advance(next, &mut arrival, &mut self.tape) {
                let receivers = arrival.receivers.iter().map(|node| node.0).collect();
                self.heard.push((bits(next), arrival.source.0, receivers));
            }
        }
        self.now = time(when);
        self
    }

    /// Frames: the time at which the station began to turn, the station, and its bit times.
    fn frames(&self) -> Vec<(u64, u32, u64)> {
        let frame = |event: &TraceEvent| match event.event {
            Event::FrameSent { bytes } => Some((bits(event.time), event.node.0, u64::from(bytes) * 8)),
            _ => None,
        };
        self.tape.0.iter().filter_map(frame).collect()
    }

    /// Numbers of frames of the collisions.
    fn collisions(&self) -> Vec<u32> {
        let collision = |event: &TraceEvent| match event.event {
            Event::Collision { frames } => Some(frames),
            _ => None,
        };
        self.tape.0.iter().filter_map(collision).collect()
    }

    /// Receivers of lost frames; `None` if no station received the frame.
    fn losses(&self) -> Vec<Option<u32>> {
        let loss = |event: &TraceEvent| match event.event {
            Event::FrameLost { receiver, .. } => Some(receiver.map(|node| node.0)),
            _ => None,
        };
        self.tape.0.iter().filter_map(loss).collect()
    }
}

#[test]
fn frame_arrives_after_turnaround_and_delay() {
    let mut radio = RadioFixture::new(100, 10, 1, 3);
    radio.send(1, 1);
    radio.until(1_000_000);
    assert_eq!(radio.frames(), [(0, 1, SMALL)]);
    assert_eq!(radio.heard, [(100 + SMALL + 10, 1, vec![0, 2])]);
}

#[test]
fn stations_that_start_within_a_turnaround_collide() {
    let mut radio = RadioFixture::new(100, 10, 1, 3);
    radio.send(0, 1);
    radio.until(109).send(1, 1);
    radio.until(1_000_000);
    assert_eq!((radio.heard.len(), radio.collisions(), radio.losses()), (0, vec![2], vec![None, None]));
    // The channel is sensed from the first bit on.
    radio.send(0, 1);
    radio.until(1_000_110).send(1, 1);
    radio.until(2_000_000);
    assert_eq!(radio.heard.iter().map(|heard| heard.1).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(radio.collisions().len(), 1);
}

/// The first frame is over before the second begins, but the second station was turning.
#[test]
fn turning_station_receives_nothing() {
    let mut radio = RadioFixture::new(1000, 0, 1, 3);
    radio.send(0, 1);
    radio.until(600).send(1, 1);
    radio.until(1_000_000);
    let heard = [(1000 + SMALL, 0, vec![2]), (1600 + SMALL, 1, vec![2])];
    assert_eq!((&radio.heard[..], radio.losses()), (&heard[..], vec![Some(1), Some(0)]));
    assert_eq!(radio.collisions(), [0; 0]);
}

#[test]
fn waiting_stations_draw_slots_after_the_frame() {
    let mut radio = RadioFixture::new(50, 0, 1000, 5);
    radio.send(0, 1000);
    while radio.frames().is_empty() {
        let next = bits(radio.now) + 1;
        radio.until(next);
    }
    // All others want to send while the first frame is on the air.
    (1..5).for_each(|station| radio.send(station, 1));
    radio.until(10_000_000);
    let mut order: Vec<u32> = radio.heard.iter().map(|heard| heard.1).collect();
    assert_eq!((order.len(), order[0]), (5, 0), "{:?}", radio.collisions());
    order.sort_unstable();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

/// A station's frames leave one after the other, each with its turnaround.
#[test]
fn queued_frames_leave_in_order_and_collided_ones_do_not_return() {
    let mut radio = RadioFixture::new(50, 0, 1, 2);
    for len in [100, 200] {
        radio.send(0, len);
        radio.send(1, len);
    }
    radio.until(1_000_000);
    assert_eq!(radio.frames().len(), 4);
    assert_eq!((radio.heard.len(), radio.collisions()), (0, vec![2, 2]));
}

/// No station receives a frame that overlaps another one or its own sending.
#[test]
fn random_frames_are_received_only_alone() {
    let mut rng = Seeds::new(7).stream("radio");
    let (turnaround, delay) = (40, 7);
    let mut radio = RadioFixture::new(turnaround, delay, 8, 6);
    for _ in 0..2_000 {
        let wait = rng.below(6_000);
        let (station, len) = (rng.below(6) as u32, 1 + rng.below(300) as usize);
        let next = bits(radio.now) + wait;
        radio.until(next).send(station, len);
    }
    radio.until(1_000_000_000);
    let frames = radio.frames();
    assert_eq!(frames.len(), 2_000);
    let air = |&(turns, _, bits): &(u64, u32, u64)| (turns + turnaround, turns + turnaround + bits);
    for (end, source, receivers) in &radio.heard {
        let is_own = |frame: &&(u64, u32, u64)| frame.1 == *source && air(frame).1 + delay == *end;
        let own = frames.iter().find(is_own).expect("it was sent");
        let (from, until) = air(own);
        for frame in frames.iter().filter(|&frame| frame != own) {
            let (starts, ends) = air(frame);
            assert!(ends <= from || until <= starts, "{frame:?} overlaps {own:?}");
            if receivers.contains(&frame.1) {
                let deaf = (frame.0, ends + turnaround);
                assert!(
                    deaf.1 <= from + delay || until + delay <= deaf.0,
                    "{frame:?} was sent during {own:?}"
                );
            }
        }
    }
    let heard = radio.heard.len();
    assert!((1_000..2_000).contains(&heard) && !radio.collisions().is_empty(), "{heard}");
}
