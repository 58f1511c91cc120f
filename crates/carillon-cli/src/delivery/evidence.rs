//! Facts that this host knows about a silence. Notices report them before any guess.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use carillon_net::{Endpoint, SendFailure};

/// Counters and errors of an endpoint and its system.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received from others.
    pub received: u64,
    /// Latest error of the system about sending to the group.
    pub group: Option<SendFailure>,
    /// Sealed datagrams received by an endpoint without a key.
    pub sealed: u64,
    /// Unsealed datagrams received by an endpoint with a key, and the source of the last one.
    pub unopened: (u64, Option<SocketAddr>),
    /// Multicasts of hosts other than the named sources.
    pub other_sources: u64,
    /// Packets that the system dropped because no route leads back to their source.
    pub unroutable_sources: u64,
}

impl Evidence {
    /// Collects the facts about this endpoint; `unroutable_before` is the value of [`unroutable_sources`] at the
    /// start.
    pub fn of(endpoint: &Endpoint, unroutable_before: Option<u64>) -> Evidence {
        let stats = endpoint.stats();
        let dropped =
            unroutable_sources().zip(unroutable_before).map(|(now, before)| now.saturating_sub(before));
        Evidence {
            sent: stats.datagrams_sent,
            received: stats.datagrams_received,
            group: endpoint.send_failure(endpoint.group().ip()),
            sealed: stats.seal.sealed,
            unopened: (
                stats.seal.unsealed + stats.seal.unauthentic,
                stats.seal.unauthentic_from.or(stats.seal.unsealed_from),
            ),
            other_sources: stats.other_sources,
            unroutable_sources: dropped.unwrap_or(0),
        }
    }

    /// Known faults, as parts of a sentence; empty if there is none.
    pub fn known(&self) -> Vec<String> {
        let mut known = Vec::new();
        if let Some(failure) = &self.group {
            known.push(format!("sending to the group fails: {failure}; {}", failure.advice()));
        }
        if self.sealed > 0 {
            known.push(format!("{} received datagrams are encrypted: use --key-file here too", self.sealed));
        }
        if let (count @ 1.., from) = self.unopened {
            let from = from.map_or_else(|| "an unknown address".to_owned(), |from| from.ip().to_string());
            known.push(format!(
                "{count} received datagrams do not match this key, the last from {from}: use the same --key-file on all machines"
            ));
        }
        if self.other_sources > 0 {
            known.push(format!(
                "{} received datagrams are from hosts that --source does not name: name the address of the sender",
                self.other_sources
            ));
        }
        if self.unroutable_sources > 0 {
            known.push(format!(
                "this host dropped {} packets because it has no route to their source (rp_filter): add a route to the \
                 network of the sender",
                self.unroutable_sources
            ));
        }
        known
    }
}

/// Error that the network reports for datagrams between two addresses. A host or router that rejects a datagram may
/// send an ICMP error, which the system hands to connected sockets. Sends one empty datagram and waits for
/// [`REPORT_TIME`].
pub fn reported_by_network(mut own: SocketAddr, to: SocketAddr) -> Option<SendFailure> {
    own.set_port(0);
    let socket = UdpSocket::bind(own).ok()?;
    let sent = socket.connect(to).and_then(|()| socket.set_read_timeout(Some(REPORT_TIME)));
    let answered = sent.and_then(|()| socket.send(&[])).and_then(|_| socket.recv(&mut [0; 1]));
    let error = answered.err()?;
    let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted);
    if silent { None } else { SendFailure::new(to, &error) }
}

/// Time to wait for an ICMP error from this network.
const REPORT_TIME: Duration = Duration::from_millis(200);

/// Number of packets that the system has dropped because no route leads back to their source over the interface they
/// arrived on. `None` where the system does not count them.
pub fn unroutable_sources() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|name| name == "IPReversePathFilter")?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}
