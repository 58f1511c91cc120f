//! Shared Ethernet with CSMA/CD, as in Segovia 1996, sections 3.2 to 3.4.
//!
//! Every station has a queue of frames and sends one at a time. While the medium is busy a station waits, and it
//! sends as soon as the medium is idle (1-persistent carrier sense), so that all waiting stations collide. A
//! collision takes 32 bit times; then each of its stations waits a random number of slots (truncated binary
//! exponential back-off) and tries again, up to 16 times.
//!
//! The preamble is left out, as in the source. Interframe gap and propagation delay are zero by default; the delay is
//! the same between any two stations.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use carillon_core::{
    BitRate, Bytes, Dest, Event, NodeId, Observer, Passage, PortId, Probability, Rng, Scope, Seeds, Time,
    Transmit,
};

use crate::graph::SingleLoss;
use crate::network::{Arrival, Network, Precedence, TimerRule};
use crate::queue::EventQueue;

/// Parameters of the medium.
#[derive(Clone, Debug)]
pub struct LanConfig {
    /// Bit rate.
    pub bit_rate: BitRate,
    /// Interframe gap: idle bit times before each transmission.
    pub interframe_gap_bits: u64,
    /// Propagation delay between any two stations; at most half a slot.
    pub propagation_delay: Duration,
    /// Bytes that a frame adds to a datagram: 14 of header and 4 of frame check sequence.
    pub frame_overhead: u32,
    /// Minimum frame in bytes; shorter ones are padded.
    pub min_frame: u32,
    /// Duration of a collision in bit times.
    pub collision_bits: u64,
    /// Back-off slot in bit times.
    pub slot_bits: u64,
    /// Maximum number of attempts, after which a frame is discarded.
    pub max_attempts: u32,
    /// Limit of the back-off exponent: the wait after attempt i is drawn from 0 to 2^min(i, limit) slots.
    pub backoff_limit: u32,
    /// True if the range includes its upper end, as the thesis words it. Standard Ethernet excludes it, and only then
    /// do the thesis's own numbers result.
    pub backoff_inclusive: bool,
    /// Maximum number of frames in a station's port, including the one in contention; a machine with more to send
    /// waits, as at a full socket. `None` is the thesis's transmit queue, which has no bound (section 3.2).
    pub port_queue: Option<NonZeroU32>,
    /// Loss probability at each interface, for each transmission attempt and each reception (section 3.4).
    pub loss: Probability,
    /// Further losses of this kind, with the name of their streams.
    pub further_loss: Vec<(Probability, String)>,
    /// Rule for the handling of timers.
    pub timers: TimerRule,
}

impl Default for LanConfig {
    fn default() -> Self {
        LanConfig {
            bit_rate: BitRate::mbps(10),
            interframe_gap_bits: 0,
            propagation_delay: Duration::ZERO,
            frame_overhead: 18,
            min_frame: 64,
            collision_bits: 32,
            slot_bits: 512,
            max_attempts: 16,
            backoff_limit: 10,
            backoff_inclusive: false,
            port_queue: None,
            loss: Probability::ZERO,
            further_loss: Vec::new(),
            timers: TimerRule::Exact,
        }
    }
}

/// Shared Ethernet with its stations.
#[derive(Debug)]
pub struct Lan {
    config: LanConfig,
    seeds: Seeds,
    stations: Vec<Station>,
    /// Time at which each station with a frame wants to start sending. A station with an earlier time than now is
    /// waiting for the medium.
    requests: EventQueue<NodeId>,
    on_air: Option<OnAir>,
    /// Time from which the medium can be sensed idle.
    free_at: Time,
    /// Stations that were told to wait and have room again.
    ready: VecDeque<NodeId>,
    /// Stations of one contention, kept to reuse the memory.
    contenders: Vec<NodeId>,
}

#[derive(Debug, Default)]
struct Station {
    queue: VecDeque<Frame>,
    /// Number of failed attempts of the first frame.
    attempts: u32,
    /// True if the machine was told to wait.
    is_waiting: bool,
    /// Random streams, made on first use: most stations of a large group never draw.
    random: Option<Box<StationRandom>>,
}

#[derive(Debug)]
struct StationRandom {
    backoff: Rng,
    transmit_loss: Rng,
    receive_loss: Rng,
    /// Streams of the further losses.
    further: Vec<FurtherRandom>,
}

#[derive(Debug)]
struct FurtherRandom {
    transmit_loss: Rng,
    receive_loss: Rng,
}

impl FurtherRandom {
    fn new(seeds: &Seeds, stream: &str) -> Self {
        FurtherRandom {
            transmit_loss: seeds.stream(&format!("{stream}.transmit")),
            receive_loss: seeds.stream(&format!("{stream}.receive")),
        }
    }
}

#[derive(Debug)]
struct Frame {
    dest: Dest,
    bytes: Bytes,
    departure: Option<Time>,
    original: Option<SingleLoss>,
}

impl Frame {
    /// Description for observers.
    fn described(&self) -> carillon_core::Frame<'_> {
        carillon_core::Frame::new(None, &self.bytes).original(self.original.is_some())
    }
}

/// Reports an event about a frame that a station has taken from its queue, if it had one.
fn report(observer: &mut dyn Observer, now: Time, node: NodeId, event: &Event, frame: Option<&Frame>) {
    match frame {
        Some(frame) => observer.frame_event(now, node, event, &frame.described()),
        None => observer.event(now, node, event),
    }
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
            config,
            seeds: seeds.part("lan"),
            stations: std::iter::repeat_with(Station::default).take(stations).collect(),
            requests: EventQueue::new(),
            on_air: None,
            free_at: Time::ZERO,
            ready: VecDeque::new(),
            contenders: Vec::new(),
        }
    }

    /// Bytes of the frame that carries a datagram.
    fn frame_bytes(&self, datagram: usize) -> u64 {
        (datagram as u64 + u64::from(self.config.frame_overhead)).max(self.config.min_frame.into())
    }

    fn bits(&self, bits: u64) -> Duration {
        self.config.bit_rate.time_for_bits(bits)
    }

    fn random(&mut self, node: NodeId) -> &mut StationRandom {
        let (seeds, further_loss) = (&self.seeds, &self.config.further_loss);
        self.stations[node.index()].random.get_or_insert_with(|| {
            let seeds = seeds.node(node);
            Box::new(StationRandom {
                backoff: seeds.stream("backoff"),
                transmit_loss: seeds.stream("loss.transmit"),
                receive_loss: seeds.stream("loss.receive"),
                further: further_loss.iter().map(|(_, stream)| FurtherRandom::new(&seeds, stream)).collect(),
            })
        })
    }

    /// Returns true if a further loss hits a frame. Each one draws for every frame, so that none changes the draws of
    /// another.
    fn further_loss(&mut self, node: NodeId, stream: impl Fn(&mut FurtherRandom) -> &mut Rng) -> bool {
        let mut is_lost = false;
        for at in 0..self.config.further_loss.len() {
            let loss = self.config.further_loss[at].0.value();
            is_lost |= stream(&mut self.random(node).further[at]).chance(loss);
        }
        is_lost
    }

    /// Takes the first frame of a station's queue, which makes room.
    fn take_first(&mut self, node: NodeId) -> Option<Frame> {
        let station = &mut self.stations[node.index()];
        if std::mem::take(&mut station.is_waiting) {
            self.ready.push_back(node);
        }
        station.queue.pop_front()
    }

    /// Requests the medium for the first frame of a station's queue, if there is one.
    fn request_first(&mut self, now: Time, node: NodeId) {
        let station = &mut self.stations[node.index()];
        station.attempts = 0;
        if let Some(frame) = station.queue.front() {
            self.requests.push(frame.departure.unwrap_or(now).max(now), node);
        }
    }

    /// Lets all stations that want the medium at `now` try to send.
    fn contend(&mut self, now: Time, observer: &mut dyn Observer) {
        let mut contenders = std::mem::take(&mut self.contenders);
        contenders.clear();
        while self.requests.next_time().is_some_and(|request| request <= now) {
            let (_, node) = self.requests.pop().expect("a request is pending");
            let loss = self.config.loss.value();
            let mut is_lost = loss > 0.0 && self.random(node).transmit_loss.chance(loss);
            is_lost |= self.further_loss(node, |random| &mut random.transmit_loss);
            if is_lost {
                // Transmit loss: no station receives the frame, and the sender takes it for sent.
                let frame = self.take_first(node);
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
        let start = Time::from_nanos(now.as_nanos() - self.config.propagation_delay.as_nanos() as u64);
        let frame = self.take_first(from).expect("a contender has a frame");
        let bytes = self.frame_bytes(frame.bytes.len());
        let end = start + self.config.bit_rate.time_for_bytes(bytes);
        let arrives = end + self.config.propagation_delay;
        let sent = Event::FrameSent { bytes: bytes as u32 };
        observer.frame_event(
            start,
            from,
            &sent,
            &frame.described().passing(Passage { starts: start, arrives }),
        );
        observer.datagram(start, from, &frame.dest, &frame.bytes);
        self.on_air = Some(OnAir { from, frame, arrives });
        self.free_at = arrives + self.bits(self.config.interframe_gap_bits);
    }

    fn collide(&mut self, now: Time, contenders: &[NodeId], observer: &mut dyn Observer) {
        observer.event(now, contenders[0], &Event::Collision { frames: contenders.len() as u32 });
        let over = now + self.bits(self.config.collision_bits);
        self.free_at = over + self.bits(self.config.interframe_gap_bits);
        for &node in contenders {
            let station = &mut self.stations[node.index()];
            station.attempts += 1;
            // Excessive collisions: the station discards the frame and contends for the next one.
            if station.attempts >= self.config.max_attempts {
                let frame = self.take_first(node);
                report(observer, now, node, &Event::FrameDiscarded, frame.as_ref());
                self.request_first(over, node);
                continue;
            }
            // Truncated binary exponential back-off: the range doubles with each attempt up to the limit.
            let range = 1u64 << station.attempts.min(self.config.backoff_limit);
            let range = range + u64::from(self.config.backoff_inclusive);
            let slots = self.random(node).backoff.below(range);
            let wait = self.bits(slots * self.config.slot_bits);
            self.requests.push(over + wait, node);
        }
    }

    /// Delivers the frame on the air to its receivers.
    fn arrive(&mut self, now: Time, air: OnAir, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        let OnAir { from, frame, .. } = air;
        // The station contends for its next frame at once.
        self.request_first(now, from);
        arrival.receivers.clear();
        match frame.dest {
            Dest::Node(node) if node.index() < self.stations.len() => arrival.receivers.push(node),
            // A shared medium has no relay ports.
            Dest::Node(_) | Dest::Ports { .. } => {}
            Dest::Group { .. } => {
                let all = (0..self.stations.len() as u32).map(NodeId);
                arrival.receivers.extend(all.filter(|&node| node != from));
            }
        }
        let loss = self.config.loss.value();
        if loss > 0.0 || !self.config.further_loss.is_empty() {
            arrival.receivers.retain(|&node| {
                let mut lost = loss > 0.0 && self.random(node).receive_loss.chance(loss);
                lost |= self.further_loss(node, |random| &mut random.receive_loss);
                if lost {
                    let lost = Event::FrameLost { receiver: Some(node), original: false };
                    observer.frame_event(now, from, &lost, &frame.described());
                }
                !lost
            });
        }
        arrival.ingress = PortId(0);
        arrival.scope = Scope::GLOBAL;
        arrival.source = from;
        arrival.dest = frame.dest;
        arrival.bytes = frame.bytes;
        arrival.original = frame.original;
        !arrival.receivers.is_empty()
    }
}

impl Network for Lan {
    fn transmit(&mut self, now: Time, from: NodeId, transmit: Transmit, bytes: Bytes, _: &mut dyn Observer) {
        let on_air = self.on_air.as_ref().is_some_and(|air| air.from == from);
        let station = &mut self.stations[from.index()];
        let original = transmit.original.map(|message| SingleLoss { source: from, message });
        let frame = Frame { dest: transmit.dest, bytes, departure: transmit.departure, original };
        station.queue.push_back(frame);
        if station.queue.len() == 1 && !on_air {
            self.request_first(now, from);
        }
    }

    fn is_ready(&mut self, _: Time, node: NodeId) -> bool {
        let Some(most) = self.config.port_queue else { return true };
        let station = &mut self.stations[node.index()];
        station.is_waiting = station.queue.len() >= most.get() as usize;
        !station.is_waiting
    }

    fn next_ready(&mut self) -> Option<NodeId> {
        self.ready.pop_front()
    }

    fn next_time(&self) -> Option<(Time, Precedence)> {
        if let Some(air) = &self.on_air {
            return Some((air.arrives, Precedence::NetworkFirst));
        }
        let first = self.requests.next_time()?.max(self.free_at);
        Some((first + self.config.propagation_delay, Precedence::TimersFirst))
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
        self.config.timers
    }
}
