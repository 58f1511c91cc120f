//! A receiver holds no more than its host's budget, whatever windows the sender asks for and however slow
//! the application is. What is counted are the datagrams that it has not let go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Config, Dest, Event, GroupId, Host, Identities, Kind,
    Machine, NodeId, PortId, ProtocolEntry, Received, Role, Scope, Seeds, Time, Transmit, drain,
};
use carillon_proto::REGISTRY;
use carillon_testkit::is_long;

/// A datagram that is counted as long as somebody holds a part of it.
struct Counted(Vec<u8>);

/// What is counted is counted for one run at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes of datagrams that are held.
static HELD: AtomicUsize = AtomicUsize::new(0);

impl Counted {
    fn bytes(bytes: Vec<u8>) -> Bytes {
        HELD.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Counted(bytes))
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Outbox(Vec<(Dest, Vec<u8>)>);

impl Host for Outbox {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.0.push((transmit.dest, std::mem::take(bytes)));
    }

    fn event(&mut self, _event: &Event) {}
}

fn build(entry: &ProtocolEntry, role: Role, node: u32, memory: usize) -> Box<dyn Machine> {
    let mut config = Config::defaults(entry.parameters);
    for (key, value) in entry.delivery_settings {
        config.set(entry.parameters, key, value).expect("a delivery setting");
    }
    for (name, most) in GREEDY {
        if let Some(parameter) = entry.parameters.iter().find(|parameter| parameter.name == *name)
            && let Kind::Count { max, .. } = parameter.kind
        {
            config.set(entry.parameters, name, &max.min(*most).to_string()).expect("it is in its bounds");
        }
    }
    let peers = role == Role::Peer;
    let context = BuildContext {
        association: AssociationId(7),
        node: NodeId(node),
        sender: NodeId(0),
        members: if peers { [NodeId(0), NodeId(1)].into() } else { [NodeId(1)].into() },
        helpers: Default::default(),
        identities: Identities::default(),
        addresses: Addresses::default(),
        group: GroupId(0),
        seeds: Seeds::new(1).node(NodeId(node)),
        bit_rate: BitRate::mbps(1000),
        link_overhead: 0,
        max_payload: PAYLOAD as u32,
        memory,
        rejoining: false,
    };
    (entry.build)(role, &context, &config).unwrap_or_else(|error| panic!("{}: {error}", entry.name))
}

/// Sends as much as the sender will to a receiver whose application takes nothing and which every sixty-first
/// datagram does not reach. Returns the most that it held.
fn peak(entry: &ProtocolEntry, memory: usize) -> usize {
    let peers = entry.roles.contains(&Role::Peer);
    let role = |other| if peers { Role::Peer } else { other };
    let payload = Bytes::from_static(&[7; PAYLOAD]);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    HELD.store(0, Ordering::Relaxed);
    let mut machines =
        [build(entry, role(Role::Sender), 0, usize::MAX), build(entry, role(Role::Receiver), 1, memory)];
    machines.iter_mut().for_each(|machine| machine.start(Time::ZERO));
    let (mut now, mut most, mut count) = (Time::ZERO, 0, 0_u64);
    let end = Time::from_nanos(20_000_000_000);
    while now < end && count < datagrams() {
        let mut next = end;
        for node in 0..2 {
            machines[node].handle_timeout(now);
            if node == 0 {
                while let Some(sender) = machines[0].as_sender()
                    && sender.offer(now, payload.clone()).is_ok()
                {}
            }
            let mut outbox = Outbox::default();
            let wake = drain(&mut *machines[node], now, &mut Vec::new(), &mut outbox);
            next = wake.into_iter().chain([next]).min().unwrap_or(end);
            for (destination, bytes) in outbox.0 {
                count += 1;
                if count.is_multiple_of(61) {
                    continue;
                }
                let bytes = Counted::bytes(bytes);
                let received = Received {
                    source: NodeId(node as u32),
                    destination: &destination,
                    ingress: PortId(0),
                    scope: Scope::GLOBAL,
                    bytes: &bytes,
                };
                machines[1 - node].handle_datagram(now, received);
            }
            while machines[node].poll_event().is_some() {}
        }
        most = most.max(HELD.load(Ordering::Relaxed));
        // Answers are due at once.
        now = next.max(now + carillon_core::Duration::from_micros(50));
    }
    most
}

#[test]
fn no_receiver_holds_more_than_its_memory() {
    for entry in REGISTRY {
        let most = peak(entry, MEMORY);
        println!("{:16} {most:9} bytes at most", entry.name);
        assert!(most <= MEMORY, "{}: {most} bytes of {MEMORY}", entry.name);
    }
}

/// A member whose first message reaches nobody offers as much as it can: what waits for that message, in a
/// sequencer or anywhere else, is held within the memory.
#[test]
fn no_peer_holds_more_than_its_memory_of_what_a_hostile_member_sends() {
    for entry in REGISTRY.iter().filter(|entry| entry.roles.contains(&Role::Peer)) {
        let most = parked(entry, MEMORY);
        println!("{:16} {most:9} bytes at most", entry.name);
        assert!(most > 0 && most <= MEMORY, "{}: {most} bytes of {MEMORY}", entry.name);
    }
}

/// The most that the first of two peers holds of what the second sends.
fn parked(entry: &ProtocolEntry, memory: usize) -> usize {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    HELD.store(0, Ordering::Relaxed);
    let mut machines = [build(entry, Role::Peer, 0, memory), build(entry, Role::Peer, 1, usize::MAX)];
    machines.iter_mut().for_each(|machine| machine.start(Time::ZERO));
    let (mut now, mut most, mut count, mut offered) = (Time::ZERO, 0, 0_u64, 0_u64);
    let end = Time::from_nanos(20_000_000_000);
    while now < end && count < datagrams() {
        let mut next = end;
        for node in [1, 0] {
            machines[node].handle_timeout(now);
            if node == 1 {
                while let Some(sender) = machines[1].as_sender() {
                    let byte = if offered == 0 { FIRST } else { 7 };
                    if sender.offer(now, Bytes::from(vec![byte; PAYLOAD])).is_err() {
                        break;
                    }
                    offered += 1;
                }
            }
            let mut outbox = Outbox::default();
            let wake = drain(&mut *machines[node], now, &mut Vec::new(), &mut outbox);
            next = wake.into_iter().chain([next]).min().unwrap_or(end);
            for (destination, bytes) in outbox.0 {
                count += 1;
                if bytes.len() > PAYLOAD && bytes.ends_with(&[FIRST; PAYLOAD / 2]) {
                    continue;
                }
                // Only what the first one is sent counts.
                let bytes = if node == 1 { Counted::bytes(bytes) } else { bytes.into() };
                let received = Received {
                    source: NodeId(node as u32),
                    destination: &destination,
                    ingress: PortId(0),
                    scope: Scope::GLOBAL,
                    bytes: &bytes,
                };
                machines[1 - node].handle_datagram(now, received);
            }
            while machines[node].poll_event().is_some() {}
        }
        most = most.max(HELD.load(Ordering::Relaxed));
        now = next.max(now + carillon_core::Duration::from_micros(50));
    }
    most
}

/// What the first message is made of.
const FIRST: u8 = 9;

/// Parameters that say how much is held, and what is asked for.
const GREEDY: &[(&str, u64)] = &[
    ("window", 32_768),
    ("buffer", 65_536),
    ("rxw_sqns", 65_536),
    ("txw_sqns", 1 << 20),
    ("history", 65_536),
    ("b", 65_536),
    ("replier_buffer", 65_536),
    ("dlr_sqns", 1 << 20),
    ("txw_max_rte", 0),
];
const PAYLOAD: usize = 1400;
const MEMORY: usize = 2 << 20;

/// So many are sent at most.
fn datagrams() -> u64 {
    if is_long() { 60_000 } else { 15_000 }
}
