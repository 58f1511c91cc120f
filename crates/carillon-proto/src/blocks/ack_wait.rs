//! Randomly timed acknowledgments of one size.

use std::time::Duration;

use carillon_core::{BitRate, BuildContext, Config, Dest, NodeId, Rng, Time, Transmit};

use super::{FeedbackDelay, Scene};

/// A random wait before each acknowledgment, so that those of many receivers do not meet
/// (Segovia 1996, section 2.5.1): a whole number of bit times, uniform in `[0, R]`; and what they are padded to.
#[derive(Clone, Debug)]
pub struct AckWait {
    bits: u64,
    rate: BitRate,
    /// Whether the sender says what R is.
    told: bool,
    /// Absent for R = 0 for ever, where nothing is drawn: a million receivers need no million generators.
    rng: Option<Box<Rng>>,
    /// Bytes of an acknowledgment, at least.
    len: usize,
}

impl AckWait {
    /// What `ack_wait` and `ack_bytes` say, drawn from the node's own stream.
    pub fn new(context: &BuildContext, settings: &Config) -> Self {
        Self::with(context, settings, false)
    }

    /// The same, unless `ack_wait_method` leaves R to the sender.
    pub fn or_told(context: &BuildContext, settings: &Config) -> Self {
        Self::with(context, settings, settings.choice("ack_wait_method") == "adaptive")
    }

    fn with(context: &BuildContext, settings: &Config, told: bool) -> Self {
        let rate = context.bit_rate;
        let bits = settings.span("ack_wait").bits_at(rate);
        let rng = (bits > 0 || told).then(|| Box::new(context.seeds.stream("ack_wait")));
        let len = (settings.size("ack_bytes").0 as usize).saturating_sub(context.link_overhead as usize);
        AckWait { bits, rate, told, rng, len }
    }

    /// The sender says that R is so many nanoseconds; news only if it is to say so.
    pub fn set(&mut self, nanos: u32) {
        if self.told {
            self.bits = self.rate.bits_in(Duration::from_nanos(nanos.into()));
        }
    }

    /// The acknowledgment in the buffer is decided now: padded, it departs after its wait.
    pub fn transmit(&mut self, now: Time, to: NodeId, buf: &mut Vec<u8>) -> Transmit {
        if buf.len() < self.len {
            buf.resize(self.len, 0);
        }
        let departure = self.rng.is_some().then(|| now + self.delay(0, 0.0));
        Transmit { departure, ..Transmit::now(Dest::Node(to)) }
    }

    /// The same of a receiver that answers its sender; the message it is about.
    pub fn answer(
        &mut self,
        scene: &mut Scene,
        packet: &'static str,
        about: u64,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        scene.events.control(packet, about);
        self.transmit(scene.now, scene.sender, buf)
    }
}

impl FeedbackDelay for AckWait {
    fn delay(&mut self, _attempt: u32, _distance: f64) -> Duration {
        let bits = self.rng.as_mut().map_or(0, |rng| rng.below(self.bits.saturating_add(1)));
        self.rate.time_for_bits(bits)
    }
}
