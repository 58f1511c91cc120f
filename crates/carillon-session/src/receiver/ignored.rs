//! Sessions that the receiver ignores for now, and senders that answered a query meanwhile.

use std::collections::VecDeque;

use carillon_core::{AssociationId, NodeId, Time};

/// Ignored sessions, oldest first.
#[derive(Debug, Default)]
pub(super) struct IgnoredSessions {
    list: VecDeque<IgnoredSession>,
    /// Session to query next.
    pub due: Option<Session>,
}

/// Session and its sender.
pub(super) type Session = (AssociationId, NodeId);

/// Record of an ignored session.
#[derive(Debug)]
pub(super) struct IgnoredSession {
    pub session: Session,
    /// Time until which the session is not joined, unless its sender answers a query.
    pub until: Time,
    pub has_answered: bool,
    /// Largest datagram seen, and the number of invitations, before the session was ignored.
    pub seen: (u16, u32),
}

impl IgnoredSessions {
    /// Ignores a session until this time.
    pub fn add(&mut self, association: AssociationId, sender: NodeId, until: Time) {
        self.put(IgnoredSession { session: (association, sender), until, has_answered: false, seen: (0, 0) });
    }

    pub fn put(&mut self, other: IgnoredSession) {
        // A session has one entry. It moves to the end, so that it is displaced last.
        self.list.retain(|one| one.session != other.session);
        if self.list.len() >= MAX_IGNORED_SESSIONS {
            self.list.pop_front();
        }
        self.list.push_back(other);
    }

    /// Returns true if a session is ignored now.
    pub fn has(&self, now: Time, association: AssociationId, sender: NodeId) -> bool {
        self.find((association, sender)).is_some_and(|one| now < one.until && !one.has_answered)
    }

    /// Returns true if this sender answered a query.
    pub fn has_answered(&self, association: AssociationId, sender: NodeId) -> bool {
        self.find((association, sender)).is_some_and(|one| one.has_answered)
    }

    /// Forgets a session that is being joined. Returns its largest datagram and number of invitations.
    pub fn take(&mut self, association: AssociationId, sender: NodeId) -> (u16, u32) {
        let at = self.list.iter().position(|one| one.session == (association, sender));
        at.and_then(|at| self.list.remove(at)).map_or((0, 0), |one| one.seen)
    }

    pub fn find(&self, session: Session) -> Option<&IgnoredSession> {
        self.list.iter().find(|one| one.session == session)
    }
}

/// Maximum number of ignored sessions remembered: new ones displace the oldest, so that forged invitations take no
/// memory.
const MAX_IGNORED_SESSIONS: usize = 16;
