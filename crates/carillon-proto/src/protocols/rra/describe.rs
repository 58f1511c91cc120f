//! Guarantee, trial settings and state machine of RRA.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, TrialNetwork};

use crate::blocks::congestion::CONTROLLER_NAMES;
use crate::blocks::retransmission;

/// Part of the registry entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        retransmission::trial(trial, false);
        trial.count("window", 1, 16);
        // A controller may need a rate, and obeys it as a bound otherwise.
        if trial.chance(0.3) {
            trial.set("flow_control", "path").pick("questions", &["2", "8", "4096"]);
            trial.pick("congestion", &CONTROLLER_NAMES).set("rate", "20 Mbit/s");
            // With several polls, a fixed timeout below the round trip expires before every answer, without end.
            if trial.network != TrialNetwork::Loopback {
                trial.set("timeout_method", "adaptive");
            }
        }
    },
    states: &[States {
        of: "sender, for one receiver",
        transitions: &[
            ("[*]", "Idle", ""),
            ("Idle", "Asking", "repair, new message or POLL names a receiver / start timer"),
            ("Asking", "Idle", "ACK of that receiver"),
            ("Asking", "Asking", "timer, count <= limit / ask again, count + 1"),
            ("Asking", "Idle", "timer, count > limit / expel it, or skip its messages"),
        ],
        rare: &[],
    }],
    ..ProtocolEntry::PLAIN
};
