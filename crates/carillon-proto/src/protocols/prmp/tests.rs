//! Transcripts of a tree with scripted loss.
//!
//! Sender 0 has receiver 1 and inner node 5, below which are receivers 3 and 4. The rules are in
//! docs/protocols/prmp.md.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BitRate, BuildContext, Config, Dest, Event, GroupId, Helper, HelperTable, Host, Machine,
    NodeId, Notice, PortId, Received, Role, Scope, Seeds, Time, Transmit, drain,
};
use carillon_testkit::CheckedMachine;
use carillon_wire::pf::Packet;

use super::ENTRY;

const INNER: u32 = 5;
const DELAY: Duration = Duration::from_millis(5);

/// Loss rule: returns true if a packet from one node to another is lost at a time in milliseconds.
type Rule = Box<dyn FnMut(u64, u32, u32, &Packet<'_>) -> bool>;

struct Tree {
    machines: BTreeMap<u32, Box<dyn Machine>>,
    table: HelperTable,
    now: Time,
    flying: BTreeMap<(Time, u64), (u32, u32, Dest, Bytes)>,
    serial: u64,
    lose: Rule,
    /// Sent messages with source, destination and number.
    log: Vec<String>,
    completed: Vec<u64>,
    /// Deliveries of each node.
    got: BTreeMap<u32, Vec<u64>>,
    idle: Option<u32>,
    polls: usize,
}

#[derive(Default)]
struct Output {
    sent: Vec<(Transmit, Vec<u8>)>,
    completed: Vec<u64>,
}

impl Host for Output {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.sent.push((transmit, std::mem::take(bytes)));
    }
    fn event(&mut self, _event: &Event) {}
    fn notice(&mut self, notice: Notice) {
        if let Notice::Completed { message, .. } = notice {
            self.completed.push(message.0);
        }
    }
}

impl Tree {
    /// The inner node delivers too if it is a designated receiver.
    fn new(designated: bool, settings: &[(&str, &str)]) -> Tree {
        let mut config = Config::defaults(ENTRY.parameters);
        for (key, value) in [("past_limit", "wait")].iter().chain(settings) {
            config.set(ENTRY.parameters, key, value).unwrap();
        }
        let helper = Helper { node: NodeId(INNER), parent: None, delivers: designated };
        let table = HelperTable::new(vec![helper], [3, 4].map(|node| (NodeId(node), NodeId(INNER)))).unwrap();
        let mut members: Vec<NodeId> = [1, 3, 4].map(NodeId).into();
        members.extend(designated.then_some(NodeId(INNER)));
        let build = |node: u32| {
            let role = match node {
                0 => Role::Sender,
                INNER if !designated => Role::Helper,
                _ => Role::Receiver,
            };
            let context = BuildContext {
                association: AssociationId(7),
                node: NodeId(node),
                sender: NodeId(0),
                members: members.clone().into(),
                helpers: Arc::new(table.clone()),
                identities: Default::default(),
                addresses: Default::default(),
                group: GroupId(0),
                seeds: Seeds::new(1),
                bit_rate: BitRate::mbps(100),
                link_overhead: 28,
                max_payload: 100,
                memory: usize::MAX,
                rejoining: false,
            };
            let machine = CheckedMachine::new((ENTRY.build)(role, &context, &config).unwrap()).of(&ENTRY);
            (node, Box::new(machine) as Box<dyn Machine>)
        };
        let mut tree = Tree {
            machines: [0, 1, 3, 4, INNER].into_iter().map(build).collect(),
            table,
            now: Time::ZERO,
            flying: BTreeMap::new(),
            serial: 0,
            lose: Box::new(|_, _, _, _| false),
            log: Vec::new(),
            completed: Vec::new(),
            got: BTreeMap::new(),
            idle: None,
            polls: 0,
        };
        tree.machines.values_mut().for_each(|machine| machine.start(Time::ZERO));
        tree
    }

    fn losing(mut self, rule: impl FnMut(u64, u32, u32, &Packet<'_>) -> bool + 'static) -> Tree {
        self.lose = Box::new(rule);
        self
    }

    /// Offers `messages` messages while there is room.
    fn offer(&mut self, messages: u64) -> u64 {
        let now = self.now;
        let sender = self.machines.get_mut(&0).unwrap().as_sender().unwrap();
        let taken = (0..messages).take_while(|_| sender.offer(now, Bytes::from_static(b"x")).is_ok()).count();
        self.settle();
        taken as u64
    }

    fn millis(&self) -> u64 {
        self.now.since(Time::ZERO).as_millis() as u64
    }

    fn settle(&mut self) {
        for node in self.machines.keys().copied().collect::<Vec<_>>() {
            self.drain(node);
        }
    }

    fn drain(&mut self, node: u32) {
        let Some(machine) = self.machines.get_mut(&node) else { return };
        let mut out = Output::default();
        loop {
            drain(&mut **machine, self.now, &mut Vec::new(), &mut out);
            if self.idle == Some(node) {
                break;
            }
            let Some(delivery) = machine.as_receiver().and_then(|receiver| receiver.poll_delivery()) else {
                break;
            };
            self.got.entry(node).or_default().push(delivery.message.0);
        }
        self.completed.append(&mut out.completed);
        let at = self.millis();
        for (transmit, bytes) in out.sent {
            let bytes = Bytes::from(bytes);
            let packet = Packet::parse(&bytes).unwrap().1;
            let to = match &transmit.dest {
                Dest::Node(node) => vec![node.0],
                _ => self.machines.keys().copied().filter(|&other| other != node).collect(),
            };
            let whither = if let [one] = to[..] { one.to_string() } else { "all".to_owned() };
            match packet {
                Packet::Data { seq, .. } => self.log.push(format!("{node}>{whither} {seq}")),
                Packet::Poll { .. } => self.polls += 1,
                Packet::Resp(_) => {}
            }
            for other in to {
                if !(self.lose)(at, node, other, &packet) {
                    self.serial += 1;
                    let key = (self.now + DELAY, self.serial);
                    self.flying.insert(key, (node, other, transmit.dest.clone(), bytes.clone()));
                }
            }
        }
    }

    fn run(&mut self, millis: u64) -> &mut Self {
        let end = Time::ZERO + Duration::from_millis(millis);
        loop {
            let flight = self.flying.keys().next().map(|(at, _)| *at);
            let due = self.machines.values().filter_map(|machine| machine.poll_timeout()).min();
            let Some(next) = flight.into_iter().chain(due).min().filter(|&at| at <= end) else { break };
            self.now = self.now.max(next);
            let now = self.now;
            for node in self.machines.keys().copied().collect::<Vec<_>>() {
                if self.machines[&node].poll_timeout().is_some_and(|at| at <= now) {
                    self.machines.get_mut(&node).unwrap().handle_timeout(now);
                    self.drain(node);
                }
            }
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= now) {
                let (from, to, destination, bytes) = entry.remove();
                let Some(machine) = self.machines.get_mut(&to) else { continue };
                let datagram = Received {
                    source: NodeId(from),
                    destination: &destination,
                    ingress: PortId(0),
                    scope: Scope::GLOBAL,
                    bytes: &bytes,
                };
                machine.handle_datagram(now, datagram);
                self.drain(to);
            }
        }
        self.now = end;
        self
    }

    /// Removes a node: the sender is notified after `told_after`, and all nodes get the next table.
    fn loses(&mut self, node: u32, told_after: u64) {
        self.machines.remove(&node);
        self.run(self.millis() + told_after);
        let now = self.now;
        self.machines.get_mut(&0).unwrap().as_sender().unwrap().expel(now, NodeId(node));
        self.settle();
        self.tell_without(node);
    }

    /// Distributes a table without this node.
    fn tell_without(&mut self, node: u32) {
        self.table = self.table.without(NodeId(node)).expect("a newer table");
        let (now, table) = (self.now, Arc::new(self.table.clone()));
        self.machines.values_mut().for_each(|machine| machine.update_helpers(now, &table));
        self.settle();
    }

    /// Takes the sent messages since the last call.
    fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn got(&self, node: u32) -> &[u64] {
        self.got.get(&node).map_or(&[], Vec::as_slice)
    }
}

/// Returns true if a packet carries this message.
fn is(packet: &Packet<'_>, number: u32) -> bool {
    matches!(packet, Packet::Data { seq, .. } if *seq == number)
}

#[test]
fn hop_by_hop_node_forwards_to_children_in_order() {
    let mut tree = Tree::new(false, &[("data", "hop")]);
    tree.offer(2);
    tree.run(2000);
    let mut log = tree.log();
    log.sort();
    assert_eq!(log, ["0>1 0", "0>1 1", "0>5 0", "0>5 1", "5>3 0", "5>3 1", "5>4 0", "5>4 1"]);
    assert_eq!((tree.got(3), tree.got(4), &tree.completed[..]), (&[0, 1][..], &[0, 1][..], &[0, 1][..]));
}

/// The repaired messages then continue downwards in order.
#[test]
fn hop_by_hop_repair_goes_to_inner_node_alone() {
    let mut lost = 0;
    let mut tree = Tree::new(false, &[("data", "hop")]).losing(move |_, from, to, packet| {
        let first = (from, to) == (0, INNER) && is(packet, 0) && lost == 0;
        lost += usize::from(first);
        first
    });
    tree.offer(2);
    tree.run(2000);
    let log = tree.log();
    assert_eq!(log.iter().filter(|line| *line == "0>5 0").count(), 2);
    assert_eq!(log.iter().filter(|line| *line == "0>1 0").count(), 1, "{log:?}");
    let passed: Vec<&String> = log.iter().filter(|line| line.starts_with("5>3")).collect();
    assert_eq!(passed, ["5>3 0", "5>3 1"], "it had 1 before 0, and passed them on in order");
}

/// An inner node sends only messages that its children are missing, and only to those children.
#[test]
fn from_root_inner_node_sends_only_repairs() {
    let mut lost = 0;
    let mut tree = Tree::new(false, &[("data", "root")]).losing(move |_, from, to, packet| {
        let first = (from, to) == (0, 4) && is(packet, 1) && lost == 0;
        lost += usize::from(first);
        first
    });
    tree.offer(3);
    tree.run(2000);
    let (mine, log): (Vec<String>, Vec<String>) =
        tree.log().into_iter().partition(|line| line.starts_with("0>"));
    assert_eq!(mine, ["0>all 0", "0>all 1", "0>all 2"], "the root repairs nothing");
    assert_eq!(log, ["5>4 1"]);
    assert_eq!((tree.got(4), &tree.completed[..]), (&[0, 1, 2][..], &[0, 1, 2][..]));
}

/// Loses every packet to receiver 4 until a time.
fn deaf(until: u64) -> impl FnMut(u64, u32, u32, &Packet<'_>) -> bool {
    move |at, _, to, _| to == 4 && at < until
}

#[test]
fn end_reliability_completes_after_all_consume() {
    for data in ["hop", "root"] {
        let mut tree = Tree::new(false, &[("data", data), ("reliability", "end")]).losing(deaf(1000));
        tree.offer(2);
        tree.run(900);
        assert_eq!((&tree.completed[..], tree.got(3)), (&[][..], &[0, 1][..]), "{data}: 4 has nothing");
        tree.run(4000);
        assert_eq!((&tree.completed[..], tree.got(4)), (&[0, 1][..], &[0, 1][..]), "{data}");
    }
}

#[test]
fn hop_reliability_completes_with_own_children() {
    for data in ["hop", "root"] {
        let mut tree = Tree::new(false, &[("data", data), ("reliability", "hop")]).losing(deaf(1000));
        tree.offer(2);
        tree.run(900);
        assert_eq!(
            (&tree.completed[..], tree.got(4)),
            (&[0, 1][..], &[][..]),
            "{data}: the inner node has it"
        );
        // This node still has the messages that 4 is missing.
        tree.run(4000);
        assert_eq!(tree.got(4), [0, 1], "{data}");
    }
}

#[test]
fn end_reliability_survives_dead_designated_receiver() {
    for (data, designated) in [("hop", false), ("root", false), ("hop", true), ("root", true)] {
        let settings = [("data", data), ("reliability", "end"), ("helper_timeout", "10 s")];
        let mut tree = Tree::new(designated, &settings).losing(deaf(1000));
        tree.offer(2);
        tree.run(500);
        // Meanwhile no table names a new parent of its children.
        tree.loses(INNER, 600);
        assert_eq!(tree.completed, [0; 0], "{data}");
        tree.run(4000);
        assert_eq!((&tree.completed[..], tree.got(4)), (&[0, 1][..], &[0, 1][..]), "{data}");
        assert_eq!(tree.got(3), [0, 1], "{data}: each once");
    }
}

/// Messages that only the dead inner node had are lost; its children continue.
#[test]
fn hop_reliability_loses_data_of_dead_inner_node() {
    let mut tree = Tree::new(false, &[("data", "hop"), ("reliability", "hop")]).losing(deaf(1000));
    tree.offer(2);
    tree.run(500);
    assert_eq!(tree.completed, [0, 1]);
    tree.loses(INNER, 600);
    tree.offer(2);
    tree.run(4000);
    assert_eq!((&tree.completed[..], tree.got(4)), (&[0, 1, 2, 3][..], &[2, 3][..]));
    assert_eq!(tree.got(3), [0, 1, 2, 3]);
}

/// Messages complete only after other helpers have taken over the children of the expelled node.
#[test]
fn silent_inner_node_is_expelled_and_children_adopted() {
    let settings = [("data", "root"), ("helper_timeout", "1 s")];
    let mut tree = Tree::new(false, &settings).losing(deaf(5000));
    tree.offer(1);
    tree.run(100);
    tree.machines.remove(&INNER);
    tree.run(3000);
    assert!(
        !tree.machines.get_mut(&0).unwrap().as_sender().unwrap().awaits(NodeId(INNER)),
        "it was expelled"
    );
    assert_eq!(tree.completed, [0; 0]);
    // A table about another node does not concern its children.
    tree.machines.remove(&3);
    tree.tell_without(3);
    tree.run(3500);
    assert_eq!(tree.completed, [0; 0]);
    tree.tell_without(INNER);
    tree.run(9000);
    assert_eq!((&tree.completed[..], tree.got(4)), (&[0][..], &[0][..]));
}

#[test]
fn slow_leaf_closes_windows_above_it() {
    for data in ["hop", "root"] {
        let mut tree = Tree::new(false, &[("data", data), ("window", "4")]);
        tree.idle = Some(4);
        let mut offered = 0;
        for millis in 0..60 {
            offered += tree.offer(8);
            tree.run(50 * millis);
        }
        // No node sends more than 4 has room for.
        let highest =
            tree.log().iter().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).max();
        assert!((4..=12).contains(&offered), "{data}: {offered} were taken");
        assert!(highest < Some(8), "{data}: {highest:?}");
        assert_eq!(tree.got(3).len(), 4, "{data}: its neighbour has what fits");
        tree.idle = None;
        tree.run(8000);
        assert_eq!(tree.completed.len() as u64, offered, "{data}");
        assert_eq!(tree.got(4).len() as u64, offered, "{data}");
        assert!(tree.polls > 0);
    }
}

/// The inner node reports its congestion window as its buffer, and the root sends no more.
#[test]
fn losses_below_an_inner_node_slow_the_root() {
    let sizes = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = sizes.clone();
    let mut lost = std::collections::BTreeSet::new();
    let settings = [("data", "root"), ("congestion", "window"), ("window", "32")];
    let mut tree = Tree::new(false, &settings).losing(move |_, from, to, packet| {
        if let (INNER, 0, Packet::Resp(resp)) = (from, to, packet) {
            seen.borrow_mut().push(resp.size);
        }
        // Receiver 4 loses the first copy of each fourth message; the root's other children lose nothing.
        matches!(packet, Packet::Data { seq, .. } if to == 4 && seq % 4 == 3 && lost.insert(*seq))
    });
    let mut offered = 0;
    for millis in 0..200 {
        offered += tree.offer(32);
        tree.run(50 * millis);
    }
    tree.run(30_000);
    let sizes = sizes.borrow();
    assert!(offered > 40 && tree.got(4).len() as u64 == offered, "{offered}");
    assert!(sizes.first() == Some(&1) && sizes.iter().max() < Some(&9), "{sizes:?}");
}
