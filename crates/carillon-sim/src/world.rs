//! World of a simulated run: a network, machines at its nodes, and the event loop that drives them.
//!
//! A step is either one of the network (a transmission, a collision, an arrival) or the wake-up of a node by a timer.
//! After each call of a machine the world polls the node's application and drains the machine, as every host does.
//! Times come from the network and from the wake-up queue only, so a run depends on nothing but its inputs.

use std::sync::Arc;

use carillon_core::{
    Application, Handling, HelperTable, Host, Machine, NodeId, Observer, Received, Time, Verdict, drain,
    poll_application,
};

use crate::graph::{Crossings, PartId, Partition};
use crate::network::{Arrival, Network, Precedence, TimerRule};
use crate::node::Node;
use crate::node_host::{CopyCache, NodeHost};
use crate::queue::EventQueue;
use crate::serials::{Serials, Slot};
pub use crate::stop::{Runaway, StopReason};

/// Simulated run in progress.
#[derive(Debug)]
pub struct World<N, O> {
    now: Time,
    /// Timer rule of the network.
    timer_rule: TimerRule,
    /// True if calls of applications take time at the network's hosts.
    calls_take_time: bool,
    network: N,
    observer: O,
    nodes: Vec<Node>,
    /// Wake-ups of nodes: at most a few entries for each, the earliest of them no later than the node's next timeout.
    wakeups: EventQueue<(NodeId, Slot)>,
    /// Part of a larger world that this is, if it is one.
    part: Option<Box<PartOrder>>,
    /// Last arrival, kept to reuse its memory. It is boxed, so that a step takes it without moving it.
    arrival: Option<Box<Arrival>>,
    buf: Vec<u8>,
    copy_cache: CopyCache,
    steps: u64,
    /// Current helper table; empty without helpers.
    helpers: Arc<HelperTable>,
    /// Lost members that the helper table does not reflect yet.
    lost_members: Vec<NodeId>,
    /// True if a sender, or a machine that may be one, was called since the last question.
    senders_moved: bool,
    /// Maximum number of datagrams of one machine in one event, and the largest number so far.
    emission_limit: u64,
    max_emitted: u64,
    /// Reason if the run was stopped in the middle of an event.
    halted: Option<StopReason>,
}

/// Part that a world is, and the order of its timers among those of all parts.
#[derive(Debug)]
struct PartOrder {
    partition: Partition,
    part: PartId,
    timers: Serials,
    /// Timer that was taken in the current step.
    taken: Option<Slot>,
}

impl<N: Network, O: Observer> World<N, O> {
    /// World at time zero without nodes.
    pub fn new(network: N, observer: O) -> Self {
        World {
            now: Time::ZERO,
            timer_rule: network.timer_rule(),
            calls_take_time: network.calls_take_time(),
            network,
            observer,
            nodes: Vec::new(),
            wakeups: EventQueue::new(),
            part: None,
            arrival: None,
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

    /// Sets the maximum number of datagrams of one machine in one event.
    pub fn with_emission_limit(self, limit: u64) -> Self {
        World { emission_limit: limit, ..self }
    }

    /// Sets the helper table. When a helper is lost, its children move to its parent, and every machine gets the new
    /// table at once: the messages for that are not simulated.
    pub fn with_helpers(self, helpers: Arc<HelperTable>) -> Self {
        World { helpers, ..self }
    }

    /// Makes the world one part of a partition. The nodes of the part are added in ascending order.
    pub fn with_part(self, partition: &Partition, part: PartId) -> Self {
        let order = PartOrder { partition: partition.clone(), part, timers: Serials::default(), taken: None };
        World { part: Some(Box::new(order)), ..self }
    }

    /// Adds the next node with its machine and its application.
    pub fn add_node(
        &mut self,
        machine: Box<dyn Machine>,
        application: Option<Box<dyn Application>>,
    ) -> NodeId {
        self.nodes.push(Node::new(machine, application));
        self.node_at(self.nodes.len() - 1)
    }

    /// Node at a place in `nodes`.
    fn node_at(&self, place: usize) -> NodeId {
        match &self.part {
            None => NodeId(place as u32),
            Some(order) => order.partition.nodes_of(order.part)[place],
        }
    }

    /// Index of a node in `nodes`.
    fn place(&self, node: NodeId) -> usize {
        match &self.part {
            None => node.index(),
            Some(order) => order.partition.place(node),
        }
    }

    /// Replaces the machine and the application of a node: a crash, if the machine is [`Crashed`](crate::Crashed), or
    /// a restart. Packets that the network holds for the node stay there.
    pub fn replace(
        &mut self,
        node: NodeId,
        mut machine: Box<dyn Machine>,
        application: Option<Box<dyn Application>>,
    ) {
        let place = self.place(node);
        machine.start(self.now);
        let Node { wanted, scheduled, .. } = self.nodes[place];
        self.nodes[place] = Node { wanted, scheduled, ..Node::new(machine, application) };
        self.senders_moved = true;
        self.settle(node, false);
        self.update_helpers();
    }

    /// Reports a node as lost, as a host does after a silence timeout: the sender expels it, and its children get
    /// another parent.
    pub fn lose(&mut self, sender: NodeId, lost: NodeId) {
        let place = self.place(sender);
        if let Some(machine) = self.nodes[place].machine.as_sender() {
            machine.expel(self.now, lost);
            self.settle(sender, false);
        }
        self.lost_members.push(lost);
        self.update_helpers();
    }

    /// Advances time to `now` if no event is earlier.
    ///
    /// # Panics
    ///
    /// Panics if an event is earlier: run up to it first.
    pub fn pass_to(&mut self, now: Time) {
        assert!(self.time_of(&self.next()).is_none_or(|next| next >= now), "something happens before {now}");
        self.now = self.now.max(now);
    }

    /// Starts every machine and settles every node, so that applications offer and machines send. Call once, after
    /// the last node was added.
    pub fn start(&mut self) {
        for place in 0..self.nodes.len() {
            self.start_node(place);
        }
        self.update_helpers();
    }

    /// Starts the machine at a place in `nodes`.
    pub(crate) fn start_node(&mut self, place: usize) -> NodeId {
        self.nodes[place].machine.start(self.now);
        let node = self.node_at(place);
        self.settle(node, false);
        node
    }

    /// Runs until `done` returns true, no event is left, or `limit` is reached. The condition is checked after every
    /// step.
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

    /// Time of the next step.
    pub(crate) fn next_step_time(&self) -> Option<Time> {
        if self.halted.is_some() {
            return None;
        }
        self.time_of(&self.next())
    }

    /// Performs the next step of a part, if its time is not after `last`. Returns whether there was one, and the timer
    /// that it took.
    pub(crate) fn step_by(&mut self, last: Time) -> Option<Option<Slot>> {
        if self.halted.is_some() {
            return None;
        }
        let next = self.next();
        if self.time_of(&next).is_none_or(|time| time > last) {
            return None;
        }
        self.step(&next);
        Some(self.part.as_mut().and_then(|order| order.taken.take()))
    }

    /// Order of the network events and of the timers of a part.
    ///
    /// # Panics
    ///
    /// Panics if the world or its network is no part.
    pub(crate) fn order(&mut self) -> (&mut Crossings, &mut Serials) {
        let crossings = self.network.crossings().expect("the network is a part");
        (crossings, &mut self.part.as_mut().expect("the world is a part").timers)
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Reason for which the world stopped within an event, if it did.
    pub(crate) fn halted(&self) -> Option<StopReason> {
        self.halted
    }

    fn next(&self) -> Next {
        Next { network: self.network.next_time(), timer: self.wakeups.next_time() }
    }

    /// Time of the next step.
    fn time_of(&self, next: &Next) -> Option<Time> {
        let timer = next.timer.map(|time| time.max(self.now));
        match (next.network, timer) {
            (Some((network, _)), _) if self.timer_rule == TimerRule::AfterBusActivity => Some(network),
            (Some((network, _)), Some(timer)) => Some(network.min(timer)),
            (network, timer) => network.map(|(time, _)| time).or(timer),
        }
    }

    /// Performs the next step.
    fn step(&mut self, next: &Next) {
        self.steps += 1;
        self.advance(next);
        if !self.lost_members.is_empty() {
            self.update_helpers();
        }
    }

    /// Updates the helper table after losses and passes it to every machine.
    fn update_helpers(&mut self) {
        while let Some(lost) = self.lost_members.pop() {
            let Some(next) = self.helpers.without(lost) else { continue };
            self.helpers = Arc::new(next);
            for place in 0..self.nodes.len() {
                let table = self.helpers.clone();
                self.nodes[place].machine.update_helpers(self.now, &table);
                self.settle(self.node_at(place), false);
            }
        }
    }

    fn advance(&mut self, next: &Next) {
        match (next.network, next.timer) {
            (None, None) => {}
            (None, Some(_)) => self.wake_next(),
            (Some((time, _)), _) if self.timer_rule == TimerRule::AfterBusActivity => {
                self.advance_network(time);
                // A transmission is one step of that loop: timers wait until the frame has arrived.
                if matches!(self.network.next_time(), Some((_, Precedence::NetworkFirst))) {
                    return;
                }
                // All timers that became due during the transmission fire now.
                while self.wakeups.next_time().is_some_and(|due| due <= self.now) {
                    self.wake_next();
                }
            }
            // The earlier event goes first; the network decides about equal times.
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
        let mut arrival = self.arrival.take().unwrap_or_default();
        if self.network.advance(time, &mut arrival, &mut self.observer) {
            let watches_packets = self.observer.watches_packets();
            for &node in &arrival.receivers {
                let received = Received {
                    source: arrival.source,
                    destination: &arrival.dest,
                    ingress: arrival.ingress,
                    scope: arrival.scope,
                    bytes: &arrival.bytes,
                };
                let place = self.place(node);
                let machine = &mut self.nodes[place].machine;
                if arrival.transit {
                    let relay = machine.as_relay();
                    let verdict =
                        relay.map_or(Verdict::Forward, |relay| relay.handle_transit(time, received));
                    if watches_packets && !matches!(verdict, Verdict::Forward) {
                        self.observer.handled(time, node, Handling::Diverted);
                    }
                    self.network.forward(time, verdict, &mut self.observer);
                } else {
                    if watches_packets {
                        self.observer.handled(time, node, Handling::Received);
                    }
                    machine.handle_datagram(time, received);
                }
                let arrived = self.observer.watches_frames().then_some(&*arrival);
                self.settle_after(node, false, arrived);
                if self.halted.is_some() {
                    break;
                }
            }
            arrival.receivers.clear();
        }
        self.arrival = Some(arrival);
        // Machines that waited for a port decide now what to send.
        while self.halted.is_none()
            && let Some(node) = self.network.next_ready()
        {
            self.settle(node, false);
        }
    }

    /// Takes the next wake-up. It is stale if the node wants to be called later.
    fn wake_next(&mut self) {
        let Some((time, (id, slot))) = self.wakeups.pop() else { return };
        if let Some(order) = &mut self.part {
            order.timers.take(slot);
            order.taken = Some(slot);
        }
        self.now = self.now.max(time);
        let place = self.place(id);
        let node = &mut self.nodes[place];
        // This was the earliest entry of the node; later ones may remain in the queue.
        if time == node.scheduled {
            node.scheduled = Time::MAX;
        }
        if node.wanted <= self.now {
            node.machine.handle_timeout(self.now);
            self.settle(id, true);
        } else {
            self.schedule(id);
        }
    }

    /// Completes a call on a node: polls the application and drains the machine until the application has nothing
    /// left to do, then schedules the next wake-up.
    fn settle(&mut self, id: NodeId, timers_fired: bool) {
        self.settle_after(id, timers_fired, None);
    }

    /// Completes a call as [`settle`](World::settle) does, after the arrival of a datagram if one is given.
    fn settle_after(&mut self, id: NodeId, timers_fired: bool, arrived: Option<&Arrival>) {
        if self.halted.is_some() {
            return;
        }
        let place = self.place(id);
        let node = &mut self.nodes[place];
        let mut host = NodeHost {
            now: self.now,
            node: id,
            network: &mut self.network,
            observer: &mut self.observer,
            copy_cache: &mut self.copy_cache,
            timers_fired,
            arrived,
            lost_members: &mut self.lost_members,
            emission_limit: self.emission_limit,
            datagrams: 0,
            records: 0,
            halted: &mut self.halted,
        };
        let machine = node.machine.as_mut();
        debug_assert_eq!(node.sends, machine.as_sender().is_some(), "it was otherwise before: {machine:?}");
        let wanted = match &mut node.application {
            Some(application) if self.calls_take_time => {
                self.senders_moved |= node.sends;
                // The machine goes first; a call begins when the host has nothing else to do.
                let timeout = loop {
                    let timeout = drain(machine, self.now, &mut self.buf, &mut host);
                    if host.halted.is_some()
                        || !host.is_ready()
                        || !host.call(application, machine, node.sends)
                    {
                        break timeout;
                    }
                };
                // An application that is due already waits for its host, which wakes the node when it is idle. A
                // wake-up for it would be repeated at this instant without an end.
                let due = application.poll_timeout().filter(|&at| at > self.now);
                earliest(timeout, due)
            }
            None => {
                self.senders_moved = true;
                drain(machine, self.now, &mut self.buf, &mut host)
            }
            Some(application) => {
                let timeout = if node.sends {
                    self.senders_moved = true;
                    // A sender is polled before the first and after every drain.
                    let mut poll = |machine: &mut (dyn Machine + 'static), host: &mut NodeHost<'_, N, O>| {
                        poll_application(application, self.now, machine, |event| host.event(&event))
                    };
                    poll(machine, &mut host);
                    loop {
                        let timeout = drain(machine, self.now, &mut self.buf, &mut host);
                        // The drain may have made room for another offer.
                        if host.halted.is_some() || !poll(machine, &mut host) {
                            break timeout;
                        }
                    }
                } else {
                    // A sink offers nothing, and one poll takes all deliveries.
                    application.poll(self.now, machine);
                    let timeout = drain(machine, self.now, &mut self.buf, &mut host);
                    debug_assert!(!application.poll(self.now, machine), "there is more to take: {machine:?}");
                    timeout
                };
                earliest(timeout, application.poll_timeout())
            }
        };
        self.max_emitted = self.max_emitted.max(host.datagrams);
        self.report_held(id);
        let node = &mut self.nodes[place];
        if self.observer.watches_machines() {
            self.observer.machine(self.now, id, node.machine.as_ref(), wanted);
        }
        node.wanted = wanted.unwrap_or(Time::MAX);
        self.schedule(id);
    }

    /// Reports the number of messages that a machine keeps, if it has changed. An observer of packets gets it after
    /// each call.
    fn report_held(&mut self, id: NodeId) {
        if !self.observer.watches_held() {
            return;
        }
        let place = self.place(id);
        let node = &mut self.nodes[place];
        let Some(messages) = node.machine.held() else { return };
        let now = u32::try_from(messages).unwrap_or(u32::MAX);
        if std::mem::replace(&mut node.held, now) != now || self.observer.watches_packets() {
            self.observer.held(self.now, id, messages);
        }
    }

    fn schedule(&mut self, id: NodeId) {
        let place = self.place(id);
        let node = &mut self.nodes[place];
        // A machine that is added late may want a time in the past.
        let at = node.wanted.max(self.now);
        if at < node.scheduled {
            node.scheduled = at;
            let slot = self.part.as_mut().map_or(Slot::OF_WHOLE, |order| order.timers.queue());
            self.wakeups.push(at, (id, slot));
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Number of steps so far: transmissions, collisions and wake-ups.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Largest number of datagrams that one machine has sent in one event.
    pub fn max_emitted(&self) -> u64 {
        self.max_emitted
    }

    /// Returns true if a sender may have finished since the last question, because one was called.
    pub fn take_senders_moved(&mut self) -> bool {
        std::mem::take(&mut self.senders_moved)
    }

    /// Machine of a node.
    pub fn machine(&mut self, node: NodeId) -> &mut dyn Machine {
        let place = self.place(node);
        self.nodes[place].machine.as_mut()
    }

    /// Network, to be changed between steps only.
    pub fn network(&mut self) -> &mut N {
        &mut self.network
    }

    /// Observer of the run.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Ends the run and returns its observer.
    pub fn into_observer(self) -> O {
        self.observer
    }
}

/// Next events: of the network, and of the earliest wake-up.
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

/// Default for the maximum number of datagrams of one machine in one event, far more than any window holds.
pub const DEFAULT_EMISSION_LIMIT: u64 = 1_000_000;
