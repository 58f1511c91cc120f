//! Settings that every end of a transfer has: group, interface, name, key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use carillon_core::{BitRate, Probability};
use carillon_net::{Dscp, Key};

use crate::Network;

/// An end of a transfer before it begins. `W` holds the settings of its role: [`Sending`](crate::Sending),
/// [`Receiving`](crate::Receiving) or [`Joining`](crate::Joining). The defaults equal the command's.
#[derive(Debug)]
pub struct End<W> {
    pub(crate) network: Network,
    pub(crate) what: W,
}

impl<W> End<W> {
    pub(crate) fn new(what: W) -> Self {
        End { network: Network::default(), what }
    }

    /// Sets the multicast group and its port. Default: [`DEFAULT_GROUP`](crate::DEFAULT_GROUP).
    #[must_use]
    pub fn group(mut self, group: SocketAddr) -> Self {
        self.network.group = group;
        self
    }

    /// Sends to all hosts of one IPv4 network instead of the group, and receives what is sent so: the last resort where
    /// multicast does not work. The port is that of the group. All ends need the same setting. Call it after
    /// [`group`](End::group).
    #[must_use]
    pub fn broadcast(mut self) -> Self {
        self.network.group = SocketAddr::new(Ipv4Addr::BROADCAST.into(), self.network.group.port());
        self
    }

    /// Sets the interface, by name or address, or several, separated by commas: this end then sends and receives on
    /// each of them. Default: the interface of the route to the group.
    #[must_use]
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.network.interface = Some(interface.into());
        self
    }

    /// Sets the name by which other members know this end. Default: the host name; a joining end appends its process
    /// number if that is taken.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.network.name = Some(name.into());
        self
    }

    /// Drops this share of the arriving datagrams, to simulate loss.
    #[must_use]
    pub fn drop_arriving(mut self, share: Probability) -> Self {
        self.network.drop = share;
        self
    }

    /// Seals every datagram with this key and accepts only datagrams sealed with it ([`Key::read`]). All ends need
    /// the same key. Without one, any host on the network can read the session and take part.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.network.key = Some(key);
        self
    }

    /// Sends XTP packets directly over IP (protocol 36) where the system permits it, otherwise over UDP. All ends
    /// need the same setting.
    #[must_use]
    pub fn raw_ip(mut self) -> Self {
        self.network.raw_ip = true;
        self
    }

    /// Asks the sender at this address for unicast copies of its multicasts, until multicast reaches this receiver. A
    /// sender has the port of its group.
    #[must_use]
    pub fn from_sender(mut self, sender: SocketAddr) -> Self {
        self.network.from = Some(sender);
        self
    }

    /// Sets the maximum rate at which a sender sends copies to receivers that ask for them, headers included; `None`
    /// sends none. Default: 100 Mbit/s.
    #[must_use]
    pub fn unicast_rate(mut self, rate: Option<BitRate>) -> Self {
        self.network.unicast_rate = rate;
        self
    }

    /// Marks everything that this end sends with a code point of differentiated services. Default: none.
    #[must_use]
    pub fn dscp(mut self, dscp: Dscp) -> Self {
        self.network.dscp = Some(dscp);
        self
    }

    /// Receives the multicasts of these hosts only (source-specific multicast, RFC 4607). Default: of all hosts.
    ///
    /// They are the hosts that multicast: senders, with protocols of peers and `srm` all members.
    #[must_use]
    pub fn sources(mut self, sources: impl IntoIterator<Item = IpAddr>) -> Self {
        self.network.sources = sources.into_iter().collect();
        self
    }

    /// Sets the seed of all random choices. Default: a random seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.network.seed = Some(seed);
        self
    }
}
