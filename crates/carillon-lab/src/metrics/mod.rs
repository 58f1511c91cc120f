//! Metrics: functions of the trace alone. Definitions in `docs/metrics.md`.

mod bounds;
mod parents;
mod recovery;
mod registry;
mod spans;
mod state;
mod traffic;

use carillon_core::{BitRate, Bytes, Dest, Event, MessageId, NodeId, Observer, Outcome, Time};

pub use bounds::Bounds;
pub use recovery::Recoveries;
pub use registry::{METRICS, Metric};

use crate::scenario::Scenario;
use parents::Parents;
use recovery::UnicastTime;
use spans::Spans;
use state::State;
use traffic::Traffic;

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
const MOST_LATENCIES: u64 = 10_000_000;

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
    (expected_deliveries(scenario) > MOST_LATENCIES)
        .then_some("of a run with more than 10 million deliveries they are not kept: send fewer messages")
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
        let ack_bytes = scenario.protocol.unicast_equivalent?.ack_bytes;
        let ack = ack_bytes(&scenario.config).max(scenario.network.min_packet().into());
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

/// What a metric needs to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Senders come to know what has arrived: `completed`.
    Completions,
    /// Receivers ask for what they miss: `loss_found`, `requested`, `loss_repaired`, `loss_final`.
    Requests,
    /// First transmissions are marked, so that their losses are: `frame_lost`.
    Originals,
    /// Each delivery by itself: `offered`, `delivered`.
    EachDelivery,
    /// One shared Ethernet.
    Lan,
    /// A routed network.
    Graph,
    /// A parent and its children, or several.
    Parents,
    /// A parent that takes in only so much.
    Implosion,
    /// A unicast equivalent of the protocol.
    UnicastEquivalent,
    /// A protocol that has this timer measured.
    Timer(&'static str),
    /// Nodes say how many messages they keep.
    Held,
    /// A helper that dies.
    Death,
}

impl Need {
    /// What it is called in the documentation.
    pub fn text(self) -> &'static str {
        match self {
            Need::Completions => "senders that are told (`completed`)",
            Need::Requests => "receivers that ask (`loss_found`, `requested`, `loss_repaired`, `loss_final`)",
            Need::Originals => "marked first transmissions (`frame_lost`)",
            Need::EachDelivery => {
                "`offered` and `delivered`, without `loss.drop_one`, 10 million deliveries a run at most"
            }
            Need::Lan => "lan",
            Need::Graph => "graph",
            Need::Parents => "star, or graph with helpers",
            Need::Implosion => "`network.implosion_rate`",
            Need::UnicastEquivalent => "a unicast equivalent",
            Need::Timer(_) => "a protocol that has this timer measured (`timer_fired`)",
            Need::Held => "simulated nodes that tell",
            Need::Death => "`group.helper_dies`",
        }
    }

    /// Whether runs of a scenario give it: by its network, and by what the protocol says of itself.
    fn is_given(self, scenario: &Scenario) -> bool {
        match self {
            Need::Completions => scenario.protocol.confirms(&scenario.config),
            Need::Requests => !scenario.protocol.confirms(&scenario.config),
            Need::Originals => scenario.protocol.marks_originals,
            Need::EachDelivery | Need::Held => true,
            Need::Death => scenario.death.is_some(),
            Need::Lan => scenario.network.lan().is_some(),
            Need::Graph => scenario.network.graph().is_some(),
            Need::Parents => scenario.has_parents(),
            Need::Implosion => scenario.network.graph().is_some_and(|graph| graph.input.is_some()),
            Need::UnicastEquivalent => scenario.protocol.unicast_equivalent.is_some(),
            Need::Timer(name) => scenario.protocol.timers.contains(&name),
        }
    }
}

/// A run as metrics see it: what its trace told, and the terms of its scenario.
#[derive(Debug)]
struct Run<'a> {
    scenario: &'a Scenario,
    messages: &'a [MessageRecord],
    totals: Totals,
    /// Latencies of repairs, each with what unicast takes there.
    repairs: Vec<(f64, UnicastTime)>,
}

impl Run<'_> {
    fn of_messages(&self, metric: impl Fn(&Self, &MessageRecord) -> f64) -> Vec<f64> {
        self.messages.iter().map(|message| metric(self, message)).collect()
    }

    fn of_repairs(&self, metric: impl Fn(f64, UnicastTime) -> f64) -> Vec<f64> {
        self.repairs.iter().map(|&(latency, unicast)| metric(latency, unicast)).collect()
    }

    /// A count for each receiver and message offered.
    fn per_delivery(&self, count: u64) -> Vec<f64> {
        vec![count as f64 / expected_deliveries(self.scenario) as f64]
    }

    fn is_star(&self) -> bool {
        self.scenario.network.graph().is_some_and(|graph| graph.is_star)
    }

    fn messages_offered(&self) -> f64 {
        self.scenario.workload.messages as f64 * f64::from(self.scenario.senders)
    }

    fn receivers(&self) -> f64 {
        f64::from(self.scenario.receivers)
    }

    fn message_bits(&self) -> f64 {
        f64::from(self.scenario.workload.message_bytes) * 8.0
    }
}

/// A count for each loss; nothing where nothing was lost.
fn per_loss(run: &Run<'_>, count: u64) -> Vec<f64> {
    match run.totals.recoveries.losses {
        0 => Vec::new(),
        losses => vec![count as f64 / losses as f64],
    }
}

/// All metrics of a run that its scenario gives what they need.
pub fn samples(scenario: &Scenario, messages: &[MessageRecord], totals: Totals) -> Vec<Samples> {
    let repairs = scenario.network.graph().map(|graph| totals.recoveries.repairs_beside(scenario, graph));
    let mut run = Run { scenario, messages, totals, repairs: repairs.unwrap_or_default() };
    let given = METRICS.iter().filter(|metric| metric.needs.iter().all(|need| need.is_given(scenario)));
    given.map(|metric| (metric.name, (metric.samples)(&mut run))).collect()
}
