//! Digest of the terms of an invitation.

use std::fmt;

/// Digest of the constant part of an INVITE.
///
/// An attacker can forge an INVITE in the sender's name. The sender's unicast packets, which carry the nonce that
/// only receiver and sender know, therefore have the digest of its own INVITE. A receiver with another digest starts
/// over with the genuine one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms(pub u64);

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
