//! Answers of the members to the application's questions about their holdings.

use carillon_wire::session::HoldingsPart;

/// Answer of a member, as far as it has arrived without a gap.
#[derive(Clone, Debug, Default)]
pub(crate) struct HoldingsReceived {
    pub question: u32,
    total: u32,
    bytes: Vec<u8>,
}

impl HoldingsReceived {
    /// Takes a part of an answer, if it is the next one. Returns false if it is a part of another answer.
    pub fn take(&mut self, part: &HoldingsPart<'_>) -> bool {
        if part.question > self.question {
            *self = HoldingsReceived { question: part.question, total: part.total, bytes: Vec::new() };
        }
        if (part.question, part.total) != (self.question, self.total) {
            return false;
        }
        if part.offset as usize == self.bytes.len() {
            self.bytes.extend_from_slice(part.bytes);
        }
        true
    }

    /// Complete answer to this question.
    pub fn complete(&self, question: u32) -> Option<&[u8]> {
        let is_complete = self.question == question && self.bytes.len() == self.total as usize;
        (is_complete && self.total > 0).then_some(&self.bytes)
    }

    /// Question and number of bytes, for the acknowledgment.
    pub fn acknowledged(&self) -> (u32, u32) {
        (self.question, self.bytes.len() as u32)
    }
}
