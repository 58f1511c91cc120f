//! Names of endpoints in seals.

/// Identifier of an endpoint until it restarts.
pub(super) type Salt = [u8; 12];

/// An authenticated address with port: 16 bytes in the form of IPv6, then the port.
pub(super) type Place = [u8; 18];

/// An endpoint at its source address, because any holder of the key could use another endpoint's salt.
pub(super) type Peer = (Salt, Place);
