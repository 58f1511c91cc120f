//! Tests of late joins, leaving, optional receivers and slotted feedback, after `docs/protocols/xtp.md`.

use std::time::Duration;

use carillon_core::{Dest, Event, NodeId, Role};
use carillon_testkit::{ASSOCIATION, Group, Link, MachineFixture, SENDER};
use carillon_wire::xtp::{
    Address, Body, Common, Data, Diag, HEADER_LEN, Handover, Packet, RTN, Traffic, TrafficForm, key_of,
    option,
};

use super::ENTRY;

const TRAFFIC: Traffic<'static> = Traffic { service: 6, form: TrafficForm::Null([0; 4]) };

fn bytes(key: u64, options: u32, sync: u32, seq: u64, body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet { key, options, sort: 0, sync, seq, body }.emit(&mut bytes);
    bytes
}

fn back() -> u64 {
    key_of(ASSOCIATION) | RTN
}

fn common(rseq: u64, echo: u32) -> Common {
    Common { rseq, alloc: 1 << 20, echo }
}

/// TCNTL of a receiver, which opens a context with this key.
fn tcntl(xkey: u64) -> Vec<u8> {
    bytes(back(), 0, 0, 0, Body::Tcntl(Handover { common: common(0, 1), xkey }, TRAFFIC))
}

fn jcntl(xkey: u64) -> Vec<u8> {
    bytes(back(), 0, 0, 0, Body::Jcntl(Handover { common: common(0, 0), xkey }, Address::NULL, TRAFFIC))
}

fn cntl(options: u32, rseq: u64, echo: u32) -> Vec<u8> {
    bytes(back(), options, 0, 0, Body::Cntl(common(rseq, echo)))
}

/// Sender to three receivers that has sent two messages of three bytes, after the first `answers` receivers answered
/// FIRST.
fn opened(settings: &[(&str, &str)], answers: u32) -> MachineFixture {
    let all: Vec<(&str, &str)> = [("calls", "9")].into_iter().chain(settings.iter().copied()).collect();
    let mut fixture = MachineFixture::new(&ENTRY, Role::Sender, 3, &all, HEADER_LEN, 1);
    for message in ["abc", "def"] {
        fixture.offer(message).expect("there is room");
    }
    for receiver in 1..=answers {
        fixture.receive(receiver, &tcntl(70));
    }
    fixture.datagrams();
    fixture.events();
    fixture
}

/// Takes the unicast packets: destination and text.
fn said(fixture: &mut MachineFixture) -> Vec<(u32, String)> {
    let line = |(transmit, bytes): (carillon_core::Transmit, Vec<u8>)| match transmit.dest {
        Dest::Node(node) => {
            let packet = Packet::parse(&bytes).expect("what it sends is right");
            let noerr = if packet.has(option::NOERR) { " noerr" } else { "" };
            let more = match packet.body {
                Body::Jcntl(handover, ..) => format!(" xkey {}", handover.xkey),
                Body::Diag(Diag { code, value, .. }) => format!(" {code} {value}"),
                _ => String::new(),
            };
            Some((node.0, format!("{} {}{more}{noerr}", packet.name(), packet.seq)))
        }
        _ => None,
    };
    fixture.datagrams().into_iter().filter_map(line).collect()
}

/// A JCNTL with a new key replaces the receiver's context and starts at the next message.
#[test]
fn returning_receiver_joins_at_the_next_message() {
    let mut fixture = opened(&[("late_join", "true")], 3);
    fixture.receive(1, &cntl(0, 6, 2)).receive(2, &cntl(0, 6, 2));
    assert_eq!(fixture.awaited([1, 2, 3]), [3]);
    fixture.receive(3, &jcntl(71));
    assert_eq!(said(&mut fixture), [(3, "jcntl 6 xkey 71".to_owned())]);
    assert!(fixture.events().contains(&Event::MemberJoined { member: NodeId(3) }));
    assert_eq!(fixture.awaited([1, 2, 3]), Vec::<u32>::new(), "nobody lacks what went before");
    // A repeated join gets the same answer, although more data was sent.
    fixture.offer("ghi").expect("there is room");
    fixture.datagrams();
    fixture.receive(3, &jcntl(71));
    assert_eq!(said(&mut fixture), [(3, "jcntl 6 xkey 71".to_owned())]);
    assert_eq!(fixture.awaited([1, 2, 3]), [1, 2, 3]);
    fixture.receive(3, &cntl(0, 9, 3));
    assert_eq!(fixture.awaited([1, 2, 3]), [1, 2]);
}

#[test]
fn join_is_refused_without_late_join_or_membership() {
    for (late_join, from) in [("false", 3), ("true", 9)] {
        let mut fixture = opened(&[("late_join", late_join)], 3);
        fixture.receive(from, &jcntl(71));
        assert_eq!(said(&mut fixture), [(from, "diag 6 5 13".to_owned())]);
        assert_eq!(fixture.awaited([1, 2, 3]), [1, 2, 3]);
    }
}

#[test]
fn receiver_that_sends_end_has_left() {
    let mut fixture = opened(&[], 3);
    fixture.receive(1, &cntl(0, 6, 2)).receive(2, &cntl(0, 6, 2));
    fixture.receive(3, &cntl(option::END | option::RCLOSE | option::WCLOSE, 0, 2));
    assert_eq!(fixture.awaited([1, 2, 3]), Vec::<u32>::new());
    fixture.finish();
    assert!(fixture.is_finished());
}

/// A receiver that has left repeats END when the sender asks again.
#[test]
fn receiver_leaves_after_leave_after_messages() {
    let settings = [("leave_after", "1")];
    let mut fixture = MachineFixture::new(&ENTRY, Role::Receiver, 1, &settings, HEADER_LEN, 1);
    let (key, sreq) = (key_of(ASSOCIATION), option::SREQ);
    fixture.receive(0, &bytes(key, sreq, 1, 0, Body::First(Address::NULL, TRAFFIC, Data::default())));
    for (seq, text) in [(0, "abc"), (3, "def")] {
        fixture.receive(0, &bytes(key, option::EOM, 1, seq, Body::Data(Data::plain(text.as_bytes()))));
    }
    fixture.datagrams();
    assert_eq!(fixture.take().expect("it has come").payload.as_ref(), b"abc");
    for _ in 0..2 {
        let sent = fixture.datagrams();
        let [(_, sent)] = sent.as_slice() else { panic!("one packet") };
        assert!(Packet::parse(sent).expect("what it sends is right").has(option::END));
        fixture.receive(0, &bytes(key, sreq, 2, 6, Body::Cntl(Common::default())));
    }
    assert_eq!(fixture.take(), None);
}

#[test]
fn unnamed_receivers_are_told_noerr() {
    let mut fixture = opened(&[("reliability", "named"), ("named", "2")], 2);
    fixture.receive(1, &cntl(0, 6, 2));
    assert_eq!(fixture.awaited([1, 2, 3]), [2]);
    // Losses of the third receiver cause no retransmission, and each of its packets is answered with NOERR.
    for answer in [tcntl(72), cntl(option::FASTNAK, 0, 2)] {
        fixture.receive(3, &answer);
        assert_eq!(said(&mut fixture), [(3, "cntl 6 noerr".to_owned())]);
    }
    fixture.receive(2, &cntl(option::FASTNAK, 0, 1));
    assert_eq!(fixture.datagrams().len(), 2, "for one of those named both go again");
}

#[test]
fn late_receiver_gets_everything_from_its_join() {
    let message = |report: &carillon_testkit::Report| -> Vec<u64> {
        report.rejoined[0].deliveries.iter().map(|delivery| delivery.message.0).collect()
    };
    for seed in 1..20 {
        let group = Group::new(&ENTRY, seed).receivers(3).messages(60).all_links(Link::losing(0.05));
        let group = group.set("late_join", "true").set("wtimer", "50 ms").set("calls", "5");
        let group = group.set("error_control", if seed % 2 == 0 { "selective" } else { "go-back-n" });
        let group = group.interval(Duration::from_millis(10)).max_payload(2000);
        let report = group
            .rejoins()
            .crash(NodeId(2), Duration::from_millis(150))
            .restart(NodeId(2), Duration::from_millis(200 + seed))
            .run();
        report.check_reliable().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let got = message(&report);
        assert!(got.first().is_some_and(|&first| first > 5), "seed {seed}: no history: {got:?}");
        let from = got[0];
        assert_eq!(got, (from..60).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn unnamed_receiver_costs_no_repairs() {
    for (seed, reliability) in [(1, "all"), (1, "named"), (2, "named"), (3, "named")] {
        let bad = Link::losing(0.3);
        let group = Group::new(&ENTRY, seed).receivers(3).messages(60).link(SENDER, NodeId(3), bad);
        let group = group.set("reliability", reliability).set("named", "2").set("wtimer", "50 ms");
        let report = group.max_payload(3000).run();
        for received in &report.receivers {
            assert!(received.deliveries.is_sorted_by(|one, next| one.message < next.message));
        }
        let got: Vec<usize> = report.receivers.iter().map(|received| received.deliveries.len()).collect();
        let repairs = report.count(|_, event| matches!(event, Event::RepairSent { .. }));
        match reliability {
            "all" => assert!(got == [60, 60, 60] && repairs > 0, "{got:?}, {repairs} repairs"),
            _ => {
                assert_eq!((&got[..2], repairs), (&[60, 60][..], 0));
                assert!((5..60).contains(&got[2]), "{got:?}");
            }
        }
    }
}

#[test]
fn slotted_nak_is_damped_by_equivalent_status() {
    let settings = [("feedback", "slotted"), ("slots", "8"), ("slot_time", "1 ms")];
    // Status of another member meanwhile, and whether this one still sends its own.
    let others = [(None, true), (Some((3, 1)), false), (Some((4, 1)), true), (Some((3, 0)), true)];
    for ((other, speaks), seed) in others.into_iter().zip(1..) {
        let mut fixture = MachineFixture::new(&ENTRY, Role::Receiver, 1, &settings, HEADER_LEN, seed);
        let key = key_of(ASSOCIATION);
        let first = Body::First(Address::NULL, TRAFFIC, Data::default());
        fixture.receive(0, &bytes(key, option::SREQ, 1, 0, first));
        // The answer to FIRST leaves at once; requested status waits for a slot.
        fixture.at(100_000);
        fixture.datagrams();
        let data = |seq| bytes(key, option::FASTNAK | option::EOM, 1, seq, Body::Data(Data::plain(b"abc")));
        fixture.receive(0, &data(0)).receive(0, &data(6));
        let mut waits = 0;
        if let Some((rseq, echo)) = other {
            fixture.receive(2, &bytes(back(), option::FASTNAK, 0, 0, Body::Cntl(common(rseq, echo))));
        } else {
            waits = fixture.timer().map_or(0, |at| at - 100_000);
        }
        assert!(waits <= 70_000 && waits % 10_000 == 0, "a whole number of slots: {waits}");
        fixture.at(200_000);
        let sent = fixture.datagrams();
        // The first slot may be at once, before the other member's status.
        assert_eq!(sent.len(), usize::from(speaks), "{other:?}");
        let to_all = sent.iter().all(|(transmit, _)| matches!(transmit.dest, Dest::Group { .. }));
        assert!(to_all, "{sent:?}");
    }
}

#[test]
fn damping_reduces_control_packets() {
    let naks = |feedback: &str| {
        let group = Group::new(&ENTRY, 3).receivers(16).messages(200).max_payload(1000);
        let group = group.all_links(Link { delay: Duration::from_micros(300), ..Link::losing(0.02) });
        let group = group.set("feedback", feedback).set("slots", "16").set("slot_time", "1 ms");
        let report = group.set("wtimer", "100 ms").set("calls", "50").run();
        report.check_reliable().unwrap_or_else(|error| panic!("{error}"));
        let is_nak = |bytes: &[u8]| {
            Packet::parse(bytes).is_ok_and(|packet| packet.key & RTN != 0 && packet.has(option::FASTNAK))
        };
        report.datagrams.iter().filter(|datagram| is_nak(&datagram.bytes)).count()
    };
    let (unicast, slotted) = (naks("unicast"), naks("slotted"));
    assert!(slotted * 2 < unicast, "{slotted} with slots and damping, {unicast} without");
}
