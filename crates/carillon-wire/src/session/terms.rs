//! Digest of the terms of an invitation.

use std::fmt;

use carillon_core::Seeds;

use super::Invite;

/// Digest of the constant part of an INVITE.
///
/// An attacker can forge an INVITE in the sender's name. The sender's unicast packets, which carry the nonce that
/// only receiver and sender know, therefore have the digest of its own INVITE. A receiver with another digest starts
/// over with the genuine one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms(pub u64);

impl Invite<'_> {
    /// Computes the digest of protocol and settings, sender's name, job, sizes of messages and datagrams, and the
    /// relay flag.
    pub fn terms(&self) -> Terms {
        let Invite { max_payload, relays, sizes, protocol, sender, settings, job, .. } = self;
        // Names have no line feeds, so the fields are unambiguous.
        let text = format!("{max_payload} {relays}{sizes}\n{protocol}\n{sender}\n{}\n{job:?}", &**settings);
        Terms(Seeds::new(0).part("session.terms").stream(&text).bits())
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
