//! Guarantee, trial and forgeries for tests of Erramilli and Singh's protocol.

use super::{DeliveryGuarantee, ProtocolTests};

/// Tests of Erramilli and Singh's protocol.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "erramilli-singh",
    // Every message can be repaired while a member may miss it, if the back window holds all messages. The protocol
    // promises nothing about crashed nodes.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| nodes - 1 },
    trial: |trial| {
        trial.count("b", 20, 100).count("k", 0, 8).ms("t1", 5, 16).ms("t2", 100, 201).ms("t3", 1, 30);
        trial.pick("repeat", &["requested", "go-back"]).pick("retransmission", &["unicast", "multicast"]);
        trial.count("buffer", 1, 40).pick("send_interval", &["0 bit", "1 ms", "15000 bit"]);
        let choke_at = 25 + trial.rng.below(76);
        trial.set("choke_at", format_args!("{choke_at} %"));
        // With three packets in ten lost, a round of NAK and repair fails two times in three, and silence is no
        // sign of failure until it is very long.
        trial.set("finish_intervals", 30).set("failure_intervals", 20);
        if trial.chance(0.5) {
            trial.ms("nak_timer", 4, 20);
        }
        if trial.chance(0.5) {
            // All messages of a run, twice: more than the numbers need to be told apart.
            trial.count("n", 241, 1000);
        }
    },
    ..ProtocolTests::BASE
};
