//! Shared Ethernet with CSMA/CD, as in Segovia 1996, sections 3.2 to 3.4.
//!
//! Every station has a queue of frames and sends one at a time. While the medium is busy a station waits, and it
//! sends as soon as the medium is idle (1-persistent carrier sense), so that all waiting stations collide. A
//! collision takes 32 bit times; then each of its stations waits a random number of slots (truncated binary
//! exponential back-off) and tries again, up to 16 times.
//!
//! The preamble is left out, as in the source. Interframe gap and propagation delay are zero by default; the delay is
//! the same between any two stations.

mod config;
mod radio;
mod stations;

use std::time::Duration;

use carillon_core::{Bytes, Event, NodeId, Observer, Passage, Seeds, Time, Transmit};

use crate::network::{Arrival, Network, Precedence, TimerRule};
use crate::queue::EventQueue;
pub use config::{LanConfig, RadioConfig};
pub use radio::Radio;
use stations::{Frame, Stations, report};

impl LanConfig {
    /// Creates the medium that this configuration describes, an Ethernet or a radio.
    ///
    /// # Panics
    ///
    /// Panics if the propagation delay of an Ethernet is more than half a slot.
    pub fn medium(self, stations: usize, seeds: &Seeds) -> Box<dyn Network> {
        match self.radio {
            None => Box::new(Lan::new(self, stations, seeds)),
            Some(radio) => Box::new(Radio::new(self, radio, stations, seeds)),
        }
    }
}

/// Shared Ethernet with its stations.
#[derive(Debug)]
pub struct Lan {
    stations: Stations,
    /// Number of failed attempts of each station's first frame.
    attempts: Vec<u32>,
    /// Time at which each station with a frame wants to start sending. A station with an earlier time than now is
    /// waiting for the medium.
    requests: EventQueue<NodeId>,
    on_air: Option<OnAir>,
    /// Time from which the medium can be sensed idle.
    free_at: Time,
    /// Stations of one contention, kept to reuse the memory.
    contenders: Vec<NodeId>,
}

#[derive(Debug)]
struct OnAir {
    from: NodeId,
    frame: Frame,
    arrives: Time,
}

impl Lan {
    /// Medium with this many stations, all of them in the group.
    ///
    /// # Panics
    ///
    /// Panics if the propagation delay is more than half a slot: collisions would go unnoticed.
    pub fn new(config: LanConfig, stations: usize, seeds: &Seeds) -> Self {
        let half_slot = config.bit_rate.time_for_bits(config.slot_bits) / 2;
        assert!(config.propagation_delay <= half_slot, "the propagation delay exceeds half a slot");
        Lan {
            stations: Stations::new(config, stations, seeds),
            attempts: vec![0; stations],
            requests: EventQueue::new(),
            on_air: None,
            free_at: Time::ZERO,
            contenders: Vec::new(),
        }
    }

    /// Requests the medium for the first frame of a station's queue, if there is one.
    fn request_first(&mut self, now: Time, node: NodeId) {
        self.attempts[node.index()] = 0;
        if let Some(at) = self.stations.departure(now, node) {
            self.requests.push(at, node);
        }
    }

    /// Lets all stations that want the medium at `now` try to send.
    fn contend(&mut self, now: Time, observer: &mut dyn Observer) {
        let mut contenders = std::mem::take(&mut self.contenders);
        contenders.clear();
        while self.requests.next_time().is_some_and(|request| request <= now) {
            let (_, node) = self.requests.pop().expect("a request is pending");
            if self.stations.loses_attempt(node) {
                let frame = self.stations.take_first(node);
                let lost = Event::FrameLost { receiver: None, original: false };
                report(observer, now, node, &lost, frame.as_ref());
                self.request_first(now, node);
            } else {
                contenders.push(node);
            }
        }
        // One contender sends; several collide.
        match *contenders {
            [] => {}
            [from] => self.send(now, from, observer),
            _ => self.collide(now, &contenders, observer),
        }
        self.contenders = contenders;
    }

    fn send(&mut self, now: Time, from: NodeId, observer: &mut dyn Observer) {
        // The transmission began one propagation delay before the contention was decided.
        let start = Time::from_nanos(now.as_nanos() - self.propagation_delay().as_nanos() as u64);
        let frame = self.stations.take_first(from).expect("a contender has a frame");
        let bytes = self.stations.frame_bytes(&frame);
        let end = start + self.stations.config.bit_rate.time_for_bytes(bytes);
        let arrives = end + self.propagation_delay();
        let sent = Event::FrameSent { bytes: bytes as u32 };
        observer.frame_event(
            start,
            from,
            &sent,
            &frame.described().passing(Passage { starts: start, arrives }),
        );
        frame.report_datagram(start, from, observer);
        self.on_air = Some(OnAir { from, frame, arrives });
        self.free_at = arrives + self.interframe_gap();
    }

    fn collide(&mut self, now: Time, contenders: &[NodeId], observer: &mut dyn Observer) {
        observer.event(now, contenders[0], &Event::Collision { frames: contenders.len() as u32 });
        let config = &self.stations.config;
        let (limit, inclusive) = (config.backoff_limit, config.backoff_inclusive);
        let (max_attempts, slot_bits) = (config.max_attempts, config.slot_bits);
        let over = now + self.stations.bits(config.collision_bits);
        self.free_at = over + self.interframe_gap();
        for &node in contenders {
            let attempts = &mut self.attempts[node.index()];
            *attempts += 1;
            // Excessive collisions: the station discards the frame and contends for the next one.
            if *attempts >= max_attempts {
                let frame = self.stations.take_first(node);
                report(observer, now, node, &Event::FrameDiscarded, frame.as_ref());
                self.request_first(over, node);
                continue;
            }
            // Truncated binary exponential back-off: the range doubles with each attempt up to the limit.
            let range = (1u64 << (*attempts).min(limit)) + u64::from(inclusive);
            let slots = self.stations.draw_slots(node, range);
            self.requests.push(over + self.stations.bits(slots * slot_bits), node);
        }
    }

    fn propagation_delay(&self) -> Duration {
        self.stations.config.propagation_delay
    }

    fn interframe_gap(&self) -> Duration {
        self.stations.bits(self.stations.config.interframe_gap_bits)
    }

    /// Delivers the frame on the air to its receivers.
    fn arrive(&mut self, now: Time, air: OnAir, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        let OnAir { from, frame, .. } = air;
        // The station contends for its next frame at once.
        self.request_first(now, from);
        self.stations.deliver(now, (from, frame), |_| false, arrival, observer)
    }
}

impl Network for Lan {
    fn transmit(&mut self, now: Time, from: NodeId, transmit: Transmit, bytes: Bytes, _: &mut dyn Observer) {
        let on_air = self.on_air.as_ref().is_some_and(|air| air.from == from);
        if self.stations.push(from, transmit, bytes) && !on_air {
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
        if let Some(air) = &self.on_air {
            return Some((air.arrives, Precedence::NetworkFirst));
        }
        let first = self.requests.next_time()?.max(self.free_at);
        Some((first + self.propagation_delay(), Precedence::TimersFirst))
    }

    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        match self.on_air.take() {
            Some(air) => self.arrive(now, air, arrival, observer),
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
