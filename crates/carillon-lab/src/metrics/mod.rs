//! Metrics: functions of the trace alone. Definitions in `docs/metrics.md`.

mod recovery;

use carillon_core::{BitRate, Event, MessageId, NodeId, Observer, Outcome, Time, TraceEvent};

pub use recovery::Recoveries;

use crate::scenario::Scenario;

/// What became of one message: the row of Segovia's statistics file (section 3.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageRecord {
    /// Who sent it.
    pub source: NodeId,
    /// When the sender first sent it.
    pub start: Time,
    /// When the sender was done with it.
    pub end: Time,
    /// The sender's window when it was sent.
    pub window: u32,
    /// Retransmissions of it.
    pub retransmissions: u32,
    /// Whether it was given up.
    pub failed: bool,
    /// Its share of the collisions since the last completion.
    pub collisions: f64,
}

/// Reads the trace of a run and keeps what metrics need.
#[derive(Debug)]
pub struct Recorder {
    /// Whether each delivery's latency is kept, or only their number.
    keeps_latencies: bool,
    /// By source and message.
    messages: Vec<Vec<Progress>>,
    records: Vec<MessageRecord>,
    totals: Totals,
    recoveries: Recoveries,
    collisions: u64,
    /// Completions at one instant, among which the collisions before it are shared.
    block: (Time, usize),
}

/// A message that has been sent.
#[derive(Clone, Copy, Debug)]
struct Progress {
    started: Time,
    retransmissions: u32,
}

impl Observer for Recorder {
    fn event(&mut self, event: &TraceEvent) {
        self.recoveries.event(event);
        match event.event {
            Event::Sent { message, .. } => {
                let source = event.node.index();
                if self.messages.len() <= source {
                    self.messages.resize_with(source + 1, Vec::new);
                }
                let (messages, index) = (&mut self.messages[source], message.0 as usize);
                if messages.len() <= index {
                    messages.resize(index + 1, Progress { started: event.time, retransmissions: 0 });
                }
            }
            Event::RepairSent { message, .. } => self.on_repair(event.node, message),
            Event::Forwarded { source, message, repair: true, .. } => self.on_repair(source, message),
            Event::ControlSent { .. } => self.totals.control_packets += 1,
            // Its own messages reach no member by the network.
            Event::Delivered { source, message } if source != event.node => {
                if let Some(progress) = self.progress(source, message) {
                    let latency = (event.time - progress.started).as_secs_f64();
                    self.totals.deliveries += 1;
                    if self.keeps_latencies {
                        self.totals.delivery_latencies.push(latency);
                    }
                }
            }
            Event::Completed { message, outcome, window } => {
                if self.block.0 != event.time {
                    self.share_collisions();
                    self.block = (event.time, self.records.len());
                }
                // A message completed before it was ever sent took no time.
                let (source, end) = (event.node, event.time);
                let progress = self.progress(source, message).copied();
                self.records.push(MessageRecord {
                    source,
                    start: progress.map_or(end, |progress| progress.started),
                    end,
                    window,
                    retransmissions: progress.map_or(0, |progress| progress.retransmissions),
                    failed: outcome == Outcome::Failed,
                    collisions: 0.0,
                });
            }
            Event::FrameSent { bytes } => self.totals.frame_bytes += u64::from(bytes),
            Event::Collision { .. } => self.collisions += 1,
            _ => {}
        }
    }
}

impl Recorder {
    /// Nothing has been recorded yet. Latencies of deliveries are kept if there are not too many of
    /// them, and not where what is asked for is the recovery from single losses.
    pub fn new(scenario: &Scenario) -> Self {
        let single = scenario.network.graph().is_some_and(|graph| graph.drops.is_some());
        Recorder {
            keeps_latencies: !single && expected_deliveries(scenario) <= MOST_LATENCIES,
            messages: Vec::new(),
            records: Vec::new(),
            totals: Totals::default(),
            recoveries: Recoveries::default(),
            collisions: 0,
            block: (Time::ZERO, 0),
        }
    }

    fn progress(&mut self, source: NodeId, message: MessageId) -> Option<&mut Progress> {
        self.messages.get_mut(source.index())?.get_mut(message.0 as usize)
    }

    fn on_repair(&mut self, source: NodeId, message: MessageId) {
        if let Some(progress) = self.progress(source, message) {
            progress.retransmissions += 1;
        }
    }

    fn share_collisions(&mut self) {
        let block = &mut self.records[self.block.1..];
        if block.is_empty() {
            return;
        }
        let share = self.collisions as f64 / block.len() as f64;
        for record in block {
            record.collisions = share;
        }
        self.collisions = 0;
    }

    /// The messages in the order of their completion.
    pub fn into_messages(mut self) -> (Vec<MessageRecord>, Totals) {
        self.share_collisions();
        self.totals.recoveries = self.recoveries;
        (self.records, self.totals)
    }
}

/// Deliveries in a run whose latencies are kept, at most.
const MOST_LATENCIES: u64 = 10_000_000;

/// What does not belong to one message.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// For each delivery, seconds since the message was first sent.
    pub delivery_latencies: Vec<f64>,
    /// Messages delivered to others than their source.
    pub deliveries: u64,
    /// Bytes of all frames on the medium.
    pub frame_bytes: u64,
    /// Packets without a message.
    pub control_packets: u64,
    /// Losses, requests and repairs.
    pub recoveries: Recoveries,
}

/// Deliveries, if every receiver gets everything.
pub fn expected_deliveries(scenario: &Scenario) -> u64 {
    scenario.workload.messages * u64::from(scenario.senders) * u64::from(scenario.receivers)
}

/// The transmission times that the formulas of section 4.1 need.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Receivers r.
    pub receivers: f64,
    /// Transmission time d of a data packet, in seconds.
    pub data: f64,
    /// Transmission time a of an acknowledgment, in seconds.
    pub ack: f64,
    /// The rate of the medium.
    pub rate: BitRate,
}

impl Terms {
    /// The terms of a scenario; `None` for a protocol without a unicast equivalent by
    /// acknowledgments.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        scenario.protocol.unicast_equivalent?;
        let ack = scenario.config.size("ack_bytes").0.max(scenario.network.min_packet().into());
        let rate = scenario.network.bit_rate();
        let seconds = |bytes: u64| bytes as f64 * 8.0 / rate.bps() as f64;
        Some(Terms {
            receivers: f64::from(scenario.receivers),
            data: seconds(scenario.workload.message_bytes.into()),
            ack: seconds(ack),
            rate,
        })
    }

    /// Time of the unicast equivalent for a window of n messages: r n d + r a (equations 4.2, 4.10).
    pub fn unicast_time(&self, window: f64) -> f64 {
        self.receivers * (window * self.data + self.ack)
    }

    /// Least time for a window of n messages: n d + r a (equations 4.18, 4.19).
    pub fn latency_bound(&self, window: f64) -> f64 {
        window * self.data + self.receivers * self.ack
    }
}

/// The samples of one metric in a run.
pub type Samples = (&'static str, Vec<f64>);

/// All metrics of a run.
pub fn samples(scenario: &Scenario, messages: &[MessageRecord], totals: Totals) -> Vec<Samples> {
    let latency = |record: &MessageRecord| (record.end - record.start).as_secs_f64();
    let of = |metric: &dyn Fn(&MessageRecord) -> f64| messages.iter().map(metric).collect::<Vec<f64>>();
    let frame_bits = f64::from(scenario.workload.message_bytes) * 8.0;
    let receivers = f64::from(scenario.receivers);
    let mut all: Vec<Samples> = Vec::new();
    if scenario.protocol.confirmed {
        all.push(("message_latency_s", of(&latency)));
        let throughput =
            |record: &MessageRecord| receivers * f64::from(record.window) * frame_bits / latency(record);
        all.push(("throughput_bps", of(&throughput)));
        if let Some(terms) = Terms::of(scenario) {
            let relative =
                |record: &MessageRecord| terms.unicast_time(record.window.into()) / latency(record);
            all.push(("relative_throughput", of(&relative)));
        }
        all.push(("retransmissions_per_message", of(&|record| record.retransmissions.into())));
        if scenario.network.lan().is_some() {
            all.push(("collisions_per_message", of(&|record| record.collisions)));
        }
        all.push(("failed_messages", of(&|record| f64::from(u8::from(record.failed)))));
        let begin = messages.iter().map(|record| record.start).min();
        let end = messages.iter().map(|record| record.end).max();
        let seconds = begin.zip(end).map_or(0.0, |(begin, end)| (end - begin).as_secs_f64());
        let completed = messages.iter().filter(|record| !record.failed).count() as f64;
        all.push(("group_throughput_bps", vec![receivers * completed * frame_bits / seconds]));
    }
    if let Some(graph) = scenario.network.graph() {
        all.extend(totals.recoveries.samples(scenario, graph));
    }
    let useful = totals.deliveries as f64 * f64::from(scenario.workload.message_bytes) / receivers;
    all.push(("wire_bytes_per_useful_byte", vec![totals.frame_bytes as f64 / useful]));
    let messages = scenario.workload.messages as f64 * f64::from(scenario.senders);
    let control_packets = totals.control_packets as f64 / messages;
    all.push(("control_packets_per_message", vec![control_packets]));
    let undelivered = 1.0 - totals.deliveries as f64 / expected_deliveries(scenario) as f64;
    all.push(("undelivered_share", vec![undelivered]));
    all.push(("delivery_latency_s", totals.delivery_latencies));
    all
}
