//! Pacing by a token bucket.
//!
//! The bucket is kept as one time, at which a line of the configured rate would have carried everything sent so far
//! (virtual scheduling, the generic cell rate algorithm of ITU-T I.371). A datagram may leave when that time is at
//! most `depth` ahead of now.

use std::time::Duration;

use crate::{BitRate, Time};

/// Token bucket that paces datagrams. A datagram goes out whole, so the bucket may be overdrawn by one. The depth is
/// a time, which means the same burst duration at any rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    /// Rate in bits per second; 0 if there is none. Plain numbers keep the struct small, since a simulation may have
    /// a million machines.
    rate: u64,
    /// Depth in nanoseconds.
    depth: u64,
    /// Time at which a line of this rate would have carried everything sent so far.
    free: Time,
}

impl TokenBucket {
    /// Bucket with this rate, if any, that allows a burst of `depth` at that rate after a pause.
    pub fn new(rate: Option<BitRate>, depth: Duration) -> Self {
        let depth = u64::try_from(depth.as_nanos()).unwrap_or(u64::MAX);
        TokenBucket { rate: rate.map_or(0, BitRate::bps), depth, free: Time::ZERO }
    }

    /// Charges bytes that are sent.
    pub fn spend(&mut self, now: Time, bytes: u64) {
        if let Some(rate) = BitRate::new(self.rate) {
            // An idle line is free at `now`, so unused time is no credit beyond the depth.
            self.free = self.free.max(now) + rate.time_for_bytes(bytes);
        }
    }

    /// Blocks sending for `span` at any rate; a protocol with a fixed packet interval calls it after each packet.
    pub fn pause(&mut self, now: Time, span: Duration) {
        // `ready_at` subtracts the depth again.
        self.free = self.free.max(now + span + Duration::from_nanos(self.depth));
    }

    /// Changes the rate from now on. Bytes sent ahead of the old rate stay charged at the new one.
    pub fn set_rate(&mut self, now: Time, rate: Option<BitRate>) {
        if let (Some(old), Some(new)) = (BitRate::new(self.rate), rate) {
            // The debt in bits stays the same; its duration changes with the rate.
            self.free = now + new.time_for_bits(old.bits_in(self.free.since(now)));
        }
        self.rate = rate.map_or(0, BitRate::bps);
    }

    /// Time at which the next datagram may leave; `None` is now.
    pub fn ready_at(&self, now: Time) -> Option<Time> {
        let at = Time::from_nanos(self.free.as_nanos().saturating_sub(self.depth));
        (at > now).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn rate_holds_over_a_second_with_late_calls() {
        let mut pace = TokenBucket::new(Some(BitRate::mbps(8)), Duration::from_millis(1));
        let (mut now, mut sent) = (Time::ZERO, 0);
        let mut late = 0;
        while now < Time::from_nanos(1_000_000_000) {
            match pace.ready_at(now) {
                None => {
                    pace.spend(now, 1000);
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
    fn bucket_without_rate_is_always_ready() {
        let mut pace = TokenBucket::default();
        pace.spend(Time::ZERO, 1 << 40);
        assert_eq!(pace.ready_at(Time::ZERO), None);
    }

    #[test]
    fn packets_leave_at_the_rate_after_a_burst() {
        // Rate of 1000 bytes per second, burst of 2000 bytes.
        let mut pace = TokenBucket::new(BitRate::new(8000), Duration::from_secs(2));
        for _ in 0..3 {
            assert_eq!(pace.ready_at(at(0)), None);
            pace.spend(at(0), 1000);
        }
        assert_eq!(pace.ready_at(at(0)), Some(at(1000)));
        assert_eq!(pace.ready_at(at(400)), Some(at(1000)));
        assert_eq!(pace.ready_at(at(1000)), None);
    }

    #[test]
    fn pause_holds_at_any_depth() {
        for depth in [0, 5] {
            let mut pace = TokenBucket::new(None, Duration::from_millis(depth));
            pace.pause(at(10), Duration::from_millis(20));
            assert_eq!((pace.ready_at(at(29)), pace.ready_at(at(30))), (Some(at(30)), None));
            pace.pause(at(12), Duration::from_millis(1));
            assert_eq!(pace.ready_at(at(29)), Some(at(30)), "a shorter one ends no longer one");
        }
    }

    #[test]
    fn new_rate_keeps_the_bytes_already_spent() {
        let mut pace = TokenBucket::new(BitRate::new(8000), Duration::ZERO);
        pace.spend(at(0), 1000);
        // Half of it has gone; the rest takes a quarter of the time.
        pace.set_rate(at(500), BitRate::new(32_000));
        assert_eq!(pace.ready_at(at(500)), Some(at(625)));
        pace.spend(at(625), 1000);
        assert_eq!(pace.ready_at(at(625)), Some(at(875)));
        // A pause leaves neither debt nor credit.
        pace.set_rate(at(2000), BitRate::new(8000));
        assert_eq!(pace.ready_at(at(2000)), None);
        pace.spend(at(2000), 1000);
        assert_eq!(pace.ready_at(at(2000)), Some(at(3000)));
    }
}
