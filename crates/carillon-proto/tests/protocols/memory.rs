//! Memory bounds: a receiver holds no more than its host's budget, for any window of the sender and any speed of the
//! application. Counted are held datagrams and the heap with tables and copies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Config, Dest, Event, GroupId, Host, Identities, Kind,
    Machine, NodeId, PortId, ProtocolEntry, Received, Role, Scope, Seeds, Time, Transmit, drain,
};
use carillon_proto::REGISTRY;
use carillon_proto::blocks::{Part, Player};
use carillon_proto::protocols::carillon::CarillonReceiver;
use carillon_proto::protocols::lms::LmsReceiver;
use carillon_proto::protocols::pgm::PgmReceiver;
use carillon_proto::protocols::prmp::PrmpNode;
use carillon_proto::protocols::rmtp::RmtpNode;
use carillon_proto::protocols::srm::SrmPeer;
use carillon_testkit::heap::{self, Counting};
use carillon_testkit::{chosen, is_long_tier};

#[global_allocator]
static COUNTING: Counting = Counting;

#[path = "../shared/hoarders.rs"]
mod hoarders;

/// Datagram that counts as held while any part of it is referenced.
struct Counted(Vec<u8>);

/// Lock that lets one run count at a time.
static RUN_LOCK: Mutex<()> = Mutex::new(());

/// Bytes of held datagrams.
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
    for (key, value) in entry.settings.delivery {
        config.set(entry.parameters, key, value).expect("a delivery setting");
    }
    for (name, limit) in GREEDY_SETTINGS {
        if let Some(parameter) = entry.parameters.iter().find(|parameter| parameter.name == *name)
            && let Kind::Count { max, .. } = parameter.kind
        {
            config.set(entry.parameters, name, &max.min(*limit).to_string()).expect("it is in its bounds");
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

/// Result of a run.
#[derive(Debug, Default)]
struct RunResult {
    /// Peak bytes of datagrams held by the machine under test.
    datagrams: usize,
    /// Peak heap of the machine under test besides datagrams: tables and copies.
    heap: usize,
    /// Datagrams handled by the machine under test.
    handled: u64,
    handled_bytes: usize,
    /// Messages that the other machine accepted for sending.
    offered: u64,
    /// Timers fired at either machine.
    timers: u64,
}

impl RunResult {
    /// Checks that the machine stayed within its memory and table allowance.
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

/// Two machines, of which the one under test sends no messages.
struct Pair {
    machines: [Box<dyn Machine>; 2],
    /// Node of the machine under test.
    tested: usize,
    /// True if its application reads all deliveries.
    takes: bool,
    /// Maximum number of datagrams in total, and sufficient bytes to the machine under test.
    datagrams: u64,
    enough: usize,
}

impl Pair {
    /// Offers as many messages as the other machine accepts, for a limited time and number of datagrams. `is_lost`
    /// selects lost datagrams of the other machine. Ends early only if nothing can happen: no datagram, message or
    /// timer is left.
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

    /// Calls a machine and charges the heap of the one under test.
    fn call<T>(&mut self, node: usize, call: impl FnOnce(&mut dyn Machine) -> T) -> T {
        let owner = if node == self.tested { OWNER } else { 0 };
        let machine = &mut *self.machines[node];
        heap::charge(owner, || call(machine))
    }
}

/// Runs a receiver with an application that reads nothing.
fn run_blocked_receiver(entry: &ProtocolEntry) -> RunResult {
    run_receiver(entry, MEMORY, false, usize::MAX)
}

/// Runs a receiver with an application that reads everything, in a stream much longer than its memory.
fn run_reading_receiver(entry: &ProtocolEntry) -> RunResult {
    run_receiver(entry, SMALL_MEMORY, true, FED_BYTES)
}

/// Runs a receiver, or the second of two peers, that every 61st datagram does not reach.
fn run_receiver(entry: &ProtocolEntry, memory: usize, takes: bool, enough: usize) -> RunResult {
    let peers = entry.roles.contains(&Role::Peer);
    let role = |other| if peers { Role::Peer } else { other };
    let _alone = begin();
    let receiver = heap::charge(OWNER, || build(entry, role(Role::Receiver), 1, memory));
    let machines = [build(entry, role(Role::Sender), 0, usize::MAX), receiver];
    let pair = Pair { machines, tested: 1, takes, datagrams: datagrams(), enough };
    let payload = Bytes::from_static(&[7; PAYLOAD]);
    pair.run(|_| payload.clone(), |count, _| count.is_multiple_of(61))
}

/// Runs the first of two peers, which never gets the first message of the second.
fn run_peer_with_parked_messages(entry: &ProtocolEntry) -> RunResult {
    let _alone = begin();
    let tested = heap::charge(OWNER, || build(entry, Role::Peer, 0, MEMORY));
    let machines = [tested, build(entry, Role::Peer, 1, usize::MAX)];
    let pair = Pair { machines, tested: 0, takes: false, datagrams: datagrams(), enough: usize::MAX };
    let message = |number| Bytes::from(vec![if number == 0 { FIRST_FILL } else { 7 }; PAYLOAD]);
    pair.run(message, |_, bytes| bytes.len() > PAYLOAD && bytes.ends_with(&[FIRST_FILL; PAYLOAD / 2]))
}

/// Waits for other runs and resets the counters.
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
        let result = run_blocked_receiver(entry);
        println!("{:16} {result:?}", entry.name);
        result.judge(MEMORY, MAX_TABLE_BYTES).unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
        timers += result.timers;
    }
    assert!(timers > 0, "no timer of any protocol fired");
}

#[test]
fn receivers_free_messages_that_were_read() {
    for entry in chosen(REGISTRY, REGISTRY.iter().copied()) {
        let result = run_reading_receiver(entry);
        println!("{:16} {result:?}", entry.name);
        let verdict = judge_reading_receiver(&result);
        verdict.unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
    }
}

fn judge_reading_receiver(result: &RunResult) -> Result<(), String> {
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
        let failure = judge_reading_receiver(&run_reading_receiver(entry)).expect_err(entry.name);
        assert!(failure.starts_with("it held"), "{}: {failure}", entry.name);
    }
    let [without_feedback, acknowledged, ..] = hoarders::HOARDERS;
    for entry in [without_feedback, acknowledged] {
        let failure = run_blocked_receiver(entry).judge(MEMORY, MAX_TABLE_BYTES).expect_err(entry.name);
        assert!(failure.starts_with("it held"), "{}: {failure}", entry.name);
    }
}

/// A member loses its first message and offers as many as it can. Messages that wait for it, in a sequencer for
/// example, stay within the memory.
#[test]
fn peers_bound_messages_of_a_hostile_member() {
    let peers: Vec<_> = REGISTRY.iter().copied().filter(|entry| entry.roles.contains(&Role::Peer)).collect();
    assert!(!peers.is_empty(), "there are no peers");
    for entry in chosen(REGISTRY, peers) {
        let result = run_peer_with_parked_messages(entry);
        println!("{:16} {result:?}", entry.name);
        assert!(result.datagrams > 0, "{}: it held nothing", entry.name);
        result.judge(MEMORY, MAX_TABLE_BYTES).unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
    }
}

/// Fill byte of the first message.
const FIRST_FILL: u8 = 9;

/// Parameters of buffers and requests, with large values.
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

/// Allowance for tables besides the memory, in bytes.
const MAX_TABLE_BYTES: usize = 1 << 20;
/// Memory of a receiver with an application that reads everything, in bytes.
const SMALL_MEMORY: usize = 64 << 10;
const SMALL_TABLE_BYTES: usize = 64 << 10;
/// Bytes sent to that receiver: twice its allowance.
const FED_BYTES: usize = 2 * (SMALL_MEMORY + SMALL_TABLE_BYTES);
/// Minimum number of handled datagrams for a valid run.
const MIN_HANDLED: u64 = 100;
/// Messages offered between two turns of the machines.
const OFFERS_PER_TURN: usize = 256;
/// Heap owner of the machine under test.
const OWNER: usize = 1;

/// Maximum number of datagrams of a run.
fn datagrams() -> u64 {
    if is_long_tier() { 60_000 } else { 15_000 }
}

/// Simulations hold millions of these, most of them idle. Three events and a message for the application are stored
/// inline, which saves an allocation per datagram.
#[test]
fn idle_members_of_large_groups_are_small() {
    fn size_of<P: Part>() -> usize {
        std::mem::size_of::<Player<P>>()
    }
    let sizes = [
        ("pgm", size_of::<PgmReceiver>(), 600),
        ("carillon", size_of::<CarillonReceiver>(), 560),
        ("prmp", size_of::<PrmpNode>(), 560),
        ("lms", size_of::<LmsReceiver>(), 820),
        ("rmtp", size_of::<RmtpNode>(), 870),
        ("srm", size_of::<SrmPeer>(), 780),
    ];
    for (name, bytes, most) in sizes {
        assert!(bytes <= most, "{name}: {bytes} bytes");
    }
}
