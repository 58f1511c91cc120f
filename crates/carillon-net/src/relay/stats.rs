//! Counters of a relay.

/// Counts since the relay was opened, in datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStats {
    /// Multicasts forwarded to at least one other interface.
    pub forwarded: u64,
    /// Forwarded multicasts that were rewritten.
    pub rewritten: u64,
    /// Forwarded multicasts that went to some of the other interfaces only.
    pub narrowed: u64,
    /// Multicasts not forwarded, as the protocol demands.
    pub absorbed: u64,
    /// Copies of forwarded multicasts, one per outgoing interface.
    pub copies: u64,
    /// Datagrams sent through chosen interfaces with another node's source address, such as a repair into one branch;
    /// one per interface.
    pub directed: u64,
    /// Datagrams addressed to the relay itself.
    pub received: u64,
    /// Datagrams sent by the relay to one node.
    pub sent: u64,
    /// Multicasts ignored by the reverse-path check.
    pub off_path: u64,
    /// Multicasts that reached their hop limit.
    pub expired: u64,
    /// Datagrams not sent because they exceed the MTU of an interface.
    pub too_large: u64,
    /// Datagrams ignored because the peer table is full.
    pub refused_peers: u64,
    /// Datagrams of the machine to unknown nodes or interfaces.
    pub unroutable: u64,
    /// Datagrams lost to a temporary error, such as a full queue.
    pub errors: u64,
}
