//! The receiver, node 1, below router 9.

use carillon_core::{DropReason, Event, Role};
use carillon_wire::lms::{Data, Packet, Request};

use super::fixture::{Fixture, data, repair, request, setup, spm, turned};

/// Receiver with a round-trip time of 100 ms: its SETUP arrives 50 ms after it was sent.
fn receiver(settings: &[(&str, &str)]) -> Fixture {
    let mut fixture = Fixture::new(Role::Receiver, 1, settings);
    fixture.at(50).multicast(setup(Some(9)));
    assert_eq!(fixture.sent(), ["lms refresh cost 0 hops 0 to n9"]);
    fixture.events();
    fixture
}

fn asks(lo: u32, hi: u32, attempt: u32) -> String {
    format!("lms req {lo}-{hi} attempt {attempt} past {attempt} hops left 255 turning point none to n9")
}

fn answer(number: u32) -> String {
    format!("lms dmcast on p2 seq {number} oldest 0 len 7 to n8")
}

/// Sending times of requests up to a time, in milliseconds.
fn times(fixture: &mut Fixture, from: u64, to: u64) -> Vec<(u64, String)> {
    let mut sent = Vec::new();
    for now in from..=to {
        sent.extend(fixture.at(now).sent().into_iter().map(|line| (now, line)));
    }
    sent
}

#[test]
fn gap_is_requested_at_once_and_after_two_rtts() {
    // [N] 2 RTT, doubling
    let mut fixture = receiver(&[]);
    fixture.at(100).multicast(data(0)).multicast(data(3));
    assert_eq!(fixture.fates(), ["delivered 0", "found 1", "found 2"]);
    assert_eq!(
        times(&mut fixture, 100, 1500),
        [(100, asks(1, 2, 0)), (300, asks(1, 2, 1)), (700, asks(1, 2, 2)), (1500, asks(1, 2, 3))]
    );
    let asked = |event: &Event| matches!(event, Event::Requested { .. });
    assert_eq!(fixture.events().iter().filter(|event| asked(event)).count(), 6, "for each message");
}

#[test]
fn bounded_wait_then_request_to_source() {
    // choice
    let mut fixture = receiver(&[("retry_max", "300 ms"), ("direct_after", "2")]);
    fixture.at(100).multicast(data(1));
    let direct = |attempt| {
        format!("lms req 0-0 attempt {attempt} past {attempt} hops left 255 turning point none direct to n0")
    };
    assert_eq!(
        times(&mut fixture, 100, 900),
        [(100, asks(0, 0, 0)), (300, asks(0, 0, 1)), (600, direct(2)), (900, direct(3))]
    );
}

#[test]
fn as_published_each_attempt_takes_the_same_way() {
    let mut fixture = receiver(&[("retry", "as-published"), ("direct_after", "1")]);
    fixture.at(100).multicast(data(1)).at(400);
    let asks =
        |attempt| format!("lms req 0-0 attempt {attempt} past 0 hops left 255 turning point none to n9");
    assert_eq!(fixture.sent(), [asks(0), asks(1)]);
}

#[test]
fn requests_and_refreshes_have_their_size_on_the_network() {
    let mut fixture = Fixture::new(Role::Receiver, 1, &[]);
    fixture.multicast(setup(Some(9))).multicast(data(1));
    assert_eq!(fixture.lengths(), [52, 52], "80 with the 28 of the network");
}

#[test]
fn repair_splits_pending_request() {
    let mut fixture = receiver(&[]);
    fixture.at(100).multicast(data(5));
    fixture.at(200).multicast(repair(2));
    fixture.sent();
    fixture.at(399);
    assert!(fixture.sent().is_empty());
    fixture.at(400);
    assert_eq!(fixture.sent(), [asks(0, 1, 1), asks(3, 4, 1)]);
    for number in [0, 1, 3] {
        fixture.multicast(repair(number));
    }
    fixture.events();
    // The original, late: nothing was repaired.
    fixture.multicast(data(4));
    assert_eq!(fixture.fates(), ["delivered 4", "delivered 5"]);
    fixture.at(10_000);
    assert!(fixture.sent().is_empty());
}

#[test]
fn repair_before_gap_detection_is_no_loss() {
    let mut fixture = receiver(&[]);
    fixture.multicast(repair(0)).multicast(data(1));
    assert_eq!(fixture.fates(), ["delivered 0", "delivered 1"]);
    fixture.multicast(repair(1));
    assert_eq!(fixture.drops(), [DropReason::Duplicate]);
    assert!(fixture.sent().is_empty());
}

#[test]
fn spm_and_setup_show_that_the_last_message_was_lost() {
    // choice
    let mut fixture = receiver(&[]);
    fixture.multicast(data(0)).multicast(spm(2, 0));
    assert_eq!(fixture.sent(), [asks(1, 1, 0)]);
    fixture.multicast(spm(2, 0));
    assert!(fixture.sent().is_empty(), "it is known");
}

#[test]
fn messages_discarded_by_source_are_lost() {
    // choice
    let mut fixture = receiver(&[]);
    fixture.multicast(data(0)).multicast(data(3));
    fixture.events();
    fixture.multicast(spm(4, 2));
    assert_eq!(fixture.fates(), ["final 1"]);
    fixture.multicast(Packet::Data(Data { sequence: 6, oldest: 5, payload: b"message" }));
    assert_eq!(fixture.fates(), ["final 2", "delivered 3", "found 4", "final 4", "found 5"]);
    fixture.sent();
    fixture.at(250);
    assert_eq!(fixture.sent(), [asks(5, 5, 1)]);
}

#[test]
fn far_jump_reports_bounded_number_of_losses() {
    let mut fixture = receiver(&[]);
    fixture.multicast(spm(1 << 30, (1 << 30) - 1));
    let events = fixture.events();
    assert!(events.iter().any(|event| matches!(event, Event::Note(_))));
    assert!(events.len() < 200_000, "{}", events.len());
    // Ranges that no source has are refused.
    fixture.multicast(spm(1 << 30, 5)).multicast(spm(5, 6));
    assert_eq!(fixture.drops(), [DropReason::Malformed; 2]);
}

#[test]
fn a_replier_answers_to_the_turning_point() {
    let mut fixture = receiver(&[]);
    fixture.multicast(data(0)).multicast(data(1)).sent();
    fixture.receive(9, 0, Packet::Req(turned(0, 1, 8, 2)));
    assert_eq!(fixture.sent(), [answer(0), answer(1)]);
    // A missing message produces no answer.
    fixture.receive(9, 0, Packet::Req(turned(1, 4, 8, 2)));
    assert_eq!(fixture.sent(), [answer(1)]);
    fixture.events();
    fixture.receive(9, 0, Packet::Req(request(0, 0)));
    assert_eq!(fixture.drops(), [DropReason::OutOfWindow], "it turned nowhere");
}

#[test]
fn request_across_a_jump_is_answered_with_held_messages() {
    // Bad input: between the two messages are two thousand millions of numbers.
    let mut fixture = receiver(&[]);
    fixture.multicast(data(0));
    fixture.multicast(Packet::Data(Data {
        sequence: 2_000_000_000,
        oldest: 2_000_000_000,
        payload: b"jumped",
    }));
    for attempt in 0..9 {
        let everything = Request { attempt, ..turned(0, 2_000_000_000, 8, 2) };
        fixture.receive(9, 0, Packet::Req(everything));
        assert_eq!(fixture.sent().len(), 2);
    }
}

#[test]
fn remembered_request_is_answered_once() {
    // [N] LMS_RQL_MAX = 10
    let mut fixture = receiver(&[]);
    for number in 0..20 {
        fixture.multicast(data(number));
    }
    let ask = |fixture: &mut Fixture, number| {
        fixture.receive(9, 0, Packet::Req(turned(number, number, 8, 2)));
        fixture.sent().len()
    };
    assert_eq!((0..11).map(|number| ask(&mut fixture, number)).sum::<usize>(), 11);
    assert_eq!(ask(&mut fixture, 10), 0);
    assert_eq!(ask(&mut fixture, 1), 0);
    assert_eq!(ask(&mut fixture, 0), 1, "ten others have come since");
    // Another turning point or interface is another request.
    fixture.receive(9, 0, Packet::Req(turned(10, 10, 7, 2)));
    fixture.receive(9, 0, Packet::Req(turned(10, 10, 8, 3)));
    assert_eq!(fixture.sent().len(), 2);
}

#[test]
fn another_attempt_is_another_request_unless_as_published() {
    for (retry, answers) in [("escalate", 2), ("as-published", 1)] {
        let mut fixture = receiver(&[("retry", retry)]);
        fixture.multicast(data(0));
        fixture.receive(9, 0, Packet::Req(turned(0, 0, 8, 2)));
        fixture.receive(9, 0, Packet::Req(Request { attempt: 1, ..turned(0, 0, 8, 2) }));
        assert_eq!(fixture.sent().len(), answers, "{retry}");
    }
}

#[test]
fn recently_repaired_message_is_not_repaired_again() {
    // [N] LMS_RDL_MAX = 10; only for first attempts
    let mut fixture = receiver(&[]);
    for number in 0..11 {
        fixture.multicast(repair(number));
    }
    fixture.sent();
    fixture.receive(9, 0, Packet::Req(turned(0, 10, 8, 2)));
    assert_eq!(fixture.sent(), [answer(0)]);
    fixture.receive(9, 0, Packet::Req(Request { attempt: 1, ..turned(9, 10, 8, 2) }));
    assert_eq!(fixture.sent(), [answer(9), answer(10)]);
}

#[test]
fn adaptive_cost_counts_recent_losses() {
    let mut fixture = receiver(&[("replier_choice", "adaptive"), ("loss_smpl_ivl", "3")]);
    let refreshes = |fixture: &mut Fixture| -> Vec<String> {
        fixture.sent().into_iter().filter(|line| line.contains("refresh")).collect()
    };
    for number in [1, 3, 4] {
        fixture.multicast(data(number));
    }
    assert_eq!(refreshes(&mut fixture), ["lms refresh cost 2 hops 0 to n9"]);
    for number in [5, 6, 7] {
        fixture.multicast(data(number));
    }
    assert_eq!(refreshes(&mut fixture), ["lms refresh cost 0 hops 0 to n9"]);
}

#[test]
fn without_routers_request_goes_to_source_alone() {
    let mut fixture = Fixture::new(Role::Receiver, 1, &[]);
    fixture.multicast(setup(None)).multicast(data(1));
    assert_eq!(fixture.sent(), ["lms req 0-0 attempt 0 past 0 hops left 255 turning point none to n0"]);
    // A new router receives the offer.
    fixture.multicast(spm(2, 0));
    assert_eq!(fixture.sent(), ["lms refresh cost 0 hops 0 to n9"]);
}

#[test]
fn only_the_source_speaks_for_itself() {
    let mut fixture = receiver(&[]);
    fixture.receive(5, 0, data(0)).receive(5, 0, spm(9, 0)).receive(5, 0, setup(None));
    assert_eq!(fixture.drops(), [DropReason::NotAMember; 3]);
}

/// Thesis, section 5.8.4: an offer only when conditions have changed.
#[test]
fn triggered_receiver_offers_itself_when_losses_change() {
    let settings = [("replier_choice", "triggered"), ("loss_smpl_ivl", "4"), ("trigger_exposure", "0.5")];
    let mut fixture = receiver(&settings);
    let offers = |fixture: &mut Fixture| {
        let sent = fixture.sent().into_iter();
        sent.filter(|line| line.starts_with("lms refresh")).collect::<Vec<_>>()
    };
    for number in [0, 1, 2, 3] {
        fixture.multicast(data(number));
    }
    assert_eq!(offers(&mut fixture), [""; 0], "nothing has changed");
    for number in [5, 7, 9, 11] {
        fixture.multicast(data(number));
    }
    assert_eq!(offers(&mut fixture), ["lms refresh cost 4 hops 0 to n9"]);
    for number in [4, 6, 8, 10] {
        fixture.multicast(repair(number));
    }
    assert_eq!(offers(&mut fixture), ["lms refresh cost 0 hops 0 to n9"]);
    // Three of four packets are duplicates.
    for number in [12, 12, 12, 12] {
        fixture.multicast(data(number));
    }
    assert_eq!(offers(&mut fixture), ["lms refresh cost 0 hops 0 to n9"]);
}
