//! Composition of the packets that a receiver sends.

use carillon_core::{AssociationId, Dest, NodeId, Transmit};
use carillon_wire::session::{Attachment, Body, Name, Opening, Packet, Text};

use super::ReceiverSession;
use super::outbox::{Decline, Pending};
use crate::{KNOCK, secret};

impl ReceiverSession {
    /// Declines an invitation of `len` bytes. Nothing acknowledges that, so it is repeated, within three times the
    /// bytes of the invitation.
    pub(super) fn decline(&mut self, association: AssociationId, sender: NodeId, text: &str, len: usize) {
        let text = Text::clean(text);
        let one = Opening::datagram_len(self.config.name.len()) + 1 + text.len();
        let left = (len * MAX_DECLINES / one).min(MAX_DECLINES);
        self.outbox.decline = (left > 0).then_some(Decline { association, sender, text, left });
    }

    /// Writes the next packet of the session, if one is due.
    pub(super) fn due_packet(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let notice = self.emit_decline(buf).or_else(|| self.emit_earlier_decline(buf));
        if let Some(transmit) = notice.or_else(|| self.due_query(buf)) {
            return Some(transmit);
        }
        let is_admitted = self.invited.as_ref()?.member.is_some();
        match self.outbox.take(is_admitted) {
            Some(packet) => self.emit_pending(packet, buf),
            None => self.emit_leave(buf),
        }
    }

    fn emit_decline(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let decline = self.outbox.decline.as_mut()?;
        let (name, text) = (Name::new(&self.config.name)?, Text::new(&decline.text)?);
        decline.left -= 1;
        let dest = Dest::Node(decline.sender);
        Packet { association: decline.association, body: Body::Decline { name, text } }.emit(buf);
        self.outbox.decline.take_if(|decline| decline.left == 0);
        Some(Transmit::now(dest))
    }

    fn emit_leave(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (leave, invited) = (self.outbox.leave.as_mut()?, self.invited.as_ref()?);
        // A sender that has not admitted this receiver may be forged, so it gets a packet without text.
        let text = Text::new(&leave.reason).filter(|_| invited.member.is_some()).unwrap_or_default();
        let body = Body::Leave { nonce: self.random.nonce, text };
        Packet { association: invited.association, body }.emit(buf);
        leave.left -= 1;
        let dest = Dest::Node(invited.sender);
        self.outbox.leave.take_if(|leave| leave.left == 0);
        Some(Transmit::now(dest))
    }

    fn emit_pending(&mut self, packet: Pending, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Pending::Join | Pending::Knock = packet {
            return self.emit_join(packet == Pending::Knock, buf);
        }
        if packet == Pending::Holdings {
            return self.emit_holdings(buf);
        }
        let (invited, nonce) = (self.invited.as_ref()?, self.random.nonce);
        let mut dest = Dest::Node(invited.sender);
        let body = match packet {
            Pending::Join | Pending::Knock | Pending::Ask | Pending::Holdings => Body::Ask { nonce },
            Pending::Present => {
                dest = Dest::group(self.config.group);
                Body::Present { proof: secret::proof(nonce) }
            }
            Pending::Ready => Body::Ready {
                nonce,
                edition: self.assembling.peers.as_ref().map_or(0, |peers| peers.edition()),
            },
            Pending::Report => {
                let (verdict, reason) = self.reporting.outcome()?;
                // The text was sanitised when the application reported.
                let text = Text::new(reason).unwrap_or_default();
                Body::Report { nonce, bytes: self.reporting.bytes, verdict, text }
            }
            // The report states the same bytes.
            Pending::Progress if self.reporting.outcome().is_some() => return None,
            Pending::Progress => Body::Progress { nonce, bytes: self.reporting.bytes },
        };
        Packet { association: invited.association, body }.emit(buf);
        Some(Transmit::now(dest))
    }

    /// Writes the next part of the answer about holdings, and schedules the one behind it.
    fn emit_holdings(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (invited, nonce) = (self.invited.as_ref()?, self.random.nonce);
        let body = Body::Holdings { nonce, part: self.holdings.next()? };
        Packet { association: invited.association, body }.emit(buf);
        let dest = Dest::Node(invited.sender);
        self.outbox.schedule(Pending::Holdings);
        Some(Transmit::now(dest))
    }

    /// Writes a JOIN, unless it has more bytes than may be sent.
    fn emit_join(&mut self, knocks: bool, buf: &mut Vec<u8>) -> Option<Transmit> {
        // What is only for the sender does not go to the group.
        let job = self.invited.as_ref().filter(|_| !knocks);
        let job = job.and_then(|invited| Some((invited.job?, invited.sender)));
        let origin = job.map(|(job, sender)| self.origin(job, sender));
        let (invited, nonce) = (self.invited.as_ref()?, if knocks { KNOCK } else { self.random.nonce });
        let name = Name::new(&self.config.name).expect("the name was cleaned when the session was made");
        // The first JOIN only asks for a challenge, so its attachment would be lost.
        let attached =
            self.joining.cookie.and_then(|_| Attachment::new(&self.config.attached)).unwrap_or_default();
        let body = match invited.problem {
            Some(_) if knocks => return None,
            Some(_) => Body::Ask { nonce },
            None => Body::Join {
                nonce,
                receive_buffer: self.config.receive_buffer,
                part: self.config.part,
                largest: invited.sizes.largest,
                name,
                attached,
                cookie: self.joining.cookie.filter(|_| !knocks),
                origin,
                list: self.config.list.filter(|_| invited.asks && !knocks),
            },
        };
        let packet = Packet { association: invited.association, body };
        // Send no more bytes than the claimed address has sent, so that a forged address is no amplifier.
        if invited.member.is_none() && !self.joining.spend(packet.wire_len()) {
            return None;
        }
        packet.emit(buf);
        Some(Transmit::now(if knocks { Dest::group(self.config.group) } else { Dest::Node(invited.sender) }))
    }
}

/// Maximum number of times that a sender is notified that its invitation is declined.
const MAX_DECLINES: usize = 3;
