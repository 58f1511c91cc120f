//! The shipped experiments.

use super::{Cell, Experiment, Key, PublishedSamples};

/// Every shipped experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "segovia-4.1",
        title: "MSAW, relative throughput and message latency (Segovia 1996, Table 4.1)",
        plan: include_str!("../../../../experiments/plans/segovia-4.1.toml"),
        published: include_str!("../../../../experiments/published/segovia-table-4.1.csv"),
        keys: &[RECEIVERS],
        cells: &[RELATIVE_THROUGHPUT, LATENCY],
        published_samples: PublishedSamples::Packets(500),
        tolerance: 0.03,
        unicast_settings: Some(&[("protocol.name", "saw"), ("workload.messages", "20")]),
        deviations: "",
    },
    Experiment {
        id: "segovia-4.4",
        title: "MBAP, absolute and relative throughput (Segovia 1996, Table 4.4)",
        plan: include_str!("../../../../experiments/plans/segovia-4.4.toml"),
        published: include_str!("../../../../experiments/published/segovia-table-4.4.csv"),
        keys: &[WINDOW, RECEIVERS],
        cells: &[ABSOLUTE_THROUGHPUT, RELATIVE_THROUGHPUT],
        published_samples: PublishedSamples::Windows { packets: 450, key: "protocol.window" },
        tolerance: 0.03,
        unicast_settings: Some(&[
            ("protocol.name", "bap"),
            // Receivers that wait for their turn must not acknowledge into the others' runs.
            ("protocol.ack_timer", "until-full-window"),
            ("workload.messages", "60"),
        ]),
        deviations: "The table does not state the acknowledgment delay t. It is 600000 bit times here: it must not expire while acknowledgments are resolved.",
    },
    Experiment {
        id: "segovia-4.6",
        title: "MSAW under errors, message latency and retransmissions (Segovia 1996, Table 4.6)",
        plan: include_str!("../../../../experiments/plans/segovia-4.6.toml"),
        published: include_str!("../../../../experiments/published/segovia-table-4.6.csv"),
        keys: &[RECEIVERS, FAILURE_RATE],
        cells: &[LATENCY, RETRANSMISSIONS],
        published_samples: PublishedSamples::Packets(500),
        tolerance: 0.15,
        unicast_settings: None,
        deviations: "Timers are looked at after bus activity, as in the loop of the 1996 simulator; with exact timers the error-free rows resend some twenty times as often as published. Loss is drawn at every transmission attempt and at every receiving interface.",
    },
];

/// The experiment of this name.
pub fn find(id: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.id == id)
}

const RECEIVERS: Key =
    Key { column: "receivers", label: "receivers", scenario: "group.receivers", scale: 1.0 };
const WINDOW: Key = Key { column: "window", label: "window", scenario: "protocol.window", scale: 1.0 };
const FAILURE_RATE: Key = Key { column: "fail_pct", label: "loss %", scenario: "loss.p", scale: 100.0 };

const RELATIVE_THROUGHPUT: Cell = Cell {
    column: "mean_rt",
    label: "relative throughput",
    metric: "relative_throughput",
    scale: 1.0,
    digits: 3,
};
const ABSOLUTE_THROUGHPUT: Cell = Cell {
    column: "mean_at",
    label: "absolute throughput, Mbit/s",
    metric: "throughput_bps",
    scale: 1e-6,
    digits: 3,
};
/// Bit times at the thesis's 10 Mbit/s.
const LATENCY: Cell = Cell {
    column: "mean_lat",
    label: "message latency, bit times",
    metric: "message_latency_s",
    scale: 1e7,
    digits: 0,
};
const RETRANSMISSIONS: Cell = Cell {
    column: "mean_retr",
    label: "retransmissions per message",
    metric: "retransmissions_per_message",
    scale: 1.0,
    digits: 3,
};
