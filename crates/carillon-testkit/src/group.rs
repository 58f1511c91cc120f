//! A group of one protocol in a simulated world: one sender, some receivers, messages that differ.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carillon_core::{
    AssociationId, BitRate, BuildContext, Bytes, Config, Dest, DropReason, Event, GroupId, Machine,
    MessageId, NodeId, Observer, Outcome, ProtocolEntry, Role, Seeds, Time, TraceEvent,
};
use carillon_sim::{Lan, LanConfig, Network, StopReason, World};

use crate::checked::Checked;
use crate::oracle::{Contents, Offers, Oracle, Received};
use crate::star::{Link, Star};

/// The sender's node; the receivers are 1 to r.
pub const SENDER: NodeId = NodeId(0);

/// What is to be run. Make it, change it, then [`Group::run`] it over a [`Star`] or
/// [`Group::run_lan`] it over an Ethernet.
#[derive(Clone, Debug)]
pub struct Group {
    entry: &'static ProtocolEntry,
    settings: Config,
    seeds: Seeds,
    receivers: u32,
    messages: u64,
    max_payload: usize,
    equal_payloads: bool,
    default_link: Link,
    links: Vec<(NodeId, NodeId, Link)>,
    pace: Duration,
    limit: Duration,
    afterwards: Duration,
    link_overhead: u32,
}

impl Group {
    /// One receiver, ten messages of up to 100 bytes, links that lose nothing, default settings.
    pub fn new(entry: &'static ProtocolEntry, seed: u64) -> Self {
        Group {
            entry,
            settings: Config::defaults(entry.parameters),
            seeds: Seeds::new(seed),
            receivers: 1,
            messages: 10,
            max_payload: 100,
            equal_payloads: false,
            default_link: Link::default(),
            links: Vec::new(),
            pace: Duration::ZERO,
            limit: Duration::from_secs(600),
            afterwards: Duration::from_secs(10),
            link_overhead: 0,
        }
    }

    /// Sets a parameter of the protocol.
    ///
    /// # Panics
    ///
    /// If the protocol does not take it.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.set(self.entry.parameters, key, value).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// How many receivers.
    pub fn receivers(self, receivers: u32) -> Self {
        Group { receivers, ..self }
    }

    /// How many messages.
    pub fn messages(self, messages: u64) -> Self {
        Group { messages, ..self }
    }

    /// The longest message; their lengths differ.
    pub fn max_payload(self, max_payload: usize) -> Self {
        Group { max_payload, equal_payloads: false, ..self }
    }

    /// The length of every message.
    pub fn equal_payloads(self, max_payload: usize) -> Self {
        Group { max_payload, equal_payloads: true, ..self }
    }

    /// What all links are like, of the star.
    pub fn all_links(self, default_link: Link) -> Self {
        Group { default_link, ..self }
    }

    /// What one link of the star is like.
    pub fn link(mut self, from: NodeId, to: NodeId, link: Link) -> Self {
        self.links.push((from, to, link));
        self
    }

    /// Receivers' applications take one message each so long.
    pub fn pace(self, pace: Duration) -> Self {
        Group { pace, ..self }
    }

    /// How much simulated time the sender has to finish: ten minutes unless said otherwise.
    pub fn limit(self, limit: Duration) -> Self {
        Group { limit, ..self }
    }

    /// How long the group is watched after the sender has finished.
    pub fn afterwards(self, afterwards: Duration) -> Self {
        Group { afterwards, ..self }
    }

    /// Runs over a star.
    pub fn run(&self) -> Report {
        let mut star = Star::new(self.receivers + 1, self.default_link.clone(), &self.seeds);
        for (from, to, link) in &self.links {
            star.set_link(*from, *to, link.clone());
        }
        self.run_on(star)
    }

    /// Runs over one shared Ethernet.
    pub fn run_lan(&self, config: LanConfig) -> Report {
        let group = Group { link_overhead: config.frame_overhead, ..self.clone() };
        let lan = Lan::new(config, self.receivers as usize + 1, &self.seeds);
        group.run_on(lan)
    }

    /// Runs over a network of `receivers + 1` nodes.
    pub fn run_on<N: Network>(&self, network: N) -> Report {
        let mut world = World::new(network, Tape::default());
        let contents = match self.equal_payloads {
            true => Contents::equal(&self.seeds, self.max_payload),
            false => Contents::new(&self.seeds, self.max_payload),
        };
        let offers = Offers::new(contents.clone(), self.messages);
        world.add_node(self.machine(Role::Sender, SENDER), Some(Box::new(offers)));
        let mut received: Vec<Arc<Mutex<Received>>> = Vec::new();
        for node in (1..=self.receivers).map(NodeId) {
            let oracle = Oracle::new(node, SENDER, contents.clone(), self.pace);
            received.push(oracle.received());
            world.add_node(self.machine(Role::Receiver, node), Some(Box::new(oracle)));
        }
        world.start();
        let is_finished = |world: &mut World<N, Tape>| {
            world.machine(SENDER).as_sender().is_some_and(|sender| sender.is_finished())
        };
        let stop = world.run(Time::ZERO + self.limit, is_finished);
        let finished = (stop == StopReason::Done).then(|| world.now());
        let sent_before = world.observer().datagrams.len();
        let quiet = match finished {
            None => false,
            Some(at) => world.run(at + self.afterwards, |_| false) == StopReason::Idle,
        };
        let finished_still = is_finished(&mut world);
        let Tape { events, datagrams } = world.into_observer();
        let receivers: Vec<Received> =
            received.iter().map(|received| received.lock().expect("no oracle panicked").clone()).collect();
        Report {
            messages: self.messages,
            receivers,
            finished: finished.filter(|_| finished_still),
            quiet,
            sent_afterwards: datagrams.len() - sent_before,
            events,
            datagrams,
        }
    }

    /// The machine of a node, watched.
    pub fn machine(&self, role: Role, node: NodeId) -> Box<dyn Machine> {
        let context = BuildContext {
            association: AssociationId(1),
            node,
            sender: SENDER,
            members: (1..=self.receivers).map(NodeId).collect(),
            identities: Default::default(),
            group: GroupId(0),
            seeds: self.seeds.node(node),
            bit_rate: BitRate::mbps(10),
            link_overhead: self.link_overhead,
            max_payload: self.max_payload as u32,
        };
        let machine = (self.entry.build)(role, &context, &self.settings)
            .unwrap_or_else(|error| panic!("{} does not take these settings: {error}", self.entry.name));
        Box::new(Checked::new(machine))
    }
}

/// A datagram as it left a node.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// When.
    pub time: Time,
    /// From where.
    pub from: NodeId,
    /// To where.
    pub to: Dest,
    /// What.
    pub bytes: Bytes,
}

/// Keeps everything that an observer is told.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// The events.
    pub events: Vec<TraceEvent>,
    /// The datagrams that left.
    pub datagrams: Vec<Datagram>,
}

impl Observer for Tape {
    fn event(&mut self, event: &TraceEvent) {
        self.events.push(event.clone());
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.datagrams.push(Datagram { time, from, to: to.clone(), bytes: bytes.clone() });
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Report {
    /// Messages offered.
    pub messages: u64,
    /// What each receiver's application got, and what was wrong with it.
    pub receivers: Vec<Received>,
    /// When the sender had finished, if it had.
    pub finished: Option<Time>,
    /// Whether nothing was left to happen some time after that.
    pub quiet: bool,
    /// Datagrams sent after the sender had finished.
    pub sent_afterwards: usize,
    /// All events.
    pub events: Vec<TraceEvent>,
    /// All datagrams.
    pub datagrams: Vec<Datagram>,
}

impl Report {
    /// Safety: nothing was delivered that should not have been.
    pub fn check_safety(&self) -> Result<(), String> {
        match self.receivers.iter().flat_map(|received| &received.violations).next() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// Safety and liveness: every receiver got every message once, in order, whole, and the sender
    /// finished, gave nothing up and lost nobody.
    pub fn check_reliable(&self) -> Result<(), String> {
        self.check_safety()?;
        if self.finished.is_none() {
            return Err(format!("the sender did not finish: {}", self.progress()));
        }
        for (index, received) in self.receivers.iter().enumerate() {
            let (node, got) = (NodeId(index as u32 + 1), received.deliveries.len() as u64);
            if got != self.messages {
                return Err(format!("{node} got {got} of {} messages", self.messages));
            }
        }
        let completed = self.completed();
        if completed.iter().map(|(message, _)| message.0).ne(0..self.messages) {
            return Err(format!("the sender completed {completed:?}, not each message once and in order"));
        }
        if let Some((message, _)) = completed.iter().find(|(_, outcome)| *outcome == Outcome::Failed) {
            return Err(format!("the sender gave {message} up"));
        }
        match self.count(|_, event| matches!(event, Event::MemberLost { .. })) {
            0 => Ok(()),
            lost => Err(format!("the sender lost {lost} members")),
        }
    }

    /// What the sender completed, in order.
    pub fn completed(&self) -> Vec<(MessageId, Outcome)> {
        let completed = self.events.iter().filter_map(|event| match event.event {
            Event::Completed { message, outcome, .. } => Some((message, outcome)),
            _ => None,
        });
        completed.collect()
    }

    /// How many events fit.
    pub fn count(&self, fits: impl Fn(NodeId, &Event) -> bool) -> usize {
        self.events.iter().filter(|event| fits(event.node, &event.event)).count()
    }

    /// Data packets the sender sent: the first time, and again.
    pub fn transmissions(&self) -> (usize, usize) {
        (
            self.count(|_, event| matches!(event, Event::Sent { .. })),
            self.count(|_, event| matches!(event, Event::RepairSent { .. })),
        )
    }

    /// Acknowledgments and other feedback of a node.
    pub fn feedback(&self, from: NodeId) -> usize {
        self.count(|node, event| node == from && matches!(event, Event::FeedbackSent { .. }))
    }

    /// Packets a node dropped for a reason.
    pub fn drops(&self, at: NodeId, wanted: DropReason) -> usize {
        self.count(|node, event| node == at && *event == Event::Dropped { reason: wanted })
    }

    /// Datagrams a node sent.
    pub fn sent_by(&self, node: NodeId) -> usize {
        self.datagrams.iter().filter(|datagram| datagram.from == node).count()
    }

    /// How far everyone came, in a line.
    pub fn progress(&self) -> String {
        let got: Vec<_> = self.receivers.iter().map(|received| received.deliveries.len()).collect();
        let end = self.events.last().map_or(Time::ZERO, |event| event.time);
        format!(
            "{} of {} messages completed at {end}, delivered {got:?}",
            self.completed().len(),
            self.messages
        )
    }
}
