//! An end of a transfer before it begins: where it is, and what it does there.

use std::net::SocketAddr;

use carillon_core::Probability;
use carillon_net::Key;

use crate::Network;

/// An end of a transfer, `W` being what it does: [`Sending`](crate::Sending), [`Receiving`](crate::Receiving) or
/// [`Joining`](crate::Joining). The defaults are those of the command.
#[derive(Debug)]
pub struct End<W> {
    pub(crate) network: Network,
    pub(crate) what: W,
}

impl<W> End<W> {
    pub(crate) fn new(what: W) -> Self {
        End { network: Network::default(), what }
    }

    /// The multicast group and its port. Without one: [`DEFAULT_GROUP`](crate::DEFAULT_GROUP).
    #[must_use]
    pub fn group(mut self, group: SocketAddr) -> Self {
        self.network.group = group;
        self
    }

    /// The interface, by name or address. Without one: that which the route to the group leads to.
    #[must_use]
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.network.interface = Some(interface.into());
        self
    }

    /// By what name the others know this end. Without one: the host's, with the number of the process if it joins and
    /// that is taken.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.network.name = Some(name.into());
        self
    }

    /// This share of the datagrams that arrive here is dropped, as if the network had lost them.
    #[must_use]
    pub fn drop_arriving(mut self, share: Probability) -> Self {
        self.network.drop = share;
        self
    }

    /// Seals everything that is sent with this key, and takes only what is sealed with it: all ends need the same
    /// ([`Key::read`]). Without one the session is open: anybody on the network can read it and take part.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.network.key = Some(key);
        self
    }

    /// Has XTP's packets go right over IP, as protocol 36, where the system permits it; all ends need it. Without it they go over UDP.
    #[must_use]
    pub fn raw_ip(mut self) -> Self {
        self.network.raw_ip = true;
        self
    }

    /// What all random choices are made from. Without one it is drawn.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.network.seed = Some(seed);
        self
    }
}
