//! The interfaces of an endpoint that has several: which are up, and what the endpoint does when that changes.

use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::Time;
use nix::errno::Errno;

use crate::Interface;
use crate::branch::{InterfaceChange, Sockets};
use crate::endpoint::Endpoint;
use crate::numbers::{BranchId, FIRST};

impl Endpoint {
    /// The interfaces in use, the first one first.
    pub fn interfaces(&self) -> impl Iterator<Item = &Interface> {
        std::iter::once(&self.interface).chain(self.branches.all().map(|(_, sockets)| &sockets.interface))
    }

    /// Takes the changes of interfaces since the last call, of an endpoint that has several.
    pub fn take_interface_changes(&mut self) -> Vec<InterfaceChange> {
        std::mem::take(&mut self.branches.changes)
    }

    /// Returns true if the endpoint has several interfaces, and one of them can be used.
    pub(crate) fn has_live_interface(&self) -> bool {
        !self.branches.is_empty() && (!self.branches.first_is_down || self.branches.has_live())
    }

    /// Returns true for an address of this endpoint. If it is not that of this interface, then both are on the same
    /// network.
    pub(crate) fn is_own(&mut self, id: BranchId, source: SocketAddr) -> bool {
        let first = (FIRST, self.unicast.address);
        let further = self.branches.all().map(|(id, sockets)| (id, sockets.unicast.address));
        let Some((other, _)) = std::iter::once(first).chain(further).find(|(_, own)| *own == source) else {
            return false;
        };
        if other != id {
            self.note_same_network(id, other);
        }
        true
    }

    /// Reports once that two interfaces are on the same network.
    pub(crate) fn note_same_network(&mut self, one: BranchId, other: BranchId) {
        if !std::mem::replace(&mut self.branches.told_same_network, true) {
            let interfaces = [one.min(other), one.max(other)].map(|id| self.interface_text(id));
            self.branches.note(InterfaceChange::SameNetwork { interfaces });
        }
    }

    fn interface_text(&mut self, id: BranchId) -> String {
        match self.branches.get(id) {
            Some(sockets) => sockets.interface.to_string(),
            None => self.interface.to_string(),
        }
    }

    /// Checks the interfaces of an endpoint that has several, once a second.
    pub(crate) fn check_interfaces(&mut self, now: Time) {
        if self.branches.is_empty() || now < self.branches.check_at {
            return;
        }
        self.branches.check_at = now + CHECK_INTERVAL;
        self.check_first();
        for at in 0..self.branches.further.len() {
            self.check_further(at);
        }
    }

    fn check_first(&mut self) {
        match self.interface.absence() {
            Some(absence) if !self.branches.first_is_down => {
                self.branches.first_is_down = true;
                self.note_lost(FIRST, absence);
            }
            None if self.branches.first_is_down => self.use_first_again(),
            Some(_) if self.interface.is_gone() => self.use_first_again(),
            _ => {}
        }
    }

    /// Uses the first interface again, which may have another address.
    fn use_first_again(&mut self) {
        let before = self.unicast.address;
        if self.reopen(self.config.group).is_ok() && self.interface.absence().is_none() {
            self.branches.first_is_down = false;
            self.branches.moved |= self.unicast.address != before && self.peers.has_kept_on(FIRST);
            self.branches.note(InterfaceChange::Back { interface: self.interface.to_string() });
        }
    }

    fn check_further(&mut self, at: usize) {
        let id = at as BranchId + 1;
        let branch = &mut self.branches.further[at];
        let absence = branch.sockets.as_ref().map(|sockets| sockets.interface.absence());
        let restored = match (absence, branch.is_up) {
            (Some(Some(absence)), true) => {
                branch.is_up = false;
                return self.note_lost(id, absence);
            }
            (Some(None), true) => return,
            // The same address: peers see the same endpoint. The membership may have ended.
            (Some(None), false) => {
                let Some(sockets) = branch.sockets.as_deref_mut() else { return };
                let listens = sockets.multicast.take().is_some();
                !listens || sockets.listen(&self.config).is_ok()
            }
            (None | Some(Some(_)), _) => match Sockets::open(&branch.wanted, &self.config) {
                Ok(sockets) if sockets.interface.absence().is_none() => {
                    self.branches.moved |= branch.sockets.is_some() && self.peers.has_kept_on(id);
                    branch.sockets = Some(Box::new(sockets));
                    true
                }
                _ => false,
            },
        };
        if restored {
            branch.is_up = true;
            let interface = self.interface_text(id);
            self.branches.note(InterfaceChange::Back { interface });
            self.limits.max_datagram = self.limits.max_datagram.min(self.branches.max_datagram());
        }
    }

    fn note_lost(&mut self, id: BranchId, reason: String) {
        let interface = self.interface_text(id);
        let first = (!self.branches.first_is_down).then(|| self.interface.to_string());
        let further = self.branches.further.iter().filter(|branch| branch.is_up);
        let further = further.filter_map(|branch| Some(branch.sockets.as_ref()?.interface.to_string()));
        let left = first.into_iter().chain(further).collect();
        self.branches.note(InterfaceChange::Lost { interface, reason, left });
    }
}

impl Interface {
    /// Reason in the words of the system for which the interface cannot be used at the moment; `None` if it can.
    fn absence(&self) -> Option<String> {
        let state = self.state().err()?;
        Some(match state {
            Some(errno) => errno.desc().to_owned(),
            None => "no carrier".to_owned(),
        })
    }

    /// Returns true if the interface does not have its number or address any more.
    fn is_gone(&self) -> bool {
        matches!(self.state(), Err(Some(Errno::ENODEV | Errno::EADDRNOTAVAIL)))
    }
}

/// Interval at which interfaces are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
