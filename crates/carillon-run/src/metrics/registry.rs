//! The registry of metrics: what each is, what it needs, and how it is taken. `docs/reference/metrics.md` has its
//! table.

use carillon_core::{NodeId, Time};

use super::bounds::Terms;
use super::need::Need;
use super::of_run::{Run, per_loss};
use super::receivers::{jain_index, worst};
use super::recorder::{MessageRecord, Totals, expected_deliveries};
use super::state::NodeRole;
use super::subject::{Subject, nodes_of, values_of};
use crate::scenario::Scenario;

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name in result tables.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Unit of observation: the entity that one sample describes.
    pub sample: &'static str,
    /// The facts it needs; where one is not given there is no such metric, never a zero.
    pub needs: &'static [Need],
    /// Definition of the metric.
    pub definition: &'static str,
    /// Source of the definition.
    pub source: &'static str,
    /// Nodes that the samples describe.
    pub(super) subject: Subject,
    /// Computes the samples. Called once per run, so it may move long lists out of the run.
    pub(super) samples: fn(&mut Run<'_>) -> Vec<f64>,
}

/// The samples of one metric in a run.
pub type Samples = (&'static str, Vec<f64>);

/// The nodes that the samples of a metric describe, in the order of the samples.
pub type SampleNodes = (&'static str, Vec<NodeId>);

/// Samples of every metric with satisfied requirements, and the nodes of samples as far as the scenario measures them.
pub fn samples(
    scenario: &Scenario,
    messages: &[MessageRecord],
    totals: Totals,
) -> (Vec<Samples>, Vec<SampleNodes>) {
    let repairs = scenario.network.graph().map(|graph| totals.recoveries.repairs_beside(scenario, graph));
    let mut run = Run { scenario, messages, totals, repairs: repairs.unwrap_or_default() };
    let given = METRICS.iter().filter(|metric| metric.needs.iter().all(|need| need.is_given(scenario)));
    let (mut samples, mut nodes) = (Vec::new(), Vec::new());
    for metric in given {
        // The samples may move out of the run.
        nodes.extend(metric.subject.nodes(&run).map(|nodes| (metric.name, nodes)));
        samples.push((metric.name, (metric.samples)(&mut run)));
    }
    (samples, nodes)
}

/// Every metric, in the order of the rows of a summary.
pub static METRICS: &[Metric] = &[
    Metric {
        name: "message_latency_s",
        unit: "s",
        sample: "message",
        needs: &[Need::Completions],
        definition: "T: from the first transmission request of the message at the sender until the sender knows that all receivers have it, or abandons it. With a window, the latency of the whole window",
        source: "Segovia 1996, 3.5",
        subject: Subject::Unnamed,
        samples: |run| run.of_messages(|_, message| latency(message)),
    },
    Metric {
        name: "throughput_bps",
        unit: "bit/s",
        sample: "message",
        needs: &[Need::Completions],
        definition: "r n (8 x message_bytes) / T: useful bits times receivers over time, called absolute throughput by Segovia (headers count as useful, as there)",
        source: "Segovia 1996, 2.3, SAS program",
        subject: Subject::Unnamed,
        samples: |run| {
            run.of_messages(|run, message| {
                run.receivers() * f64::from(message.window) * run.message_bits() / latency(message)
            })
        },
    },
    Metric {
        name: "relative_throughput",
        unit: "1",
        sample: "message",
        needs: &[Need::Completions, Need::UnicastEquivalent],
        definition: "(r n d + r a) / T: time of the equivalent unicast protocol, divided by the measured time",
        source: "Segovia 1996, eq. 4.4, 4.12",
        subject: Subject::Unnamed,
        samples: |run| {
            let Some(terms) = Terms::of(run.scenario) else { return Vec::new() };
            run.of_messages(|_, message| terms.unicast_time(message.window.into()) / latency(message))
        },
    },
    Metric {
        name: "retransmissions_per_message",
        unit: "1",
        sample: "message",
        needs: &[Need::Completions],
        definition: "number of retransmissions of the message",
        source: "Segovia 1996, 3.5",
        subject: Subject::Unnamed,
        samples: |run| run.of_messages(|_, message| message.retransmissions.into()),
    },
    Metric {
        name: "collisions_per_message",
        unit: "1",
        sample: "message",
        needs: &[Need::Completions, Need::Lan],
        definition: "collisions on the medium since the previous completion, shared among the messages completed at one instant",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.of_messages(|_, message| message.collisions),
    },
    Metric {
        name: "failed_messages",
        unit: "1",
        sample: "message",
        needs: &[Need::Completions],
        definition: "1 if the sender abandoned the message, else 0; the mean is the share of failed messages",
        source: "Segovia 1996, 3.5 (`fail`)",
        subject: Subject::Unnamed,
        samples: |run| run.of_messages(|_, message| f64::from(u8::from(message.failed))),
    },
    Metric {
        name: "group_throughput_bps",
        unit: "bit/s",
        sample: "run",
        needs: &[Need::Completions],
        definition: "r (8 x message_bytes) x messages acknowledged by all / time from the first transmission request to the last completion: throughput of a protocol with several messages in flight",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| vec![run.receivers() * completed(run) * run.message_bits() / seconds(run)],
    },
    Metric {
        name: "user_throughput_bps",
        unit: "bit/s",
        sample: "run",
        needs: &[Need::Completions],
        definition: "8 x bytes of the payloads of all messages / time from the first offer to the last completion: goodput as seen by the sending user, counted once for all receivers. A run that abandoned a message or expelled a member has no value",
        source: "Johnstone and Williams 1997, IV",
        subject: Subject::Unnamed,
        samples: |run| {
            let workload = &run.scenario.workload;
            let complete = completed(run) == workload.messages as f64 && run.totals.members_lost == 0;
            let end = run.messages.iter().map(|message| message.end).max();
            match (crate::run::payload_bytes(run.scenario), end) {
                (Ok(payload), Some(end)) if complete && run.scenario.senders == 1 => {
                    let seconds = (end - (Time::ZERO + workload.start)).as_secs_f64();
                    vec![8.0 * workload.user_bytes(payload) as f64 / seconds]
                }
                _ => Vec::new(),
            }
        },
    },
    Metric {
        name: "failed_runs",
        unit: "1",
        sample: "run",
        needs: &[Need::Completions],
        definition: "1 if a member was expelled or a message abandoned in the run, else 0; the mean is the share of failed runs",
        source: "Johnstone and Williams 1997, IV",
        subject: Subject::Unnamed,
        samples: |run| {
            let gave_up = run.totals.members_lost > 0 || run.messages.iter().any(|message| message.failed);
            vec![f64::from(u8::from(gave_up))]
        },
    },
    Metric {
        name: "wtimer_expiries",
        unit: "1",
        sample: "run",
        needs: &[Need::Timer("wtimer")],
        definition: "number of WTIMER expiries: a requested status did not arrive in time",
        source: "Johnstone and Williams 1997, V.A.2",
        subject: Subject::Unnamed,
        samples: |run| vec![run.totals.waits[0] as f64],
    },
    Metric {
        name: "ctimeout_expiries",
        unit: "1",
        sample: "run",
        needs: &[Need::Timer("ctimeout")],
        definition: "number of CTIMEOUT expiries: a synchronizing handshake took too long",
        source: "Johnstone and Williams 1997, V.A.2",
        subject: Subject::Unnamed,
        samples: |run| vec![run.totals.waits[1] as f64],
    },
    Metric {
        name: "packet_throughput_per_ms",
        unit: "1/ms",
        sample: "run",
        needs: &[Need::Completions, Need::Parents],
        definition: "T: messages acknowledged by all / time from the first transmission request to the last completion, in milliseconds",
        source: "Barcellos and Ezhilchelvan, 4",
        subject: Subject::Unnamed,
        samples: |run| vec![completed(run) / (1e3 * seconds(run))],
    },
    Metric {
        name: "network_cost",
        unit: "1",
        sample: "parent",
        needs: &[Need::Parents],
        definition: "N: packets between a parent and its children, in both directions (a multicast counts once for each child) / (messages x children). On a star, as in the source, packets put on the children's links. In a tree there is one sample for the source and one for each helper: packets between it and its children, their multicasts, and the multicasts of the source",
        source: "Barcellos and Ezhilchelvan, 4",
        subject: Subject::Unnamed,
        samples: |run| match run.is_star() {
            true => run.per_delivery(run.totals.frames),
            false => run.totals.parents.costs(run.messages_offered()),
        },
    },
    Metric {
        name: "implosion_losses",
        unit: "1",
        sample: "parent",
        needs: &[Need::Parents, Need::Implosion],
        definition: "I: packets lost because the parent's input buffer was full / (messages x children)",
        source: "Barcellos and Ezhilchelvan, 4",
        subject: Subject::Unnamed,
        samples: |run| run.totals.parents.implosions(run.messages_offered()),
    },
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
    Metric {
        name: "wire_bytes_per_useful_byte",
        unit: "1",
        sample: "run",
        needs: &[],
        definition: "bytes of all frames on the medium / (message_bytes x messages delivered, averaged over the receivers)",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| {
            let bytes = run.totals.deliveries as f64 * f64::from(run.scenario.workload.message_bytes);
            vec![run.totals.frame_bytes as f64 / (bytes / run.receivers())]
        },
    },
    Metric {
        name: "control_packets_per_message",
        unit: "1",
        sample: "run",
        needs: &[],
        definition: "packets sent that carry no message (acknowledgments, requests, statuses, polls, tokens) / messages completed; nodes of a LAN count each packet once, for any number of receivers",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| vec![run.totals.control_packets as f64 / run.messages_offered()],
    },
    Metric {
        name: "undelivered_share",
        unit: "1",
        sample: "run",
        needs: &[],
        definition: "1 - deliveries / (messages x receivers): share of deliveries still missing at the end of the run",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| vec![1.0 - run.totals.deliveries as f64 / expected_deliveries(run.scenario) as f64],
    },
    Metric {
        name: "delivery_latency_s",
        unit: "s",
        sample: "message and receiver",
        needs: &[Need::EachDelivery],
        definition: "from the moment the message was offered until the receiver has it ready for its application. At a steady rate a message is offered when it is due, even if the sender has no room for it; without a rate, when the sender accepts it. An undelivered message has no latency: it is counted by `undelivered_share`, and `run` warns of it",
        source: "",
        subject: Subject::Receiver(|run| run.totals.receivers.of_latencies()),
        samples: |run| std::mem::take(&mut run.totals.delivery_latencies).into_seconds(),
    },
    Metric {
        name: "receiver_latency_s",
        unit: "s",
        sample: "receiver",
        needs: &[Need::Receivers],
        definition: "mean of `delivery_latency_s` at a receiver, for any number of deliveries. A receiver without deliveries has none",
        source: "",
        subject: Subject::Receiver(|run| nodes_of(&run.totals.receivers.latencies())),
        samples: |run| values_of(&run.totals.receivers.latencies()),
    },
    Metric {
        name: "receiver_throughput_bps",
        unit: "bit/s",
        sample: "receiver",
        needs: &[Need::Receivers],
        definition: "(8 x message_bytes) x messages delivered to a receiver / time from `workload.start` until its last delivery; 0 for a receiver without deliveries",
        source: "",
        subject: Subject::Receiver(|run| nodes_of(&run.receiver_throughputs())),
        samples: |run| values_of(&run.receiver_throughputs()),
    },
    Metric {
        name: "receiver_undelivered_share",
        unit: "1",
        sample: "receiver",
        needs: &[Need::Receivers],
        definition: "1 - messages delivered to a receiver / messages of all other senders",
        source: "",
        subject: Subject::Receiver(|run| nodes_of(&run.receiver_undelivered_shares())),
        samples: |run| values_of(&run.receiver_undelivered_shares()),
    },
    Metric {
        name: "worst_receiver_latency_s",
        unit: "s",
        sample: "run",
        needs: &[Need::Receivers],
        definition: "maximum of `receiver_latency_s`; the sample names the receiver, of several the one with the lowest number",
        source: "",
        subject: Subject::Receiver(|run| nodes_of(worst(&run.totals.receivers.latencies(), 1.0).as_slice())),
        samples: |run| values_of(worst(&run.totals.receivers.latencies(), 1.0).as_slice()),
    },
    Metric {
        name: "worst_receiver_throughput_bps",
        unit: "bit/s",
        sample: "run",
        needs: &[Need::Receivers],
        definition: "minimum of `receiver_throughput_bps`; the sample names the receiver, of several the one with the lowest number",
        source: "",
        subject: Subject::Receiver(|run| nodes_of(worst(&run.receiver_throughputs(), -1.0).as_slice())),
        samples: |run| values_of(worst(&run.receiver_throughputs(), -1.0).as_slice()),
    },
    Metric {
        name: "session_throughput_bps",
        unit: "bit/s",
        sample: "run",
        needs: &[Need::Receivers, Need::Competitor],
        definition: "(8 x message_bytes) x messages delivered to the receiver with the fewest / time from `workload.start` until the last delivery of the session or report of the competing flow",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.shares().map(|shares| shares[0].1).into_iter().collect(),
    },
    Metric {
        name: "competitor_throughput_bps",
        unit: "bit/s",
        sample: "run",
        needs: &[Need::Receivers, Need::Competitor],
        definition: "(8 x message_bytes) x packets of the competing flow that arrived at the first receiver / the same time",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.shares().map(|shares| shares[1].1).into_iter().collect(),
    },
    Metric {
        name: "competition_fairness",
        unit: "1",
        sample: "run",
        needs: &[Need::Receivers, Need::Competitor],
        definition: "Jain's index over `session_throughput_bps` and `competitor_throughput_bps`: 1 if both have the same, 1/2 if one has everything",
        source: "Jain, Chiu and Hawe 1984",
        subject: Subject::Unnamed,
        samples: |run| run.shares().and_then(|shares| jain_index(&shares)).into_iter().collect(),
    },
    Metric {
        name: "queueing_delay_s",
        unit: "s",
        sample: "run",
        needs: &[Need::Queues],
        definition: "mean over all packets that leave the source's node of the time that they wait for its link",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.totals.traffic.queueing_delay().into_iter().collect(),
    },
    Metric {
        name: "latency_fairness",
        unit: "1",
        sample: "run",
        needs: &[Need::Receivers],
        definition: "Jain's index (sum of x)^2 / (n x sum of x^2) over `receiver_latency_s` of the n receivers with deliveries",
        source: "Jain, Chiu and Hawe 1984",
        subject: Subject::Unnamed,
        samples: |run| jain_index(&run.totals.receivers.latencies()).into_iter().collect(),
    },
    Metric {
        name: "throughput_fairness",
        unit: "1",
        sample: "run",
        needs: &[Need::Receivers],
        definition: "Jain's index over `receiver_throughput_bps` of all receivers: 1 if all have the same, k/n if k of n share all",
        source: "Jain, Chiu and Hawe 1984",
        subject: Subject::Unnamed,
        samples: |run| jain_index(&run.receiver_throughputs()).into_iter().collect(),
    },
    Metric {
        name: "interrupts_at_source",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes],
        definition: "packets that reach each node that sends / messages: each one interrupts it. Packets lost on links or at a full input buffer do not reach it",
        source: "Segovia 1996, 2.3",
        subject: Subject::Node(|run| nodes_of(&run.interrupts(NodeRole::Source))),
        samples: |run| values_of(&run.interrupts(NodeRole::Source)),
    },
    Metric {
        name: "interrupts_at_receivers",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes],
        definition: "packets that reach each receiver / messages: each one interrupts it. Packets lost on links or at a full input buffer do not reach it",
        source: "Segovia 1996, 2.3",
        subject: Subject::Node(|run| nodes_of(&run.interrupts(NodeRole::Receiver))),
        samples: |run| values_of(&run.interrupts(NodeRole::Receiver)),
    },
    Metric {
        name: "interrupts_at_helpers",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes, Need::Helpers],
        definition: "packets that reach each helper that does not deliver / messages: each one interrupts it. Packets lost on links or at a full input buffer do not reach it",
        source: "Segovia 1996, 2.3",
        subject: Subject::Node(|run| nodes_of(&run.interrupts(NodeRole::Helper))),
        samples: |run| values_of(&run.interrupts(NodeRole::Helper)),
    },
    Metric {
        name: "packets_handled_by_source",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes],
        definition: "packets that each node that sends sends or receives / messages: the processing cost of the node with a unit cost for each packet. A multicast counts once at its sender",
        source: "Pingali, Towsley and Kurose 1994",
        subject: Subject::Node(|run| nodes_of(&run.packets_handled(NodeRole::Source))),
        samples: |run| values_of(&run.packets_handled(NodeRole::Source)),
    },
    Metric {
        name: "packets_handled_by_receivers",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes],
        definition: "packets that each receiver sends or receives / messages: the processing cost of the node with a unit cost for each packet. A multicast counts once at its sender",
        source: "Pingali, Towsley and Kurose 1994",
        subject: Subject::Node(|run| nodes_of(&run.packets_handled(NodeRole::Receiver))),
        samples: |run| values_of(&run.packets_handled(NodeRole::Receiver)),
    },
    Metric {
        name: "packets_handled_by_helpers",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes, Need::Helpers],
        definition: "packets that each helper that does not deliver sends or receives / messages: the processing cost of the node with a unit cost for each packet. A multicast counts once at its sender",
        source: "Pingali, Towsley and Kurose 1994",
        subject: Subject::Node(|run| nodes_of(&run.packets_handled(NodeRole::Helper))),
        samples: |run| values_of(&run.packets_handled(NodeRole::Helper)),
    },
    Metric {
        name: "packets_handled_by_routers",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes, Need::Relays],
        definition: "packets that the relay at each router sends, receives, rewrites, redirects or absorbs / messages. Packets that it forwards unchanged do not count",
        source: "",
        subject: Subject::Node(|run| nodes_of(&run.packets_handled(NodeRole::Router))),
        samples: |run| values_of(&run.packets_handled(NodeRole::Router)),
    },
    Metric {
        name: "packets_handled_by_worst_receiver",
        unit: "1",
        sample: "run",
        needs: &[Need::Nodes],
        definition: "maximum of `packets_handled_by_receivers`; the sample names the node, of several the one with the lowest number",
        source: "",
        subject: Subject::Node(|run| {
            nodes_of(worst(&run.packets_handled(NodeRole::Receiver), 1.0).as_slice())
        }),
        samples: |run| values_of(worst(&run.packets_handled(NodeRole::Receiver), 1.0).as_slice()),
    },
    Metric {
        name: "packets_handled_per_message",
        unit: "1",
        sample: "run",
        needs: &[Need::Nodes],
        definition: "packets that all nodes together handle (sources, receivers, helpers and routers, as above) / messages",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.totals.nodes.total(run.messages_offered()).into_iter().collect(),
    },
    Metric {
        name: "held_by_routers",
        unit: "1",
        sample: "run",
        needs: &[Need::Nodes, Need::Relays],
        definition: "maximum number of entries of state at a router's relay. `lms`: one for each source. `pgm`: one for each session, each packet with a pending repair, and each stored packet",
        source: "",
        subject: Subject::Unnamed,
        samples: |run| run.totals.state.most(NodeRole::Router),
    },
    Metric {
        name: "mean_held_by_source",
        unit: "messages",
        sample: "node",
        needs: &[Need::Nodes, Need::Held],
        definition: "number of messages that a node that sends keeps, averaged over time from the start of the run to its last packet or timer. A protocol that does not report it has no samples",
        source: "",
        subject: Subject::Node(|run| nodes_of(&run.mean_held(NodeRole::Source))),
        samples: |run| values_of(&run.mean_held(NodeRole::Source)),
    },
    Metric {
        name: "mean_held_by_receivers",
        unit: "messages",
        sample: "node",
        needs: &[Need::Nodes, Need::Held],
        definition: "number of messages that a receiver keeps, averaged over time from the start of the run to its last packet or timer. A protocol that does not report it has no samples",
        source: "",
        subject: Subject::Node(|run| nodes_of(&run.mean_held(NodeRole::Receiver))),
        samples: |run| values_of(&run.mean_held(NodeRole::Receiver)),
    },
    Metric {
        name: "mean_held_by_helpers",
        unit: "messages",
        sample: "node",
        needs: &[Need::Nodes, Need::Held, Need::Helpers],
        definition: "number of messages that a helper that does not deliver keeps, averaged over time from the start of the run to its last packet or timer. A protocol that does not report it has no samples",
        source: "",
        subject: Subject::Node(|run| nodes_of(&run.mean_held(NodeRole::Helper))),
        samples: |run| values_of(&run.mean_held(NodeRole::Helper)),
    },
    Metric {
        name: "mean_held_by_routers",
        unit: "1",
        sample: "node",
        needs: &[Need::Nodes, Need::Held, Need::Relays],
        definition: "number of entries of state that a router's relay (entries as above) keeps, averaged over time from the start of the run to its last packet or timer. A protocol that does not report it has no samples",
        source: "",
        subject: Subject::Node(|run| nodes_of(&run.mean_held(NodeRole::Router))),
        samples: |run| values_of(&run.mean_held(NodeRole::Router)),
    },
];

fn latency(message: &MessageRecord) -> f64 {
    (message.end - message.start).as_secs_f64()
}

/// Messages that all have acknowledged.
fn completed(run: &Run<'_>) -> f64 {
    run.messages.iter().filter(|message| !message.failed).count() as f64
}

/// Seconds from the first transmission request to the last completion.
fn seconds(run: &Run<'_>) -> f64 {
    let begin = run.messages.iter().map(|message| message.start).min();
    let end = run.messages.iter().map(|message| message.end).max();
    begin.zip(end).map_or(0.0, |(begin, end)| (end - begin).as_secs_f64())
}

/// New messages on the source's link, as a share of the link's capacity.
fn normalized_throughput(run: &Run<'_>) -> Option<f64> {
    let rate = run.scenario.network.bit_rate().bps() as f64;
    Some(run.totals.traffic.new_per_second()? * run.message_bits() / rate)
}
