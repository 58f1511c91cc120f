//! Erramilli and Singh on the Ethernet: what docs/protocols/erramilli-singh.md measures, in small.

use carillon_lab::run::RunResult;

use crate::on_lan::{self, check_plans, mean};

/// A lecture to this many receivers; a rate of none is as fast as the pacing allows.
fn run(receivers: u32, loss: f64, messages: u32, protocol: &str, rate: &str) -> RunResult {
    let protocol = format!("name = \"erramilli-singh\"\nmode = \"lecture\"\n{protocol}");
    on_lan::run(&format!("receivers = {receivers}"), &protocol, loss, messages, rate)
}

fn undelivered(result: &RunResult) -> f64 {
    mean(result, "undelivered_share")
}

/// Lost on one of two interfaces, and on one of six: a message, and a round of status, NAK, repair.
fn lost(loss: f64) -> (f64, f64) {
    (1.0 - (1.0 - loss).powi(2), 1.0 - (1.0 - loss).powi(6))
}

#[test]
fn every_plan_is_valid_and_named_after_its_file() {
    check_plans("erramilli-singh-", 12);
}

#[test]
fn without_losses_a_message_goes_out_once_and_nobody_asks() {
    let result = run(20, 0.0, 300, "t2 = \"10 s\"\nfinish_intervals = 1", "");
    assert_eq!(undelivered(&result), 0.0);
    assert_eq!(mean(&result, "retransmissions_per_message"), 0.0);
    // K = 4 status messages at the end, then a sanity message; of each other node one or two, since
    // the run takes little more than T2.
    let control = mean(&result, "control_packets_per_message") * 300.0;
    assert!((25.0..=45.0).contains(&control), "{control}");
}

#[test]
fn loss_is_final_after_the_back_window_moves_on() {
    // A message each 100 ms, B = 1: K rounds are left to each loss.
    let (first, round) = lost(0.05);
    for k in [0, 1, 2] {
        let protocol = format!("b = 1\nk = {k}\nt1 = \"10 ms\"\nt2 = \"1 s\"");
        let result = run(1, 0.05, 10_000, &protocol, "rate = \"10 packet/s\"");
        let expected = first * round.powi(k);
        let sd = (expected / 10_000.0).sqrt();
        assert!((undelivered(&result) - expected).abs() < 4.0 * sd, "k = {k}: {}", undelivered(&result));
    }
}

#[test]
fn in_a_stream_each_message_of_back_window_is_a_round_more() {
    let (first, round) = lost(0.05);
    let share = |b| undelivered(&run(1, 0.05, 10_000, &format!("b = {b}"), ""));
    assert!((share(1) - first).abs() < 4.0 * (first / 10_000.0).sqrt());
    assert!((share(2) / (first * round) - 1.0).abs() < 0.25);
    // Messages missing one behind the other wait for each other: worse than the formula, not much.
    assert!((1.0..3.0).contains(&(share(4) / (first * round.powi(3)))));
    assert_eq!(share(16), 0.0);
}

#[test]
fn unpaced_back_window_moves_on_before_a_nak_arrives() {
    let result = run(10, 0.01, 1000, "send_interval = \"0 bit\"", "");
    assert!(undelivered(&result) > 0.3, "{}", undelivered(&result));
    let result = run(10, 0.01, 1000, "", "");
    assert_eq!(undelivered(&result), 0.0);
}
