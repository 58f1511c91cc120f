//! Packets for releases from before wire versions, with session version 1 or 2.
//!
//! Such releases silently drop every packet of this one. A sender therefore adds notices in their formats while it
//! gathers: invitations to a protocol that they do not know, with a name that they print. A receiver of version 2
//! verifies an invitation first; the sender answers in that format, and the receiver declines, by name.

use carillon_core::{AssociationId, Seeds};

use super::{Name, Nonce, Text};
use crate::ParseError;
use crate::envelope::{MAGIC, SESSION_VERSION, protocol};
use crate::reader::Reader;

/// Appends the notice of format `number`, from 0; returns false if there is no format of that number.
pub fn emit_notices(number: usize, association: AssociationId, sender: Name<'_>, buf: &mut Vec<u8>) -> bool {
    // Versions 1 and 2; version 2 exists with and without the datagram sizes at the end of the fixed part.
    let Some(&(version, more)) = [(1, 0), (2, 3), (2, 7)].get(number) else { return false };
    buf.extend_from_slice(&[MAGIC, version, protocol::SESSION, INVITE]);
    buf.extend_from_slice(&association.0.to_be_bytes());
    // State gathering, lengths of the names and of the reason, maximum payload, length of the settings.
    buf.extend_from_slice(&[0, PROTOCOL.len() as u8, sender.len() as u8, 0]);
    buf.extend_from_slice(&[0, 0, 0, 1, 0, 0]);
    // Progress interval, relays, sizes.
    buf.extend_from_slice(&[0; 7][..more]);
    buf.extend_from_slice(PROTOCOL.as_bytes());
    buf.extend_from_slice(sender.as_bytes());
    true
}

/// Appends the answer to an ASK of version 2 about a notice of this sender: the session is gathering. The receiver
/// then declines.
pub fn emit_answer(association: AssociationId, sender: Name<'_>, nonce: Nonce, buf: &mut Vec<u8>) {
    // Terms that version 2 computes for the notice; with others it would wait for another invitation.
    let text = format!("1 false\n{PROTOCOL}\n{sender}\n");
    let terms = Seeds::new(0).part("session.terms").stream(&text).bits();
    buf.extend_from_slice(&[MAGIC, 2, protocol::SESSION, ANSWER]);
    buf.extend_from_slice(&association.0.to_be_bytes());
    buf.extend_from_slice(&nonce.0.to_be_bytes());
    // State gathering, terms, no text.
    buf.push(0);
    buf.extend_from_slice(&terms.to_be_bytes());
    buf.push(0);
}

/// Appends a DECLINE in an earlier format, with the reason.
pub fn emit_decline(
    version: u8,
    association: AssociationId,
    name: Name<'_>,
    text: Text<'_>,
    buf: &mut Vec<u8>,
) {
    buf.extend_from_slice(&[MAGIC, version, protocol::SESSION, DECLINE]);
    buf.extend_from_slice(&association.0.to_be_bytes());
    buf.extend_from_slice(&[name.len() as u8, text.len() as u8]);
    buf.extend_from_slice(name.as_bytes());
    buf.extend_from_slice(text.as_bytes());
}

/// Packet of an earlier release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierPacket<'a> {
    /// Version of its session, 1 or 2.
    pub version: u8,
    /// Session of the packet.
    pub association: AssociationId,
    /// Contents, as far as this release understands them.
    pub body: EarlierBody<'a>,
}

/// Contents of an earlier release's packet, as far as this release understands them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierBody<'a> {
    /// Question of a receiver whether the session exists.
    Ask(Nonce),
    /// Refusal of an invitation by a receiver.
    Decline {
        /// Name of the receiver.
        name: Name<'a>,
        /// Reason.
        text: Text<'a>,
    },
    /// Invitation, with the sender's name if it is valid.
    Invite(Option<Name<'a>>),
    /// Notice of this release to earlier ones.
    Notice,
    /// Any other packet.
    Other,
}

impl<'a> EarlierPacket<'a> {
    /// Parses a packet of an earlier release; `None` for all other bytes.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[magic, version, protocol, packet_type], rest) = bytes.split_first_chunk()?;
        if magic != MAGIC || protocol != protocol::SESSION || version == 0 || version >= SESSION_VERSION {
            return None;
        }
        let mut reader = Reader::new(rest);
        let association = AssociationId(reader.u32().ok()?);
        // A notice has the reserved protocol name anywhere behind its fixed part.
        let has_notice = || bytes.windows(PROTOCOL.len()).any(|part| part == PROTOCOL.as_bytes());
        let body = match packet_type {
            ASK => reader.nonce().map(EarlierBody::Ask).unwrap_or(EarlierBody::Other),
            DECLINE => decline(&mut reader).unwrap_or(EarlierBody::Other),
            INVITE if has_notice() => EarlierBody::Notice,
            INVITE => EarlierBody::Invite(invite_sender(reader.rest())),
            _ => EarlierBody::Other,
        };
        Some(EarlierPacket { version, association, body })
    }
}

/// Name of the sender of an INVITE. The fixed part had several lengths, but the lengths of the texts behind it stand
/// at the same place in all of them.
fn invite_sender(rest: &[u8]) -> Option<Name<'_>> {
    let (&[_, protocol, sender, reason, _, _, _, _, high, low], _) = rest.split_first_chunk()?;
    let (protocol, sender) = (usize::from(protocol), usize::from(sender));
    let behind = usize::from(u16::from_be_bytes([high, low])) + usize::from(reason);
    let at = rest.len().checked_sub(sender + behind).filter(|at| *at >= protocol)?;
    Name::parse("sender", &rest[at..at + sender]).ok()
}

fn decline<'a>(reader: &mut Reader<'a>) -> Result<EarlierBody<'a>, ParseError> {
    let (name_len, text_len) = (reader.u8()?, reader.u8()?);
    let name = Name::parse("name", reader.bytes(name_len.into())?)?;
    Ok(EarlierBody::Decline { name, text: Text::parse("text", reader.bytes(text_len.into())?)? })
}

const PROTOCOL: &str = "of a newer release of carillon";

const INVITE: u8 = 0x01;
const DECLINE: u8 = 0x0C;
const ASK: u8 = 0x0D;
const ANSWER: u8 = 0x0E;
