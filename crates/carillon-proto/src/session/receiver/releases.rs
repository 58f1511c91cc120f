//! Senders of other releases: the receiver remembers the last one and tells it, in words that it reads.

use carillon_core::{Dest, DropReason, NodeId, Received, Time, Transmit};
use carillon_wire::session::{EarlierBody, EarlierPacket, Name, Opening, OtherRelease, Text, emit_decline};

use super::{AWHILE, ReceiverSession};

/// A sender whose session this release cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSender {
    /// Its name, if its release says it in a way that this one reads.
    pub name: Option<String>,
    /// Its node.
    pub node: NodeId,
    /// Its release.
    pub release: OtherRelease,
}

/// The word to a sender from before wire versions, in its own format.
#[derive(Debug)]
pub(super) struct EarlierDecline {
    version: u8,
    association: carillon_core::AssociationId,
    sender: NodeId,
}

impl ReceiverSession {
    /// The last sender whose session this release cannot read.
    pub fn other_sender(&self) -> Option<&OtherSender> {
        self.other_sender.as_ref()
    }

    /// Notices a packet of another release; returns whether it was one.
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
        // Not every packet shows the name.
        let known = self.other_sender.take().filter(|known| (known.node, known.release) == (node, release));
        let name = name.or(known.and_then(|known| known.name));
        self.other_sender = Some(OtherSender { name, node, release });
        // Told once in a while, and only while no session is joined: the sender may be a false one.
        if self.invited.is_none() && !self.config.silent && !self.aside.has(now, association, node) {
            self.aside.add(association, node, now + AWHILE);
            match earlier {
                Some(EarlierPacket { version, .. }) => {
                    self.earlier_decline = Some(EarlierDecline { version, association, sender: node });
                }
                None => self.decline(association, node, OTHER_RELEASE, datagram.bytes.len()),
            }
        }
        true
    }

    /// Appends the word to an earlier release, if it is due.
    pub(super) fn emit_earlier_decline(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let EarlierDecline { version, association, sender } = self.earlier_decline.take()?;
        let (name, text) = (Name::new(&self.config.name)?, Text::new(OTHER_RELEASE)?);
        emit_decline(version, association, name, text, buf);
        Some(Transmit::now(Dest::Node(sender)))
    }
}

const OTHER_RELEASE: &str = "runs another release of carillon";
