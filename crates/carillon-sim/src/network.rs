//! What a world needs of a network.

use std::fmt::Debug;

use carillon_core::{Bytes, Dest, NodeId, Observer, PortId, Scope, Time, Transmit, Verdict};

/// A simulated network: datagrams go in at one node and arrive at others.
pub trait Network: Debug + Send {
    /// A node hands a datagram to its interface.
    fn transmit(
        &mut self,
        now: Time,
        from: NodeId,
        transmit: Transmit,
        bytes: Bytes,
        observer: &mut dyn Observer,
    );

    /// Whether the port of a node has room for another datagram, as a socket says. A node that is told no
    /// comes back out of [`next_ready`](Network::next_ready) once it has.
    fn is_ready(&mut self, _now: Time, _node: NodeId) -> bool {
        true
    }

    /// The next of the nodes that were told to wait and whose port has room again: asked after every
    /// `advance`, until `None`.
    fn next_ready(&mut self) -> Option<NodeId> {
        None
    }

    /// When `advance` must next be called, and what goes first if a timer is due at the same
    /// time; `None` if the network is idle.
    fn next_time(&self) -> Option<(Time, Precedence)>;

    /// Does what is due at `now`, the time that `next_time` gave. If datagrams arrive, fills
    /// `arrival` and returns true: one call for a whole fan-out.
    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool;

    /// What a relay said of the datagram in transit that `advance` gave last.
    fn forward(&mut self, _now: Time, _verdict: Verdict, _observer: &mut dyn Observer) {}

    /// When timers are looked at: always the same.
    fn timer_rule(&self) -> TimerRule {
        TimerRule::Exact
    }
}

impl<N: Network + ?Sized> Network for Box<N> {
    fn transmit(
        &mut self,
        now: Time,
        from: NodeId,
        transmit: Transmit,
        bytes: Bytes,
        observer: &mut dyn Observer,
    ) {
        (**self).transmit(now, from, transmit, bytes, observer);
    }
    fn is_ready(&mut self, now: Time, node: NodeId) -> bool {
        (**self).is_ready(now, node)
    }
    fn next_ready(&mut self) -> Option<NodeId> {
        (**self).next_ready()
    }
    fn next_time(&self) -> Option<(Time, Precedence)> {
        (**self).next_time()
    }
    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool {
        (**self).advance(now, arrival, observer)
    }
    fn forward(&mut self, now: Time, verdict: Verdict, observer: &mut dyn Observer) {
        (**self).forward(now, verdict, observer);
    }
    fn timer_rule(&self) -> TimerRule {
        (**self).timer_rule()
    }
}

/// One datagram as it reaches its receivers. Reused from call to call.
#[derive(Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: NodeId,
    /// Where it was addressed.
    pub dest: Dest,
    /// Its bytes.
    pub bytes: Bytes,
    /// Who hears it.
    pub receivers: Vec<NodeId>,
    /// The port it came in by.
    pub ingress: PortId,
    /// The hops it could still travel.
    pub scope: Scope,
    /// It is at a relay on its way, the one receiver, which says whether it goes on
    /// ([`Network::forward`]).
    pub transit: bool,
}

impl Default for Arrival {
    fn default() -> Self {
        Arrival {
            source: NodeId(0),
            dest: Dest::Node(NodeId(0)),
            bytes: Bytes::new(),
            receivers: Vec::new(),
            ingress: PortId(0),
            scope: Scope::GLOBAL,
            transit: false,
        }
    }
}

/// What goes first of a network's step and a timer at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// The network's step: something arrives, which may cancel the timer.
    NetworkFirst,
    /// The timer: what it sends takes part in the network's step.
    TimersFirst,
}

/// When timers are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerRule {
    /// At the time they are set for.
    #[default]
    Exact,
    /// As in the loop of the 1996 simulator (Segovia, section 3.7): while a request is pending
    /// anywhere, only after the clock has moved past a transmission or collision and what it
    /// brought has been handled. A timer may so be late, and may be cancelled though it was due.
    AfterBusActivity,
}
