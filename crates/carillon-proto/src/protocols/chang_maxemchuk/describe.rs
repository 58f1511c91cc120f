//! Description of the protocol for test suites and for its documentation page.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, TrialNetwork};

use crate::blocks::reformation::{ALONE, CRASH, VIEWS};

/// Fields of the entry that suites and the protocol's page read.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // The protocol survives L failures while a majority is alive.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| (nodes - 1) / 2 },
    trial: |trial| {
        let resilience = trial.crashes.into();
        let max_resilience = u64::from(trial.nodes - trial.crashes);
        trial
            .count("resilience", resilience, max_resilience)
            .count("transfer_every", 1, 3)
            .count("window", 1, 8);
        trial
            .set("message_timeout", "40 ms")
            .set("transfer_timeout", "30 ms")
            .set("request_timeout", "15 ms");
        trial.ms("confirm_timeout", 1, 15).ms("idle_timeout", 20, 100);
        // Heavy loss without crashes needs many retries, so that no live site is expelled.
        let patient = trial.crashes == 0 || trial.network == TrialNetwork::Loopback;
        trial.set("retries", if patient { 40 } else { 8 });
    },
    states: &[
        TOKEN,
        States {
            rare: &[
                ("Inviting", "Leading", ALONE),
                ("Collecting", "Leading", ALONE),
                ("Collecting", "Waiting", CRASH),
                ("Starting", "Waiting", CRASH),
                ("Accepting", "Waiting", CRASH),
                ("Ready", "Waiting", CRASH),
            ],
            ..VIEWS
        },
    ],
    ..ProtocolEntry::PLAIN
};

/// State diagram of the token at one site.
pub(super) const TOKEN: States = States {
    of: "member",
    transitions: &[
        ("[*]", "Here", "first of the list"),
        ("[*]", "Elsewhere", "any other site"),
        ("[*]", "Reformation", "lost its state"),
        ("Elsewhere", "Here", "lacks nothing up to a transfer to it, application not behind"),
        ("Elsewhere", "Passing", "the same, and passes it on at once"),
        ("Here", "Here", "next message of a source / ACK that keeps the token"),
        ("Here", "Passing", "next message / ACK that passes it on"),
        ("Here", "Passing", "nothing to acknowledge, something to commit / transfer"),
        ("Here", "Here", "nothing to do for confirm_timeout / CONFIRM"),
        ("Passing", "Passing", "transfer_timeout / the ACK again"),
        ("Passing", "Elsewhere", "next site's ACK or CONFIRM"),
        ("Passing", "Reformation", "R repetitions, no sign of life"),
        ("Here", "Reformation", "INVITE, or nothing heard"),
        ("Elsewhere", "Reformation", "INVITE, or nothing heard"),
        ("Reformation", "Elsewhere", "list in force"),
        ("Reformation", "Here", "list in force, own ballot"),
    ],
    rare: &[],
};
