//! Sending side of a member.

use std::sync::Arc;

use carillon_core::{BuildContext, DropReason, MessageId, Outcome, Transmit};
use carillon_wire::srm::{Data, Packet};

use super::config::Settings;
use super::context::Context;
use super::streams::Streams;
use crate::blocks::{FlowControl, Outgoing, SlowestMember};

/// Unsent messages, and with flow control the progress of the other members.
#[derive(Debug)]
pub(super) struct Source {
    settings: Arc<Settings>,
    pub outgoing: Outgoing,
    flow: Option<Box<SlowestMember>>,
}

impl Source {
    /// Creates the sending side of the member with this rank.
    pub fn new(settings: Arc<Settings>, own: u32, build: &BuildContext) -> Self {
        let flow = || Box::new(SlowestMember::new(own, build.members.len(), settings.buffer));
        let flow = settings.flow.then(flow);
        Source { outgoing: Outgoing::new(MAX_QUEUED_MESSAGES, build.rejoining), flow, settings }
    }

    /// Handles the first missing message that a member reports, for flow control.
    pub fn on_report(&mut self, context: &mut Context, streams: &Streams, rank: u32, next: u32) {
        let (Some(flow), Some(stream)) = (&mut self.flow, streams.get(context.rank as u32)) else { return };
        let (sent, first_missing) = (stream.next(), stream.expand(next));
        if first_missing > sent {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let before = flow.start();
        flow.on_report(rank, first_missing);
        self.complete(context, before, sent);
    }

    /// Stops waiting for an expelled member.
    pub fn expel(&mut self, context: &mut Context, sent: u64, rank: u32) {
        let Some(flow) = &mut self.flow else { return };
        let before = flow.start();
        flow.remove(rank);
        self.complete(context, before, sent);
    }

    /// Returns true if the window is blocked by this member.
    pub fn awaits(&self, sent: u64, rank: u32) -> bool {
        self.flow.as_deref().is_some_and(|flow| flow.start() < sent && flow.awaits(rank))
    }

    /// Acknowledged prefix of a member; `None` without flow control.
    pub fn acknowledged(&self, rank: u32) -> Option<u64> {
        Some(self.flow.as_deref()?.has(rank))
    }

    /// Returns true if a message waits and all members have room for it.
    pub fn is_ready(&self, sent: u64) -> bool {
        !self.outgoing.is_empty() && self.flow.as_deref().is_none_or(|flow| sent < flow.limit(0))
    }

    /// Emits the next message.
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

    /// Completes the messages that all remaining members hold, from `before` on.
    fn complete(&self, context: &mut Context, before: u64, sent: u64) {
        let now = self.flow.as_deref().map_or(0, SlowestMember::start);
        for number in before.min(sent)..now.min(sent) {
            let window = self.settings.buffer as u32;
            context.events.completed(MessageId(number), Outcome::Acknowledged, window);
        }
    }
}

/// Maximum number of messages queued before they are sent.
const MAX_QUEUED_MESSAGES: u64 = 64;
