//! Consolidation against what a reader of all statuses would conclude, and rules of the sources, one each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    Addresses, AssociationId, BitRate, BuildContext, Config, Dest, GroupId, Helper, HelperTable, Identities,
    Machine, NodeId, PortId, Received, Rng, Role, Scope, Seeds, Time, Transmit,
};
use carillon_wire::map::Map;
use carillon_wire::status::{Family, Packet, Status};

use super::{Consolidation, Report};
use crate::blocks::ReceiverMap;
use crate::protocols::{cp, csp, dsp};

const SOURCE: NodeId = NodeId(0);
const HELPER: NodeId = NodeId(10);
const SESSION: AssociationId = AssociationId(7);
const SPAN: u64 = 200;

/// Random set of blocks: all before one block, and some beyond it.
fn drawn(rng: &mut Rng) -> BTreeSet<u64> {
    let lower = rng.below(90);
    let behind = (lower + 1..lower + 1 + rng.below(60)).filter(|_| rng.chance(0.6));
    (0..lower).chain(behind.collect::<Vec<_>>()).collect()
}

fn lower(has: &BTreeSet<u64>) -> u64 {
    (0..).find(|block| !has.contains(block)).expect("a block that is not there")
}

fn report(has: &BTreeSet<u64>, buffer: u64) -> Report {
    let mut map = ReceiverMap::default();
    has.iter().for_each(|&block| map.insert(block));
    let lower = lower(has);
    Report { lower, map, done: lower, buffer, echo: None, since: Time::ZERO }
}

fn set(map: &ReceiverMap) -> BTreeSet<u64> {
    (0..SPAN).filter(|&block| map.has(block)).collect()
}

// Sections 4 and 5: LW_r is the minimum or maximum, LOB the AND or OR of the aligned lists, the buffer the minimum.
#[test]
fn consolidated_status_is_independent_of_order() {
    let mut rng = Seeds::new(1).stream("consolidation");
    for _ in 0..500 {
        let sets: Vec<BTreeSet<u64>> = (0..1 + rng.below(6)).map(|_| drawn(&mut rng)).collect();
        let mut reports: Vec<Report> = sets.iter().map(|has| report(has, rng.below(50))).collect();
        let buffer = reports.iter().map(|report| report.buffer).min();
        for _ in 0..3 {
            let (from, to) = (rng.below(reports.len() as u64), rng.below(reports.len() as u64));
            reports.swap(from as usize, to as usize);
            let all = Consolidation::Minimum.combine(&reports).expect("one report");
            let some = Consolidation::Maximum.combine(&reports).expect("one report");
            let and = sets.iter().skip(1).fold(sets[0].clone(), |all, has| &all & has);
            let or = sets.iter().skip(1).fold(sets[0].clone(), |some, has| &some | has);
            assert_eq!((set(&all.map), set(&some.map)), (and, or));
            let lowers = || sets.iter().map(lower);
            assert_eq!((Some(all.lower), Some(some.lower)), (lowers().min(), lowers().max()));
            assert_eq!((Some(all.buffer), Some(some.buffer)), (buffer, buffer));
            assert_eq!((Some(all.done), Some(some.done)), (lowers().min(), lowers().min()));
            // And what a packet makes of it is the same, though the list of the maximum may begin with ones.
            for one in [&all, &some] {
                let mut bytes = Vec::new();
                let again =
                    Report::of_packet(&one.packet(Time::ZERO, 128, &mut bytes), one.lower, Time::ZERO);
                assert_eq!((again.lower, set(&again.map)), (one.lower, set(&one.map)));
            }
        }
    }
}

fn context(node: NodeId) -> BuildContext {
    let members: Vec<NodeId> = (1..5).map(NodeId).collect();
    let helper = Helper { node: HELPER, parent: None, delivers: false };
    let table = HelperTable::new(vec![helper], members.iter().map(|&member| (member, HELPER)));
    BuildContext {
        association: SESSION,
        node,
        sender: SOURCE,
        members: members.into(),
        helpers: Arc::new(table.expect("a table")),
        identities: Identities::default(),
        addresses: Addresses::default(),
        group: GroupId(3),
        seeds: Seeds::new(1),
        bit_rate: BitRate::mbps(100),
        link_overhead: 28,
        max_payload: 1000,
        memory: usize::MAX,
        rejoining: false,
    }
}

/// A machine, and what it has sent.
struct Fixture {
    machine: Box<dyn Machine>,
    now: Time,
    sent: Vec<(Dest, Vec<u8>)>,
}

impl Fixture {
    fn new(entry: &'static carillon_core::ProtocolEntry, role: Role, node: NodeId) -> Self {
        Fixture::with(entry, role, node, &[])
    }

    fn with(
        entry: &'static carillon_core::ProtocolEntry,
        role: Role,
        node: NodeId,
        settings: &[(&str, &str)],
    ) -> Self {
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in settings {
            config.set(entry.parameters, key, value).expect("a setting");
        }
        let mut machine = (entry.build)(role, &context(node), &config).expect("a machine");
        machine.start(Time::ZERO);
        let mut fixture = Fixture { machine, now: Time::ZERO, sent: Vec::new() };
        fixture.drain();
        fixture
    }

    fn on_status_of(&mut self, family: Family, from: NodeId, packet: &Packet<'_>) {
        self.hear_by(Dest::group(GroupId(3)), family, from, packet);
    }

    fn hear_by(&mut self, destination: Dest, family: Family, from: NodeId, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.emit(family, SESSION, &mut bytes);
        let bytes = Bytes::from(bytes);
        let received = Received {
            source: from,
            destination: &destination,
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            bytes: &bytes,
        };
        self.machine.handle_datagram(self.now, received);
        self.drain();
    }

    fn pass(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        while let Some(at) = self.machine.poll_timeout().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.machine.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    fn drain(&mut self) {
        let mut buf = Vec::new();
        while let Some(Transmit { dest, .. }) = self.machine.poll_transmit(self.now, &mut buf) {
            self.sent.push((dest, std::mem::take(&mut buf)));
        }
        while self.machine.poll_notice().is_some() || self.machine.poll_event().is_some() {}
    }

    /// The last status that went to the source.
    fn status(&self, family: Family) -> Report {
        let (_, bytes) = self
            .sent
            .iter()
            .rev()
            .find(|(dest, bytes)| *dest == Dest::Node(SOURCE) && matches!(bytes[3], 0))
            .expect("a status");
        match Packet::parse(family, bytes).expect("a packet").1 {
            Packet::Status(status) => Report::of_packet(&status, 0, self.now),
            other => panic!("{other}"),
        }
    }
}

fn report_as(fixture: &mut Fixture, family: Family, from: u32, seq: u32, has: &BTreeSet<u64>) {
    let mut bytes = Vec::new();
    let said = report(has, 1000);
    let status = said.packet(Time::ZERO, 128, &mut bytes);
    fixture.on_status_of(family, NodeId(from), &Packet::Status(Status { local: true, seq, ..status }));
}

// The exchange reports the combination of the newest status of each child, with losses, reordering and duplicates.
#[test]
fn exchange_reports_consolidation_of_all_statuses() {
    let mut rng = Seeds::new(2).stream("exchange");
    for round in 0..60 {
        for (family, entry) in [(Family::Csp, &csp::ENTRY), (Family::Cp, &cp::ENTRY)] {
            let mut fixture = Fixture::new(entry, Role::Helper, HELPER);
            // Endpoints get on; each state is a status, and some of these come, in any order.
            let mut states: Vec<(u32, u32, BTreeSet<u64>)> = Vec::new();
            for endpoint in 1..5 {
                let mut has = BTreeSet::new();
                for seq in 1..8 {
                    has.extend((0..rng.below(100)).filter(|_| rng.chance(0.5)).collect::<Vec<_>>());
                    states.push((endpoint, seq, has.clone()));
                }
            }
            states.retain(|_| rng.chance(0.7));
            for at in 0..states.len() {
                let other = rng.below(states.len() as u64) as usize;
                states.swap(at, other);
            }
            let mut newest: BTreeMap<u32, (u32, BTreeSet<u64>)> = BTreeMap::new();
            for (endpoint, seq, has) in &states {
                report_as(&mut fixture, family, *endpoint, *seq, has);
                let known = newest.entry(*endpoint).or_default();
                if *seq > known.0 {
                    *known = (*seq, has.clone());
                }
            }
            fixture.pass(10);
            let all: Vec<&BTreeSet<u64>> = newest.values().map(|(_, has)| has).collect();
            let somebody: BTreeSet<u64> = all.iter().flat_map(|has| has.iter().copied()).collect();
            // A child without a status has nothing.
            let is_in_all = |block: &&u64| all.len() == 4 && all.iter().all(|has| has.contains(*block));
            let everybody: BTreeSet<u64> = somebody.iter().filter(is_in_all).copied().collect();
            let expected = if family == Family::Csp { everybody } else { somebody };
            assert_eq!(set(&fixture.status(family).map), expected, "{family:?}, round {round}");
        }
    }
}

fn data(family: Family, fixture: &mut Fixture, from: NodeId, local: bool, block: u32) {
    let packet = Packet::Data { local, seq: block + 1, block, first: 0, interval: 5000, payload: b"x" };
    fixture.on_status_of(family, from, &packet);
}

// Section 5: the exchange orders one that has a block to multicast it, and to stop when all have it.
#[test]
fn exchange_orders_holder_to_repair_and_stop() {
    let mut fixture = Fixture::new(&cp::ENTRY, Role::Helper, HELPER);
    let (all, some) = ((0..5).collect::<BTreeSet<u64>>(), [0, 1, 3, 4].into_iter().collect());
    (1..4).for_each(|endpoint| report_as(&mut fixture, Family::Cp, endpoint, 1, &all));
    assert!(fixture.sent.iter().all(|(_, bytes)| bytes[3] != 4), "the fourth was not heard yet");
    report_as(&mut fixture, Family::Cp, 4, 1, &some);
    let orders = |fixture: &Fixture| {
        let orders = fixture.sent.iter().filter(|(_, bytes)| bytes[3] == 4);
        orders.map(|(dest, bytes)| (dest.clone(), bytes[11], bytes[12] == 1)).collect::<Vec<_>>()
    };
    let first = orders(&fixture);
    let of_missing: Vec<_> = first.iter().filter(|(_, block, _)| *block == 2).collect();
    assert!(matches!(of_missing[..], [(Dest::Node(NodeId(1..=3)), 2, true)]), "{first:?}");
    let holder = of_missing[0].0.clone();
    report_as(&mut fixture, Family::Cp, 4, 2, &all);
    assert_eq!(orders(&fixture).last(), Some(&(holder, 2, false)));
}

// A child that claims a block without multicasting it loses its credibility: the source learns that the block is
// missing.
#[test]
fn false_holder_is_ignored_after_failed_orders() {
    let mut fixture = Fixture::new(&cp::ENTRY, Role::Helper, HELPER);
    let (claimed, rest) = ((0..3).collect::<BTreeSet<u64>>(), [0, 2].into_iter().collect::<BTreeSet<u64>>());
    for seq in 1..400 {
        report_as(&mut fixture, Family::Cp, 1, seq, &claimed);
        (2..5).for_each(|endpoint| report_as(&mut fixture, Family::Cp, endpoint, seq, &rest));
        fixture.pass(10);
        if seq == 2 {
            assert!(fixture.status(Family::Cp).map.has(1), "it is believed");
        }
    }
    assert!(!fixture.status(Family::Cp).map.has(1), "it is not believed any more");
    assert_eq!(fixture.status(Family::Cp).done, 1);
}

// A claim beyond all bounds moves nothing, and costs no memory.
#[test]
fn a_claim_of_blocks_far_away_is_dropped() {
    for (family, entry) in [(Family::Csp, &csp::ENTRY), (Family::Cp, &cp::ENTRY), (Family::Dsp, &dsp::ENTRY)]
    {
        let mut fixture = Fixture::new(entry, Role::Helper, HELPER);
        let far = Status {
            local: true,
            seq: 1,
            lower: 1 << 30,
            done: 1 << 30,
            echo: 9,
            held: u32::MAX,
            age: u32::MAX,
            buffer: u16::MAX,
            k: 1,
            map: Map::new(&[255; 64]),
        };
        (1..5).for_each(|endpoint| fixture.on_status_of(family, NodeId(endpoint), &Packet::Status(far)));
        fixture.pass(10);
        let said = fixture.status(family);
        assert_eq!((said.lower, said.done, set(&said.map).len()), (0, 0, 0), "{family:?}");
    }
}

// Section 3: a representative reports its own status, and multicasts to its region the blocks that are missing there.
#[test]
fn representative_reports_itself_and_repairs_region() {
    let mut fixture = Fixture::new(&dsp::ENTRY, Role::Helper, HELPER);
    for block in [0, 1, 3] {
        data(Family::Dsp, &mut fixture, SOURCE, false, block);
    }
    let all: BTreeSet<u64> = (0..4).collect();
    (1..4).for_each(|endpoint| report_as(&mut fixture, Family::Dsp, endpoint, 1, &all));
    fixture.pass(200);
    report_as(&mut fixture, Family::Dsp, 4, 1, &[0].into_iter().collect());
    let said = fixture.status(Family::Dsp);
    assert_eq!(set(&said.map), [0, 1, 3].into_iter().collect(), "its own, whatever others have");
    let local = |fixture: &Fixture| {
        let packets = fixture.sent.iter().filter(|(_, bytes)| bytes[3] == 2);
        packets.map(|(dest, bytes)| (dest.clone(), bytes[15])).collect::<Vec<_>>()
    };
    // Block 2 is missing here too; block 3 waits with it in the reassembly buffer.
    let in_region = |hops: u8| Dest::Group { group: GroupId(3), scope: Scope(hops) };
    assert_eq!(local(&fixture), [(in_region(2), 1)]);
    // The second multicast has twice the scope.
    fixture.pass(200);
    report_as(&mut fixture, Family::Dsp, 4, 2, &[0].into_iter().collect());
    assert_eq!(local(&fixture), [(in_region(2), 1), (in_region(4), 1)]);
}

// Section 4, point 4: a block goes again "only to the specific" endpoint that has not received it. The source knows
// only the exchange, which knows the endpoint.
#[test]
fn addressed_repair_goes_only_to_missing_receivers() {
    let lacking = [("repair_to", "lacking")];
    let repairs = |fixture: &Fixture| {
        let packets = fixture.sent.iter().filter(|(_, bytes)| matches!(bytes[3], 2 | 3));
        packets.map(|(dest, bytes)| (dest.clone(), bytes[15])).collect::<Vec<_>>()
    };
    let mut exchange = Fixture::with(&csp::ENTRY, Role::Helper, HELPER, &lacking);
    (0..4).for_each(|block| data(Family::Csp, &mut exchange, SOURCE, false, block));
    let all: BTreeSet<u64> = (0..4).collect();
    [1, 2].into_iter().for_each(|endpoint| report_as(&mut exchange, Family::Csp, endpoint, 1, &all));
    report_as(&mut exchange, Family::Csp, 3, 1, &[0, 1, 3].into_iter().collect());
    assert_eq!(repairs(&exchange), [], "what all hear is nothing to pass on");
    let repair = Packet::Data { local: false, seq: 9, block: 2, first: 0, interval: 5000, payload: b"x" };
    let to_it = Dest::Node(HELPER);
    exchange.hear_by(to_it.clone(), Family::Csp, SOURCE, &repair);
    assert_eq!(repairs(&exchange), [(Dest::Node(NodeId(3)), 2)]);
    // Only the source sends blocks.
    exchange.hear_by(to_it, Family::Csp, NodeId(1), &repair);
    assert_eq!(repairs(&exchange).len(), 1);
    // An endpoint accepts the block from its exchange and from the source only.
    let passed = Packet::Data { local: true, seq: 1, block: 0, first: 0, interval: 5000, payload: b"x" };
    for (settings, from, taken) in
        [(&lacking[..], HELPER, true), (&lacking, NodeId(2), false), (&[], HELPER, false)]
    {
        let mut endpoint = Fixture::with(&csp::ENTRY, Role::Receiver, NodeId(1), settings);
        endpoint.hear_by(Dest::Node(NodeId(1)), Family::Csp, from, &passed);
        let delivered = endpoint.machine.as_receiver().and_then(|receiver| receiver.poll_delivery());
        assert_eq!(delivered.is_some(), taken, "{settings:?} {from}");
    }
}
