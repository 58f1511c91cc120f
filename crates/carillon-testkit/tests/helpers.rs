//! Tests of addressed helpers with a small tree protocol: none, one, and chains of helpers that crash one after the
//! other; tables that arrive late, twice or out of order; helpers with false claims.

use std::sync::Arc;
use std::time::Duration;

use carillon_core::{
    Bytes, Dest, DropReason, Event, GroupId, Helper, HelperTable, Host, Machine, NodeId, Notice, PortId,
    Received, Role, Scope, Seeds, Time, Transmit, drain,
};
use carillon_sim::LanConfig;
use carillon_testkit::fuzz::{Input, machine};
use carillon_testkit::{Exercise, Group, Link, Report, SENDER, TREE, TestLocation, for_each_run};

const RUNS: u64 = 20;

fn over_seeds(test: &'static str, mut body: impl FnMut(u64) -> Result<(), String>) {
    let place = TestLocation { package: "carillon-testkit", target: "helpers", test };
    let floor = Exercise { datagrams: 100, deliveries: 40, timers: 1 };
    for_each_run(place, &[&TREE], &[&TREE], RUNS, floor, |_, seed| body(seed));
}

/// Group of six receivers over lossy links.
fn group(seed: u64) -> Group {
    let link = Link { delay: Duration::from_millis(1), ..Link::losing(0.05) };
    Group::new(&TREE, seed).receivers(6).messages(40).all_links(link)
}

/// Shapes of trees: none, one helper, a chain, a tree, and designated receivers.
fn shapes(seed: u64) -> [(&'static str, Group); 5] {
    [
        ("none", group(seed)),
        ("one", group(seed).helpers(1)),
        ("chain", group(seed).helpers(3).fanout(1)),
        ("tree", group(seed).helpers(6)),
        ("designated", group(seed).designated(2).helpers(1)),
    ]
}

#[test]
fn everything_arrives_over_lossy_links_with_any_helpers() {
    over_seeds("everything_arrives_over_lossy_links_with_any_helpers", |seed| {
        for (shape, group) in shapes(seed) {
            let report = group.run();
            report.check_reliable().map_err(|complaint| format!("{shape}: {complaint}"))?;
            if !report.quiet {
                return Err(format!("{shape}: it does not come to rest"));
            }
        }
        Ok(())
    });
}

#[test]
fn everything_arrives_over_an_ethernet_with_any_helpers() {
    over_seeds("everything_arrives_over_an_ethernet_with_any_helpers", |seed| {
        for (shape, group) in shapes(seed) {
            let report = group.run_lan(LanConfig::default());
            report.check_reliable().map_err(|complaint| format!("{shape}: {complaint}"))?;
        }
        Ok(())
    });
}

/// Senders of datagrams addressed to the sender.
fn heard_by_sender(report: &Report) -> Vec<NodeId> {
    let to_sender = report.datagrams.iter().filter(|datagram| datagram.to == Dest::Node(SENDER));
    to_sender.map(|datagram| datagram.from).collect()
}

#[test]
fn only_children_of_the_sender_address_it() {
    let group = group(1).helpers(6);
    let report = group.run();
    let own = group.table().children_of_sender(&[]);
    assert_eq!(own.len(), 2);
    assert!(heard_by_sender(&report).iter().all(|from| own.contains(from)));
    // A helper has repaired every loss on the way to a receiver.
    let repairs = |by: NodeId| {
        report.count(|node, event| node == by && matches!(event, Event::Forwarded { repair: true, .. }))
    };
    assert!((0..6).map(|index| repairs(group.helper(index))).sum::<usize>() > 0);
}

#[test]
fn delivery_survives_the_loss_of_every_helper() {
    over_seeds("delivery_survives_the_loss_of_every_helper", |seed| {
        for fanout in [1, 2] {
            let mut rng = Seeds::new(seed).stream("helpers.deaths");
            let mut group = group(seed).helpers(3).fanout(fanout).interval(Duration::from_millis(100));
            // The crashes are in any order and at any time, some closer than a detection time.
            let mut order: Vec<u32> = (0..3).collect();
            order.rotate_left(rng.below(3) as usize);
            if rng.below(2) == 1 {
                order.reverse();
            }
            for index in order {
                group = group.clone().crash(group.helper(index), Duration::from_millis(rng.below(4000)));
            }
            let report = group.run();
            report.check_reliable().map_err(|complaint| format!("fanout {fanout}: {complaint}"))?;
            let lost: Vec<NodeId> = (0..3).map(|index| group.helper(index)).collect();
            let noticed = report
                .count(|_, event| matches!(event, Event::MemberLost { member } if lost.contains(member)));
            if noticed == 0 {
                return Err(format!("fanout {fanout}: nobody noticed"));
            }
        }
        Ok(())
    });
}

/// A designated receiver that crashes takes no message with it that others may need.
#[test]
fn a_designated_receiver_may_die() {
    over_seeds("a_designated_receiver_may_die", |seed| {
        let at = Duration::from_millis(Seeds::new(seed).stream("helpers.deaths").below(3000));
        let group = group(seed).designated(2).interval(Duration::from_millis(100)).crash(NodeId(1), at);
        group.run().check_reliable()
    });
}

/// Fixture of one machine.
struct HelperFixture {
    machine: Box<dyn Machine>,
    now: Time,
    out: Out,
}

#[derive(Default)]
struct Out {
    sent: Vec<(Dest, Vec<u8>)>,
    events: Vec<Event>,
    notices: Vec<Notice>,
}

impl Host for Out {
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.sent.push((transmit.dest, std::mem::take(bytes)));
    }
    fn event(&mut self, event: &Event) {
        self.events.push(event.clone());
    }
    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

impl HelperFixture {
    fn new(group: &Group, role: Role, node: NodeId) -> Self {
        let mut bench =
            HelperFixture { machine: group.machine(role, node), now: Time::ZERO, out: Out::default() };
        bench.machine.start(Time::ZERO);
        bench.drain();
        bench
    }

    fn drain(&mut self) {
        drain(&mut *self.machine, self.now, &mut Vec::new(), &mut self.out);
    }

    fn hear(&mut self, from: NodeId, packet_type: u8, number: u64) {
        // Magic, version and session are those of the machine's own packets.
        let mut bytes = Vec::new();
        carillon_wire::Envelope { protocol: 202, packet_type, association: carillon_core::AssociationId(1) }
            .emit(&mut bytes);
        bytes.extend_from_slice(&number.to_be_bytes());
        let (bytes, destination) = (Bytes::from(bytes), Dest::group(GroupId(0)));
        let (ingress, scope) = (PortId(0), Scope::GLOBAL);
        let datagram = Received { source: from, destination: &destination, ingress, scope, bytes: &bytes };
        self.machine.handle_datagram(self.now, datagram);
        self.drain();
    }

    fn update_helpers(&mut self, table: &HelperTable) {
        self.machine.update_helpers(self.now, &Arc::new(table.clone()));
        self.drain();
    }

    /// Destination of the last datagram.
    fn said_to(&mut self) -> Option<Dest> {
        std::mem::take(&mut self.out.sent).pop().map(|(dest, _)| dest)
    }
}

const DATA: u8 = 1;
const ACK: u8 = 2;

#[test]
fn late_repeated_or_reordered_tables_do_no_harm() {
    let group = group(1).receivers(1).helpers(2).fanout(1);
    let (upper, lower) = (group.helper(0), group.helper(1));
    let mut receiver = HelperFixture::new(&group, Role::Receiver, NodeId(1));
    receiver.hear(SENDER, DATA, 0);
    assert_eq!(receiver.said_to(), Some(Dest::Node(lower)));
    let second = group.table().without(lower).unwrap();
    let third = second.without(upper).unwrap();
    receiver.update_helpers(&third);
    assert_eq!(receiver.said_to(), Some(Dest::Node(SENDER)), "it says what it has to whom it turns to now");
    for late in [&second, &third, &group.table()] {
        receiver.update_helpers(late);
        assert_eq!(receiver.said_to(), None);
    }
    receiver.hear(SENDER, DATA, 1);
    assert_eq!(receiver.said_to(), Some(Dest::Node(SENDER)));
}

#[test]
fn false_claim_of_a_helper_completes_nothing() {
    let group = group(1).receivers(1).helpers(1);
    let mut sender = HelperFixture::new(&group, Role::Sender, SENDER);
    for _ in 0..2 {
        sender.machine.as_sender().unwrap().offer(Time::ZERO, Bytes::from_static(b"message")).unwrap();
    }
    sender.drain();
    sender.hear(group.helper(0), ACK, 3);
    sender.hear(group.helper(0), ACK, u64::MAX);
    // A node that is no child does not count, even if it has everything.
    sender.hear(NodeId(1), ACK, 2);
    let drops: Vec<_> =
        sender.out.events.iter().filter(|event| matches!(event, Event::Dropped { .. })).collect();
    let dropped = |reason| Event::Dropped { reason };
    let (out, strange) = (dropped(DropReason::OutOfWindow), dropped(DropReason::NotAMember));
    assert_eq!(drops, [&out, &out, &strange]);
    let completed = |notice: &Notice| matches!(notice, Notice::Completed { .. });
    assert!(!sender.out.notices.iter().any(completed));
    sender.hear(group.helper(0), ACK, 2);
    assert_eq!(sender.out.notices.iter().filter(|notice| completed(notice)).count(), 2);
}

#[test]
fn data_of_a_node_that_is_no_helper_is_not_taken() {
    let group = group(1).receivers(2).helpers(1);
    let mut receiver = HelperFixture::new(&group, Role::Receiver, NodeId(1));
    receiver.hear(NodeId(2), DATA, 0);
    assert_eq!(receiver.out.events, [Event::Dropped { reason: DropReason::NotAMember }]);
    receiver.hear(group.helper(0), DATA, 0);
    assert!(receiver.machine.as_receiver().unwrap().poll_delivery().is_some());
}

/// A lost helper's own acknowledgment does not cover its children: the sender keeps messages until they have them.
#[test]
fn messages_of_a_lost_helper_are_still_delivered() {
    let group = group(1).receivers(1).helpers(1).set("limit", "3");
    let mut sender = HelperFixture::new(&group, Role::Sender, SENDER);
    sender.machine.as_sender().unwrap().offer(Time::ZERO, Bytes::from_static(b"message")).unwrap();
    sender.drain();
    while let Some(at) = sender.machine.poll_timeout() {
        sender.now = at;
        sender.machine.handle_timeout(at);
        sender.drain();
    }
    assert!(sender.out.notices.contains(&Notice::MemberLost { member: group.helper(0) }));
    assert!(sender.machine.as_sender().unwrap().awaits(group.helper(0)), "its children may lack it");
    sender.update_helpers(&group.table().without(group.helper(0)).unwrap());
    assert!(sender.machine.as_sender().unwrap().awaits(NodeId(1)));
    let at = sender.machine.poll_timeout().expect("it looks after its new child");
    sender.now = at;
    sender.machine.handle_timeout(at);
    sender.drain();
    assert_eq!(sender.said_to(), Some(Dest::Node(NodeId(1))), "a repair");
}

#[test]
fn fuzzed_input_harms_no_machine() {
    for seed in 0..300 {
        let mut rng = Seeds::new(seed).stream("helpers.fuzz");
        let bytes: Vec<u8> = (0..1500).map(|_| rng.below(256) as u8).collect();
        for &role in TREE.roles {
            machine(&TREE, role, &mut Input::new(&bytes));
        }
    }
}

#[test]
fn a_table_names_its_helpers_once() {
    let helper = |node| Helper { node: NodeId(node), parent: None, delivers: false };
    assert!(HelperTable::new(vec![helper(3), helper(3)], []).is_err());
}
