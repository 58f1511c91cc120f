//! The questions that Segovia 1996 left open (chapters 4 and 5).

use super::ack_wait::{AckWaitSpec, Condition};
use super::means::MeansSpec;
use super::quotient::Quotient;
use super::{Analysis, Experiment, Key, Quantity, Shows, StudyPlan, StudySpec};

macro_rules! plan {
    ($name:literal) => {
        include_str!(concat!("../../../../experiments/plans/", $name, ".toml"))
    };
}

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "open-ack-wait",
        title: "The best random acknowledgment wait for r receivers (Segovia 1996, section 5.2)",
        shows: Shows::Study(StudySpec {
            plans: ACK_WAIT_PLANS,
            analysis: Analysis::AckWait(AckWaitSpec { conditions: ACK_WAITS, fitted: 4 }),
            conditions: &["10 Mbit/s Ethernet without errors, 64-byte acknowledgments unless said"],
        }),
    },
    Experiment {
        id: "open-retransmission",
        title: "Unicast or multicast retransmission (Segovia 1996, section 5.2)",
        shows: Shows::Study(StudySpec {
            plans: &[
                StudyPlan {
                    id: "open-retransmission",
                    name: "2250 r:",
                    plan: plan!("open-retransmission"),
                    settings: &[],
                },
                StudyPlan {
                    id: "open-retransmission-long",
                    name: "r d:",
                    plan: plan!("open-retransmission-long"),
                    settings: &[],
                },
            ],
            analysis: Analysis::Means(MeansSpec {
                keys: &[DATA_BYTES, RECEIVERS, LOSS],
                figures_by: 2,
                alternatives: Some("protocol.retransmission"),
                quantities: &[THROUGHPUT, LATENCY, RETRANSMISSIONS],
                drawn: 1,
                quotient: Some(Quotient {
                    of: "unicast",
                    by: "multicast",
                    quantity: UNICAST_TO_MULTICAST,
                    figures_by: 1,
                }),
            }),
            conditions: &[
                "MSAW, 10 Mbit/s Ethernet, timers after bus activity, R by the law of open-ack-wait",
                "Timeout d + a r + R and an increment: 2250 bit times for each receiver, or r d",
            ],
        }),
    },
    Experiment {
        id: "open-error-tolerance",
        title: "Error tolerance with negative and round-robin acknowledgments (Segovia 1996, chapter 5)",
        shows: Shows::Study(StudySpec {
            plans: &[
                StudyPlan {
                    id: "open-error-tolerance-msaw",
                    name: "msaw",
                    plan: plan!("open-error-tolerance"),
                    settings: &[],
                },
                StudyPlan {
                    id: "open-error-tolerance-mbap",
                    name: "mbap",
                    plan: plan!("open-error-tolerance"),
                    settings: &[("protocol.name", "mbap")],
                },
                StudyPlan {
                    id: "open-error-tolerance-rra",
                    name: "rra",
                    plan: plan!("open-error-tolerance-rra"),
                    settings: &[],
                },
            ],
            analysis: Analysis::Means(MeansSpec {
                keys: &[RECEIVERS, LOSS],
                figures_by: 1,
                alternatives: Some("protocol.feedback"),
                quantities: &[THROUGHPUT, DELIVERY_LATENCY, RETRANSMISSIONS, CONTROL_PACKETS],
                drawn: 4,
                quotient: None,
            }),
            conditions: &[
                "10 Mbit/s Ethernet, timers after bus activity, 1518-byte data, no random wait",
                "ack, nak: with positive, negative acknowledgments; MBAP has a window of 10",
            ],
        }),
    },
];

const ACK_WAIT_PLANS: &[StudyPlan] = &[
    constant("open-ack-wait-msaw-1518", &[]),
    constant("open-ack-wait-msaw-64", SMALL),
    constant("open-ack-wait-mbap-5", WINDOW_5),
    constant("open-ack-wait-mbap-15", WINDOW_15),
    StudyPlan { id: "open-ack-wait-256", name: "", plan: plan!("open-ack-wait-256"), settings: &[] },
    adaptive("open-ack-wait-adaptive-msaw-1518", &[]),
    adaptive("open-ack-wait-adaptive-msaw-64", SMALL),
    adaptive("open-ack-wait-adaptive-mbap-5", WINDOW_5_LONG),
    adaptive("open-ack-wait-adaptive-mbap-15", WINDOW_15_LONG),
    adaptive("open-ack-wait-adaptive-256", &[("protocol.ack_bytes", "256 byte")]),
];

const fn constant(id: &'static str, settings: Settings) -> StudyPlan {
    StudyPlan { id, name: "", plan: plan!("open-ack-wait"), settings }
}

const fn adaptive(id: &'static str, settings: Settings) -> StudyPlan {
    StudyPlan { id, name: "", plan: plan!("open-ack-wait-adaptive"), settings }
}

type Settings = &'static [(&'static str, &'static str)];

const SMALL: Settings = &[("workload.message_bytes", "64")];
/// A receiver's own timer must not acknowledge into an open window.
const WINDOW_5: Settings = &[
    ("protocol.name", "mbap"),
    ("protocol.window", "5"),
    ("protocol.ack_timeout", "100 s"),
    ("workload.messages", "150"),
];
const WINDOW_15: Settings = &[
    ("protocol.name", "mbap"),
    ("protocol.window", "15"),
    ("protocol.ack_timeout", "100 s"),
    ("workload.messages", "150"),
    ("run.replications", "5"),
];
/// As many windows as the other conditions have messages.
const WINDOW_5_LONG: Settings = &[
    ("protocol.name", "mbap"),
    ("protocol.window", "5"),
    ("protocol.ack_timeout", "100 s"),
    ("workload.messages", "2000"),
];
const WINDOW_15_LONG: Settings = &[
    ("protocol.name", "mbap"),
    ("protocol.window", "15"),
    ("protocol.ack_timeout", "100 s"),
    ("workload.messages", "6000"),
];

const ACK_WAITS: &[Condition] = &[
    Condition {
        id: "msaw-1518",
        name: "MSAW, 1518-byte data",
        constant: "open-ack-wait-msaw-1518",
        adaptive: "open-ack-wait-adaptive-msaw-1518",
    },
    Condition {
        id: "msaw-64",
        name: "MSAW, 64-byte data",
        constant: "open-ack-wait-msaw-64",
        adaptive: "open-ack-wait-adaptive-msaw-64",
    },
    Condition {
        id: "mbap-5",
        name: "MBAP, window 5",
        constant: "open-ack-wait-mbap-5",
        adaptive: "open-ack-wait-adaptive-mbap-5",
    },
    Condition {
        id: "mbap-15",
        name: "MBAP, window 15",
        constant: "open-ack-wait-mbap-15",
        adaptive: "open-ack-wait-adaptive-mbap-15",
    },
    Condition {
        id: "msaw-a256",
        name: "MSAW, 256-byte acknowledgments",
        constant: "open-ack-wait-256",
        adaptive: "open-ack-wait-adaptive-256",
    },
];

const DATA_BYTES: Key = key("data bytes", "workload.message_bytes", 1.0);
const RECEIVERS: Key = key("receivers", "group.receivers", 1.0);
const LOSS: Key = key("loss %", "loss.p", 100.0);

const fn key(label: &'static str, scenario: &'static str, scale: f64) -> Key {
    Key { column: label, label, scenario, scale }
}

const THROUGHPUT: Quantity = Quantity {
    column: "throughput",
    label: "group throughput, Mbit/s",
    metric: "group_throughput_bps",
    scale: 1e-6,
    digits: 2,
    bound: None,
};
const UNICAST_TO_MULTICAST: Quantity = Quantity {
    column: "unicast-to-multicast",
    label: "group throughput with unicast / with multicast retransmission",
    scale: 1.0,
    ..THROUGHPUT
};
const LATENCY: Quantity = Quantity {
    column: "latency",
    label: "message latency, ms",
    metric: "message_latency_s",
    scale: 1e3,
    digits: 2,
    bound: None,
};
const DELIVERY_LATENCY: Quantity = Quantity {
    column: "delivery-latency",
    label: "delivery latency, ms",
    metric: "delivery_latency_s",
    ..LATENCY
};
const RETRANSMISSIONS: Quantity = Quantity {
    column: "retransmissions",
    label: "retransmissions per message",
    metric: "retransmissions_per_message",
    scale: 1.0,
    digits: 2,
    bound: None,
};
const CONTROL_PACKETS: Quantity = Quantity {
    column: "control-packets",
    label: "control packets per message",
    metric: "control_packets_per_message",
    scale: 1.0,
    digits: 2,
    bound: None,
};
