//! Rate control: how fast a sender may send.

use carillon_core::BitRate;

/// Size assumed for a packet where packets are counted, in bytes.
pub const NOMINAL_PACKET_BYTES: u64 = 1000;

/// Source of the rate for a [`TokenBucket`](carillon_core::TokenBucket). Protocols with a fixed gap between packets
/// have no rate, and [pause](carillon_core::TokenBucket::pause) instead.
pub trait RateControl {
    /// Current rate; `None` means as fast as the interface accepts packets.
    fn rate(&self) -> Option<BitRate>;
}

/// Fixed rate, or none.
#[derive(Clone, Copy, Debug)]
pub struct FixedRate(pub Option<BitRate>);

impl RateControl for FixedRate {
    fn rate(&self) -> Option<BitRate> {
        self.0
    }
}
