//! Randomly timed acknowledgments.

use carillon_core::{BitRate, Rng, Seeds, Span, Time};

/// A random wait before each acknowledgment, so that those of many receivers do not meet
/// (Segovia 1996, section 2.5.1): a whole number of bit times, uniform in `[0, R]`.
#[derive(Clone, Debug)]
pub struct AckWait {
    bits: u64,
    rate: BitRate,
    /// Absent for R = 0, where nothing is drawn: a million receivers need no million generators.
    rng: Option<Box<Rng>>,
}

impl AckWait {
    /// A wait of up to `limit`, drawn from the node's own stream.
    pub fn new(limit: Span, rate: BitRate, seeds: &Seeds) -> Self {
        let bits = limit.bits_at(rate);
        let rng = (bits > 0).then(|| Box::new(seeds.stream("ack_wait")));
        AckWait { bits, rate, rng }
    }

    /// When an acknowledgment decided now departs; `None` is at once.
    pub fn draw(&mut self, now: Time) -> Option<Time> {
        let rng = self.rng.as_mut()?;
        Some(now + self.rate.time_for_bits(rng.below(self.bits.saturating_add(1))))
    }
}
