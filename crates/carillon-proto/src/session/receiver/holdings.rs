//! Answer of a receiver to the sender's question about its holdings.
//!
//! The application answers with some bytes. They leave in parts, a few of them ahead of the acknowledgment, and are
//! repeated from the first unacknowledged one (go-back-N). The answer to a new question replaces the former one.

use carillon_core::{Duration, Time, Timers};
use carillon_wire::session::HoldingsPart;

use super::outbox::Pending;
use super::state::Timer;
use super::{ReceiverPhase, ReceiverSession};

/// Answer that is being sent.
#[derive(Debug, Default)]
pub(super) struct HoldingsAnswer {
    question: u32,
    bytes: Vec<u8>,
    /// Bytes that the sender has acknowledged, and bytes sent since the last repetition.
    acknowledged: usize,
    sent: usize,
    pub timers: Timers<Timer>,
}

impl HoldingsAnswer {
    /// Next part, if one may be sent.
    pub fn next(&mut self) -> Option<HoldingsPart<'_>> {
        let end = self.bytes.len().min(self.acknowledged + WINDOW_PARTS * HoldingsPart::MAX_LEN);
        let (from, to) = (self.sent, end.min(self.sent + HoldingsPart::MAX_LEN));
        self.sent = to;
        let total = self.bytes.len() as u32;
        HoldingsPart::new(self.question, total, from as u32, self.bytes.get(from..to)?).ok()
    }

    /// Ends the answer.
    pub fn end(&mut self) {
        self.timers.clear();
        (self.bytes, self.acknowledged, self.sent) = (Vec::new(), 0, 0);
    }
}

impl ReceiverSession {
    /// Answers a question of the sender: `bytes` are 1 to [`HoldingsPart::MAX_TOTAL`], and others are not sent. Does
    /// nothing outside a running session. Drain the session afterwards.
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

/// Maximum number of unacknowledged parts.
const WINDOW_PARTS: usize = 8;
/// Time without an acknowledgment after which the answer is repeated.
const REPEAT_INTERVAL: Duration = Duration::from_millis(200);
