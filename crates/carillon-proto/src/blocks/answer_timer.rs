//! Time that a sender gives its group to answer: the retransmission timeout plus the random wait of receivers.

use std::time::Duration;

use carillon_core::Time;

use super::{AdaptiveWait, Retransmission, RetransmissionTimeout};

/// Retransmission timeout with the adaptive wait before acknowledgments, if configured.
#[derive(Clone, Debug)]
pub struct AnswerTimer {
    /// Estimator of the time for packet and answer without the wait.
    timeout: RetransmissionTimeout,
    /// Estimator of the wait that receivers are to use.
    wait: Option<AdaptiveWait>,
}

impl AnswerTimer {
    /// Creates the timer of this configuration.
    pub fn new(config: &Retransmission) -> Self {
        let timeout = RetransmissionTimeout::new(config);
        AnswerTimer { timeout, wait: config.adaptive_wait.map(AdaptiveWait::new) }
    }

    /// Records an answer this long after the only transmission.
    pub fn on_answer(&mut self, elapsed: Duration) {
        if let Some(wait) = &mut self.wait {
            wait.on_answer(elapsed);
        }
    }

    /// Ends a round: all have answered, or the others are polled again.
    pub fn on_round_end(&mut self) {
        if let Some(wait) = &mut self.wait {
            wait.on_round_end();
        }
    }

    /// Timeout estimator, to report samples and expiries to.
    pub fn timeout_mut(&mut self) -> &mut RetransmissionTimeout {
        &mut self.timeout
    }

    /// Deadline of a group that is polled now.
    pub fn deadline(&self, now: Time) -> Time {
        // A receiver may use its whole wait before the answer departs.
        now + self.timeout.current() + self.wait.as_ref().map_or(Duration::ZERO, AdaptiveWait::current)
    }

    /// Wait in nanoseconds for packets to carry, if it adapts.
    pub fn ack_wait_nanos(&self) -> Option<u32> {
        self.wait.as_ref().map(AdaptiveWait::current_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::TimeoutMethod;

    #[test]
    fn deadline_is_timeout_plus_adaptive_wait() {
        let ms = Duration::from_millis;
        let timeout = RetransmissionTimeout::with(TimeoutMethod::Adaptive, ms(100), ms(1), ms(1000));
        let mut plain = AnswerTimer { timeout: timeout.clone(), wait: None };
        assert_eq!((plain.deadline(Time::ZERO), plain.ack_wait_nanos()), (Time::ZERO + ms(100), None));
        plain.timeout_mut().on_expiry();
        assert_eq!(plain.deadline(Time::ZERO), Time::ZERO + ms(200));
        let mut timer = AnswerTimer { timeout, wait: Some(AdaptiveWait::new(ms(5))) };
        assert_eq!(timer.deadline(Time::ZERO), Time::ZERO + ms(105));
        assert_eq!(timer.ack_wait_nanos(), Some(5_000_000));
        for answer in [ms(10), ms(33)] {
            timer.on_answer(answer);
        }
        timer.on_round_end();
        assert_eq!(timer.deadline(Time::ZERO), Time::ZERO + ms(120), "spread over 23 ms");
    }
}
