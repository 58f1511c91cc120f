//! Addresses for machines that write addresses into packets.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carillon_core::{AddressBook, GroupId, NodeId, Time};

use crate::numbers::BranchId;
use crate::peers::Peers;

/// A peer table shared with the [`PeerBook`] of a machine.
#[derive(Clone, Debug)]
pub(crate) struct SharedPeers(Arc<Mutex<Peers>>);

impl SharedPeers {
    pub(crate) fn new(capacity: usize) -> Self {
        SharedPeers(Arc::new(Mutex::new(Peers::new(capacity))))
    }

    /// Delegates to [`Peers::hear`].
    pub(crate) fn hear(&self, now: Time, address: SocketAddr) -> Option<NodeId> {
        self.lock().hear(now, address)
    }

    /// Delegates to [`Peers::keep`].
    pub(crate) fn keep(&self, now: Time, address: SocketAddr) -> Option<NodeId> {
        self.lock().keep(now, address)
    }

    /// Delegates to [`Peers::listener`].
    pub(crate) fn listener(&self, address: SocketAddr) -> Option<NodeId> {
        self.lock().listener(address)
    }

    /// Delegates to [`Peers::reach`].
    pub(crate) fn reach(&self, now: Time, node: NodeId) -> Option<SocketAddr> {
        self.lock().reach(now, node)
    }

    /// Delegates to [`Peers::admit`].
    pub(crate) fn admit(
        &self,
        now: Time,
        node: NodeId,
        by: BranchId,
        is_multicast: bool,
    ) -> Result<(), BranchId> {
        self.lock().admit(now, node, by, is_multicast)
    }

    /// Delegates to [`Peers::branch`].
    pub(crate) fn branch(&self, node: NodeId) -> BranchId {
        self.lock().branch(node)
    }

    /// Delegates to [`Peers::branch_to`].
    pub(crate) fn branch_to(&self, address: SocketAddr) -> BranchId {
        self.lock().branch_to(address)
    }

    /// Delegates to [`Peers::has_kept_on`].
    pub(crate) fn has_kept_on(&self, branch: BranchId) -> bool {
        self.lock().has_kept_on(branch)
    }

    /// Delegates to [`Peers::address`].
    pub(crate) fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.lock().address(node)
    }

    /// Address of the peer at a host, found by [`Peers::at`].
    pub(crate) fn address_at(&self, host: SocketAddr) -> Option<SocketAddr> {
        let mut peers = self.lock();
        let node = peers.at(host)?;
        peers.address(node)
    }

    /// Delegates to [`Peers::knows`].
    pub(crate) fn knows(&self, address: SocketAddr) -> bool {
        self.lock().knows(address)
    }

    /// Delegates to [`Peers::len`].
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Locks the table. A poisoned lock is safe to use, as every change is completed or not begun.
    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses known to one machine.
#[derive(Debug)]
pub(crate) struct PeerBook {
    pub(crate) peers: SharedPeers,
    /// Number of the machine's own node.
    pub(crate) own: NodeId,
    /// Its own address with the zone, as peers have it, or the unspecified address; the port is not used.
    pub(crate) address: SocketAddr,
    pub(crate) group: SocketAddr,
}

impl PeerBook {
    /// The group's port at an address, if a host can have it.
    fn port_of_group(&self, address: IpAddr) -> Option<SocketAddr> {
        let is_host =
            address.is_ipv4() == self.group.is_ipv4() && !address.is_multicast() && !address.is_unspecified();
        let mut host = SocketAddr::new(address, self.group.port());
        if let (SocketAddr::V6(host), SocketAddr::V6(group)) = (&mut host, self.group)
            && host.ip().is_unicast_link_local()
        {
            host.set_scope_id(group.scope_id());
        }
        is_host.then_some(host)
    }
}

impl AddressBook for PeerBook {
    fn of_node(&self, node: NodeId) -> Option<IpAddr> {
        match node == self.own {
            true => Some(self.address.ip()).filter(|own| !own.is_unspecified()),
            false => self.peers.address(node).map(|address| address.ip()),
        }
    }

    /// Returns no node for the own address: processes on this host cannot be distinguished by it.
    fn node_at(&self, address: IpAddr) -> Option<NodeId> {
        let host = self.port_of_group(address).filter(|_| address != self.address.ip())?;
        self.peers.lock().at(host)
    }

    fn listener_at(&self, address: IpAddr) -> Option<NodeId> {
        self.peers.listener(self.port_of_group(address)?)
    }

    fn of_group(&self, _group: GroupId) -> IpAddr {
        self.group.ip()
    }

    fn port(&self) -> Option<u16> {
        Some(self.group.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_resolves_itself_peers_and_relays() {
        let peers = SharedPeers::new(4);
        let own = NodeId(u32::MAX);
        let address = SocketAddr::from(([10, 0, 0, 1], 0));
        let group = SocketAddr::from(([239, 1, 2, 3], 7777));
        let book = PeerBook { peers: peers.clone(), own, address, group };
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let peer = peers.hear(Time::ZERO, (ip(2), 5000).into()).expect("there is room");
        assert_eq!((book.of_node(own), book.of_node(peer)), (Some(ip(1)), Some(ip(2))));
        assert_eq!((book.node_at(ip(1)), book.node_at(ip(2))), (None, Some(peer)));
        assert_eq!(book.of_group(GroupId(0)), group.ip());
        let relay = book.node_at(ip(3)).expect("there is room");
        assert_eq!(peers.address(relay), Some((ip(3), 7777).into()));
        let listener = book.listener_at(ip(2)).expect("there is room");
        assert_eq!(peers.address(listener), Some((ip(2), 7777).into()), "its port is the group's");
        assert_eq!(book.listener_at(ip(1)).and_then(|own| peers.address(own)), Some((ip(1), 7777).into()));
        // Later datagrams from there belong to the same node.
        assert_eq!(peers.hear(Time::ZERO, (ip(3), 7777).into()), Some(relay));
        for nobody in ["239.1.2.3", "0.0.0.0", "::1"] {
            assert_eq!(book.node_at(nobody.parse().expect("an address")), None, "{nobody}");
        }
    }
}
