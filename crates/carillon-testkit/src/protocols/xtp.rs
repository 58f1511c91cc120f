//! Guarantee, trial and forgeries for tests of XTP.

use super::{DeliveryGuarantee, ProtocolTests, TrialNetwork};

/// Tests of XTP.
pub(super) const TESTS: ProtocolTests = ProtocolTests {
    name: "xtp",
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        trial.set("handshake_limit", trial.max_attempts.unwrap_or(0)).set("ctimeout", "10000 s");
        trial.pick("ctimer", &["300 ms", "1 s"]);
        trial.pick("error_control", &["go-back-n", "selective"]).pick("fastnak", &["true", "false"]);
        trial.pick("flow_control", &["on", "off", "reservation"]).pick("status_request", &["sreq", "dreq"]);
        trial
            .count("window", 1, 40)
            .count("calls", 1, 20)
            .count("sreq_interval", 0, 8)
            .pick("sreq", &["pause", "window", "service"]);
        trial.pick("maxdata", &["1448 byte", "20 byte", "64 byte"]).pick("checksum", &["all", "header"]);
        match trial.network {
            TrialNetwork::Loopback => trial.set("wtimer_min", if trial.is_lossy { "40 ms" } else { "2 s" }),
            // A window occupies the medium for tens of milliseconds, and small fragments mean many frames.
            TrialNetwork::Ethernet => {
                trial.set("wtimer", "400 ms").set("wtimer_min", "200 ms").set("maxdata", "700 byte")
            }
            _ => trial.set("wtimer", "50 ms").pick("wtimer_min", &["20 ms", "50 ms"]),
        };
        if trial.chance(0.4) {
            // A message must fit one packet.
            trial.pick("paradigm", &["acknowledged-datagram", "transaction"]).set("maxdata", "65000");
        } else {
            trial.pick("data_in_first", &["true", "false"]);
            trial.pick("segmentation", &["stream", "repairs", "messages"]);
            trial.pick("buffer", &["0 byte", "0 byte", "3000 byte"]).pick("group_wait", &["0 ms", "20 ms"]);
            trial.pick("feedback", &["unicast", "unicast", "slotted"]).count("slots", 1, 8);
        }
    },
    rare: &[
        ("sender", "Quiescent", "[*]", "a group without messages or receivers"),
        ("receiver", "Listening", "Joining", "in the suite every receiver is a member from the start"),
        ("receiver", "Joining", "Active", "the same"),
        ("receiver", "Joining", "[*]", "the same"),
        ("receiver", "Active", "[*]", "an abandoned receiver is rarely alive to receive the DIAG"),
        ("receiver", "Gap", "[*]", "an abandoned receiver is rarely alive to receive the DIAG"),
        (
            "receiver, for transactions",
            "Listening",
            "[*]",
            "an abandoned receiver is rarely alive to receive the DIAG",
        ),
        (
            "receiver, for transactions",
            "Asked",
            "[*]",
            "an abandoned receiver is rarely alive to receive the DIAG",
        ),
        (
            "receiver, for transactions",
            "Responded",
            "[*]",
            "an abandoned receiver is rarely alive to receive the DIAG",
        ),
    ],
    ..ProtocolTests::BASE
};

/// Tests of datagrams without acknowledgment.
pub(super) const DATAGRAM_TESTS: ProtocolTests = ProtocolTests {
    name: "xtp-datagram",
    guarantee: DeliveryGuarantee::BestEffort,
    trial: |trial| {
        trial.set("maxdata", "65535").count("window", 1, 40).count("calls", 1, 20);
        trial.pick("checksum", &["all", "header"]);
    },
    ..ProtocolTests::BASE
};
