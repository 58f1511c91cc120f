//! Network settings of an end: group, interface, name, key.

use std::net::{IpAddr, SocketAddr};

use carillon_core::{BitRate, Probability, RawIp, Seeds};
use carillon_net::{Dscp, Endpoint, EndpointConfig, Fallback, Interface, Key};
use carillon_proto::REGISTRY;
use carillon_session::MAX_ATTACHED;
use carillon_wire::file::ResumePoint;

use crate::Error;
use crate::limits::ATTACHED_MAX_LEN;

/// Settings of the network that all ends of a transfer share, and the name of this end.
#[derive(Clone, Debug)]
pub struct Network {
    /// The multicast group and its UDP port. The address 255.255.255.255 stands for the broadcasts on the network of
    /// the interface.
    pub group: SocketAddr,
    /// Interface, by name or address, or several, separated by commas: this end then sends and receives on each of
    /// them. Default: the interface of the route to the group, or loopback without a route.
    pub interface: Option<String>,
    /// Name by which other members know this end. Default: the host name, with the process number appended if it is
    /// taken.
    pub name: Option<String>,
    /// Share of the arriving datagrams to drop, to simulate loss.
    pub drop: Probability,
    /// Seed of all random choices; random by default.
    pub seed: Option<u64>,
    /// Key that all ends share. With it everything is sealed and unsealed datagrams are refused. Without one, any
    /// host on the network can read the session and take part.
    pub key: Option<Key>,
    /// Sends XTP packets directly over IP (protocol 36) instead of UDP, where the system permits it. All ends need
    /// the same setting. Session packets use UDP in any case.
    pub raw_ip: bool,
    /// True for a service that waits for its network: it uses loopback only if `interface` names it. Without a route
    /// it uses the only interface with multicast.
    pub service: bool,
    /// Sender that a receiver asks for unicast copies of its multicasts, until multicast reaches the receiver.
    pub from: Option<SocketAddr>,
    /// Maximum rate at which a sender sends copies to receivers that ask for them, headers included. `None` sends
    /// none.
    pub unicast_rate: Option<BitRate>,
    /// A sender with a key also gives copies to relays without the key. They cannot read what they forward.
    pub keyless_relays: bool,
    /// Code point of all packets that this end sends, for the queues of network devices.
    pub dscp: Option<Dscp>,
    /// Sources of the multicasts that this end receives (source-specific multicast); empty for all hosts. In a group of
    /// source-specific multicast, `from` is the source if none is named.
    pub sources: Vec<IpAddr>,
}

/// An open endpoint.
#[derive(Debug)]
pub struct Bound {
    /// The sockets.
    pub endpoint: Endpoint,
    /// Seeds of all random choices.
    pub seeds: Seeds,
    /// The seed, if it was drawn.
    pub drawn: Option<u64>,
}

impl Default for Network {
    fn default() -> Self {
        let group = DEFAULT_GROUP.parse().expect("it is an address with a port");
        Network {
            group,
            interface: None,
            name: None,
            drop: Probability::ZERO,
            seed: None,
            key: None,
            raw_ip: false,
            service: false,
            from: None,
            unicast_rate: Some(DEFAULT_UNICAST_RATE),
            keyless_relays: false,
            dscp: None,
            sources: Vec::new(),
        }
    }
}

impl Network {
    /// Opens the sockets with this hop limit and rate, and joins the group if `listen` is set.
    pub fn open(&self, listen: bool, hops: u8, rate: Option<BitRate>) -> Result<Bound, Error> {
        self.open_at(0, listen, hops, rate)
    }

    /// Opens the sockets of a sender like [`open`](Self::open). The sender uses the port of its group for unicast too,
    /// so that receivers can ask for copies there. If another program uses the port, it takes any.
    pub fn open_sender(&self, listen: bool, hops: u8, rate: Option<BitRate>) -> Result<Bound, Error> {
        match self.unicast_rate {
            None => self.open(listen, hops, rate),
            Some(_) => {
                let port = self.effective_group().port();
                let opened = self.open_with(port, listen, hops, rate, self.unicast_rate);
                opened.or_else(|_| self.open_with(0, listen, hops, rate, self.unicast_rate))
            }
        }
    }

    /// Opens the sockets like [`open`](Self::open), with this port for unicast.
    pub(crate) fn open_at(
        &self,
        port: u16,
        listen: bool,
        hops: u8,
        rate: Option<BitRate>,
    ) -> Result<Bound, Error> {
        self.open_with(port, listen, hops, rate, None)
    }

    fn open_with(
        &self,
        port: u16,
        listen: bool,
        hops: u8,
        rate: Option<BitRate>,
        copies: Option<BitRate>,
    ) -> Result<Bound, Error> {
        let drawn = if self.seed.is_none() { Some(random()?) } else { None };
        let seeds = Seeds::new(self.seed.or(drawn).unwrap_or_default());
        let endpoint = Endpoint::open(EndpointConfig {
            interface: self.interfaces().next().map(str::to_owned),
            further_interfaces: self.interfaces().skip(1).map(str::to_owned).collect(),
            fallback: if self.service { Fallback::OnlyInterface } else { Fallback::Loopback },
            ttl: hops,
            listen,
            port,
            drop: self.drop,
            seeds: seeds.clone(),
            rate,
            key: self.key.clone(),
            raw: self.raw_ip.then(over_ip).flatten(),
            from: self.from,
            copies,
            copies_without_key: self.keyless_relays,
            dscp: self.dscp,
            sources: self.sources.clone(),
            ..EndpointConfig::new(self.effective_group())
        })?;
        Ok(Bound { endpoint, seeds, drawn })
    }

    /// The interfaces that are named.
    fn interfaces(&self) -> impl Iterator<Item = &str> {
        let named = self.interface.as_deref().unwrap_or_default().split(',');
        named.map(str::trim).filter(|name| !name.is_empty())
    }

    /// Returns the group to use now. [`DEFAULT_GROUP`] is replaced by [`DEFAULT_GROUP_V6`] where no candidate
    /// interface has an IPv4 address and one has an IPv6 address, and where the first source, or the sender that is
    /// asked for copies, has an IPv6 address. A service ignores link-local addresses, which an interface has before
    /// any other.
    pub fn effective_group(&self) -> SocketAddr {
        self.group_or(None)
    }

    /// Returns the group to use now, or `so_far` where none is usable at the moment.
    pub(crate) fn group_or(&self, so_far: Option<SocketAddr>) -> SocketAddr {
        let group_of = |text: &str| text.parse::<SocketAddr>().ok();
        let (Some(four), Some(six)) = (group_of(DEFAULT_GROUP), group_of(DEFAULT_GROUP_V6)) else {
            return self.group;
        };
        if self.group != four {
            return self.group;
        }
        if let Some(host) = self.sources.first().copied().or(self.from.map(|from| from.ip())) {
            return if host.is_ipv4() { four } else { six };
        }
        let usable = |group| {
            let mut candidates = Interface::candidates(group).unwrap_or_default().into_iter();
            candidates.any(|one| {
                let link_local = matches!(one.address, IpAddr::V6(ip) if ip.is_unicast_link_local());
                let counts = !(self.service && link_local);
                let mut named = self.interfaces().peekable();
                let is_free = named.peek().is_none();
                counts && (is_free || named.any(|name| name == one.name || name == one.address.to_string()))
            })
        };
        let so_far = so_far.filter(SocketAddr::is_ipv6).map_or(four, |_| six);
        match (usable(four), usable(six)) {
            (true, _) => four,
            (false, true) => six,
            (false, false) => so_far,
        }
    }

    /// The configured name, or the host name.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(host_name)
    }

    /// An alternative name for when this one is taken, usually by another process of this host; `None` if the name
    /// was configured.
    pub fn second_name(&self) -> Option<String> {
        self.name.is_none().then(|| format!("{}-{}", host_name(), std::process::id()))
    }
}

/// Filter for packets sent directly over IP. A receiver opens its sockets before it knows the protocol, so all such
/// protocols share a number.
fn over_ip() -> Option<RawIp> {
    REGISTRY.iter().find_map(|entry| entry.packets.raw_ip)
}

/// Returns 64 random bits from the system.
pub(crate) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|_| Error::Random)
}

/// Builds the attachment of JOIN: the resume point of an earlier attempt, if any, and the program's bytes.
///
/// ```text
/// | 0 | bytes of the program ... |
/// | 1 | transfer, 16 bytes | entry u32 | offset u64 | bytes of the program ... |
/// ```
///
/// # Errors
/// The program's bytes exceed [`ATTACHED_MAX_LEN`].
pub(crate) fn attached(reached: Option<ResumePoint>, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    if bytes.len() > ATTACHED_MAX_LEN {
        return Err(Error::Attached(bytes.len()));
    }
    let mut attached = Vec::new();
    match reached {
        None if bytes.is_empty() => return Ok(attached),
        None => attached.push(0),
        Some(reached) => {
            attached.push(1);
            reached.emit(&mut attached);
        }
    }
    attached.extend_from_slice(bytes);
    Ok(attached)
}

/// Splits an attachment of JOIN into resume point and program bytes. Unknown content counts as program bytes.
pub(crate) fn detached(attached: &[u8]) -> (Option<ResumePoint>, &[u8]) {
    match attached.split_first() {
        Some((0, rest)) => (None, rest),
        Some((1, rest)) if rest.len() >= ResumePoint::LEN => {
            let (reached, rest) = rest.split_at(ResumePoint::LEN);
            (ResumePoint::parse(reached).ok(), rest)
        }
        _ => (None, attached),
    }
}

const _: () = assert!(1 + ResumePoint::LEN + ATTACHED_MAX_LEN <= MAX_ATTACHED);

/// Returns the name of this host.
fn host_name() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    read("/proc/sys/kernel/hostname")
        .or_else(|| read("/etc/hostname"))
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "host".to_owned())
}

/// Default rate of unicast copies, all receivers together: a tenth of the usual link, which leaves the rest to the
/// group.
pub const DEFAULT_UNICAST_RATE: BitRate = BitRate::mbps(100);

/// Default group, from the organization-local scope (RFC 2365); 67 and 65 spell CA.
pub const DEFAULT_GROUP: &str = "239.255.67.65:7654";

/// Default group on hosts without IPv4: a transient site-local group (RFC 4291, section 2.7).
pub const DEFAULT_GROUP_V6: &str = "[ff15::4341]:7654";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_ip_protocols_share_a_protocol_number() {
        let ours = over_ip().map(|ip| ip.protocol);
        let theirs = REGISTRY.iter().filter_map(|entry| entry.packets.raw_ip);
        assert!(theirs.clone().count() > 1 && theirs.clone().all(|ip| Some(ip.protocol) == ours));
    }
}
