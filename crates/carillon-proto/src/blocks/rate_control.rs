//! How fast a sender may send.

use carillon_core::BitRate;

/// What a [`Pace`](carillon_core::Pace) goes by. Protocols that leave a given time between any two packets have no rate: they
/// [pause](carillon_core::Pace::pause).
pub trait RateControl {
    /// The rate now; `None`: as fast as the interface takes packets.
    fn rate(&self) -> Option<BitRate>;
}

/// A rate that is given, if any is.
#[derive(Clone, Copy, Debug)]
pub struct FixedRate(pub Option<BitRate>);

impl RateControl for FixedRate {
    fn rate(&self) -> Option<BitRate> {
        self.0
    }
}
