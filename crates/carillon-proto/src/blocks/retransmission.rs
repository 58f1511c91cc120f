//! Retransmission settings of an acknowledged sender: timeout, limit, and the action past the limit. Parameters have
//! the names and defaults of Segovia 1996, section 3.6.

use std::time::Duration;

use carillon_core::{BuildContext, Config, ConfigError, Parameter};

use super::AdaptiveWait;

/// Action of a sender after too many retransmissions of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastLimit {
    /// Mark the message as failed and continue with the next; the layer above must notice (Segovia 1996).
    Skip,
    /// Expel the receivers that have not acknowledged it, and continue with the others.
    Expel,
    /// Retransmit without end. Another layer decides whether and when to expel a receiver, with
    /// [`Sender::expel`](carillon_core::Sender::expel).
    Wait,
}

impl PastLimit {
    /// Action that the settings select.
    pub fn of(settings: &Config) -> Self {
        match settings.choice("past_limit") {
            "expel" => PastLimit::Expel,
            "wait" => PastLimit::Wait,
            _ => PastLimit::Skip,
        }
    }
}

/// Method that sets a retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutMethod {
    /// Constant. With `method = formula` the value already contains the base of the formula.
    Constant,
    /// Adaptive, from measured round-trip times (RFC 6298).
    Adaptive,
}

/// Settings of the retransmission timer.
#[derive(Clone, Copy, Debug)]
pub struct Retransmission {
    /// Method that sets the timeout.
    pub method: TimeoutMethod,
    /// Maximum number of retransmissions of a message.
    pub limit: u32,
    /// Action past the limit.
    pub past_limit: PastLimit,
    /// Initial wait R before acknowledgments if it adapts.
    pub adaptive_wait: Option<Duration>,
    /// Bounds of an adaptive timeout.
    pub bounds: (Duration, Duration),
    /// Part of the timeout that is independent of the number of receivers, and part per receiver.
    timeout: (Duration, Duration),
    /// Time to send a window until answers start, and time of one answer (method `formula`).
    answers: (Duration, Duration),
    receivers: u32,
}

impl Retransmission {
    /// Reads the settings. By formula (section 4.4) the timeout is the time of `window` data packets, an
    /// acknowledgment from each receiver, the random wait, `ack_delay`, and the increment. Fails if the settings
    /// contradict each other.
    pub fn new(
        context: &BuildContext,
        settings: &Config,
        header_len: usize,
        window: u64,
        ack_delay: Duration,
    ) -> Result<Self, ConfigError> {
        let rate = context.bit_rate;
        let value = settings.span("timeout").at(rate);
        let method = settings.choice("timeout_method");
        // Bytes of a full data packet on the link.
        let data = u64::from(context.max_payload) + header_len as u64 + u64::from(context.link_overhead);
        let data = rate.time_for_bytes(data * window);
        let ack = rate.time_for_bytes(settings.size("ack_bytes").0);
        let answers = data + settings.span("ack_wait").at(rate);
        let timeout =
            // Each receiver adds the time of one acknowledgment. A constant timeout has no part per receiver.
            if method == "formula" { (answers + ack_delay + value, ack) } else { (value, Duration::ZERO) };
        // Also by formula: at the fastest rates the time of a packet is zero.
        if timeout == (Duration::ZERO, Duration::ZERO) {
            let what =
                format!("`timeout` is zero: with timeout_method = \"{method}\" give a span above zero");
            return Err(ConfigError::Conflict(what));
        }
        let bounds = (settings.span("timeout_min").at(rate), settings.span("timeout_max").at(rate));
        // An adaptive timeout of zero would expire again at once, without end.
        if bounds.0 > bounds.1 || bounds.0.is_zero() {
            return Err(ConfigError::Conflict(
                "`timeout_min` is zero or above `timeout_max`: give 0 < timeout_min <= timeout_max".into(),
            ));
        }
        Ok(Retransmission {
            method: if method == "adaptive" { TimeoutMethod::Adaptive } else { TimeoutMethod::Constant },
            limit: settings.count("retransmission_limit") as u32,
            past_limit: PastLimit::of(settings),
            adaptive_wait: None,
            bounds,
            timeout,
            answers: (answers, ack),
            receivers: context.members.len() as u32,
        })
    }

    /// Returns true if a message with this number of retransmissions must not be sent again.
    pub fn is_exceeded(&self, count: u32) -> bool {
        // With `Wait`, the limit does not apply: another layer expels the receiver.
        self.past_limit != PastLimit::Wait && count > self.limit
    }

    /// Adds the wait before acknowledgments from the settings. Fails if it adapts while receivers only send NAKs.
    pub fn with_ack_wait(self, context: &BuildContext, settings: &Config) -> Result<Self, ConfigError> {
        let adaptive_wait = AdaptiveWait::first(context, settings);
        // The wait spreads acknowledgments that all receivers send. A request must leave at once.
        if adaptive_wait.is_some() && settings.choice("feedback") == "nak" {
            let what =
                "`ack_wait_method = \"adaptive\"` goes with feedback = \"ack\": requests are not to wait";
            return Err(ConfigError::Conflict(what.to_owned()));
        }
        Ok(Retransmission { adaptive_wait, ..self })
    }

    /// Settings for another number of receivers, on which the formula depends.
    pub fn for_receivers(self, receivers: u32) -> Self {
        Retransmission { receivers, ..self }
    }

    /// Time from handing a window to the network until its first answer: n d + a + i.
    pub fn first_answer(&self) -> Duration {
        self.answers.0 + self.answers.1
    }

    /// Time until all receivers have answered: n d + a r + i.
    pub fn all_answers(&self) -> Duration {
        self.answers.0 + self.answers.1 * self.receivers
    }

    /// Initial timeout.
    pub fn timeout(&self) -> Duration {
        self.timeout.0 + self.timeout.1 * self.receivers
    }
}

/// Parameters that [`Retransmission::new`] and [`super::AckWait`] read, with the same meaning in every protocol. The
/// protocol declares `timeout_method`, `timeout` and `retransmission_limit` with its own formula and defaults.
pub mod parameters {
    use super::Parameter;

    /// Random wait before acknowledgments.
    pub const ACK_WAIT: Parameter = Parameter::span("ack_wait", "0 bit")
        .doc("upper end R of the random wait before an acknowledgment, drawn uniformly from [0, R] in bit times (SAWRANDWAIT, BAPRANDWAIT)");
    /// Method that sets the random wait before acknowledgments.
    pub const ACK_WAIT_METHOD: Parameter = Parameter::choice("ack_wait_method", &["constant", "adaptive"], "constant")
        .doc("constant: R is ack_wait (the thesis); adaptive: the sender measures over what time acknowledgments are spread and says in every message what R is, starting at ack_wait (Carillon's)");
    /// Size of acknowledgments.
    pub const ACK_BYTES: Parameter = Parameter::size("ack_bytes", (0, 1518), "64").doc(
        "size of an acknowledgment on the link, all headers included; shorter ones are padded (ACKPKTSIZE)",
    );
    /// Lower bound of an adaptive timeout.
    pub const TIMEOUT_MIN: Parameter = Parameter::span("timeout_min", "1 ms").doc("least adaptive timeout");
    /// Upper bound of an adaptive timeout.
    pub const TIMEOUT_MAX: Parameter = Parameter::span("timeout_max", "1 s").doc("greatest adaptive timeout");
    /// Action past the retransmission limit.
    pub const PAST_LIMIT: Parameter = Parameter::choice("past_limit", &["skip", "expel", "wait"], "skip")
        .doc("past the limit: skip what was not acknowledged (the thesis), expel the receivers that miss it, or wait: send it again until they have left (both Carillon's; delivery waits)");
}

#[cfg(test)]
mod tests {
    use super::parameters::{ACK_BYTES, ACK_WAIT, ACK_WAIT_METHOD, PAST_LIMIT, TIMEOUT_MAX, TIMEOUT_MIN};
    use super::*;
    use crate::blocks::context::tests::build_context;

    const PARAMETERS: &[Parameter] = &[
        ACK_WAIT,
        ACK_WAIT_METHOD,
        ACK_BYTES,
        TIMEOUT_MIN,
        TIMEOUT_MAX,
        PAST_LIMIT,
        Parameter::choice("timeout_method", &["formula", "constant", "adaptive"], "formula"),
        Parameter::choice("feedback", &["ack", "nak"], "ack"),
        Parameter::span("timeout", "1000 bit"),
        Parameter::count("retransmission_limit", (0, 1 << 20), "3"),
    ];

    fn settings(pairs: &[(&str, &str)]) -> Config {
        let mut settings = Config::defaults(PARAMETERS);
        pairs.iter().for_each(|(key, value)| settings.set(PARAMETERS, key, value).expect("a setting"));
        settings
    }

    fn read(pairs: &[(&str, &str)], window: u64, ack_delay: Duration) -> Result<Retransmission, ConfigError> {
        let (context, settings) = (build_context(10), settings(pairs));
        Retransmission::new(&context, &settings, 16, window, ack_delay)?.with_ack_wait(&context, &settings)
    }

    #[test]
    fn formula_is_that_of_segovia_1996() {
        let (context, ms) = (build_context(10), Duration::from_millis(1));
        let bits = |bits: u64| context.bit_rate.time_for_bits(bits);
        let data = u64::from(context.max_payload) + u64::from(context.link_overhead) + 16;
        for (window, receivers) in [(1, 1), (1, 60), (8, 20)] {
            // The formula is n d + R + delay + i plus an acknowledgment of each receiver.
            let read = read(&[("ack_wait", "500 bit"), ("ack_bytes", "100")], window, ms).expect("settings");
            let read = read.for_receivers(receivers);
            let (sent, acks) = (bits(data * 8 * window) + bits(500), bits(800) * receivers);
            assert_eq!(read.timeout(), sent + ms + bits(1000) + acks);
            assert_eq!((read.first_answer(), read.all_answers()), (sent + bits(800), sent + acks));
        }
        let constant = read(&[("timeout_method", "constant"), ("timeout", "7 ms")], 8, ms).expect("settings");
        assert_eq!((constant.timeout(), constant.for_receivers(99).timeout()), (ms * 7, ms * 7));
    }

    #[test]
    fn limit_bounds_retransmissions_unless_waiting() {
        for (past, goes_on) in [("skip", false), ("expel", false), ("wait", true)] {
            let read = read(&[("past_limit", past)], 1, Duration::ZERO).expect("settings");
            assert!(!read.is_exceeded(0) && !read.is_exceeded(3));
            assert_eq!((read.is_exceeded(4), read.is_exceeded(u32::MAX)), (!goes_on, !goes_on));
        }
    }

    #[test]
    fn contradictory_settings_are_refused() {
        for wrong in [
            &[("timeout_method", "constant"), ("timeout", "0 bit")][..],
            &[("timeout_min", "2 s")],
            &[("timeout_min", "0 s")],
            &[("ack_wait_method", "adaptive"), ("feedback", "nak")],
        ] {
            assert!(matches!(read(wrong, 1, Duration::ZERO), Err(ConfigError::Conflict(_))), "{wrong:?}");
        }
        let adaptive = read(&[("ack_wait_method", "adaptive")], 1, Duration::ZERO).expect("settings");
        assert_eq!(adaptive.adaptive_wait, Some(Duration::ZERO));
    }
}
