//! Description of the protocol for test suites and for its documentation page.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, TrialNetwork};

use super::config::QUALITIES;
use super::service::promise;
use crate::blocks::reformation::{ALONE, CRASH, VIEWS};

/// Reason for rare transitions at the end of a waiting time.
const MEASURED: &str = "answers come before the measured waiting times end, but in a divided network";

/// Fields of the entry that suites and the protocol's page read.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // A message with enough resilience survives as many crashes as leave a majority.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| (nodes - 1) / 2 },
    service: Some(promise),
    trial: |trial| {
        trial.pick("qos", QUALITIES).pick("other_qos", QUALITIES).count("other_every", 0, 4);
        let crashes: u64 = trial.crashes.into();
        trial
            .count("resilience", crashes, (u64::from(trial.nodes) - crashes).max(1))
            .set("failures", crashes);
        trial.pick("nack", &["multicast", "source", "token-site"]).pick("flow", &["adaptive", "fixed"]);
        trial.ms("nack_delay", 0, 20).count("batch", 1, 16).count("window", 1, 16);
        trial.set("data_timeout", "50 ms").set("pass_timeout", "30 ms").ms("request_timeout", 15, 20);
        trial.pick("lists", &["ordered", "reformation"]);
        trial.pick("timeouts", &["measured", "fixed"]).ms("timeout_min", 5, 20);
        trial.ms("confirm_timeout", 1, 15).ms("idle_interval", 5, 50).ms("max_idle_interval", 50, 150);
        // Heavy loss without crashes needs many retries, so that no live member is expelled.
        let patient = trial.crashes == 0 || trial.network == TrialNetwork::Loopback;
        trial.set("retries", if patient { 40 } else { 8 });
    },
    states: &[
        TOKEN,
        States {
            rare: &[
                ("Inviting", "Leading", ALONE),
                ("Collecting", "Leading", ALONE),
                ("Accepting", "Waiting", CRASH),
                ("Ready", "Waiting", MEASURED),
                ("Collecting", "Waiting", MEASURED),
            ],
            transitions: &TRANSITIONS,
            ..VIEWS
        },
    ],
    ..ProtocolEntry::PLAIN
};

/// Transitions of the views, and the way into the view in force by a list.
const TRANSITIONS: [(&str, &str, &str); VIEWS.transitions.len() + 1] = {
    let mut all = [("Outside", "InView", "WELCOME: a list has admitted it"); VIEWS.transitions.len() + 1];
    let mut at = 0;
    while at < VIEWS.transitions.len() {
        all[at] = VIEWS.transitions[at];
        at += 1;
    }
    all
};

/// State diagram of the token at one member.
pub(super) const TOKEN: States = States {
    of: "member",
    transitions: &[
        ("[*]", "Here", "first of the ring"),
        ("[*]", "Elsewhere", "any other member"),
        ("[*]", "Reformation", "lost its state"),
        ("Elsewhere", "Here", "holds all slots up to a pass to it, application not behind"),
        ("Elsewhere", "Passing", "the same, with messages to order / ACK"),
        ("Here", "Here", "nothing to order for confirm_timeout / CONFIRM"),
        ("Here", "Passing", "messages to order / ACK"),
        ("Here", "Passing", "messages wait for resilience, or the group is idle / null ACK"),
        ("Here", "Passing", "a member joins or leaves / NEW LIST"),
        ("Passing", "Passing", "pass_timeout / the ACK again"),
        ("Passing", "Elsewhere", "next site's ACK or CONFIRM"),
        ("Passing", "Reformation", "R repetitions, no sign of life"),
        ("Here", "Reformation", "INVITE, or nothing received"),
        ("Elsewhere", "Reformation", "INVITE, or nothing received"),
        ("Reformation", "Elsewhere", "view in force"),
        ("Reformation", "Here", "view in force, own ballot"),
    ],
    rare: &[],
};
