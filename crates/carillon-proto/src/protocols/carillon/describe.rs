//! Description of the protocol: guarantees, settings of the conformance suite, and state diagrams.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, TrialNetwork};

use crate::blocks::congestion::CONTROLLER_NAMES;

/// Part of the registry entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        // The silence timeout ends the wait for a member.
        match trial.max_attempts {
            Some(tries) => trial.set("patience", format_args!("{} ms", 200 * tries)),
            None => trial.set("patience", "100000 s"),
        };
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        match trial.network {
            TrialNetwork::Loopback => {
                trial
                    .set("timeout_min", if trial.is_lossy { "20 ms" } else { "500 ms" })
                    .set("timeout_max", "2 s");
            }
            // A frame takes more than a millisecond on this link.
            TrialNetwork::Ethernet => drop(trial.set("timeout_min", "20 ms").set("timeout", "100 ms")),
            _ => drop(trial.pick("timeout", &["50 ms", "5 ms"])),
        }
        // Small values make short runs reach the bounds.
        trial
            .count("window", 1, 40)
            .pick("block", &["1", "4", "16", "2048"])
            .pick("burst", &["1", "8", "32"]);
        trial
            .pick("redundancy", &["0", "0", "0.1", "1"])
            .pick("proactive", &["fixed", "loss"])
            .pick("order", &["source", "source", "arrival"])
            .pick("block_time", &["5 ms", "1 s"])
            .pick("quiet", &["1 ms", "5 ms"]);
        // Half of the runs have the default. A controller may need a rate, and obeys it as a bound otherwise.
        if trial.chance(0.5) {
            trial.pick("congestion", &CONTROLLER_NAMES).set("rate", "20 Mbit/s");
        }
    },
    states: &[
        States {
            of: "sender, a block",
            transitions: &[
                ("[*]", "Filling", "its first message goes out"),
                ("Filling", "News", "long enough, too old, quiet, or the last / close it"),
                ("[*]", "News", "a block of one message goes out"),
                ("Filling", "Asked", "quiet, or the last / close it, POLL"),
                (
                    "Filling",
                    "Repairing",
                    "long enough, too old, quiet, or the last, and redundancy / close it",
                ),
                ("[*]", "Repairing", "a block of one message goes out, and redundancy"),
                ("News", "Asked", "POLL"),
                (
                    "Asked",
                    "Repairing",
                    "the round is over, and a member is missing something / decide what to send",
                ),
                ("News", "Repairing", "an earlier round is over, and a member is missing something"),
                ("Repairing", "News", "all that is due has gone out"),
                ("Asked", "[*]", "all have confirmed it"),
                ("News", "[*]", "all have confirmed it"),
                ("Repairing", "[*]", "all have confirmed it, or the others have left"),
                ("Filling", "[*]", "no member is left"),
            ],
            rare: &[(
                "Filling",
                "Asked",
                "the window is full before the first block is, and nothing goes out for a while",
            )],
        },
        States {
            of: "receiver, a block",
            transitions: &[
                ("[*]", "Open", "DATA of it"),
                ("[*]", "Lacking", "its length is known"),
                ("Open", "Lacking", "its length is known"),
                ("Open", "Whole", "its last message, which tells its length"),
                ("Lacking", "Whole", "as many messages and symbols as its length / make the missing ones"),
                ("[*]", "Whole", "a block of one message"),
                ("Whole", "[*]", "those before it are delivered, and it is"),
                ("Open", "[*]", "its last message, with nothing lacking before / deliver it"),
                ("Lacking", "[*]", "as many as its length, with nothing lacking before / deliver it"),
            ],
            rare: &[],
        },
    ],
    ..ProtocolEntry::PLAIN
};
