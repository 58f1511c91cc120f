//! Identifiers of a session on the wire.

use carillon_core::{AssociationId, BuildContext, DropReason, Events, SourceKey};
use carillon_wire::norm::{Packet, SenderState};

/// Identifier of the sender: the association, which all members know. RFC 5740 reserves 0 and 2^32 - 1.
pub(super) fn sender_id(association: AssociationId) -> u32 {
    association.0.clamp(1, u32::MAX - 1)
}

/// Identifier of a receiver.
pub(super) fn receiver_id(build: &BuildContext) -> u32 {
    (build.identities.own(build.node) as u32).wrapping_add(1).clamp(1, u32::MAX - 1)
}

/// Instance of the sender: the association, folded to 16 bits.
pub(super) fn instance(association: AssociationId) -> u16 {
    (association.0 ^ association.0 >> 16) as u16
}

/// Source with this identifier and state.
pub(super) fn source_key(source: u32, sender: SenderState) -> SourceKey {
    SourceKey(u64::from(source) << 16 | u64::from(sender.instance))
}

/// Parses a packet, and counts any other datagram as dropped.
pub(super) fn parse<'a>(events: &mut Events, bytes: &'a [u8]) -> Option<Packet<'a>> {
    let packet = Packet::parse(bytes);
    if packet.is_err() {
        events.dropped(DropReason::Malformed);
    }
    packet.ok()
}

/// Full number of a block from the 24 bits of its packets, nearest to the expected one.
pub(super) fn expand_block(truncated: u32, expected: u64) -> u64 {
    carillon_core::expand(u64::from(truncated) % BLOCKS, BLOCKS, expected)
}

/// The 24 bits of a block in packets.
pub(super) fn truncate_block(block: u64) -> u32 {
    (block % BLOCKS) as u32
}

const BLOCKS: u64 = 1 << 24;
