//! Identifiers: one type for each kind, so that they cannot be confused.

use std::fmt;

use serde::Serialize;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// Node of one run. In the simulator it is the index in the world, in the UDP driver a number that each peer
    /// address gets with its first datagram.
    NodeId(u32), "n"
);
id!(
    /// Multicast group of one run.
    GroupId(u16), "g"
);
id!(
    /// Port (interface) of a node; the port of arrival of a datagram is its ingress.
    PortId(u16), "p"
);
id!(
    /// Message of one sender: 0 for the first one offered, then counting up without wrapping.
    MessageId(u64), "m"
);
id!(
    /// Session identifier in the common envelope, which separates sessions on one group and port.
    AssociationId(u32), "a"
);

impl From<u64> for MessageId {
    fn from(number: u64) -> Self {
        MessageId(number)
    }
}

/// Conversion of a number as it stands in a packet.
impl From<u32> for MessageId {
    fn from(number: u32) -> Self {
        MessageId(number.into())
    }
}

impl NodeId {
    /// Index of the node in a table with one entry per node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Set of ports, for relays that forward on some of their interfaces only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSet(Vec<PortId>);

impl PortSet {
    /// Adds a port; returns true if it was new.
    pub fn insert(&mut self, port: PortId) -> bool {
        match self.0.binary_search(&port) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, port);
                true
            }
        }
    }

    /// Returns true if the port is in the set.
    pub fn contains(&self, port: PortId) -> bool {
        self.0.binary_search(&port).is_ok()
    }

    /// Ports in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PortId> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<PortId> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortId>>(ports: I) -> Self {
        let mut set = PortSet::default();
        for port in ports {
            set.insert(port);
        }
        set
    }
}
