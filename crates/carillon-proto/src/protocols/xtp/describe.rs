//! Guarantee, trial settings and state machines of XTP.

use carillon_core::{DeliveryGuarantee, ProtocolEntry, States, TrialNetwork};

/// Part of the registry entry that suites and the protocol's page use.
pub(super) const DESCRIBED: ProtocolEntry = ProtocolEntry {
    guarantee: DeliveryGuarantee::Acknowledged { in_order: false, idle_feedback: None },
    trial: |trial| {
        trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
        trial.set("handshake_limit", trial.max_attempts.unwrap_or(0)).set("ctimeout", "10000 s");
        trial.pick("ctimer", &["300 ms", "1 s"]);
        trial.pick("error_control", &["go-back-n", "selective"]).pick("fastnak", &["true", "false"]);
        trial.pick("flow_control", &["on", "off", "reservation"]).pick("status_request", &["sreq", "dreq"]);
        trial
            .count("window", 1, 40)
            .count("calls", 1, 20)
            .count("sreq_interval", 0, 8)
            .pick("sreq", &["pause", "window"]);
        trial.pick("maxdata", &["1448 byte", "20 byte", "64 byte"]).pick("checksum", &["all", "header"]);
        match trial.network {
            TrialNetwork::Loopback => trial.set("wtimer_min", if trial.is_lossy { "40 ms" } else { "2 s" }),
            // A window occupies the medium for tens of milliseconds, and small fragments mean many frames.
            TrialNetwork::Ethernet => {
                trial.set("wtimer", "400 ms").set("wtimer_min", "200 ms").set("maxdata", "700 byte")
            }
            _ => trial.set("wtimer", "50 ms").pick("wtimer_min", &["20 ms", "50 ms"]),
        };
        if trial.chance(0.4) {
            // A message must fit one packet.
            trial.pick("paradigm", &["acknowledged-datagram", "transaction"]).set("maxdata", "65000");
        } else {
            trial.pick("data_in_first", &["true", "false"]);
            trial.pick("feedback", &["unicast", "unicast", "slotted"]).count("slots", 1, 8);
        }
    },
    states: &[
        States {
            of: SENDER,
            transitions: &[
                ("[*]", "Quiescent", ""),
                ("Quiescent", "Opening", "message offered / FIRST with SREQ"),
                ("Opening", "Active", "all have answered FIRST"),
                ("Opening", "Opening", "WTIMER / FIRST again"),
                ("Active", "Handshake", "WTIMER or CTIMER / CNTL with SREQ"),
                ("Handshake", "Handshake", "WTIMER / CNTL with SREQ again"),
                ("Handshake", "Active", "all have answered its number, or are given up"),
                ("Active", "[*]", "nothing is left to send / CNTL with END"),
                ("Quiescent", "[*]", "nothing was offered, or nobody is left"),
                ("Opening", "[*]", "nobody is left"),
                ("Handshake", "[*]", "all have everything, or are given up"),
            ],
            rare: &[("Quiescent", "[*]", "a group that sends nothing, or that nobody is in")],
        },
        States {
            of: RECEIVER,
            transitions: &[
                ("[*]", "Listening", ""),
                ("Listening", "Active", "FIRST / TCNTL"),
                ("Listening", "Joining", "data, and no FIRST, with late_join / JCNTL"),
                ("Joining", "Active", "JCNTL / CNTL"),
                ("Joining", "[*]", "DIAG: it may not join"),
                ("Active", "Gap", "data beyond what is missing / CNTL or ECNTL with FASTNAK"),
                ("Gap", "Active", "what was missing"),
                ("Active", "[*]", "DIAG: it was given up; or its user reads no more / CNTL with END"),
                ("Gap", "[*]", "the same"),
            ],
            rare: &[
                (
                    "Listening",
                    "Joining",
                    "nobody comes late in a suite of those that are members from the beginning",
                ),
                ("Joining", "Active", "the same"),
                ("Joining", "[*]", "the same"),
                ("Active", "[*]", "who is given up hardly ever lives and hears of it"),
                ("Gap", "[*]", "who is given up hardly ever lives and hears of it"),
            ],
        },
        SINGLE_SENDER,
        TRANSACTION_RECEIVER,
    ],
    ..ProtocolEntry::PLAIN
};

/// Name of the sender's state machine for a stream.
pub(super) const SENDER: &str = "sender";
/// Name of the receiver's state machine for a stream.
pub(super) const RECEIVER: &str = "receiver";

/// Sender's state machine for acknowledged datagrams and transactions.
pub(super) const SINGLE_SENDER: States = States {
    of: "sender, for associations of one message",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Awaiting", "message offered / FIRST with its data and SREQ or DREQ"),
        ("Awaiting", "Awaiting", "WTIMER / FIRST again"),
        ("Awaiting", "Idle", "all have answered, or are given up / of a transaction CNTL with END"),
        ("Awaiting", "[*]", "the same, and nothing is left to send"),
        ("Idle", "[*]", "nothing is left to send"),
    ],
    rare: &[],
};

/// Receiver's state machine for transactions.
pub(super) const TRANSACTION_RECEIVER: States = States {
    of: "receiver, for transactions",
    transitions: &[
        ("[*]", "Listening", ""),
        ("Listening", "Asked", "FIRST with DREQ: a request"),
        ("Asked", "Responded", "its user has taken it / DATA with WCLOSE and RCLOSE"),
        ("Responded", "Listening", "CNTL with END"),
        ("Responded", "Asked", "FIRST of the next: END was lost"),
        ("Listening", "[*]", "DIAG: it was given up"),
        ("Asked", "[*]", "DIAG: it was given up"),
        ("Responded", "[*]", "DIAG: it was given up"),
    ],
    rare: &[
        ("Listening", "[*]", "who is given up hardly ever lives and hears of it"),
        ("Asked", "[*]", "who is given up hardly ever lives and hears of it"),
        ("Responded", "[*]", "who is given up hardly ever lives and hears of it"),
    ],
};
