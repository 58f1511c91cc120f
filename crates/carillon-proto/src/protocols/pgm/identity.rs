//! What a session is called on the wire.

use std::net::{IpAddr, Ipv4Addr};

use carillon_core::{Addresses, AssociationId, Config, ConfigError, DropReason, Events, NodeId};
use carillon_wire::pgm::{Nak, NakList, Packet, Tsi};

/// The transport session identifier of a session: its association and two letters in the place of a
/// hash of the source's host name, and a port that no other session is likely to have.
///
/// No port begins with the first byte of the common envelope, so a packet of the session layer cannot
/// be taken for one of this protocol or the other way round.
pub(super) fn tsi(association: AssociationId) -> Tsi {
    let [a, b, c, d] = association.0.to_be_bytes();
    Tsi { gsi: [b'C', b'L', a, b, c, d], port: FIRST_PORT + (association.0 % PORTS) as u16 }
}

/// A packet of this session, or of any if none is given, to this port. What is none is counted.
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

/// The data-destination port.
pub(super) fn destination_port(settings: &Config) -> Result<u16, ConfigError> {
    let port = settings.count("dport") as u16;
    if port.to_be_bytes()[0] == ENVELOPE {
        return Err(ConfigError::Conflict(format!(
            "dport = {port} cannot be told from packets of the session"
        )));
    }
    Ok(port)
}

/// The address of a node; the unspecified one if it is not known.
pub(super) fn address_of(addresses: &Addresses, node: NodeId) -> IpAddr {
    addresses.of_node(node).unwrap_or(Ipv4Addr::UNSPECIFIED.into())
}

/// The node that an SPM names as its path: who sent it if the address is its own, since several
/// processes may share one; else who is known there. Over UDP an address may be nobody's: then requests
/// go back to where the SPM came from.
pub(super) fn node_on_path(addresses: &Addresses, path: IpAddr, from: NodeId, own: NodeId) -> NodeId {
    if addresses.of_node(from) == Some(path) {
        return from;
    }
    addresses.node_at(path).filter(|&node| node != own).unwrap_or(from)
}

/// All packets that a request or its confirmation names.
pub(super) fn numbers(nak: Nak, list: NakList<'_>) -> impl Iterator<Item = u32> {
    std::iter::once(nak.sqn).chain(list.iter())
}

/// The list of what a request names besides its first packet, as far as they fit.
pub(super) fn list_of(others: impl Iterator<Item = u32>) -> Vec<u8> {
    others.take(NakList::MAX).flat_map(u32::to_be_bytes).collect()
}

/// Whether number `a` comes after `b` on the circle of 32-bit numbers (RFC 1982).
pub(super) fn is_newer(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// The first byte of the common envelope.
const ENVELOPE: u8 = 0xca;
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
