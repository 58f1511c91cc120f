//! Plain sessions in memory, for tests: a sender and receivers, with losses and a delay.

use std::time::Duration;

use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Bytes, Config, Dest, DropReason, Event, GroupId, Host,
    Machine, NodeId, NumberedAddresses, PlainKind, PortId, Received, Rng, Scope, Seeds, Time, Transmit,
    drain,
};
use carillon_wire::norm::Packet;

use super::ENTRY;
use super::plain::PLAIN;
use crate::plain::{NamedFile, PlainLimits, PlainNews, PlainReceiver, StreamPiece};

pub(super) const SENDER: NodeId = NodeId(1);
const DELAY: Duration = Duration::from_millis(5);

pub(super) fn context(node: NodeId, memory: usize) -> BuildContext {
    BuildContext {
        association: AssociationId(5),
        node,
        sender: SENDER,
        members: Vec::new().into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Addresses::new(NumberedAddresses),
        group: GroupId(0),
        seeds: Seeds::new(u64::from(node.0)),
        bit_rate: BitRate::mbps(100),
        link_overhead: 28,
        max_payload: 200,
        memory,
        rejoining: false,
    }
}

pub(super) fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in ENTRY.settings.delivery.iter().chain(PLAIN.settings).chain(settings) {
        config.set(ENTRY.parameters, key, value).expect("a setting");
    }
    config
}

/// Packets on their way, in the order of their arrival.
#[derive(Default)]
pub(super) struct Sent {
    pub packets: Vec<(Dest, Vec<u8>)>,
    pub dropped: Vec<DropReason>,
    pub lost: u64,
    /// Number of requests that those of others have suppressed.
    pub suppressed: u64,
    fired: bool,
}

impl Sent {
    /// Host without datagrams; `fired` says whether timers have fired.
    pub fn fired(fired: bool) -> Sent {
        Sent { fired, ..Sent::default() }
    }
}

impl Host for Sent {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.packets.push((transmit.dest, bytes.clone()));
    }
    fn event(&mut self, event: &Event) {
        match event {
            Event::Dropped { reason } => self.dropped.push(*reason),
            Event::LossFinal { .. } => self.lost += 1,
            Event::RequestSuppressed { .. } => self.suppressed += 1,
            _ => {}
        }
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

/// A sender and receivers, each behind its own losses.
pub(super) struct World {
    pub sender: Box<dyn Machine>,
    receivers: Vec<PlainReceiver>,
    pub files: Vec<Vec<(String, Bytes)>>,
    /// Pieces of streams.
    pub pieces: Vec<Vec<(u64, StreamPiece)>>,
    pub ends: Vec<Vec<(u64, bool)>>,
    rng: Rng,
    loss: u64,
    pub now: Time,
    /// Time of arrival, origin, receiving node, destination, and bytes.
    flight: Vec<(Time, NodeId, NodeId, Dest, Bytes)>,
    /// True if what the sender sends is kept.
    pub keeps_packets: bool,
    pub packets: Vec<(Dest, Vec<u8>)>,
    /// Number of requests that all receivers sent, and that others suppressed.
    pub nacks: u64,
    pub suppressed: u64,
    /// Datagrams that the sender sent, by type.
    pub sent: std::collections::BTreeMap<&'static str, u64>,
}

impl World {
    pub fn new(kind: PlainKind, receivers: usize, loss: u64, seed: u64, settings: &[(&str, &str)]) -> World {
        World::expecting(&[], kind, (receivers, loss), seed, settings)
    }

    /// World of a sender that names receivers. The identifiers of the receivers are 11, 12, and so on.
    pub fn expecting(
        names: &[u32],
        kind: PlainKind,
        (receivers, loss): (usize, u64),
        seed: u64,
        settings: &[(&str, &str)],
    ) -> World {
        let members = names.iter().copied().map(NodeId).collect();
        let build = BuildContext { members, ..context(SENDER, usize::MAX) };
        let sender = (PLAIN.sender)(kind, &build, &config(settings)).expect("valid");
        let receiver = |number: usize| {
            let context = context(NodeId(10 + number as u32), 8 << 20);
            let mut config = config(settings);
            config.set(ENTRY.parameters, "node_id", &(11 + number).to_string()).expect("an identifier");
            PlainReceiver::new(&ENTRY, &context, &config, PlainLimits::default()).expect("valid")
        };
        World {
            sender,
            receivers: (0..receivers).map(receiver).collect(),
            files: vec![Vec::new(); receivers],
            pieces: vec![Vec::new(); receivers],
            ends: vec![Vec::new(); receivers],
            rng: Seeds::new(seed).stream("norm.files"),
            loss,
            now: Time::ZERO,
            flight: Vec::new(),
            keeps_packets: false,
            packets: Vec::new(),
            nacks: 0,
            suppressed: 0,
            sent: Default::default(),
        }
    }

    /// Loses what is on its way.
    pub fn lose_all(&mut self) {
        self.flight.clear();
    }

    /// Takes what all machines have to send, and the news.
    fn settle(&mut self, fired: bool) {
        let mut sent = Sent { fired, ..Sent::default() };
        drain(&mut *self.sender, self.now, &mut Vec::new(), &mut sent);
        if self.keeps_packets {
            self.packets.extend(sent.packets.iter().cloned());
        }
        for (_, bytes) in sent.packets {
            let name = Packet::parse(&bytes).expect("a packet").name();
            *self.sent.entry(name).or_default() += 1;
            for number in 0..self.receivers.len() {
                self.fly((SENDER, NodeId(10 + number as u32)), &Dest::group(GroupId(0)), &bytes);
            }
        }
        for at in 0..self.receivers.len() {
            let mut sent = Sent { fired, ..Sent::default() };
            let receiver = &mut self.receivers[at];
            drain(receiver, self.now, &mut Vec::new(), &mut sent);
            while receiver.poll_notice().is_some() {}
            while let Some(news) = receiver.poll_news() {
                match news {
                    PlainNews::File { file, .. } => self.files[at].push((file.name, file.content)),
                    PlainNews::Closed { lost, ended, .. } => self.ends[at].push((lost, ended)),
                    PlainNews::Opened(_) => {}
                    PlainNews::Message { number, payload, .. } => {
                        let piece = StreamPiece::parse(payload).expect("a piece");
                        self.pieces[at].push((number, piece));
                    }
                }
            }
            drain(receiver, self.now, &mut Vec::new(), &mut sent);
            self.suppressed += sent.suppressed;
            for (dest, bytes) in sent.packets {
                self.nacks += u64::from(Packet::parse(&bytes).expect("a packet").name() == "nack");
                let own = NodeId(10 + at as u32);
                self.fly((own, SENDER), &dest, &bytes);
                let others =
                    (0..self.receivers.len()).filter(|&other| other != at && dest != Dest::Node(SENDER));
                for other in others.collect::<Vec<_>>() {
                    self.fly((own, NodeId(10 + other as u32)), &dest, &bytes);
                }
            }
        }
    }

    fn fly(&mut self, (from, to): (NodeId, NodeId), dest: &Dest, bytes: &[u8]) {
        if self.rng.below(100) >= self.loss {
            self.flight.push((self.now + DELAY, from, to, dest.clone(), Bytes::copy_from_slice(bytes)));
        }
    }

    /// Runs until every receiver has ended, for at most ten minutes.
    pub fn run(&mut self) {
        self.start();
        while self.ends.iter().any(Vec::is_empty) {
            assert!(self.now < Time::ZERO + Duration::from_secs(600), "it ends: {:?}", self.ends);
            self.step();
        }
    }

    /// Starts all machines.
    pub fn start(&mut self) {
        self.sender.start(self.now);
        self.receivers.iter_mut().for_each(|receiver| receiver.start(Time::ZERO));
        self.settle(false);
    }

    /// Runs until something has happened.
    pub fn step(&mut self) {
        let machines = self.receivers.iter().map(|receiver| receiver.poll_timeout());
        let timeouts = machines.chain([self.sender.poll_timeout()]).flatten();
        let next = timeouts.chain(self.flight.iter().map(|flying| flying.0)).min().expect("a next step");
        self.now = self.now.max(next);
        let due = self.sender.poll_timeout().is_some_and(|at| at <= self.now);
        if due {
            self.sender.handle_timeout(self.now);
        }
        let mut fired = due;
        for receiver in &mut self.receivers {
            if receiver.poll_timeout().is_some_and(|at| at <= self.now) {
                receiver.handle_timeout(self.now);
                fired = true;
            }
        }
        let (arrived, flight) = self.flight.drain(..).partition(|flying| flying.0 <= self.now);
        self.flight = flight;
        let arrived: Vec<_> = arrived;
        for (_, from, to, destination, bytes) in arrived {
            let received = Received {
                source: from,
                destination: &destination,
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &bytes,
            };
            match to {
                SENDER => self.sender.handle_datagram(self.now, received),
                node => self.receivers[node.0 as usize - 10].handle_datagram(self.now, received),
            }
        }
        self.settle(fired);
    }

    pub fn offer(&mut self, name: &str, content: &[u8]) {
        let file = NamedFile { name: name.to_owned(), content: Bytes::copy_from_slice(content) };
        self.sender.as_sender().expect("a sender").offer(self.now, file.into_message()).expect("room");
    }

    /// Offers a piece of a stream; returns whether there was room.
    pub fn offer_piece(&mut self, start: Option<u16>, content: &[u8]) -> bool {
        let piece = StreamPiece { start, ends: false, content: Bytes::copy_from_slice(content) };
        self.sender.as_sender().expect("a sender").offer(self.now, piece.into_message()).is_ok()
    }

    /// Returns true if the sender has no confirmation of a receiver.
    pub fn awaits(&mut self, name: u32) -> bool {
        self.sender.as_sender().expect("a sender").awaits(NodeId(name))
    }

    pub fn finish(&mut self) {
        self.sender.as_sender().expect("a sender").finish(self.now);
    }
}
