//! Metrics of routed networks: throughput, delay, repairs, and buffers of nodes.

use super::metric::Metric;
use crate::metrics::need::Need;
use crate::metrics::of_run::Run;
use crate::metrics::state::NodeRole;
use crate::metrics::subject::Subject;

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "normalized_throughput",
        unit: "1",
        sample: "run",
        needs: &[Need::Completions, Need::Graph, Need::Originals],
        definition: "rate of first transmissions after the first quarter of them (8 x message_bytes each) / rate of the links (`network.link_rate`)",
        source: "Paul et al. 1994, 6",
        subject: Subject::Unnamed,
        samples: |run| normalized_throughput(run).into_iter().collect(),
    },
    Metric {
        name: "wasted_bandwidth",
        unit: "1",
        sample: "run",
        needs: &[Need::Completions, Need::Graph, Need::Originals],
        definition: "1 - `normalized_throughput`: share of the source's link that carries no new messages",
        source: "Paul et al. 1994, 6.1, 7",
        subject: Subject::Unnamed,
        samples: |run| normalized_throughput(run).map(|throughput| 1.0 - throughput).into_iter().collect(),
    },
    Metric {
        name: "end_to_end_delay_s",
        unit: "s",
        sample: "run",
        needs: &[Need::Completions, Need::Graph],
        definition: "mean over deliveries of the time from the message's first transmission until the receiver has it ready for its application, in order",
        source: "Paul et al. 1994, 7 (figure 5)",
        subject: Subject::Unnamed,
        samples: |run| run.totals.traffic.delay().into_iter().collect(),
    },
    Metric {
        name: "global_repairs_per_s",
        unit: "1/s",
        sample: "run",
        needs: &[Need::Completions, Need::Graph],
        definition: "retransmissions by the source / time from the first transmission to the last delivery",
        source: "Paul et al. 1994, 7 (figure 6)",
        subject: Subject::Unnamed,
        samples: |run| run.totals.traffic.per_second(run.totals.traffic.global_repairs()),
    },
    Metric {
        name: "local_repairs_per_s",
        unit: "1/s",
        sample: "run",
        needs: &[Need::Completions, Need::Graph],
        definition: "repairs of the source's messages sent by other nodes / the same time",
        source: "Paul et al. 1994, 7 (figure 7)",
        subject: Subject::Unnamed,
        samples: |run| run.totals.traffic.per_second(run.totals.traffic.local_repairs()),
    },
    Metric {
        name: "feedback_to_source_per_s",
        unit: "1/s",
        sample: "run",
        needs: &[Need::Completions, Need::Graph],
        definition: "packets that other nodes sent to the source's own address (acknowledgments, statuses, requests) / the same time",
        source: "Paul et al. 1994, 7 (figure 8)",
        subject: Subject::Unnamed,
        samples: |run| run.totals.traffic.per_second(run.totals.traffic.to_source()),
    },
    Metric {
        name: "receiver_buffer_messages",
        unit: "1",
        sample: "run",
        needs: &[Need::Completions, Need::Graph],
        definition: "maximum number of messages in a receiver's buffer: out of order, waiting for its application, or kept for other receivers. Only protocols with receivers that report it (`held`) have it, otherwise 0",
        source: "Paul et al. 1994, table 3",
        subject: Subject::Unnamed,
        samples: |run| vec![run.totals.traffic.held() as f64],
    },
    Metric {
        name: "held_by_source",
        unit: "messages",
        sample: "run",
        needs: &[Need::Graph, Need::Held],
        definition: "maximum number of messages in the source's buffer: not completed yet, or (without completion) still open to requests",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.totals.state.most(NodeRole::Source),
    },
    Metric {
        name: "held_by_helpers",
        unit: "messages",
        sample: "run",
        needs: &[Need::Graph, Need::Held],
        definition: "maximum number of messages in the buffer of a helper that does not deliver: kept for others, or out of order",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.totals.state.most(NodeRole::Helper),
    },
    Metric {
        name: "held_by_receivers",
        unit: "messages",
        sample: "run",
        needs: &[Need::Graph, Need::Held],
        definition: "maximum number of messages in the buffer of a receiver: out of order, or kept for requests of others",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.totals.state.most(NodeRole::Receiver),
    },
    Metric {
        name: "emitted_at_once",
        unit: "packets",
        sample: "run",
        needs: &[Need::Graph],
        definition: "maximum number of packets that a node sent at one instant (its largest burst): first transmissions, repairs and control packets",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| vec![run.totals.state.emitted()],
    },
    Metric {
        name: "longest_wait_s",
        unit: "s",
        sample: "run",
        needs: &[Need::EachDelivery, Need::Death],
        definition: "maximum time from the offer of a message to a delivery after the death of a helper (`group.helper_dies`): at a steady rate, the stall of the receivers below the helper. Undelivered messages are counted by `undelivered_share`",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| vec![run.totals.state.longest()],
    },
];

/// New messages on the source's link, as a share of the link's capacity.
fn normalized_throughput(run: &Run<'_>) -> Option<f64> {
    let rate = run.scenario.network.bit_rate().bps() as f64;
    Some(run.totals.traffic.new_per_second()? * run.message_bits() / rate)
}
