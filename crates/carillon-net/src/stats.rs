//! What an endpoint has counted.

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
    /// Datagrams a machine addressed to a place that does not exist here: ports, or unknown nodes.
    pub unroutable: u64,
    /// Datagrams lost to an error that passes, such as an unreachable peer.
    pub send_errors: u64,
    /// Errors that passed while receiving, such as an ICMP message about an earlier datagram.
    pub receive_errors: u64,
    /// Times the system could not take another datagram and sending had to wait.
    pub busy: u64,
}
