//! What the protocol says of itself.

use carillon_core::{Promise, States, Trial};

use crate::blocks::retransmission;

pub(super) const PROMISE: Promise = Promise::Acknowledged { in_order: false, idle_feedback: None };

pub(super) fn trial(trial: &mut Trial<'_>) {
    retransmission::trial(trial, false);
    trial.count("window", 1, 16);
}

pub(super) const STATES: &[States] = &[States {
    of: "sender, for one receiver",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Asking", "repair, new message or POLL names a receiver / start timer"),
        ("Asking", "Idle", "ACK of that receiver"),
        ("Asking", "Asking", "timer, count <= limit / ask again, count + 1"),
        ("Asking", "Idle", "timer, count > limit / expel it, or give its messages up"),
    ],
    rare: &[],
}];
