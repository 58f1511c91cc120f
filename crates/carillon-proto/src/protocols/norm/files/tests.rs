//! Files between a sender and receivers in memory, with losses and a delay.

use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Bytes, Config, Dest, DropReason, Event, GroupId, Host,
    Machine, NodeId, NumberedAddresses, PortId, Received, Rng, Scope, Seeds, SourceKey, Time, Transmit,
    drain,
};
use carillon_wire::norm::{Body, Command, Packet};

use super::geometry::Geometry;
use super::needs::Needs;
use super::*;
use crate::plain::{NamedFile, PlainLimits, PlainNews, PlainReceiver};
use crate::protocols::norm::ENTRY;

const SENDER: NodeId = NodeId(1);
const DELAY: Duration = Duration::from_millis(5);

fn context(node: NodeId, memory: usize) -> BuildContext {
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

fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::defaults(ENTRY.parameters);
    for (key, value) in ENTRY.settings.delivery.iter().chain(PLAIN.settings).chain(settings) {
        config.set(ENTRY.parameters, key, value).expect("a setting");
    }
    config
}

/// Packets on their way, in the order of their arrival.
#[derive(Default)]
struct Sent {
    packets: Vec<(Dest, Vec<u8>)>,
    dropped: Vec<DropReason>,
    lost: u64,
    fired: bool,
}

impl Host for Sent {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.packets.push((transmit.dest, bytes.clone()));
    }
    fn event(&mut self, event: &Event) {
        match event {
            Event::Dropped { reason } => self.dropped.push(*reason),
            Event::LossFinal { .. } => self.lost += 1,
            _ => {}
        }
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

/// A sender and receivers, each behind its own losses.
struct World {
    sender: Box<dyn Machine>,
    receivers: Vec<PlainReceiver>,
    files: Vec<Vec<(String, Bytes)>>,
    ends: Vec<Vec<(u64, bool)>>,
    rng: Rng,
    loss: u64,
    now: Time,
    /// Time of arrival, destination node or the group, and bytes.
    flight: Vec<(Time, NodeId, NodeId, Bytes)>,
    /// Datagrams that the sender sent, by type.
    sent: std::collections::BTreeMap<&'static str, u64>,
}

impl World {
    fn new(receivers: usize, loss: u64, seed: u64, settings: &[(&str, &str)]) -> World {
        let sender = NormFileSender::new(&context(SENDER, usize::MAX), &config(settings)).expect("valid");
        let receiver = |number: usize| {
            let context = context(NodeId(10 + number as u32), 8 << 20);
            PlainReceiver::new(&ENTRY, &context, &config(settings), PlainLimits::default()).expect("valid")
        };
        World {
            sender: Box::new(sender),
            receivers: (0..receivers).map(receiver).collect(),
            files: vec![Vec::new(); receivers],
            ends: vec![Vec::new(); receivers],
            rng: Seeds::new(seed).stream("norm.files"),
            loss,
            now: Time::ZERO,
            flight: Vec::new(),
            sent: Default::default(),
        }
    }

    /// Takes what all machines have to send, and the news.
    fn settle(&mut self, fired: bool) {
        let mut sent = Sent { fired, ..Sent::default() };
        drain(&mut *self.sender, self.now, &mut Vec::new(), &mut sent);
        for (_, bytes) in sent.packets {
            let name = Packet::parse(&bytes).expect("a packet").name();
            *self.sent.entry(name).or_default() += 1;
            for number in 0..self.receivers.len() {
                self.fly(SENDER, NodeId(10 + number as u32), bytes.clone());
            }
        }
        for number in 0..self.receivers.len() {
            let mut sent = Sent { fired, ..Sent::default() };
            let receiver = &mut self.receivers[number];
            drain(receiver, self.now, &mut Vec::new(), &mut sent);
            while receiver.poll_notice().is_some() {}
            while let Some(news) = receiver.poll_news() {
                match news {
                    PlainNews::File { file, .. } => self.files[number].push((file.name, file.content)),
                    PlainNews::Closed { lost, ended, .. } => self.ends[number].push((lost, ended)),
                    PlainNews::Opened(_) => {}
                    PlainNews::Message { .. } => panic!("messages are files"),
                }
            }
            drain(receiver, self.now, &mut Vec::new(), &mut sent);
            for (dest, bytes) in sent.packets {
                assert_eq!(dest, Dest::Node(SENDER), "NACKs are for the sender");
                self.fly(NodeId(10 + number as u32), SENDER, bytes);
            }
        }
    }

    fn fly(&mut self, from: NodeId, to: NodeId, bytes: Vec<u8>) {
        if self.rng.below(100) >= self.loss {
            self.flight.push((self.now + DELAY, from, to, bytes.into()));
        }
    }

    /// Runs until every receiver has ended, for at most ten minutes.
    fn run(&mut self) {
        self.sender.start(self.now);
        self.receivers.iter_mut().for_each(|receiver| receiver.start(Time::ZERO));
        self.settle(false);
        while self.ends.iter().any(Vec::is_empty) {
            assert!(self.now < Time::ZERO + Duration::from_secs(600), "it ends: {:?}", self.ends);
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
            for (_, from, to, bytes) in arrived {
                let destination = if to == SENDER { Dest::Node(SENDER) } else { Dest::group(GroupId(0)) };
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
    }

    fn offer(&mut self, name: &str, content: &[u8]) {
        let file = NamedFile { name: name.to_owned(), content: Bytes::copy_from_slice(content) };
        self.sender.as_sender().expect("a sender").offer(self.now, file.into_message()).expect("room");
    }

    fn finish(&mut self) {
        self.sender.as_sender().expect("a sender").finish(self.now);
    }
}

fn content(length: usize, rng: &mut Rng) -> Vec<u8> {
    let mut content = vec![0; length];
    rng.fill(&mut content);
    content
}

#[test]
fn files_arrive_through_losses_with_their_names() {
    for (seed, loss) in [(1, 0), (2, 5), (3, 5), (4, 20)] {
        let auto = if seed == 3 { "2" } else { "0" };
        let mut world = World::new(2, loss, seed, &[("block", "16"), ("parity", "4"), ("auto_parity", auto)]);
        let mut rng = Seeds::new(seed).stream("content");
        let mut expected = Vec::new();
        for (number, length) in [0, 1, 208, 209, 30_000, 70_001].into_iter().enumerate() {
            let (name, content) = (format!("file:///a%20b/{number}"), content(length, &mut rng));
            world.offer(&name, &content);
            expected.push((name, Bytes::from(content)));
        }
        world.finish();
        world.run();
        for files in &mut world.files {
            files.sort();
            assert!(
                *files == expected,
                "{loss} %: {:?}",
                files.iter().map(|file| &file.0).collect::<Vec<_>>()
            );
        }
        assert_eq!(world.ends, [[(0, true)], [(0, true)]]);
        assert!(world.sender.as_sender().expect("a sender").is_finished());
        let repairs = world.sent.contains_key("repair_adv");
        assert_eq!(repairs, loss > 0, "{:?}", world.sent);
    }
}

/// A block of another implementation: RFC 5510, with the sources that it does not have as zeros.
#[test]
fn recorded_parity_of_a_short_block_is_recomputed() {
    let recorded = include_str!("../../../../tests/vectors/norm-short-block.txt");
    let lines = recorded.lines().filter(|line| !line.starts_with('#'));
    let symbols: Vec<Vec<u8>> = lines
        .map(|line| {
            let digits = line.split_once(' ').expect("a number and digits").1.as_bytes();
            let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
            pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
        })
        .collect();
    // 200 symbols in 13 blocks, of which the last 8 have 15.
    let geometry = Geometry::new(200 * 40, 40, 16, 4).expect("sizes");
    assert_eq!((geometry.blocks(), geometry.sources(4), geometry.sources(6)), (13, 16, 15));
    let known: Vec<_> = (0..15).zip(symbols.iter().map(|symbol| &symbol[..])).collect();
    for number in [15, 16] {
        assert_eq!(geometry.restore(6, &known, number), symbols[usize::from(number)]);
    }
    let others: Vec<_> = (2..17).zip(symbols[2..].iter().map(|symbol| &symbol[..])).collect();
    assert_eq!(geometry.restore(6, &others, 1), symbols[1]);
}

#[test]
fn requests_are_read_as_they_were_written() {
    let mut needs = Needs::default();
    needs.infos.insert(3);
    needs.objects.insert(4);
    needs.blocks.entry((5, 0)).or_default().whole = true;
    let need = needs.blocks.entry((5, 7)).or_default();
    (need.symbols, need.erasures) = ([1, 2, 3, 9].into(), 4);
    let (bytes, all) = needs.write(1000);
    let requests = carillon_wire::norm::Requests::new(&bytes).expect("requests");
    let read = Needs::read(requests, 4);
    assert!(all && needs.is_covered_by(&read) && read.is_covered_by(&needs), "{read:?}");
    assert_eq!(read.infos, [3, 4].into());
    assert!(!needs.write(40).1);
}

/// RFC 5740, 5.5.3: a receiver that the sender names acknowledges a FLUSH once it has everything.
#[test]
fn named_receiver_acknowledges_a_flush() {
    let settings = config(&[("node_id", "11")]);
    let mut sender = NormFileSender::new(&context(SENDER, usize::MAX), &settings).expect("valid");
    let mut packets = Sent::default();
    sender.start(Time::ZERO);
    let offering = sender.as_sender().expect("a sender");
    let file = NamedFile { name: "file:///f".to_owned(), content: Bytes::from_static(b"content") };
    offering.offer(Time::ZERO, file.into_message()).expect("room");
    drain(&mut sender, Time::ZERO, &mut Vec::new(), &mut packets);
    let Ok(Packet { source, body: Body::Data { sender: state, object, position, .. }, .. }) =
        Packet::parse(&packets.packets.last().expect("data").1)
    else {
        panic!("the last packet is data");
    };
    let nodes = [0, 0, 0, 9, 0, 0, 0, 11];
    let nodes = carillon_wire::norm::Nodes::new(&nodes).expect("two nodes");
    let mut flush = Vec::new();
    let command = Command::Flush { object: object.id, position, nodes };
    let body = Body::Command { sender: state, command };
    Packet { sequence: 9, source, body, extensions: Default::default() }.emit(&mut flush);
    let key = key(source, state);
    let mut receiver = NormFileReceiver::new(key, &context(NodeId(2), 1 << 20), &settings).expect("valid");
    let mut answers = Sent::default();
    for bytes in packets.packets.iter().map(|(_, bytes)| bytes).chain([&flush]) {
        receiver.handle_datagram(
            Time::ZERO,
            Received {
                source: SENDER,
                destination: &Dest::group(GroupId(0)),
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &bytes.clone().into(),
            },
        );
        drain(&mut receiver, Time::ZERO, &mut Vec::new(), &mut answers);
    }
    let [(_, answer)] = &answers.packets[..] else { panic!("one answer: {:?}", answers.packets) };
    let answer = Packet::parse(answer).expect("a packet");
    assert_eq!((answer.source, answer.name()), (11, "ack"));
    let Body::Ack { kind, payload, .. } = answer.body else { panic!("an acknowledgment") };
    assert_eq!((kind, payload), (2, &[5, 0, 0, 0, 0, 0, 0, 0][..]));
}

/// A source that states a size beyond the memory, or that skips objects, costs no more than its packets.
#[test]
fn forged_sizes_lose_files_and_nothing_else() {
    let settings = config(&[]);
    let build = context(NodeId(2), 1 << 20);
    let key = SourceKey(7 << 16 | 1);
    let mut receiver = NormFileReceiver::new(key, &build, &settings).expect("valid");
    let mut buf = Vec::new();
    let mut sent = Sent::default();
    for (object, size) in [(0, 1 << 21), (1, 4), (900, 4), (40_000, 4)] {
        let mut extensions = Vec::new();
        let transmission =
            carillon_wire::norm::Transmission { size, segment: 4, block: 4, parity: 0, bits: 8 };
        carillon_wire::norm::Extensions::push_rs8(&mut extensions, transmission);
        buf.clear();
        let sender = SenderState { instance: 1, grtt: 50, backoff: 1, group_size: 1 };
        let object = carillon_wire::norm::Object { id: object, flags: carillon_wire::norm::Object::FILE };
        let position = carillon_wire::norm::Position::Rs8 { block: 0, symbol: 0 };
        let body = Body::Data { sender, object, position, payload: b"four" };
        let extensions = carillon_wire::norm::Extensions::new(&extensions).expect("extensions");
        Packet { sequence: 0, source: 7, body, extensions }.emit(&mut buf);
        let bytes = Bytes::copy_from_slice(&buf);
        let received = Received {
            source: SENDER,
            destination: &Dest::group(GroupId(0)),
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            bytes: &bytes,
        };
        receiver.handle_datagram(Time::ZERO, received);
        drain(&mut receiver, Time::ZERO, &mut Vec::new(), &mut sent);
    }
    let delivered = std::iter::from_fn(|| receiver.as_receiver().expect("one").poll_delivery()).count();
    assert_eq!((sent.lost, delivered, &sent.dropped[..]), (1, 2, &[DropReason::OutOfWindow][..]));
}
