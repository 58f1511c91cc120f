//! Bound of the bytes that requests to a source may have, since a forged source may name a victim as their destination.

use std::time::Duration;

/// Budget of requests to one source, in bytes: as many as arrived from it, at most [`MAX`](Self::MAX) at a time. An
/// interval in which nothing arrives adds [`RENEWED`](Self::RENEWED).
#[derive(Debug)]
pub(super) struct RequestBudget {
    /// Rest, which one request may overdraw.
    rest: i64,
}

impl Default for RequestBudget {
    fn default() -> Self {
        RequestBudget { rest: Self::RENEWED }
    }
}

impl RequestBudget {
    /// Interval of renewals.
    pub const RENEWAL: Duration = Duration::from_secs(1);
    /// Maximum unused budget.
    const MAX: i64 = 64 << 10;
    /// Budget at the beginning and of each renewal: one request of the maximum length.
    const RENEWED: i64 = 512;
    /// Bytes of IP and UDP headers, which the victim of a forged source receives too.
    const HEADERS: i64 = 28;

    /// Adds a received datagram.
    pub fn earn(&mut self, bytes: usize) {
        self.rest = (self.rest + bytes as i64).min(Self::MAX);
    }

    /// Adds the budget of an interval.
    pub fn renew(&mut self) {
        self.rest = (self.rest + Self::RENEWED).min(Self::MAX);
    }

    /// Charges a request.
    pub fn spend(&mut self, bytes: usize) {
        self.rest -= bytes as i64 + Self::HEADERS;
    }

    /// Returns true if a request may be sent.
    pub fn has_rest(&self) -> bool {
        self.rest > 0
    }
}
