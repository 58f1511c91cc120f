//! A network with machines at its nodes, and the loop that drives them.

use std::sync::Arc;

use carillon_core::{
    Application, Bytes, Dest, Event, HelperTable, Host, Machine, NodeId, Notice, Observer, Received, Time,
    Transmit, Verdict, drain, poll_application,
};

use crate::network::{Arrival, Network, Precedence, TimerRule};
use crate::queue::EventQueue;

/// A run in progress.
#[derive(Debug)]
pub struct World<N, O> {
    now: Time,
    /// The network's.
    timer_rule: TimerRule,
    network: N,
    observer: O,
    nodes: Vec<Node>,
    /// When to look at which node: at most a few entries for each, the earliest of them no later
    /// than the node's next timeout.
    wakeups: EventQueue<NodeId>,
    arrival: Arrival,
    buf: Vec<u8>,
    copy_cache: CopyCache,
    steps: u64,
    /// Who turns to which helper, if the protocol has some.
    helpers: Arc<HelperTable>,
    /// Members given up since the table was last looked at.
    lost_members: Vec<NodeId>,
    /// Whether something has been done with a sender since that was last asked, or with a machine that may be one.
    senders_moved: bool,
    /// Datagrams that one machine may send in one event, and the greatest number that one has sent.
    emission_limit: u64,
    max_emitted: u64,
    /// Why the run stopped in the middle of an event.
    halted: Option<StopReason>,
}

/// Kept small and in one array: a fan-out walks it in order.
struct Node {
    machine: Box<dyn Machine>,
    application: Option<Box<dyn Application>>,
    /// Whether the machine is a sender: asked once, for most are none and are called for each datagram.
    sends: bool,
    /// When the machine or the application next wants to be called.
    wanted: Time,
    /// The earliest wake-up in the queue; a later `wanted` is found out when it comes.
    scheduled: Time,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.machine.fmt(f)
    }
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The condition held.
    Done,
    /// Nothing is left to happen.
    Idle,
    /// The limit of simulated time was reached.
    TimeLimit,
    /// The observer [stopped](Observer::stops) the run, in the middle of an event.
    Stopped,
    /// One machine has emitted more in one event than the world allows. The run cannot go on.
    Runaway(Runaway),
}

/// A machine that emits without end while time stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runaway {
    /// The node of the machine.
    pub node: NodeId,
    /// The time of the event.
    pub time: Time,
    /// Number of datagrams that it sent in the event.
    pub datagrams: u64,
    /// Number of events that it recorded and notices that it gave in the event.
    pub records: u64,
}

impl<N: Network, O: Observer> World<N, O> {
    /// A world at time zero without nodes.
    pub fn new(network: N, observer: O) -> Self {
        World {
            now: Time::ZERO,
            timer_rule: network.timer_rule(),
            network,
            observer,
            nodes: Vec::new(),
            wakeups: EventQueue::new(),
            arrival: Arrival::default(),
            buf: Vec::new(),
            copy_cache: CopyCache::default(),
            steps: 0,
            helpers: Arc::default(),
            lost_members: Vec::new(),
            senders_moved: true,
            emission_limit: DEFAULT_EMISSION_LIMIT,
            max_emitted: 0,
            halted: None,
        }
    }

    /// The same, where one machine may send at most `limit` datagrams in one event.
    pub fn with_emission_limit(self, limit: u64) -> Self {
        World { emission_limit: limit, ..self }
    }

    /// The same with helpers. When one of them is given up, its children go to its parent, and every machine has the new
    /// table at once: what it takes to tell them is not simulated.
    pub fn with_helpers(self, helpers: Arc<HelperTable>) -> Self {
        World { helpers, ..self }
    }

    /// Adds the next node: its machine, and the application that uses it.
    pub fn add_node(
        &mut self,
        mut machine: Box<dyn Machine>,
        application: Option<Box<dyn Application>>,
    ) -> NodeId {
        let sends = machine.as_sender().is_some();
        self.nodes.push(Node { machine, application, sends, wanted: Time::MAX, scheduled: Time::MAX });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Takes the machine and the application of a node away and puts others in their place: a crash,
    /// if the machine is [`Crashed`](crate::Crashed), or a restart. What the network holds for the
    /// node stays there.
    pub fn replace(
        &mut self,
        node: NodeId,
        mut machine: Box<dyn Machine>,
        application: Option<Box<dyn Application>>,
    ) {
        let index = node.index();
        machine.start(self.now);
        let sends = machine.as_sender().is_some();
        let Node { wanted, scheduled, .. } = self.nodes[index];
        self.nodes[index] = Node { machine, application, sends, wanted, scheduled };
        self.senders_moved = true;
        self.settle(index, false);
        self.update_helpers();
    }

    /// The ends are told that a node is lost, as by a host that has not heard of it for long: the sender gives it up, and
    /// its children turn to others.
    pub fn lose(&mut self, sender: NodeId, lost_members: NodeId) {
        if let Some(machine) = self.nodes[sender.index()].machine.as_sender() {
            machine.expel(self.now, lost_members);
            self.settle(sender.index(), false);
        }
        self.lost_members.push(lost_members);
        self.update_helpers();
    }

    /// Lets time pass up to `now` if nothing happens before that.
    ///
    /// # Panics
    ///
    /// If something is to happen earlier: run up to it first.
    pub fn pass_to(&mut self, now: Time) {
        assert!(self.time_of(&self.next()).is_none_or(|next| next >= now), "something happens before {now}");
        self.now = self.now.max(now);
    }

    /// Starts every machine and lets every node do what it does first: applications offer, machines send. Call once, after
    /// the last node was added.
    pub fn start(&mut self) {
        for index in 0..self.nodes.len() {
            self.nodes[index].machine.start(self.now);
            self.settle(index, false);
        }
        self.update_helpers();
    }

    /// Runs until `done` holds, nothing is left to happen, or `limit` is reached. The condition is
    /// checked after every step.
    pub fn run(&mut self, limit: Time, mut done: impl FnMut(&mut Self) -> bool) -> StopReason {
        loop {
            if let Some(reason) = self.halted {
                return reason;
            }
            if done(self) {
                return StopReason::Done;
            }
            let next = self.next();
            match self.time_of(&next) {
                None => return StopReason::Idle,
                Some(time) if time > limit => return StopReason::TimeLimit,
                Some(_) => self.step(&next),
            }
        }
    }

    fn next(&self) -> Next {
        Next { network: self.network.next_time(), timer: self.wakeups.next_time() }
    }

    /// When the next step happens.
    fn time_of(&self, next: &Next) -> Option<Time> {
        let timer = next.timer.map(|time| time.max(self.now));
        match (next.network, timer) {
            (Some((network, _)), _) if self.timer_rule == TimerRule::AfterBusActivity => Some(network),
            (Some((network, _)), Some(timer)) => Some(network.min(timer)),
            (network, timer) => network.map(|(time, _)| time).or(timer),
        }
    }

    /// Does the next thing.
    fn step(&mut self, next: &Next) {
        self.steps += 1;
        self.advance(next);
        if !self.lost_members.is_empty() {
            self.update_helpers();
        }
    }

    /// Tells every machine who turns to whom, now that some are lost.
    fn update_helpers(&mut self) {
        while let Some(lost_members) = self.lost_members.pop() {
            let Some(next) = self.helpers.without(lost_members) else { continue };
            self.helpers = Arc::new(next);
            for index in 0..self.nodes.len() {
                let table = self.helpers.clone();
                self.nodes[index].machine.update_helpers(self.now, &table);
                self.settle(index, false);
            }
        }
    }

    fn advance(&mut self, next: &Next) {
        match (next.network, next.timer) {
            (None, None) => {}
            (None, Some(_)) => self.wake_next(),
            (Some((time, _)), _) if self.timer_rule == TimerRule::AfterBusActivity => {
                self.advance_network(time);
                // A transmission is one step of that loop: not before the frame has arrived.
                if matches!(self.network.next_time(), Some((_, Precedence::NetworkFirst))) {
                    return;
                }
                while self.wakeups.next_time().is_some_and(|due| due <= self.now) {
                    self.wake_next();
                }
            }
            (Some((time, precedence)), timer) => {
                let timer_goes_first = timer.is_some_and(|timer| {
                    timer < time || (timer == time && precedence == Precedence::TimersFirst)
                });
                if timer_goes_first {
                    self.wake_next();
                } else {
                    self.advance_network(time);
                }
            }
        }
    }

    fn advance_network(&mut self, time: Time) {
        debug_assert!(time >= self.now, "the network's time went back");
        self.now = time;
        let mut arrival = std::mem::take(&mut self.arrival);
        if self.network.advance(time, &mut arrival, &mut self.observer) {
            for &node in &arrival.receivers {
                let received = Received {
                    source: arrival.source,
                    destination: &arrival.dest,
                    ingress: arrival.ingress,
                    scope: arrival.scope,
                    bytes: &arrival.bytes,
                };
                let machine = &mut self.nodes[node.index()].machine;
                if arrival.transit {
                    let relay = machine.as_relay();
                    let verdict =
                        relay.map_or(Verdict::Forward, |relay| relay.handle_transit(time, received));
                    self.network.forward(time, verdict, &mut self.observer);
                } else {
                    machine.handle_datagram(time, received);
                }
                self.settle(node.index(), false);
                if self.halted.is_some() {
                    break;
                }
            }
            arrival.receivers.clear();
        }
        self.arrival = arrival;
        // What had to wait for a port is decided now, not when it was.
        while self.halted.is_none()
            && let Some(node) = self.network.next_ready()
        {
            self.settle(node.index(), false);
        }
    }

    /// Takes the next wake-up. It may be a stale one: the node wants to be called later, or again.
    fn wake_next(&mut self) {
        let Some((time, id)) = self.wakeups.pop() else { return };
        self.now = self.now.max(time);
        let node = &mut self.nodes[id.index()];
        if time == node.scheduled {
            node.scheduled = Time::MAX;
        }
        if node.wanted <= self.now {
            node.machine.handle_timeout(self.now);
            self.settle(id.index(), true);
        } else {
            self.schedule(id.index());
        }
    }

    /// After any call on a node: lets the application act, drains the machine, repeats while the
    /// application has something to do, and notes when the node next wants to be called.
    fn settle(&mut self, index: usize, timers_fired: bool) {
        if self.halted.is_some() {
            return;
        }
        let node = &mut self.nodes[index];
        let mut host = NodeHost {
            now: self.now,
            node: NodeId(index as u32),
            network: &mut self.network,
            observer: &mut self.observer,
            copy_cache: &mut self.copy_cache,
            timers_fired,
            lost_members: &mut self.lost_members,
            emission_limit: self.emission_limit,
            datagrams: 0,
            records: 0,
            halted: None,
        };
        let machine = node.machine.as_mut();
        debug_assert_eq!(node.sends, machine.as_sender().is_some(), "it was otherwise before: {machine:?}");
        let wanted = match &mut node.application {
            None => {
                self.senders_moved = true;
                drain(machine, self.now, &mut self.buf, &mut host)
            }
            Some(application) => {
                let timeout = if node.sends {
                    self.senders_moved = true;
                    let mut poll = |machine: &mut (dyn Machine + 'static), host: &mut NodeHost<'_, N, O>| {
                        poll_application(application, self.now, machine, |event| host.event(&event))
                    };
                    poll(machine, &mut host);
                    loop {
                        let timeout = drain(machine, self.now, &mut self.buf, &mut host);
                        // It may have made room for what is offered.
                        if host.halted.is_some() || !poll(machine, &mut host) {
                            break timeout;
                        }
                    }
                } else {
                    // Who only takes offers nothing, and has taken all.
                    application.poll(self.now, machine);
                    let timeout = drain(machine, self.now, &mut self.buf, &mut host);
                    debug_assert!(!application.poll(self.now, machine), "there is more to take: {machine:?}");
                    timeout
                };
                earliest(timeout, application.poll_timeout())
            }
        };
        self.max_emitted = self.max_emitted.max(host.datagrams);
        self.halted = host.halted;
        if self.observer.watches_held()
            && let Some(messages) = node.machine.held()
        {
            self.observer.held(NodeId(index as u32), messages);
        }
        node.wanted = wanted.unwrap_or(Time::MAX);
        self.schedule(index);
    }

    fn schedule(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        // A machine that comes late into the world may want what is past already.
        let at = node.wanted.max(self.now);
        if at < node.scheduled {
            node.scheduled = at;
            self.wakeups.push(at, NodeId(index as u32));
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Steps of the loop so far: transmissions, collisions and wake-ups.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The greatest number of datagrams that one machine has sent in one event.
    pub fn max_emitted(&self) -> u64 {
        self.max_emitted
    }

    /// Whether a sender may have finished since this was last asked: something has been done with one.
    pub fn take_senders_moved(&mut self) -> bool {
        std::mem::take(&mut self.senders_moved)
    }

    /// The machine of a node.
    pub fn machine(&mut self, node: NodeId) -> &mut dyn Machine {
        self.nodes[node.index()].machine.as_mut()
    }

    /// The network, to change it between steps.
    pub fn network(&mut self) -> &mut N {
        &mut self.network
    }

    /// The observer.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Ends the run and gives back what watched it.
    pub fn into_observer(self) -> O {
        self.observer
    }
}

/// What may happen next: in the network, and at a node by the clock.
struct Next {
    network: Option<(Time, Precedence)>,
    timer: Option<Time>,
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Datagrams that one machine may send in one event, unless the run says otherwise: far more than any window holds.
pub const DEFAULT_EMISSION_LIMIT: u64 = 1_000_000;
/// Events and notices of one event for each datagram that it may send.
const MAX_RECORDS_PER_DATAGRAM: u64 = 16;
/// Emissions between two looks at whether the run is to stop.
const STOP_CHECK_INTERVAL: u64 = 1024;

/// The last packets that went to one node each. Who has no group to send to sends the same to each of many: these are kept
/// once, however many are under way.
#[derive(Debug, Default)]
struct CopyCache {
    last: [Bytes; CACHED_COPIES],
    next: usize,
}

/// Kinds of packets that alternate: with a poll and without, or with another in between.
const CACHED_COPIES: usize = 2;

impl CopyCache {
    fn shared(&mut self, bytes: &[u8]) -> Bytes {
        if let Some(same) = self.last.iter().find(|last| last[..] == *bytes) {
            return same.clone();
        }
        let new = Bytes::copy_from_slice(bytes);
        self.last[self.next] = new.clone();
        self.next = (self.next + 1) % CACHED_COPIES;
        new
    }
}

/// One node's side of the drain.
struct NodeHost<'a, N, O> {
    now: Time,
    node: NodeId,
    network: &'a mut N,
    observer: &'a mut O,
    copy_cache: &'a mut CopyCache,
    timers_fired: bool,
    lost_members: &'a mut Vec<NodeId>,
    emission_limit: u64,
    /// Number of datagrams sent in this event, and of events and notices.
    datagrams: u64,
    records: u64,
    halted: Option<StopReason>,
}

impl<N, O: Observer> NodeHost<'_, N, O> {
    /// Looks whether the machine has emitted too much, and now and then whether the run is to stop.
    fn check_limits(&mut self) {
        let NodeHost { now, node, datagrams, records, .. } = *self;
        let is_over = datagrams > self.emission_limit
            || records / MAX_RECORDS_PER_DATAGRAM > self.emission_limit.max(STOP_CHECK_INTERVAL);
        if is_over {
            self.halted = Some(StopReason::Runaway(Runaway { node, time: now, datagrams, records }));
        } else if (datagrams + records).is_multiple_of(STOP_CHECK_INTERVAL) && self.observer.stops() {
            self.halted = Some(StopReason::Stopped);
        }
    }
}

impl<N: Network, O: Observer> Host for NodeHost<'_, N, O> {
    fn is_ready(&mut self) -> bool {
        self.network.is_ready(self.now, self.node)
    }

    fn may_emit(&mut self) -> bool {
        self.halted.is_none()
    }

    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>) {
        self.datagrams += 1;
        self.check_limits();
        let bytes = match transmit.dest {
            Dest::Node(_) => self.copy_cache.shared(bytes),
            _ => Bytes::copy_from_slice(bytes),
        };
        self.network.transmit(self.now, self.node, transmit, bytes, self.observer);
    }

    fn event(&mut self, event: &Event) {
        self.records += 1;
        self.check_limits();
        self.observer.event(self.now, self.node, event);
    }

    fn notice(&mut self, notice: Notice) {
        self.records += 1;
        self.check_limits();
        if let Notice::MemberLost { member } = notice {
            self.lost_members.push(member);
        }
        self.observer.notice(self.now, self.node, &notice);
    }

    fn timers_fired(&self) -> bool {
        self.timers_fired
    }
}
