//! Phase of the NACK process of both receivers (RFC 5740, 5.3).

/// Phase of the NACK process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request is due.
    Idle,
    /// Waits in which requests of others may suppress the own ones.
    BackOff,
    /// Waits for repairs.
    HoldOff,
}

impl Phase {
    /// Name in the state diagram.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "Idle",
            Phase::BackOff => "BackOff",
            Phase::HoldOff => "HoldOff",
        }
    }
}
