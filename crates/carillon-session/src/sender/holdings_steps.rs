//! Steps of a sender that collects the members' answers about their holdings.

use carillon_core::{DropReason, NodeId, Time};
use carillon_wire::session::{HoldingsPart, Nonce};

use super::SenderSession;
use super::state::Reply;

impl SenderSession {
    /// Complete answer of a member to this question.
    pub fn holdings(&self, node: NodeId, question: u32) -> Option<&[u8]> {
        self.roster.record(self.roster.index_of(node)?).holdings.complete(question)
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
        if !self.config.job.asks || self.roster.members()[index].list.is_none() {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        self.heard(now, index);
        if !self.roster.record_mut(index).holdings.take(&part) {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        self.answering.replies.insert(source, Reply::HoldingsAck);
    }
}
