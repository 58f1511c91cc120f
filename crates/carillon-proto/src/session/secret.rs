//! What a member and the sender know of each other and nobody else does.
//!
//! The receiver draws a nonce for each attempt to join, and sends it to the sender alone. From it both
//! derive, one way, the proof by which the member makes itself heard in the group, the identity that names it
//! there, which is derived from the proof, and the token that
//! stands in place of the association in what the member sends to the sender through the protocol. Who
//! knows only what goes to the group can neither speak to the sender as this member, nor to this member
//! as the sender where the nonce counts.

use bytes::Bytes;
use carillon_core::{AssociationId, Seeds};
use carillon_wire::Envelope;
use carillon_wire::session::{Identity, Nonce, Proof};

/// By what the member shows the group that its identity is its own.
pub(super) fn proof(nonce: Nonce) -> Proof {
    Proof(Seeds::new(nonce.0).stream("session.proof").bits())
}

/// What names the member in the group.
pub(super) fn identity(nonce: Nonce) -> Identity {
    named(proof(nonce))
}

/// What names whoever has this proof.
pub(super) fn named(proof: Proof) -> Identity {
    Identity(Seeds::new(proof.0).stream("session.identity").bits())
}

/// What marks the member's packets to the sender.
pub(super) fn token(nonce: Nonce) -> AssociationId {
    AssociationId(Seeds::new(nonce.0).stream("session.token").bits() as u32)
}

/// Puts the token in place of the association, if the packet has the common envelope.
pub(super) fn seal(association: AssociationId, token: AssociationId, packet: &mut [u8]) {
    replace(association, token, packet);
}

/// The packet as it was before it was sealed. A packet without the common envelope is no different; `None`
/// if it has one without the token.
pub(super) fn unseal(association: AssociationId, token: AssociationId, packet: &Bytes) -> Option<Bytes> {
    if Envelope::parse(packet).is_err() {
        return Some(packet.clone());
    }
    let mut copy = packet.to_vec();
    replace(token, association, &mut copy).then(|| copy.into())
}

fn replace(old: AssociationId, new: AssociationId, packet: &mut [u8]) -> bool {
    let found = Envelope::parse(packet).is_ok_and(|(envelope, _)| envelope.association == old);
    if found && let Some(field) = packet.get_mut(4..Envelope::LEN) {
        field.copy_from_slice(&new.0.to_be_bytes());
    }
    found
}
