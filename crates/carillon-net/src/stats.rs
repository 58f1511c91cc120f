//! Counters of an endpoint.

use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::DropReason;

/// Counters since the endpoint was opened. Bytes exclude IP and UDP headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams accepted by the system.
    pub datagrams_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// System calls for sending.
    pub send_calls: u64,
    /// Datagrams received, including those dropped by the fault injector.
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// System calls for receiving.
    pub receive_calls: u64,
    /// Datagrams dropped by the fault injector.
    pub injected_drops: u64,
    /// Own multicasts that were received and ignored.
    pub own: u64,
    /// Multicasts of hosts that are not among the sources of the endpoint, as far as the system has passed them.
    pub other_sources: u64,
    /// Multicasts that arrived by another interface than the one by which their source is heard.
    pub duplicates: u64,
    /// Datagrams of unknown sources that were ignored because the peer table is full.
    pub refused_peers: u64,
    /// Frames about unicast copies at a socket that does not take them.
    pub refused_frames: u64,
    /// Datagrams dropped because of their seals, and greetings.
    pub seal: SealStats,
    /// Datagrams of the machine to ports or unknown nodes.
    pub unroutable: u64,
    /// Datagrams lost to a temporary error, such as an unreachable peer.
    pub send_errors: u64,
    /// Temporary receive errors, such as an ICMP message about an earlier datagram.
    pub receive_errors: u64,
    /// Number of times that sending had to wait for the system.
    pub busy: u64,
    /// Time for which drivers waited; they were busy for the rest.
    pub waited: Duration,
}

/// Counters of the seals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealStats {
    /// Datagrams without a seal, at an endpoint with a key.
    pub unsealed: u64,
    /// Datagrams with a seal that does not open: another key or address, changed, truncated, or forged.
    pub unauthentic: u64,
    /// Datagrams that were opened before.
    pub replayed: u64,
    /// Datagrams that are too old for the replay window.
    pub outdated: u64,
    /// Datagrams sealed with the key by an endpoint that has not proven its presence.
    pub unproven: u64,
    /// Greetings sent, by which endpoints prove their presence.
    pub greetings: u64,
    /// Datagrams with a seal, at an endpoint without a key.
    pub sealed: u64,
    /// Source of the last unsealed datagram.
    pub unsealed_from: Option<SocketAddr>,
    /// Source of the last datagram that is not authentic.
    pub unauthentic_from: Option<SocketAddr>,
    /// Source of the last datagram of an endpoint without proof.
    pub unproven_from: Option<SocketAddr>,
}

impl SealStats {
    /// Datagrams dropped because of their seal, by reason.
    #[must_use]
    pub fn drops(&self) -> [(&'static str, u64); 5] {
        [
            ("unsealed", self.unsealed),
            ("unauthentic", self.unauthentic),
            ("replayed", self.replayed),
            ("outdated", self.outdated),
            ("unproven", self.unproven),
        ]
    }

    pub(crate) fn refuse(&mut self, reason: DropReason, from: SocketAddr) {
        let mut nowhere = None;
        let (count, last) = match reason {
            DropReason::Unsealed => (&mut self.unsealed, &mut self.unsealed_from),
            DropReason::Replayed => (&mut self.replayed, &mut nowhere),
            DropReason::Outdated => (&mut self.outdated, &mut nowhere),
            DropReason::Unproven => (&mut self.unproven, &mut self.unproven_from),
            _ => (&mut self.unauthentic, &mut self.unauthentic_from),
        };
        *count += 1;
        *last = Some(from);
    }
}
