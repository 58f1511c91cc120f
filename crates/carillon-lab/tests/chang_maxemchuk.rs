//! Chang and Maxemchuk on the Ethernet: what section 2.9 states, and docs/protocols/chang-maxemchuk.md
//! measures, in small.

use carillon_lab::run::RunResult;

use crate::on_lan::{self, check_plans, mean};

/// Runs ten sites, of which `senders` send. An empty rate means as fast as the protocol allows.
fn run(senders: u32, loss: f64, messages: u32, protocol: &str, rate: &str) -> RunResult {
    let group = format!("receivers = 9\nsenders = {senders}");
    on_lan::run(&group, &format!("name = \"chang-maxemchuk\"\n{protocol}"), loss, messages, rate)
}

fn control(result: &RunResult) -> f64 {
    assert_eq!(mean(result, "undelivered_share"), 0.0);
    mean(result, "control_packets_per_message")
}

fn settings(resilience: u64) -> String {
    format!("resilience = {resilience}\ntail = \"none\"")
}

#[test]
fn every_plan_is_valid_and_named_after_its_file() {
    check_plans("chang-maxemchuk-", 3);
}

/// "This requires only one control message per broadcast when the system is busy": an acknowledgment,
/// which passes the token on. What follows the last message is all there is besides.
#[test]
fn busy_group_sends_one_control_packet_per_message() {
    for resilience in [0, 1, 2, 4, 9] {
        let messages = 10.0 * 200.0;
        let control = control(&run(10, 0.0, 200, &settings(resilience), "")) * messages;
        assert!((messages..=messages + 15.0).contains(&control), "L = {resilience}: {control}");
    }
}

/// "And two control messages per broadcast when the system is idle (assuming a resiliency of 1)": the
/// acknowledgment, and a confirmation. "It will require additional control messages" with more: a
/// transfer for each.
#[test]
fn idle_group_sends_two_plus_resilience_control_packets() {
    for (resilience, expected) in [(0, 2.0), (1, 2.0), (2, 3.0), (4, 5.0), (9, 10.0)] {
        let result = run(1, 0.0, 50, &settings(resilience), "rate = \"2 packet/s\"");
        assert_eq!(control(&result), expected, "L = {resilience}");
        assert_eq!(mean(&result, "retransmissions_per_message"), 0.0);
    }
}

/// "Increasing the resiliency of the protocol increases the message latency": by a confirm timeout
/// and a frame for each transfer.
#[test]
fn each_degree_of_resilience_delays_delivery_by_a_transfer() {
    let latency = |resilience| {
        let result = run(1, 0.0, 50, &settings(resilience), "rate = \"2 packet/s\"");
        mean(&result, "delivery_latency_s")
    };
    let (one, nine) = (latency(1), latency(9));
    assert!((0.010..0.012).contains(&((nine - one) / 8.0)), "{one} {nine}");
}

/// A run of one message with half of all frames lost. No later message reveals a missing one; only the idle token's
/// round does.
#[test]
fn a_round_of_the_idle_token_finds_what_was_lost_last() {
    let result = run(1, 0.5, 1, "resilience = 0\nretries = 1000\ntail = \"confirm\"", "");
    assert_eq!(mean(&result, "undelivered_share"), 0.0);
}

#[test]
fn losses_are_repaired_and_no_site_is_given_up() {
    for senders in [1, 10] {
        let result = run(senders, 0.05, 100, "", "");
        assert_eq!(mean(&result, "undelivered_share"), 0.0);
        assert_eq!(mean(&result, "failed_messages"), 0.0);
    }
}
