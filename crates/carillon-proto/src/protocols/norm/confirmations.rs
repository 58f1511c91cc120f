//! Receivers that the sender of a plain session names, and their acknowledgments (RFC 5740, 5.5.3).
//!
//! The sender names them in its FLUSH commands until each has acknowledged that it has everything. Nothing
//! authenticates an acknowledgment.

use std::collections::BTreeMap;

use carillon_core::NodeId;
use carillon_wire::norm::{FLUSH_ACKNOWLEDGMENT, Item};

/// Receivers that are to acknowledge everything.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// Identifiers, each with true if it has acknowledged.
    nodes: BTreeMap<u32, bool>,
    /// Last symbol, which they acknowledge; `None` before the first FLUSH.
    last: Option<Item>,
    /// Identifier behind which the next FLUSH begins to name receivers.
    named: u32,
}

impl Confirmations {
    /// Acknowledgments of receivers with these identifiers.
    pub fn of(nodes: &[NodeId]) -> Self {
        let nodes = nodes.iter().map(|node| (node.0, false)).collect();
        Confirmations { nodes, last: None, named: 0 }
    }

    /// Identifiers for a FLUSH with this last symbol, as bytes: of receivers that have not acknowledged it,
    /// in at most `room` bytes. Each FLUSH goes on where the one before has ended.
    pub fn name(&mut self, last: Item, room: usize) -> Vec<u8> {
        if self.last != Some(last) {
            self.last = Some(last);
            self.nodes.values_mut().for_each(|acknowledged| *acknowledged = false);
        }
        let silent = |range| self.nodes.range::<u32, _>(range).filter(|(_, acknowledged)| !**acknowledged);
        let next = (self.named.saturating_add(1)..=u32::MAX, 0..=self.named);
        let all = silent(next.0).chain(silent(next.1)).map(|(&node, _)| node);
        let nodes: Vec<u32> = all.take(room / size_of::<u32>()).collect();
        self.named = nodes.last().copied().unwrap_or_default();
        nodes.iter().flat_map(|node| node.to_be_bytes()).collect()
    }

    /// Handles an ACK. Returns true if it is the first one of a receiver that was named.
    pub fn on_ack(&mut self, source: u32, kind: u8, payload: &[u8]) -> bool {
        let Some(last) = self.last.filter(|_| kind == FLUSH_ACKNOWLEDGMENT) else { return false };
        let mut expected = Vec::with_capacity(Item::RS_LEN);
        last.emit(&mut expected);
        // An acknowledgment of an earlier FLUSH says nothing about what followed.
        let acknowledged = self.nodes.get_mut(&source).filter(|_| payload == expected);
        acknowledged.is_some_and(|acknowledged| !std::mem::replace(acknowledged, true))
    }

    /// Returns true if all receivers have acknowledged this last symbol.
    pub fn have_all(&self, last: Item) -> bool {
        self.last == Some(last)
            && !self.nodes.is_empty()
            && self.nodes.values().all(|&acknowledged| acknowledged)
    }

    /// Returns true if the acknowledgment of a receiver is missing.
    pub fn awaits(&self, node: NodeId) -> bool {
        self.nodes.get(&node.0).is_some_and(|acknowledged| !acknowledged)
    }
}

#[cfg(test)]
mod tests {
    use carillon_wire::norm::{Nodes, Position};

    use super::*;

    fn last(object: u16) -> Item {
        Item { object, position: Position::Rs8 { block: 2, symbol: 7 } }
    }

    fn named(confirmations: &mut Confirmations, object: u16) -> Vec<u32> {
        let bytes = confirmations.name(last(object), 11);
        Nodes::new(&bytes).expect("identifiers").iter().collect()
    }

    #[test]
    fn silent_receivers_are_named_in_turn() {
        let mut confirmations = Confirmations::of(&[11, 5, u32::MAX - 1].map(NodeId));
        assert!(!confirmations.on_ack(5, 2, &[5, 0, 0, 1, 0, 0, 2, 7]), "nothing was flushed");
        assert_eq!(named(&mut confirmations, 1), [5, 11]);
        assert_eq!(named(&mut confirmations, 1), [u32::MAX - 1, 5]);
        let acknowledgment = [5, 0, 0, 1, 0, 0, 2, 7];
        assert!(!confirmations.on_ack(5, 1, &acknowledgment), "it answers a probe");
        assert!(!confirmations.on_ack(6, 2, &acknowledgment), "it was not named");
        assert!(!confirmations.on_ack(5, 2, &[5, 0, 0, 1, 0, 0, 2, 6]), "it is of an earlier FLUSH");
        assert!(confirmations.on_ack(5, 2, &acknowledgment));
        assert!(!confirmations.on_ack(5, 2, &acknowledgment), "it is counted once");
        assert_eq!(named(&mut confirmations, 1), [11, u32::MAX - 1]);
        for node in [11, u32::MAX - 1] {
            assert!(!confirmations.have_all(last(1)) && confirmations.awaits(NodeId(node)));
            assert!(confirmations.on_ack(node, 2, &acknowledgment));
        }
        assert!(confirmations.have_all(last(1)) && !confirmations.have_all(last(2)));
        assert!(named(&mut confirmations, 1).is_empty());
        // More was sent.
        assert_eq!(named(&mut confirmations, 2), [5, 11]);
        assert!(confirmations.awaits(NodeId(5)) && !confirmations.awaits(NodeId(6)));
    }

    #[test]
    fn nobody_confirms_where_nobody_was_named() {
        let mut confirmations = Confirmations::default();
        assert!(named(&mut confirmations, 1).is_empty() && !confirmations.have_all(last(1)));
    }
}
