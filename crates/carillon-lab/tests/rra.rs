//! Round-robin acknowledgment on the Ethernet it was proposed for.

use carillon_core::NoObserver;
use carillon_lab::plan::Plan;
use carillon_lab::run::{RunResult, run_one};
use carillon_lab::scenario::ScenarioFile;

fn run(receivers: u32, loss: f64, burst: u32) -> RunResult {
    let text = format!(
        "name = \"rra\"\n[network]\nkind = \"lan\"\n[loss]\nmodel = \"bernoulli\"\np = {loss}\n\
         [group]\nreceivers = {receivers}\n[protocol]\nname = \"rra\"\nburst = {burst}\n\
         [workload]\nmessages = 300\nmessage_bytes = 1518\n"
    );
    let file = ScenarioFile::parse("rra", &text).unwrap();
    run_one(&Plan::new(&file).unwrap().runs[0], &mut NoObserver).unwrap()
}

#[test]
fn without_errors_a_message_costs_one_acknowledgment() {
    let result = run(20, 0.0, 1);
    assert!(result.messages.iter().all(|message| message.collisions == 0.0 && message.retransmissions == 0));
    // 300 turns of d + a, then the polls that close the last round: a poll and its acknowledgment
    // are the least frame each.
    let bits = 300 * (12_144 + 512) + 19 * (512 + 512);
    assert_eq!(result.messages.last().unwrap().end.as_nanos(), bits * 100);
}

#[test]
fn repairs_leave_room_for_their_answer() {
    // A timeout that does not allow for repairs in flight would request again while they are still in the interface's
    // queue, without end.
    for burst in [1, 10] {
        for receivers in [5, 20] {
            let result = run(receivers, 0.05, burst);
            assert!(
                result.messages.iter().all(|message| !message.failed),
                "burst {burst}, {receivers} receivers"
            );
            let retransmissions: u32 = result.messages.iter().map(|message| message.retransmissions).sum();
            assert!(retransmissions < 600, "{retransmissions} of 300 messages");
        }
    }
}
