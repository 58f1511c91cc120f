//! What the protocol says of itself.

use carillon_core::{Ground, Promise, States, Trial};

pub(super) const PROMISE: Promise = Promise::Acknowledged { in_order: false, idle_feedback: None };

pub(super) fn trial(trial: &mut Trial<'_>) {
    trial.set("past_limit", if trial.expels { "expel" } else { "skip" });
    trial.set("handshake_limit", trial.tries.unwrap_or(0)).set("ctimeout", "10000 s");
    trial.pick("ctimer", &["300 ms", "1 s"]);
    trial.pick("error_control", &["go-back-n", "selective"]).pick("fastnak", &["true", "false"]);
    trial.pick("flow_control", &["on", "off", "reservation"]).pick("status_request", &["sreq", "dreq"]);
    trial
        .count("window", 1, 40)
        .count("calls", 1, 20)
        .count("sreq_interval", 0, 8)
        .pick("sreq", &["pause", "window"]);
    trial.pick("maxdata", &["1448 byte", "20 byte", "64 byte"]).pick("checksum", &["all", "header"]);
    match trial.ground {
        Ground::Loopback => trial.set("wtimer_min", if trial.is_lossy { "40 ms" } else { "2 s" }),
        // A window takes tens of milliseconds on the medium, and messages that are cut finely many frames.
        Ground::Ethernet => {
            trial.set("wtimer", "400 ms").set("wtimer_min", "200 ms").set("maxdata", "700 byte")
        }
        _ => trial.set("wtimer", "50 ms").pick("wtimer_min", &["20 ms", "50 ms"]),
    };
}

pub(super) const STATES: &[States] = &[
    States {
        of: "sender",
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
        of: "receiver",
        transitions: &[
            ("[*]", "Listening", ""),
            ("Listening", "Active", "FIRST / TCNTL"),
            ("Active", "Gap", "data beyond what is missing / CNTL or ECNTL with FASTNAK"),
            ("Gap", "Active", "what was missing"),
            ("Active", "[*]", "DIAG: it was given up"),
            ("Gap", "[*]", "DIAG: it was given up"),
        ],
        rare: &[
            ("Active", "[*]", "who is given up hardly ever lives and hears of it"),
            ("Gap", "[*]", "who is given up hardly ever lives and hears of it"),
        ],
    },
];
