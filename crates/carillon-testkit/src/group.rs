//! Group of one protocol in a simulated world: one sender and some receivers, or peers, with different messages and
//! scripted crashes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carillon_core::{
    Application, AssociationId, BitRate, BuildContext, Config, GroupId, HelperTable, Machine, NodeId, Order,
    ProtocolEntry, Role, Seeds, Time,
};
use carillon_sim::graph::{Graph, GraphConfig, LossModel, Topology};
use carillon_sim::{Crashed, Lan, LanConfig, Network, StopReason, World};

use crate::checked_machine::CheckedMachine;
use crate::heap;
use crate::metered_machine::MeteredMachine;
use crate::oracle::{Contents, MessageSource, Oracle, Received, Services};
use crate::protocol_tests;
use crate::report::{Recorder, Report};
use crate::star::{Link, Star};

/// Node of the sender; the receivers are 1 to r. Peers are 0 to r, and the first ones send.
pub const SENDER: NodeId = NodeId(0);

/// Description of a run. Build it, then [`run`](Group::run) it over a [`Star`] or [`run_lan`](Group::run_lan) it over
/// an Ethernet.
#[derive(Clone, Debug)]
pub struct Group {
    entry: &'static ProtocolEntry,
    settings: Config,
    seeds: Seeds,
    receivers: u32,
    helpers: u32,
    designated: u32,
    fanout: usize,
    senders: u32,
    faults: Vec<Fault>,
    messages: u64,
    max_payload: usize,
    equal_payloads: bool,
    default_link: Link,
    links: Vec<(NodeId, NodeId, Link)>,
    pace: Duration,
    limit: Duration,
    afterwards: Duration,
    interval: Duration,
    link_overhead: u32,
    rejoins: bool,
    memory: Option<usize>,
}

/// Scripted change of the group.
#[derive(Clone, Copy, Debug)]
struct Fault {
    at: Time,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// Crash of a node.
    Crash(NodeId),
    /// Restart of a crashed node.
    Restart(NodeId),
    /// Failure or recovery of a link of the graph.
    Link(u32, bool),
}

impl Group {
    /// Group of one receiver and ten messages of up to 100 bytes, with lossless links and default settings.
    pub fn new(entry: &'static ProtocolEntry, seed: u64) -> Self {
        Group {
            entry,
            settings: Config::defaults(entry.parameters),
            seeds: Seeds::new(seed),
            receivers: 1,
            helpers: 0,
            designated: 0,
            fanout: 2,
            senders: 1,
            faults: Vec::new(),
            messages: 10,
            max_payload: 100,
            equal_payloads: false,
            default_link: Link::default(),
            links: Vec::new(),
            pace: Duration::ZERO,
            limit: Duration::from_secs(600),
            afterwards: Duration::from_secs(10),
            interval: Duration::ZERO,
            link_overhead: 0,
            rejoins: false,
            memory: None,
        }
    }

    /// Restarted receivers belong to the session and may join late; by default they belong to another session.
    pub fn rejoins(self) -> Self {
        Group { rejoins: true, ..self }
    }

    /// Sets the memory budget of receivers and helpers in bytes, and measures the heap of each node:
    /// [`Report::peaks`](crate::Report::peaks).
    ///
    /// # Panics
    ///
    /// Panics in a run, if the test program does not [count its heap](crate::heap).
    pub fn memory(self, memory: usize) -> Self {
        Group { memory: Some(memory), ..self }
    }

    /// Sets a parameter of the protocol.
    ///
    /// # Panics
    ///
    /// Panics if the protocol does not take the value.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.set(self.entry.parameters, key, value).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Sets all settings of the protocol.
    pub fn settings(self, settings: Config) -> Self {
        Group { settings, ..self }
    }

    /// Sets the number of receivers.
    pub fn receivers(self, receivers: u32) -> Self {
        Group { receivers, ..self }
    }

    /// Sets the number of helpers, which are the nodes after the receivers, in a balanced tree.
    pub fn helpers(self, helpers: u32) -> Self {
        Group { helpers, ..self }
    }

    /// Makes this number of receivers designated receivers, which also help; the first ones are chosen.
    pub fn designated(self, designated: u32) -> Self {
        Group { designated, ..self }
    }

    /// Sets the maximum number of children of a helper and of the sender, as far as helpers suffice; the default is
    /// 2. With 1 the helpers are a chain.
    pub fn fanout(self, fanout: usize) -> Self {
        Group { fanout, ..self }
    }

    /// Node of a helper.
    pub fn helper(&self, index: u32) -> NodeId {
        NodeId(self.receivers + 1 + index)
    }

    /// Helper table of the group.
    pub fn table(&self) -> HelperTable {
        let receivers: Vec<NodeId> = (1..=self.receivers).map(NodeId).collect();
        let apart = (0..self.helpers).map(|index| self.helper(index));
        let helpers: Vec<NodeId> = (1..=self.designated).map(NodeId).chain(apart).collect();
        HelperTable::balanced(&helpers, &receivers, self.fanout)
    }

    /// Sets the number of sending peers; the first ones send.
    pub fn senders(self, senders: u32) -> Self {
        Group { senders, ..self }
    }

    /// Crashes a node after this time.
    pub fn crash(mut self, node: NodeId, after: Duration) -> Self {
        self.faults.push(Fault { at: Time::ZERO + after, change: Change::Crash(node) });
        self
    }

    /// Takes a link of the graph down or up after this time.
    pub fn link_up(mut self, link: u32, is_up: bool, after: Duration) -> Self {
        self.faults.push(Fault { at: Time::ZERO + after, change: Change::Link(link, is_up) });
        self
    }

    /// Restarts a crashed node without its state after this time. A peer joins the group again and only receives, a
    /// member of a static group no longer belongs to it, and a router starts anew.
    pub fn restart(mut self, node: NodeId, after: Duration) -> Self {
        self.faults.push(Fault { at: Time::ZERO + after, change: Change::Restart(node) });
        self
    }

    /// Sets the number of messages of each sender.
    pub fn messages(self, messages: u64) -> Self {
        Group { messages, ..self }
    }

    /// Sets the maximum length of messages, which differ in length.
    pub fn max_payload(self, max_payload: usize) -> Self {
        Group { max_payload, equal_payloads: false, ..self }
    }

    /// Sets the length of every message.
    pub fn equal_payloads(self, max_payload: usize) -> Self {
        Group { max_payload, equal_payloads: true, ..self }
    }

    /// Sets the properties of all links of the star.
    pub fn all_links(self, default_link: Link) -> Self {
        Group { default_link, ..self }
    }

    /// Sets the properties of one link of the star.
    pub fn link(mut self, from: NodeId, to: NodeId, link: Link) -> Self {
        self.links.push((from, to, link));
        self
    }

    /// Sets the interval at which receivers' applications take a message.
    pub fn pace(self, pace: Duration) -> Self {
        Group { pace, ..self }
    }

    /// Sets the interval at which senders offer a message; by default as fast as it is taken.
    pub fn interval(self, interval: Duration) -> Self {
        Group { interval, ..self }
    }

    /// Sets the limit of simulated time in which the senders must finish; ten minutes by default.
    pub fn limit(self, limit: Duration) -> Self {
        Group { limit, ..self }
    }

    /// Sets the time for which the run continues after the senders have finished.
    pub fn afterwards(self, afterwards: Duration) -> Self {
        Group { afterwards, ..self }
    }

    /// Runs the group over a star.
    pub fn run(&self) -> Report {
        let mut star = Star::new(self.hosts(), self.default_link.clone(), &self.seeds);
        for (from, to, link) in &self.links {
            star.set_link(*from, *to, link.clone());
        }
        self.run_on(star)
    }

    /// Runs the group over a shared Ethernet.
    pub fn run_lan(&self, config: LanConfig) -> Report {
        let group = Group { link_overhead: config.frame_overhead, ..self.clone() };
        let lan = Lan::new(config, self.hosts() as usize, &self.seeds);
        group.run_on(lan)
    }

    /// Runs the group over a routed network. Node 0 is the sender and 1 to r are the receivers; helpers follow. The
    /// other nodes are routers, and relays if the protocol has them.
    pub fn run_graph(&self, topology: Arc<Topology>, config: GraphConfig, loss: LossModel) -> Report {
        let nodes = topology.nodes() as u32;
        let mut graph = Graph::new(topology.clone(), config, &self.seeds);
        let members = if self.are_peers() || self.entry.session.sender_hears_group { 0 } else { 1 };
        (members..self.hosts()).for_each(|node| graph.join(GroupId(0), NodeId(node)));
        for (link, ends) in (0_u32..).zip(topology.links().iter().map(|link| link.ends)) {
            ends.into_iter().for_each(|end| graph.set_loss(link, end, loss));
        }
        if self.entry.roles.contains(&Role::Relay) {
            (self.hosts()..nodes).for_each(|node| graph.set_relay(NodeId(node)));
        }
        let group = Group { link_overhead: config.overhead, ..self.clone() };
        group.run_world(graph, nodes, |graph, link, is_up| graph.set_up(link, is_up))
    }

    /// Runs the group over a network with a node for the sender and for each receiver and helper.
    pub fn run_on<N: Network>(&self, network: N) -> Report {
        self.run_world(network, self.hosts(), |_, link, _| panic!("this network has no link {link}"))
    }

    fn run_world<N: Network>(&self, network: N, nodes: u32, set_link: fn(&mut N, u32, bool)) -> Report {
        assert!(self.entry.helpers.allow(self.table().helpers().len()), "{} helpers", self.helpers);
        let mut world = World::new(network, Recorder::default()).with_helpers(self.table().into());
        if self.memory.is_some() {
            assert!(heap::is_counting(), "this test program does not count its heap");
            assert!((nodes as usize) < heap::OWNERS - 2, "there are owners for {nodes} nodes");
            heap::reset();
        }
        // Records of the receivers, which the oracles fill.
        let mut lives = Vec::new();
        for node in (0..=self.receivers).map(NodeId) {
            let (machine, application) = self.node(node, false, &mut lives);
            world.add_node(machine, Some(application));
        }
        for node in (self.receivers + 1..nodes).map(NodeId) {
            world.add_node(self.between(node, false), None);
        }
        world.start();
        let mut faults = self.faults.clone();
        faults.sort_by_key(|fault| fault.at);
        let mut crashed: Vec<NodeId> = Vec::new();
        let mut rejoined = Vec::new();
        // Run up to each fault, then apply it.
        for fault in &faults {
            world.run(fault.at, |_| false);
            world.pass_to(fault.at);
            match fault.change {
                Change::Link(link, is_up) => set_link(world.network(), link, is_up),
                Change::Crash(node) => {
                    crashed.push(node);
                    world.replace(node, Box::new(Crashed), None);
                }
                Change::Restart(node) if node.0 > self.receivers => {
                    world.replace(node, self.between(node, true), None);
                }
                Change::Restart(node) => {
                    let (machine, application) = self.node(node, true, &mut rejoined);
                    world.replace(node, machine, Some(application));
                }
            }
        }
        let senders: Vec<NodeId> = self.sending().filter(|node| !crashed.contains(node)).collect();
        let is_finished = |world: &mut World<N, Recorder>| {
            senders
                .iter()
                .all(|&node| world.machine(node).as_sender().is_some_and(|sender| sender.is_finished()))
        };
        let stop = world.run(Time::ZERO + self.limit, is_finished);
        assert!(
            !matches!(stop, StopReason::Runaway(_)),
            "{}: a machine emits without end: {stop:?}",
            self.entry.name
        );
        let finished = (stop == StopReason::Done).then(|| world.now());
        let sent_before = world.observer().datagrams.len();
        // Keep running, to see whether the group falls silent after the end.
        let quiet = match finished {
            None => false,
            Some(at) => world.run(at + self.afterwards, |_| false) == StopReason::Idle,
        };
        // A sender may not become unfinished again.
        let finished_still = is_finished(&mut world);
        let Recorder { events, datagrams } = world.into_observer();
        let read = |lives: Vec<Arc<Mutex<Received>>>| -> Vec<Received> {
            lives.iter().map(|received| received.lock().expect("no oracle panicked").clone()).collect()
        };
        Report {
            messages: self.messages,
            senders: self.sending().collect(),
            order: self.entry.order_with(&self.settings),
            services: self.services(),
            confirmed: self.entry.confirms(&self.settings),
            crashed,
            receivers: read(lives),
            rejoined: read(rejoined),
            finished: finished.filter(|_| finished_still),
            quiet,
            sent_afterwards: datagrams.len() - sent_before,
            events,
            datagrams,
            peaks: self.memory.map_or(Vec::new(), |_| (1..=nodes as usize).map(heap::peak).collect()),
        }
    }

    /// Service of each message, if messages differ.
    fn services(&self) -> Option<Services> {
        let service = protocol_tests(self.entry).service?;
        Some((0..self.messages).map(|number| service(&self.settings, self.receivers + 1, number)).collect())
    }

    fn are_peers(&self) -> bool {
        self.entry.roles.contains(&Role::Peer)
    }

    fn sending(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.senders).map(NodeId)
    }

    /// Number of nodes that are no routers.
    fn hosts(&self) -> u32 {
        self.receivers + 1 + self.helpers
    }

    /// Machine of a helper or a router.
    fn between(&self, node: NodeId, restarted: bool) -> Box<dyn Machine> {
        if node.0 < self.hosts() {
            self.build(Role::Helper, node, restarted)
        } else if self.entry.roles.contains(&Role::Relay) {
            self.build(Role::Relay, node, restarted)
        } else {
            Box::new(Crashed)
        }
    }

    /// Machine and application of a node; adds the record of a receiver to `lives`.
    fn node(
        &self,
        node: NodeId,
        restarted: bool,
        lives: &mut Vec<Arc<Mutex<Received>>>,
    ) -> (Box<dyn Machine>, Box<dyn Application>) {
        let contents = match self.equal_payloads {
            true => Contents::equal(&self.seeds, self.max_payload),
            false => Contents::new(&self.seeds, self.max_payload),
        };
        let mut judged = |oracle: Oracle| {
            let oracle = if restarted { oracle.from_anywhere() } else { oracle };
            let oracle = if self.entry.confirms(&self.settings) { oracle } else { oracle.with_gaps() };
            let as_they_come = self.entry.order_with(&self.settings) == Order::Arrival;
            let oracle = if as_they_come { oracle.in_any_order() } else { oracle };
            let oracle = match self.services() {
                Some(services) => oracle.with_services(&services),
                None => oracle,
            };
            lives.push(oracle.received());
            oracle
        };
        let (role, application): (_, Box<dyn Application>) = if self.are_peers() {
            let messages = if node.0 < self.senders && !restarted { self.messages } else { 0 };
            let offers = MessageSource::new(contents.of(node), messages).every(self.interval);
            let oracle = judged(Oracle::of_peers(node, self.sending(), &contents, self.pace));
            (Role::Peer, Box::new((offers, oracle)))
        } else if node == SENDER {
            (Role::Sender, Box::new(MessageSource::new(contents, self.messages).every(self.interval)))
        } else {
            (Role::Receiver, Box::new(judged(Oracle::new(node, SENDER, contents, self.pace))))
        };
        (self.build(role, node, restarted), application)
    }

    /// Machine of a node, checked.
    pub fn machine(&self, role: Role, node: NodeId) -> Box<dyn Machine> {
        self.build(role, node, false)
    }

    fn build(&self, role: Role, node: NodeId, restarted: bool) -> Box<dyn Machine> {
        let first = if self.are_peers() { 0 } else { 1 };
        let stranger = restarted && !self.are_peers() && !self.rejoins;
        let seeds = self.seeds.node(node);
        let context = BuildContext {
            association: AssociationId(if stranger { 2 } else { 1 }),
            node,
            sender: SENDER,
            members: (first..=self.receivers).map(NodeId).collect(),
            helpers: self.table().into(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: if restarted { seeds.part("restarted") } else { seeds },
            bit_rate: BitRate::mbps(10),
            link_overhead: self.link_overhead,
            max_payload: self.max_payload as u32,
            memory: self.memory.unwrap_or(usize::MAX),
            rejoining: restarted,
        };
        let build = || {
            (self.entry.build)(role, &context, &self.settings)
                .unwrap_or_else(|error| panic!("{} does not take these settings: {error}", self.entry.name))
        };
        let machine: Box<dyn Machine> = match self.memory {
            None => build(),
            Some(_) => Box::new(MeteredMachine::new(node.index() + 1, build)),
        };
        Box::new(CheckedMachine::new(machine).of(self.entry))
    }
}
