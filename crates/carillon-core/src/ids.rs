//! Identifiers: one type for each kind, so that they cannot be mixed up.

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
    /// A node of one run. In the simulator its index in the world; in the UDP driver a number
    /// given to each peer address when it is first heard.
    NodeId(u32), "n"
);
id!(
    /// A multicast group of one run.
    GroupId(u16), "g"
);
id!(
    /// A port (interface) of one node; the port a datagram came in by is its ingress.
    PortId(u16), "p"
);
id!(
    /// A message of one sender: 0 for the first one offered, then counting up without wrapping.
    MessageId(u64), "m"
);
id!(
    /// Tells sessions that share a group and port apart. Carried in the common envelope.
    AssociationId(u32), "a"
);

impl From<u64> for MessageId {
    fn from(number: u64) -> Self {
        MessageId(number)
    }
}

/// A number as it stands in a packet.
impl From<u32> for MessageId {
    fn from(number: u32) -> Self {
        MessageId(number.into())
    }
}

impl NodeId {
    /// The node's index in a table with one entry per node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of ports, for relays that forward on some of their interfaces only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSet(Vec<PortId>);

impl PortSet {
    /// Adds a port; returns whether it was new.
    pub fn insert(&mut self, port: PortId) -> bool {
        match self.0.binary_search(&port) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, port);
                true
            }
        }
    }

    /// Whether the port is in the set.
    pub fn contains(&self, port: PortId) -> bool {
        self.0.binary_search(&port).is_ok()
    }

    /// The ports in ascending order.
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
