//! What goes between a machine and its host: datagrams in, datagrams out.

use bytes::Bytes;

use crate::{GroupId, MessageId, NodeId, PortId, PortSet, Time};

/// How far a multicast datagram may travel, in router hops (the IP time-to-live).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(pub u8);

impl Scope {
    /// As far as the network's own limit allows.
    pub const GLOBAL: Scope = Scope(u8::MAX);
}

/// Where a datagram goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dest {
    /// Unicast to one node.
    Node(NodeId),
    /// Multicast to the members of a group within a scope; the sending node does not hear itself.
    Group {
        /// The group.
        group: GroupId,
        /// How far it may travel.
        scope: Scope,
    },
    /// Out of these ports of a relay, from where it goes on as if another node had sent it: a packet
    /// that the relay has rewritten, or a repair that it directs down one branch.
    Ports {
        /// The ports.
        ports: PortSet,
        /// Who is to be taken for its sender.
        source: NodeId,
        /// Where it goes, once it has left: a node or a group.
        dest: Box<Dest>,
    },
}

impl Dest {
    /// The whole group, however far away.
    pub const fn group(group: GroupId) -> Dest {
        Dest::Group { group, scope: Scope::GLOBAL }
    }

    /// The group behind these ports of a relay, as if this node had sent it.
    pub fn group_behind(ports: PortSet, source: NodeId, group: GroupId) -> Dest {
        Dest::Ports { ports, source, dest: Box::new(Dest::group(group)) }
    }
}

/// A datagram as it reaches a machine.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The node that sent it.
    pub source: NodeId,
    /// Where it was addressed.
    pub destination: &'a Dest,
    /// The port it came in by.
    pub ingress: PortId,
    /// The hops it could still have travelled.
    pub scope: Scope,
    /// Its bytes: a shared buffer, so slicing a payload out of it copies nothing.
    pub bytes: &'a Bytes,
}

/// A datagram that a machine sends; its bytes are in the buffer given to `poll_transmit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub dest: Dest,
    /// The earliest departure time: the host's interface holds the datagram until then, first in
    /// first out. `None` is now. For packets whose content is fixed when they are decided, such as
    /// an acknowledgment after a random wait; one that may still be suppressed is a timer instead.
    pub departure: Option<Time>,
    /// The message of this node that goes out for the first time with it: experiments that lose one
    /// packet lose no repair, and a network cannot tell them apart.
    pub original: Option<MessageId>,
    /// It answers a stranger that may not be there: a host that keeps the addresses to which it has transmitted does not
    /// keep this one for it.
    pub stranger: bool,
}

impl Transmit {
    /// A datagram that leaves as soon as the interface is free.
    pub const fn now(dest: Dest) -> Self {
        Transmit { dest, departure: None, original: None, stranger: false }
    }

    /// The same to a stranger that may not be there.
    pub fn to_stranger(self) -> Self {
        Transmit { stranger: true, ..self }
    }

    /// The same for the first transmission of a message.
    pub fn original(self, message: MessageId) -> Self {
        Transmit { original: Some(message), ..self }
    }
}

/// What a relay does with a datagram in transit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forward it as the network would without the relay.
    Forward,
    /// Forward it on these of the ports it would have gone out by.
    ForwardOn(PortSet),
    /// Forward it as the network would, with these bytes in the place of its own.
    ForwardAs(Bytes),
    /// Do not forward it.
    Absorb,
}
