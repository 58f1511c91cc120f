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
            .pick("sreq", &["pause", "window", "service"]);
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
            trial.pick("segmentation", &["stream", "repairs", "messages"]);
            trial.pick("buffer", &["0 byte", "0 byte", "3000 byte"]).pick("group_wait", &["0 ms", "20 ms"]);
            trial.pick("feedback", &["unicast", "unicast", "slotted"]).count("slots", 1, 8);
        }
    },
    states: &[
        States {
            of: SENDER,
            transitions: &[
                ("[*]", "Quiescent", ""),
                ("Quiescent", "Opening", "message offered / FIRST with SREQ"),
                ("Opening", "Active", "every receiver has answered FIRST"),
                ("Opening", "Opening", "WTIMER / FIRST again"),
                ("Active", "Handshake", "WTIMER or CTIMER / CNTL with SREQ"),
                ("Handshake", "Handshake", "WTIMER / CNTL with SREQ again"),
                ("Handshake", "Active", "every receiver has answered its number or was abandoned"),
                ("Active", "[*]", "no data left / CNTL with END"),
                ("Quiescent", "[*]", "no message offered, or no receiver left"),
                ("Opening", "[*]", "no receiver left"),
                ("Handshake", "[*]", "every receiver is complete or was abandoned"),
            ],
            rare: &[("Quiescent", "[*]", "a group without messages or receivers")],
        },
        States {
            of: RECEIVER,
            transitions: &[
                ("[*]", "Listening", ""),
                ("Listening", "Active", "FIRST / TCNTL"),
                ("Listening", "Joining", "data without FIRST, with late_join / JCNTL"),
                ("Joining", "Active", "JCNTL / CNTL"),
                ("Joining", "[*]", "DIAG: join refused"),
                ("Active", "Gap", "data beyond a gap / CNTL or ECNTL with FASTNAK"),
                ("Gap", "Active", "missing data"),
                ("Active", "[*]", "DIAG: abandoned; or its user stops reading / CNTL with END"),
                ("Gap", "[*]", "the same"),
            ],
            rare: &[
                ("Listening", "Joining", "in the suite every receiver is a member from the start"),
                ("Joining", "Active", "the same"),
                ("Joining", "[*]", "the same"),
                ("Active", "[*]", "an abandoned receiver is rarely alive to receive the DIAG"),
                ("Gap", "[*]", "an abandoned receiver is rarely alive to receive the DIAG"),
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
        ("Awaiting", "Idle", "every receiver has answered or was abandoned / transaction: CNTL with END"),
        ("Awaiting", "[*]", "the same, and no data left"),
        ("Idle", "[*]", "no data left"),
    ],
    rare: &[],
};

/// Receiver's state machine for transactions.
pub(super) const TRANSACTION_RECEIVER: States = States {
    of: "receiver, for transactions",
    transitions: &[
        ("[*]", "Listening", ""),
        ("Listening", "Asked", "FIRST with DREQ: a request"),
        ("Asked", "Responded", "its user has read it / DATA with WCLOSE and RCLOSE"),
        ("Responded", "Listening", "CNTL with END"),
        ("Responded", "Asked", "FIRST of the next request: END was lost"),
        ("Listening", "[*]", "DIAG: abandoned"),
        ("Asked", "[*]", "DIAG: abandoned"),
        ("Responded", "[*]", "DIAG: abandoned"),
    ],
    rare: &[
        ("Listening", "[*]", "an abandoned receiver is rarely alive to receive the DIAG"),
        ("Asked", "[*]", "an abandoned receiver is rarely alive to receive the DIAG"),
        ("Responded", "[*]", "an abandoned receiver is rarely alive to receive the DIAG"),
    ],
};
