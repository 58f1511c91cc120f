//! Parity of transmission groups: RFC 3208, section 11.

use carillon_core::{DropReason, Duration, Role};
use carillon_testkit::{Group, Link, Report};
use carillon_wire::pgm::{Body, Data, Options, Packet, ParityParameters};

use super::fixture::{Fixture, list, nak, ncf, none, odata, rdata, spm};
use crate::protocols::pgm::ENTRY;

const NO_PACKETS: [&str; 0] = [];

fn parity(options: Options<'_>) -> Options<'_> {
    Options { parity: true, ..options }
}

/// SPM options of a source with parity on demand in groups of this size.
fn offer(group_size: u32) -> Options<'static> {
    let flags = ParityParameters::ON_DEMAND;
    Options { parity_parameters: Some(ParityParameters { flags, group_size }), ..none() }
}

/// Section 11.3: "parity packets of a group are numbered in the group", and none is sent twice.
#[test]
fn source_sends_parity_after_a_group_and_on_demand() {
    let settings = [("parity", "both"), ("tg_size", "2"), ("rdata_delay", "0 ms")];
    let mut source = Fixture::new(Role::Sender, &settings);
    source.sent();
    source.offer("zero");
    source.offer("one");
    let sent = ["first odata 0 trail 0 len 4 to all", "first odata 1 trail 0 len 3 to all"];
    assert_eq!(
        source.sent_but_spms(),
        [&sent[..], &["odata 0 trail 0 len 6 parity of lengths to all"]].concat()
    );
    source.receive(9, nak(0), parity(none()));
    assert_eq!(source.sent(), ["ncf 0 parity to all", "rdata 1 trail 0 len 6 parity of lengths to all"]);
    // The third parity packet is the first one of the second group of numbers.
    source.receive(9, nak(1), parity(none()));
    let repairs = [
        "rdata 0 trail 0 len 6 parity of lengths group 1 to all",
        "rdata 1 trail 0 len 6 parity of lengths group 1 to all",
    ];
    assert_eq!(source.sent(), [&["ncf 1 parity to all"], &repairs[..]].concat());
    // A group that has not ended has no parity.
    source.offer("two");
    source.sent();
    source.receive(9, nak(2), parity(none()));
    assert_eq!(source.sent_but_spms(), NO_PACKETS);
    // Without parity on demand such a NAK is foreign to the window.
    let mut plain = Fixture::new(Role::Sender, &[("rdata_delay", "0 ms")]);
    plain.offer("zero");
    plain.sent();
    plain.receive(9, nak(0), parity(none()));
    assert_eq!(plain.sent_but_spms(), NO_PACKETS);
}

/// "A source only raises the number of pending packets."
#[test]
fn pending_parity_is_the_greatest_number_that_was_asked_for() {
    let settings =
        [("parity", "on-demand"), ("tg_size", "4"), ("rdata_delay", "10 ms"), ("rdata_holdoff", "50 ms")];
    let mut source = Fixture::new(Role::Sender, &settings);
    (0..4).for_each(|_| _ = source.offer("data"));
    source.sent();
    source.receive(9, nak(0), parity(none())).receive(8, nak(2), parity(none())).receive(
        7,
        nak(1),
        parity(none()),
    );
    let sent = source.at(10).sent();
    assert_eq!(sent.iter().filter(|packet| packet.starts_with("rdata")).count(), 3, "{sent:?}");
    source.at(59).receive(9, nak(0), parity(none()));
    let sent = source.at(200).sent_but_spms();
    assert_eq!(sent, ["ncf 0 parity to all"], "within the hold-off");
}

fn receiver(group_size: u32) -> Fixture {
    let mut fixture = Fixture::new(Role::Receiver, &[("nak_bo_ivl", "0 ms")]);
    fixture.receive(0, spm(0, 9, 0, 0), offer(group_size));
    fixture
}

/// Section 11.4: "loss is judged at the end of a group", and the NAK counts what is missing.
#[test]
fn receiver_asks_for_parity_at_the_end_of_a_group() {
    let mut fixture = receiver(4);
    fixture.receive(0, odata(0), none()).receive(0, odata(3), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.receive(0, odata(4), none());
    assert_eq!(fixture.sent(), ["nak 1 parity to n9"], "two packets of the group of 0");
    fixture.receive(0, ncf(1), parity(none()));
    fixture.message_events();
    // The group's data are equal, and so is their parity.
    fixture.receive(0, rdata(0), parity(none())).receive(0, rdata(0), parity(none()));
    assert_eq!(fixture.message_events(), NO_PACKETS, "one, and again the same");
    fixture.receive(0, rdata(2), parity(none()));
    let events = ["repaired 1", "repaired 2", "delivered 1", "delivered 2", "delivered 3", "delivered 4"];
    assert_eq!(fixture.message_events(), events);
    fixture.receive(0, rdata(3), parity(none()));
    assert_eq!(fixture.drops(), [DropReason::Redundant]);
    fixture.at(10_000);
    assert_eq!(fixture.sent(), NO_PACKETS);
}

/// An SPM ends the wait in a group that has not ended: its losses are requested one by one.
#[test]
fn losses_of_an_open_group_are_requested_after_an_spm() {
    let mut fixture = receiver(4);
    fixture.receive(0, odata(0), none()).receive(0, odata(2), none());
    assert_eq!(fixture.sent(), NO_PACKETS);
    fixture.receive(0, spm(1, 9, 0, 3), offer(4));
    assert_eq!(fixture.sent(), ["nak 1 to n9"]);
}

/// Section 11.4: "an NCF suppresses only if it counts at least as many packets".
#[test]
fn confirmation_of_fewer_packets_suppresses_nothing() {
    for (count, suppressed) in [(0, false), (1, true), (3, true)] {
        let mut fixture = Fixture::new(Role::Receiver, &[("nak_bo_ivl", "10 ms")]);
        fixture.receive(0, spm(0, 9, 0, 0), offer(4));
        fixture.receive(0, odata(0), none()).receive(0, odata(3), none()).receive(0, odata(4), none());
        fixture.receive(0, ncf(count), parity(none()));
        fixture.at(10);
        assert_eq!(fixture.sent().is_empty(), suppressed, "{count}");
    }
}

/// A source that no longer has the group, or does not answer, still repairs single packets.
#[test]
fn group_without_an_answer_is_requested_packet_by_packet() {
    let settings = [("nak_bo_ivl", "0 ms"), ("nak_rpt_ivl", "50 ms"), ("nak_ncf_retries", "1")];
    let mut fixture = Fixture::new(Role::Receiver, &settings);
    fixture.receive(0, spm(0, 9, 0, 0), offer(2));
    fixture.receive(0, odata(0), none()).receive(0, odata(2), none());
    let sent: Vec<String> = fixture.at(120).sent();
    assert_eq!(sent, ["nak 0 parity to n9", "nak 0 parity to n9", "nak 1 to n9"]);
}

/// Section 11.5: an element counts the packets that each port needs, and forwards only NAKs for more.
#[test]
fn element_forwards_parity_out_of_ports_that_need_it() {
    let mut element = Fixture::new(Role::Relay, &[]);
    element.pass(0, spm(0, 3, 0, 0), offer(4));
    element.receive_on(1, 5, nak(1), parity(none()));
    assert_eq!(element.sent(), ["ncf 1 parity to p1 as n0 to all", "nak 1 parity to n3"]);
    element.receive_on(2, 6, nak(0), parity(none()));
    assert_eq!(element.sent(), ["ncf 0 parity to p2 as n0 to all"]);
    element.receive_on(4, 7, nak(2), parity(list(&[0, 0, 0, 5])));
    assert_eq!(element.sent(), ["ncf 2 list [5] parity to p4 as n0 to all", "nak 2 list [5] parity to n3"]);
    assert_eq!(element.pass(0, ncf(2), parity(none())), "absorb");
    let verdicts: Vec<String> = (0..4).map(|sqn| element.pass(0, rdata(sqn), parity(none()))).collect();
    assert_eq!(verdicts, ["forward on p1 p2 p4", "forward on p1 p4", "forward on p4", "absorb"]);
    // Proactive parity goes to all.
    assert_eq!(element.pass(0, odata(0), parity(none())), "forward");
    // Selective NAKs have states of their own.
    element.receive_on(1, 5, nak(0), none());
    assert_eq!(element.pass(0, rdata(0), none()), "forward on p1");
}

fn lossy(settings: &[(&str, &str)], seed: u64) -> Report {
    let group = Group::new(&ENTRY, seed).receivers(8).messages(160).interval(Duration::from_millis(2));
    let group = settings.iter().fold(group, |group, (key, value)| group.set(key, value));
    let group = group.set("nak_rdata_ivl", "200 ms").set("ihb_min", "20 ms").set("rdata_delay", "10 ms");
    group.all_links(Link::losing(0.1)).afterwards(Duration::from_secs(20)).run()
}

/// Number of repair packets of the source.
fn repairs(report: &Report) -> usize {
    let of_source = report.datagrams.iter().filter(|datagram| datagram.from.0 == 0);
    of_source
        .filter(|datagram| {
            matches!(Packet::parse(&datagram.bytes), Ok(Packet { body: Body::Rdata(Data { .. }), .. }))
        })
        .count()
}

/// A parity packet repairs a different loss at each receiver.
#[test]
fn parity_repairs_losses_of_many_receivers_with_fewer_packets() {
    for seed in 0..5 {
        let plain = lossy(&[], seed);
        let coded = lossy(&[("parity", "on-demand"), ("tg_size", "16")], seed);
        let ahead = lossy(&[("parity", "both"), ("tg_size", "16"), ("tg_parity", "4")], seed);
        for report in [&plain, &coded, &ahead] {
            report.check_reliable().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let counts = [repairs(&plain), repairs(&coded), repairs(&ahead)];
        assert!(counts[1] * 3 < counts[0] * 2 && counts[2] < counts[1], "seed {seed}: {counts:?}");
    }
}
