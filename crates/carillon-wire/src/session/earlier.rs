//! What is said to, and known of, releases that speak the first version of the session.
//!
//! They take no packet of this version for one of theirs, and would stay silent about it. So they are
//! told in the only words they understand: an invitation to a protocol that they do not know, whose name
//! they print.

use carillon_core::AssociationId;

use super::Name;
use crate::envelope::{MAGIC, protocol};

/// Appends an INVITE of the first version: its receivers say that they do not know the protocol.
pub fn emit_notice(association: AssociationId, sender: Name<'_>, buf: &mut Vec<u8>) {
    buf.extend_from_slice(&[MAGIC, FIRST, protocol::SESSION, 1]);
    buf.extend_from_slice(&association.0.to_be_bytes());
    // State gathering, the lengths of the names and of the reason, max payload, settings length.
    buf.extend_from_slice(&[0, PROTOCOL.len() as u8, sender.len() as u8, 0]);
    buf.extend_from_slice(&[0, 0, 0, 1, 0, 0]);
    buf.extend_from_slice(PROTOCOL.as_bytes());
    buf.extend_from_slice(sender.as_bytes());
}

/// Whether this is a packet of the first version, and not such a notice.
pub fn is_earlier(bytes: &[u8]) -> bool {
    bytes.starts_with(&[MAGIC, FIRST, protocol::SESSION])
        && bytes.get(18..18 + PROTOCOL.len()) != Some(PROTOCOL.as_bytes())
}

const FIRST: u8 = 1;
const PROTOCOL: &str = "of a newer release of carillon";
