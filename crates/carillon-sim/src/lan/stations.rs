//! Stations of a shared medium: their queues of frames, and the losses at their interfaces.

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::{Bytes, Dest, Event, NodeId, Observer, PortId, Rng, Scope, Seeds, Time, Transmit};

use super::config::LanConfig;
use crate::loss::SingleLoss;
use crate::network::Arrival;

/// Stations of a medium, all of them in the group.
#[derive(Debug)]
pub(super) struct Stations {
    pub config: LanConfig,
    seeds: Seeds,
    all: Vec<Station>,
    /// Stations that were told to wait and have room again.
    ready: VecDeque<NodeId>,
}

#[derive(Debug, Default)]
struct Station {
    queue: VecDeque<Frame>,
    /// True if the machine was told to wait.
    is_waiting: bool,
    /// Random streams, made on first use: most stations of a large group never draw.
    random: Option<Box<StationRandom>>,
}

#[derive(Debug)]
struct StationRandom {
    backoff: Rng,
    transmit_loss: LossStream,
    receive_loss: LossStream,
    /// Streams of the further losses.
    further: Vec<FurtherRandom>,
}

#[derive(Debug)]
struct FurtherRandom {
    transmit_loss: LossStream,
    receive_loss: LossStream,
}

/// Random stream of independent losses with one probability. The fates of several frames are drawn at a time.
#[derive(Debug)]
struct LossStream {
    rng: Rng,
    /// Fates of the next frames, the next one in the lowest bit; `left` of them are unused.
    fates: u64,
    left: u8,
}

impl LossStream {
    fn new(rng: Rng) -> Self {
        LossStream { rng, fates: 0, left: 0 }
    }

    /// Returns true if the next frame is lost. The probability is the same in each call.
    fn loses(&mut self, loss: f64) -> bool {
        if self.left == 0 {
            let mut draws = [0; u64::BITS as usize];
            self.rng.fill_bits(&mut draws);
            let fates = draws.into_iter().rev().map(|draw| u64::from(Rng::unit_of(draw) < loss));
            self.fates = fates.fold(0, |fates, is_lost| fates << 1 | is_lost);
            self.left = u64::BITS as u8;
        }
        let is_lost = self.fates & 1 == 1;
        self.fates >>= 1;
        self.left -= 1;
        is_lost
    }
}

impl FurtherRandom {
    fn new(seeds: &Seeds, stream: &str) -> Self {
        FurtherRandom {
            transmit_loss: LossStream::new(seeds.stream(&format!("{stream}.transmit"))),
            receive_loss: LossStream::new(seeds.stream(&format!("{stream}.receive"))),
        }
    }
}

/// Frame of a station.
#[derive(Debug)]
pub(super) struct Frame {
    dest: Dest,
    bytes: Bytes,
    departure: Option<Time>,
    original: Option<SingleLoss>,
}

impl Frame {
    /// Description for observers.
    pub fn described(&self) -> carillon_core::Frame<'_> {
        carillon_core::Frame::new(None, &self.bytes).original(self.original.is_some())
    }

    /// Reports the datagram that the frame carries.
    pub fn report_datagram(&self, start: Time, from: NodeId, observer: &mut dyn Observer) {
        observer.datagram(start, from, &self.dest, &self.bytes);
    }
}

/// Reports an event about a frame that a station has taken from its queue, if it had one.
pub(super) fn report(
    observer: &mut dyn Observer,
    now: Time,
    node: NodeId,
    event: &Event,
    frame: Option<&Frame>,
) {
    match frame {
        Some(frame) => observer.frame_event(now, node, event, &frame.described()),
        None => observer.event(now, node, event),
    }
}

impl Stations {
    /// Creates idle stations.
    pub fn new(config: LanConfig, stations: usize, seeds: &Seeds) -> Self {
        Stations {
            config,
            seeds: seeds.part("lan"),
            all: std::iter::repeat_with(Station::default).take(stations).collect(),
            ready: VecDeque::new(),
        }
    }

    /// Bytes of the frame that carries a frame's datagram.
    pub fn frame_bytes(&self, frame: &Frame) -> u64 {
        let bytes = frame.bytes.len() as u64 + u64::from(self.config.frame_overhead);
        bytes.max(self.config.min_frame.into())
    }

    /// Time of this many bits.
    pub fn bits(&self, bits: u64) -> Duration {
        self.config.bit_rate.time_for_bits(bits)
    }

    /// Adds a frame to a station's queue. Returns true if it is the first.
    pub fn push(&mut self, from: NodeId, transmit: Transmit, bytes: Bytes) -> bool {
        let original = transmit.original.map(|message| SingleLoss { source: from, message });
        let frame = Frame { dest: transmit.dest, bytes, departure: transmit.departure, original };
        let queue = &mut self.all[from.index()].queue;
        queue.push_back(frame);
        queue.len() == 1
    }

    /// Earliest time at which the first frame of a station's queue may leave, if it has one.
    pub fn departure(&self, now: Time, node: NodeId) -> Option<Time> {
        let frame = self.all[node.index()].queue.front()?;
        Some(frame.departure.unwrap_or(now).max(now))
    }

    /// Takes the first frame of a station's queue, which makes room.
    pub fn take_first(&mut self, node: NodeId) -> Option<Frame> {
        let station = &mut self.all[node.index()];
        if std::mem::take(&mut station.is_waiting) {
            self.ready.push_back(node);
        }
        station.queue.pop_front()
    }

    /// Returns true if a station's port has room.
    pub fn is_ready(&mut self, node: NodeId) -> bool {
        let Some(most) = self.config.port_queue else { return true };
        let station = &mut self.all[node.index()];
        station.is_waiting = station.queue.len() >= most.get() as usize;
        !station.is_waiting
    }

    /// Returns the next waiting station that has room again.
    pub fn next_ready(&mut self) -> Option<NodeId> {
        self.ready.pop_front()
    }

    /// Draws a number of slots below `range`.
    pub fn draw_slots(&mut self, node: NodeId, range: u64) -> u64 {
        self.random(node).backoff.below(range)
    }

    /// Returns true if a transmission attempt is lost: no station receives the frame, and the sender takes it for
    /// sent.
    pub fn loses_attempt(&mut self, node: NodeId) -> bool {
        let loss = self.config.loss.value();
        let is_lost = loss > 0.0 && self.random(node).transmit_loss.loses(loss);
        self.further_loss(node, |random| &mut random.transmit_loss) | is_lost
    }

    /// Delivers a frame to its receivers, except for losses and the stations that are deaf to it. Returns false if
    /// no station receives it.
    pub fn deliver(
        &mut self,
        now: Time,
        (from, frame): (NodeId, Frame),
        is_deaf: impl Fn(NodeId) -> bool,
        arrival: &mut Arrival,
        observer: &mut dyn Observer,
    ) -> bool {
        arrival.receivers.clear();
        match frame.dest {
            Dest::Node(node) if node.index() < self.all.len() => arrival.receivers.push(node),
            // A shared medium has no relay ports.
            Dest::Node(_) | Dest::Ports { .. } => {}
            Dest::Group { .. } => {
                let all = (0..self.all.len() as u32).map(NodeId);
                arrival.receivers.extend(all.filter(|&node| node != from));
            }
        }
        let loss = self.config.loss.value();
        arrival.receivers.retain(|&node| {
            let mut lost = is_deaf(node);
            lost |= loss > 0.0 && self.random(node).receive_loss.loses(loss);
            lost |= self.further_loss(node, |random| &mut random.receive_loss);
            if lost {
                let lost = Event::FrameLost { receiver: Some(node), original: false };
                observer.frame_event(now, from, &lost, &frame.described());
            }
            !lost
        });
        arrival.ingress = PortId(0);
        arrival.scope = Scope::GLOBAL;
        arrival.source = from;
        arrival.dest = frame.dest;
        arrival.bytes = frame.bytes;
        arrival.original = frame.original;
        !arrival.receivers.is_empty()
    }

    fn random(&mut self, node: NodeId) -> &mut StationRandom {
        let (seeds, further_loss) = (&self.seeds, &self.config.further_loss);
        self.all[node.index()].random.get_or_insert_with(|| {
            let seeds = seeds.node(node);
            Box::new(StationRandom {
                backoff: seeds.stream("backoff"),
                transmit_loss: LossStream::new(seeds.stream("loss.transmit")),
                receive_loss: LossStream::new(seeds.stream("loss.receive")),
                further: further_loss.iter().map(|(_, stream)| FurtherRandom::new(&seeds, stream)).collect(),
            })
        })
    }

    /// Returns true if a further loss hits a frame. Each one draws for every frame, so that none changes the draws of
    /// another.
    fn further_loss(&mut self, node: NodeId, stream: impl Fn(&mut FurtherRandom) -> &mut LossStream) -> bool {
        let mut is_lost = false;
        for at in 0..self.config.further_loss.len() {
            let loss = self.config.further_loss[at].0.value();
            is_lost |= stream(&mut self.random(node).further[at]).loses(loss);
        }
        is_lost
    }
}
