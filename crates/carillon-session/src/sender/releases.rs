//! Receivers of other releases: the sender notifies earlier releases, and remembers receivers that it cannot serve.
//!
//! A receiver with another wire version answers an invitation with DECLINE, and every release can read its opening. A
//! receiver from before wire versions gets notices in its own format. Neither is served: the report names each such
//! receiver with its release and address, and the transfer fails.

use carillon_core::{Dest, DropReason, NodeId, Received, Time, Transmit};
use carillon_wire::session::{EarlierBody, EarlierPacket, Name, Opening, OtherRelease, emit_notices};

use super::SenderSession;
use super::state::Reply;
use crate::unserved::UnservedReason;

impl SenderSession {
    /// Writes the next notice to earlier releases, if one is left.
    pub(super) fn emit_notice(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let name = Name::new(&self.config.name)?;
        let is_left = emit_notices(self.announcing.next_notice, self.config.association, name, buf);
        self.announcing.next_notice += usize::from(is_left);
        is_left.then(|| Transmit::now(Dest::group(self.config.group)))
    }

    /// Handles a packet from before wire versions.
    pub(super) fn on_earlier_release(&mut self, now: Time, source: NodeId, packet: EarlierPacket<'_>) {
        let is_ours = packet.association == self.config.association && !self.is_over();
        match packet.body {
            EarlierBody::Ask(nonce) if is_ours => {
                // The name comes with the DECLINE that follows, unless that is lost.
                let release = OtherRelease::Earlier(packet.version);
                if self.answering.release_claims.repeats(source, release) {
                    self.leave_out(now, source, UNNAMED, UnservedReason::Release(release));
                }
                self.answer(now, source, Reply::Earlier(nonce));
            }
            EarlierBody::Decline { name, .. } if is_ours => {
                let release = OtherRelease::Earlier(packet.version);
                if !self.answering.release_claims.repeats(source, release) {
                    return self.events.dropped(DropReason::Foreign);
                }
                self.leave_out(now, source, &name, UnservedReason::Release(release));
            }
            _ => self.events.dropped(DropReason::Foreign),
        }
    }

    /// Handles a packet that this release cannot read: from a receiver with another wire version, or damaged.
    pub(super) fn on_unreadable(&mut self, now: Time, datagram: &Received<'_>) {
        let (source, bytes) = (datagram.source, datagram.bytes);
        let opening = Opening::peek(bytes).filter(|(session, _)| *session == self.config.association);
        let is_for_this = matches!(datagram.destination, Dest::Node(_)) && Opening::is_from_receiver(bytes);
        let (Some((_, opening)), Some(release), true) = (opening, Opening::other_release(bytes), is_for_this)
        else {
            return self.events.dropped(DropReason::Malformed);
        };
        if self.is_over() || !self.answering.release_claims.repeats(source, release) {
            return self.events.dropped(DropReason::Foreign);
        }
        self.leave_out(now, source, &opening.name, UnservedReason::Release(release));
    }
}

/// Placeholder for the name of a receiver that has not revealed it.
const UNNAMED: &str = "a receiver";
