//! The receiver, node 1, below router 9.

use carillon_core::{DropReason, Event, Role};
use carillon_wire::lms::{Data, Packet, Request};

use super::bench::{Bench, data, repair, request, setup, spm, turned};

/// It has heard a SETUP 50 ms after it was sent: the round trip takes 100 ms.
fn receiver(settings: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::new(Role::Receiver, 1, settings);
    bench.at(50).multicast(setup(Some(9)));
    assert_eq!(bench.sent(), ["lms refresh cost 0 hops 0 to n9"]);
    bench.events();
    bench
}

fn asks(lo: u32, hi: u32, attempt: u32) -> String {
    format!("lms req {lo}-{hi} attempt {attempt} past {attempt} hops left 255 turning point none to n9")
}

fn answer(number: u32) -> String {
    format!("lms dmcast on p2 seq {number} oldest 0 len 7 to n8")
}

/// When requests go out up to a time, in milliseconds.
fn times(bench: &mut Bench, from: u64, to: u64) -> Vec<(u64, String)> {
    let mut sent = Vec::new();
    for now in from..=to {
        sent.extend(bench.at(now).sent().into_iter().map(|line| (now, line)));
    }
    sent
}

#[test]
fn a_gap_is_asked_for_at_once_and_again_after_twice_the_round_trip_time() {
    // [N] 2 RTT, doubling
    let mut bench = receiver(&[]);
    bench.at(100).multicast(data(0)).multicast(data(3));
    assert_eq!(bench.fates(), ["delivered 0", "found 1", "found 2"]);
    assert_eq!(
        times(&mut bench, 100, 1500),
        [(100, asks(1, 2, 0)), (300, asks(1, 2, 1)), (700, asks(1, 2, 2)), (1500, asks(1, 2, 3))]
    );
    let asked = |event: &Event| matches!(event, Event::Requested { .. });
    assert_eq!(bench.events().iter().filter(|event| asked(event)).count(), 6, "for each message");
}

#[test]
fn the_wait_has_a_bound_and_then_the_source_itself_is_asked() {
    // choice
    let mut bench = receiver(&[("retry_max", "300 ms"), ("direct_after", "2")]);
    bench.at(100).multicast(data(1));
    let direct = |attempt| {
        format!("lms req 0-0 attempt {attempt} past {attempt} hops left 255 turning point none direct to n0")
    };
    assert_eq!(
        times(&mut bench, 100, 900),
        [(100, asks(0, 0, 0)), (300, asks(0, 0, 1)), (600, direct(2)), (900, direct(3))]
    );
}

#[test]
fn as_published_each_attempt_takes_the_same_way() {
    let mut bench = receiver(&[("retry", "as-published"), ("direct_after", "1")]);
    bench.at(100).multicast(data(1)).at(400);
    let asks =
        |attempt| format!("lms req 0-0 attempt {attempt} past 0 hops left 255 turning point none to n9");
    assert_eq!(bench.sent(), [asks(0), asks(1)]);
}

#[test]
fn requests_and_refreshes_have_their_size_on_the_network() {
    let mut bench = Bench::new(Role::Receiver, 1, &[]);
    bench.multicast(setup(Some(9))).multicast(data(1));
    assert_eq!(bench.lengths(), [52, 52], "80 with the 28 of the network");
}

#[test]
fn a_repair_splits_what_is_asked_for() {
    let mut bench = receiver(&[]);
    bench.at(100).multicast(data(5));
    bench.at(200).multicast(repair(2));
    bench.sent();
    bench.at(399);
    assert!(bench.sent().is_empty());
    bench.at(400);
    assert_eq!(bench.sent(), [asks(0, 1, 1), asks(3, 4, 1)]);
    for number in [0, 1, 3] {
        bench.multicast(repair(number));
    }
    bench.events();
    // The original, late: nothing was repaired.
    bench.multicast(data(4));
    assert_eq!(bench.fates(), ["delivered 4", "delivered 5"]);
    bench.at(10_000);
    assert!(bench.sent().is_empty());
}

#[test]
fn a_repair_that_comes_before_the_gap_is_noticed_is_no_loss() {
    let mut bench = receiver(&[]);
    bench.multicast(repair(0)).multicast(data(1));
    assert_eq!(bench.fates(), ["delivered 0", "delivered 1"]);
    bench.multicast(repair(1));
    assert_eq!(bench.drops(), [DropReason::Duplicate]);
    assert!(bench.sent().is_empty());
}

#[test]
fn spm_and_setup_show_that_the_last_message_was_lost() {
    // choice
    let mut bench = receiver(&[]);
    bench.multicast(data(0)).multicast(spm(2, 0));
    assert_eq!(bench.sent(), [asks(1, 1, 0)]);
    bench.multicast(spm(2, 0));
    assert!(bench.sent().is_empty(), "it is known");
}

#[test]
fn what_the_source_holds_no_more_is_given_up() {
    // choice
    let mut bench = receiver(&[]);
    bench.multicast(data(0)).multicast(data(3));
    bench.events();
    bench.multicast(spm(4, 2));
    assert_eq!(bench.fates(), ["final 1"]);
    bench.multicast(Packet::Data(Data { sequence: 6, oldest: 5, payload: b"message" }));
    assert_eq!(bench.fates(), ["final 2", "delivered 3", "found 4", "final 4", "found 5"]);
    bench.sent();
    bench.at(250);
    assert_eq!(bench.sent(), [asks(5, 5, 1)]);
}

#[test]
fn a_far_jump_is_told_in_bounded_words() {
    let mut bench = receiver(&[]);
    bench.multicast(spm(1 << 30, (1 << 30) - 1));
    let events = bench.events();
    assert!(events.iter().any(|event| matches!(event, Event::Note(_))));
    assert!(events.len() < 200_000, "{}", events.len());
    // Ranges that no source has are refused.
    bench.multicast(spm(1 << 30, 5)).multicast(spm(5, 6));
    assert_eq!(bench.drops(), [DropReason::Malformed; 2]);
}

#[test]
fn a_replier_answers_to_the_turning_point() {
    let mut bench = receiver(&[]);
    bench.multicast(data(0)).multicast(data(1)).sent();
    bench.hear(9, 0, Packet::Req(turned(0, 1, 8, 2)));
    assert_eq!(bench.sent(), [answer(0), answer(1)]);
    // What it has not it does not send, and says nothing.
    bench.hear(9, 0, Packet::Req(turned(1, 4, 8, 2)));
    assert_eq!(bench.sent(), [answer(1)]);
    bench.events();
    bench.hear(9, 0, Packet::Req(request(0, 0)));
    assert_eq!(bench.drops(), [DropReason::OutOfWindow], "it turned nowhere");
}

#[test]
fn a_request_over_a_jump_of_numbers_is_answered_with_what_is_there() {
    // Bad input: between the two messages are two thousand millions of numbers.
    let mut bench = receiver(&[]);
    bench.multicast(data(0));
    bench.multicast(Packet::Data(Data {
        sequence: 2_000_000_000,
        oldest: 2_000_000_000,
        payload: b"jumped",
    }));
    for attempt in 0..9 {
        let everything = Request { attempt, ..turned(0, 2_000_000_000, 8, 2) };
        bench.hear(9, 0, Packet::Req(everything));
        assert_eq!(bench.sent().len(), 2);
    }
}

#[test]
fn a_request_is_answered_once_as_long_as_it_is_remembered() {
    // [N] LMS_RQL_MAX = 10
    let mut bench = receiver(&[]);
    for number in 0..20 {
        bench.multicast(data(number));
    }
    let ask = |bench: &mut Bench, number| {
        bench.hear(9, 0, Packet::Req(turned(number, number, 8, 2)));
        bench.sent().len()
    };
    assert_eq!((0..11).map(|number| ask(&mut bench, number)).sum::<usize>(), 11);
    assert_eq!(ask(&mut bench, 10), 0);
    assert_eq!(ask(&mut bench, 1), 0);
    assert_eq!(ask(&mut bench, 0), 1, "ten others have come since");
    // Another turning point or interface is another request.
    bench.hear(9, 0, Packet::Req(turned(10, 10, 7, 2)));
    bench.hear(9, 0, Packet::Req(turned(10, 10, 8, 3)));
    assert_eq!(bench.sent().len(), 2);
}

#[test]
fn another_attempt_is_another_request_unless_as_published() {
    for (retry, answers) in [("escalate", 2), ("as-published", 1)] {
        let mut bench = receiver(&[("retry", retry)]);
        bench.multicast(data(0));
        bench.hear(9, 0, Packet::Req(turned(0, 0, 8, 2)));
        bench.hear(9, 0, Packet::Req(Request { attempt: 1, ..turned(0, 0, 8, 2) }));
        assert_eq!(bench.sent().len(), answers, "{retry}");
    }
}

#[test]
fn what_came_by_a_repair_lately_is_on_its_way_to_others_too() {
    // [N] LMS_RDL_MAX = 10; only for first attempts
    let mut bench = receiver(&[]);
    for number in 0..11 {
        bench.multicast(repair(number));
    }
    bench.sent();
    bench.hear(9, 0, Packet::Req(turned(0, 10, 8, 2)));
    assert_eq!(bench.sent(), [answer(0)]);
    bench.hear(9, 0, Packet::Req(Request { attempt: 1, ..turned(9, 10, 8, 2) }));
    assert_eq!(bench.sent(), [answer(9), answer(10)]);
}

#[test]
fn an_adaptive_replier_costs_the_losses_of_its_last_packets() {
    let mut bench = receiver(&[("replier_choice", "adaptive"), ("loss_smpl_ivl", "3")]);
    let refreshes = |bench: &mut Bench| -> Vec<String> {
        bench.sent().into_iter().filter(|line| line.contains("refresh")).collect()
    };
    for number in [1, 3, 4] {
        bench.multicast(data(number));
    }
    assert_eq!(refreshes(&mut bench), ["lms refresh cost 2 hops 0 to n9"]);
    for number in [5, 6, 7] {
        bench.multicast(data(number));
    }
    assert_eq!(refreshes(&mut bench), ["lms refresh cost 0 hops 0 to n9"]);
}

#[test]
fn without_routers_the_source_is_asked_and_nobody_is_told() {
    let mut bench = Bench::new(Role::Receiver, 1, &[]);
    bench.multicast(setup(None)).multicast(data(1));
    assert_eq!(bench.sent(), ["lms req 0-0 attempt 0 past 0 hops left 255 turning point none to n0"]);
    // A router has appeared, and is told.
    bench.multicast(spm(2, 0));
    assert_eq!(bench.sent(), ["lms refresh cost 0 hops 0 to n9"]);
}

#[test]
fn only_the_source_speaks_for_itself() {
    let mut bench = receiver(&[]);
    bench.hear(5, 0, data(0)).hear(5, 0, spm(9, 0)).hear(5, 0, setup(None));
    assert_eq!(bench.drops(), [DropReason::NotAMember; 3]);
}
