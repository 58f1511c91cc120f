//! Differences between the protocols of the family.

use carillon_wire::status::Family;

use super::report::Consolidation;

/// Rules of a protocol of the family.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Packet format of the protocol.
    pub family: Family,
    /// Combination of the children's statuses that a helper reports to its parent. `None` for a representative, which
    /// receives data and reports its own status.
    pub consolidation: Option<Consolidation>,
    /// Node that repairs losses in a region.
    pub repairs: Repairs,
    /// Condition under which the source multicasts its own state.
    pub transmitter_state: TransmitterState,
}

/// Condition under which the source multicasts its state in a separate packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitterState {
    /// No such packet, as in the paper.
    Never,
    /// Only while it sends no data, so that endpoints that keep blocks for each other learn which ones all have.
    WhenQuiet,
    /// Periodically, as in SNR.
    Always,
}

/// Node that retransmits a block that a node of a region is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repairs {
    /// Only the source.
    Source,
    /// Representative of the region, by local multicast.
    Representative,
    /// Endpoint with the block, by local multicast, as the exchange orders.
    Holder,
}

impl Rule {
    /// Returns true if nodes other than the source send blocks.
    pub fn is_local(&self) -> bool {
        self.repairs != Repairs::Source
    }
}
