//! Unicast copies of multicasts at a driver: frames that arrive, asks and answers that leave, and the copies.

use std::net::SocketAddr;

use carillon_core::{Observer, Time};

use super::Inlet;
use super::outlet::Outlet;
use crate::copies::{Outcome, server_of_beacon};
use crate::endpoint::Endpoint;
use crate::numbers::{BranchId, FIRST};
use crate::outbox::Run;

impl Endpoint {
    /// Handles a frame of a receiver that needs copies, or an answer to one. Returns false if it is for the machine,
    /// as at an endpoint that neither asks nor serves and has no key.
    pub(super) fn take_frame(
        &mut self,
        now: Time,
        by: BranchId,
        inlet: Inlet,
        source: SocketAddr,
        bytes: &[u8],
    ) -> bool {
        if inlet == Inlet::Group
            && let Some((token, server)) = server_of_beacon(bytes)
        {
            self.copying.relay.get_or_insert_default().on_beacon(now, token, server);
            self.tell_relay(now, server);
            return true;
        }
        let (server, own) = match by {
            FIRST => (&mut self.copying.server, self.unicast.address),
            _ => match self.branches.get(by) {
                Some(sockets) => (&mut sockets.copies, sockets.unicast.address),
                None => return true,
            },
        };
        match (inlet, server, &mut self.copying.subscription) {
            (Inlet::Copies, _, Some(subscription)) => subscription.on_frame(now, source, bytes),
            (Inlet::Unicast, Some(copies), _) => {
                // Datagrams from port 0 cannot be answered.
                if source.port() != 0 && copies.on_frame(now, source, own, bytes) == Outcome::Refused {
                    self.stats.seal.unsealed += 1;
                    self.stats.seal.unsealed_from = Some(source);
                }
            }
            (_, None, None) if self.seal.is_none() => return false,
            (Inlet::Unicast, None, _) if by == FIRST => self.locate(now, source, bytes),
            _ => self.stats.refused_frames += 1,
        }
        true
    }

    /// Uses the addresses that a sender tells in seals.
    fn locate(&mut self, now: Time, source: SocketAddr, bytes: &[u8]) {
        let (Some(seal), Some(key)) = (self.seal.as_deref_mut(), &self.config.key) else {
            return self.stats.refused_frames += 1;
        };
        let names = match (&mut self.copying.subscription, &mut self.copying.relay) {
            (Some(subscription), _) if subscription.server() == source => subscription.on_located(bytes),
            (_, Some(relay)) if relay.server == Some(source) => relay.on_located(bytes, key),
            _ => return self.stats.refused_frames += 1,
        };
        if let Some(names) = names {
            seal.rename(now, source, names);
        }
    }

    /// Tells a sender that this endpoint is behind its relay. The sender must be a peer already, or something that it
    /// has sealed must have arrived, so that forged frames of relays direct no traffic to others.
    pub(super) fn tell_relay(&mut self, now: Time, sender: SocketAddr) {
        let Some(relay) = self.copying.relay.as_mut().filter(|relay| relay.server == Some(sender)) else {
            return;
        };
        let is_known =
            self.peers.knows(sender) || self.seal.as_ref().is_some_and(|seal| seal.has_heard(sender));
        if !is_known || !relay.tells(now) {
            return;
        }
        let frame = relay.frame(self.config.key.as_ref());
        let by = self.peers.branch_to(sender);
        let socket = match self.branches.get(by) {
            Some(sockets) => &sockets.unicast.socket,
            None => &self.unicast.socket,
        };
        if socket.send_to(&frame, &sender.into()).is_ok() {
            self.stats.datagrams_sent += 1;
            self.stats.bytes_sent += frame.len() as u64;
        }
    }

    /// Counts a datagram of the sender that is asked for copies. Returns false for a datagram at the socket for copies
    /// that is not from the sender.
    pub(super) fn admits(&mut self, now: Time, inlet: Inlet, source: SocketAddr) -> bool {
        let Some(subscription) = &mut self.copying.subscription else { return true };
        let is_sender = source == subscription.server();
        match inlet {
            Inlet::Copies if !is_sender => return false,
            Inlet::Copies => subscription.on_datagram(now, false),
            Inlet::Group if is_sender => subscription.on_datagram(now, true),
            _ => {}
        }
        true
    }
}

impl<O: Observer> Outlet<'_, O> {
    /// Asks the sender for copies, or declines them, when it is time.
    pub(super) fn subscribe(&mut self) {
        let Endpoint { copying, unicast, stats, .. } = &mut *self.endpoint;
        let Some(subscription) = &mut copying.subscription else { return };
        subscription.check(self.now);
        let Some((ask, member)) = subscription.due(self.now) else { return };
        let to = subscription.server().into();
        // A lost ask is repeated. The host may not be reachable yet.
        for (socket, frame) in [(&subscription.port.socket, ask), (&unicast.socket, member)] {
            match socket.send_to(&frame, &to) {
                Ok(_) => {
                    stats.datagrams_sent += 1;
                    stats.bytes_sent += frame.len() as u64;
                }
                Err(_) => stats.send_errors += 1,
            }
        }
    }

    /// Sends the answers to asks for copies.
    pub(super) fn answer(&mut self) {
        while let Some((to, answer)) =
            self.endpoint.copying.server.as_deref_mut().and_then(|copies| copies.next_answer())
        {
            // An answer that the system does not take is lost; the ask will be repeated.
            if self.endpoint.unicast.socket.send_to(&answer, &to.into()).is_ok() {
                self.endpoint.stats.datagrams_sent += 1;
                self.endpoint.stats.bytes_sent += answer.len() as u64;
            }
        }
        let Endpoint { branches, stats, .. } = &mut *self.endpoint;
        for (_, sockets) in branches.live() {
            while let Some((to, answer)) =
                sockets.copies.as_deref_mut().and_then(|copies| copies.next_answer())
            {
                if sockets.unicast.socket.send_to(&answer, &to.into()).is_ok() {
                    stats.datagrams_sent += 1;
                    stats.bytes_sent += answer.len() as u64;
                }
            }
        }
    }

    /// Queues copies of a multicast run for the receivers that need them.
    pub(super) fn copy(&mut self, run: &Run) {
        let header = self.endpoint.header_bytes();
        if let Some(copies) = self.endpoint.copying.server.as_deref_mut()
            && run.way.hops.is_some()
            && !run.way.raw
        {
            copies.offer(self.now, run, header);
        }
    }

    /// Takes the next copy that may leave now.
    pub(super) fn next_copy(&mut self) -> Option<Run> {
        self.endpoint.copying.server.as_deref_mut()?.next_copy(self.now)
    }
}
