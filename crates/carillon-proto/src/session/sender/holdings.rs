//! Answers of the members to the application's questions about their holdings.

use carillon_core::{DropReason, NodeId, Time};
use carillon_wire::session::{HoldingsPart, Nonce};

use super::SenderSession;
use super::state::Reply;

/// Answer of a member, as far as it has arrived without a gap.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct HoldingsReceived {
    pub question: u32,
    total: u32,
    bytes: Vec<u8>,
}

impl SenderSession {
    /// Complete answer of a member to this question.
    pub fn holdings(&self, node: NodeId, question: u32) -> Option<&[u8]> {
        let answer = &self.roster.record(self.roster.index_of(node)?).holdings;
        let is_complete = answer.question == question && answer.bytes.len() == answer.total as usize;
        (is_complete && answer.total > 0).then_some(&answer.bytes)
    }

    /// Time at which a member was last heard.
    pub fn heard_at(&self, node: NodeId) -> Option<Time> {
        self.roster.index_of(node).map(|index| self.roster.record(index).heard)
    }

    /// Handles a part of an answer. Parts behind a gap are repeated by the member, so only the next one counts.
    pub(super) fn on_holdings(&mut self, now: Time, source: NodeId, nonce: Nonce, part: HoldingsPart<'_>) {
        let Some(index) = self.member(source, nonce) else { return };
        if self.roster.record(index).expelled {
            return self.refuse_expelled(now, index);
        }
        // A member without a list does not answer, and its answer would only take memory.
        if !self.config.asks || self.roster.members()[index].list.is_none() {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        self.heard(now, index);
        let answer = &mut self.roster.record_mut(index).holdings;
        if part.question > answer.question {
            *answer = HoldingsReceived { question: part.question, total: part.total, bytes: Vec::new() };
        }
        if (part.question, part.total) != (answer.question, answer.total) {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        if part.offset as usize == answer.bytes.len() {
            answer.bytes.extend_from_slice(part.bytes);
        }
        self.answering.replies.insert(source, Reply::HoldingsAck);
    }
}

impl HoldingsReceived {
    /// Question and number of bytes, for the acknowledgment.
    pub fn acknowledged(&self) -> (u32, u32) {
        (self.question, self.bytes.len() as u32)
    }
}
