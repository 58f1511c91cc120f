//! The source.

use carillon_core::{DropReason, Role};
use carillon_wire::pgm::Body;

use super::desk::{Desk, list, message, nak, none};

fn source(settings: &[(&str, &str)]) -> Desk {
    Desk::new(Role::Sender, settings)
}

/// It has sent packets 0 to 2 at time zero.
fn sending(settings: &[(&str, &str)]) -> Desk {
    let mut desk = source(settings);
    for payload in ["zero", "one", "two"] {
        assert!(desk.offer(payload));
    }
    desk.sent();
    desk.events();
    desk
}

#[test]
fn an_spm_goes_before_all_data_and_then_at_regular_times_5_2() {
    let mut desk = source(&[("spm_ivl", "500 ms")]);
    // Its window is empty: the leading edge lies before the trailing edge.
    assert_eq!(desk.sent(), ["spm 0 trail 0 lead 4294967295 path 10.0.0.1 join 0 to all"]);
    desk.at(1000);
    assert_eq!(desk.sent().len(), 2);
    desk.offer("zero");
    assert_eq!(desk.sent(), ["first odata 0 trail 0 len 4 to all"]);
    let mut desk = source(&[("join", "false")]);
    assert_eq!(desk.sent(), ["spm 0 trail 0 lead 4294967295 path 10.0.0.1 to all"]);
}

#[test]
fn heartbeats_follow_data_at_doubling_waits_5_2() {
    let mut desk = source(&[("spm_ivl", "1 h"), ("ihb_min", "100 ms"), ("ihb_max", "400 ms")]);
    desk.offer("zero");
    desk.sent();
    let mut when = Vec::new();
    for ms in (0..2000).step_by(50) {
        desk.at(ms);
        when.extend(desk.sent().iter().map(|_| ms));
    }
    assert_eq!(when, [100, 300, 700, 1100, 1500, 1900]);
    desk.at(2000).offer("one");
    desk.sent();
    desk.at(2099);
    assert_eq!(desk.sent().len(), 0);
    desk.at(2100);
    assert_eq!(desk.sent(), ["spm 7 trail 0 lead 1 path 10.0.0.1 join 0 to all"]);
}

#[test]
fn a_nak_is_confirmed_at_once_and_answered_after_the_delay_5_3() {
    let mut desk = sending(&[("rdata_delay", "70 ms")]);
    desk.at(10).hear(9, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to all"]);
    // Others in the meantime are confirmed, and have the same repair.
    desk.at(60).hear(8, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to all"]);
    assert_eq!(desk.drops(), [DropReason::Redundant]);
    desk.at(79);
    assert_eq!(desk.sent_but_spms(), [""; 0]);
    desk.at(200);
    assert_eq!(desk.sent_but_spms(), ["rdata 1 trail 0 len 3 to all"]);
}

#[test]
fn the_source_has_no_memory_unless_it_holds_off() {
    let mut desk = sending(&[("rdata_delay", "0 ms")]);
    for _ in 0..3 {
        desk.hear(9, nak(1), none());
        assert_eq!(desk.sent(), ["ncf 1 to all", "rdata 1 trail 0 len 3 to all"]);
    }
    let mut desk = sending(&[("rdata_delay", "0 ms"), ("rdata_holdoff", "100 ms")]);
    desk.hear(9, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to all", "rdata 1 trail 0 len 3 to all"]);
    desk.at(99).hear(9, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to all"]);
    desk.at(100).hear(9, nak(1), none());
    assert_eq!(desk.sent(), ["ncf 1 to all", "rdata 1 trail 0 len 3 to all"]);
}

#[test]
fn an_ncf_repeats_the_list_of_its_nak_5_3() {
    let mut desk = sending(&[("rdata_delay", "0 ms")]);
    // 7 was not sent, and is not answered.
    desk.hear(9, nak(2), list(&[0, 0, 0, 0, 0, 0, 0, 7]));
    let answers =
        ["ncf 2 list [0, 7] to all", "rdata 0 trail 0 len 4 to all", "rdata 2 trail 0 len 3 to all"];
    assert_eq!(desk.sent(), answers);
}

#[test]
fn who_asks_for_what_is_not_held_is_told_the_window() {
    let mut desk =
        sending(&[("txw_secs", "1 s"), ("ihb_min", "100 ms"), ("ihb_max", "1 h"), ("spm_ivl", "1 h")]);
    desk.at(1400);
    desk.sent();
    desk.hear(9, nak(1), none());
    assert_eq!(desk.drops(), [DropReason::OutOfWindow]);
    let told = desk.sent();
    assert!(told.len() == 1 && told[0].contains("trail 3 lead 2"), "{told:?}");
    // Not more often than the shortest heartbeat.
    desk.at(1499).hear(9, nak(1), none());
    assert_eq!(desk.sent(), [""; 0]);
}

#[test]
fn an_spmr_is_answered_at_most_once_in_the_shortest_heartbeat_5_2() {
    let mut desk = source(&[("spm_ivl", "1 h"), ("ihb_min", "250 ms")]);
    desk.sent();
    desk.at(249).hear(5, Body::Spmr, none());
    assert_eq!(desk.sent().len(), 0);
    desk.at(250).hear(5, Body::Spmr, none()).hear(6, Body::Spmr, none());
    assert_eq!(desk.sent().len(), 1);
}

#[test]
fn with_time_a_packet_is_held_for_txw_secs_5_1_2() {
    let mut desk = sending(&[("txw_secs", "1 s"), ("txw_sqns", "4"), ("rdata_delay", "0 ms")]);
    desk.at(500);
    assert!(desk.offer("three"));
    assert!(!desk.offer("four"), "the window is full");
    desk.at(999).hear(9, nak(0), none());
    assert_eq!(desk.sent_but_spms()[2..], ["rdata 0 trail 0 len 4 to all"]);
    desk.at(1000);
    assert!(desk.offer("four"));
    // A repair tells the trailing edge of now (5.1.2).
    desk.hear(9, nak(3), none());
    assert_eq!(desk.sent_but_spms()[2..], ["rdata 3 trail 3 len 5 to all"]);
}

#[test]
fn with_data_a_packet_is_held_until_it_was_not_asked_for_long_enough_5_1_2() {
    let mut desk = sending(&[
        ("window_advance", "data"),
        ("txw_adv_ivl", "1 s"),
        ("txw_sqns", "3"),
        ("rdata_delay", "0 ms"),
    ]);
    assert!(!desk.offer("three"));
    desk.at(600).hear(9, nak(0), none());
    desk.at(1599);
    assert!(!desk.offer("three"));
    desk.at(1600);
    assert!(desk.offer("three"));
    assert!(desk.offer("four"), "nobody asked for packet 1");
    // Without a need it stays.
    desk.at(100_000).hear(9, nak(2), none());
    assert!(desk.sent_but_spms().contains(&"rdata 2 trail 2 len 3 to all".to_owned()));
}

#[test]
fn the_rate_bounds_data_and_repairs_of_a_window_that_advances_with_data_5_1_1() {
    // 52 bytes with 28 of the network and 24 of the header: ten in a second.
    let settings = [
        ("txw_max_rte", "560"),
        ("txw_burst", "0"),
        ("spm_ivl", "1 h"),
        ("ihb_min", "1 h"),
        ("ihb_max", "1 h"),
    ];
    let mut desk = source(&settings);
    desk.at(1000);
    desk.sent();
    for _ in 0..4 {
        desk.offer("data");
    }
    let mut when = Vec::new();
    for ms in (1000..1400).step_by(10) {
        desk.at(ms);
        when.extend(desk.sent().iter().map(|_| ms));
    }
    assert_eq!(when, [1000, 1100, 1200, 1300]);
}

#[test]
fn after_the_last_packet_spms_say_so_at_once_and_for_txw_secs_5_1_3() {
    let mut desk =
        sending(&[("txw_secs", "2 s"), ("spm_ivl", "500 ms"), ("ihb_min", "300 ms"), ("ihb_max", "1 h")]);
    assert!(!desk.machine.as_sender().expect("a source").is_finished());
    desk.at(100).finish();
    assert_eq!(desk.sent(), ["spm 1 trail 0 lead 2 path 10.0.0.1 join 0 fin to all"]);
    assert!(desk.machine.as_sender().expect("a source").is_finished());
    // It goes on answering.
    desk.at(1000).hear(9, nak(2), none());
    assert!(desk.sent().contains(&"ncf 2 to all".to_owned()));
    desk.at(2100);
    assert!(desk.sent().iter().all(|line| !line.starts_with("spm") || line.contains(" fin ")));
    desk.at(60_000);
    assert_eq!(desk.sent(), [""; 0]);
    assert_eq!(desk.timer(), None);
}

#[test]
fn numbers_go_round_on_the_wire() {
    let mut desk = sending(&[("rdata_delay", "0 ms")]);
    desk.hear(9, nak(u32::MAX), none());
    assert_eq!(desk.drops(), [DropReason::OutOfWindow]);
    desk.hear(9, nak(2), none());
    let asked = desk
        .events()
        .into_iter()
        .any(|event| event == carillon_core::Event::Received { packet: "nak", message: message(2) });
    assert!(asked);
}

#[test]
fn who_asks_again_and_again_has_a_budget_and_holds_nothing_in_the_window_beyond_it() {
    let mut desk = sending(&[
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
        desk.at(ms).hear(9, nak(0), list(&[0, 0, 0, 1]));
        repairs += desk.sent().iter().filter(|line| line.starts_with("rdata")).count();
    }
    // 1024, and nine for each of the three messages.
    assert_eq!(repairs, 1024 + 27);
    // Nor is it confirmed any more, and what it asks for goes when its room is needed.
    assert_eq!(desk.sent(), [""; 0]);
    desk.at(ms + 1000).hear(9, nak(0), none());
    assert!(desk.offer("three"));
}
