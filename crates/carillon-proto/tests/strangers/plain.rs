//! Strangers in plain sessions: forged packets of every kind, from every address, at a receiver of plain sources.
//!
//! Each run is checked against docs/how-to/interoperate.md: no panic, bounded memory, and as many bytes of requests
//! to one address as its budget has.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Bytes, Config, Dest, Event, GroupId, Host, Machine,
    NodeId, NumberedAddresses, PortId, ProtocolEntry, Received, Scope, Seeds, Time, Transmit, drain,
};
use carillon_proto::plain::{PlainLimits, PlainReceiver};
use carillon_proto::{PLAIN_ONLY, REGISTRY};
use carillon_testkit::fuzz::Input;
use carillon_testkit::heap;
use carillon_testkit::{format_tests, is_long_tier, seeds};
use carillon_wire::{norm, pgm};

/// Memory of the machine of one source.
const MEMORY: usize = 256 << 10;
/// Datagrams of a run.
const DATAGRAMS: u64 = 20_000;
/// Node of the receiver.
const OWN: NodeId = NodeId(200);
/// Bytes that the tables of a source may take besides its packets.
const SOURCE_MARGIN: usize = 1 << 20;

/// Bytes sent to each node, headers included.
#[derive(Default)]
struct Sent {
    bytes: BTreeMap<NodeId, u64>,
    fired: bool,
}

impl Host for Sent {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        if let Dest::Node(node) = transmit.dest {
            *self.bytes.entry(node).or_insert(0) += bytes.len() as u64 + 28;
        }
    }
    fn event(&mut self, _event: &Event) {}
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

fn receiver(entry: &'static ProtocolEntry) -> PlainReceiver {
    let plain = entry.plain.expect("it has plain sessions");
    let mut config = Config::defaults(entry.parameters);
    for (key, value) in entry.settings.delivery.iter().chain(plain.settings) {
        config.set(entry.parameters, key, value).expect("a setting");
    }
    let context = BuildContext {
        association: AssociationId(7),
        node: OWN,
        sender: OWN,
        members: Vec::new().into(),
        helpers: Default::default(),
        identities: Default::default(),
        addresses: Addresses::new(NumberedAddresses),
        group: GroupId(0),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(100),
        link_overhead: 28,
        max_payload: 1400,
        memory: MEMORY,
        rejoining: false,
    };
    PlainReceiver::new(entry, &context, &config, PlainLimits::default()).expect("valid settings")
}

/// Makes a datagram of the format, with other numbers of the session now and then.
fn forged(entry: &ProtocolEntry, rng: &mut carillon_core::Rng, buf: &mut Vec<u8>) {
    let mut decisions = vec![0; 40 + rng.below(1400) as usize];
    rng.fill(&mut decisions);
    let session = AssociationId(rng.below(40) as u32);
    (format_tests(entry.packets.format).fuzzed)(&mut Input::new(&decisions), session, buf);
    match entry.name {
        "pgm" => as_plain_pgm(session, buf),
        "norm" => as_plain_norm(rng, buf),
        _ => {}
    }
    if rng.below(4) == 0 && !buf.is_empty() {
        let at = rng.below(buf.len() as u64) as usize;
        buf[at] = rng.below(256) as u8;
    }
}

/// Fuzzed packets of PGM are those of sessions, which a plain receiver ignores: other sources send to another port.
fn as_plain_pgm(session: AssociationId, buf: &mut Vec<u8>) {
    let Ok(mut packet) = pgm::Packet::parse(buf) else { return };
    packet.tsi = pgm::Tsi { gsi: [0, 0, 0, 0, 0, session.0 as u8], port: 2000 };
    packet.destination_port = 7500;
    let mut plain = Vec::new();
    packet.emit(&mut plain);
    *buf = plain;
}

/// Fuzzed packets of NORM have few sizes: in plain sessions they are parts of files and streams of various ones. What a
/// source sends depends on its identifier.
fn as_plain_norm(rng: &mut carillon_core::Rng, buf: &mut Vec<u8>) {
    let Ok(mut packet) = norm::Packet::parse(buf) else { return };
    let is_stream = packet.source % 2 == 0;
    let mut content = vec![7; [1, 20, 700, 1400][rng.below(4) as usize]];
    if is_stream {
        // Header of a symbol with as many bytes as follow, or none.
        let length = if rng.below(20) == 0 { 0 } else { content.len() as u16 };
        let message_start = rng.below(3) as u16;
        let mut symbol = Vec::new();
        norm::StreamHeader { length, message_start, offset: 0 }.emit(&mut symbol);
        symbol.append(&mut content);
        content = symbol;
    }
    let mut extensions = Vec::new();
    let size = [0, 1, 5000, 100_000, 1 << 20, 1 << 47][rng.below(6) as usize];
    let segment = content.len() as u16 - if is_stream { norm::StreamHeader::LEN as u16 } else { 0 };
    // Some sources of files have long blocks.
    let is_long = packet.source % 4 == 1;
    if is_long {
        let block = [300, 1000, u16::MAX][rng.below(3) as usize];
        let sizes = norm::Transmission { size, segment, block, parity: 24, bits: 16 };
        norm::Extensions::push_rs(&mut extensions, sizes);
    } else {
        let sizes = norm::Transmission { size, segment, block: 64, parity: 20, bits: 8 };
        norm::Extensions::push_rs8(&mut extensions, sizes);
    }
    match &mut packet.body {
        norm::Body::Data { position, .. } if is_long => {
            *position = norm::Position::Rs { both: (rng.below(3) << 16 | rng.below(400)) as u32 };
        }
        norm::Body::Info { fec_id, .. } if is_long => *fec_id = 2,
        _ => {}
    }
    if let norm::Body::Data { object, payload, .. } | norm::Body::Info { object, payload, .. } =
        &mut packet.body
    {
        let kind = if is_stream { norm::Object::STREAM } else { norm::Object::FILE };
        object.flags = object.flags & !(norm::Object::STREAM | norm::Object::FILE) | kind;
        *payload = &content;
        packet.extensions = norm::Extensions::new(&extensions).expect("extensions");
    }
    let mut plain = Vec::new();
    packet.emit(&mut plain);
    *buf = plain;
}

fn attack(entry: &'static ProtocolEntry, seed: u64) -> usize {
    heap::reset();
    let mut rng = Seeds::new(seed).stream(&format!("plain.{}", entry.name));
    let mut machine = heap::charge(1, || receiver(entry));
    let (mut now, mut sent, mut buf) = (Time::ZERO, Sent::default(), Vec::new());
    heap::charge(1, || machine.start(now));
    let (mut arrived, limits): (BTreeMap<NodeId, u64>, _) = (BTreeMap::new(), PlainLimits::default());
    let mut most = 0;
    for _ in 0..DATAGRAMS {
        // Two in three come from few addresses, so that there is a session to disturb.
        let addresses = if rng.below(3) > 0 { 4 } else { 100 };
        let from = NodeId(10 + rng.below(addresses) as u32);
        buf.clear();
        forged(entry, &mut rng, &mut buf);
        *arrived.entry(from).or_insert(0) += buf.len() as u64;
        let bytes = Bytes::copy_from_slice(&buf);
        heap::charge(1, || {
            machine.handle_datagram(
                now,
                Received {
                    source: from,
                    destination: &Dest::group(GroupId(0)),
                    ingress: PortId(0),
                    scope: Scope::GLOBAL,
                    bytes: &bytes,
                },
            );
        });
        sent.fired = false;
        settle(&mut machine, now, &mut sent);
        now += Duration::from_micros(rng.below(20_000));
        if machine.poll_timeout().is_some_and(|at| at <= now) {
            heap::charge(1, || machine.handle_timeout(now));
            sent.fired = true;
            settle(&mut machine, now, &mut sent);
        }
        most = most.max(heap::held(1));
    }
    // Otherwise the attack says nothing.
    assert!(machine.sources() > 8 && most > 32 << 10, "{} sources, {most} bytes", machine.sources());
    assert!(most < limits.sources * (MEMORY + SOURCE_MARGIN), "{} held {most} bytes", entry.name);
    let seconds = now.since(Time::ZERO).as_secs() + 11;
    for (node, bytes) in &sent.bytes {
        // Each of the sources of an address has a budget of its own.
        let first = limits.sources as u64 * 512 * (1 + seconds) + 2000;
        let max = arrived.get(node).copied().unwrap_or(0) + first;
        assert!(*bytes <= max, "{} sent {bytes} bytes to {node}, more than {max}", entry.name);
    }
    most
}

fn settle(machine: &mut PlainReceiver, now: Time, sent: &mut Sent) {
    heap::charge(1, || {
        drain(machine, now, &mut Vec::new(), sent);
        while machine.poll_news().is_some() {}
        drain(machine, now, &mut Vec::new(), sent);
    });
}

#[test]
fn forged_plain_packets_cost_no_more_than_documented() {
    assert!(heap::is_counting(), "this test program does not count its heap");
    let mut tried = 0;
    let entries = REGISTRY.iter().chain(PLAIN_ONLY).filter(|entry| entry.plain.is_some());
    for entry in entries {
        for seed in seeds(if is_long_tier() { 20 } else { 2 }) {
            println!("{} seed {seed}: at most {} bytes", entry.name, attack(entry, seed));
            tried += 1;
        }
    }
    assert!(tried >= 6, "{tried} runs");
}
