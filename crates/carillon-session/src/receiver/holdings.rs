//! Answer of a receiver to the sender's question about its holdings.
//!
//! The application answers with some bytes. They leave in parts, a few of them ahead of the acknowledgment, and are
//! repeated from the first unacknowledged one (go-back-N). The answer to a new question replaces the former one.

use carillon_core::Timers;
use carillon_wire::session::HoldingsPart;

use super::state::Timer;

/// Answer that is being sent.
#[derive(Debug, Default)]
pub(super) struct HoldingsAnswer {
    pub question: u32,
    pub bytes: Vec<u8>,
    /// Bytes that the sender has acknowledged, and bytes sent since the last repetition.
    pub acknowledged: usize,
    pub sent: usize,
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

/// Maximum number of unacknowledged parts.
const WINDOW_PARTS: usize = 8;
