//! Segovia 1996, chapter 4: every table and figure.

use super::figures::{Curve, EachBound};
use super::{
    ExpectedDeviation, Experiment, FigureSpec, Key, Published, PublishedSamples, Quantity, Scenarios, Shows,
    TableSpec,
};

macro_rules! plan {
    ($table:literal) => {
        include_str!(concat!("../../../../experiments/plans/segovia-", $table, ".toml"))
    };
}

macro_rules! published {
    ($table:literal) => {
        include_str!(concat!("../../../../experiments/published/segovia-table-", $table, ".csv"))
    };
}

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "segovia-4.1",
        title: "MSAW, relative throughput and message latency (Segovia 1996, Table 4.1)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.1"), unicast_settings: UNICAST_SAW },
            published: Published::Table(published!("4.1")),
            keys: &[RECEIVERS],
            quantities: &[RELATIVE_THROUGHPUT, BOUNDED_LATENCY],
            published_samples: PublishedSamples::Packets(500),
            tolerance: 0.03,
            expected: None,
            deviations: "",
        }),
    },
    Experiment {
        id: "segovia-4.2",
        title: "MSAW, absolute and relative throughput for data packets of 64, 848 and 1436 bytes (Segovia 1996, Table 4.2)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.2"), unicast_settings: UNICAST_SAW },
            published: Published::Quoted(published!("4.2")),
            keys: &[DATA_BYTES, RECEIVERS],
            quantities: &[ABSOLUTE_THROUGHPUT, RELATIVE_THROUGHPUT],
            published_samples: PublishedSamples::Packets(500),
            tolerance: 0.03,
            expected: None,
            deviations: "",
        }),
    },
    Experiment {
        id: "segovia-4.3",
        title: "MSAW, absolute and relative throughput with SAWrand 12000, 22000 and 32000 (Segovia 1996, Table 4.3)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.3"), unicast_settings: None },
            published: Published::Quoted(published!("4.3")),
            keys: &[ACK_WAIT, RECEIVERS],
            quantities: &[ABSOLUTE_THROUGHPUT, RELATIVE_THROUGHPUT],
            published_samples: PublishedSamples::Packets(500),
            tolerance: 0.03,
            expected: None,
            deviations: "",
        }),
    },
    Experiment {
        id: "segovia-4.4",
        title: "MBAP, absolute and relative throughput for windows 5, 10 and 15 (Segovia 1996, Table 4.4)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.4"), unicast_settings: UNICAST_BAP },
            published: Published::Table(published!("4.4")),
            keys: &[WINDOW, RECEIVERS],
            quantities: &[ABSOLUTE_THROUGHPUT, RELATIVE_THROUGHPUT],
            published_samples: PublishedSamples::Windows { packets: 450, key: "protocol.window" },
            tolerance: 0.03,
            expected: None,
            deviations: ACK_DELAY_NOT_STATED,
        }),
    },
    Experiment {
        id: "segovia-4.5",
        title: "MBAP, relative throughput and message latency with BAPrand 12000, 22000 and 32000 at window 10 (Segovia 1996, Table 4.5)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.5"), unicast_settings: None },
            published: Published::Quoted(published!("4.5")),
            keys: &[ACK_WAIT, RECEIVERS],
            quantities: &[RELATIVE_THROUGHPUT, BOUNDED_LATENCY],
            published_samples: PublishedSamples::Packets(45),
            tolerance: 0.03,
            expected: None,
            deviations: ACK_DELAY_NOT_STATED,
        }),
    },
    Experiment {
        id: "segovia-4.6",
        title: "MSAW under errors, message latency and retransmissions (Segovia 1996, Table 4.6)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.6"), unicast_settings: None },
            published: Published::Table(published!("4.6")),
            keys: &[RECEIVERS, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Packets(500),
            tolerance: 0.15,
            expected: None,
            deviations: TIMERS,
        }),
    },
    Experiment {
        id: "segovia-4.7",
        title: "MSAW under errors with SAWrand 22000, message latency and retransmissions (Segovia 1996, Table 4.7)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.7"), unicast_settings: None },
            published: Published::Nothing,
            keys: &[RECEIVERS, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Packets(500),
            tolerance: 0.15,
            expected: None,
            deviations: TIMERS,
        }),
    },
    Experiment {
        id: "segovia-4.8",
        title: "MBAP under errors, 20 receivers, message latency and retransmissions (Segovia 1996, Table 4.8)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.8"), unicast_settings: None },
            published: Published::Table(published!("4.8")),
            keys: &[WINDOW, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Windows { packets: 500, key: "protocol.window" },
            tolerance: 0.15,
            expected: Some(MBAP_UNDER_ERRORS),
            deviations: BLOCK_TIMERS,
        }),
    },
    Experiment {
        id: "segovia-4.9",
        title: "MBAP under errors, 40 receivers, message latency and retransmissions (Segovia 1996, Table 4.9)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.9"), unicast_settings: None },
            published: Published::Nothing,
            keys: &[WINDOW, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Windows { packets: 500, key: "protocol.window" },
            tolerance: 0.15,
            expected: None,
            deviations: BLOCK_TIMERS,
        }),
    },
    Experiment {
        id: "segovia-4.10",
        title: "MBAP under errors, 60 receivers, message latency and retransmissions (Segovia 1996, Table 4.10)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.10"), unicast_settings: None },
            published: Published::Nothing,
            keys: &[WINDOW, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Windows { packets: 500, key: "protocol.window" },
            tolerance: 0.15,
            expected: None,
            deviations: BLOCK_TIMERS,
        }),
    },
    Experiment {
        id: "segovia-4.11",
        title: "MBAP under errors with BAPrand 22000, 20 receivers, message latency and retransmissions (Segovia 1996, Table 4.11)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.11"), unicast_settings: None },
            published: Published::Nothing,
            keys: &[WINDOW, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Windows { packets: 500, key: "protocol.window" },
            tolerance: 0.15,
            expected: None,
            deviations: BLOCK_TIMERS,
        }),
    },
    Experiment {
        id: "segovia-4.12",
        title: "MBAP under errors with BAPrand 22000, 40 receivers, message latency and retransmissions (Segovia 1996, Table 4.12)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.12"), unicast_settings: None },
            published: Published::Nothing,
            keys: &[WINDOW, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Windows { packets: 500, key: "protocol.window" },
            tolerance: 0.15,
            expected: None,
            deviations: BLOCK_TIMERS,
        }),
    },
    Experiment {
        id: "segovia-4.13",
        title: "MBAP under errors with BAPrand 22000, 60 receivers, message latency and retransmissions (Segovia 1996, Table 4.13)",
        shows: Shows::Table(TableSpec {
            scenarios: Scenarios { plan: plan!("4.13"), unicast_settings: None },
            published: Published::Nothing,
            keys: &[WINDOW, FAILURE_RATE],
            quantities: &[LATENCY, RETRANSMISSIONS],
            published_samples: PublishedSamples::Windows { packets: 500, key: "protocol.window" },
            tolerance: 0.15,
            expected: None,
            deviations: BLOCK_TIMERS,
        }),
    },
    Experiment {
        id: "segovia-fig-4.1",
        title: "MSAW, upper bound of relative throughput (Segovia 1996, Figure 4.1)",
        shows: Shows::Figure(FigureSpec::UpperBound { windows: &[1], receivers: 10_000.0 }),
    },
    Experiment {
        id: "segovia-fig-4.2",
        title: "MBAP, upper bound of relative throughput (Segovia 1996, Figure 4.2)",
        shows: Shows::Figure(FigureSpec::UpperBound { windows: &[5, 10, 15], receivers: 100_000.0 }),
    },
    Experiment {
        id: "segovia-fig-4.3",
        title: "MSAW, relative throughput (Segovia 1996, Figure 4.3)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.1",
            only: None,
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.4",
        title: "MSAW, message latency (Segovia 1996, Figure 4.4)",
        shows: Shows::Figure(FigureSpec::Percentiles(Curve {
            table: "segovia-4.1",
            only: None,
            metric: "message_latency_s",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.5",
        title: "MSAW, relative throughput, 64-byte data (Segovia 1996, Figure 4.5)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.2",
            only: Some(("workload.message_bytes", 64.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.6",
        title: "MSAW, relative throughput, 848-byte data (Segovia 1996, Figure 4.6)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.2",
            only: Some(("workload.message_bytes", 848.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.7",
        title: "MSAW, relative throughput, 1436-byte data (Segovia 1996, Figure 4.7)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.2",
            only: Some(("workload.message_bytes", 1436.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.8",
        title: "MSAW, relative throughput, SAWrand 12000 (Segovia 1996, Figure 4.8)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.3",
            only: Some(("protocol.ack_wait", 12000.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.9",
        title: "MSAW, relative throughput, SAWrand 22000 (Segovia 1996, Figure 4.9)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.3",
            only: Some(("protocol.ack_wait", 22000.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.10",
        title: "MSAW, relative throughput, SAWrand 32000 (Segovia 1996, Figure 4.10)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.3",
            only: Some(("protocol.ack_wait", 32000.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.11",
        title: "MSAW, mean relative throughput by SAWrand (Segovia 1996, Figure 4.11)",
        shows: Shows::Figure(FigureSpec::Means {
            curves: &[
                Curve { table: "segovia-4.1", only: None, metric: "relative_throughput", name: "SAWrand 0" },
                Curve {
                    table: "segovia-4.3",
                    only: Some(("protocol.ack_wait", 12000.0)),
                    metric: "relative_throughput",
                    name: "SAWrand 12000",
                },
                Curve {
                    table: "segovia-4.3",
                    only: Some(("protocol.ack_wait", 22000.0)),
                    metric: "relative_throughput",
                    name: "SAWrand 22000",
                },
                Curve {
                    table: "segovia-4.3",
                    only: Some(("protocol.ack_wait", 32000.0)),
                    metric: "relative_throughput",
                    name: "SAWrand 32000",
                },
            ],
            bounds: EachBound::Common,
        }),
    },
    Experiment {
        id: "segovia-fig-4.12",
        title: "MBAP, relative throughput, window 5 (Segovia 1996, Figure 4.12)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.4",
            only: Some(("protocol.window", 5.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.13",
        title: "MBAP, relative throughput, window 10 (Segovia 1996, Figure 4.13)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.4",
            only: Some(("protocol.window", 10.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.14",
        title: "MBAP, relative throughput, window 15 (Segovia 1996, Figure 4.14)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.4",
            only: Some(("protocol.window", 15.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.15",
        title: "MBAP, mean relative throughput by window (Segovia 1996, Figure 4.15)",
        shows: Shows::Figure(FigureSpec::Means {
            curves: &[
                Curve {
                    table: "segovia-4.4",
                    only: Some(("protocol.window", 5.0)),
                    metric: "relative_throughput",
                    name: "window 5",
                },
                Curve {
                    table: "segovia-4.4",
                    only: Some(("protocol.window", 10.0)),
                    metric: "relative_throughput",
                    name: "window 10",
                },
                Curve {
                    table: "segovia-4.4",
                    only: Some(("protocol.window", 15.0)),
                    metric: "relative_throughput",
                    name: "window 15",
                },
            ],
            bounds: EachBound::Own,
        }),
    },
    Experiment {
        id: "segovia-fig-4.16",
        title: "MBAP, relative throughput, window 10, BAPrand 12000 (Segovia 1996, Figure 4.16)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.5",
            only: Some(("protocol.ack_wait", 12000.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.17",
        title: "MBAP, relative throughput, window 10, BAPrand 22000 (Segovia 1996, Figure 4.17)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.5",
            only: Some(("protocol.ack_wait", 22000.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.18",
        title: "MBAP, relative throughput, window 10, BAPrand 32000 (Segovia 1996, Figure 4.18)",
        shows: Shows::Figure(FigureSpec::Spread(Curve {
            table: "segovia-4.5",
            only: Some(("protocol.ack_wait", 32000.0)),
            metric: "relative_throughput",
            name: "",
        })),
    },
    Experiment {
        id: "segovia-fig-4.19",
        title: "MBAP, mean relative throughput by BAPrand, window 10 (Segovia 1996, Figure 4.19)",
        shows: Shows::Figure(FigureSpec::Means {
            curves: &[
                Curve {
                    table: "segovia-4.4",
                    only: Some(("protocol.window", 10.0)),
                    metric: "relative_throughput",
                    name: "BAPrand 0",
                },
                Curve {
                    table: "segovia-4.5",
                    only: Some(("protocol.ack_wait", 12000.0)),
                    metric: "relative_throughput",
                    name: "BAPrand 12000",
                },
                Curve {
                    table: "segovia-4.5",
                    only: Some(("protocol.ack_wait", 22000.0)),
                    metric: "relative_throughput",
                    name: "BAPrand 22000",
                },
                Curve {
                    table: "segovia-4.5",
                    only: Some(("protocol.ack_wait", 32000.0)),
                    metric: "relative_throughput",
                    name: "BAPrand 32000",
                },
            ],
            bounds: EachBound::Common,
        }),
    },
];

const UNICAST_SAW: Option<&[(&str, &str)]> = Some(&[("protocol.name", "saw"), ("workload.messages", "20")]);
const UNICAST_BAP: Option<&[(&str, &str)]> = Some(&[
    ("protocol.name", "bap"),
    // Receivers that wait for their turn must not acknowledge into the others' runs.
    ("protocol.ack_timer", "until-full-window"),
    ("workload.messages", "60"),
]);

const ACK_DELAY_NOT_STATED: &str = "The table does not state the acknowledgment delay t. It is 600000 bit times here: it must not expire while acknowledgments are resolved.";
const TIMERS: &str = "Timers are looked at after bus activity, as in the loop of the 1996 simulator; with exact timers the error-free rows of Table 4.6 resend some twenty times as often as published. Loss is drawn at every transmission attempt and at every receiving interface.";
const BLOCK_TIMERS: &str = "Timers are looked at after bus activity, as in the loop of the 1996 simulator. The table states neither the acknowledgment delay nor the retransmission limit: they are those of the sample command file, 95000 bit times and 20. The delay timer stops after the acknowledgment of a full window: left running it would expire while acknowledgments are resolved, and messages would be resent without errors, which the error-free rows of Table 4.8 and section 4.4 (fewer than 2 %) exclude.";
/// The plain reading of the protocol is run, not one fitted to the numbers.
const MBAP_UNDER_ERRORS: ExpectedDeviation = ExpectedDeviation {
    column: "fail_pct",
    above: 0.0,
    reason: "The protocol as described, in which an acknowledgment covers all earlier messages and any lost packet is filled by the next resending of the window, recovers in fewer rounds than the published runs. Those resent a window of 10 some 8 times at every failure rate from 1 to 5 %: a repetition that does not depend on loss, for which no reading of the description was found. See docs/fidelity.md.",
};

const RECEIVERS: Key =
    Key { column: "receivers", label: "receivers", scenario: "group.receivers", scale: 1.0 };
const WINDOW: Key = Key { column: "window", label: "window", scenario: "protocol.window", scale: 1.0 };
const FAILURE_RATE: Key = Key { column: "fail_pct", label: "loss %", scenario: "loss.p", scale: 100.0 };
const DATA_BYTES: Key =
    Key { column: "data_bytes", label: "data bytes", scenario: "workload.message_bytes", scale: 1.0 };
const ACK_WAIT: Key =
    Key { column: "rand_bits", label: "random wait, bit times", scenario: "protocol.ack_wait", scale: 1.0 };

const RELATIVE_THROUGHPUT: Quantity = Quantity {
    column: "rt",
    label: "relative throughput",
    metric: "relative_throughput",
    scale: 1.0,
    digits: 3,
    bound: Some("ub_rt"),
};
const ABSOLUTE_THROUGHPUT: Quantity = Quantity {
    column: "at",
    label: "absolute throughput, Mbit/s",
    metric: "throughput_bps",
    scale: 1e-6,
    digits: 3,
    bound: Some("ub_at"),
};
/// Bit times at the thesis's 10 Mbit/s.
const LATENCY: Quantity = Quantity {
    column: "lat",
    label: "message latency, bit times",
    metric: "message_latency_s",
    scale: 1e7,
    digits: 0,
    bound: None,
};
const BOUNDED_LATENCY: Quantity = Quantity { bound: Some("lb_lat"), ..LATENCY };
const RETRANSMISSIONS: Quantity = Quantity {
    column: "retr",
    label: "retransmissions per message",
    metric: "retransmissions_per_message",
    scale: 1.0,
    digits: 3,
    bound: None,
};
