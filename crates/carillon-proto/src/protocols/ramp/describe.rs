//! Guarantee, trial settings and state machines of RAMP.

use std::time::Duration;

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, TrialNetwork};

/// Part of the registry entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // In idle mode a receiver that has not seen the end of the stream goes on sending Idles.
    guarantee: DeliveryGuarantee::Acknowledged {
        in_order: false,
        idle_feedback: Some(Duration::from_millis(20)),
    },
    trial: |trial| {
        trial.set("response_limit", trial.max_attempts.unwrap_or(1_000_000));
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        trial.pick("mode", &["burst", "idle", "adaptive"]).pick("idle_ack", &["true", "false"]);
        trial.pick("timeouts", &["measured", "fixed"]).ms("timeout_min", 5, 20);
        trial.count("window", 1, 40).count("mcast_thresh", 0, 4).count("burst_packets", 1, 20);
        match trial.network {
            // A frame takes more than a millisecond: short intervals would fill the medium with repeated packets.
            TrialNetwork::Ethernet => {
                trial.set("response_timeout", "400 ms").set("resend_timeout", "200 ms");
                trial.set("idle_interval", "500 ms").set("receiver_idle_interval", "500 ms")
            }
            TrialNetwork::Loopback => {
                let timeout = if trial.is_lossy { "40 ms" } else { "2 s" };
                trial.set("response_timeout", timeout)
            }
            _ => trial.pick("resend_timeout", &["20 ms", "50 ms"]).pick("hold", &["0 ms", "10 ms"]),
        };
        if trial.chance(0.3) {
            trial.set("hold", "0 ms").set("hold_max", "0 ms").set("mcast_thresh", 1_000_000);
        }
    },
    states: STATES,
    ..ProtocolEntry::PLAIN
};

/// State diagrams of both ends of a channel.
const STATES: &[States] = &[
    States {
        of: "sender, for the channel to one receiver",
        transitions: &[
            ("[*]", "Connecting", "session starts / CONNECT"),
            ("Connecting", "Open", "ACCEPT, or another packet of the receiver"),
            ("Connecting", "[*]", "no answer to several CONNECTs, or the host expels it"),
            ("Open", "Owing", "DATA or IDLE with the ACK flag"),
            ("Owing", "Open", "ACK, or another packet of the receiver"),
            ("Owing", "[*]", "no answer to several retransmissions, or the host expels it"),
            ("Open", "[*]", "idle mode: several Idles missing, or the host expels it"),
        ],
        rare: &[(
            "Open",
            "[*]",
            "receivers of the suite send Idles until they crash, and a flagged packet follows",
        )],
    },
    States {
        of: "receiver, for its channel",
        transitions: &[
            ("[*]", "Waiting", "session starts"),
            ("Waiting", "Open", "packet of the sender / ACCEPT to a CONNECT"),
            ("Open", "Doubtful", "nothing arrives for too long / RESPOND or RESEND"),
            ("Doubtful", "Open", "packet of the sender"),
            ("Doubtful", "Closed", "no answer to several requests"),
            ("Closed", "Open", "packet of the sender"),
        ],
        rare: &[("Closed", "Open", "a sender of the suite that is silent for so long has crashed")],
    },
];
