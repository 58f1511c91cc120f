//! Half-duplex radio: one channel on which all stations send and receive, but not at the same time.
//!
//! A station with a frame waits a random number of slots and senses the channel. If it is busy, the station waits for
//! its end and draws again (non-persistent carrier sense). If it is idle, the station turns from receiving to sending,
//! sends, and turns back; in all this time it receives nothing. It cannot detect a collision: frames that overlap are
//! lost at every station, and nothing repeats them but the protocol. A slot is as long as a station needs to sense
//! another one that began a slot earlier.

use std::time::Duration;

use carillon_core::{Bytes, Event, NodeId, Observer, Passage, Seeds, Time, Transmit};

use super::config::{LanConfig, RadioConfig};
use super::stations::{Frame, Stations, report};
use crate::network::{Arrival, Network, Precedence, TimerRule};
use crate::queue::EventQueue;

/// Radio channel with its stations.
#[derive(Debug)]
pub struct Radio {
    stations: Stations,
    config: RadioConfig,
    /// Time at which each station with a frame senses the channel.
    requests: EventQueue<NodeId>,
    /// Last time in which each station sent or turned, from and until.
    deaf: Vec<(Time, Time)>,
    /// Frames on the air, and those of stations that turn to send.
    on_air: Vec<OnAir>,
    /// Number of frames of the present collision that have ended.
    collided: u32,
}

#[derive(Debug)]
struct OnAir {
    from: NodeId,
    frame: Frame,
    /// Times at which the other stations receive the first and the last bit.
    heard: Time,
    arrives: Time,
    has_collided: bool,
}

impl Radio {
    /// Creates a channel with this many stations, all of them in the group.
    pub fn new(lan: LanConfig, config: RadioConfig, stations: usize, seeds: &Seeds) -> Self {
        Radio {
            stations: Stations::new(lan, stations, seeds),
            config,
            requests: EventQueue::new(),
            deaf: vec![(Time::ZERO, Time::ZERO); stations],
            on_air: Vec::new(),
            collided: 0,
        }
    }

    /// Time after which a station senses another one that began to turn.
    fn slot(&self) -> Duration {
        let slot = self.config.turnaround + self.stations.config.propagation_delay;
        slot.max(self.stations.bits(MIN_SLOT_BITS))
    }

    /// Lets a station sense the channel a random number of slots after `from`.
    fn request(&mut self, from: Time, node: NodeId) {
        let slots = self.stations.draw_slots(node, self.config.contention_slots.max(1));
        self.requests.push(from + self.slot() * slots as u32, node);
    }

    /// Lets a station contend for the first frame of its queue, if it has one.
    fn request_first(&mut self, now: Time, node: NodeId) {
        if let Some(at) = self.stations.departure(now, node) {
            self.request(at.max(self.deaf[node.index()].1), node);
        }
    }

    /// Lets the station of the next request sense the channel.
    fn contend(&mut self, now: Time, observer: &mut dyn Observer) {
        let Some((_, node)) = self.requests.pop() else { return };
        let sensed = self.on_air.iter().filter(|air| air.heard <= now && now < air.arrives);
        if let Some(end) = sensed.map(|air| air.arrives).max() {
            return self.request(end, node);
        }
        let Some(frame) = self.stations.take_first(node) else { return };
        if self.stations.loses_attempt(node) {
            let lost = Event::FrameLost { receiver: None, original: false };
            report(observer, now, node, &lost, Some(&frame));
            return self.request_first(now, node);
        }
        self.send(now, node, frame, observer);
    }

    /// Turns a station to sending, and sends.
    fn send(&mut self, now: Time, from: NodeId, frame: Frame, observer: &mut dyn Observer) {
        let lan = &self.stations.config;
        let (bytes, delay) = (self.stations.frame_bytes(&frame), lan.propagation_delay);
        let starts = now + self.config.turnaround;
        let ends = starts + lan.bit_rate.time_for_bytes(bytes);
        let (heard, arrives) = (starts + delay, ends + delay);
        self.deaf[from.index()] = (now, ends + self.config.turnaround);
        let mut has_collided = false;
        for air in self.on_air.iter_mut().filter(|air| heard < air.arrives && air.heard < arrives) {
            (air.has_collided, has_collided) = (true, true);
        }
        let sent = Event::FrameSent { bytes: bytes as u32 };
        observer.frame_event(now, from, &sent, &frame.described().passing(Passage { starts, arrives }));
        frame.report_datagram(now, from, observer);
        self.on_air.push(OnAir { from, frame, heard, arrives, has_collided });
    }

    /// Ends the frame at this index.
    fn arrive(
        &mut self,
        now: Time,
        index: usize,
        arrival: &mut Arrival,
        observer: &mut dyn Observer,
    ) -> bool {
        let OnAir { from, frame, heard, arrives, has_collided } = self.on_air.swap_remove(index);
        self.request_first(now, from);
        if has_collided {
            let lost = Event::FrameLost { receiver: None, original: false };
            report(observer, now, from, &lost, Some(&frame));
            self.collided += 1;
            if !self.on_air.iter().any(|air| air.has_collided) {
                let frames = std::mem::take(&mut self.collided);
                observer.event(now, from, &Event::Collision { frames });
            }
            return false;
        }
        let deaf = &self.deaf;
        let is_deaf = |node: NodeId| {
            let (from, until) = deaf[node.index()];
            from < arrives && heard < until
        };
        self.stations.deliver(now, (from, frame), is_deaf, arrival, observer)
    }

    /// Index and time of the frame that ends first.
    fn next_arrival(&self) -> Option<(usize, Time)> {
        let ends = self.on_air.iter().map(|air| air.arrives).enumerate();
        ends.min_by_key(|&(_, arrives)| arrives)
    }
}

impl Network for Radio {
    fn transmit(&mut self, now: Time, from: NodeId, transmit: Transmit, bytes: Bytes, _: &mut dyn Observer) {
        let is_sending = self.on_air.iter().any(|air| air.from == from);
        if self.stations.push(from, transmit, bytes) && !is_sending {
            self.request_first(now, from);
        }
    }

    fn is_ready(&mut self, _: Time, node: NodeId) -> bool {
        self.stations.is_ready(node)
    }

    fn next_ready(&mut self) -> Option<NodeId> {
        self.stations.next_ready()
    }

    fn next_time(&self) -> Option<(Time, Precedence)> {
        let arrival = self.next_arrival().map(|(_, arrives)| (arrives, Precedence::NetworkFirst));
        let request = self.requests.next_time().map(|at| (at, Precedence::TimersFirst));
        arrival.into_iter().chain(request).min_by_key(|&(at, _)| at)
    }

    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        match self.next_arrival().filter(|&(_, arrives)| arrives <= now) {
            Some((index, _)) => self.arrive(now, index, arrival, observer),
            None => {
                self.contend(now, observer);
                false
            }
        }
    }

    fn timer_rule(&self) -> TimerRule {
        self.stations.config.timers
    }
}

/// Minimum slot in bit times, if a station turns at once and its signal takes no time.
const MIN_SLOT_BITS: u64 = 8;
