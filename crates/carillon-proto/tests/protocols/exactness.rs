//! Exact results: closed forms, expected values and counted packets.

use std::time::Duration;

use carillon_core::{BitRate, DropReason, Event, MessageId, NodeId, Probability, ProtocolEntry, Time};
use carillon_proto::find;
use carillon_sim::LanConfig;
use carillon_testkit::{Group, Link, Report, SENDER, sampling_step};

/// Data frame of 1518 bytes, in bit times.
const D: u64 = 12_144;
const A: u64 = 512;

fn entry(name: &str) -> &'static ProtocolEntry {
    find(name).expect("a protocol of the registry")
}

fn header(name: &str) -> usize {
    if name.ends_with("saw") { carillon_wire::msaw::HEADER_LEN } else { carillon_wire::mbap::HEADER_LEN }
}

/// Bit times from the first transmission of each message to its completion.
fn latencies(report: &Report) -> Vec<u64> {
    let time = |wanted: &dyn Fn(&Event) -> bool| -> Time {
        report.events.iter().find(|event| wanted(&event.event)).expect("it happened").time
    };
    (0..report.messages)
        .map(MessageId)
        .map(|id| {
            let start = time(&|event| matches!(event, Event::Sent { message, .. } if *message == id));
            let end = time(&|event| matches!(event, Event::Completed { message, .. } if *message == id));
            BitRate::mbps(10).bits_in(end - start)
        })
        .collect()
}

/// Group with data frames of 1518 bytes on the thesis's Ethernet.
fn on_lan(name: &str, receivers: u32, messages: u64, settings: &[(&str, &str)], loss: f64) -> Report {
    let group = Group::new(entry(name), 7)
        .receivers(receivers)
        .messages(messages)
        .equal_payloads(1518 - 18 - header(name))
        .limit(Duration::from_secs(36_000));
    let group = settings.iter().fold(group, |group, (key, value)| group.set(key, value));
    let loss = Probability::new(loss).expect("a probability");
    group.run_lan(LanConfig { loss, ..LanConfig::default() })
}

#[test]
fn stop_and_wait_to_one_receiver_takes_d_plus_a() // 4.1
{
    for name in ["msaw", "saw"] {
        let report = on_lan(name, 1, 20, &[], 0.0);
        report.check_reliable().unwrap();
        assert_eq!(latencies(&report), [D + A; 20], "{name}");
        // No other packet passes between two messages.
        assert_eq!(report.finished, Some(Time::ZERO + BitRate::mbps(10).time_for_bits(20 * (D + A))));
    }
}

#[test]
fn unicast_stop_and_wait_takes_r_times_d_plus_a() // equation 4.2
{
    for receivers in [2, 5, 13] {
        let report = on_lan("saw", receivers, 10, &[], 0.0);
        report.check_reliable().unwrap();
        assert_eq!(latencies(&report), [u64::from(receivers) * (D + A); 10]);
        assert_eq!(report.count(|_, event| matches!(event, Event::Collision { .. })), 0);
    }
}

#[test]
fn block_acknowledgment_to_one_receiver_takes_n_d_plus_a() // equation 4.19
{
    for name in ["mbap", "bap"] {
        for (window, text) in [(1, "1"), (5, "5"), (10, "10")] {
            let report = on_lan(name, 1, 4 * window, &[("window", text), ("ack_timeout", "10 s")], 0.0);
            report.check_reliable().unwrap();
            // All messages of a window are sent when it starts, and wait at the station.
            assert_eq!(latencies(&report), vec![window * D + A; 4 * window as usize], "{name} {window}");
        }
    }
}

#[test]
fn unicast_block_acknowledgment_takes_r_times_n_d_plus_a() // equation 4.10
{
    for (receivers, window, text) in [(3, 5, "5"), (4, 10, "10"), (7, 2, "2")] {
        let settings = [("window", text), ("ack_timeout", "10 s"), ("timeout", "100 s")];
        let report = on_lan("bap", receivers, 3 * window, &settings, 0.0);
        report.check_reliable().unwrap();
        assert_eq!(latencies(&report), vec![u64::from(receivers) * (window * D + A); 3 * window as usize]);
        assert_eq!(report.count(|_, event| matches!(event, Event::Collision { .. })), 0);
    }
}

#[test]
fn latency_is_at_least_d_plus_r_a() // equations 4.18 and 4.19; smallest observed: 14 768 at r = 5
{
    let report = on_lan("msaw", 5, 500, &[], 0.0);
    let min = latencies(&report).into_iter().min().unwrap();
    // Five acknowledgments collide at least twice before they are apart: 2 x 32 bit times.
    assert!(min >= D + 5 * A + 32, "{min}");
    assert_eq!((min - D - 5 * A) % 32, 0, "{min}: only collisions and slots come between");
}

/// Checks that the mean number of transmissions is within the 99.9 % interval of a geometric distribution with this
/// success probability.
fn assert_geometric(transmissions: usize, messages: u64, success: f64, what: &str) {
    let mean = transmissions as f64 / messages as f64;
    let (expected, deviation) = (1.0 / success, (1.0 - success).sqrt() / success);
    let bound = 3.2905 * deviation / (messages as f64).sqrt();
    assert!((mean - expected).abs() <= bound, "{what}: {mean} transmissions, expected {expected} +- {bound}");
}

#[test]
fn lan_transmissions_are_one_over_success_to_the_fourth() {
    // A round succeeds if neither data nor acknowledgment is lost, at the sending or the receiving interface (section
    // 3.4).
    for (p, messages) in [(0.1, 4_000), (0.02, 4_000), (0.3, 2_000)].into_iter().step_by(sampling_step(3)) {
        for retransmission in ["multicast", "unicast"] {
            let settings = [
                ("timeout_method", "constant"),
                ("timeout", "20000 bit"),
                ("retransmission_limit", "1000000"),
                ("retransmission", retransmission),
            ];
            let report = on_lan("msaw", 1, messages, &settings, p);
            report.check_reliable().unwrap();
            let (first, again) = report.transmissions();
            assert_eq!(first as u64, messages);
            let what = format!("p = {p}, {retransmission}");
            assert_geometric(first + again, messages, (1.0 - p).powi(4), &what);
        }
    }
}

#[test]
fn link_transmissions_are_one_over_success_squared() {
    let messages = 4_000;
    let p = 0.25;
    let report = group_without_limit("msaw").messages(messages).all_links(Link::losing(p)).run();
    report.check_reliable().unwrap();
    let (first, again) = report.transmissions();
    assert_geometric(first + again, messages, (1.0 - p) * (1.0 - p), "p = 0.25");
    // A share of 1 - p of the data packets arrives and is acknowledged.
    let acks = report.feedback(NodeId(1)) as f64 / (first + again) as f64;
    let bound = 3.2905 * (p * (1.0 - p) / (first + again) as f64).sqrt();
    assert!((acks - (1.0 - p)).abs() < bound, "{acks} acknowledgments for each transmission");
}

#[test]
fn multicast_transmissions_are_a_maximum_of_geometrics() {
    // Expected maximum of r geometric numbers: the sum over k of 1 - (1 - (1-s)^k)^r. Its variance is below the sum
    // of theirs.
    let (messages, receivers, p) = (3_000, 6, 0.2);
    let report =
        group_without_limit("msaw").receivers(receivers).messages(messages).all_links(Link::losing(p)).run();
    report.check_reliable().unwrap();
    let (first, again) = report.transmissions();
    let fail = 1.0 - (1.0 - p) * (1.0 - p);
    let tail = |k: i32| 1.0 - (1.0 - f64::powi(fail, k)).powi(receivers as i32);
    let expected: f64 = (0..500).map(tail).sum();
    let square: f64 = (0..500).map(|k| f64::from(2 * k + 1) * tail(k)).sum();
    let deviation = (square - expected * expected).sqrt();
    let bound = 3.2905 * deviation / (messages as f64).sqrt();
    let mean = (first + again) as f64 / messages as f64;
    assert!((mean - expected).abs() <= bound, "{mean} transmissions, expected {expected} +- {bound}");
}

#[test]
fn unicast_retransmissions_are_a_sum_of_geometrics() {
    // One transmission for all, and then as many for each receiver as its geometric number says.
    let (messages, receivers, p) = (3_000, 6, 0.2);
    let group =
        group_without_limit("msaw").set("retransmission", "unicast").receivers(receivers).messages(messages);
    let report = group.all_links(Link::losing(p)).run();
    report.check_reliable().unwrap();
    let (first, again) = report.transmissions();
    assert_eq!(first as u64, messages);
    // `again` plus one per receiver and message is a sum of that many geometric numbers.
    let numbers = messages * u64::from(receivers);
    assert_geometric(again + numbers as usize, numbers, (1.0 - p) * (1.0 - p), "for each receiver");
}

/// Group with timeouts of 20 ms, far above the round trip of 2 ms, and no retransmission limit.
fn group_without_limit(name: &str) -> Group {
    Group::new(entry(name), 11)
        .set("timeout_method", "constant")
        .set("timeout", "20 ms")
        .set("retransmission_limit", "1000000")
        .limit(Duration::from_secs(36_000))
}

#[test]
fn stop_and_wait_cost_of_lost_message_and_acknowledgment() {
    // Three receivers and three messages. The first acknowledgment of n3 is lost (message 0), and the third data
    // packet to n2 (message 1, after message 0 twice).
    let group = group_without_limit("msaw").receivers(3).messages(3);
    let group =
        group.link(SENDER, NodeId(2), Link::dropping([2])).link(NodeId(3), SENDER, Link::dropping([0]));
    let report = group.run();
    report.check_reliable().unwrap();
    // Messages 0 and 1 twice, message 2 once.
    assert_eq!(report.transmissions(), (3, 2));
    assert_eq!(report.sent_by(SENDER), 5);
    // n1 and n3 acknowledge all five, n2 four.
    assert_eq!([1, 2, 3].map(|node| report.feedback(NodeId(node))), [5, 4, 5]);
    assert_eq!([1, 2, 3].map(|node| report.drops(NodeId(node), DropReason::Duplicate)), [2, 1, 2]);
    // For message 0, the second acknowledgments of n1 and n2 come before that of n3, which completes it. For message
    // 1, that of n1 comes before that of n2, and that of n3 after completion.
    assert_eq!(report.drops(SENDER, DropReason::Duplicate), 3);
    assert_eq!(report.drops(SENDER, DropReason::OutOfWindow), 1);
    // 2 ms for each successful round; the two failed ones last until the timeout.
    assert_eq!(report.finished, Some(Time::ZERO + Duration::from_millis(3 * 2 + 2 * 20)));
}

#[test]
fn unicast_retransmission_spares_complete_receivers() {
    let group = group_without_limit("msaw").set("retransmission", "unicast").receivers(3).messages(3);
    let group =
        group.link(SENDER, NodeId(2), Link::dropping([1, 2])).link(NodeId(3), SENDER, Link::dropping([0]));
    let report = group.run();
    report.check_reliable().unwrap();
    // Message 0 again to n3 only, and message 1 twice more to n2 only.
    assert_eq!(report.transmissions(), (3, 3));
    assert_eq!([1, 2, 3].map(|node| report.feedback(NodeId(node))), [3, 3, 4]);
    assert_eq!([1, 2, 3].map(|node| report.drops(NodeId(node), DropReason::Duplicate)), [0, 0, 1]);
    assert_eq!(report.drops(SENDER, DropReason::Duplicate), 0);
    assert_eq!(report.finished, Some(Time::ZERO + Duration::from_millis(3 * 2 + 3 * 20)));
}

#[test]
fn lost_message_costs_block_acknowledgment_a_window() {
    // Two receivers and two windows of four, with an acknowledgment delay of 5 ms and a timeout of 20 ms. In the
    // first window n2 misses message 1 and so discards 2 and 3.
    let group =
        group_without_limit("mbap").set("window", "4").set("ack_timeout", "5 ms").receivers(2).messages(4);
    let report = group.clone().link(SENDER, NodeId(2), Link::dropping([1])).afterwards(Duration::ZERO).run();
    report.check_reliable().unwrap();
    // At 1 ms n1 has all four and acknowledges; n2 has message 0. At 6 ms both acknowledgment timers fire, and
    // message 0 completes at 7 ms. At 20 ms messages 1 to 3 are sent again. At 21 ms n2 has them but has counted
    // three only: it acknowledges at 26 ms, and the sender knows at 27 ms. n1 acknowledges at 6, 11, 16, 21 and 26
    // ms, and n2 at 6, 11 and 16 ms and 5 ms after 21 ms.
    assert_eq!(report.transmissions(), (4, 3));
    assert_eq!(report.drops(NodeId(2), DropReason::OutOfOrder), 2);
    assert_eq!(report.drops(NodeId(1), DropReason::OutOfOrder), 3);
    assert_eq!(report.feedback(NodeId(1)), 1 + 5);
    assert_eq!(report.feedback(NodeId(2)), 3 + 1);
    assert_eq!(report.finished, Some(Time::ZERO + Duration::from_millis(27)));
    // Without the loss, one round trip.
    let report = group.run();
    assert_eq!(report.transmissions(), (4, 0));
    assert_eq!(report.finished, Some(Time::ZERO + Duration::from_millis(2)));
}

#[test]
fn lost_block_acknowledgment_is_replaced_by_the_timer() {
    // The only window's acknowledgment is lost; the timer's, 5 ms later, is not.
    let group = group_without_limit("mbap").set("window", "4").set("ack_timeout", "5 ms").messages(4);
    let report = group.link(NodeId(1), SENDER, Link::dropping([0])).afterwards(Duration::ZERO).run();
    report.check_reliable().unwrap();
    assert_eq!(report.transmissions(), (4, 0));
    assert_eq!(report.feedback(NodeId(1)), 2);
    assert_eq!(report.finished, Some(Time::ZERO + Duration::from_millis(1 + 5 + 1)));
}
