//! Padding of control packets to a configured size.

use carillon_core::AssociationId;
use carillon_wire::lms::Packet;

/// Pads a datagram with zeros to `len` bytes.
pub(super) fn pad(buf: &mut Vec<u8>, len: usize) {
    buf.resize(buf.len().max(len), 0);
}

/// Emits a packet, padded to the length of the packet that it replaces.
pub(super) fn padded(association: AssociationId, packet: Packet<'_>, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(packet.wire_len().max(len));
    packet.emit(association, &mut bytes);
    pad(&mut bytes, len);
    bytes
}
