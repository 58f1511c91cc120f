//! Recorder: reduces the trace of a run to the records and counts that metrics need.

use carillon_core::{Bytes, Dest, Event, Frame, Handling, MessageId, NodeId, Observer, Outcome, Time};

use super::nodes::Nodes;
use super::parents::Parents;
use super::receivers::Receivers;
use super::recovery::Recoveries;
use super::spans::Spans;
use super::state::State;
use super::traffic::Traffic;
use crate::scenario::Scenario;

/// Record of one message: the row of Segovia's statistics file (section 3.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageRecord {
    /// Sender of the message.
    pub source: NodeId,
    /// Time of the first transmission.
    pub start: Time,
    /// Time at which the sender completed or abandoned the message.
    pub end: Time,
    /// The sender's window when it was sent.
    pub window: u32,
    /// Retransmissions of it.
    pub retransmissions: u32,
    /// True if the sender abandoned the message.
    pub failed: bool,
    /// Its share of the collisions since the last completion.
    pub collisions: f64,
}

/// Reads the trace of a run and keeps what metrics need.
#[derive(Debug)]
pub struct Recorder {
    /// True if the latency of each delivery is kept, false if only their number is.
    keeps_latencies: bool,
    /// Progress of messages, by source and message.
    messages: Vec<Vec<Progress>>,
    /// Times at which applications offered messages, by source and message.
    offered: Vec<Vec<Time>>,
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
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.recoveries.event(time, node, event);
        self.totals.traffic.event(time, node, event);
        self.totals.parents.event(node, event);
        if matches!(event, Event::Sent { .. } | Event::RepairSent { .. } | Event::ControlSent { .. }) {
            self.totals.state.emits(time, node);
        }
        match *event {
            Event::Offered { message, since } => note(&mut self.offered, node, message, since),
            Event::Sent { message, .. } => {
                let progress = Progress { started: time, retransmissions: 0 };
                note(&mut self.messages, node, message, progress);
            }
            Event::RepairSent { message, .. } => self.on_repair(node, message),
            Event::Forwarded { source, message, repair: true, .. } => self.on_repair(source, message),
            Event::ControlSent { .. } => self.totals.control_packets += 1,
            // Its own messages reach no member by the network.
            Event::Delivered { source, message }
                if source != node && self.progress(source, message).is_some() =>
            {
                self.totals.deliveries += 1;
                let offered = self.offered.get(source.index()).and_then(|of| of.get(message.0 as usize));
                let latency = offered.map(|&offered| time - offered);
                self.totals.receivers.delivered(time, node, latency, self.keeps_latencies);
                if let Some(&offered) = offered {
                    if self.keeps_latencies {
                        self.totals.delivery_latencies.push(time - offered);
                    }
                    self.totals.state.delivered(time, offered);
                }
                if let Some(progress) = self.progress(source, message) {
                    let started = progress.started;
                    self.totals.traffic.delivered(time, started);
                }
            }
            Event::Completed { message, outcome, window } => {
                if self.block.0 != time {
                    self.share_collisions();
                    self.block = (time, self.records.len());
                }
                // A message completed before it was ever sent took no time.
                let (source, end) = (node, time);
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
            Event::FrameSent { bytes } => self.frame_sent(bytes),
            Event::MemberLost { .. } => self.totals.members_lost += 1,
            Event::TimerFired { timer: "wtimer" } => self.totals.waits[0] += 1,
            Event::TimerFired { timer: "ctimeout" } => self.totals.waits[1] += 1,
            Event::Collision { .. } => self.collisions += 1,
            _ => {}
        }
    }

    fn frame_event(&mut self, time: Time, node: NodeId, event: &Event, frame: &Frame<'_>) {
        let Event::FrameSent { bytes } = *event else { return self.event(time, node, event) };
        // Each hop of a packet has one, so that it takes a shorter way.
        if let Some(passage) = frame.passage {
            self.totals.traffic.frame(time, node, passage);
        }
        self.frame_sent(bytes);
    }

    fn watches_held(&self) -> bool {
        true
    }

    fn held(&mut self, time: Time, node: NodeId, messages: u64) {
        self.totals.state.held(node, messages);
        self.totals.nodes.held(time, node, messages);
    }

    fn watches_packets(&self) -> bool {
        self.totals.nodes.are_measured()
    }

    fn handled(&mut self, time: Time, node: NodeId, handling: Handling) {
        self.totals.nodes.handled(time, node, handling);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, _bytes: &Bytes) {
        self.totals.traffic.datagram(time, from, to);
        self.totals.parents.datagram(from, to);
    }
}

impl Recorder {
    /// Creates an empty recorder. It keeps the latencies of deliveries up to `MAX_KEPT_LATENCIES`, and not where a
    /// scenario measures the recovery from single losses.
    pub fn new(scenario: &Scenario) -> Self {
        Recorder {
            keeps_latencies: without_latency(scenario).is_none(),
            messages: Vec::new(),
            offered: Vec::new(),
            records: Vec::new(),
            totals: Totals {
                traffic: Traffic::new(scenario),
                parents: Parents::new(scenario),
                receivers: Receivers::new(scenario),
                nodes: Nodes::new(scenario),
                state: State::new(scenario),
                ..Totals::default()
            },
            recoveries: Recoveries::new(scenario),
            collisions: 0,
            block: (Time::ZERO, 0),
        }
    }

    fn progress(&mut self, source: NodeId, message: MessageId) -> Option<&mut Progress> {
        self.messages.get_mut(source.index())?.get_mut(message.0 as usize)
    }

    fn frame_sent(&mut self, bytes: u32) {
        self.totals.frame_bytes += u64::from(bytes);
        self.totals.frames += 1;
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

/// Stores a value for a message, and for earlier messages of its source that have none yet.
fn note<T: Clone>(notes: &mut Vec<Vec<T>>, source: NodeId, message: MessageId, what: T) {
    let source = source.index();
    if notes.len() <= source {
        notes.resize_with(source + 1, Vec::new);
    }
    let (notes, index) = (&mut notes[source], message.0 as usize);
    if notes.len() <= index {
        notes.resize(index + 1, what);
    }
}

/// Maximum number of deliveries in a run for which latencies are kept: 40 MB at four bytes each.
const MAX_KEPT_LATENCIES: u64 = 10_000_000;

/// Counts of a run that belong to no single message.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Time from offer to delivery, for each delivery.
    pub delivery_latencies: Spans,
    /// Messages delivered to others than their source.
    pub deliveries: u64,
    /// Bytes of all frames on the medium.
    pub frame_bytes: u64,
    /// Frames.
    pub frames: u64,
    /// Packets without a message.
    pub control_packets: u64,
    /// Number of expelled members.
    pub members_lost: u64,
    /// Expiries of WTIMER and of CTIMEOUT.
    pub waits: [u64; 2],
    /// Losses, requests and repairs.
    pub recoveries: Recoveries,
    /// Transmissions by node and time.
    pub traffic: Traffic,
    /// Packets between parents and children.
    pub parents: Parents,
    /// Buffered messages of nodes.
    pub state: State,
    /// Deliveries of each receiver.
    pub receivers: Receivers,
    /// Packets and stored messages of each node.
    pub nodes: Nodes,
}

/// Deliveries, if every receiver gets everything.
pub fn expected_deliveries(scenario: &Scenario) -> u64 {
    scenario.workload.messages * u64::from(scenario.senders) * u64::from(scenario.receivers)
}

/// Why runs of a scenario have no `delivery_latency_s`, if they have none.
pub fn without_latency(scenario: &Scenario) -> Option<&'static str> {
    if scenario.network.graph().is_some_and(|graph| graph.drops.is_some()) {
        return Some("with `loss.drop_one` only the recovery is measured (recovery_latency_s)");
    }
    (expected_deliveries(scenario) > MAX_KEPT_LATENCIES)
        .then_some("latencies of more than 10 million deliveries in a run are not kept: send fewer messages")
}
