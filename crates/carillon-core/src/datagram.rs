//! Datagrams between a machine and its host, in both directions.

use bytes::Bytes;

use crate::{GroupId, MessageId, NodeId, PortId, PortSet, Time};

/// Maximum distance of a multicast datagram in router hops (IP time-to-live).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(pub u8);

impl Scope {
    /// Unlimited scope: the network's own limit applies.
    pub const GLOBAL: Scope = Scope(u8::MAX);
}

/// Destination of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dest {
    /// Unicast to one node.
    Node(NodeId),
    /// Multicast to the members of a group within a scope; the sending node does not receive its own datagram.
    Group {
        /// Addressed group.
        group: GroupId,
        /// Maximum distance in hops.
        scope: Scope,
    },
    /// Transmission on these ports of a relay, on behalf of another node: a packet that the relay has rewritten, or a
    /// repair that it directs down one branch.
    Ports {
        /// Ports to send on.
        ports: PortSet,
        /// Node that appears as the sender.
        source: NodeId,
        /// Destination behind the ports: a node or a group.
        dest: Box<Dest>,
    },
}

impl Dest {
    /// Multicast to the whole group, at any distance.
    pub const fn group(group: GroupId) -> Dest {
        Dest::Group { group, scope: Scope::GLOBAL }
    }

    /// Multicast to the group behind these ports of a relay, on behalf of this node.
    pub fn group_behind(ports: PortSet, source: NodeId, group: GroupId) -> Dest {
        Dest::Ports { ports, source, dest: Box::new(Dest::group(group)) }
    }
}

/// Received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Node that sent it.
    pub source: NodeId,
    /// Destination address.
    pub destination: &'a Dest,
    /// Port of arrival.
    pub ingress: PortId,
    /// Remaining hops.
    pub scope: Scope,
    /// Payload in a shared buffer, so that slicing a message out of it copies nothing.
    pub bytes: &'a Bytes,
}

/// Datagram to send; its bytes are in the buffer given to `poll_transmit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Destination.
    pub dest: Dest,
    /// Earliest departure time, until which the host's interface holds the datagram, first in first out; `None` is
    /// now.
    ///
    /// Used for packets with contents that are fixed when they are decided, such as an acknowledgment after a random
    /// wait. A packet that may still be suppressed needs a timer instead.
    pub departure: Option<Time>,
    /// Message of this node that the datagram transmits for the first time. Experiments that lose one packet spare
    /// repairs by it, since a network cannot tell the two apart.
    pub original: Option<MessageId>,
    /// True if the datagram answers an unverified address. A host that remembers the addresses to which it has sent
    /// does not remember this one.
    pub stranger: bool,
}

impl Transmit {
    /// Datagram that leaves as soon as the interface is free.
    pub const fn now(dest: Dest) -> Self {
        Transmit { dest, departure: None, original: None, stranger: false }
    }

    /// Marks the destination as unverified.
    pub fn to_stranger(self) -> Self {
        Transmit { stranger: true, ..self }
    }

    /// Marks the datagram as the first transmission of a message.
    pub fn original(self, message: MessageId) -> Self {
        Transmit { original: Some(message), ..self }
    }
}

/// Decision of a relay about a datagram in transit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forward it as the network would without the relay.
    Forward,
    /// Forward it on these ports only, as far as the network would use them.
    ForwardOn(PortSet),
    /// Forward it as the network would, with these bytes instead of its own.
    ForwardAs(Bytes),
    /// Drop it.
    Absorb,
}
