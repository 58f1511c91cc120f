//! LMS, SRM and PGM on routed networks: chapter 5 of Papadopoulos, figure by figure, its claims, and
//! ns-2's agents on the same topologies.

pub mod agents;
pub mod claims;
mod plans;
pub mod summary;

use super::recovery::RecoverySpec;
use super::{Analysis, Experiment, Key, Quantity, Shows, StudyPlan, StudySpec};

const fn figure(
    id: &'static str,
    title: &'static str,
    recovery: RecoverySpec,
    plans: &'static [StudyPlan],
) -> Experiment {
    Experiment {
        id,
        title,
        shows: Shows::Study(StudySpec {
            plans,
            analysis: Analysis::Recovery(recovery),
            conditions: CONDITIONS,
        }),
    }
}

const CONDITIONS: &[&str] =
    &["Links of 1.5 Mbit/s, 1000-byte packets, one original lost at a time, repairs never; \
     latency over that of a unicast request and its repair"];

const TOPOLOGIES: Key =
    Key { column: "topology", label: "topology", scenario: "network.topology_seed", scale: 1.0 };
const HEIGHTS: Key = Key { column: "height", label: "height", scenario: "network.height", scale: 1.0 };

const LATENCY: Quantity = Quantity {
    column: "latency",
    label: "recovery latency / unicast recovery",
    metric: "normalized_recovery_latency",
    scale: 1.0,
    digits: 3,
    bound: None,
};
const EXPOSURE: Quantity = Quantity {
    column: "exposure",
    label: "exposure, %",
    metric: "exposure",
    scale: 100.0,
    digits: 2,
    bound: None,
};
const REQUESTS: Quantity = Quantity {
    column: "requests",
    label: "requests per loss",
    metric: "requests_per_loss",
    scale: 1.0,
    digits: 3,
    bound: None,
};
const REPAIRS: Quantity = Quantity {
    column: "repairs",
    label: "repairs per loss",
    metric: "repairs_per_loss",
    scale: 1.0,
    digits: 3,
    bound: None,
};
const REPEATED: Quantity = Quantity {
    column: "repeated",
    label: "retransmissions per loss",
    metric: "repeated_retransmissions",
    scale: 1.0,
    digits: 3,
    bound: None,
};

const LOSS: Key = Key { column: "loss", label: "loss on each link", scenario: "loss.p", scale: 1.0 };
const BAD: Key =
    Key { column: "to_bad", label: "probability to turn bad", scenario: "loss.to_bad", scale: 1.0 };
const DELIVERY: Quantity = Quantity {
    column: "delivery",
    label: "delivery latency, ms",
    metric: "delivery_latency_s",
    scale: 1e3,
    digits: 1,
    bound: None,
};
const CONTROL: Quantity = Quantity {
    column: "control",
    label: "packets without a message, per message",
    metric: "control_packets_per_message",
    scale: 1.0,
    digits: 2,
    bound: None,
};
const UNDELIVERED: Quantity = Quantity {
    column: "undelivered",
    label: "not delivered, %",
    metric: "undelivered_share",
    scale: 100.0,
    digits: 3,
    bound: None,
};

/// A study of what the chapter did not run.
const fn beyond(
    id: &'static str,
    title: &'static str,
    recovery: RecoverySpec,
    plans: &'static [StudyPlan],
    conditions: &'static [&'static str],
) -> Experiment {
    Experiment {
        id,
        title,
        shows: Shows::Study(StudySpec { plans, analysis: Analysis::Recovery(recovery), conditions }),
    }
}

macro_rules! beyond_plan {
    ($file:literal, $name:literal, $settings:expr) => {
        StudyPlan {
            id: concat!("routed-", $file, "-", $name),
            name: $name,
            plan: include_str!(concat!("../../../../../experiments/plans/routed-", $file, ".toml")),
            settings: $settings,
        }
    };
}

macro_rules! ns2 {
    ($name:literal, $file:literal, $settings:expr) => {
        StudyPlan {
            id: concat!("papadopoulos-ns2-", $name),
            name: $name,
            plan: include_str!(concat!("../../../../../experiments/plans/", $file, ".toml")),
            settings: $settings,
        }
    };
}

pub(super) const EXPERIMENTS: &[Experiment] = &[
    figure(
        "lms-5.4",
        "LMS latency, binary trees, loss at source",
        RecoverySpec { over: HEIGHTS, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-binary-source", "")],
    ),
    figure(
        "lms-5.5",
        "LMS latency, binary trees, loss at receivers",
        RecoverySpec { over: HEIGHTS, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-binary-receivers", "")],
    ),
    figure(
        "lms-5.6",
        "LMS latency, binary trees, loss at all links",
        RecoverySpec { over: HEIGHTS, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-binary-links", "")],
    ),
    figure(
        "lms-5.7",
        "LMS exposure, binary trees",
        RecoverySpec { over: HEIGHTS, quantities: &[EXPOSURE], extremes: false },
        &[
            plans::plan("lms-binary-source", "source"),
            plans::plan("lms-binary-receivers", "receivers"),
            plans::plan("lms-binary-links", "links"),
        ],
    ),
    figure(
        "lms-5.8",
        "LMS latency, random topologies, loss at source",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-random-100-source", "")],
    ),
    figure(
        "lms-5.9",
        "LMS latency, random topologies, loss at receivers",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-random-100-receivers", "")],
    ),
    figure(
        "lms-5.10",
        "LMS latency, random topologies, loss at all links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-random-100-links", "")],
    ),
    figure(
        "lms-5.11",
        "LMS exposure, random topologies",
        RecoverySpec { over: TOPOLOGIES, quantities: &[EXPOSURE], extremes: false },
        &[
            plans::plan("lms-random-100-source", "source"),
            plans::plan("lms-random-100-receivers", "receivers"),
            plans::plan("lms-random-100-links", "links"),
        ],
    ),
    figure(
        "lms-5.12",
        "LMS latency, random topologies, different receiver population",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: false },
        &[
            plans::plan("lms-random-5-links", "5 receivers"),
            plans::plan("lms-random-20-links", "20 receivers"),
            plans::plan("lms-random-100-links", "100 receivers"),
        ],
    ),
    figure(
        "lms-5.13",
        "LMS exposure, random topologies, different receiver population",
        RecoverySpec { over: TOPOLOGIES, quantities: &[EXPOSURE], extremes: false },
        &[
            plans::plan("lms-random-5-links", "5 receivers"),
            plans::plan("lms-random-20-links", "20 receivers"),
            plans::plan("lms-random-100-links", "100 receivers"),
        ],
    ),
    figure(
        "lms-5.14",
        "LMS latency, transit-stub topologies, loss at transit-transit links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-ts-100-transit-transit", "")],
    ),
    figure(
        "lms-5.15",
        "LMS latency, transit-stub topologies, loss at transit-stub links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-ts-100-transit-stub", "")],
    ),
    figure(
        "lms-5.16",
        "LMS latency, transit-stub topologies, loss at stub-stub links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-ts-100-stub-stub", "")],
    ),
    figure(
        "lms-5.17",
        "LMS latency, transit-stub topologies, loss at all links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("lms-ts-100-links", "")],
    ),
    figure(
        "lms-5.18",
        "LMS exposure, transit-stub topologies",
        RecoverySpec { over: TOPOLOGIES, quantities: &[EXPOSURE], extremes: false },
        &[
            plans::plan("lms-ts-100-transit-transit", "transit-transit links"),
            plans::plan("lms-ts-100-transit-stub", "transit-stub links"),
            plans::plan("lms-ts-100-stub-stub", "stub-stub links"),
            plans::plan("lms-ts-100-links", "all links"),
        ],
    ),
    figure(
        "srm-5.19",
        "SRM latency, random topologies, 20 receivers, loss at the source",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("srm-random-20-source", "")],
    ),
    figure(
        "srm-5.20",
        "SRM latency, random topologies, 20 receivers, loss at all receivers",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("srm-random-20-receivers", "")],
    ),
    figure(
        "srm-5.21",
        "SRM latency, random topologies, 20 receivers, loss at all links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("srm-random-20-links", "")],
    ),
    figure(
        "srm-5.22",
        "SRM requests, random topologies, 20 receivers",
        RecoverySpec { over: TOPOLOGIES, quantities: &[REQUESTS], extremes: false },
        &[
            plans::plan("srm-random-20-source", "source"),
            plans::plan("srm-random-20-receivers", "receivers"),
            plans::plan("srm-random-20-links", "links"),
        ],
    ),
    figure(
        "srm-5.23",
        "SRM replies, random topologies, 20 receivers",
        RecoverySpec { over: TOPOLOGIES, quantities: &[REPAIRS], extremes: false },
        &[
            plans::plan("srm-random-20-source", "source"),
            plans::plan("srm-random-20-receivers", "receivers"),
            plans::plan("srm-random-20-links", "links"),
        ],
    ),
    figure(
        "srm-5.24",
        "SRM requests and replies, adaptive timers, loss at all links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[REQUESTS, REPAIRS], extremes: false },
        &[
            plans::plan("srm-random-20-links", "fixed timers"),
            plans::plan("srmadaptive-random-20-links", "adaptive timers"),
        ],
    ),
    figure(
        "srm-5.25",
        "SRM latency, adaptive timers, loss at all links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("srmadaptive-random-20-links", "")],
    ),
    figure(
        "srm-100",
        "SRM with 100 receivers, random topologies, loss at all links: what the chapter could not run",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY, REQUESTS, REPAIRS], extremes: true },
        &[plans::plan("srm-random-100-links", "")],
    ),
    figure(
        "pgm-5.26",
        "PGM latency, random topologies, loss at the source",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("pgm-random-100-source", "")],
    ),
    figure(
        "pgm-5.27",
        "PGM latency, random topologies, loss at each receiver",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("pgm-random-100-receivers", "")],
    ),
    figure(
        "pgm-5.28",
        "PGM latency, random topologies, loss at all links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[LATENCY], extremes: true },
        &[plans::plan("pgm-random-100-links", "")],
    ),
    figure(
        "pgm-5.29",
        "PGM repeated retransmissions, loss at the source",
        RecoverySpec { over: TOPOLOGIES, quantities: &[REPEATED], extremes: true },
        &[plans::plan("pgm-random-100-source", "")],
    ),
    figure(
        "pgm-5.30",
        "PGM repeated retransmissions, loss at all links",
        RecoverySpec { over: TOPOLOGIES, quantities: &[REPEATED], extremes: true },
        &[plans::plan("pgm-random-100-links", "")],
    ),
    beyond(
        "routed-sustained",
        "LMS, SRM and PGM with loss on every link, requests and repairs too",
        RecoverySpec {
            over: LOSS,
            quantities: &[DELIVERY, LATENCY, EXPOSURE, REPAIRS, CONTROL, UNDELIVERED],
            extremes: false,
        },
        &[
            beyond_plan!("sustained", "lms", &[]),
            beyond_plan!("sustained", "srm", &[("protocol.name", "srm")]),
            beyond_plan!("sustained", "pgm", &[("protocol.name", "pgm")]),
            beyond_plan!(
                "sustained",
                "pgm-on-tree",
                &[("protocol.name", "pgm"), ("protocol.ne_dlr_sqns", "64")]
            ),
        ],
        &[
            "Random topologies, 20 receivers, 600 packets at 10 a second, independent loss on every link and direction; \
           in pgm-on-tree each network element is a repairer too",
        ],
    ),
    beyond(
        "routed-adaptive",
        "LMS: repliers that stay, and repliers that change with the losses",
        RecoverySpec {
            over: BAD,
            quantities: &[EXPOSURE, LATENCY, DELIVERY, REQUESTS, CONTROL, UNDELIVERED],
            extremes: false,
        },
        &[
            beyond_plan!("adaptive", "static", &[]),
            beyond_plan!("adaptive", "adaptive", &[("protocol.replier_choice", "adaptive")]),
        ],
        &[
            "Random topologies, 100 receivers, 1200 packets at 10 a second; every link and direction is good or, for 100 \
           packets on average, loses every other one; a receiver offers itself anew every 50 packets",
        ],
    ),
    Experiment {
        id: "papadopoulos-5.1",
        title: "Table 5.1: performance summary of LMS, SRM and PGM, on every kind of topology",
        shows: Shows::Study(StudySpec {
            plans: plans::PLANS,
            analysis: Analysis::Summary,
            conditions: CONDITIONS,
        }),
    },
    Experiment {
        id: "papadopoulos-claims",
        title: "What chapter 5 says in words, claim by claim",
        shows: Shows::Study(StudySpec {
            plans: plans::PLANS,
            analysis: Analysis::Claims,
            conditions: CONDITIONS,
        }),
    },
    Experiment {
        id: "papadopoulos-ns2",
        title: "The agents of ns-2.35 on the same topologies and losses",
        shows: Shows::Study(StudySpec {
            plans: &[
                ns2!("lms", "routed-ns2", &[]),
                ns2!(
                    "pgm0",
                    "routed-ns2",
                    &[
                        ("protocol.name", "pgm"),
                        ("loss.apart", "4 s"),
                        ("protocol.nak_bo_ivl", "0 ms"),
                        ("protocol.rdata_delay", "0 ms"),
                        ("protocol.ne_nak_rpt_rte", "1 s"),
                        ("protocol.nak_elim_ivl", "5 s")
                    ]
                ),
                ns2!(
                    "pgm",
                    "routed-ns2",
                    &[
                        ("protocol.name", "pgm"),
                        ("loss.apart", "4 s"),
                        ("protocol.nak_elim_ivl", "5 s"),
                        ("run.replications", "5")
                    ]
                ),
                ns2!("srm", "routed-ns2-srm", &[]),
                ns2!("srmlog", "routed-ns2-srm", &[("protocol.timers", "log")]),
                ns2!(
                    "srmadaptive",
                    "routed-ns2-srm",
                    &[("protocol.timers", "adaptive"), ("loss.apart", "15 s")]
                ),
            ],
            analysis: Analysis::Agents,
            conditions: &[
                "LMS and PGM without back-off are to agree within 5 %, random waits within the 95 % interval of one run",
            ],
        }),
    },
];
