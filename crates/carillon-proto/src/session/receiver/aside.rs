//! The sessions that are not joined now, and who has answered on the side.

use std::collections::VecDeque;

use carillon_core::{AssociationId, NodeId, Time};

/// The sessions that are not joined now, oldest first.
#[derive(Debug, Default)]
pub(super) struct Aside {
    list: VecDeque<Other>,
    /// One that is to be asked.
    pub due: Option<Session>,
}

/// A session, and who invites to it.
pub(super) type Session = (AssociationId, NodeId);

/// What is remembered of one.
#[derive(Debug)]
pub(super) struct Other {
    pub session: Session,
    /// It is not joined before, unless it has answered.
    pub until: Time,
    pub has_answered: bool,
    /// What was seen of it before: the largest datagram shown, with how many invitations.
    pub seen: (u16, u32),
}

impl Aside {
    /// Ignores this session until then.
    pub fn add(&mut self, association: AssociationId, sender: NodeId, until: Time) {
        self.put(Other { session: (association, sender), until, has_answered: false, seen: (0, 0) });
    }

    pub fn put(&mut self, other: Other) {
        self.list.retain(|one| one.session != other.session);
        if self.list.len() >= MOST {
            self.list.pop_front();
        }
        self.list.push_back(other);
    }

    /// Whether this session is ignored now.
    pub fn has(&self, now: Time, association: AssociationId, sender: NodeId) -> bool {
        self.find((association, sender)).is_some_and(|one| now < one.until && !one.has_answered)
    }

    /// Whether this sender has answered on the side.
    pub fn has_answered(&self, association: AssociationId, sender: NodeId) -> bool {
        self.find((association, sender)).is_some_and(|one| one.has_answered)
    }

    /// This session is joined: it is not ignored any more. Gives what was seen of it before.
    pub fn take(&mut self, association: AssociationId, sender: NodeId) -> (u16, u32) {
        let at = self.list.iter().position(|one| one.session == (association, sender));
        at.and_then(|at| self.list.remove(at)).map_or((0, 0), |one| one.seen)
    }

    pub fn find(&self, session: Session) -> Option<&Other> {
        self.list.iter().find(|one| one.session == session)
    }
}

/// Sessions remembered that are not joined.
const MOST: usize = 16;
