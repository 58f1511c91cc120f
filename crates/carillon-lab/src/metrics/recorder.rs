//! What is kept of the trace of a run.

use carillon_core::{Bytes, Dest, Event, MessageId, NodeId, Observer, Outcome, Time};

use super::parents::Parents;
use super::recovery::Recoveries;
use super::spans::Spans;
use super::state::State;
use super::traffic::Traffic;
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
    /// When messages were there to be offered, by source and message.
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
            Event::FrameSent { bytes } => {
                self.totals.frame_bytes += u64::from(bytes);
                self.totals.frames += 1;
            }
            Event::MemberLost { .. } => self.totals.members_lost += 1,
            Event::TimerFired { timer: "wtimer" } => self.totals.waits[0] += 1,
            Event::TimerFired { timer: "ctimeout" } => self.totals.waits[1] += 1,
            Event::Collision { .. } => self.collisions += 1,
            _ => {}
        }
    }

    fn watches_held(&self) -> bool {
        true
    }

    fn held(&mut self, node: NodeId, messages: u64) {
        self.totals.state.held(node, messages);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, _bytes: &Bytes) {
        self.totals.traffic.datagram(time, from, to);
        self.totals.parents.datagram(from, to);
    }
}

impl Recorder {
    /// Nothing has been recorded yet. Latencies of deliveries are kept if there are not too many of
    /// them, and not where what is asked for is the recovery from single losses.
    pub fn new(scenario: &Scenario) -> Self {
        Recorder {
            keeps_latencies: without_latency(scenario).is_none(),
            messages: Vec::new(),
            offered: Vec::new(),
            records: Vec::new(),
            totals: Totals {
                traffic: Traffic::new(scenario),
                parents: Parents::new(scenario),
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

/// Notes what was not known of a message, and of those before it.
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

/// Deliveries in a run whose latencies are kept, at most.
const MAX_KEPT_LATENCIES: u64 = 10_000_000;

/// What does not belong to one message.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// For each delivery, the time since the message was offered.
    pub delivery_latencies: Spans,
    /// Messages delivered to others than their source.
    pub deliveries: u64,
    /// Bytes of all frames on the medium.
    pub frame_bytes: u64,
    /// Frames.
    pub frames: u64,
    /// Packets without a message.
    pub control_packets: u64,
    /// Members given up.
    pub members_lost: u64,
    /// Expiries of WTIMER and of CTIMEOUT.
    pub waits: [u64; 2],
    /// Losses, requests and repairs.
    pub recoveries: Recoveries,
    /// Who sends what, and when.
    pub traffic: Traffic,
    /// What goes between parents and children.
    pub parents: Parents,
    /// What nodes keep.
    pub state: State,
}

/// Deliveries, if every receiver gets everything.
pub fn expected_deliveries(scenario: &Scenario) -> u64 {
    scenario.workload.messages * u64::from(scenario.senders) * u64::from(scenario.receivers)
}

/// Why runs of a scenario have no `delivery_latency_s`, if they have none.
pub fn without_latency(scenario: &Scenario) -> Option<&'static str> {
    if scenario.network.graph().is_some_and(|graph| graph.drops.is_some()) {
        return Some("with `loss.drop_one` it is the recovery that is measured (recovery_latency_s)");
    }
    (expected_deliveries(scenario) > MAX_KEPT_LATENCIES)
        .then_some("of a run with more than 10 million deliveries they are not kept: send fewer messages")
}
