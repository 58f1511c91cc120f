//! Bytes of the packets of the session.

use super::extension;
use super::fields::{put_nonce, put_text};
use super::{Body, Cookie, HoldingsPart, ListId, Opening, Origin, Packet, packet_type};
use crate::envelope::{Envelope, protocol};

impl Packet<'_> {
    /// Appends the datagram, envelope included.
    pub fn emit(&self, buf: &mut Vec<u8>) {
        let association = self.association;
        Envelope { protocol: protocol::SESSION, packet_type: self.body.packet_type(), association }.emit(buf);
        match &self.body {
            Body::Invite(invite) => invite.emit(buf),
            Body::Join { .. } => self.body.emit_join(buf),
            Body::Challenge { nonce, cookie } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&cookie.0.to_be_bytes());
            }
            Body::Welcome { nonce, member, terms } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&member.to_be_bytes());
                buf.extend_from_slice(&terms.0.to_be_bytes());
            }
            Body::Refuse { nonce, reason, text } => {
                put_nonce(buf, *nonce);
                buf.push(reason.code());
                put_text(buf, text);
            }
            Body::Progress { nonce, bytes } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&bytes.to_be_bytes());
            }
            Body::Report { nonce, bytes, verdict, text } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&bytes.to_be_bytes());
                buf.push(*verdict as u8);
                put_text(buf, text);
            }
            Body::ReportAck { nonce } => put_nonce(buf, *nonce),
            Body::Leave { nonce, text } => {
                put_nonce(buf, *nonce);
                put_text(buf, text);
            }
            Body::Roster(page) => page.emit(buf),
            Body::Present { proof } => buf.extend_from_slice(&proof.0.to_be_bytes()),
            Body::Ready { nonce, edition } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&edition.to_be_bytes());
            }
            Body::Decline { name, text } => {
                Opening::of(*name).emit(buf);
                put_text(buf, text);
            }
            Body::Ask { nonce } => put_nonce(buf, *nonce),
            Body::Answer { nonce, state, terms, text } => {
                put_nonce(buf, *nonce);
                buf.push(state.code());
                buf.extend_from_slice(&terms.0.to_be_bytes());
                put_text(buf, text);
            }
            Body::Measure { edition } => buf.extend_from_slice(&edition.to_be_bytes()),
            Body::Probe { token } | Body::Echo { token } => buf.extend_from_slice(&token.to_be_bytes()),
            Body::Distances { nonce, edition, distances } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&edition.to_be_bytes());
                distances.emit(buf);
            }
            Body::Size(padding) => padding.emit(buf),
            Body::Holdings { nonce, part } => {
                put_nonce(buf, *nonce);
                part.emit(buf);
            }
            Body::HoldingsAck { nonce, question, bytes } => {
                put_nonce(buf, *nonce);
                buf.extend_from_slice(&question.to_be_bytes());
                buf.extend_from_slice(&bytes.to_be_bytes());
            }
        }
    }

    /// Length of the datagram in bytes.
    pub fn wire_len(&self) -> usize {
        Envelope::LEN
            + match &self.body {
                Body::Invite(invite) => invite.wire_len(),
                Body::Join { name, attached, cookie, origin, list, .. } => {
                    let cookie = cookie.map_or(0, |_| extension::len_of(8));
                    let origin = if origin.is_some() { extension::len_of(Origin::LEN) } else { 0 };
                    let list = if list.is_some() { extension::len_of(ListId::LEN) } else { 0 };
                    Opening::wire_len(name) + 8 + 4 + 1 + 2 + attached.wire_len() + cookie + origin + list
                }
                Body::Challenge { .. } => 8 + 8,
                Body::Welcome { .. } => 8 + 4 + 8,
                Body::Refuse { text, .. } => 8 + 1 + 1 + text.len(),
                Body::Progress { .. } => 8 + 8,
                Body::Report { text, .. } => 8 + 8 + 1 + 1 + text.len(),
                Body::ReportAck { .. } => 8,
                Body::Leave { text, .. } => 8 + 1 + text.len(),
                Body::Roster(page) => page.wire_len(),
                Body::Present { .. } => 8,
                Body::Ready { .. } => 8 + 4,
                Body::Decline { name, text } => Opening::wire_len(name) + 1 + text.len(),
                Body::Ask { .. } => 8,
                Body::Answer { text, .. } => 8 + 1 + 8 + 1 + text.len(),
                Body::Measure { .. } => 4,
                Body::Probe { .. } | Body::Echo { .. } => 8,
                Body::Distances { distances, .. } => 8 + 4 + distances.wire_len(),
                Body::Size(padding) => padding.0,
                Body::Holdings { part, .. } => 8 + HoldingsPart::HEADER_LEN + part.bytes.len(),
                Body::HoldingsAck { .. } => 8 + 4 + 4,
            }
    }
}

impl Body<'_> {
    /// Type of the packet.
    fn packet_type(&self) -> u8 {
        match self {
            Body::Invite(_) => packet_type::INVITE,
            Body::Join { .. } => packet_type::JOIN,
            Body::Challenge { .. } => packet_type::CHALLENGE,
            Body::Welcome { .. } => packet_type::WELCOME,
            Body::Refuse { .. } => packet_type::REFUSE,
            Body::Progress { .. } => packet_type::PROGRESS,
            Body::Report { .. } => packet_type::REPORT,
            Body::ReportAck { .. } => packet_type::REPORT_ACK,
            Body::Leave { .. } => packet_type::LEAVE,
            Body::Roster(_) => packet_type::ROSTER,
            Body::Present { .. } => packet_type::PRESENT,
            Body::Ready { .. } => packet_type::READY,
            Body::Decline { .. } => packet_type::DECLINE,
            Body::Ask { .. } => packet_type::ASK,
            Body::Answer { .. } => packet_type::ANSWER,
            Body::Measure { .. } => packet_type::MEASURE,
            Body::Probe { .. } => packet_type::PROBE,
            Body::Echo { .. } => packet_type::ECHO,
            Body::Distances { .. } => packet_type::DISTANCES,
            Body::Size(_) => packet_type::SIZE,
            Body::Holdings { .. } => packet_type::HOLDINGS,
            Body::HoldingsAck { .. } => packet_type::HOLDINGS_ACK,
        }
    }

    /// Appends a JOIN; nothing for another packet.
    fn emit_join(&self, buf: &mut Vec<u8>) {
        let Body::Join { nonce, receive_buffer, part, largest, name, attached, cookie, origin, list } = self
        else {
            return;
        };
        Opening::of(*name).emit(buf);
        put_nonce(buf, *nonce);
        buf.extend_from_slice(&receive_buffer.to_be_bytes());
        buf.push(part.code());
        buf.extend_from_slice(&largest.to_be_bytes());
        attached.emit(buf);
        if let Some(Cookie(cookie)) = cookie {
            extension::put(buf, extension::COOKIE, &cookie.to_be_bytes());
        }
        if let Some(origin) = origin {
            extension::put(buf, extension::ORIGIN, &origin.to_bytes());
        }
        if let Some(ListId(list)) = list {
            extension::put(buf, extension::HOLDINGS, list);
        }
    }
}
