//! Steps of a receiver that meets a sender of another release.

use carillon_core::{Dest, DropReason, Received, Time, Transmit};
use carillon_wire::session::{EarlierBody, EarlierPacket, Name, Opening, Text, emit_decline};

use super::releases::{EarlierDecline, OtherSender};
use super::{IGNORE_TIME, ReceiverSession};

impl ReceiverSession {
    /// Handles a packet of another release. Returns true if it was one.
    pub(super) fn on_other_release(&mut self, now: Time, datagram: &Received<'_>) -> bool {
        let Some(release) = Opening::other_release(datagram.bytes) else { return false };
        self.events.dropped(DropReason::Foreign);
        let to_group = matches!(datagram.destination, Dest::Group { .. });
        let earlier = EarlierPacket::parse(datagram.bytes);
        let is_notice = earlier.is_some_and(|packet| packet.body == EarlierBody::Notice);
        if !to_group || is_notice {
            return true;
        }
        let (node, opening) = (datagram.source, Opening::peek(datagram.bytes));
        let name = match (&opening, earlier.map(|packet| packet.body)) {
            (Some((_, opening)), _) => Some(opening.name.to_string()),
            (None, Some(EarlierBody::Invite(name))) => name.map(|name| name.to_string()),
            (None, _) => None,
        };
        let association = match (&opening, &earlier) {
            (Some((association, _)), _) => *association,
            (None, Some(packet)) => packet.association,
            (None, None) => return true,
        };
        let met = &mut self.seeking.met;
        if met.release_claims.repeats(node, release) {
            // Some packets do not contain the name.
            let known = met.other_sender.take();
            let known = known.filter(|known| (known.node, known.release) == (node, release));
            let name = name.or(known.and_then(|known| known.name));
            met.other_sender = Some(OtherSender { name, node, release });
        }
        // Notify the sender rarely, and only while no session is joined, since it may be forged.
        if self.invited.is_none() && !self.config.silent && !self.seeking.ignored.has(now, association, node)
        {
            self.seeking.ignored.add(association, node, now + IGNORE_TIME);
            match earlier {
                Some(EarlierPacket { version, .. }) => {
                    self.outbox.earlier_decline = Some(EarlierDecline { version, association, sender: node });
                }
                None => self.decline(association, node, OTHER_RELEASE, datagram.bytes.len()),
            }
        }
        true
    }

    /// Writes the notice to an earlier release, if it is due.
    pub(super) fn emit_earlier_decline(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let EarlierDecline { version, association, sender } = self.outbox.earlier_decline.take()?;
        let (name, text) = (Name::new(&self.config.name)?, Text::new(OTHER_RELEASE)?);
        emit_decline(version, association, name, text, buf);
        Some(Transmit::now(Dest::Node(sender)))
    }
}

/// Text of the notice.
const OTHER_RELEASE: &str = "runs another release of carillon";
