//! A relay for a network without a path by multicast from the sender: it asks the sender for unicast copies, and
//! multicasts them on its own network.
//!
//! A copy keeps the sender's address as its source, as in Automatic Multicast Tunneling (RFC 7450). So receivers see an
//! ordinary session, answer the sender by unicast, and seals stay valid: the relay cannot read what it forwards. Where
//! the sender's multicasts arrive on the relay's network without it, the relay sends nothing. If it has a network of
//! its own for the sender, it prefers multicast there.
//!
//! Not covered: networks from which receivers cannot reach the sender by unicast.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use carillon_core::{Time, TokenBucket};
use nix::poll::PollFlags;

use super::packet::{self, Header};
use super::port::{Port, send_packet};
use crate::copies::{Subscription, SubscriptionState, is_frame};
use crate::endpoint::subscribe;
use crate::failures::passes;
use crate::inbox::{Datagram, Inbox};
use crate::options::enlarge;
use crate::sockets::open_multicast;
use crate::sources::{Membership, effective_sources};
use crate::wait::{Deadline, wait};
use crate::{DriveError, EndpointConfig, Fallback, Interface, Key, OpenError};

/// Configuration of a [`RemoteRelay`].
#[derive(Clone, Debug)]
pub struct RemoteRelayConfig {
    /// The multicast group and its UDP port.
    pub group: SocketAddr,
    /// The sender.
    pub from: SocketAddr,
    /// Interface of the relay's own network, by name or address; by default that of the route to the group.
    pub interface: Option<String>,
    /// Key of the group, if the relay has it. Without it the sender has to permit relays without the key.
    pub key: Option<Key>,
    /// Requested receive buffer in bytes.
    pub receive_buffer: usize,
}

/// A relay between a sender by unicast and a network with multicast.
#[derive(Debug)]
pub struct RemoteRelay {
    group: SocketAddr,
    from: SocketAddr,
    near: Port,
    far: Interface,
    subscription: Box<Subscription>,
    /// Receives the sender's multicasts on the network towards the sender.
    heard: Option<crate::port::Port>,
    inbox: Inbox,
    stats: RemoteRelayStats,
    packet: Vec<u8>,
    start: Instant,
    beacons: TokenBucket,
}

/// Counters of a [`RemoteRelay`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteRelayStats {
    /// Datagrams multicast on the relay's network.
    pub forwarded: u64,
    /// Their bytes without headers.
    pub bytes: u64,
    /// Datagrams that are longer than the interface carries.
    pub too_large: u64,
    /// Datagrams lost to temporary errors.
    pub errors: u64,
    /// Datagrams that are not from the sender.
    pub refused: u64,
}

impl RemoteRelay {
    /// Opens the sockets. Requires the privilege for raw sockets.
    pub fn open(config: RemoteRelayConfig) -> Result<Self, OpenError> {
        let (group, from) = (config.group, config.from);
        if !group.ip().is_multicast() {
            return Err(OpenError::NotMulticast { group });
        }
        if group.port() == 0 {
            return Err(OpenError::NoPort { group });
        }
        if matches!(from.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return Err(OpenError::LinkLocalSender { host: from.ip() });
        }
        let (near, _) = Interface::choose(group, config.interface.as_deref(), Fallback::OnlyInterface)?;
        let far = Interface::towards(group, from)?;
        let settings = EndpointConfig { key: config.key, ..EndpointConfig::new(group) };
        let subscription = subscribe(from, group, 1, &far, &settings)?;
        enlarge(&subscription.port.socket, config.receive_buffer)?;
        // The network towards the sender need not have multicast.
        let sources = effective_sources(group, &[], Some(from))?;
        let heard = open_multicast(&Membership::new(group, &far, &sources)).ok();
        if let Some(heard) = &heard {
            enlarge(&heard.socket, config.receive_buffer)?;
        }
        let near = Port::open(near)?;
        if near.interface().index != far.index {
            // Receivers on this host take part as well. On a single network the relay would mistake its own
            // multicasts for the sender's.
            near.loop_back(true).map_err(OpenError::doing("turn multicast loopback on"))?;
        }
        Ok(RemoteRelay {
            group: near.interface().zoned(group),
            from,
            near,
            far,
            subscription,
            heard,
            inbox: Inbox::new(),
            stats: RemoteRelayStats::default(),
            packet: Vec::new(),
            start: Instant::now(),
            beacons: TokenBucket::default(),
        })
    }

    /// Waits at most `max_wait` for datagrams of the sender, and forwards one batch of each path.
    pub fn step(&mut self, max_wait: Duration) -> Result<(), DriveError> {
        let now = self.now();
        self.subscription.check(now);
        if let Some((ask, _)) = self.subscription.due(now) {
            // A lost ask is repeated.
            let _ = self.subscription.port.socket.send_to(&ask, &self.from.into());
        }
        if self.forwards() && self.beacons.ready_at(now).is_none() {
            self.beacons.pause(now, BEACON_INTERVAL);
            let beacon = self.subscription.beacon();
            // Doctors show the source. Receivers that have named the sender as the source hear nothing else.
            let own = SocketAddr::new(self.near.address(), self.group.port());
            for source in [own, self.from] {
                self.multicast(source, &beacon);
            }
        }
        let until = self.subscription.next(now).since(now).min(max_wait);
        let copies = (self.subscription.port.fd(), PollFlags::POLLIN);
        let heard = self.heard.as_ref().map_or(copies, |port| (port.fd(), PollFlags::POLLIN));
        let deadline = Deadline { at: Instant::now() + until, precise: false };
        let [copies, heard] = wait([copies, heard], deadline).map_err(DriveError::Wait)?;
        if copies {
            self.receive(false)?;
        }
        if heard {
            self.receive(true)?;
        }
        Ok(())
    }

    /// State of the subscription.
    pub fn state(&self) -> SubscriptionState {
        self.subscription.state()
    }

    /// Counters.
    pub fn stats(&self) -> RemoteRelayStats {
        self.stats
    }

    /// Interface of the relay's own network.
    pub fn near(&self) -> &Interface {
        self.near.interface()
    }

    /// Interface towards the sender.
    pub fn far(&self) -> &Interface {
        &self.far
    }

    /// Returns true if both interfaces still exist with their addresses and are up.
    pub fn is_current(&self) -> bool {
        self.near.interface().is_present() && self.far.is_present()
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Returns true if the relay multicasts what it gets: not where the sender's multicasts arrive by themselves.
    fn forwards(&self) -> bool {
        self.near.interface().index != self.far.index || self.subscription.state().unicast
    }

    fn receive(&mut self, multicast: bool) -> Result<(), DriveError> {
        let port = match (multicast, &self.heard) {
            (true, Some(heard)) => heard,
            _ => &self.subscription.port,
        };
        match self.inbox.fill(&port.socket, &port.state, multicast) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if passes(&error) => {
                self.stats.errors += 1;
                return Ok(());
            }
            Err(source) => return Err(DriveError::Receive { address: port.address, source }),
        }
        let now = self.now();
        while let Some(Datagram { source, content, .. }) = self.inbox.take(None) {
            let Ok(Some(bytes)) = content else { continue };
            if source != self.from {
                self.stats.refused += u64::from(!multicast);
                continue;
            }
            if is_frame(&bytes) {
                if !multicast {
                    self.subscription.on_frame(now, source, &bytes);
                }
                continue;
            }
            self.subscription.on_datagram(now, multicast);
            let is_local = multicast && self.near.interface().index == self.far.index;
            if self.forwards() && !is_local {
                self.multicast(self.from, &bytes);
            }
        }
        Ok(())
    }

    /// Multicasts a datagram on the relay's network, in the name of this source.
    fn multicast(&mut self, source: SocketAddr, bytes: &[u8]) {
        let header = Header { source, destination: self.group, ttl: 1 };
        if !packet::write(header, bytes, &mut self.packet) {
            self.stats.too_large += 1;
            return;
        }
        match send_packet(&self.near, &self.packet, self.group) {
            Ok(()) => {
                self.stats.forwarded += 1;
                self.stats.bytes += bytes.len() as u64;
            }
            Err(error) if error.raw_os_error() == Some(nix::libc::EMSGSIZE) => self.stats.too_large += 1,
            // A full queue drops a datagram, as in any router.
            Err(_) => self.stats.errors += 1,
        }
    }
}

/// Interval of the frames by which receivers learn of the relay.
const BEACON_INTERVAL: Duration = Duration::from_millis(500);
