//! What else is said in a group while a receiver waits to be invited.

use std::collections::{BTreeMap, BTreeSet};

use carillon_core::NodeId;
use carillon_net::is_sealed;
use carillon_wire::Envelope;
use carillon_wire::session::{Opening, OtherRelease};

/// Datagrams that are no business of a receiver without a session, by who sent them.
#[derive(Debug, Default)]
pub struct Overheard {
    strangers: BTreeMap<NodeId, (Kind, u64)>,
    /// Who has spoken as a session does; what else they say belongs to it.
    known: BTreeSet<NodeId>,
}

/// What a stranger's datagrams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A session's of another release.
    Release(OtherRelease),
    /// Carillon's, but with another version in the envelope.
    Version(u8),
    /// Sealed with a key, which this end has not.
    Sealed,
    /// Another program's.
    Foreign,
}

impl Overheard {
    /// Takes note of a datagram.
    pub fn note(&mut self, from: NodeId, bytes: &[u8]) {
        let other = Opening::other_release(bytes);
        if other.is_none() && Envelope::parse(bytes).is_ok() {
            if self.known.len() < MOST {
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
        if self.strangers.len() < MOST || self.strangers.contains_key(&from) {
            self.strangers.entry(from).or_insert((kind, 0)).1 += 1;
        }
    }

    /// Who has sent what, and how many.
    pub fn strangers(&self) -> impl Iterator<Item = (NodeId, Kind, u64)> + '_ {
        let unknown = self.strangers.iter().filter(|(node, _)| !self.known.contains(node));
        unknown.map(|(&node, &(kind, count))| (node, kind, count))
    }
}

/// The first byte of the common envelope.
const MAGIC: u8 = 0xCA;
/// Sources remembered: strangers choose how many there are.
const MOST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_other_programs_are_told_apart_and_known_senders_left_out() {
        let mut overheard = Overheard::default();
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
        assert!(overheard.strangers().count() <= MOST);
    }
}
