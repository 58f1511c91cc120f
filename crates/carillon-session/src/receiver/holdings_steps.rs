//! Steps of a receiver that answers the sender's question about its holdings.

use carillon_core::{Duration, Time};

use super::outbox::Pending;
use super::state::Timer;
use super::{ReceiverPhase, ReceiverSession};

impl ReceiverSession {
    /// Answers a question of the sender: `bytes` are 1 to
    /// [`MAX_TOTAL`](carillon_wire::session::HoldingsPart::MAX_TOTAL), and others are not sent. Does nothing outside a
    /// running session. Drain the session afterwards.
    pub fn answer_holdings(&mut self, now: Time, question: u32, bytes: Vec<u8>) {
        if self.phase != ReceiverPhase::Running {
            return;
        }
        let answer = &mut self.holdings;
        (answer.question, answer.bytes, answer.acknowledged, answer.sent) = (question, bytes, 0, 0);
        // Many receivers hear the question at the same time.
        answer.timers.arm(Timer::Holdings, now + self.random.answer_delay());
    }

    /// Sends the answer, again from the first byte that is not acknowledged.
    pub(super) fn on_holdings_timer(&mut self, now: Time) {
        self.holdings.sent = self.holdings.acknowledged;
        self.outbox.schedule(Pending::Holdings);
        self.holdings.timers.arm(Timer::Holdings, now + REPEAT_INTERVAL);
    }

    /// Handles an acknowledgment of the sender.
    pub(super) fn on_holdings_ack(&mut self, now: Time, question: u32, bytes: u32) {
        let (answer, bytes) = (&mut self.holdings, bytes as usize);
        if question != answer.question || bytes <= answer.acknowledged || bytes > answer.bytes.len() {
            return;
        }
        answer.acknowledged = bytes;
        answer.sent = answer.sent.max(bytes);
        if bytes == answer.bytes.len() {
            answer.end();
        } else {
            answer.timers.arm(Timer::Holdings, now + REPEAT_INTERVAL);
            self.outbox.schedule(Pending::Holdings);
        }
    }
}

/// Time without an acknowledgment after which the answer is repeated.
const REPEAT_INTERVAL: Duration = Duration::from_millis(200);
