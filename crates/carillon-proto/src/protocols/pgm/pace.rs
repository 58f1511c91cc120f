//! How fast the source may send: RFC 3208, section 5.1.1.

use std::time::Duration;

use carillon_core::{BitRate, Time};

/// A token bucket: a rate, and how much may go at once after a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    rate: Option<BitRate>,
    burst: Duration,
    /// When everything sent so far will have gone at the rate.
    settled: Time,
}

impl Pace {
    /// Bytes in a second, none for no limit, and bytes at once.
    pub(super) fn new(bytes_per_second: u64, burst: u64) -> Self {
        let rate = BitRate::new(bytes_per_second.saturating_mul(8));
        let burst = rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(burst));
        Pace { rate, burst, settled: Time::ZERO }
    }

    /// When the next packet may go, if not now.
    pub(super) fn blocked_until(&self, now: Time) -> Option<Time> {
        let ahead = self.settled.since(now);
        (self.rate.is_some() && ahead > self.burst).then(|| now + (ahead - self.burst))
    }

    /// A packet goes.
    pub(super) fn on_sent(&mut self, now: Time, bytes: u64) {
        if let Some(rate) = self.rate {
            self.settled = self.settled.max(now) + rate.time_for_bytes(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut pace = Pace::new(1000, 2000);
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        for _ in 0..3 {
            assert_eq!(pace.blocked_until(at(0)), None);
            pace.on_sent(at(0), 1000);
        }
        assert_eq!(pace.blocked_until(at(0)), Some(at(1000)));
        assert_eq!(pace.blocked_until(at(400)), Some(at(1000)));
        assert_eq!(pace.blocked_until(at(1000)), None);
        let mut free = Pace::new(0, 0);
        free.on_sent(at(0), 1_000_000);
        assert_eq!(free.blocked_until(at(0)), None);
    }
}
