//! The peer table: source addresses with node numbers for the machine.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carillon_core::{NodeId, Time};

use crate::numbers::{BranchId, FIRST};

/// Peer addresses by number and back, at most `capacity`.
///
/// A peer is *kept* once a datagram was sent to it or the caller named it. A new address replaces the unkept peer
/// that was silent longest. If all are kept, it replaces one that was silent for [`KEPT_SILENCE`], otherwise it is
/// refused. A flood of forged sources therefore neither grows the table nor displaces members. Numbers count up and
/// repeat only after 2^32 peers.
#[derive(Debug)]
pub(crate) struct Peers {
    by_address: HashMap<SocketAddr, u32>,
    by_node: HashMap<NodeId, u32>,
    /// Nodes by host address.
    hosts: BTreeSet<(IpAddr, NodeId)>,
    slots: Vec<Slot>,
    capacity: usize,
    /// Unkept and kept peers, each ordered from the longest silence to the latest datagram.
    passing: List,
    kept: List,
    next: NodeId,
    /// Time of the last received datagram.
    now: Time,
}

#[derive(Debug)]
struct Slot {
    address: SocketAddr,
    node: NodeId,
    kept: bool,
    heard: Time,
    /// Interface by which it is reached, and the time of its last datagram there.
    branch: Option<(BranchId, Time)>,
    before: u32,
    after: u32,
}

#[derive(Debug)]
struct List {
    oldest: u32,
    latest: u32,
}

impl Peers {
    pub(crate) fn new(capacity: usize) -> Self {
        let empty = || List { oldest: NO_NODE, latest: NO_NODE };
        Peers {
            by_address: HashMap::new(),
            by_node: HashMap::new(),
            hosts: BTreeSet::new(),
            slots: Vec::new(),
            capacity,
            passing: empty(),
            kept: empty(),
            next: NodeId(1),
            now: Time::ZERO,
        }
    }

    /// Returns the number of a datagram's source; `None` if it is new and the table is full.
    pub(crate) fn hear(&mut self, now: Time, address: SocketAddr) -> Option<NodeId> {
        let address = plain(address);
        self.now = now;
        let slot = match self.by_address.get(&address) {
            Some(&slot) => {
                self.touch(slot, now);
                slot
            }
            None => self.add(now, address)?,
        };
        Some(self.slots[slot as usize].node)
    }

    /// Returns the number of a named address, which is kept from now on.
    pub(crate) fn keep(&mut self, now: Time, address: SocketAddr) -> Option<NodeId> {
        let node = self.hear(now, address)?;
        self.reach(now, node);
        Some(node)
    }

    /// Returns the number of a named address from which no datagram needs to come. It is kept from now on.
    pub(crate) fn listener(&mut self, address: SocketAddr) -> Option<NodeId> {
        self.keep(self.now, address)
    }

    /// Returns the destination address of a node, which is kept from now on; `None` if it is unknown.
    pub(crate) fn reach(&mut self, now: Time, node: NodeId) -> Option<SocketAddr> {
        let slot = *self.by_node.get(&node)?;
        if !self.slots[slot as usize].kept {
            self.unlink(slot);
            self.slots[slot as usize].kept = true;
            self.slots[slot as usize].heard = now;
            self.link(slot);
        }
        Some(self.slots[slot as usize].address)
    }

    /// Decides whether a datagram of a known peer by this interface is for the machine: a multicast by another one than
    /// that by which the peer is heard is a duplicate. A peer that is silent there for [`BRANCH_SILENCE`] is reached by
    /// the other interface from then on. The error is the interface by which it is reached.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        node: NodeId,
        by: BranchId,
        is_multicast: bool,
    ) -> Result<(), BranchId> {
        let Some(&slot) = self.by_node.get(&node) else { return Ok(()) };
        let branch = &mut self.slots[slot as usize].branch;
        match *branch {
            Some((current, heard)) if current != by && now.since(heard) < BRANCH_SILENCE => {
                match is_multicast {
                    true => Err(current),
                    false => Ok(()),
                }
            }
            _ => {
                *branch = Some((by, now));
                Ok(())
            }
        }
    }

    /// Interface by which a node is reached; the first one if nothing was received from it.
    pub(crate) fn branch(&self, node: NodeId) -> BranchId {
        let slot = self.by_node.get(&node).map(|&slot| &self.slots[slot as usize]);
        slot.and_then(|slot| slot.branch).map_or(FIRST, |(branch, _)| branch)
    }

    /// Interface by which a peer at this address is reached; the first one if it is unknown.
    pub(crate) fn branch_to(&self, address: SocketAddr) -> BranchId {
        let slot = self.by_address.get(&plain(address)).map(|&slot| &self.slots[slot as usize]);
        slot.and_then(|slot| slot.branch).map_or(FIRST, |(branch, _)| branch)
    }

    /// Returns true if a kept peer is reached by this interface.
    pub(crate) fn has_kept_on(&self, branch: BranchId) -> bool {
        self.slots.iter().any(|slot| slot.kept && slot.branch.is_some_and(|(by, _)| by == branch))
    }

    /// The address of a peer.
    pub(crate) fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.by_node.get(&node).map(|&slot| self.slots[slot as usize].address)
    }

    /// Returns true if the address is that of a peer.
    pub(crate) fn knows(&self, address: SocketAddr) -> bool {
        self.by_address.contains_key(&plain(address))
    }

    /// Returns the node at a host address: the peer at this port, else the only peer there, else a new number for the
    /// port if there is room.
    pub(crate) fn at(&mut self, host: SocketAddr) -> Option<NodeId> {
        if let Some(&slot) = self.by_address.get(&host) {
            return Some(self.slots[slot as usize].node);
        }
        let all = (host.ip(), NodeId(0))..=(host.ip(), NodeId(u32::MAX));
        let mut there = self.hosts.range(all).map(|&(_, node)| node);
        if let (Some(only), None) = (there.next(), there.next()) {
            return Some(only);
        }
        let slot = self.add(self.now, host)?;
        Some(self.slots[slot as usize].node)
    }

    /// Number of known peers.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn add(&mut self, now: Time, address: SocketAddr) -> Option<u32> {
        let node = self.unused();
        let new =
            Slot { address, node, kept: false, heard: now, branch: None, before: NO_NODE, after: NO_NODE };
        let slot = if self.slots.len() < self.capacity {
            self.slots.push(new);
            (self.slots.len() - 1) as u32
        } else {
            let slot = self.replaceable(now)?;
            self.unlink(slot);
            let old = std::mem::replace(&mut self.slots[slot as usize], new);
            self.by_address.remove(&old.address);
            self.by_node.remove(&old.node);
            self.hosts.remove(&(old.address.ip(), old.node));
            slot
        };
        self.next = NodeId(node.0.wrapping_add(1));
        self.by_address.insert(address, slot);
        self.by_node.insert(node, slot);
        self.hosts.insert((address.ip(), node));
        self.link(slot);
        Some(slot)
    }

    /// Next number that is neither the endpoint's own nor in use.
    fn unused(&self) -> NodeId {
        let mut node = self.next;
        while node == NodeId(0) || self.by_node.contains_key(&node) {
            node = NodeId(node.0.wrapping_add(1));
        }
        node
    }

    fn replaceable(&self, now: Time) -> Option<u32> {
        if self.passing.oldest != NO_NODE {
            return Some(self.passing.oldest);
        }
        let silent =
            |&slot: &u32| slot != NO_NODE && now.since(self.slots[slot as usize].heard) >= KEPT_SILENCE;
        Some(self.kept.oldest).filter(silent)
    }

    fn touch(&mut self, slot: u32, now: Time) {
        self.slots[slot as usize].heard = now;
        if self.list(slot).latest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    fn link(&mut self, slot: u32) {
        let latest = std::mem::replace(&mut self.list(slot).latest, slot);
        self.slots[slot as usize].before = latest;
        self.slots[slot as usize].after = NO_NODE;
        match latest {
            NO_NODE => self.list(slot).oldest = slot,
            _ => self.slots[latest as usize].after = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { before, after, .. } = self.slots[slot as usize];
        match before {
            NO_NODE => self.list(slot).oldest = after,
            _ => self.slots[before as usize].after = after,
        }
        match after {
            NO_NODE => self.list(slot).latest = before,
            _ => self.slots[after as usize].before = before,
        }
    }

    fn list(&mut self, slot: u32) -> &mut List {
        if self.slots[slot as usize].kept { &mut self.kept } else { &mut self.passing }
    }
}

/// Removes the flow label, which may differ between datagrams of one peer.
fn plain(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address {
        v6.set_flowinfo(0);
    }
    address
}

/// Silence of a peer at an interface after which another one, by which it is heard too, takes its place: more than two
/// heartbeats of a session.
pub(crate) const BRANCH_SILENCE: Duration = Duration::from_millis(500);

/// Silence after which a kept peer may be replaced when the table is full.
pub(crate) const KEPT_SILENCE: Duration = Duration::from_secs(60);

const NO_NODE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> SocketAddr {
        let [_, a, b, c] = number.to_be_bytes();
        SocketAddr::from(([10, a, b, c], 4000))
    }

    fn seconds(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    /// A peer is reached by the interface by which it was heard first, until that is silent.
    #[test]
    fn peer_changes_its_interface_after_silence() {
        let mut peers = Peers::new(4);
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let address = SocketAddr::from(([10, 0, 0, 1], 5000));
        let node = peers.hear(at(0), address).expect("there is room");
        assert_eq!((peers.branch(node), peers.has_kept_on(0)), (0, false));
        assert_eq!(peers.admit(at(0), node, 1, true), Ok(()));
        assert_eq!(peers.admit(at(499), node, 0, true), Err(1), "a duplicate");
        assert_eq!(peers.admit(at(499), node, 0, false), Ok(()), "unicast comes once");
        assert_eq!((peers.branch(node), peers.branch_to(address)), (1, 1));
        assert_eq!(peers.admit(at(500), node, 0, true), Ok(()));
        assert_eq!((peers.branch(node), peers.admit(at(501), node, 1, true)), (0, Err(0)));
        peers.keep(at(501), address);
        assert_eq!([0, 1].map(|branch| peers.has_kept_on(branch)), [true, false]);
    }

    #[test]
    fn peers_are_numbered_from_one_in_arrival_order() {
        let mut peers = Peers::new(8);
        assert_eq!(peers.hear(Time::ZERO, address(7)), Some(NodeId(1)));
        assert_eq!(peers.hear(Time::ZERO, address(9)), Some(NodeId(2)));
        assert_eq!(peers.hear(Time::ZERO, address(7)), Some(NodeId(1)));
        assert_eq!(peers.address(NodeId(2)), Some(address(9)));
        assert_eq!(peers.address(NodeId(0)), None);
        assert_eq!(peers.address(NodeId(3)), None);
    }

    #[test]
    fn flood_replaces_only_unkept_peers_oldest_first() {
        let mut peers = Peers::new(4);
        for n in 1..=4 {
            peers.hear(Time::ZERO, address(n));
        }
        assert_eq!(peers.reach(Time::ZERO, NodeId(1)), Some(address(1)));
        peers.hear(Time::ZERO, address(2)); // now 3 is the one longest unheard
        peers.hear(Time::ZERO, address(5));
        assert_eq!(peers.address(NodeId(3)), None);
        assert_eq!(peers.address(NodeId(2)), Some(address(2)));
        for n in 100..10_000 {
            assert!(peers.hear(Time::ZERO, address(n)).is_some());
        }
        assert_eq!(peers.address(NodeId(1)), Some(address(1)));
        assert_eq!(peers.address(NodeId(2)), None);
        assert_eq!((peers.len(), peers.by_address.len(), peers.by_node.len()), (4, 4, 4));
        assert_eq!(peers.hosts.len(), 4);
    }

    #[test]
    fn full_table_refuses_until_a_kept_peer_is_silent() {
        let mut peers = Peers::new(2);
        assert_eq!(peers.keep(seconds(0), address(1)), Some(NodeId(1)));
        assert_eq!(peers.keep(seconds(30), address(2)), Some(NodeId(2)));
        assert_eq!(peers.hear(seconds(59), address(3)), None);
        assert_eq!(peers.hear(seconds(60), address(3)), Some(NodeId(3)));
        assert_eq!(peers.address(NodeId(1)), None);
        assert_eq!(peers.hear(seconds(60), address(2)), Some(NodeId(2)));
    }

    /// A flood of 500 answered and ten thousand unanswered strangers per second neither grows the table nor displaces
    /// a member.
    #[test]
    fn answered_strangers_never_displace_members() {
        let mut peers = Peers::new(crate::endpoint::PEERS);
        let members: Vec<NodeId> = (1..=100).filter_map(|n| peers.keep(seconds(0), address(n))).collect();
        let mut stranger = 1000;
        for second in 0..if carillon_testkit::is_long_tier() { 100 } else { 20 } {
            for _ in 0..10_500 {
                stranger += 1;
                let node = peers.hear(seconds(second), address(stranger)).expect("there is a place");
                if stranger % 21 == 0 {
                    peers.reach(seconds(second), node);
                }
            }
            for n in 1..=100 {
                assert_eq!(peers.hear(seconds(second), address(n)), Some(members[n as usize - 1]));
            }
        }
        assert_eq!(peers.len(), crate::endpoint::PEERS);
        assert_eq!((peers.by_address.len(), peers.by_node.len()), (peers.len(), peers.len()));
    }

    /// A session answers every stranger with a challenge, for which the driver only looks up the address.
    #[test]
    fn challenged_strangers_displace_no_peer() {
        let mut peers = Peers::new(100);
        let member = peers.keep(seconds(0), address(1));
        for stranger in 1000..11_000 {
            let node = peers.hear(seconds(1), address(stranger)).expect("there is a place");
            assert_eq!(peers.address(node), Some(address(stranger)), "it can be answered");
        }
        let newcomer = peers.keep(seconds(1), address(2));
        assert!(newcomer.is_some() && peers.hear(seconds(1), address(2)) == newcomer);
        assert_eq!(peers.hear(seconds(1), address(1)), member);
    }

    #[test]
    fn host_resolves_to_port_then_only_then_new_peer() {
        let mut peers = Peers::new(4);
        let host = |port| SocketAddr::from(([10, 0, 0, 9], port));
        assert_eq!(peers.hear(Time::ZERO, host(5000)), Some(NodeId(1)));
        assert_eq!(peers.at(host(7777)), Some(NodeId(1)), "the only one there");
        assert_eq!(peers.hear(Time::ZERO, host(5001)), Some(NodeId(2)));
        assert_eq!(peers.at(host(7777)), Some(NodeId(3)), "one of two would be a guess");
        assert_eq!(peers.at(host(7777)), Some(NodeId(3)));
        assert_eq!(peers.address(NodeId(3)), Some(host(7777)));
        // The table does not grow, and forgotten peers are unknown at once.
        for n in 0..100 {
            assert!(peers.at(address(n)).is_some());
        }
        assert_eq!((peers.len(), peers.hosts.len()), (4, 4));
        assert_ne!(peers.hear(Time::ZERO, host(5001)), Some(NodeId(2)));
    }

    #[test]
    fn numbers_in_use_are_skipped_when_counting_starts_over() {
        let mut peers = Peers::new(2);
        assert_eq!(peers.keep(Time::ZERO, address(1)), Some(NodeId(1)));
        peers.next = NodeId(u32::MAX);
        assert_eq!(peers.hear(Time::ZERO, address(2)), Some(NodeId(u32::MAX)));
        assert_eq!(peers.hear(Time::ZERO, address(3)), Some(NodeId(2)));
    }

    #[test]
    fn agrees_with_a_plain_list_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("peers");
        let mut peers = Peers::new(16);
        // Address, node and kept flag, longest silence first.
        let mut model: Vec<(SocketAddr, NodeId, bool)> = Vec::new();
        let mut next = 1;
        for _ in 0..50_000 {
            let a = address(rng.below(40) as u32);
            if rng.chance(0.05)
                && let Some(at) = model.iter().position(|m| m.0 == a)
            {
                assert_eq!(peers.reach(Time::ZERO, model[at].1), Some(a));
                if !model[at].2 {
                    let m = model.remove(at);
                    model.push((m.0, m.1, true));
                }
                continue;
            }
            let expected = if let Some(at) = model.iter().position(|m| m.0 == a) {
                let m = model.remove(at);
                model.push(m);
                Some(m.1)
            } else {
                let room =
                    model.len() < 16 || model.iter().position(|m| !m.2).map(|at| model.remove(at)).is_some();
                room.then(|| {
                    model.push((a, NodeId(next), false));
                    next += 1;
                    NodeId(next - 1)
                })
            };
            assert_eq!(peers.hear(Time::ZERO, a), expected);
        }
        assert!(model.iter().all(|m| m.2), "the run was long enough to fill the table with kept peers");
    }
}
