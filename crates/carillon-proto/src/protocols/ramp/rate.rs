//! Rate control of RFC 1458, section 4.2.3.2.

use carillon_core::BitRate;

use crate::blocks::RateControl;

/// Rate that falls with the number of requested messages and grows after a number of messages without a request.
///
/// The source requires both functions and that the step up is always smaller than the smallest step down, and leaves
/// the functions open. Here `n` requested messages multiply the rate by `scale / (scale + n)`: the factor is 1 without
/// requests, falls with each of them, and never reaches zero. The smallest decrease, for one message, takes
/// `rate / (scale + 1)`; the increase adds half of that.
#[derive(Debug)]
pub(super) struct AdaptiveRate {
    rate: Option<BitRate>,
    max: Option<BitRate>,
    min: u64,
    scale: u64,
    /// Number of messages without a request before an increase.
    clean: u64,
    /// Messages since the last request or increase.
    since: u64,
}

impl AdaptiveRate {
    /// Creates a control that begins at its maximum; without a maximum it controls nothing.
    pub fn new(max: Option<BitRate>, min: Option<BitRate>, scale: u64, clean: u64) -> Self {
        AdaptiveRate { rate: max, max, min: min.map_or(1, BitRate::bps), scale, clean, since: 0 }
    }

    /// Records that `messages` different messages were requested. Returns true if the rate changed.
    pub fn on_requested(&mut self, messages: u64) -> bool {
        self.since = 0;
        let scale = self.scale;
        self.change(|rate| {
            let scaled = u128::from(rate) * u128::from(scale) / u128::from(scale.saturating_add(messages));
            scaled as u64
        })
    }

    /// Records a sent message. Returns true if the rate changed.
    pub fn on_sent(&mut self) -> bool {
        self.since += 1;
        if self.since < self.clean {
            return false;
        }
        self.since = 0;
        let scale = self.scale;
        self.change(|rate| rate.saturating_add((rate / (2 * (scale + 1))).max(1)))
    }

    fn change(&mut self, to: impl FnOnce(u64) -> u64) -> bool {
        let (Some(rate), Some(max)) = (self.rate, self.max) else { return false };
        let most = max.bps();
        self.rate = BitRate::new(to(rate.bps()).clamp(self.min.min(most), most));
        self.rate != Some(rate)
    }
}

impl RateControl for AdaptiveRate {
    fn rate(&self) -> Option<BitRate> {
        self.rate
    }
}
