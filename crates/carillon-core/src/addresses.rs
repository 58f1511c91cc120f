//! Network addresses of nodes and groups, for protocols with addresses in their packets.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::{GroupId, NodeId};

/// Mapping between nodes, groups and network addresses, as the host knows it.
pub trait AddressBook: Debug + Send + Sync {
    /// Address of a node, if known.
    fn of_node(&self, node: NodeId) -> Option<IpAddr>;

    /// Node at an address. The host may assign a number to an unknown address; `None` if no node can have the
    /// address.
    fn node_at(&self, address: IpAddr) -> Option<NodeId>;

    /// Node at the group's port of an address. Programs that take part in a protocol by its standard alone receive
    /// unicast there.
    fn listener_at(&self, address: IpAddr) -> Option<NodeId> {
        self.node_at(address)
    }

    /// Address of a group.
    fn of_group(&self, group: GroupId) -> IpAddr;

    /// UDP port of the group; `None` where packets have no UDP header, as in the simulator.
    fn port(&self) -> Option<u16> {
        None
    }
}

/// Shared [`AddressBook`]; [`NumberedAddresses`] by default.
#[derive(Clone, Debug)]
pub struct Addresses(Arc<dyn AddressBook>);

impl Addresses {
    /// Shares an address book.
    pub fn new(book: impl AddressBook + 'static) -> Self {
        Addresses(Arc::new(book))
    }
}

impl Default for Addresses {
    fn default() -> Self {
        Addresses::new(NumberedAddresses)
    }
}

impl std::ops::Deref for Addresses {
    type Target = dyn AddressBook;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Addresses derived from numbers, as in the simulator: node n is 10.0.0.1 + n, group g is 239.255.0.1 + g.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberedAddresses;

impl NumberedAddresses {
    /// Address of a node. Only the low 24 bits of its number fit.
    pub fn node(node: NodeId) -> Ipv4Addr {
        (NODES | (node.0.wrapping_add(1) & !NODES_MASK)).into()
    }

    /// Address of a group.
    pub fn group(group: GroupId) -> Ipv4Addr {
        (GROUPS | u32::from(group.0.wrapping_add(1))).into()
    }
}

/// Networks of derived addresses: nodes in 10.0.0.0/8, groups in 239.255.0.0/16.
const NODES: u32 = 0x0a00_0000;
const NODES_MASK: u32 = 0xff00_0000;
const GROUPS: u32 = 0xefff_0000;

impl AddressBook for NumberedAddresses {
    fn of_node(&self, node: NodeId) -> Option<IpAddr> {
        Some(Self::node(node).into())
    }

    fn node_at(&self, address: IpAddr) -> Option<NodeId> {
        match address {
            IpAddr::V4(address) => {
                let address = u32::from(address);
                let is_node = address & NODES_MASK == NODES;
                (address & !NODES_MASK).checked_sub(1).filter(|_| is_node).map(NodeId)
            }
            IpAddr::V6(_) => None,
        }
    }

    fn of_group(&self, group: GroupId) -> IpAddr {
        Self::group(group).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_numbers_and_addresses_convert_both_ways() {
        let addresses = Addresses::default();
        for node in [NodeId(0), NodeId(254), NodeId(100_000)] {
            let address = addresses.of_node(node).expect("every node has one");
            assert_eq!(addresses.node_at(address), Some(node));
        }
        assert_eq!(addresses.of_node(NodeId(255)), Some(Ipv4Addr::new(10, 0, 1, 0).into()));
        assert_eq!(addresses.of_group(GroupId(1)), IpAddr::from(Ipv4Addr::new(239, 255, 0, 2)));
        for stranger in [[9, 0, 0, 1], [11, 0, 0, 1], [10, 0, 0, 0]] {
            assert_eq!(addresses.node_at(Ipv4Addr::from(stranger).into()), None);
        }
    }
}
