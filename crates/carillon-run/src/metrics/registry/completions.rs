//! Metrics of completed messages: what a sender learns, and the costs of parents.

use carillon_core::Time;

use super::metric::Metric;
use crate::metrics::bounds::Terms;
use crate::metrics::need::Need;
use crate::metrics::of_run::Run;
use crate::metrics::recorder::MessageRecord;
use crate::metrics::subject::Subject;

pub(super) const METRICS: &[Metric] = &[
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
