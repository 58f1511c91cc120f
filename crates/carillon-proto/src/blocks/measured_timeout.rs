//! Timeout of requests that each get an answer, measured from the answers to unrepeated requests.

use std::time::Duration;

use carillon_core::Time;

use super::{RetransmissionTimeout, TimeoutMethod};

/// Timeout of requests with the key `K`, which their answers repeat.
///
/// The timeout is a [`RetransmissionTimeout`] that takes its samples itself: an answer gives one if its request was
/// sent once (Karn and Partridge 1987). A fixed timeout stays at its first value.
#[derive(Clone, Debug)]
pub struct MeasuredTimeout<K> {
    timeout: RetransmissionTimeout,
    /// Request that was sent once and has no answer, and its time.
    open: Option<(K, Time)>,
    /// Last request: the same one again is a repetition.
    last: Option<K>,
}

impl<K: Copy + PartialEq> MeasuredTimeout<K> {
    /// Creates a timeout with this first value. If `is_measured`, it follows the samples, not below `min`.
    pub fn new(first: Duration, min: Duration, is_measured: bool) -> Self {
        let method = if is_measured { TimeoutMethod::Adaptive } else { TimeoutMethod::Constant };
        let (min, max) = (min.min(first), first.saturating_mul(MAX_FIRST_VALUES));
        MeasuredTimeout {
            timeout: RetransmissionTimeout::with(method, first, min, max).sparing_round_trips(),
            open: None,
            last: None,
        }
    }

    /// Records that a request was sent.
    pub fn on_request(&mut self, now: Time, key: K) {
        let is_repeated = self.last.replace(key) == Some(key);
        self.open = (!is_repeated).then_some((key, now));
    }

    /// Records the answer to a request.
    pub fn on_answer(&mut self, now: Time, key: K) {
        // An answer to a repeated request does not end the back-off: on a path longer than the timeout, every request
        // would then be repeated, and none would give a sample.
        if let Some((_, since)) = self.open.take_if(|(asked, _)| *asked == key) {
            self.timeout.on_sample(now.since(since));
        }
    }

    /// Doubles the timeout until the next sample, as a request stays unanswered.
    pub fn on_expiry(&mut self) {
        self.timeout.on_expiry();
    }

    /// Present timeout.
    pub fn current(&self) -> Duration {
        self.timeout.current()
    }
}

/// Upper bound of the timeout, in first values, unless the measured time itself is longer.
const MAX_FIRST_VALUES: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u32) -> Time {
        Time::ZERO + MS * millis
    }

    #[test]
    fn only_answers_to_unrepeated_requests_are_samples() {
        let mut timeout = MeasuredTimeout::new(50 * MS, MS, true);
        timeout.on_request(at(0), 1);
        timeout.on_request(at(50), 1);
        timeout.on_answer(at(60), 1);
        assert_eq!(timeout.current(), 50 * MS, "the answer may be to either");
        timeout.on_request(at(100), 2);
        timeout.on_answer(at(105), 1);
        assert_eq!(timeout.current(), 50 * MS, "a late answer to another request");
        timeout.on_answer(at(120), 2);
        assert_eq!(timeout.current(), 60 * MS, "RFC 6298 (2.2): R + 4 R/2");
        timeout.on_answer(at(121), 2);
        assert_eq!(timeout.current(), 60 * MS, "an answer is taken once");
    }

    #[test]
    fn unanswered_requests_double_timeout_until_a_sample() {
        let mut timeout = MeasuredTimeout::new(50 * MS, MS, true);
        (0..9).for_each(|_| timeout.on_expiry());
        assert_eq!(timeout.current(), 400 * MS);
        timeout.on_request(at(0), 1);
        timeout.on_answer(at(600), 1);
        assert_eq!(timeout.current(), 750 * MS, "a long path may exceed the bound of the back-off");
        (0..99).for_each(|key| {
            timeout.on_request(at(0), key);
            timeout.on_answer(at(0), key);
        });
        assert_eq!(timeout.current(), MS);
        timeout.on_request(at(0), 100);
        timeout.on_expiry();
        timeout.on_request(at(1), 100);
        assert_eq!(timeout.current(), 2 * MS);
        timeout.on_answer(at(2), 100);
        assert_eq!(timeout.current(), 2 * MS, "the answer may be to either");
        timeout.on_request(at(3), 101);
        timeout.on_answer(at(3), 101);
        assert_eq!(timeout.current(), MS);
    }

    #[test]
    fn fixed_timeout_stays() {
        let mut timeout = MeasuredTimeout::new(50 * MS, MS, false);
        timeout.on_request(at(0), 1);
        timeout.on_answer(at(20), 1);
        timeout.on_expiry();
        assert_eq!(timeout.current(), 50 * MS);
    }
}
