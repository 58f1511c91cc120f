//! What a member sends itself.

use std::sync::Arc;

use carillon_core::{BuildContext, DropReason, MessageId, Outcome, Transmit};
use carillon_wire::srm::{Data, Packet};

use super::config::Settings;
use super::context::Context;
use super::streams::Streams;
use crate::blocks::{FlowControl, Outgoing, SlowestMember};

/// Its messages that were not sent yet, and how far the others are with those that were, if it waits for them.
#[derive(Debug)]
pub(super) struct Source {
    settings: Arc<Settings>,
    pub outgoing: Outgoing,
    flow: Option<Box<SlowestMember>>,
}

impl Source {
    /// The sending side of the member of this rank.
    pub fn new(settings: Arc<Settings>, own: u32, build: &BuildContext) -> Self {
        let flow = || Box::new(SlowestMember::new(own, build.members.len(), settings.buffer));
        let flow = settings.flow.then(flow);
        Source { outgoing: Outgoing::new(MAX_QUEUED_MESSAGES, build.rejoining), flow, settings }
    }

    /// With flow control: a member says which of this member's messages it lacks first.
    pub fn on_report(&mut self, context: &mut Context, streams: &Streams, rank: u32, next: u32) {
        let (Some(flow), Some(stream)) = (&mut self.flow, streams.get(context.rank as u32)) else { return };
        let (sent, lacks) = (stream.next(), stream.expand(next));
        if lacks > sent {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let before = flow.start();
        flow.on_word(rank, lacks);
        self.complete(context, before, sent);
    }

    /// A member is gone.
    pub fn expel(&mut self, context: &mut Context, sent: u64, rank: u32) {
        let Some(flow) = &mut self.flow else { return };
        let before = flow.start();
        flow.remove(rank);
        self.complete(context, before, sent);
    }

    /// Whether the first message that some lack is held because of this member.
    pub fn awaits(&self, sent: u64, rank: u32) -> bool {
        self.flow.as_deref().is_some_and(|flow| flow.start() < sent && flow.awaits(rank))
    }

    /// What a member has.
    pub fn acknowledged(&self, rank: u32) -> Option<u64> {
        Some(self.flow.as_deref()?.has(rank))
    }

    /// Whether there is a message for which the members have room.
    pub fn is_ready(&self, sent: u64) -> bool {
        !self.outgoing.is_empty() && self.flow.as_deref().is_none_or(|flow| sent < flow.limit(0))
    }

    /// The next message.
    pub fn poll(
        &mut self,
        context: &mut Context,
        streams: &mut Streams,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.is_ready(streams.sent()) {
            return None;
        }
        let payload = self.outgoing.pop()?;
        let number = streams.push(context, payload.clone());
        let own = context.rank as u32;
        let data = Data { from: own, source: own, sequence: number as u32, payload: &payload };
        Packet::Data(data).emit(context.association, buf);
        Some(context.events.data_sent(context.to_group(), MessageId(number), buf.len(), false))
    }

    /// All members that are left have the messages from `before` on to which they now are.
    fn complete(&self, context: &mut Context, before: u64, sent: u64) {
        let now = self.flow.as_deref().map_or(0, SlowestMember::start);
        for number in before.min(sent)..now.min(sent) {
            let window = self.settings.buffer as u32;
            context.events.completed(MessageId(number), Outcome::Acknowledged, window);
        }
    }
}

/// Messages that wait for the interface or for their turn, at most.
const MAX_QUEUED_MESSAGES: u64 = 64;
