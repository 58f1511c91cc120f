//! Unicast copies of multicasts at a driver: frames that arrive, asks and answers that leave, and the copies.

use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::{Observer, Time};

use super::Inlet;
use super::outlet::Outlet;
use crate::copies::{Outcome, behind, server_of_beacon};
use crate::endpoint::Endpoint;
use crate::outbox::Run;

impl Endpoint {
    /// Handles a frame of a receiver that needs copies, or an answer to one. Returns false if it is for the machine,
    /// as at an endpoint that neither asks nor serves and has no key.
    pub(super) fn take_frame(&mut self, now: Time, inlet: Inlet, source: SocketAddr, bytes: &[u8]) -> bool {
        if inlet == Inlet::Group
            && let Some((token, server)) = server_of_beacon(bytes)
        {
            self.relay.get_or_insert_default().on_beacon(now, token, server);
            self.tell_relay(now, server);
            return true;
        }
        match (inlet, &mut self.copies, &mut self.subscription) {
            (Inlet::Copies, _, Some(subscription)) => subscription.on_frame(now, source, bytes),
            (Inlet::Unicast, Some(copies), _) => {
                // Datagrams from port 0 cannot be answered.
                if source.port() != 0 && copies.on_frame(now, source, bytes) == Outcome::Refused {
                    self.stats.unsealed += 1;
                    self.stats.unsealed_from = Some(source);
                }
            }
            (_, None, None) if self.seal.is_none() => return false,
            _ => self.stats.refused_frames += 1,
        }
        true
    }

    /// Tells a sender that this endpoint is behind its relay. The sender must be a peer already, so that forged frames
    /// of relays direct no traffic to others.
    pub(super) fn tell_relay(&mut self, now: Time, sender: SocketAddr) {
        let Some(relay) = self.relay.as_mut().filter(|relay| relay.server == Some(sender)) else { return };
        if !self.peers.knows(sender) || !relay.tells(now) {
            return;
        }
        let frame = behind(relay.token, self.config.key.as_ref());
        if self.unicast.socket.send_to(&frame, &sender.into()).is_ok() {
            self.stats.datagrams_sent += 1;
            self.stats.bytes_sent += frame.len() as u64;
        }
    }

    /// Counts a datagram of the sender that is asked for copies. Returns false for a datagram at the socket for copies
    /// that is not from the sender.
    pub(super) fn admits(&mut self, now: Time, inlet: Inlet, source: SocketAddr) -> bool {
        let Some(subscription) = &mut self.subscription else { return true };
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
        let Endpoint { subscription: Some(subscription), unicast, stats, .. } = &mut *self.endpoint else {
            return;
        };
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
            self.endpoint.copies.as_deref_mut().and_then(|copies| copies.next_answer())
        {
            // An answer that the system does not take is lost; the ask will be repeated.
            if self.endpoint.unicast.socket.send_to(&answer, &to.into()).is_ok() {
                self.endpoint.stats.datagrams_sent += 1;
                self.endpoint.stats.bytes_sent += answer.len() as u64;
            }
        }
    }

    /// Queues copies of a multicast run for the receivers that need them.
    pub(super) fn copy(&mut self, run: &Run) {
        let header = self.endpoint.header_bytes();
        if let Some(copies) = self.endpoint.copies.as_deref_mut()
            && run.way.hops.is_some()
            && !run.way.raw
        {
            copies.offer(self.now, run, header);
        }
    }

    /// Takes the next copy that may leave now.
    pub(super) fn next_copy(&mut self) -> Option<Run> {
        self.endpoint.copies.as_deref_mut()?.next_copy(self.now)
    }
}

/// Relay that forwards a sender's multicasts to this endpoint, and what the sender was told of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NearRelay {
    token: u64,
    /// Sender that the last beacon named, and the time of that beacon.
    server: Option<SocketAddr>,
    heard_at: Time,
    /// Number of frames since the relay or its sender changed, and the time of the last one.
    told: u32,
    told_at: Option<Time>,
}

impl NearRelay {
    fn on_beacon(&mut self, now: Time, token: u64, server: SocketAddr) {
        self.heard_at = now;
        if (self.token, self.server) != (token, Some(server)) {
            (self.token, self.server, self.told) = (token, Some(server), 0);
        }
    }

    /// Returns true if a frame to the sender is due, which is then counted. The first ones follow each other sooner:
    /// the relay itself may still be unknown to a new sender, and frames are lost.
    fn tells(&mut self, now: Time) -> bool {
        let interval = (FIRST_BEHIND_INTERVAL * (1 << self.told.min(10))).min(BEHIND_INTERVAL);
        let is_early = self.told_at.is_some_and(|at| now.since(at) < interval);
        if is_early || now.since(self.heard_at) > RELAY_SILENCE {
            return false;
        }
        (self.told, self.told_at) = (self.told + 1, Some(now));
        true
    }
}

/// Time without a beacon after which a relay no longer counts.
const RELAY_SILENCE: Duration = Duration::from_secs(2);
/// Shortest interval at which a receiver says that it is behind a relay. It doubles with each frame.
const FIRST_BEHIND_INTERVAL: Duration = Duration::from_millis(50);
/// Longest interval at which a receiver says that it is behind a relay.
const BEHIND_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_relay_is_told_often_at_first_and_then_each_second() {
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let server: SocketAddr = "10.0.0.1:7654".parse().expect("an address");
        let mut relay = NearRelay::default();
        let mut told = Vec::new();
        for now in (0..4000).step_by(10) {
            if now % 500 == 0 && now <= 2000 {
                relay.on_beacon(at(now), 7, server);
            }
            if relay.tells(at(now)) {
                told.push(now);
            }
        }
        assert_eq!(told, [0, 100, 300, 700, 1500, 2500, 3500], "until two seconds after the last beacon");
        relay.on_beacon(at(4000), 8, server);
        assert!(relay.tells(at(4000)), "a new relay");
        let forged = (0..1000).filter(|&now| {
            relay.on_beacon(at(5000 + now), now, server);
            relay.tells(at(5000 + now))
        });
        assert_eq!(forged.count(), 20, "forged beacons cause at most one frame each 50 ms");
    }
}
