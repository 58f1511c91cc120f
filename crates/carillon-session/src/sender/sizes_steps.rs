//! Steps of a sender that finds the datagram size that reaches all members.

use carillon_core::{Dest, Transmit};
use carillon_wire::Envelope;
use carillon_wire::session::{Body, DatagramSizes, Packet, Padding};

use super::SenderSession;
use super::sizes::Shortened;
use super::state::SenderPhase;
use crate::roster::{Member, MemberOutcome};

impl SenderSession {
    /// Maximum payload of a message; once the session runs, with packets that reach all members.
    pub fn max_payload(&self) -> u32 {
        self.sending.max_payload
    }

    /// Reason why datagrams are shorter than configured, if they are.
    pub fn shortened(&self) -> Option<&Shortened> {
        self.sending.shortened.as_ref()
    }

    /// Writes the next datagram to show.
    pub(super) fn emit_size(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Gathering may have ended since the invitation.
        if self.phase != SenderPhase::Gathering || self.announcing.end.is_some() {
            self.announcing.showing.due.clear();
        }
        let padding =
            Padding(usize::from(self.announcing.showing.due.pop_front()?).saturating_sub(Envelope::LEN));
        Packet { association: self.config.association, body: Body::Size(padding) }.emit(buf);
        Some(Transmit::now(Dest::group(self.config.group)))
    }

    /// Sets the size of messages to the largest that all members can receive, as no more members join.
    pub(super) fn settle_sizes(&mut self) {
        let DatagramSizes { longest, least } = self.config.shown();
        let takes_part = |member: &&Member| member.part.receives() && member.outcome == MemberOutcome::Active;
        let members = self.roster.members().iter().filter(takes_part);
        let Some(member) = members.min_by_key(|member| member.largest) else { return };
        // A member cannot reduce the size below the one it had to receive to join.
        let datagram = member.largest.max(least);
        if datagram < longest {
            self.sending.shortened = Some(Shortened { datagram, member: member.name.clone() });
            self.sending.max_payload = self.sending.max_payload.min(self.config.payload_in(datagram.into()));
        }
    }
}
