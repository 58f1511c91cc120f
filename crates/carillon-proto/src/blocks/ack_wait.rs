//! Random wait before acknowledgments, and their padding to one size.

use std::time::Duration;

use carillon_core::{BitRate, BuildContext, Config, Dest, NodeId, Rng, Time, Transmit};

use super::{FeedbackDelay, MachineContext};

/// Random wait before each acknowledgment, so that the acknowledgments of many receivers do not collide (Segovia
/// 1996, section 2.5.1). The wait is a whole number of bit times, uniform in `[0, R]`.
#[derive(Clone, Debug)]
pub struct AckWait {
    /// R in bit times.
    bits: u64,
    /// Bit rate of the link, which defines the bit time.
    rate: BitRate,
    /// True if the sender sets R.
    is_set_by_sender: bool,
    /// Random generator; absent if R is always 0, since a million receivers need no million generators.
    rng: Option<Box<Rng>>,
    /// Minimum size of an acknowledgment in bytes.
    len: usize,
}

impl AckWait {
    /// Creates the wait from the parameters `ack_wait` and `ack_bytes`, with a random stream of this node.
    pub fn new(build: &BuildContext, settings: &Config) -> Self {
        Self::with(build, settings, false)
    }

    /// Creates the wait, with R set by the sender if `ack_wait_method` is `adaptive`.
    pub fn set_by_method(build: &BuildContext, settings: &Config) -> Self {
        Self::with(build, settings, settings.choice("ack_wait_method") == "adaptive")
    }

    /// Creates the wait; with `is_set_by_sender` the parameter gives only its initial value.
    fn with(build: &BuildContext, settings: &Config, is_set_by_sender: bool) -> Self {
        let rate = build.bit_rate;
        let bits = settings.span("ack_wait").bits_at(rate);
        let rng = (bits > 0 || is_set_by_sender).then(|| Box::new(build.seeds.stream("ack_wait")));
        // `ack_bytes` is the size on the link, which includes the headers of the lower layers.
        let len = (settings.size("ack_bytes").0 as usize).saturating_sub(build.link_overhead as usize);
        AckWait { bits, rate, is_set_by_sender, rng, len }
    }

    /// Sets R in nanoseconds. Ignored unless the sender is to set it.
    pub fn set(&mut self, nanos: u32) {
        if self.is_set_by_sender {
            self.bits = self.rate.bits_in(Duration::from_nanos(nanos.into()));
        }
    }

    /// Pads the acknowledgment in the buffer and schedules its departure after a random wait.
    pub fn transmit(&mut self, now: Time, to: NodeId, buf: &mut Vec<u8>) -> Transmit {
        // Parsers ignore the zeros behind the packet.
        if buf.len() < self.len {
            buf.resize(self.len, 0);
        }
        // The host holds the packet until its departure, so that the wait needs no timer.
        let departure = self.rng.is_some().then(|| now + self.delay(0, 0.0));
        Transmit { departure, ..Transmit::now(Dest::Node(to)) }
    }

    /// Schedules the acknowledgment of a receiver to its sender. `about` is the message that it acknowledges.
    pub fn answer(
        &mut self,
        context: &mut MachineContext,
        packet: &'static str,
        about: u64,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        context.events.control(packet, about);
        self.transmit(context.now, context.sender, buf)
    }
}

impl FeedbackDelay for AckWait {
    fn delay(&mut self, _attempt: u32, _distance: f64) -> Duration {
        // R itself is a possible result, hence one more value than bits.
        let bits = self.rng.as_mut().map_or(0, |rng| rng.below(self.bits.saturating_add(1)));
        self.rate.time_for_bits(bits)
    }
}

#[cfg(test)]
mod tests {
    use carillon_core::Parameter;
    use proptest::prelude::*;

    use super::*;
    use crate::blocks::context::tests::build_context;
    use crate::blocks::retransmission::parameters::{ACK_BYTES, ACK_WAIT, ACK_WAIT_METHOD};

    const PARAMETERS: &[Parameter] = &[ACK_WAIT, ACK_WAIT_METHOD, ACK_BYTES];

    fn settings(pairs: &[(&str, &str)]) -> Config {
        let mut settings = Config::defaults(PARAMETERS);
        pairs.iter().for_each(|(key, value)| settings.set(PARAMETERS, key, value).expect("a setting"));
        settings
    }

    proptest! {
        #[test]
        fn waits_are_whole_bits_and_lengths_reach_minimum(
            bits in 0..20_000_u64,
            len in 0..1518_usize,
            own in 0..1500_usize,
        ) {
            let build = BuildContext { link_overhead: 28, ..build_context(10) };
            let settings = settings(&[("ack_wait", &format!("{bits} bit")), ("ack_bytes", &len.to_string())]);
            let mut wait = AckWait::new(&build, &settings);
            wait.set(1_000_000);
            let bit = build.bit_rate.time_for_bits(1);
            for _ in 0..20 {
                let (now, mut buf) = (Time::from_nanos(1_000_000_000), vec![1; own]);
                let transmit = wait.transmit(now, NodeId(1), &mut buf);
                prop_assert_eq!(transmit.departure.is_some(), bits > 0, "without a wait it leaves at once");
                let waited = transmit.departure.map_or(Duration::ZERO, |at| at.since(now));
                prop_assert!(waited <= bit * bits as u32, "{:?}", waited);
                prop_assert_eq!(waited.as_nanos() % bit.as_nanos(), 0);
                // The size counts on the link, with all headers.
                prop_assert_eq!(buf.len(), own.max(len.saturating_sub(build.link_overhead as usize)));
                prop_assert!(buf[..own].iter().all(|&byte| byte == 1) && buf[own..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn waits_are_uniform_up_to_bound_of_sender() {
        let build = build_context(10);
        let mut is_set_by_sender =
            AckWait::set_by_method(&build, &settings(&[("ack_wait_method", "adaptive")]));
        let bit = build.bit_rate.time_for_bits(1);
        assert_eq!(is_set_by_sender.delay(0, 0.0), Duration::ZERO, "nothing was said yet");
        is_set_by_sender.set(u32::try_from((bit * 3).as_nanos()).expect("microseconds"));
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[(is_set_by_sender.delay(0, 0.0).as_nanos() / bit.as_nanos()) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
