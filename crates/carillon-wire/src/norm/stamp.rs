//! Time stamps of probes.

/// Time of the sender's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Seconds.
    pub seconds: u32,
    /// Microseconds.
    pub microseconds: u32,
}
