//! Sessions that are not joined now: set aside for a while or for good, or asked on the side.
//!
//! A sender that does not answer is set aside, so that another has its turn: it may be none. But its answer may merely be
//! late or lost, and who invites without pause, under ever new numbers, would otherwise keep a receiver from the
//! sender that is there. So while the one whose turn it is does not answer, all others are asked whether they are there, each
//! with its invitations and in fewer bytes than those have. The nonce with which one is asked is derived from its number and its
//! address: nothing has to be remembered of those that never answer. Who answers has the next turn.

use std::collections::VecDeque;

use carillon_core::{AssociationId, Dest, Duration, NodeId, Time, Transmit};
use carillon_wire::session::{Body, Nonce, Packet, State};

use super::{FOREVER, Invited, ReceiverPhase, ReceiverSession};

/// The sessions that are not joined now, oldest first.
#[derive(Debug, Default)]
pub(super) struct Aside {
    list: VecDeque<Other>,
    /// One that is to be asked.
    due: Option<Session>,
}

/// A session, and who invites to it.
type Session = (AssociationId, NodeId);

#[derive(Debug)]
struct Other {
    session: Session,
    /// It is not joined before, unless it has answered.
    until: Time,
    has_answered: bool,
}

impl Aside {
    /// Ignores this session until then.
    pub fn add(&mut self, association: AssociationId, sender: NodeId, until: Time) {
        self.put(Other { session: (association, sender), until, has_answered: false });
    }

    fn put(&mut self, other: Other) {
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

    /// This session is joined: it is not ignored any more.
    pub fn take(&mut self, association: AssociationId, sender: NodeId) {
        self.list.retain(|one| one.session != (association, sender));
    }

    fn find(&self, session: Session) -> Option<&Other> {
        self.list.iter().find(|one| one.session == session)
    }
}

impl ReceiverSession {
    /// With what it asks this sender: nobody else can know it, and it is the same each time.
    pub(super) fn nonce_for(&self, association: AssociationId, sender: NodeId) -> Nonce {
        let attempt = format!("{} {} {}", association.0, sender.0, self.attempts);
        Nonce(self.nonces.part(&attempt).stream("session.nonce").bits())
    }

    /// An invitation to a session whose turn it is not: it is asked on the side, unless the one whose turn it is may still
    /// answer. The question is shorter than any invitation.
    pub(super) fn ask_aside(&mut self, now: Time, association: AssociationId, sender: NodeId, state: State) {
        let waits_still = self.invited.as_ref().is_some_and(|invited| now.since(invited.since) < ALONE);
        let for_good = self.aside.find((association, sender)).is_some_and(|one| one.until == FOREVER);
        if !waits_still && !for_good && matches!(state, State::Gathering | State::Assembling | State::Running)
        {
            self.aside.due = Some((association, sender));
        }
    }

    /// A session that it does not belong to says to it alone that it is there. Returns whether it was asked for.
    pub(super) fn on_answer_aside(
        &mut self,
        association: AssociationId,
        sender: NodeId,
        nonce: Nonce,
    ) -> bool {
        let session = (association, sender);
        let is_current = |invited: &Invited| (invited.association, invited.sender) == session;
        let waits =
            matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining) && !self.is_welcomed();
        if !waits
            || self.invited.as_ref().is_some_and(is_current)
            || nonce != self.nonce_for(association, sender)
        {
            return false;
        }
        let until = self.aside.find(session).map_or(Time::ZERO, |one| one.until);
        if until != FOREVER {
            self.aside.put(Other { session, until, has_answered: true });
        }
        true
    }

    /// The question to a session whose turn it is not, if one is due.
    pub(super) fn due_aside(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (association, sender) = self.aside.due.take()?;
        Packet { association, body: Body::Ask { nonce: self.nonce_for(association, sender) } }.emit(buf);
        Some(Transmit::now(Dest::Node(sender)))
    }
}

/// Sessions remembered that are not joined.
const MOST: usize = 16;
/// One whose turn has just begun is given this long to answer before others are asked: most that are there do, even if the
/// first JOIN was lost.
const ALONE: Duration = Duration::from_millis(250);
