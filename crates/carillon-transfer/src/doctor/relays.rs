//! Relays on the network of this machine.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A relay on this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayFinding {
    /// Its address.
    pub address: IpAddr,
    /// The sender from which it gets data.
    pub from: SocketAddr,
}

impl fmt::Display for RelayFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a relay works here: {} multicasts what {} sends, so receivers need no options",
            self.address, self.from
        )
    }
}
