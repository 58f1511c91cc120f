//! What a relay has counted.

/// Counts since the relay was opened, in datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStats {
    /// Multicasts that were let through, to one other interface or more.
    pub forwarded: u64,
    /// Of these, rewritten on the way.
    pub rewritten: u64,
    /// Of these, to some of the other interfaces only.
    pub narrowed: u64,
    /// Multicasts that were not let through, as the protocol demands.
    pub absorbed: u64,
    /// What came of multicasts let through: one for each interface they went out by.
    pub copies: u64,
    /// Sent out of chosen interfaces in the name of another node, such as a repair into one branch; one
    /// for each interface.
    pub directed: u64,
    /// Addressed to the relay itself.
    pub received: u64,
    /// Sent by the relay to one node.
    pub sent: u64,
    /// Multicasts ignored because they did not come from where their source is.
    pub off_path: u64,
    /// Multicasts that had come as far as they may.
    pub expired: u64,
    /// Not sent because they do not fit the interface in one piece.
    pub too_large: u64,
    /// Ignored because there is no place for their source among the peers.
    pub refused_peers: u64,
    /// Addressed by the protocol to a node or interface that is not there.
    pub unroutable: u64,
    /// Lost to an error that passes, such as a full queue.
    pub errors: u64,
}
