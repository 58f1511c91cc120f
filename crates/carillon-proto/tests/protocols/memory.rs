//! A receiver holds no more than its host's budget, whatever windows the sender asks for and however slow
//! the application is. Counted are the datagrams that it has not let go, and its heap: tables, and copies of what it was sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Config, Dest, Event, GroupId, Host, Identities, Kind,
    Machine, NodeId, PortId, ProtocolEntry, Received, Role, Scope, Seeds, Time, Transmit, drain,
};
use carillon_proto::REGISTRY;
use carillon_testkit::heap::{self, Counting};
use carillon_testkit::{chosen, is_long_tier};

#[global_allocator]
static COUNTING: Counting = Counting;

#[path = "../shared/hoarders.rs"]
mod hoarders;

/// A datagram that is counted as long as somebody holds a part of it.
struct Counted(Vec<u8>);

/// What is counted is counted for one run at a time.
static RUN_LOCK: Mutex<()> = Mutex::new(());

/// Bytes of datagrams that are held.
static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

impl Counted {
    fn bytes(bytes: Vec<u8>) -> Bytes {
        HELD_BYTES.fetch_add(bytes.len(), Ordering::Relaxed);
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
        HELD_BYTES.fetch_sub(self.0.len(), Ordering::Relaxed);
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
    for (name, most) in GREEDY_SETTINGS {
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

/// What a run gave.
#[derive(Debug, Default)]
struct RunResult {
    /// The most bytes of datagrams that the machine under test held.
    datagrams: usize,
    /// The most bytes of its heap besides: tables, and copies of what it was sent.
    heap: usize,
    /// Datagrams that it handled, and bytes of them.
    handled: u64,
    handled_bytes: usize,
    /// Messages that the other machine took for sending.
    offered: u64,
    /// Timers that fired at either.
    timers: u64,
}

impl RunResult {
    /// The machine held no more than its memory and its tables.
    fn judge(&self, memory: usize, tables: usize) -> Result<(), String> {
        let &RunResult { datagrams, heap, handled, .. } = self;
        if datagrams > memory {
            return Err(format!("it held {datagrams} bytes of datagrams, more than its memory of {memory}"));
        }
        if datagrams + heap > memory + tables {
            let all = datagrams + heap;
            return Err(format!(
                "it held {all} bytes, more than its memory of {memory} and {tables} of tables"
            ));
        }
        if handled < MIN_HANDLED {
            return Err(format!("it handled {handled} datagrams only, which says nothing: {self:?}"));
        }
        Ok(())
    }
}

/// Two machines, of which one is under test: it sends nothing of its own.
struct Pair {
    machines: [Box<dyn Machine>; 2],
    /// The node whose machine is under test.
    tested: usize,
    /// Whether its application takes what it delivers.
    takes: bool,
    /// Maximum number of datagrams of both, and the bytes to the machine under test that are enough.
    datagrams: u64,
    enough: usize,
}

impl Pair {
    /// Sends as much as the other machine will, for a time and a number of datagrams. `is_lost` says of each datagram of the
    /// other machine whether it is lost. Ends early only where nothing can happen any more: no datagram goes out, no message is taken
    /// and no timer is armed.
    fn run(
        mut self,
        mut message: impl FnMut(u64) -> Bytes,
        is_lost: impl Fn(u64, &[u8]) -> bool,
    ) -> RunResult {
        let (tested, other) = (self.tested, 1 - self.tested);
        let mut result = RunResult::default();
        let (mut now, mut count) = (Time::ZERO, 0_u64);
        let end = Time::from_nanos(20_000_000_000);
        for node in 0..2 {
            self.call(node, |machine| machine.start(now));
        }
        while now < end && count < self.datagrams && result.handled_bytes < self.enough {
            let (before, mut next) = ((count, result.offered), None);
            for node in [other, tested] {
                if self.machines[node].poll_timeout().is_some_and(|at| at <= now) {
                    result.timers += 1;
                }
                self.call(node, |machine| machine.handle_timeout(now));
                if node == other {
                    for _ in 0..OFFERS_PER_TURN {
                        let Some(sender) = self.machines[other].as_sender() else { break };
                        if sender.offer(now, message(result.offered)).is_err() {
                            break;
                        }
                        result.offered += 1;
                    }
                }
                let mut outbox = Outbox::default();
                let wake = self.call(node, |machine| drain(machine, now, &mut Vec::new(), &mut outbox));
                next = next.into_iter().chain(wake).min();
                for (destination, bytes) in outbox.0 {
                    count += 1;
                    if node == other && is_lost(count, &bytes) {
                        continue;
                    }
                    let bytes = if node == other { Counted::bytes(bytes) } else { bytes.into() };
                    let received = Received {
                        source: NodeId(node as u32),
                        destination: &destination,
                        ingress: PortId(0),
                        scope: Scope::GLOBAL,
                        bytes: &bytes,
                    };
                    if node == other {
                        result.handled += 1;
                        result.handled_bytes += bytes.len();
                    }
                    self.call(1 - node, |machine| machine.handle_datagram(now, received));
                }
                self.call(node, |machine| while machine.poll_event().is_some() {});
                if self.takes && node == tested {
                    self.call(node, |machine| {
                        while machine.as_receiver().is_some_and(|receiver| receiver.poll_delivery().is_some())
                        {
                        }
                    });
                }
            }
            result.datagrams = result.datagrams.max(HELD_BYTES.load(Ordering::Relaxed));
            result.heap = result.heap.max(heap::held(OWNER));
            let has_moved = before != (count, result.offered);
            // Answers are due at once.
            let soon = now + carillon_core::Duration::from_micros(50);
            now = match next {
                _ if has_moved => soon,
                Some(next) => next.max(soon),
                None => break,
            };
        }
        result
    }

    /// Calls a machine; what the one under test requests of the heap is charged to it.
    fn call<T>(&mut self, node: usize, call: impl FnOnce(&mut dyn Machine) -> T) -> T {
        let owner = if node == self.tested { OWNER } else { 0 };
        let machine = &mut *self.machines[node];
        heap::charge(owner, || call(machine))
    }
}

/// A receiver whose application takes nothing.
fn starved(entry: &ProtocolEntry) -> RunResult {
    received(entry, MEMORY, false, usize::MAX)
}

/// A receiver whose application takes everything, in a stream much longer than its memory.
fn fed(entry: &ProtocolEntry) -> RunResult {
    received(entry, SMALL_MEMORY, true, FED_BYTES)
}

/// A receiver, or the second of two peers, which every sixty-first datagram does not reach.
fn received(entry: &ProtocolEntry, memory: usize, takes: bool, enough: usize) -> RunResult {
    let peers = entry.roles.contains(&Role::Peer);
    let role = |other| if peers { Role::Peer } else { other };
    let _alone = begin();
    let receiver = heap::charge(OWNER, || build(entry, role(Role::Receiver), 1, memory));
    let machines = [build(entry, role(Role::Sender), 0, usize::MAX), receiver];
    let pair = Pair { machines, tested: 1, takes, datagrams: datagrams(), enough };
    let payload = Bytes::from_static(&[7; PAYLOAD]);
    pair.run(|_| payload.clone(), |count, _| count.is_multiple_of(61))
}

/// The first of two peers, which the first message of the second one never reaches.
fn parked(entry: &ProtocolEntry) -> RunResult {
    let _alone = begin();
    let tested = heap::charge(OWNER, || build(entry, Role::Peer, 0, MEMORY));
    let machines = [tested, build(entry, Role::Peer, 1, usize::MAX)];
    let pair = Pair { machines, tested: 0, takes: false, datagrams: datagrams(), enough: usize::MAX };
    let message = |number| Bytes::from(vec![if number == 0 { FIRST_FILL } else { 7 }; PAYLOAD]);
    pair.run(message, |_, bytes| bytes.len() > PAYLOAD && bytes.ends_with(&[FIRST_FILL; PAYLOAD / 2]))
}

/// Waits for other runs, and counts from zero.
fn begin() -> MutexGuard<'static, ()> {
    assert!(heap::is_counting(), "this test program does not count its heap");
    let alone = RUN_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    HELD_BYTES.store(0, Ordering::Relaxed);
    heap::reset();
    alone
}

#[test]
fn receivers_hold_no_more_than_their_memory() {
    let mut timers = 0;
    for entry in chosen(REGISTRY, REGISTRY.iter().copied()) {
        let result = starved(entry);
        println!("{:16} {result:?}", entry.name);
        result.judge(MEMORY, MAX_TABLE_BYTES).unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
        timers += result.timers;
    }
    assert!(timers > 0, "no timer of any protocol fired");
}

#[test]
fn receivers_free_messages_that_were_read() {
    for entry in chosen(REGISTRY, REGISTRY.iter().copied()) {
        let result = fed(entry);
        println!("{:16} {result:?}", entry.name);
        let verdict = judge_fed(&result);
        verdict.unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
    }
}

fn judge_fed(result: &RunResult) -> Result<(), String> {
    result.judge(SMALL_MEMORY, SMALL_TABLE_BYTES)?;
    match result.handled_bytes {
        bytes if bytes < FED_BYTES => {
            Err(format!("it was sent {bytes} bytes only, which says nothing: {result:?}"))
        }
        _ => Ok(()),
    }
}

/// The checks fail for receivers that keep everything.
#[test]
fn receivers_that_hoard_are_caught() {
    for entry in hoarders::HOARDERS {
        let failure = judge_fed(&fed(entry)).expect_err(entry.name);
        assert!(failure.starts_with("it held"), "{}: {failure}", entry.name);
    }
    let [without_feedback, acknowledged, ..] = hoarders::HOARDERS;
    for entry in [without_feedback, acknowledged] {
        let failure = starved(entry).judge(MEMORY, MAX_TABLE_BYTES).expect_err(entry.name);
        assert!(failure.starts_with("it held"), "{}: {failure}", entry.name);
    }
}

/// A member whose first message reaches nobody offers as much as it can: what waits for that message, in a
/// sequencer or anywhere else, is held within the memory.
#[test]
fn peers_bound_messages_of_a_hostile_member() {
    let peers: Vec<_> = REGISTRY.iter().copied().filter(|entry| entry.roles.contains(&Role::Peer)).collect();
    assert!(!peers.is_empty(), "there are no peers");
    for entry in chosen(REGISTRY, peers) {
        let result = parked(entry);
        println!("{:16} {result:?}", entry.name);
        assert!(result.datagrams > 0, "{}: it held nothing", entry.name);
        result.judge(MEMORY, MAX_TABLE_BYTES).unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
    }
}

/// What the first message is made of.
const FIRST_FILL: u8 = 9;

/// Parameters that say how much is held, and what is asked for.
const GREEDY_SETTINGS: &[(&str, u64)] = &[
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
const MEMORY: usize = 1 << 20;

/// Bytes of tables that a machine may hold besides.
const MAX_TABLE_BYTES: usize = 1 << 20;
/// Memory and tables of a receiver whose application takes everything.
const SMALL_MEMORY: usize = 64 << 10;
const SMALL_TABLE_BYTES: usize = 64 << 10;
/// Bytes that such a receiver is sent: twice what it may hold.
const FED_BYTES: usize = 2 * (SMALL_MEMORY + SMALL_TABLE_BYTES);
/// A machine that handled fewer datagrams was not tried.
const MIN_HANDLED: u64 = 100;
/// Messages that are offered between two turns of the machines.
const OFFERS_PER_TURN: usize = 256;
/// The owner to which the heap of the machine under test is charged.
const OWNER: usize = 1;

/// So many are sent at most.
fn datagrams() -> u64 {
    if is_long_tier() { 60_000 } else { 15_000 }
}
