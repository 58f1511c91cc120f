//! Metrics of losses that receivers request and repair.

use super::metric::Metric;
use crate::metrics::need::Need;
use crate::metrics::of_run::per_loss;
use crate::metrics::subject::Subject;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "recovery_latency_s",
        unit: "s",
        sample: "loss and receiver",
        needs: &[Need::Graph, Need::Requests],
        definition: "from the detection of a missing message at a receiver (by a gap in the data, another node's request, or a session message) until its repair arrived. Originals that were merely late do not count",
        source: "Papadopoulos, 5.4",
        subject: Subject::Receiver(|run| run.receivers_of_repairs()),
        samples: |run| run.of_repairs(|latency, _| latency),
    },
    Metric {
        name: "normalized_recovery_latency",
        unit: "1",
        sample: "loss and receiver",
        needs: &[Need::Graph, Need::Requests],
        definition: "recovery latency / the time of a unicast request (80 bytes) from that receiver to the source and its repair (message_bytes) back on the idle network, each stored and forwarded at every hop: unicast recovery is 1",
        source: "Papadopoulos, 5.4",
        subject: Subject::Receiver(|run| run.receivers_of_repairs()),
        samples: |run| run.of_repairs(|latency, unicast| latency / unicast.recovery),
    },
    Metric {
        name: "normalized_recovery_latency_propagation",
        unit: "1",
        sample: "loss and receiver",
        needs: &[Need::Graph, Need::Requests],
        definition: "recovery latency / twice the propagation delay between receiver and source",
        source: "Papadopoulos, 5.4",
        subject: Subject::Receiver(|run| run.receivers_of_repairs()),
        samples: |run| run.of_repairs(|latency, unicast| latency / unicast.propagation),
    },
    Metric {
        name: "recoveries_per_loss",
        unit: "1",
        sample: "run",
        needs: &[Need::Graph, Need::Requests],
        definition: "losses detected by receivers and repaired / losses on links",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| per_loss(run, run.totals.recoveries.repaired.len() as u64),
    },
    Metric {
        name: "exposure",
        unit: "1",
        sample: "run",
        needs: &[Need::Graph, Need::Requests],
        definition: "duplicate data packets received / receivers / losses",
        source: "Papadopoulos, 5.4",
        subject: Subject::Unnamed,
        samples: |run| {
            let receivers = run.receivers();
            per_loss(run, run.totals.recoveries.duplicates).into_iter().map(|each| each / receivers).collect()
        },
    },
    Metric {
        name: "requests_per_loss",
        unit: "1",
        sample: "run",
        needs: &[Need::Graph, Need::Requests],
        definition: "requests originated by receivers, repetitions included / losses",
        source: "Papadopoulos, 5.4",
        subject: Subject::Unnamed,
        samples: |run| per_loss(run, run.totals.recoveries.requests),
    },
    Metric {
        name: "repairs_per_loss",
        unit: "1",
        sample: "run",
        needs: &[Need::Graph, Need::Requests],
        definition: "repairs sent by any node / losses",
        source: "Papadopoulos, 5.4",
        subject: Subject::Unnamed,
        samples: |run| per_loss(run, run.totals.recoveries.repairs.iter().sum()),
    },
    Metric {
        name: "repeated_retransmissions",
        unit: "1",
        sample: "run",
        needs: &[Need::Graph, Need::Requests],
        definition: "repairs sent by the source of the message / losses",
        source: "Papadopoulos, 5.4",
        subject: Subject::Unnamed,
        samples: |run| per_loss(run, run.totals.recoveries.repairs[0]),
    },
    Metric {
        name: "losses",
        unit: "1",
        sample: "run",
        needs: &[Need::Graph, Need::Originals],
        definition: "number of first transmissions lost on links; the divisor of the metrics per loss above",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| vec![run.totals.recoveries.losses as f64],
    },
];
