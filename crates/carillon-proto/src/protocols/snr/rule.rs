//! What the protocols of the family differ in.

use carillon_wire::status::Family;

use super::report::Consolidation;

/// A protocol of the family.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its packets.
    pub family: Family,
    /// What a helper says to its parent: the consolidated status of its children; or, if none, its own, as a
    /// representative does that takes data.
    pub consolidation: Option<Consolidation>,
    /// Who repairs in a region.
    pub repairs: Repairs,
    /// Whether the source says periodically how far it is.
    pub transmitter_state: TransmitterState,
}

/// When the source says how far it is, beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitterState {
    /// Never: the paper has no such packet.
    Never,
    /// While it sends no data: endpoints that keep blocks for each other learn what all have.
    WhenQuiet,
    /// Always, as in SNR.
    Always,
}

/// Who sends a block again that somebody of a region lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repairs {
    /// The source alone.
    Source,
    /// The representative, by local multicast.
    Representative,
    /// Whoever has it, by local multicast, as the exchange orders.
    Holder,
}

impl Rule {
    /// Whether anybody but the source sends blocks.
    pub fn is_local(&self) -> bool {
        self.repairs != Repairs::Source
    }
}
