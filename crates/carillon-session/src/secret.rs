//! Secrets that a member and the sender share.
//!
//! A receiver draws a nonce for each attempt to join, and sends it to the sender alone. Both derive one-way values
//! from it: the proof with which the member announces itself to the group; the identity that names it there, derived
//! from the proof; and the token that replaces the association in its packets to the sender. A node that reads only
//! multicast packets can neither send as this member to the sender, nor send as the sender where the nonce counts.
//! This keeps out blind attackers, and is no cryptographic protection.

use bytes::Bytes;
use carillon_core::{AssociationId, Seeds};
use carillon_wire::Envelope;
use carillon_wire::session::{Identity, Nonce, Proof};

/// Proof that shows the group that the identity belongs to this member.
pub(super) fn proof(nonce: Nonce) -> Proof {
    Proof(Seeds::new(nonce.0).stream("session.proof").bits())
}

/// Identity of the member in the group.
pub(super) fn identity(nonce: Nonce) -> Identity {
    named(proof(nonce))
}

/// Identity that belongs to this proof.
pub(super) fn named(proof: Proof) -> Identity {
    Identity(Seeds::new(proof.0).stream("session.identity").bits())
}

/// Token that marks the member's packets to the sender.
pub(super) fn token(nonce: Nonce) -> AssociationId {
    AssociationId(Seeds::new(nonce.0).stream("session.token").bits() as u32)
}

/// Replaces the association by the token, if the packet has the common envelope.
pub(super) fn seal(association: AssociationId, token: AssociationId, packet: &mut [u8]) {
    replace(association, token, packet);
}

/// Restores a packet with a token. A packet without the common envelope is returned unchanged; `None` if it has the
/// envelope without the token.
pub(super) fn unseal(association: AssociationId, token: AssociationId, packet: &Bytes) -> Option<Bytes> {
    if Envelope::parse(packet).is_err() {
        return Some(packet.clone());
    }
    // The buffer of the datagram is shared, so the token is replaced in a copy.
    let mut copy = packet.to_vec();
    replace(token, association, &mut copy).then(|| copy.into())
}

fn replace(old: AssociationId, new: AssociationId, packet: &mut [u8]) -> bool {
    let found = Envelope::parse(packet).is_ok_and(|(envelope, _)| envelope.association == old);
    // Bytes 4 to 8 of the envelope are the association.
    if found && let Some(field) = packet.get_mut(4..Envelope::LEN) {
        field.copy_from_slice(&new.0.to_be_bytes());
    }
    found
}
