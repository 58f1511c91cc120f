//! What an endpoint has counted.

use std::net::SocketAddr;
use std::time::Duration;

use carillon_core::DropReason;

/// Counts since the endpoint was opened. Bytes are those of datagrams, without IP and UDP headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams handed to the system.
    pub datagrams_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// System calls that sent them.
    pub send_calls: u64,
    /// Datagrams received, those dropped by the fault injector included.
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// System calls that brought them.
    pub receive_calls: u64,
    /// Datagrams dropped by the fault injector.
    pub injected_drops: u64,
    /// This endpoint's own multicasts, heard again and ignored.
    pub own: u64,
    /// Datagrams of unknown sources ignored because every place in the peer table is in use.
    pub refused_peers: u64,
    /// Datagrams without a seal, at an endpoint with a key; all that were not taken are counted under one name each.
    pub unsealed: u64,
    /// Datagrams whose seal does not open: of another key or another place, changed, cut short, or made up.
    pub unauthentic: u64,
    /// Datagrams whose seal was opened before.
    pub replayed: u64,
    /// Datagrams whose seal is too old to tell.
    pub outdated: u64,
    /// Datagrams sealed with the key by an endpoint that had yet to prove that it was there.
    pub unproven: u64,
    /// Greetings sent, by which endpoints prove to each other that they are there.
    pub greetings: u64,
    /// Datagrams with a seal, at an endpoint without a key.
    pub sealed: u64,
    /// Where the last of the `unsealed` ones came from.
    pub unsealed_from: Option<SocketAddr>,
    /// Where the last of the `unauthentic` ones came from.
    pub unauthentic_from: Option<SocketAddr>,
    /// Where the last of the `unproven` ones came from.
    pub unproven_from: Option<SocketAddr>,
    /// Datagrams a machine addressed to a place that does not exist here: ports, or unknown nodes.
    pub unroutable: u64,
    /// Datagrams lost to an error that passes, such as an unreachable peer.
    pub send_errors: u64,
    /// Errors that passed while receiving, such as an ICMP message about an earlier datagram.
    pub receive_errors: u64,
    /// Times the system could not take another datagram and sending had to wait.
    pub busy: u64,
    /// Time that drivers have waited until something was due; the rest they were at work.
    pub waited: Duration,
}

impl Stats {
    /// Datagrams that were dropped because of their seal, by the names of the reasons.
    #[must_use]
    pub fn seal_drops(&self) -> [(&'static str, u64); 5] {
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
