//! Guarantee, trial settings and state machine of the sequencer protocol.

use carillon_core::{ANY_STATE, DeliveryGuarantee, ProtocolEntry, States};

use crate::blocks::reformation::{ALONE, CRASH, LIVE, VIEWS};

/// Part of the registry entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // Survives as many crashes as its resilience, as long as a majority lives.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| nodes.div_ceil(2) - 1 },
    trial: |trial| {
        match trial.crashes {
            0 => trial.count("resilience", 0, trial.nodes.into()),
            crashes => trial.set("resilience", crashes),
        };
        trial.pick("method", &["auto", "pb", "bb"]).count("large", 0, 100).count("window", 1, 8);
        trial.count("history", 4, 60).ms("request_timeout", 10, 30).ms("retrans_interval", 10, 20);
        trial.ms("sync_interval", 10, 60).pick("alive_interval", &["0 ms", "200 ms"]).ms(
            "vote_interval",
            10,
            20,
        );
        // At 30 % loss each way, half of all polls are answered: only a long silence indicates a crash.
        trial.count("tries", 40, 20);
    },
    states: &[States {
        rare: &[
            ("Inviting", "Leading", ALONE),
            ("Collecting", "Leading", ALONE),
            ("Collecting", "Waiting", CRASH),
            ("Accepting", "Waiting", CRASH),
            ("Ready", "Waiting", CRASH),
            (ANY_STATE, "Outside", LIVE),
        ],
        ..VIEWS
    }],
    ..ProtocolEntry::PLAIN
};
