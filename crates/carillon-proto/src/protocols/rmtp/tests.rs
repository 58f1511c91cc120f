//! Tests of the rules in `docs/protocols/rmtp.md`, one each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Dest, DropReason, Event, GroupId, Helper, HelperTable,
    Host, Machine, NodeId, PortId, Received, Role, Scope, Seeds, Time, Transmit, drain,
};
use carillon_testkit::CheckedMachine;
use carillon_wire::map::Map;
use carillon_wire::rmtp::{Ack, Packet};

use super::ENTRY;

const ASSOCIATION: AssociationId = AssociationId(7);

/// Fixture of one machine, with times in milliseconds. Node 0 sends, nodes 1 to 4 receive, and helper 5, if present,
/// serves 3 and 4.
struct Fixture {
    machine: Box<dyn Machine>,
    now: Time,
    out: Out,
}

#[derive(Default)]
struct Out {
    sent: Vec<(Transmit, Vec<u8>)>,
    events: Vec<Event>,
    fired: bool,
}

impl Host for Out {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.sent.push((transmit, std::mem::take(bytes)));
    }
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
    fn timers_fired(&self) -> bool {
        self.fired
    }
}

impl Fixture {
    fn new(role: Role, node: u32, helped: bool, settings: &[(&str, &str)]) -> Fixture {
        let mut config = Config::defaults(ENTRY.parameters);
        for (key, value) in settings {
            config.set(ENTRY.parameters, key, value).unwrap();
        }
        let helper = Helper { node: NodeId(5), parent: None, delivers: false };
        let turn = [3, 4].map(|node| (NodeId(node), NodeId(5)));
        let table = HelperTable::new(vec![helper], turn).unwrap();
        let context = BuildContext {
            association: ASSOCIATION,
            node: NodeId(node),
            sender: NodeId(0),
            members: (1..=4).map(NodeId).collect(),
            helpers: if helped { Arc::new(table) } else { Arc::default() },
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: Seeds::new(1),
            bit_rate: BitRate::mbps(10),
            link_overhead: 28,
            max_payload: 100,
            memory: usize::MAX,
            rejoining: false,
        };
        let machine = CheckedMachine::new((ENTRY.build)(role, &context, &config).unwrap()).of(&ENTRY);
        let mut fixture = Fixture { machine: Box::new(machine), now: Time::ZERO, out: Out::default() };
        fixture.machine.start(Time::ZERO);
        fixture.drain(false);
        fixture
    }

    fn sender(settings: &[(&str, &str)]) -> Fixture {
        Fixture::new(Role::Sender, 0, false, settings)
    }

    fn drain(&mut self, fired: bool) {
        self.out.fired = fired;
        drain(&mut *self.machine, self.now, &mut Vec::new(), &mut self.out);
    }

    fn at(&mut self, millis: u64) -> &mut Self {
        let end = Time::ZERO + Duration::from_millis(millis);
        while let Some(due) = self.machine.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.machine.handle_timeout(self.now);
            self.drain(true);
        }
        self.now = end;
        self
    }

    fn offer(&mut self, messages: u64) -> &mut Self {
        for number in 0..messages {
            let payload = Bytes::from(format!("message {number}"));
            self.machine.as_sender().unwrap().offer(self.now, payload).unwrap();
            self.drain(false);
        }
        self
    }

    fn receive(&mut self, from: u32, packet: Packet<'_>) -> &mut Self {
        let mut bytes = Vec::new();
        packet.emit(ASSOCIATION, &mut bytes);
        let datagram = Received {
            source: NodeId(from),
            destination: &Dest::group(GroupId(0)),
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            bytes: &Bytes::from(bytes),
        };
        self.machine.handle_datagram(self.now, datagram);
        self.drain(false);
        self
    }

    /// Receives an acknowledgment of everything before `next` and of the messages in the bitmap.
    fn ack(&mut self, from: u32, next: u32, map: &[u8]) -> &mut Self {
        self.receive(from, Packet::Ack(ack(next, map)))
    }

    fn data(&mut self, numbers: impl IntoIterator<Item = u32>) -> &mut Self {
        for sequence in numbers {
            self.receive(0, Packet::Data { sequence, oldest: 0, payload: b"x" });
        }
        self
    }

    fn sent(&mut self) -> Vec<String> {
        let line = |(transmit, bytes): &(Transmit, Vec<u8>)| {
            let packet = Packet::parse(bytes).unwrap().1.to_string();
            let packet = packet.trim_start_matches("rmtp ").to_owned();
            match &transmit.dest {
                Dest::Node(node) => format!("{packet} to {node}"),
                _ => format!("{packet} to all"),
            }
        };
        std::mem::take(&mut self.out.sent).iter().map(line).collect()
    }

    /// Takes the data packets sent, each as its number and destination.
    fn messages(&mut self) -> Vec<String> {
        let data = self.sent().into_iter().filter(|line| line.starts_with("data"));
        data.map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            format!("{} to {}", words[2], words[words.len() - 1])
        })
        .collect()
    }

    fn drops(&mut self) -> Vec<DropReason> {
        let reason = |event| match event {
            Event::Dropped { reason } => Some(reason),
            _ => None,
        };
        std::mem::take(&mut self.out.events).into_iter().filter_map(reason).collect()
    }
}

fn ack(next: u32, map: &[u8]) -> Ack<'_> {
    Ack { next, stable: next, limit: next + 64, span: 20_000, served: false, received: Map::new(map) }
}

/// Bitmap with message `next` + 2 alone.
const SECOND: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 0b10];

#[test]
fn congestion_window_grows_by_one_per_opportunity() {
    let mut fixture = Fixture::sender(&[]);
    fixture.offer(10);
    let mut counts = Vec::new();
    for millis in [9, 19, 29, 39] {
        counts.push(fixture.at(millis).messages().len());
    }
    // The congestion window starts at one and has grown once at the first opportunity.
    assert_eq!(counts, [2, 3, 4, 1]);
}

#[test]
fn many_requests_set_the_congestion_window_to_one() {
    let mut fixture = Fixture::sender(&[("congestion_thresh", "1"), ("mcast_thresh", "0")]);
    fixture.offer(30).at(35);
    assert_eq!(fixture.messages().len(), 2 + 3 + 4 + 5);
    // Two messages are missing at two receivers, one of them at both.
    fixture.ack(1, 2, &SECOND).ack(2, 2, &SECOND);
    assert_eq!(fixture.at(45).messages().iter().filter(|line| line.ends_with("all")).count(), 1);
}

#[test]
fn sender_stays_within_window_of_slowest_receiver() {
    let mut fixture = Fixture::sender(&[("window", "4"), ("mcast_thresh", "9")]);
    fixture.offer(4);
    assert_eq!(fixture.at(100).messages().len(), 4);
    fixture.offer(4);
    assert_eq!(fixture.at(200).messages(), [""; 0]);
    (1..=3).for_each(|node| _ = fixture.ack(node, 2, &[]));
    assert_eq!(fixture.at(300).messages().iter().filter(|line| line.ends_with("all")).count(), 0);
    fixture.ack(4, 1, &[]);
    assert!(fixture.at(400).messages().contains(&"4 to all".to_owned()));
}

/// Up to `mcast_thresh` requesters get unicast repairs; more get one repair to the group.
#[test]
fn repairs_go_by_unicast_or_multicast_after_t_retx() {
    let mut fixture = Fixture::sender(&[]);
    fixture.offer(4).at(50).messages();
    (1..=3).for_each(|node| _ = fixture.ack(node, 0, &SECOND));
    fixture.ack(4, 1, &SECOND);
    assert_eq!(fixture.at(69).messages(), [""; 0]);
    // Missing: 0 at three receivers, 1 at three, 2 at node 4 alone, and 3 at all.
    assert_eq!(fixture.at(70).messages(), ["0 to all", "1 to all", "2 to n4", "3 to all"][..]);
}

#[test]
fn message_in_flight_is_not_repaired() {
    let mut fixture = Fixture::sender(&[]);
    fixture.offer(1).at(19).messages();
    fixture.ack(1, 0, &[]);
    assert_eq!(fixture.at(60).messages(), [""; 0]);
    fixture.ack(1, 0, &[]);
    assert_eq!(fixture.at(80).messages(), ["0 to n1"]);
    // A recent repair is in flight too.
    fixture.at(90).ack(1, 0, &[]);
    assert_eq!(fixture.at(120).messages(), [""; 0]);
}

#[test]
fn ack_txnow_is_repaired_at_once() {
    let mut fixture = Fixture::sender(&[("txnow_burst", "2")]);
    fixture.offer(4).at(50).messages();
    fixture.receive(2, Packet::AckTxnow(ack(0, &[])));
    assert_eq!(fixture.messages(), ["0 to n2", "1 to n2"]);
    assert_eq!(fixture.at(70).messages(), ["2 to n2", "3 to n2"]);
}

#[test]
fn message_is_kept_until_stable_below_all_reporters() {
    let mut fixture = Fixture::new(Role::Sender, 0, true, &[]);
    fixture.offer(2).at(50);
    fixture.ack(1, 2, &[]).ack(2, 2, &[]);
    fixture.receive(5, Packet::Ack(Ack { stable: 1, ..ack(2, &[]) }));
    let completed = |fixture: &Fixture| {
        fixture.out.events.iter().filter(|event| matches!(event, Event::Completed { .. })).count()
    };
    assert_eq!(completed(&fixture), 1);
    fixture.ack(5, 2, &[]);
    assert_eq!(completed(&fixture), 2);
    // A receiver that reports to another processor is no child of the sender.
    assert_eq!(fixture.ack(3, 2, &[]).drops(), []);
    assert_eq!(
        fixture.receive(3, Packet::Ack(Ack { served: true, ..ack(2, &[]) })).drops(),
        [DropReason::NotAMember]
    );
}

#[test]
fn designated_receiver_reports_own_and_stable_prefix() {
    let mut fixture = Fixture::new(Role::Helper, 5, true, &[("cache_size", "64")]);
    fixture.data([0, 1, 3]).at(60);
    let acks = |fixture: &mut Fixture| -> Vec<String> {
        fixture.sent().into_iter().filter(|line| line.starts_with("ack")).collect()
    };
    assert_eq!(acks(&mut fixture), ["ack next 2 stable 0 limit 64 span 1000000 us map 0x1 to n0"]);
    fixture.ack(3, 2, &[]).ack(4, 1, &[]).at(110);
    assert_eq!(acks(&mut fixture), ["ack next 2 stable 1 limit 65 span 1000000 us map 0x1 to n0"]);
    // It repairs its own messages for each child, and requests the missing one itself.
    assert_eq!(fixture.messages(), [""; 0]);
    fixture.ack(4, 1, &[]);
    assert_eq!(fixture.at(130).messages(), ["1 to n4", "3 to n4"]);
}

#[test]
fn ack_interval_is_the_longer_of_t_ack_and_rtt() {
    let mut fixture = Fixture::new(Role::Receiver, 3, true, &[]);
    fixture.at(50);
    let times = |fixture: &mut Fixture, from: u64, to: u64| -> Vec<u64> {
        let acks = |millis: &u64| fixture.at(*millis).sent().iter().any(|line| line.starts_with("ack"));
        (from..to).filter(acks).collect()
    };
    let sent = fixture.sent();
    assert!(sent.iter().any(|line| line.starts_with("rtt_measure") && line.ends_with("to n5")), "{sent:?}");
    let apart = times(&mut fixture, 51, 400);
    assert!(apart.windows(2).all(|two| two[1] - two[0] == 50), "{apart:?}");
    // An answer after 100 ms: the mean and four deviations amount to 300 ms.
    let then = fixture.now - Time::ZERO - Duration::from_millis(100);
    fixture.receive(5, Packet::RttAck { timestamp: then.as_nanos() as u64 });
    let apart = times(&mut fixture, 401, 1000);
    assert!(apart.windows(2).all(|two| (300..=301).contains(&(two[1] - two[0]))), "{apart:?}");
}

#[test]
fn receiver_reports_to_nearest_and_sometimes_to_parent() {
    let mut fixture = Fixture::new(Role::Receiver, 1, true, &[("ap_choice", "nearest")]);
    fixture.receive(5, Packet::SndAckTome { oldest: 0 });
    fixture.at(400);
    let mut to: BTreeMap<String, usize> = BTreeMap::new();
    for line in fixture.sent().into_iter().filter(|line| line.starts_with("ack")) {
        let served = if line.contains("served elsewhere") { "told" } else { "asked" };
        *to.entry(format!("{} {served}", line.split(' ').next_back().unwrap())).or_default() += 1;
    }
    assert_eq!(to, BTreeMap::from([("n0 told".to_owned(), 2), ("n5 asked".to_owned(), 8)]));
}

#[test]
fn repair_budget_limits_repeated_requests() {
    let mut fixture = Fixture::sender(&[("repair_budget", "1"), ("mcast_thresh", "9")]);
    fixture.offer(1).at(50).messages();
    let mut repairs = 0;
    for round in 0..3000 {
        fixture.ack(1, 0, &[]);
        repairs += fixture.at(50 + 21 * round).messages().len();
    }
    assert_eq!(repairs, 1024 + 1);
}

#[test]
fn impossible_packets_are_dropped() {
    let mut fixture = Fixture::sender(&[]);
    fixture.offer(1).at(50);
    fixture.out.events.clear();
    fixture.ack(1, 2, &[]);
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow], "more than was sent");
    fixture.receive(1, Packet::Ack(Ack { stable: 1, ..ack(0, &[]) }));
    assert_eq!(fixture.drops(), [DropReason::Malformed], "more below it than at itself");
    fixture.receive(9, Packet::Ack(ack(0, &[])));
    assert_eq!(fixture.drops(), [DropReason::NotAMember]);
    let mut fixture = Fixture::new(Role::Receiver, 3, true, &[]);
    fixture.receive(1, Packet::Data { sequence: 0, oldest: 0, payload: b"x" });
    assert_eq!(fixture.drops(), [DropReason::NotAMember], "a receiver sends no messages");
    fixture.receive(0, Packet::Data { sequence: 9, oldest: u32::MAX / 2, payload: b"x" });
    assert_eq!(fixture.drops(), [DropReason::Malformed]);
}
