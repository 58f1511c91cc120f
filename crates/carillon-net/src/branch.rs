//! Further interfaces of an endpoint.
//!
//! An endpoint with several interfaces sends each multicast on all of them, and joins the group on each. Each interface
//! has sockets of its own, because hosts of its network can answer its address only. With a key it has a seal of its
//! own, because seals contain the address. The machine sees one endpoint: a peer is reached by the interface by which
//! its datagrams arrive ([`Peers::admit`](crate::peers::Peers::admit)), and multicasts that arrive by another one as
//! well are dropped.
//!
//! The driver checks all interfaces once a second. It sends nothing on one that is down, and goes on with the others.
//!
//! Not covered: a peer with several addresses, which counts as several peers.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use carillon_core::Time;

use crate::config::EndpointConfig;
use crate::copies::CopyServer;
use crate::numbers::BranchId;
use crate::options::{enlarge, set_hops};
use crate::outbox::Outbox;
use crate::port::Port;
use crate::seal::Seal;
use crate::sockets::{mark, max_datagram, new_server, open_multicast, open_unicast, seal_group};
use crate::sources::Membership;
use crate::{Fallback, Interface, OpenError};

/// Further interfaces of an endpoint, and what happened to all of them.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    pub(crate) further: Vec<Branch>,
    /// True if the first interface is down.
    pub(crate) first_is_down: bool,
    /// Time of the next check.
    pub(crate) check_at: Time,
    pub(crate) changes: Vec<InterfaceChange>,
    pub(crate) told_same_network: bool,
    /// A peer was reached by an address that is gone.
    pub(crate) moved: bool,
}

/// A further interface, as it is named in the configuration.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) wanted: String,
    /// `None` before the interface was usable for the first time.
    pub(crate) sockets: Option<Box<Sockets>>,
    pub(crate) is_up: bool,
}

/// Sockets on a further interface.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) interface: Interface,
    /// The group with the zone of the interface.
    pub(crate) group: SocketAddr,
    pub(crate) unicast: Port,
    pub(crate) multicast: Option<Port>,
    pub(crate) seal: Option<Box<Seal>>,
    /// Receivers that get copies by this interface.
    pub(crate) copies: Option<Box<CopyServer>>,
    pub(crate) outbox: Outbox,
    /// Current hop limit of the sending socket.
    hops: u8,
    max_datagram: usize,
    receive_buffer: usize,
    /// The system accepts no more at the moment; retry at this time.
    pub(crate) retry: Option<Time>,
    /// Time since which the system accepts nothing.
    pub(crate) stuck: Option<Time>,
}

/// A change of one of the interfaces of an endpoint that has several.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterfaceChange {
    /// The interface cannot be used at the moment. The endpoint goes on with the others.
    Lost {
        /// Name and address of the interface.
        interface: String,
        /// Reason in the words of the system.
        reason: String,
        /// The interfaces that are left.
        left: Vec<String>,
    },
    /// The interface is used again.
    Back {
        /// Name and address of the interface.
        interface: String,
    },
    /// Two interfaces are on the same network, so all hosts there receive every datagram twice.
    SameNetwork {
        /// Names and addresses of the interfaces.
        interfaces: [String; 2],
    },
}

impl InterfaceChange {
    /// Name of the change in reports: `lost`, `back` or `same-network`.
    pub fn name(&self) -> &'static str {
        match self {
            InterfaceChange::Lost { .. } => "lost",
            InterfaceChange::Back { .. } => "back",
            InterfaceChange::SameNetwork { .. } => "same-network",
        }
    }
}

impl fmt::Display for InterfaceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterfaceChange::Lost { interface, reason, left } if left.is_empty() => {
                write!(f, "{interface}: {reason}; no other interface is left")
            }
            InterfaceChange::Lost { interface, reason, left } => {
                write!(f, "{interface}: {reason}; going on with {}", left.join(", "))
            }
            InterfaceChange::Back { interface } => write!(f, "{interface} is up again"),
            InterfaceChange::SameNetwork { interfaces: [one, other] } => write!(
                f,
                "{one} and {other} are on the same network, which carries every datagram twice: leave out one of them"
            ),
        }
    }
}

impl Branch {
    fn open(wanted: &str, config: &EndpointConfig) -> Result<Branch, OpenError> {
        let sockets = Some(Box::new(Sockets::open(wanted, config)?));
        Ok(Branch { wanted: wanted.to_owned(), sockets, is_up: true })
    }

    fn absent(wanted: &str) -> Branch {
        Branch { wanted: wanted.to_owned(), sockets: None, is_up: false }
    }

    /// Its sockets, if datagrams can leave there.
    pub(crate) fn live(&mut self) -> Option<&mut Sockets> {
        if self.is_up { self.sockets.as_deref_mut() } else { None }
    }
}

impl Sockets {
    pub(crate) fn open(wanted: &str, config: &EndpointConfig) -> Result<Sockets, OpenError> {
        let (interface, _) = Interface::choose(config.group, Some(wanted), config.fallback)?;
        let group = interface.zoned(config.group);
        let unicast = open_unicast(group, config.port, config.ttl, &interface)?;
        let max_datagram = max_datagram(group, &interface)?;
        let seal =
            config.key.clone().map(|key| Seal::new(key, unicast.address, seal_group(group)).map(Box::new));
        let seal = seal.transpose().map_err(OpenError::doing("draw a salt"))?;
        let copies = config.copies.map(|rate| new_server(rate, config)).transpose()?;
        mark(config.dscp, group, Some(&unicast), None, None)?;
        let receive_buffer = enlarge(&unicast.socket, config.receive_buffer)?;
        let mut sockets = Sockets {
            interface,
            group,
            unicast,
            multicast: None,
            seal,
            copies,
            outbox: Outbox::default(),
            hops: config.ttl,
            max_datagram,
            receive_buffer,
            retry: None,
            stuck: None,
        };
        if config.listen {
            sockets.listen(config)?;
        }
        Ok(sockets)
    }

    /// Joins the group, with a new socket.
    pub(crate) fn listen(&mut self, config: &EndpointConfig) -> Result<(), OpenError> {
        let port = open_multicast(&Membership::new(self.group, &self.interface, &config.sources))?;
        self.receive_buffer = self.receive_buffer.min(enlarge(&port.socket, config.receive_buffer)?);
        self.multicast = Some(port);
        Ok(())
    }

    /// Sets the hop limit of the following multicasts.
    pub(crate) fn set_hops(&mut self, hops: u8) -> io::Result<()> {
        if self.hops != hops {
            set_hops(&self.unicast.socket, self.group, hops)?;
            self.hops = hops;
        }
        Ok(())
    }
}

impl Branches {
    /// Opens the sockets on the further interfaces. All must be usable, except at a service, which waits for them.
    pub(crate) fn open(first: &Interface, config: &EndpointConfig) -> Result<Branches, OpenError> {
        let mut branches = Branches::default();
        let mut taken = vec![first.index];
        for wanted in &config.further_interfaces {
            let chosen = Interface::choose(config.group, Some(wanted), config.fallback);
            if chosen.is_ok_and(|(interface, _)| taken.contains(&interface.index)) {
                continue;
            }
            let branch = match Branch::open(wanted, config) {
                Ok(branch) => branch,
                Err(error) if config.fallback == Fallback::OnlyInterface && error.is_absent_network() => {
                    branches.changes.push(InterfaceChange::Lost {
                        interface: wanted.clone(),
                        reason: error.to_string(),
                        left: vec![first.to_string()],
                    });
                    Branch::absent(wanted)
                }
                Err(error) => return Err(error),
            };
            let index = branch.sockets.as_ref().map(|sockets| sockets.interface.index);
            taken.extend(index);
            let interface = branch.sockets.as_ref().map(|sockets| &sockets.interface);
            if let Some(interfaces) = interface.and_then(|one| branches.on_network_of(one, first)) {
                branches.told_same_network = true;
                branches.changes.push(InterfaceChange::SameNetwork { interfaces });
            }
            branches.further.push(branch);
        }
        if branches.further.len() >= MAX_INTERFACES {
            return Err(OpenError::TooManyInterfaces { count: taken.len(), limit: MAX_INTERFACES });
        }
        Ok(branches)
    }

    /// Names of this interface and of another one with the same IPv4 network.
    fn on_network_of(&self, one: &Interface, first: &Interface) -> Option<[String; 2]> {
        let mut others = std::iter::once(first).chain(self.all().map(|(_, sockets)| &sockets.interface));
        let same = |other: &&Interface| one.broadcast.is_some() && other.broadcast == one.broadcast;
        others.find(same).map(|other| [other, one].map(ToString::to_string))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.further.is_empty()
    }

    /// The interfaces that have sockets, with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (BranchId, &Sockets)> {
        let all = (1..).zip(&self.further);
        all.filter_map(|(id, branch)| Some((id, branch.sockets.as_deref()?)))
    }

    /// The interfaces on which datagrams can leave, with their numbers.
    pub(crate) fn live(&mut self) -> impl Iterator<Item = (BranchId, &mut Sockets)> {
        (1..).zip(&mut self.further).filter_map(|(id, branch)| Some((id, branch.live()?)))
    }

    /// Sockets of a further interface.
    pub(crate) fn get(&mut self, id: BranchId) -> Option<&mut Sockets> {
        self.further.get_mut(usize::from(id).checked_sub(1)?)?.sockets.as_deref_mut()
    }

    pub(crate) fn max_datagram(&self) -> usize {
        self.all().map(|(_, sockets)| sockets.max_datagram).min().unwrap_or(usize::MAX)
    }

    pub(crate) fn receive_buffer(&self) -> usize {
        self.all().map(|(_, sockets)| sockets.receive_buffer).min().unwrap_or(usize::MAX)
    }

    /// Time of the next check; `None` for an endpoint with one interface.
    pub(crate) fn check_at(&self) -> Option<Time> {
        (!self.is_empty()).then_some(self.check_at)
    }

    /// Joins the group on each interface that has not joined it.
    pub(crate) fn listen(&mut self, config: &EndpointConfig) -> Result<(), OpenError> {
        let sockets = self.further.iter_mut().filter_map(|branch| branch.sockets.as_deref_mut());
        sockets.filter(|sockets| sockets.multicast.is_none()).try_for_each(|sockets| sockets.listen(config))
    }

    pub(crate) fn stop_listening(&mut self) {
        let sockets = self.further.iter_mut().filter_map(|branch| branch.sockets.as_deref_mut());
        sockets.for_each(|sockets| sockets.multicast = None);
    }

    /// Leaves or joins the group on each interface and keeps the sockets.
    pub(crate) fn change_membership(&self, config: &EndpointConfig, is_member: bool) {
        for (_, sockets) in self.all() {
            let membership = Membership::new(sockets.group, &sockets.interface, &config.sources);
            if let Some(port) = &sockets.multicast {
                // An interface that is gone has no membership; the next check finds that out.
                let _ =
                    if is_member { membership.join(&port.socket) } else { membership.leave(&port.socket) };
            }
        }
    }

    /// Returns true once after an address that kept peers know has been replaced.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Keeps a change for [`Endpoint::take_interface_changes`], unless too many wait there.
    pub(crate) fn note(&mut self, change: InterfaceChange) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(change);
        }
    }

    pub(crate) fn has_live(&self) -> bool {
        self.further.iter().any(|branch| branch.is_up)
    }
}

/// Maximum number of changes that wait to be taken.
const MAX_CHANGES: usize = 64;

/// Maximum number of interfaces of an endpoint.
const MAX_INTERFACES: usize = 16;
