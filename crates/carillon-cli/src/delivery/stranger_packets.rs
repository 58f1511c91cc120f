//! Packets of other programs and releases that a receiver notices while it waits for an invitation.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::NodeId;
use carillon_net::is_sealed;
use carillon_wire::Envelope;
use carillon_wire::session::{Opening, OtherRelease};

/// Datagrams that do not concern a receiver without a session, by source.
#[derive(Debug, Default)]
pub struct StrangerPackets {
    strangers: BTreeMap<NodeId, (Kind, u64)>,
    /// Sources of session packets. Their other packets belong to a session, so they are not counted.
    known: BTreeSet<NodeId>,
}

/// Kind of a stranger's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Session packets of another release.
    Release(OtherRelease),
    /// Packets of Carillon with another version in the envelope.
    Version(u8),
    /// Sealed packets, at an end without a key.
    Sealed,
    /// Packets of another program.
    Foreign,
}

impl StrangerPackets {
    /// Records a datagram.
    pub fn note(&mut self, from: NodeId, bytes: &[u8]) {
        let other = Opening::other_release(bytes);
        if other.is_none() && Envelope::parse(bytes).is_ok() {
            if self.known.len() < MAX_SOURCES {
                self.known.insert(from);
            }
            return;
        }
        let kind = match bytes {
            _ if let Some(release) = other => Kind::Release(release),
            [MAGIC, version, ..] => Kind::Version(*version),
            _ if is_sealed(bytes) => Kind::Sealed,
            _ => Kind::Foreign,
        };
        if self.strangers.len() < MAX_SOURCES || self.strangers.contains_key(&from) {
            self.strangers.entry(from).or_insert((kind, 0)).1 += 1;
        }
    }

    /// Sources with the kind and the number of their datagrams.
    pub fn strangers(&self) -> impl Iterator<Item = (NodeId, Kind, u64)> + '_ {
        let unknown = self.strangers.iter().filter(|(node, _)| !self.known.contains(node));
        unknown.map(|(&node, &(kind, count))| (node, kind, count))
    }
}

/// The first byte of the common envelope.
const MAGIC: u8 = 0xCA;
/// Maximum number of remembered sources, since strangers choose how many there are.
const MAX_SOURCES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_programs_are_distinguished() {
        let mut overheard = StrangerPackets::default();
        overheard.note(NodeId(1), b"hello");
        overheard.note(NodeId(1), b"");
        overheard.note(NodeId(2), &[0xCA, 1, 0, 1, 0, 0, 0, 0]);
        overheard.note(NodeId(4), &[&[0x5E, 0x10][..], &[7; 50]].concat());
        overheard.note(NodeId(3), &[0xCA, 3, 0, 3, 0, 0, 0, 0]);
        overheard.note(NodeId(3), b"of a protocol with a header of its own");
        let all: Vec<_> = overheard.strangers().collect();
        let expected = [
            (NodeId(1), Kind::Foreign, 2),
            (NodeId(2), Kind::Release(OtherRelease::Earlier(1)), 1),
            (NodeId(4), Kind::Sealed, 1),
        ];
        assert_eq!(all, expected);
        (5..1000).for_each(|node| overheard.note(NodeId(node), b"flood"));
        assert!(overheard.strangers().count() <= MAX_SOURCES);
    }
}
