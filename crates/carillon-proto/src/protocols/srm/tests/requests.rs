//! Tests of request and repair timers.

use super::member::{Member, repair, request};

#[test]
fn request_waits_c1_distances_and_backs_off() {
    let mut member = Member::new(&[]);
    member.data(0);
    assert_eq!(member.losses(), []);
    member.data(2);
    assert_eq!(member.losses(), [("found", 1)]);
    assert_eq!(member.at(19), [""; 0]);
    assert_eq!(member.at(20), [request(1, 1)]);
    assert_eq!(member.losses(), [("requested", 1)], "its own request suppresses nothing of it");
    // The next waits are 40 and 80 ms.
    assert_eq!(member.at(59), [""; 0]);
    assert_eq!(member.at(60), [request(2, 1)]);
    assert_eq!(member.at(139), [""; 0]);
    assert_eq!(member.at(140), [request(3, 1)]);
}

#[test]
fn request_back_off_stops_at_the_limit() {
    let mut member = Member::new(&[("request_backoff_limit", "2")]);
    member.data(1);
    // Waits of 20, 40, 80, 80, ...
    let mut times = Vec::new();
    for ms in 0..400 {
        times.extend(member.at(ms).iter().map(|_| ms));
    }
    assert_eq!(times, [20, 60, 140, 220, 300, 380]);
}

#[test]
fn overheard_request_backs_off_and_sets_ignore_interval() {
    let mut member = Member::new(&[]);
    member.data(1);
    member.at(10);
    member.losses();
    // A new wait of 40 ms ends at 50 ms; requests until 30 ms belong to the same round.
    member.request(2, 0);
    assert_eq!(member.losses(), [("suppressed", 0)]);
    member.at(29);
    member.request(3, 0);
    assert_eq!(member.losses(), [("redundant", 0)]);
    assert_eq!(member.at(49), [""; 0]);
    assert_eq!(member.at(50), [request(2, 0)]);
    // The next wait of 80 ms ends at 130 ms, with requests ignored until 90 ms; one at 90 ms counts and starts a wait
    // of 160 ms.
    member.at(90);
    member.request(3, 0);
    assert_eq!(member.losses(), [("requested", 0), ("suppressed", 0)]);
    assert_eq!(member.at(249), [""; 0]);
    assert_eq!(member.at(250), [request(4, 0)]);
}

#[test]
fn request_for_unknown_message_reveals_the_loss() {
    let mut member = Member::new(&[]);
    member.request(2, 1);
    assert_eq!(member.losses(), [("found", 0), ("found", 1)]);
    // Round 1: the request that revealed the loss does not count.
    assert_eq!(member.at(20), [request(1, 0), request(1, 1)]);
}

#[test]
fn repair_waits_d1_distances_and_holds_down() {
    let mut member = Member::new(&[]);
    member.data(0);
    member.request(2, 0);
    assert_eq!(member.at(9), [""; 0]);
    member.request(3, 0);
    assert_eq!(member.losses(), [("redundant", 0)]);
    assert_eq!(member.at(10), [repair(0, 2, 1)]);
    // Held down until 40 ms.
    member.at(39);
    member.request(3, 0);
    assert_eq!(member.losses(), [("redundant", 0)]);
    assert_eq!(member.at(40), [""; 0]);
    member.request(3, 0);
    // The rounds of the repair object continue, as in ns-2.
    assert_eq!(member.at(50), [repair(0, 3, 2)]);
}

#[test]
fn overheard_repair_suppresses_own_repair() {
    let mut member = Member::new(&[]);
    member.data(0);
    member.request(2, 0);
    member.at(5);
    member.repair(3, 0, 2);
    assert_eq!(member.losses(), [("duplicate", 0)]);
    // Held down until 35 ms.
    member.at(34);
    member.request(2, 0);
    assert_eq!(member.losses(), [("redundant", 0)]);
    assert_eq!(member.at(100), [""; 0]);
}

#[test]
fn received_repair_starts_hold_down() {
    let mut member = Member::new(&[]);
    member.data(1);
    member.at(30);
    member.repair(2, 0, 3);
    assert_eq!(member.losses(), [("found", 0), ("requested", 0), ("repaired", 0)]);
    member.at(59);
    member.request(3, 0);
    member.repair(3, 0, 3);
    assert_eq!(member.losses(), [("redundant", 0), ("duplicate", 0)]);
    member.at(60);
    member.request(3, 0);
    // The request was in its second round.
    assert_eq!(member.at(70), [repair(0, 3, 3)]);
    assert_eq!(member.take_all(), [0, 1]);
}

#[test]
fn late_original_cancels_the_request() {
    let mut member = Member::new(&[]);
    member.request(2, 0);
    member.at(5);
    member.data(0);
    assert_eq!(member.losses(), [("found", 0)]);
    assert_eq!(member.at(1000), [""; 0]);
    assert_eq!(member.take_all(), [0]);
    // In a later round there is a hold-down.
    member.request(2, 1);
    member.at(1025);
    member.data(1);
    assert_eq!(member.losses(), [("found", 1), ("requested", 1)]);
    member.at(1054);
    member.request(2, 1);
    assert_eq!(member.losses(), [("redundant", 0)]);
}

#[test]
fn repair_before_loss_detection_is_no_loss() {
    let mut member = Member::new(&[]);
    member.repair(2, 0, 3);
    assert_eq!(member.losses(), []);
    member.data(1);
    assert_eq!(member.losses(), []);
    assert_eq!(member.take_all(), [0, 1]);
    assert_eq!(member.at(1000), [""; 0]);
}

#[test]
fn requests_are_paced_and_still_suppressible() {
    let mut member = Member::new(&[("request_ivl", "5 ms")]);
    member.data(3);
    assert_eq!(member.at(20), [request(1, 0)]);
    member.request(2, 1);
    assert_eq!(member.at(24), [""; 0]);
    assert_eq!(member.at(25), [request(1, 2)]);
    assert_eq!(member.at(59), [""; 0], "the one for 1 was suppressed");
}

#[test]
fn request_wait_is_uniform_from_c1_to_c1_plus_c2() {
    for (timers, min, max) in [("fixed", 20, 40), ("probabilistic", 0, 20), ("deterministic", 20, 20)] {
        let mut times = Vec::new();
        let mut member = Member::new(&[("timers", timers), ("request_backoff_limit", "0")]);
        member.data(200);
        for ms in 0..=max {
            times.extend(member.at(ms).iter().filter(|sent| sent.contains("round 1 ")).map(|_| ms));
        }
        assert!(times.len() == 200, "{timers}: {}", times.len());
        assert!(times.iter().all(|&ms| ms >= min), "{timers}");
        let mean = times.iter().sum::<u64>() as f64 / 200.0;
        let middle = (min + max) as f64 / 2.0 + if min == max { 0.0 } else { 0.5 };
        assert!((mean - middle).abs() < 2.0, "{timers}: {mean} and not {middle}");
    }
}

#[test]
fn log_timers_scale_with_known_members() {
    // Two known members: log10 2 = 0.30, so the repair waits for 3.0 to 6.0 ms.
    for known in [2_u32, 4] {
        let mut member = Member::new(&[("timers", "log")]);
        member.data(99);
        (2..known).for_each(|rank| _ = member.session(rank, 1, 0, 0));
        let repairs: Vec<u64> = (0..99)
            .map(|number| {
                let start = 1000 + 100 * u64::from(number);
                member.at(start);
                member.repair(1, number, 2);
                member.at(start + 50);
                member.request(1, number);
                member.sent();
                let mut sent = |ms| member.at(start + 50 + ms).iter().any(|sent| sent.starts_with("repair"));
                (1..50).find(|&ms| sent(ms)).expect("a repair")
            })
            .collect();
        let log = f64::from(known).log10();
        let (min, max) = ((10.0 * log) as u64, (20.0 * log).ceil() as u64);
        assert!(repairs.iter().all(|ms| (min..=max).contains(ms)), "{known}: {repairs:?}");
        assert!(repairs.iter().max() > repairs.iter().min(), "{known}: {repairs:?}");
    }
}

#[test]
fn source_drops_request_for_unsent_message() {
    let mut member = Member::new(&[]);
    assert_eq!(member.offer("a"), Ok(0));
    assert_eq!(member.sent(), ["data from 0 seq 0 len 1 to all"]);
    member.request_of(0, 2, 1);
    assert_eq!(member.drops(), [carillon_core::DropReason::OutOfWindow]);
    member.request_of(0, 2, 0);
    assert_eq!(member.at(10).len(), 1, "what was sent is repaired by its source too");
}
