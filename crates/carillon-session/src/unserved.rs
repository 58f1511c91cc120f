//! Receivers that a session does not serve: they were late, refused, or not heard again.

use std::fmt;

use carillon_core::{Duration, NodeId, Span, Time};
use carillon_wire::session::{OtherRelease, RefuseReason};

/// Receiver that sent a packet and is no member when the session starts, or came later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Name that the receiver states.
    pub name: String,
    /// Node of the receiver.
    pub node: NodeId,
    /// Time at which this was found.
    pub at: Time,
    /// Reason why it is not served.
    pub reason: UnservedReason,
}

/// Reason why a receiver is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnservedReason {
    /// The sender refused it.
    Refused(RefuseReason),
    /// The receiver declined the invitation, with this reason.
    Declined(String),
    /// The receiver joined and left before the start, with this reason.
    Left(String),
    /// The receiver joined, and was silent for this long before the start.
    Silent(Duration),
    /// The receiver asked to join, and did not answer the sender while it gathered.
    Unanswered,
    /// Its release uses another wire version.
    Release(OtherRelease),
}

impl fmt::Display for UnservedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnservedReason::Refused(reason) => f.write_str(match reason {
                RefuseReason::AlreadyStarted => ARRIVED_AFTER_START,
                RefuseReason::NameTaken => "refused: another receiver has joined under its name",
                RefuseReason::NotExpected => "refused: its name is not expected",
                RefuseReason::Full => "refused: the session takes no more receivers",
                RefuseReason::Expelled => "refused: it was expelled before",
                RefuseReason::Nonce => "refused: it is to try again",
                RefuseReason::Later => ARRIVED_AFTER_START,
                RefuseReason::Done => "it has everything of this job",
            }),
            UnservedReason::Declined(text) => f.write_str(text),
            UnservedReason::Release(release) => write!(f, "runs {release} of carillon"),
            UnservedReason::Left(text) if text.is_empty() => f.write_str("left before the start"),
            UnservedReason::Left(text) => write!(f, "left before the start: {text}"),
            UnservedReason::Unanswered => f.write_str("asked to join, and did not answer"),
            UnservedReason::Silent(time) => {
                write!(f, "joined, then was silent for {} before the start", Span::Time(*time))
            }
        }
    }
}

/// Bounded list with one entry per node, and the number of further receivers.
#[derive(Debug, Default)]
pub(super) struct UnservedList {
    list: Vec<Unserved>,
    more: u64,
}

impl UnservedList {
    pub fn add(&mut self, new: Unserved) {
        let known = self.list.iter().position(|old| old.node == new.node);
        // A receiver that restarts again and again takes one entry.
        let same = |old: &Unserved| old.name == new.name && old.reason == new.reason;
        let known =
            known.or_else(|| self.list.iter().position(same).filter(|_| self.list.len() >= MAX_UNSERVED));
        match known {
            Some(index) => self.list[index] = new,
            None if self.list.len() < MAX_UNSERVED => self.list.push(new),
            None => self.more = self.more.saturating_add(1),
        }
    }

    /// Removes a receiver that is served after all, perhaps from another node.
    pub fn remove(&mut self, node: NodeId, name: &str) {
        self.list.retain(|one| one.node != node && one.name != name);
    }

    pub fn list(&self) -> &[Unserved] {
        &self.list
    }

    pub fn more(&self) -> u64 {
        self.more
    }
}

/// Reason for a receiver that was not present at the start, as it states it itself and as reports show it.
pub(super) const ARRIVED_AFTER_START: &str = "came after the start";
/// Maximum number of entries, since strangers could fill the list.
const MAX_UNSERVED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn one(node: u32, name: &str) -> Unserved {
        let reason = UnservedReason::Refused(RefuseReason::AlreadyStarted);
        Unserved { name: name.to_owned(), node: NodeId(node), at: Time::ZERO, reason }
    }

    #[test]
    fn each_node_has_one_entry_and_further_nodes_are_counted() {
        let mut list = UnservedList::default();
        for node in 0..200 {
            list.add(one(node % 100, &format!("r{}", node % 100)));
        }
        assert_eq!((list.list().len(), list.more()), (MAX_UNSERVED, 72));
        list.add(one(500, "r3"));
        assert_eq!((list.list().len(), list.more()), (MAX_UNSERVED, 72));
        list.remove(NodeId(9), "r4");
        assert_eq!(list.list().len(), MAX_UNSERVED - 2);
    }
}
