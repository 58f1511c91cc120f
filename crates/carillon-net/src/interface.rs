//! Choice of the network interface for a group.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

use crate::OpenError;

/// A network interface as an endpoint uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `lo`.
    pub name: String,
    /// Its number in the system.
    pub index: u32,
    /// Source address of its datagrams.
    pub address: IpAddr,
    /// True for a loopback interface.
    pub loopback: bool,
    /// Broadcast address of the network of its address, if that has one.
    pub broadcast: Option<Ipv4Addr>,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.address)
    }
}

impl Interface {
    /// Returns the interfaces through which an endpoint of this group could reach other hosts, sorted by name.
    pub fn candidates(group: SocketAddr) -> io::Result<Vec<Interface>> {
        let usable = list()?.into_values().filter_map(|one| one.usable(group, None).ok());
        Ok(usable.filter(|interface| !interface.loopback).collect())
    }

    /// Number of the interface with this name in the system, which is the zone of link-local addresses.
    pub fn index_of(name: &str) -> Option<u32> {
        if_nametoindex(name).ok()
    }

    /// Returns the interface with this name or address; without one, the interface of the system's route to the
    /// group. If there is none with multicast, `fallback` decides.
    pub(crate) fn choose(
        group: SocketAddr,
        wanted: Option<&str>,
        fallback: Fallback,
    ) -> Result<(Interface, Choice), OpenError> {
        let all = list().map_err(OpenError::doing("list the network interfaces"))?;
        match wanted {
            Some(wanted) => Ok((Interface::named(group, wanted, &all)?, Choice::Named)),
            None => automatic(group, &all, fallback),
        }
    }

    /// Returns the interface of the route to a host. It need not support multicast.
    pub(crate) fn towards(group: SocketAddr, host: SocketAddr) -> Result<Interface, OpenError> {
        if group.is_ipv4() != host.is_ipv4() {
            return Err(OpenError::OtherFamily { group, host });
        }
        let all = list().map_err(OpenError::doing("list the network interfaces"))?;
        let routed = route(host).and_then(|address| {
            all.values().find(|one| one.addresses.contains(&address)).map(|one| (one, address))
        });
        let (one, address) = routed.ok_or(OpenError::NoPath { host: host.ip() })?;
        let loopback = one.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let broadcast = one.broadcast(address);
        Ok(Interface { name: one.name.clone(), index: one.index, address, loopback, broadcast })
    }

    /// State of the interface: `Ok` if it is up, has its address, and carries datagrams as far as the system knows. The
    /// error is that of the system, or `None` without a carrier.
    pub(crate) fn state(&self) -> Result<(), Option<Errno>> {
        let all = list().map_err(|error| Some(Errno::from_raw(error.raw_os_error().unwrap_or(0))))?;
        let Some(one) = all.values().find(|one| one.index == self.index) else {
            return Err(Some(Errno::ENODEV));
        };
        match (one.flags.contains(InterfaceFlags::IFF_UP), one.addresses.contains(&self.address)) {
            (false, _) => Err(Some(Errno::ENETDOWN)),
            (true, false) => Err(Some(Errno::EADDRNOTAVAIL)),
            (true, true) if !one.flags.contains(InterfaceFlags::IFF_RUNNING) => Err(None),
            (true, true) => Ok(()),
        }
    }

    /// Returns true if the interface still exists with this number and address, and is up.
    pub(crate) fn is_present(&self) -> bool {
        let Ok(all) = list() else { return false };
        all.values().any(|one| {
            one.index == self.index
                && one.flags.contains(InterfaceFlags::IFF_UP)
                && one.addresses.contains(&self.address)
        })
    }

    fn named(
        group: SocketAddr,
        wanted: &str,
        all: &BTreeMap<String, Listed>,
    ) -> Result<Interface, OpenError> {
        if let Some(found) = all.get(wanted) {
            return found.usable(group, None);
        }
        let address = wanted.split('%').next().and_then(|text| text.parse::<IpAddr>().ok());
        let zone = wanted.split_once('%').map(|(_, zone)| zone);
        let found = address.and_then(|address| {
            all.values()
                .find(|one| one.addresses.contains(&address) && zone.is_none_or(|z| z == one.name))
                .map(|one| (one, address))
        });
        match found {
            Some((one, address)) => one.usable(group, Some(address)),
            None => {
                let names: Vec<&str> = all.keys().map(String::as_str).collect();
                Err(OpenError::NoSuchInterface { wanted: wanted.to_owned(), available: names.join(", ") })
            }
        }
    }

    /// Lists the addresses of the interface.
    pub(crate) fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        Ok(list()?.remove(&self.name).map_or_else(Vec::new, |listed| listed.addresses))
    }

    /// The group's address with the zone of this interface, which link-local groups need. The broadcast address of all
    /// networks becomes that of the network of this interface.
    pub(crate) fn zoned(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if v4.ip().is_broadcast() => {
                SocketAddr::new(self.broadcast.unwrap_or(*v4.ip()).into(), v4.port())
            }
            SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, self.index).into(),
            v4 => v4,
        }
    }

    /// The address to bind with this port. Only link-local addresses carry a zone.
    pub(crate) fn bindable(&self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, port, 0, self.index).into(),
            ip => SocketAddr::new(ip, port),
        }
    }

    /// MTU in bytes, from the IPv6 settings, else from the device; if neither is readable 1500, or 16 384 on
    /// loopback.
    pub(crate) fn mtu(&self) -> usize {
        // The entry under /proc belongs to this process's network namespace; the one under /sys belongs to the
        // namespace that mounted it.
        let paths = [
            format!("/proc/sys/net/ipv6/conf/{}/mtu", self.name),
            format!("/sys/class/net/{}/mtu", self.name),
        ];
        let known = paths
            .iter()
            .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<usize>().ok())
            .filter(|mtu| *mtu >= 576);
        known.unwrap_or(if self.loopback { 16_384 } else { 1_500 })
    }
}

/// Way in which an endpoint chose its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The configuration named it, directly or as the zone of the group.
    Named,
    /// The system's route to the group leads there.
    Routed,
    /// No route leads to the group: loopback, which reaches this host only.
    NoRoute,
    /// The route leads to this interface without multicast or to loopback: loopback is used.
    BadRoute(String),
    /// No route leads to the group, and it is the only interface that does multicast and has an address.
    Only,
}

/// Choice if no interface is named and no route leads to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Loopback, which reaches this host only.
    Loopback,
    /// The only interface with multicast and an address. Without one, or with several, opening fails with
    /// [`OpenError::NoNetwork`], which services wait out.
    OnlyInterface,
}

/// Properties of an interface from the system.
#[derive(Debug)]
struct Listed {
    name: String,
    index: u32,
    flags: InterfaceFlags,
    addresses: Vec<IpAddr>,
    /// Own addresses, with the broadcast addresses of their networks.
    broadcasts: Vec<(IpAddr, Ipv4Addr)>,
}

impl Listed {
    fn usable(&self, group: SocketAddr, address: Option<IpAddr>) -> Result<Interface, OpenError> {
        let name = self.name.clone();
        if !self.flags.contains(InterfaceFlags::IFF_UP) {
            return Err(OpenError::InterfaceDown { name });
        }
        if is_broadcast(group) {
            let own = address.or_else(|| self.source(group));
            return match own.and_then(|own| Some((own, self.broadcast(own)?))) {
                Some((address, broadcast)) => Ok(Interface {
                    name,
                    index: self.index,
                    address,
                    loopback: false,
                    broadcast: Some(broadcast),
                }),
                None => Err(OpenError::NoBroadcast { name }),
            };
        }
        // On Linux the loopback interface supports multicast although it does not have the flag.
        if !self.flags.intersects(InterfaceFlags::IFF_MULTICAST | InterfaceFlags::IFF_LOOPBACK) {
            return Err(OpenError::InterfaceWithoutMulticast { name });
        }
        let loopback = self.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let own = address.filter(|a| a.is_ipv4() == group.is_ipv4());
        match own.or_else(|| self.source(group)) {
            Some(address) => {
                let broadcast = self.broadcast(address);
                Ok(Interface { name, index: self.index, address, loopback, broadcast })
            }
            None => {
                let family = if group.is_ipv4() { "IPv4" } else { "IPv6" };
                Err(OpenError::NoAddress { name, family })
            }
        }
    }

    /// Broadcast address of the network of an own address.
    fn broadcast(&self, address: IpAddr) -> Option<Ipv4Addr> {
        self.broadcasts.iter().find(|(own, _)| *own == address).map(|(_, broadcast)| *broadcast)
    }

    /// First address of the group's family, for IPv6 preferably of the group's scope.
    fn source(&self, group: SocketAddr) -> Option<IpAddr> {
        let mut family = self.addresses.iter().copied().filter(|a| a.is_ipv4() == group.is_ipv4());
        let IpAddr::V6(group) = group.ip() else { return family.next() };
        let local = |a: &IpAddr| matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
        let (near, far): (Vec<_>, Vec<_>) = family.partition(local);
        let both = if is_link_scope(group) { [near, far] } else { [far, near] };
        both.concat().first().copied()
    }
}

fn automatic(
    group: SocketAddr,
    all: &BTreeMap<String, Listed>,
    fallback: Fallback,
) -> Result<(Interface, Choice), OpenError> {
    if let SocketAddr::V6(v6) = group
        && v6.scope_id() != 0
    {
        return match all.values().find(|one| one.index == v6.scope_id()) {
            Some(one) => Ok((one.usable(group, None)?, Choice::Named)),
            None => {
                let names: Vec<&str> = all.keys().map(String::as_str).collect();
                let wanted = format!("%{}", v6.scope_id());
                Err(OpenError::NoSuchInterface { wanted, available: names.join(", ") })
            }
        };
    }
    if let SocketAddr::V6(v6) = group
        && is_link_scope(*v6.ip())
    {
        let usable = all.values().filter(|one| one.usable(group, None).is_ok());
        let names: Vec<&str> = usable.map(|one| one.name.as_str()).collect();
        return Err(OpenError::NeedsInterface { group, available: names.join(", ") });
    }
    let routed = route(group).and_then(|address| {
        all.values().find(|one| one.addresses.contains(&address)).map(|one| (one, address))
    });
    if let Some((one, address)) = routed
        && (one.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_MULTICAST) || is_broadcast(group))
    {
        return Ok((one.usable(group, Some(address))?, Choice::Routed));
    }
    if fallback == Fallback::OnlyInterface || is_broadcast(group) {
        let usable = all.values().filter_map(|one| one.usable(group, None).ok());
        let usable: Vec<Interface> = usable.filter(|interface| !interface.loopback).collect();
        return match <[Interface; 1]>::try_from(usable) {
            Ok([interface]) => Ok((interface, Choice::Only)),
            Err(usable) => Err(OpenError::NoNetwork { group, advice: network_advice(group, &usable) }),
        };
    }
    let why = routed.map_or(Choice::NoRoute, |(one, _)| Choice::BadRoute(one.name.clone()));
    match all.values().find(|one| one.flags.contains(InterfaceFlags::IFF_LOOPBACK)) {
        Some(loopback) => Ok((loopback.usable(group, None)?, why)),
        None => Err(OpenError::NoRoute {
            group,
            name: "of any kind".to_owned(),
            advice: "name the interface to use".to_owned(),
        }),
    }
}

/// Advice for an administrator if no route leads to the group and these interfaces are usable.
fn network_advice(group: SocketAddr, usable: &[Interface]) -> String {
    let Some(first) = usable.first() else {
        let family = if group.is_ipv4() { "IPv4" } else { "IPv6" };
        let what = if is_broadcast(group) { "broadcast" } else { "multicast" };
        return format!(
            "no interface other than loopback is up, supports {what} and has an {family} address"
        );
    };
    let names: Vec<&str> = usable.iter().map(|one| one.name.as_str()).collect();
    let six = if group.is_ipv6() { "-6 " } else { "" };
    let (ip, first) = (group.ip(), &first.name);
    format!(
        "choose {} with --interface, or add a route (`ip {six}route add {ip} dev {first}`)",
        names.join(" or ")
    )
}

/// Returns the source address for datagrams to another address. A UDP socket is connected for the route lookup, which
/// sends nothing.
pub(crate) fn route(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    if is_broadcast(to) {
        socket.set_broadcast(true).ok()?;
    }
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn list() -> io::Result<BTreeMap<String, Listed>> {
    let mut all = BTreeMap::new();
    for entry in getifaddrs()? {
        let name = entry.interface_name;
        let one = all.entry(name.clone()).or_insert_with(|| Listed {
            index: if_nametoindex(name.as_str()).unwrap_or(0),
            name,
            flags: entry.flags,
            addresses: Vec::new(),
            broadcasts: Vec::new(),
        });
        let address = entry.address.and_then(|a| {
            let v4 = a.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
            v4.or_else(|| a.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))
        });
        let mask = entry.netmask.and_then(|mask| mask.as_sockaddr_in().map(|mask| mask.ip()));
        if let (Some(IpAddr::V4(own)), Some(mask)) = (address, mask)
            && entry.flags.contains(InterfaceFlags::IFF_BROADCAST)
            && u32::from(mask) < MIN_HOST_MASK
        {
            // The system need not state it.
            one.broadcasts.push((own.into(), Ipv4Addr::from(u32::from(own) | !u32::from(mask))));
        }
        one.addresses.extend(address);
    }
    Ok(all)
}

/// Returns true for an IPv4 address that stands for a group and is none of multicast: that of broadcasts.
pub(crate) fn is_broadcast(group: SocketAddr) -> bool {
    group.is_ipv4() && !group.ip().is_multicast()
}

/// First mask of networks without a broadcast address, those of two hosts (RFC 3021) and of one.
const MIN_HOST_MASK: u32 = 0xffff_fffe;

/// Returns true for groups of interface-local or link-local scope (RFC 4291, section 2.7).
fn is_link_scope(group: Ipv6Addr) -> bool {
    group.octets()[1] & 0x0f <= 2
}
