//! Latest send errors by destination.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;

/// Latest send error to one destination, until sending succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendFailure {
    /// Destination.
    pub to: SocketAddr,
    /// Error number of the system.
    pub errno: i32,
    /// Number of consecutive refused datagrams.
    pub count: u64,
}

/// Formats the error in the system's words, such as `Network is unreachable (os error 101)`.
impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.errno).fmt(f)
    }
}

impl SendFailure {
    /// Creates a failure from an error, for senders without an endpoint.
    pub fn new(to: SocketAddr, error: &io::Error) -> Option<SendFailure> {
        error.raw_os_error().map(|errno| SendFailure { to, errno, count: 1 })
    }

    /// Remedy for an administrator of this host.
    pub fn advice(&self) -> String {
        let ip = self.to.ip();
        match Errno::from_raw(self.errno) {
            Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENETDOWN | Errno::EHOSTDOWN => {
                format!("this host has no route to {ip} (`ip route get {ip}`): add one")
            }
            Errno::ECONNREFUSED => {
                format!(
                    "{ip}, or a firewall before it, rejects the datagrams: let UDP from this host in there"
                )
            }
            Errno::EPERM | Errno::EACCES => {
                format!(
                    "a firewall or a route of this host forbids it (`nft list ruleset`, `ip route get {ip}`)"
                )
            }
            Errno::EMSGSIZE => {
                "the datagram is longer than the path carries: send with --datagram 1472 or less".to_owned()
            }
            Errno::ENODEV | Errno::ENXIO | Errno::EADDRNOTAVAIL => {
                "the interface in use, or its address, is gone: start again, or name another with --interface"
                    .to_owned()
            }
            _ => format!("look at the routes and the firewall of this host (`ip route get {ip}`)"),
        }
    }
}

/// Failures by destination, bounded because peers choose their addresses.
#[derive(Debug, Default)]
pub(crate) struct SendFailures(BTreeMap<SocketAddr, SendFailure>);

impl SendFailures {
    pub(crate) fn note(&mut self, to: SocketAddr, error: &io::Error, count: u64) {
        let Some(new) = SendFailure::new(to, error) else { return };
        if self.0.len() < MAX_DESTINATIONS || self.0.contains_key(&to) {
            let known = self.0.entry(to).or_insert(SendFailure { count: 0, ..new });
            (known.errno, known.count) = (new.errno, known.count.saturating_add(count));
        }
    }

    /// Records that sending to this destination succeeded.
    #[inline]
    pub(crate) fn clear(&mut self, to: SocketAddr) {
        if !self.0.is_empty() {
            self.0.remove(&to);
        }
    }

    pub(crate) fn to_host(&self, host: IpAddr) -> Option<SendFailure> {
        self.0.values().find(|failure| failure.to.ip() == host).copied()
    }
}

/// Maximum number of destinations with a recorded failure.
const MAX_DESTINATIONS: usize = 64;

/// Returns true for an error of one peer or one moment, which is counted and does not end the driver.
pub(crate) fn passes(error: &io::Error) -> bool {
    let Some(errno) = error.raw_os_error().map(Errno::from_raw) else { return false };
    matches!(
        errno,
        Errno::ECONNREFUSED
            | Errno::ECONNRESET
            | Errno::EHOSTUNREACH
            | Errno::EHOSTDOWN
            | Errno::ENETUNREACH
            | Errno::ENETDOWN
            // The interface was removed.
            | Errno::ENODEV
            | Errno::ENXIO
            | Errno::EADDRNOTAVAIL
            | Errno::ENOMEM
            | Errno::ENOBUFS
            | Errno::EINTR
            | Errno::EIO
            | Errno::EINVAL
            | Errno::EMSGSIZE
            // A firewall rejects an outgoing datagram like this.
            | Errno::EPERM
            | Errno::EACCES
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_lasts_until_sending_succeeds() {
        let mut failures = SendFailures::default();
        let to = |last| SocketAddr::from(([10, 0, 0, last], 7000));
        let error = io::Error::from_raw_os_error(Errno::ENETUNREACH as i32);
        failures.note(to(1), &error, 2);
        failures.note(to(1), &error, 3);
        let failure = failures.to_host(to(1).ip()).expect("it is kept");
        assert_eq!((failure.count, failure.errno), (5, Errno::ENETUNREACH as i32));
        assert!(failure.to_string().starts_with("Network is unreachable"), "{failure}");
        assert!(failure.advice().contains("no route to 10.0.0.1"), "{}", failure.advice());
        failures.clear(to(1));
        assert_eq!(failures.to_host(to(1).ip()), None);
    }

    #[test]
    fn failures_to_many_destinations_stay_bounded() {
        let mut failures = SendFailures::default();
        let error = io::Error::from_raw_os_error(Errno::EPERM as i32);
        for port in 1..1000 {
            failures.note(SocketAddr::from(([10, 0, 0, 1], port)), &error, 1);
        }
        assert_eq!(failures.0.len(), MAX_DESTINATIONS);
    }
}
