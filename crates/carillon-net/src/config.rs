//! Configuration of an endpoint.

use std::net::{IpAddr, SocketAddr};

use carillon_core::{BitRate, Probability, RawIp, Seeds};

use crate::seal::Key;
use crate::{Dscp, Fallback};

/// Configuration of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The multicast group and its UDP port, IPv4 or IPv6. With the address 255.255.255.255, the broadcasts to this
    /// port on the network of the interface take the place of a group.
    pub group: SocketAddr,
    /// Interface by name or address. `None` selects the interface of the route to the group, or loopback if no route
    /// leads to an interface with multicast.
    pub interface: Option<String>,
    /// Interfaces on which the endpoint sends and receives as well, by name or address. At a service
    /// ([`Fallback::OnlyInterface`]) one of all interfaces must be usable, otherwise each.
    pub further_interfaces: Vec<String>,
    /// Choice if no interface is named and no route leads to the group.
    pub fallback: Fallback,
    /// Hop limit of multicasts.
    pub ttl: u8,
    /// Joins the group and receives its datagrams. A sender that needs only unicast answers does not join.
    pub listen: bool,
    /// Port of the unicast socket; 0 selects a free one. Where a standard names the port, other programs send there.
    pub port: u16,
    /// Share of arriving datagrams that the fault injector drops.
    pub drop: Probability,
    /// Seeds of the fault injector.
    pub seeds: Seeds,
    /// Maximum send rate, IP and UDP headers included.
    pub rate: Option<BitRate>,
    /// Requested receive buffer per socket, in bytes.
    pub receive_buffer: usize,
    /// Key of the group. With it every datagram is sealed, and others are dropped.
    pub key: Option<Key>,
    /// Packets that are sent directly over IP, where permitted; all others use UDP.
    pub raw: Option<RawIp>,
    /// Sender that is asked for unicast copies of its multicasts. Joining the group is optional then.
    pub from: Option<SocketAddr>,
    /// Maximum rate of the copies for receivers that ask for them, headers included; `None` serves none.
    pub copies: Option<BitRate>,
    /// Gives copies to relays without the key too, which cannot read them.
    pub copies_without_key: bool,
    /// Code point of all packets that are sent, for the queues of network devices.
    pub dscp: Option<Dscp>,
    /// Sources of the multicasts that are received (source-specific multicast); empty for all hosts. In a group of
    /// source-specific multicast, `from` is the source if none is named.
    pub sources: Vec<IpAddr>,
}

impl EndpointConfig {
    /// Creates the configuration of a sending endpoint with defaults: interface by route, 16 hops, no faults, no rate
    /// limit, 4 MiB of receive buffer, no key, UDP only.
    pub fn new(group: SocketAddr) -> Self {
        EndpointConfig {
            group,
            interface: None,
            further_interfaces: Vec::new(),
            fallback: Fallback::Loopback,
            ttl: 16,
            listen: false,
            port: 0,
            drop: Probability::ZERO,
            seeds: Seeds::new(0),
            rate: None,
            receive_buffer: 4 << 20,
            key: None,
            raw: None,
            from: None,
            copies: None,
            copies_without_key: false,
            dscp: None,
            sources: Vec::new(),
        }
    }
}
