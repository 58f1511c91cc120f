//! Randomly timed acknowledgments.

use std::time::Duration;

use carillon_core::{BitRate, Config, Rng, Seeds, Span, Time};

/// A random wait before each acknowledgment, so that those of many receivers do not meet
/// (Segovia 1996, section 2.5.1): a whole number of bit times, uniform in `[0, R]`.
#[derive(Clone, Debug)]
pub struct AckWait {
    bits: u64,
    rate: BitRate,
    /// Whether the sender says what R is.
    told: bool,
    /// Absent for R = 0 for ever, where nothing is drawn: a million receivers need no million generators.
    rng: Option<Box<Rng>>,
}

impl AckWait {
    /// A wait of up to `limit`, drawn from the node's own stream.
    pub fn new(limit: Span, rate: BitRate, seeds: &Seeds) -> Self {
        Self::with(limit, rate, seeds, false)
    }

    /// The wait that `ack_wait` and `ack_wait_method` say.
    pub fn from_settings(settings: &Config, rate: BitRate, seeds: &Seeds) -> Self {
        Self::with(settings.span("ack_wait"), rate, seeds, settings.choice("ack_wait_method") == "adaptive")
    }

    fn with(limit: Span, rate: BitRate, seeds: &Seeds, told: bool) -> Self {
        let bits = limit.bits_at(rate);
        let rng = (bits > 0 || told).then(|| Box::new(seeds.stream("ack_wait")));
        AckWait { bits, rate, told, rng }
    }

    /// The sender says that R is so many nanoseconds; news only if it is to say so.
    pub fn set(&mut self, nanos: u32) {
        if self.told {
            self.bits = self.rate.bits_in(Duration::from_nanos(nanos.into()));
        }
    }

    /// When an acknowledgment decided now departs; `None` is at once.
    pub fn draw(&mut self, now: Time) -> Option<Time> {
        let rng = self.rng.as_mut()?;
        Some(now + self.rate.time_for_bits(rng.below(self.bits.saturating_add(1))))
    }
}
