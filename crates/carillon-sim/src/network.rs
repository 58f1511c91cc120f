//! Interface between a world and its network.

use std::fmt::Debug;

use carillon_core::{Bytes, Dest, LinkDirection, NodeId, Observer, PortId, Scope, Time, Transmit, Verdict};

use crate::graph::Crossings;
use crate::loss::SingleLoss;

/// Simulated network: datagrams enter at one node and arrive at others.
pub trait Network: Debug + Send {
    /// Takes a datagram from a node into its interface.
    fn transmit(
        &mut self,
        now: Time,
        from: NodeId,
        transmit: Transmit,
        bytes: Bytes,
        observer: &mut dyn Observer,
    );

    /// Returns true if the port of a node has room for another datagram, as a socket does. A node that got false is
    /// returned by [`next_ready`](Network::next_ready) once its port has room.
    fn is_ready(&mut self, _now: Time, _node: NodeId) -> bool {
        true
    }

    /// Returns true if calls of applications take time: then an application makes one call while its node
    /// [is ready](Network::is_ready), and the node's packets go first. The answer never changes.
    fn calls_take_time(&self) -> bool {
        false
    }

    /// Spends the time of an application's call at a node.
    fn on_call(&mut self, _now: Time, _node: NodeId, _call: Call) {}

    /// Returns the next waiting node with room in its port again. The world asks after every `advance`, until `None`.
    fn next_ready(&mut self) -> Option<NodeId> {
        None
    }

    /// Returns the time of the next `advance`, and the precedence over a timer of the same time; `None` if the
    /// network is idle.
    fn next_time(&self) -> Option<(Time, Precedence)>;

    /// Does everything due at `now`, the time that `next_time` returned. If datagrams arrive, it fills `arrival` and
    /// returns true, once for a whole fan-out.
    fn advance(&mut self, now: Time, arrival: &mut Arrival, observer: &mut dyn Observer) -> bool;

    /// Applies a relay's verdict to the datagram in transit that `advance` returned last.
    fn forward(&mut self, _now: Time, _verdict: Verdict, _observer: &mut dyn Observer) {}

    /// Returns the link by which a datagram arrived at a port of a node, if the network has links.
    fn link_to(&self, _node: NodeId, _ingress: PortId) -> Option<LinkDirection> {
        None
    }

    /// Returns the packets from and to other parts, if the network is a part of one ([`Part`](crate::Part)).
    fn crossings(&mut self) -> Option<&mut Crossings> {
        None
    }

    /// Returns the rule for the handling of timers, which never changes.
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
    fn calls_take_time(&self) -> bool {
        (**self).calls_take_time()
    }
    fn on_call(&mut self, now: Time, node: NodeId, call: Call) {
        (**self).on_call(now, node, call);
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
    fn link_to(&self, node: NodeId, ingress: PortId) -> Option<LinkDirection> {
        (**self).link_to(node, ingress)
    }
    fn crossings(&mut self) -> Option<&mut Crossings> {
        (**self).crossings()
    }
    fn timer_rule(&self) -> TimerRule {
        (**self).timer_rule()
    }
}

/// Call of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Offers a message.
    Send,
    /// Takes a message.
    Read,
}

/// Datagram on arrival at its receivers. The value is reused from call to call.
#[derive(Debug)]
pub struct Arrival {
    /// Sending node.
    pub source: NodeId,
    /// Destination address.
    pub dest: Dest,
    /// Payload.
    pub bytes: Bytes,
    /// Receiving nodes.
    pub receivers: Vec<NodeId>,
    /// Port of arrival.
    pub ingress: PortId,
    /// Remaining hops.
    pub scope: Scope,
    /// Message that the datagram transmits for the first time, if any.
    pub original: Option<SingleLoss>,
    /// True if the datagram is in transit at a relay, its one receiver, which decides about it
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
            original: None,
            transit: false,
        }
    }
}

/// Precedence between a step of the network and a timer of the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Network first: an arrival may cancel the timer.
    NetworkFirst,
    /// Timers first: a packet sent by the timer takes part in the network's step.
    TimersFirst,
}

/// Rule for the handling of timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerRule {
    /// Timers fire at the time for which they are set.
    #[default]
    Exact,
    /// Timers are checked as in the loop of the 1996 simulator (Segovia, section 3.7).
    ///
    /// While a request is pending anywhere, timers are checked only after the clock has moved past a transmission or
    /// collision and its arrivals have been handled. A timer may be late, and may be cancelled after it was due.
    AfterBusActivity,
}
