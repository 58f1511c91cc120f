//! Guarantee, trial settings and state machine of RRA.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States};

use crate::blocks::retransmission;

/// Part of the registry entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        retransmission::trial(trial, false);
        trial.count("window", 1, 16);
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
