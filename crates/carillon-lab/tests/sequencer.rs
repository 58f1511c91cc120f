//! The sequencer protocol on the Ethernet: what docs/protocols/sequencer.md measures, in small, beside
//! what Segovia 1996, section 2.7, says of it.

use carillon_lab::run::RunResult;

use crate::on_lan::{self, check_plans, mean};

/// Eleven members, the first of which is the sequencer, and the first of which send.
fn run(senders: u32, messages: u32, loss: f64, protocol: &str, workload: &str) -> RunResult {
    let group = format!("receivers = 10\nsenders = {senders}");
    on_lan::run(&group, &format!("name = \"sequencer\"\n{protocol}"), loss, messages, workload)
}

fn control(result: &RunResult) -> f64 {
    assert_eq!(mean(result, "undelivered_share"), 0.0);
    mean(result, "control_packets_per_message")
}

#[test]
fn every_plan_is_valid_and_named_after_its_file() {
    check_plans("sequencer-", 4);
}

#[test]
fn acknowledgments_ride_on_messages() {
    // 2.7: "the nodes do not acknowledge every multicast message received. Acknowledgments are
    // piggybacked": where all send, no packet is but a message, until the end.
    let result = run(11, 100, 0.0, "resilience = 0\nsync_interval = \"10 s\"", "rate = \"2 packet/s\"");
    let control = control(&result);
    assert_eq!(control, 0.0);
    assert_eq!(mean(&result, "retransmissions_per_message"), 0.0);
}

#[test]
fn silent_member_reports_within_half_a_history() {
    // 2.7: "if a node has not sent a multicast request to the sequence node for some time, it sends a
    // dummy".
    let messages = 2000;
    for history in [32, 128, 512] {
        let result =
            run(1, messages, 0.0, &format!("resilience = 0\nhistory = {history}"), "rate = \"100 packet/s\"");
        let expected: f64 = (1..=10).map(|rank| 1.0 / f64::from(history / 4 + history / 4 * rank / 11)).sum();
        let control = control(&result);
        assert!((control / expected - 1.0).abs() < 0.1, "history {history}: {control} of {expected}");
    }
}

#[test]
fn messages_are_sent_twice_but_for_those_of_the_sequencer() {
    // Chapter 1: "messages are sent twice; once to the sequencer node and again in a multicast
    // transmission".
    let bytes = |protocol: &str| {
        let result = run(
            11,
            100,
            0.0,
            &format!("resilience = 0\nsync_interval = \"10 s\"\n{protocol}"),
            "rate = \"2 packet/s\"",
        );
        mean(&result, "wire_bytes_per_useful_byte")
    };
    let (pb, bb) = (bytes(""), bytes("method = \"bb\""));
    assert!((pb / (21.0 / 11.0) - 1.0).abs() < 0.01, "{pb}");
    // BB: once, and a frame of the least size.
    assert!((bb / (1.0 + 10.0 / 11.0 * 64.0 / 1518.0) - 1.0).abs() < 0.02, "{bb}");
}

#[test]
fn resilience_costs_as_many_acknowledgments_and_an_accept() {
    // Amoeba: a request and a multicast, r acknowledgments, and a short multicast.
    for resilience in [0, 1, 2, 5] {
        let result = run(
            11,
            100,
            0.0,
            &format!("resilience = {resilience}\nsync_interval = \"10 s\""),
            "rate = \"2 packet/s\"",
        );
        let expected = if resilience == 0 { 0.0 } else { f64::from(resilience) + 1.0 };
        let control = control(&result);
        assert!((control - expected).abs() < 0.03 + 0.03 * expected, "r = {resilience}: {control}");
    }
}

#[test]
fn losses_are_repaired_and_no_message_is_given_up() {
    for protocol in ["resilience = 0", "resilience = 1", "method = \"bb\"", "history = 8", "window = 8"] {
        let result = run(4, 100, 0.05, protocol, "");
        assert_eq!(mean(&result, "failed_messages"), 0.0, "{protocol}");
    }
}
