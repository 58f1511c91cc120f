//! Receivers of other releases: the sender tells earlier ones that it is there, and remembers those that cannot be served.
//!
//! A receiver with another wire version answers an invitation with DECLINE, whose opening every release reads. A receiver from
//! before wire versions is told by notices in its own format. Nobody is served by this; the report names each such receiver,
//! its release and address, and the transfer is no success.

use carillon_core::{DropReason, NodeId, Time};
use carillon_wire::session::{Earlier, EarlierBody, Name, Opening, OtherRelease, emit_notices};

use super::SenderSession;
use super::state::Reply;
use crate::session::unserved::UnservedReason;

impl SenderSession {
    /// Appends the next notice to earlier releases, if one is due.
    pub(super) fn emit_notice(&mut self, buf: &mut Vec<u8>) -> bool {
        let Some(name) = Name::new(&self.config.name) else { return false };
        if !emit_notices(self.next_notice, self.config.association, name, buf) {
            return false;
        }
        self.next_notice += 1;
        true
    }

    /// A packet from before wire versions.
    pub(super) fn on_earlier_release(&mut self, now: Time, source: NodeId, packet: Earlier<'_>) {
        let is_ours = packet.association == self.config.association && !self.is_over();
        match packet.body {
            EarlierBody::Ask(nonce) if is_ours => {
                // Its name comes with the DECLINE that follows, unless that is lost.
                let release = OtherRelease::Earlier(packet.version);
                self.leave_out(now, source, UNNAMED, UnservedReason::Release(release));
                self.answer(now, source, Reply::Earlier(nonce));
            }
            EarlierBody::Decline { name, .. } if is_ours => {
                let release = OtherRelease::Earlier(packet.version);
                self.leave_out(now, source, &name, UnservedReason::Release(release));
            }
            _ => self.events.dropped(DropReason::Foreign),
        }
    }

    /// A packet of the session that this release cannot read: a receiver with another wire version, or nonsense.
    pub(super) fn on_unreadable(&mut self, now: Time, source: NodeId, bytes: &[u8]) {
        let opening = Opening::peek(bytes).filter(|(session, _)| *session == self.config.association);
        match (opening, Opening::other_release(bytes)) {
            (Some((_, opening)), Some(release)) if !self.is_over() => {
                self.leave_out(now, source, &opening.name, UnservedReason::Release(release));
            }
            _ => self.events.dropped(DropReason::Malformed),
        }
    }
}

/// Stands for the name of a receiver that has not shown it.
const UNNAMED: &str = "a receiver";
