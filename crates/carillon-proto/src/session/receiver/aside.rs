//! Sessions that are not to be joined, for a while or for good.
//!
//! A sender that does not answer is set aside, so that another has its turn: it may be none. But its
//! answer may merely be late or lost, and who invites without pause, under ever new numbers, would otherwise keep
//! a receiver from the sender that is there. So one that was set aside is still asked with each of its invitations,
//! in no more bytes than that has, and with the same nonce; if it answers after all, it is gone back to.

use std::collections::VecDeque;

use carillon_core::{AssociationId, Dest, NodeId, Time, Transmit};
use carillon_wire::session::{Attached, Body, Name, Nonce, Packet, State};

use super::{FOREVER, ReceiverPhase, ReceiverSession};

/// The sessions that are not to be joined, oldest first.
#[derive(Debug, Default)]
pub(super) struct Aside {
    list: VecDeque<Ignored>,
    /// One that is to be asked once more.
    due: Option<(AssociationId, NodeId, Nonce)>,
}

/// A session, and who invites to it.
#[derive(Debug)]
struct Ignored {
    association: AssociationId,
    sender: NodeId,
    until: Time,
    /// With which it was asked, if it did not answer.
    nonce: Option<Nonce>,
    /// It has answered.
    has_answered: bool,
}

impl Aside {
    /// Ignores this session until then; it was asked with this nonce.
    pub fn add(&mut self, association: AssociationId, sender: NodeId, until: Time, nonce: Option<Nonce>) {
        self.list.retain(|one| (one.association, one.sender) != (association, sender));
        if self.list.len() >= MOST {
            self.list.pop_front();
        }
        self.list.push_back(Ignored { association, sender, until, nonce, has_answered: false });
    }

    /// Whether this session is ignored now.
    pub fn has(&self, now: Time, association: AssociationId, sender: NodeId) -> bool {
        self.find(association, sender).is_some_and(|one| now < one.until && !one.has_answered)
    }

    /// The nonce with which a sender was asked that has answered late.
    pub fn answered(&self, association: AssociationId, sender: NodeId) -> Option<Nonce> {
        self.find(association, sender).filter(|one| one.has_answered)?.nonce
    }

    /// This session is joined: it is not ignored any more.
    pub fn take(&mut self, association: AssociationId, sender: NodeId) -> Option<Nonce> {
        let at = self.list.iter().position(|one| (one.association, one.sender) == (association, sender))?;
        self.list.remove(at)?.nonce
    }

    fn find(&self, association: AssociationId, sender: NodeId) -> Option<&Ignored> {
        self.list.iter().find(|one| (one.association, one.sender) == (association, sender))
    }
}

impl ReceiverSession {
    /// An invitation, of so many bytes, to a session that was set aside: it is asked once more, on the side.
    pub(super) fn ask_aside(&mut self, association: AssociationId, sender: NodeId, state: State, len: usize) {
        let nonce = self.aside.find(association, sender).filter(|one| one.until != FOREVER);
        if let Some(nonce) = nonce.and_then(|one| one.nonce)
            && matches!(state, State::Gathering | State::Assembling | State::Running)
            && self.join_packet(association, nonce).is_some_and(|packet| packet.wire_len() <= len)
        {
            self.aside.due = Some((association, sender, nonce));
        }
    }

    /// A WELCOME of a session that it does not belong to. Returns whether it was asked for.
    pub(super) fn on_late_welcome(
        &mut self,
        association: AssociationId,
        sender: NodeId,
        nonce: Nonce,
    ) -> bool {
        let waits =
            matches!(self.phase, ReceiverPhase::Seeking | ReceiverPhase::Joining) && !self.is_welcomed();
        let is_its = |one: &&mut Ignored| {
            (one.association, one.sender, one.nonce) == (association, sender, Some(nonce))
                && one.until != FOREVER
        };
        match self.aside.list.iter_mut().find(is_its).filter(|_| waits) {
            Some(one) => {
                one.has_answered = true;
                true
            }
            None => false,
        }
    }

    /// The JOIN to a session that was set aside, if one is due.
    pub(super) fn due_aside(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (association, sender, nonce) = self.aside.due.take()?;
        self.join_packet(association, nonce)?.emit(buf);
        Some(Transmit::now(Dest::Node(sender)))
    }

    fn join_packet(&self, association: AssociationId, nonce: Nonce) -> Option<Packet<'_>> {
        let name = Name::new(&self.config.name)?;
        let (receive_buffer, part) = (self.config.receive_buffer, self.config.part());
        let attached = Attached::new(&self.config.attached).unwrap_or_default();
        Some(Packet { association, body: Body::Join { nonce, receive_buffer, part, name, attached } })
    }
}

/// Sessions remembered as not to be joined.
const MOST: usize = 16;
