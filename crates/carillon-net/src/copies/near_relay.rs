//! Relay near a receiver, found by its beacons.

use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::Time;

use super::frame::behind;
use super::located::Located;
use crate::seal::{Key, Names};

/// Relay that forwards a sender's multicasts to this endpoint, and what the sender was told of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NearRelay {
    pub(crate) token: u64,
    /// Sender that the last beacon named, and the time of that beacon.
    pub(crate) server: Option<SocketAddr>,
    heard_at: Time,
    /// Number of frames since the relay or its sender changed, and the time of the last one.
    told: u32,
    told_at: Option<Time>,
    located: Located,
}

impl NearRelay {
    /// Handles a beacon of the relay, which names the sender.
    pub(crate) fn on_beacon(&mut self, now: Time, token: u64, server: SocketAddr) {
        self.heard_at = now;
        if (self.token, self.server) != (token, Some(server)) {
            (self.token, self.server, self.told) = (token, Some(server), 0);
            self.located = Located::default();
        }
    }

    /// Frame that tells the sender of this relay, and with a key requests the addresses of both ends.
    pub(crate) fn frame(&mut self, key: Option<&Key>) -> Vec<u8> {
        let request = if key.is_some() { self.located.request() } else { 0 };
        behind(self.token, request, key)
    }

    /// Handles a frame of the sender. Returns the names of both ends in seals when they have changed.
    pub(crate) fn on_located(&mut self, bytes: &[u8], key: &Key) -> Option<Names> {
        self.located.on_frame(bytes, self.token, key)
    }

    /// Returns true if a frame to the sender is due, which is then counted. The first ones follow each other sooner:
    /// the relay itself may still be unknown to a new sender, and frames are lost.
    pub(crate) fn tells(&mut self, now: Time) -> bool {
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
