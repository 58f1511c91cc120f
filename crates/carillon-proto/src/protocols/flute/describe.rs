//! Guarantee, trial settings and state machines of FLUTE.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States};

/// Part of the entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    // Nothing comes back: a file that neither parity nor the carousel repairs is lost.
    guarantee: DeliveryGuarantee::BestEffort,
    trial: |trial| {
        trial
            .pick("fec", &["reed-solomon", "no-code", "raptor", "raptorq"])
            .pick("block", &["4", "16", "64"]);
        trial.pick("parity", &["0", "2", "16"]).count("carousel", 1, 3).pick("version", &["1", "2"]);
        trial.pick("content_encoding", &["none", "gzip"]).set("rate", "500 kbit/s").set("burst", "0");
        trial.count("close_packets", 1, 3);
    },
    states: &[
        States {
            of: "sender",
            transitions: &[
                ("[*]", "Open", ""),
                ("Open", "Finishing", "no further files"),
                ("Finishing", "Closing", "all passes are done / announce the end"),
                ("Closing", "Closed", "close_packets announcements"),
                ("Finishing", "Closed", "all passes are done / announce the end once"),
            ],
            rare: &[],
        },
        States {
            of: "receiver",
            transitions: &[
                ("[*]", "Open", ""),
                ("Open", "Closing", "announced end, and files are missing"),
                ("Open", "Closed", "announced end, and nothing is missing"),
                ("Closing", "Closed", "close_wait, or the last file"),
            ],
            rare: &[],
        },
    ],
    ..ProtocolEntry::PLAIN
};
