//! Transport session identifier, addresses and sequence numbers of a PGM session on the wire.

use std::net::{IpAddr, Ipv4Addr};

use carillon_core::{Addresses, AssociationId, Config, ConfigError, DropReason, Events, NodeId};
use carillon_wire::pgm::{Nak, NakList, Packet, Tsi};

/// Transport session identifier (TSI) of a session of Carillon. The global source identifier holds two letters and the
/// association instead of a hash of the host name; the port is derived from the association too.
///
/// No port begins with the first byte of the common envelope, so that packets of the session layer and of PGM cannot
/// be confused.
pub(super) fn tsi(association: AssociationId) -> Tsi {
    let [a, b, c, d] = association.0.to_be_bytes();
    let [mark, name] = SESSION_MARK;
    Tsi { gsi: [mark, name, a, b, c, d], port: FIRST_PORT + (association.0 % PORTS) as u16 }
}

/// Returns true for the TSI of a session of Carillon. Its messages are records of the session, and its source listens
/// on a port of its own.
pub(super) fn is_of_session(other: Tsi) -> bool {
    let [mark @ .., a, b, c, d] = other.gsi;
    mark == SESSION_MARK && other == tsi(AssociationId(u32::from_be_bytes([a, b, c, d])))
}

/// Parses a packet that is addressed to `port` and, if `session` is given, belongs to it. Counts any other datagram
/// as dropped.
pub(super) fn parse<'a>(
    events: &mut Events,
    (session, port): (Option<Tsi>, u16),
    bytes: &'a [u8],
) -> Option<Packet<'a>> {
    let Ok(packet) = Packet::parse(bytes) else {
        events.dropped(DropReason::Malformed);
        return None;
    };
    if session.is_some_and(|tsi| tsi != packet.tsi) || packet.destination_port != port {
        events.dropped(DropReason::Foreign);
        return None;
    }
    Some(packet)
}

/// Data-destination port from the settings. Fails if its first byte equals that of the session's envelope.
pub(super) fn destination_port(settings: &Config) -> Result<u16, ConfigError> {
    let port = settings.count("dport") as u16;
    if port.to_be_bytes()[0] == ENVELOPE {
        return Err(ConfigError::Conflict(format!(
            "dport = {port} conflicts with packets of the session: use a port outside 51712 to 51967"
        )));
    }
    Ok(port)
}

/// Refuses the group's UDP port as data-destination port: ZeroMQ uses one number for both. Its subscribers abort if a
/// message does not begin with an offset as in their framing.
pub(super) fn refuse_zeromq_port(port: u16, addresses: &Addresses) -> Result<(), ConfigError> {
    match addresses.port() == Some(port) {
        true => Err(ConfigError::Conflict(format!(
            "dport = {port} is the UDP port of the group too, where ZeroMQ subscribers would abort: set another dport"
        ))),
        false => Ok(()),
    }
}

/// Address of a node, or the unspecified address if it is unknown.
pub(super) fn address_of(addresses: &Addresses, node: NodeId) -> IpAddr {
    addresses.of_node(node).unwrap_or(Ipv4Addr::UNSPECIFIED.into())
}

/// Resolves the path address of an SPM to a node. Prefers `from` if the address is its own, since several processes
/// may share one address, then the node known at that address. Falls back to `from` where the address names no other
/// node, as it can over UDP.
pub(super) fn node_on_path(addresses: &Addresses, path: IpAddr, from: NodeId, own: NodeId) -> NodeId {
    if addresses.of_node(from) == Some(path) {
        return from;
    }
    addresses.node_at(path).filter(|&node| node != own).unwrap_or(from)
}

/// Sequence numbers that a NAK or NCF names: its own and those of its list.
pub(super) fn numbers(nak: Nak, list: NakList<'_>) -> impl Iterator<Item = u32> {
    std::iter::once(nak.sqn).chain(list.iter())
}

/// Encodes an OPT_NAK_LIST from the sequence numbers after the first, up to the list's capacity.
pub(super) fn list_of(others: impl Iterator<Item = u32>) -> Vec<u8> {
    others.take(NakList::MAX).flat_map(u32::to_be_bytes).collect()
}

/// Returns true if `a` is newer than `b` in serial number arithmetic (RFC 1982, 32 bits).
pub(super) fn is_newer(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// First byte of the session layer's envelope.
pub(super) const ENVELOPE: u8 = 0xca;
/// First bytes of the global source identifier of a session of Carillon.
const SESSION_MARK: [u8; 2] = *b"CL";
const FIRST_PORT: u16 = 20_000;
const PORTS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_session_has_a_port_like_the_envelope() {
        for number in (0..100_000).chain([u32::MAX]) {
            assert!((20_000..30_000).contains(&tsi(AssociationId(number)).port));
        }
        assert_ne!(tsi(AssociationId(1)), tsi(AssociationId(10_001)));
    }

    /// Serial number arithmetic (RFC 1982): half of the number space counts as newer.
    #[test]
    fn newer_compares_in_serial_number_arithmetic() {
        assert!(is_newer(1, 0) && is_newer(0, u32::MAX) && is_newer(0x7fff_ffff, 0));
        assert!(!is_newer(0, 0) && !is_newer(0, 1) && !is_newer(0x8000_0000, 0));
    }
}
