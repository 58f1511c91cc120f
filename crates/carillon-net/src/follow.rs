//! Network changes: checks whether the interface and address of an endpoint are still the right ones, moves its
//! sockets, and renews its group membership.
//!
//! The caller invokes [`Endpoint::standing`] now and then (about 50 microseconds, for listing interfaces and a route
//! lookup), and [`Endpoint::reopen`] when the result is [`Standing::Outdated`]. Counters, clock, peers and wakers are
//! kept.
//!
//! An address that still exists is kept, so that a session continues when an interface was removed and created again.
//! With another address the endpoint is a new peer to all others.
//!
//! Not covered: a better address on an interface with a working current address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::endpoint::{Endpoint, subscribe};
use crate::options::enlarge;
use crate::raw::Raw;
use crate::seal::Seal;
use crate::sockets::{mark, max_datagram, open_multicast, open_unicast, seal_group};
use crate::sources::Membership;
use crate::{Choice, Fallback, Interface, OpenError};

/// Result of comparing an endpoint's interface and address with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are the right ones.
    Current,
    /// Others should be used.
    Outdated {
        /// The interface in use is down or gone, or no longer has the address.
        lost: bool,
    },
}

/// Result of [`Endpoint::reopen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reopened {
    /// The endpoint still has its address and port: to the others it is the same peer.
    SameAddress,
    /// The endpoint has another address or port: other members see a new peer.
    OtherAddress,
}

impl Endpoint {
    /// Compares interface and address with those that a new endpoint of this group would get. Fails with the reason
    /// if there are none. Loopback is chosen only by name.
    ///
    /// An endpoint with several interfaces is right as long as one is usable; its driver follows their changes.
    pub fn standing(&self, group: SocketAddr) -> Result<Standing, OpenError> {
        if self.has_live_interface() {
            return Ok(Standing::Current);
        }
        let present = self.interface.is_present();
        let outdated = Standing::Outdated { lost: !present };
        let chosen = self.choose(group);
        let stands_in =
            |choice: &Choice| self.config.fallback == Fallback::Loopback && *choice == Choice::Only;
        match chosen {
            // Without a route the current interface serves as well as any other.
            Ok((_, choice)) if present && stands_in(&choice) => Ok(Standing::Current),
            Ok((interface, _)) => {
                let same = interface.index == self.interface.index && group.is_ipv4() == self.group.is_ipv4();
                Ok(if present && same { Standing::Current } else { outdated })
            }
            // Without a route the current interface serves as well as any other; or it was renamed.
            Err(OpenError::NoNetwork { .. } | OpenError::NoSuchInterface { .. }) if present => {
                Ok(Standing::Current)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves the sockets to the interface and address that a new endpoint of this group would get. After an error the
    /// endpoint is unchanged.
    pub fn reopen(&mut self, group: SocketAddr) -> Result<Reopened, OpenError> {
        let (interface, choice) = self.choose(group)?;
        let group = interface.zoned(group);
        let bound_to_interface = matches!(interface.address, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let same_address = interface.address == self.interface.address
            && group.is_ipv4() == self.group.is_ipv4()
            && (interface.index == self.interface.index || !bound_to_interface);
        let datagram = max_datagram(self.config.from.unwrap_or(group), &interface)?;
        let membership = Membership::new(group, &interface, &self.config.sources);
        let multicast = match &self.multicast {
            Some(_) => Some(open_multicast(&membership)?),
            None => None,
        };
        let unicast = match same_address {
            true => None,
            false => Some(open_unicast(group, self.config.port, self.config.ttl, &interface)?),
        };
        let seal = match (&self.config.key, &unicast) {
            (Some(key), Some(unicast)) => Some(
                Seal::new(key.clone(), unicast.address, seal_group(group))
                    .map(Box::new)
                    .map_err(OpenError::doing("draw a salt"))?,
            ),
            _ => None,
        };
        let subscription = match self.config.from.filter(|_| !same_address) {
            Some(from) => Some(subscribe(from, group, self.config.ttl, &interface, &self.config)?),
            None => None,
        };
        let raw = match self.config.raw {
            Some(ip) => {
                let mut raw = Raw::open(ip, group, self.config.ttl, &interface)?;
                if multicast.is_some() {
                    raw.listen(&membership)?;
                }
                raw.enlarge(self.config.receive_buffer)?;
                Some(Box::new(raw))
            }
            None => None,
        };
        mark(self.config.dscp, group, unicast.as_ref(), subscription.as_deref(), raw.as_deref())?;
        let copied = subscription.as_ref().map(|subscription| &subscription.port);
        for port in unicast.iter().chain(&multicast).chain(copied) {
            self.limits.receive_buffer =
                self.limits.receive_buffer.min(enlarge(&port.socket, self.config.receive_buffer)?);
        }
        if unicast.is_none() {
            // The number of the interface may have changed.
            let set = match interface.address {
                IpAddr::V4(address) => self.unicast.socket.set_multicast_if_v4(&address),
                IpAddr::V6(_) => self.unicast.socket.set_multicast_if_v6(interface.index),
            };
            set.map_err(OpenError::doing(format!("send multicast on {interface}")))?;
        }
        if multicast.is_some() {
            self.multicast = multicast;
        }
        if raw.is_some() {
            self.raw = raw;
        }
        if subscription.is_some() {
            self.copying.subscription = subscription;
        }
        if let Some(unicast) = unicast {
            self.unicast = unicast;
            self.limits.hops = self.config.ttl;
            self.seal = seal;
        }
        self.config.group = group;
        (self.group, self.interface, self.choice, self.limits.max_datagram) =
            (group, interface, choice, datagram.min(self.branches.max_datagram()));
        Ok(if same_address { Reopened::SameAddress } else { Reopened::OtherAddress })
    }

    /// Leaves and joins the group, so that the system reports the membership to the network again and switches learn
    /// it. Does nothing for an endpoint that does not listen.
    pub fn renew_membership(&mut self) -> io::Result<()> {
        // The membership may have ended with its interface.
        let _ = self.leave_group();
        self.rejoin_group()
    }

    /// Leaves the group and keeps the socket, until [`Endpoint::rejoin_group`].
    pub fn leave_group(&mut self) -> io::Result<()> {
        self.branches.change_membership(&self.config, false);
        let Some(port) = &self.multicast else { return Ok(()) };
        self.membership().leave(&port.socket)
    }

    /// Joins the group again after [`Endpoint::leave_group`].
    pub fn rejoin_group(&mut self) -> io::Result<()> {
        self.branches.change_membership(&self.config, true);
        let Some(port) = &self.multicast else { return Ok(()) };
        self.membership().join(&port.socket)
    }

    /// Returns true if other sockets of this host are members of the group on this interface, so that leaving it has
    /// no effect on the network. False if the system does not tell.
    pub fn shares_membership(&self) -> bool {
        let file = if self.group.is_ipv4() { "igmp" } else { "igmp6" };
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let users = match self.group.ip() {
            IpAddr::V4(group) => users_of_v4(&text, self.interface.index, group),
            IpAddr::V6(group) => users_of_v6(&text, self.interface.index, group),
        };
        users > 1
    }

    /// Returns true once after an address of one of several interfaces has been replaced, which other members know.
    pub fn take_moved(&mut self) -> bool {
        self.branches.take_moved()
    }

    fn choose(&self, group: SocketAddr) -> Result<(Interface, Choice), OpenError> {
        if let (Some(from), None) = (self.config.from, &self.config.interface) {
            return Ok((Interface::towards(group, from)?, Choice::Routed));
        }
        Interface::choose(group, self.config.interface.as_deref(), Fallback::OnlyInterface)
    }
}

/// Counts the sockets in an IPv4 group on an interface from `/proc/net/igmp`. A line per interface begins with its
/// number; indented lines follow with the group (bytes reversed) and the number of users.
fn users_of_v4(text: &str, index: u32, group: Ipv4Addr) -> u32 {
    let wanted = format!("{:08X}", u32::from_le_bytes(group.octets()));
    let mut here = false;
    for line in text.lines().skip(1) {
        let mut fields = line.split_ascii_whitespace();
        let Some(first) = fields.next() else { continue };
        if !line.starts_with(char::is_whitespace) {
            here = first.parse() == Ok(index);
        } else if here && first == wanted {
            return fields.next().and_then(|users| users.parse().ok()).unwrap_or(0);
        }
    }
    0
}

/// Counts the sockets in an IPv6 group from `/proc/net/igmp6`: interface number, name, group, number of users.
fn users_of_v6(text: &str, index: u32, group: Ipv6Addr) -> u32 {
    let wanted = format!("{:032x}", u128::from(group));
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let here = fields.next()?.parse() == Ok(index) && fields.nth(1)? == wanted;
        if here { fields.next()?.parse().ok() } else { None }
    };
    text.lines().find_map(of_line).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_users_are_counted_from_the_kernel_tables() {
        let four = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                    1\tlo        :     1      V3\n\t\t\t\t4143FFEF     7 0:00000000\t\t0\n\
                    12\teth0      :     2      V3\n\t\t\t\t4143FFEF     2 0:00000000\t\t0\n\
                    \t\t\t\t010000E0     1 0:00000000\t\t0\n";
        let group = Ipv4Addr::new(239, 255, 67, 65);
        let counts = [1, 12, 2].map(|index| users_of_v4(four, index, group));
        assert_eq!((counts, users_of_v4("", 1, group)), ([7, 2, 0], 0));
        let six = "1    lo              ff020000000000000000000000000001     1 0000000C 0\n\
                   2    eth0            ff150000000000000000000000000077     3 00000004 0\n";
        let group = "ff15::77".parse().expect("an address");
        assert_eq!([1, 2].map(|index| users_of_v6(six, index, group)), [0, 3]);
    }
}
