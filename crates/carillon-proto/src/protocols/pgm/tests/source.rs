//! Tests of the source.

use std::net::IpAddr;

use carillon_core::{
    AddressBook, Addresses, BuildContext, Bytes, Config, DropReason, GroupId, NodeId, NumberedAddresses, Role,
};
use carillon_wire::pgm::{Body, Packet, PacketType};

use super::fixture::{Fixture, context, list, message, nak, none, time};
use crate::protocols::pgm::{ENTRY, identity};

fn source(settings: &[(&str, &str)]) -> Fixture {
    Fixture::new(Role::Sender, settings)
}

/// Source that sent packets 0 to 2 at time zero.
fn sending(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = source(settings);
    for payload in ["zero", "one", "two"] {
        assert!(fixture.offer(payload));
    }
    fixture.sent();
    fixture.events();
    fixture
}

/// Section 5.2: ambient SPMs, the first before all data.
#[test]
fn spm_precedes_data_and_repeats() {
    let mut fixture = source(&[("spm_ivl", "500 ms")]);
    // The window is empty: the leading edge is behind the trailing edge.
    assert_eq!(fixture.sent(), ["spm 0 trail 0 lead 4294967295 path 10.0.0.1 join 0 to all"]);
    fixture.at(1000);
    assert_eq!(fixture.sent().len(), 2);
    fixture.offer("zero");
    assert_eq!(fixture.sent(), ["first odata 0 trail 0 len 4 to all"]);
    let mut fixture = source(&[("join", "false")]);
    assert_eq!(fixture.sent(), ["spm 0 trail 0 lead 4294967295 path 10.0.0.1 to all"]);
}

/// Section 5.2: heartbeat SPMs after data, from IHB_MIN to IHB_MAX.
#[test]
fn heartbeat_spms_back_off_exponentially() {
    let mut fixture = source(&[("spm_ivl", "1 h"), ("ihb_min", "100 ms"), ("ihb_max", "400 ms")]);
    fixture.offer("zero");
    fixture.sent();
    let mut when = Vec::new();
    for ms in (0..2000).step_by(50) {
        fixture.at(ms);
        when.extend(fixture.sent().iter().map(|_| ms));
    }
    assert_eq!(when, [100, 300, 700, 1100, 1500, 1900]);
    fixture.at(2000).offer("one");
    fixture.sent();
    fixture.at(2099);
    assert_eq!(fixture.sent().len(), 0);
    fixture.at(2100);
    assert_eq!(fixture.sent(), ["spm 7 trail 0 lead 1 path 10.0.0.1 join 0 to all"]);
}

/// Section 5.3: a repair follows after RDATA_DELAY and serves all NAKs until then.
#[test]
fn nak_is_confirmed_at_once_and_repaired_after_delay() {
    let mut fixture = sending(&[("rdata_delay", "70 ms")]);
    fixture.at(10).receive(9, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to all"]);
    // A second NAK before the repair is confirmed and gets the same repair.
    fixture.at(60).receive(8, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to all"]);
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    fixture.at(79);
    assert_eq!(fixture.sent_but_spms(), [""; 0]);
    fixture.at(200);
    assert_eq!(fixture.sent_but_spms(), ["rdata 1 trail 0 len 3 to all"]);
}

#[test]
fn repeated_nak_is_repaired_unless_within_holdoff() {
    let mut fixture = sending(&[("rdata_delay", "0 ms")]);
    for _ in 0..3 {
        fixture.receive(9, nak(1), none());
        assert_eq!(fixture.sent(), ["ncf 1 to all", "rdata 1 trail 0 len 3 to all"]);
    }
    let mut fixture = sending(&[("rdata_delay", "0 ms"), ("rdata_holdoff", "100 ms")]);
    fixture.receive(9, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to all", "rdata 1 trail 0 len 3 to all"]);
    fixture.at(99).receive(9, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to all"]);
    fixture.at(100).receive(9, nak(1), none());
    assert_eq!(fixture.sent(), ["ncf 1 to all", "rdata 1 trail 0 len 3 to all"]);
}

/// Section 5.3: an NCF copies the list of the NAK.
#[test]
fn ncf_repeats_the_list_of_its_nak() {
    let mut fixture = sending(&[("rdata_delay", "0 ms")]);
    // Packet 7 was never sent and is not repaired.
    fixture.receive(9, nak(2), list(&[0, 0, 0, 0, 0, 0, 0, 7]));
    let answers =
        ["ncf 2 list [0, 7] to all", "rdata 0 trail 0 len 4 to all", "rdata 2 trail 0 len 3 to all"];
    assert_eq!(fixture.sent(), answers);
}

#[test]
fn nak_outside_the_window_triggers_an_spm() {
    let mut fixture =
        sending(&[("txw_secs", "1 s"), ("ihb_min", "100 ms"), ("ihb_max", "1 h"), ("spm_ivl", "1 h")]);
    fixture.at(1400);
    fixture.sent();
    fixture.receive(9, nak(1), none());
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow]);
    let sent = fixture.sent();
    assert!(sent.len() == 1 && sent[0].contains("trail 3 lead 2"), "{sent:?}");
    // At most one SPM within IHB_MIN.
    fixture.at(1499).receive(9, nak(1), none());
    assert_eq!(fixture.sent(), [""; 0]);
}

/// Section 5.2: SPMs on request keep IHB_MIN apart.
#[test]
fn spmr_is_answered_at_most_once_per_ihb_min() {
    let mut fixture = source(&[("spm_ivl", "1 h"), ("ihb_min", "250 ms")]);
    fixture.sent();
    fixture.at(249).receive(5, Body::Spmr, none());
    assert_eq!(fixture.sent().len(), 0);
    fixture.at(250).receive(5, Body::Spmr, none()).receive(6, Body::Spmr, none());
    assert_eq!(fixture.sent().len(), 1);
}

/// Section 5.1.2: advance with time.
#[test]
fn time_window_holds_packets_for_txw_secs() {
    let mut fixture = sending(&[("txw_secs", "1 s"), ("txw_sqns", "4"), ("rdata_delay", "0 ms")]);
    fixture.at(500);
    assert!(fixture.offer("three"));
    assert!(!fixture.offer("four"), "the window is full");
    fixture.at(999).receive(9, nak(0), none());
    assert_eq!(fixture.sent_but_spms()[2..], ["rdata 0 trail 0 len 4 to all"]);
    fixture.at(1000);
    assert!(fixture.offer("four"));
    // A repair carries the current trailing edge (5.1.2).
    fixture.receive(9, nak(3), none());
    assert_eq!(fixture.sent_but_spms()[2..], ["rdata 3 trail 3 len 5 to all"]);
}

/// Section 5.1.2: advance with data, past packets that had no NAK for TXW_ADV_IVL.
#[test]
fn data_window_advances_past_unrequested_packets() {
    let mut fixture = sending(&[
        ("window_advance", "data"),
        ("txw_adv_ivl", "1 s"),
        ("txw_sqns", "3"),
        ("rdata_delay", "0 ms"),
    ]);
    assert!(!fixture.offer("three"));
    fixture.at(600).receive(9, nak(0), none());
    fixture.at(1599);
    assert!(!fixture.offer("three"));
    fixture.at(1600);
    assert!(fixture.offer("three"));
    assert!(fixture.offer("four"), "nobody asked for packet 1");
    // Without need of room the window keeps a packet.
    fixture.at(100_000).receive(9, nak(2), none());
    assert!(fixture.sent_but_spms().contains(&"rdata 2 trail 2 len 3 to all".to_owned()));
}

/// Section 5.1.1: with a window that advances with data, repairs count against TXW_MAX_RTE too.
#[test]
fn rate_limits_data_and_repairs_of_data_window() {
    // 56 bytes each: 4 of payload, 24 of the header and 28 of the network, ten per second.
    let settings = [
        ("txw_max_rte", "560"),
        ("txw_burst", "0"),
        ("spm_ivl", "1 h"),
        ("ihb_min", "1 h"),
        ("ihb_max", "1 h"),
    ];
    let mut fixture = source(&settings);
    fixture.at(1000);
    fixture.sent();
    for _ in 0..4 {
        fixture.offer("data");
    }
    let mut when = Vec::new();
    for ms in (1000..1400).step_by(10) {
        fixture.at(ms);
        when.extend(fixture.sent().iter().map(|_| ms));
    }
    assert_eq!(when, [1000, 1100, 1200, 1300]);
}

/// Section 5.1.3 and OPT_FIN: SPMs announce the end at once and for TXW_SECS.
#[test]
fn fin_spms_follow_the_last_packet_for_txw_secs() {
    let mut fixture =
        sending(&[("txw_secs", "2 s"), ("spm_ivl", "500 ms"), ("ihb_min", "300 ms"), ("ihb_max", "1 h")]);
    assert!(!fixture.machine.as_sender().expect("a source").is_finished());
    fixture.at(100).finish();
    assert_eq!(fixture.sent(), ["spm 1 trail 0 lead 2 path 10.0.0.1 join 0 fin to all"]);
    assert!(fixture.machine.as_sender().expect("a source").is_finished());
    // The source still answers NAKs.
    fixture.at(1000).receive(9, nak(2), none());
    assert!(fixture.sent().contains(&"ncf 2 to all".to_owned()));
    fixture.at(2100);
    assert!(fixture.sent().iter().all(|line| !line.starts_with("spm") || line.contains(" fin ")));
    fixture.at(60_000);
    assert_eq!(fixture.sent(), [""; 0]);
    assert_eq!(fixture.timer(), None);
}

#[test]
fn nak_sequence_number_maps_to_nearest() {
    let mut fixture = sending(&[("rdata_delay", "0 ms")]);
    fixture.receive(9, nak(u32::MAX), none());
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow]);
    fixture.receive(9, nak(2), none());
    let received_nak = fixture
        .events()
        .into_iter()
        .any(|event| event == carillon_core::Event::Received { packet: "nak", message: message(2) });
    assert!(received_nak);
}

/// Beyond its repair budget, a receiver neither gets repairs nor keeps packets in the window.
#[test]
fn repair_budget_limits_repeated_naks() {
    let mut fixture = sending(&[
        ("rdata_delay", "0 ms"),
        ("repair_budget", "9"),
        ("rdata_holdoff", "10 ms"),
        ("window_advance", "data"),
        ("txw_sqns", "3"),
        ("txw_adv_ivl", "1 s"),
        ("spm_ivl", "1 h"),
        ("ihb_min", "1 h"),
        ("ihb_max", "1 h"),
    ]);
    let (mut repairs, mut ms) = (0, 0);
    for _ in 0..1000 {
        ms += 10;
        fixture.at(ms).receive(9, nak(0), list(&[0, 0, 0, 1]));
        repairs += fixture.sent().iter().filter(|line| line.starts_with("rdata")).count();
    }
    // 1024, and nine for each of the three messages.
    assert_eq!(repairs, 1024 + 27);
    // Its NAKs get no NCF either, and keep nothing in the window.
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.at(ms + 1000).receive(9, nak(0), none());
    assert!(fixture.offer("three"));
}

/// Addresses of a group with this UDP port.
#[derive(Debug)]
struct Port(u16);

impl AddressBook for Port {
    fn of_node(&self, node: NodeId) -> Option<IpAddr> {
        NumberedAddresses.of_node(node)
    }

    fn node_at(&self, address: IpAddr) -> Option<NodeId> {
        NumberedAddresses.node_at(address)
    }

    fn of_group(&self, group: GroupId) -> IpAddr {
        NumberedAddresses.of_group(group)
    }

    fn port(&self) -> Option<u16> {
        Some(self.0)
    }
}

/// ZeroMQ subscribers have one number for both ports, and abort on messages that are not framed as theirs.
#[test]
fn session_refuses_the_port_of_zeromq_subscribers() {
    let config = Config::defaults(ENTRY.parameters);
    let on = |port| BuildContext { addresses: Addresses::new(Port(port)), ..context(NodeId(0)) };
    let built = |port| (ENTRY.build)(Role::Sender, &on(port), &config);
    let error = built(7500).expect_err("its dport is 7500").to_string();
    assert!(error.contains("dport = 7500 is the UDP port of the group too"), "{error}");
    assert!(built(7654).is_ok());
}

/// A plain source announces itself by several SPMs before its data, with a TSI that is no session's.
#[test]
fn plain_source_sends_three_spms_before_data() {
    let mut config = Config::defaults(ENTRY.parameters);
    config.set(ENTRY.parameters, "ihb_min", "10 ms").expect("a setting");
    let plain = ENTRY.plain.expect("it has them");
    let mut machine = (plain.sender)(carillon_core::PlainKind::Messages, &context(NodeId(0)), &config)
        .expect("valid settings");
    machine.start(time(0));
    machine.as_sender().expect("a source").offer(time(0), Bytes::from_static(b"a")).expect("there is room");
    let mut sent = Vec::new();
    for ms in 0..30 {
        machine.handle_timeout(time(ms));
        let mut buf = Vec::new();
        while machine.poll_transmit(time(ms), &mut buf).is_some() {
            let packet = Packet::parse(&buf).expect("a packet");
            assert!(!identity::is_of_session(packet.tsi), "{:?}", packet.tsi);
            sent.push((ms, packet.packet_type()));
            buf.clear();
        }
    }
    use PacketType::{Odata, Spm};
    assert_eq!(sent, [(0, Spm), (10, Spm), (20, Spm), (20, Odata)]);
}
