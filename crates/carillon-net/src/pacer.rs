//! The rate limit: a token bucket, kept as the time at which the line would be free.

use std::time::Duration;

use carillon_core::{BitRate, Time};

/// Says when the next datagram may go. A datagram goes whole, so the bucket may be overdrawn by
/// one; its depth is a time, so that a late wake-up is made up for at any rate.
#[derive(Debug)]
pub(crate) struct Pacer {
    rate: Option<BitRate>,
    /// When a line of this rate would have carried everything sent so far.
    free: Time,
}

impl Pacer {
    pub(crate) fn new(rate: Option<BitRate>) -> Self {
        Pacer { rate, free: Time::ZERO }
    }

    /// Counts bytes that go out, headers included.
    pub(crate) fn spend(&mut self, now: Time, bytes: usize) {
        if let Some(rate) = self.rate {
            self.free = self.free.max(now) + rate.time_for_bits(bytes as u64 * 8);
        }
    }

    /// When the next datagram may go: `None` is now.
    pub(crate) fn ready_at(&self, now: Time) -> Option<Time> {
        let at = Time::from_nanos(self.free.as_nanos().saturating_sub(DEPTH.as_nanos() as u64));
        (at > now).then_some(at)
    }
}

/// Time's worth of bytes that may go out at once: more than a scheduler is usually late, less
/// than the buffer of a switch port.
const DEPTH: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_a_second_the_rate_is_kept_however_late_the_calls() {
        let mut pacer = Pacer::new(Some(BitRate::mbps(8)));
        let (mut now, mut sent) = (Time::ZERO, 0);
        let mut late = 0;
        while now < Time::from_nanos(1_000_000_000) {
            match pacer.ready_at(now) {
                None => {
                    pacer.spend(now, 1000);
                    sent += 1000;
                }
                Some(at) => {
                    late = (late + 37_000) % 900_000;
                    now = at + Duration::from_nanos(late);
                }
            }
        }
        // One second at 1 byte per microsecond, plus the depth and one datagram.
        assert!((998_000..=1_002_000).contains(&sent), "{sent}");
    }

    #[test]
    fn without_a_rate_it_is_always_ready() {
        let mut pacer = Pacer::new(None);
        pacer.spend(Time::ZERO, 1 << 40);
        assert_eq!(pacer.ready_at(Time::ZERO), None);
    }
}
