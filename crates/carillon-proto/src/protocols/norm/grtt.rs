//! Greatest round-trip time of the group (GRTT; RFC 5401, 4.2.5), and the random waits that follow from it.

use std::time::Duration;

use carillon_core::{Rng, Time};
use carillon_wire::norm::{Stamp, decode_grtt, encode_grtt};

/// Measurement of the greatest round-trip time at the sender.
#[derive(Debug)]
pub(super) struct GroupRoundTrip {
    value: Duration,
    /// Greatest answer since the last probe but one; `None` without any.
    peak: Option<Duration>,
    range: (Duration, Duration),
}

impl GroupRoundTrip {
    /// Starts from this value, and stays between the least and the greatest.
    pub fn new(first: Duration, least: Duration, greatest: Duration) -> Self {
        let greatest = greatest.max(least);
        GroupRoundTrip { value: first.clamp(least, greatest), peak: None, range: (least, greatest) }
    }

    /// Measured value, rounded as packets carry it.
    pub fn value(&self) -> Duration {
        decode_grtt(self.code())
    }

    /// Code of the value in packets.
    pub fn code(&self) -> u8 {
        encode_grtt(self.value)
    }

    /// Records the answer of a receiver to a probe, and returns its round-trip time. A longer time counts at once.
    pub fn on_answer(&mut self, now: Time, echo: Stamp) -> Option<Duration> {
        if echo == Stamp::default() {
            return None;
        }
        let sent = Time::from_nanos(
            u64::from(echo.seconds) * 1_000_000_000 + u64::from(echo.microseconds.min(999_999)) * 1000,
        );
        if sent > now {
            return None;
        }
        let time = now.since(sent).clamp(self.range.0, self.range.1);
        self.peak = Some(self.peak.map_or(time, |peak| peak.max(time)));
        self.value = self.value.max(time);
        Some(time)
    }

    /// Ends a probe interval: without a longer answer, the value falls by a tenth, at most to the longest answer.
    pub fn on_probe(&mut self) {
        if let Some(peak) = self.peak.take()
            && peak < self.value
        {
            self.value = (self.value * 9 / 10).max(peak);
        }
    }
}

/// Time of the sender's clock as packets carry it.
pub(super) fn stamp(time: Time) -> Stamp {
    let micros = time.as_nanos() / 1000;
    Stamp { seconds: (micros / 1_000_000) as u32, microseconds: (micros % 1_000_000) as u32 }
}

/// Random wait before a NACK: a truncated exponential distribution of which the earliest values are rare, so that few
/// receivers of a large group are first (RFC 5401, 4.2.2).
pub(super) fn random_backoff(longest: Duration, group_size: u64, rng: &mut Rng) -> Duration {
    let time = longest.as_secs_f64();
    if time <= 0.0 {
        return Duration::ZERO;
    }
    let lambda = libm::log(group_size.max(1) as f64) + 1.0;
    let growth = libm::exp(lambda) - 1.0;
    let first = lambda / (time * growth);
    let x = first + rng.unit() * lambda / time;
    let wait = time / lambda * libm::log(x * growth * time / lambda);
    Duration::from_secs_f64(wait.clamp(0.0, time))
}
