//! Guarantees, trial settings and state machines of MTP and MTP-2.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, Trial};

use crate::blocks::reformation::{ALONE, VIEWS};

/// Part of MTP's registry entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // The transport is abandoned with its master, and any member may be it.
    guarantee: DeliveryGuarantee::Peers { crashes: |_| 0 },
    trial: |trial| {
        draw(trial);
        trial.count("master", 0, 3);
    },
    states: &[WEB, PRODUCER],
    ..ProtocolEntry::PLAIN
};

/// Part of MTP-2's registry entry that suites and the protocol's page use.
pub(super) const MTP2_DESCRIBED: ProtocolEntry = ProtocolEntry {
    // Survives as many crashes as its resilience, as long as a majority lives.
    guarantee: DeliveryGuarantee::Peers { crashes: |nodes| nodes.div_ceil(2) - 1 },
    trial: |trial| {
        draw(trial);
        match trial.crashes {
            0 => trial.count("resilience", 0, trial.nodes.into()),
            crashes => trial.set("resilience", crashes),
        };
        trial.ms("vote_interval", 10, 20).pick("migrate_after", &["0", "0", "3"]);
    },
    states: &[
        States { rare: &[("Inviting", "Leading", ALONE), ("Collecting", "Leading", ALONE)], ..VIEWS },
        PRODUCER,
    ],
    ..ProtocolEntry::PLAIN
};

/// States of a node in the web.
const WEB: States = States {
    of: "member of the web",
    transitions: &[
        ("[*]", "Master", "takes the web's address"),
        ("[*]", "Joining", "join request"),
        ("Joining", "Member", "join confirm"),
        ("Joining", "Left", "join deny, or no answer"),
        ("Member", "Quitting", "a message is lost / quit request"),
        ("Member", "Left", "banished, or the master failed"),
        ("Quitting", "Left", "quit confirm, or no answer"),
        ("Left", "[*]", ""),
        ("Master", "[*]", ""),
    ],
    rare: &[
        ("Member", "Quitting", REPAIRED),
        ("Quitting", "Left", REPAIRED),
        ("Left", "[*]", "a node that joins again is another transport"),
        ("Master", "[*]", "the web lasts as long as its master"),
    ],
};

/// Reason for rare transitions: no trial loses a message for good.
const REPAIRED: &str = "a message would have to be lost for longer than the retention";

/// States of a producer.
const PRODUCER: States = States {
    of: "producer",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Requesting", "message waits / token request"),
        ("Idle", "Sending", "master, message waits / its own token"),
        ("Requesting", "Sending", "token confirm"),
        ("Requesting", "Idle", "view change, or the web is left"),
        ("Sending", "Idle", "eom"),
    ],
    rare: &[],
};

fn draw(trial: &mut Trial<'_>) {
    // At 30 % loss each way, half of all NAKs are repaired: only a long silence indicates a failure.
    trial.ms("heartbeat", 10, 20).count("retention", 60, 20).count("window", 2, 30);
    trial.count("message_packets", 1, 4).count("queue", 1, 12).count("streams", 1, 3);
    trial.pick("announce", &["heartbeat", "prompt"]).ms("hibernation", 20, 300);
}
