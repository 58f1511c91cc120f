//! What this host knows of a silence: said before anything is guessed.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use carillon_net::{Endpoint, SendFailure};

/// What an endpoint and its system have counted and said.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Datagrams that left.
    pub sent: u64,
    /// Datagrams that came from others.
    pub received: u64,
    /// What the system says of sending to the group.
    pub group: Option<SendFailure>,
    /// Datagrams with a seal, at an endpoint without a key.
    pub sealed: u64,
    /// Datagrams without a seal that this key opens, at an endpoint with one, and where the last came from.
    pub unopened: (u64, Option<SocketAddr>),
    /// Packets that the system dropped because no route leads back to their source.
    pub unroutable_sources: u64,
}

impl Evidence {
    /// Of this endpoint; `unroutable_before` is what [`unroutable_sources`] said at the beginning.
    pub fn of(endpoint: &Endpoint, unroutable_before: Option<u64>) -> Evidence {
        let stats = endpoint.stats();
        let dropped =
            unroutable_sources().zip(unroutable_before).map(|(now, before)| now.saturating_sub(before));
        Evidence {
            sent: stats.datagrams_sent,
            received: stats.datagrams_received,
            group: endpoint.send_failure(endpoint.group().ip()),
            sealed: stats.sealed,
            unopened: (stats.unsealed + stats.unauthentic, stats.unauthentic_from.or(stats.unsealed_from)),
            unroutable_sources: dropped.unwrap_or(0),
        }
    }

    /// What is known to be wrong, in words: nothing if nothing is.
    pub fn known(&self) -> Vec<String> {
        let mut known = Vec::new();
        if let Some(failure) = &self.group {
            known.push(format!("sending to the group fails: {failure}; {}", failure.advice()));
        }
        if self.sealed > 0 {
            known.push(format!(
                "{} datagrams came sealed with a key: give this end its --key-file",
                self.sealed
            ));
        }
        if let (count @ 1.., from) = self.unopened {
            let from = from.map_or_else(|| "somebody".to_owned(), |from| from.ip().to_string());
            known.push(format!(
                "{count} datagrams came that this key does not open, the last from {from}: use one --key-file everywhere"
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

/// What the network says of sending from one address to another: a host or router that refuses a datagram may report
/// it, and the system tells whoever is connected. Sends one empty datagram and waits for [`REPORT_TIME`].
pub fn reported_by_network(mut own: SocketAddr, to: SocketAddr) -> Option<SendFailure> {
    own.set_port(0);
    let socket = UdpSocket::bind(own).ok()?;
    let sent = socket.connect(to).and_then(|()| socket.set_read_timeout(Some(REPORT_TIME)));
    let answered = sent.and_then(|()| socket.send(&[])).and_then(|_| socket.recv(&mut [0; 1]));
    let error = answered.err()?;
    let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted);
    if silent { None } else { SendFailure::new(to, &error) }
}

/// Time in which a report comes back from this network.
const REPORT_TIME: Duration = Duration::from_millis(200);

/// Packets that the system has dropped so far because no route leads back to their source by the interface they came
/// in on. `None` where it does not say.
pub fn unroutable_sources() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|name| name == "IPReversePathFilter")?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}
