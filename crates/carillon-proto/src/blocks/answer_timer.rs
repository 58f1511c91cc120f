//! How long a sender waits until a group has answered: its timeout, and the random wait that it tells receivers.

use std::time::Duration;

use carillon_core::Time;

use super::{AdaptiveWait, Retransmission, RetransmissionTimeout};

/// A retransmission timeout, and the wait before acknowledgments if that finds its own length.
#[derive(Clone, Debug)]
pub struct AnswerTimer {
    timeout: RetransmissionTimeout,
    /// Tells receivers how long to wait before they acknowledge.
    wait: Option<AdaptiveWait>,
}

impl AnswerTimer {
    /// As configured.
    pub fn new(config: &Retransmission) -> Self {
        let timeout = RetransmissionTimeout::new(config);
        AnswerTimer { timeout, wait: config.adaptive_wait.map(AdaptiveWait::new) }
    }

    /// A receiver has answered so long after the only transmission.
    pub fn on_answer(&mut self, elapsed: Duration) {
        if let Some(wait) = &mut self.wait {
            wait.on_answer(elapsed);
        }
    }

    /// All have answered, or those that have not are asked again.
    pub fn on_round_end(&mut self) {
        if let Some(wait) = &mut self.wait {
            wait.on_round_end();
        }
    }

    /// The timeout, to be told of samples and expiries.
    pub fn timeout_mut(&mut self) -> &mut RetransmissionTimeout {
        &mut self.timeout
    }

    /// When a group that is asked now has had its time.
    pub fn deadline(&self, now: Time) -> Time {
        now + self.timeout.current() + self.wait.as_ref().map_or(Duration::ZERO, AdaptiveWait::current)
    }

    /// What packets say of the wait, if it adapts.
    pub fn ack_wait_nanos(&self) -> Option<u32> {
        self.wait.as_ref().map(AdaptiveWait::current_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::TimeoutMethod;

    #[test]
    fn a_group_has_the_timeout_and_the_wait_that_it_is_told() {
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
