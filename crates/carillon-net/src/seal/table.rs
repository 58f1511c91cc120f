//! A bounded table by salt and address with second-chance replacement (Corbató 1968).

use std::collections::HashMap;

use super::peer::Peer;

/// At most `capacity` entries. In a full table a new entry replaces one without a datagram since the clock hand
/// passed it (second-chance rule). Active peers therefore stay, at constant cost per new entry.
#[derive(Debug)]
pub(super) struct PeerTable<T> {
    by_peer: HashMap<Peer, usize>,
    slots: Vec<Slot<T>>,
    capacity: usize,
    hand: usize,
    /// Entry of the last lookup: datagrams often arrive in runs from one endpoint.
    last: usize,
}

#[derive(Debug)]
struct Slot<T> {
    peer: Peer,
    heard: bool,
    value: T,
}

impl<T> PeerTable<T> {
    pub(super) fn new(capacity: usize) -> Self {
        PeerTable { by_peer: HashMap::new(), slots: Vec::new(), capacity, hand: 0, last: 0 }
    }

    pub(super) fn get_mut(&mut self, peer: &Peer) -> Option<&mut T> {
        if self.slots.get(self.last).is_none_or(|slot| slot.peer != *peer) {
            self.last = *self.by_peer.get(peer)?;
        }
        Some(&mut self.slots[self.last].value)
    }

    /// Records an authentic datagram of this peer.
    pub(super) fn heard(&mut self, peer: &Peer) {
        if self.get_mut(peer).is_some() {
            self.slots[self.last].heard = true;
        }
    }

    /// Adds a new entry.
    pub(super) fn insert(&mut self, peer: Peer, value: T) {
        let new = Slot { peer, heard: false, value };
        let at = if self.slots.len() < self.capacity {
            self.slots.push(new);
            self.slots.len() - 1
        } else {
            while std::mem::take(&mut self.slots[self.hand].heard) {
                self.hand = (self.hand + 1) % self.capacity;
            }
            let at = self.hand;
            self.hand = (at + 1) % self.capacity;
            let old = std::mem::replace(&mut self.slots[at], new);
            self.by_peer.remove(&old.peer);
            at
        };
        self.by_peer.insert(peer, at);
    }

    pub(super) fn remove(&mut self, peer: &Peer) -> Option<T> {
        let at = self.by_peer.remove(peer)?;
        let slot = self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            self.by_peer.insert(moved.peer, at);
        }
        self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
        Some(slot.value)
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.by_peer.keys()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().map(|slot| &mut slot.value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn salt(number: u16) -> Peer {
        let mut salt = [0; 12];
        salt[..2].copy_from_slice(&number.to_be_bytes());
        (salt, [0; 18])
    }

    #[test]
    fn active_peers_survive_any_number_of_new_ones() {
        let mut table = PeerTable::new(8);
        (0..4).for_each(|n| table.insert(salt(n), n));
        for n in 100..10_000 {
            table.insert(salt(n), n);
            for n in 0..4 {
                assert_eq!(table.get_mut(&salt(n)), Some(&mut { n }));
                table.heard(&salt(n));
            }
        }
        assert_eq!((table.len(), table.by_peer.len()), (8, 8));
    }

    #[test]
    fn removal_keeps_the_other_entries() {
        let mut table = PeerTable::new(8);
        (0..8).for_each(|n| table.insert(salt(n), n));
        (8..12).for_each(|n| table.insert(salt(n), n));
        for n in [4, 11, 6] {
            assert_eq!(table.remove(&salt(n)), Some(n));
            assert_eq!((table.remove(&salt(n)), table.get_mut(&salt(n))), (None, None));
        }
        for n in [5, 7, 8, 9, 10] {
            assert_eq!(table.get_mut(&salt(n)), Some(&mut { n }));
        }
        (20..40).for_each(|n| table.insert(salt(n), n));
        assert_eq!((table.len(), table.by_peer.len()), (8, 8));
    }
}
