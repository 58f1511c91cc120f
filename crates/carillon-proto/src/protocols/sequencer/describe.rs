//! What the protocol says of itself.

use carillon_core::{Promise, States, Trial};

/// Survives as many crashes as its resilience while a majority lives.
pub(super) const PROMISE: Promise = Promise::Peers { crashes: |nodes| nodes.div_ceil(2) - 1 };

pub(super) fn trial(trial: &mut Trial<'_>) {
    match trial.crashes {
        0 => trial.count("resilience", 0, trial.nodes.into()),
        crashes => trial.set("resilience", crashes),
    };
    trial.pick("method", &["auto", "pb", "bb"]).count("large", 0, 100).count("window", 1, 8);
    trial.count("history", 4, 60).ms("request_timeout", 10, 30).ms("retrans_interval", 10, 20);
    trial.ms("sync_interval", 10, 60).pick("alive_interval", &["0 ms", "200 ms"]).ms("vote_interval", 10, 20);
    // With three packets in ten lost in either direction, half of all questions are answered: silence is no
    // sign of failure until it is very long.
    trial.count("tries", 40, 20);
}

pub(super) const STATES: &[States] = &[States {
    of: "member, when views change",
    transitions: &[
        ("[*]", "InView", "view 0, all members, rank 0 leads"),
        ("[*]", "Outside", "lost its state"),
        ("InView", "Inviting", "suspects, waits at random / INVITE"),
        ("InView", "Following", "INVITE of a higher ballot / VOTE"),
        ("Inviting", "Collecting", "enough votes / FETCH the longest log"),
        ("Collecting", "Starting", "has it / START"),
        ("Following", "Accepting", "START / FETCH what is lacking"),
        ("Outside", "Accepting", "START names it"),
        ("Accepting", "Ready", "has it / READY"),
        ("Starting", "InView", "all READY / ACTIVE"),
        ("Ready", "InView", "ACTIVE, or a packet of the view / INSTALLED"),
        ("InView", "Outside", "a view without it is in force / JOIN"),
        ("Inviting", "Inviting", "fails, waits at random, higher ballot"),
    ],
}];
