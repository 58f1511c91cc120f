//! Received messages of each source, and their delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{BuildContext, Delivery, MessageId};

use super::config::Settings;
use super::context::Context;
use super::recovery::{Key, Recovery};
use crate::blocks::{Echo, KeptStream, memory_cost};

/// Message streams of all sources, including this member, and recovery of their losses.
#[derive(Debug)]
pub(super) struct Streams {
    settings: Arc<Settings>,
    /// Rank of this member.
    own: u32,
    rejoining: bool,
    /// Stream of each source, by rank.
    streams: BTreeMap<u32, KeptStream>,
    /// Memory cost of delivered messages that the application has not read, in bytes.
    waiting: usize,
    /// Sources with a message ready that waits for the application.
    ready: BTreeSet<u32>,
    /// Recovery of missing messages.
    pub recovery: Recovery,
    /// True if a source may wait for this member's status.
    pub report_due: bool,
}

impl Streams {
    /// Number of messages held.
    pub fn held(&self) -> u64 {
        self.streams.values().map(KeptStream::held).sum()
    }

    /// Creates empty streams.
    pub fn new(settings: Arc<Settings>, own: u32, build: &BuildContext) -> Self {
        Streams {
            recovery: Recovery::new(settings.clone(), own, &build.seeds),
            settings,
            own,
            rejoining: build.rejoining,
            streams: BTreeMap::new(),
            waiting: 0,
            ready: BTreeSet::new(),
            report_due: false,
        }
    }

    /// Stream of a source. A rejoining member starts it at the first message that it learns of.
    pub fn stream(&mut self, source: u32, sequence: u32) -> &mut KeptStream {
        let first = if self.rejoining && source != self.own { sequence } else { 0 };
        self.streams.entry(source).or_insert_with(|| KeptStream::new(first.into()))
    }

    /// Stream of a known source.
    pub fn get(&self, source: u32) -> Option<&KeptStream> {
        self.streams.get(&source)
    }

    /// Payload of a message that is here.
    pub fn payload(&self, (source, number): Key) -> Option<&Bytes> {
        self.get(source)?.payload(number)
    }

    /// Number of messages that this member has sent.
    pub fn sent(&self) -> u64 {
        self.get(self.own).map_or(0, KeptStream::next)
    }

    /// Number of messages ever stored. Unlike the known end, other members cannot inflate it.
    pub fn stored(&self) -> u64 {
        self.streams.values().map(KeptStream::stored).sum()
    }

    /// Entries of a session message, at most `most`: each member and the end of its stream here.
    pub fn report(&mut self, most: usize) -> Vec<(u32, u64, Echo)> {
        let (own, flow) = (self.own, self.settings.flow);
        let entries = self.streams.iter_mut().map(|(&rank, stream)| match flow {
            true => (rank, stream.mark_reported()),
            false => (rank, stream.next()),
        });
        let entries = entries.filter(|&(rank, next)| rank != own && next > 0);
        self.recovery.distances.next_report(most, entries)
    }

    /// Appends a message of this member; keeps the last `buffer` messages.
    pub fn push(&mut self, context: &mut Context, payload: Bytes) -> u64 {
        let stream = self.streams.entry(self.own).or_insert_with(|| KeptStream::new(0));
        let number = stream.push(payload);
        let base = stream.next().saturating_sub(self.settings.buffer);
        self.forget_before(context, self.own, base);
        number
    }

    /// Returns true if a message fits, with flow control. A message counts as lost while earlier ones fill the
    /// buffer, except for the next in order.
    pub fn has_room(&self, source: u32, number: u64, payload: &Bytes) -> bool {
        let Some(stream) = self.get(source).filter(|_| self.settings.flow && source != self.own) else {
            return true;
        };
        number <= stream.deliver()
            || (number < stream.deliver() + self.max_slots()
                && (stream.payload(number).is_some()
                    || stream.undelivered() + memory_cost(payload) <= self.share()))
    }

    /// Stores a message and delivers what is in order. Evicts the oldest messages of its source beyond its share of
    /// memory.
    pub fn store(&mut self, context: &mut Context, key: Key, payload: Bytes) {
        let ((source, number), share) = (key, self.share());
        while let Some(stream) = self.get(source).filter(|_| source != self.own)
            && stream.bytes() + memory_cost(&payload) > share
            && stream.base() < number
            && !(self.settings.flow && stream.base() >= stream.deliver())
        {
            self.forget_before(context, source, stream.base() + 1);
        }
        self.stream(source, 0).store(number, payload);
        self.deliver(context, source);
    }

    /// Learns that all messages of a source before `next` were sent. New ones are missing, except for `coming`, which
    /// has just arrived.
    pub fn extend_known(&mut self, context: &mut Context, source: u32, next: u64, coming: Option<u64>) {
        let stream = &self.streams[&source];
        let known = stream.next();
        // With flow control no source may be further ahead.
        let next = if self.settings.flow { next.min(stream.deliver() + self.max_slots()) } else { next };
        if source == self.own || next <= known {
            return;
        }
        let base = next.saturating_sub(self.max_slots());
        self.forget_before(context, source, base);
        self.stream(source, 0).extend(next);
        let missing = (known.max(base)..next).filter(|&number| Some(number) != coming);
        self.recovery.on_missing(context, source, missing);
    }

    /// Declares missing messages before `limit` lost.
    pub fn declare_lost_before(&mut self, context: &mut Context, source: u32, limit: u64) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        let (node, first) = (context.nodes[source as usize], stream.deliver());
        if first >= limit {
            return;
        }
        self.recovery.forget(source, first..limit);
        // A forged number may skip any number of unknown messages: report them together.
        let known = stream.next().clamp(first, limit);
        let named = limit.saturating_sub(MAX_NAMED_LOSSES).max(known);
        if named > known {
            context.unrecoverable(Some(node), known, named - known);
        }
        for number in (first..known).chain(named..limit) {
            let has_room =
                (context.waiting() as u64) < self.settings.buffer && self.waiting < self.settings.room;
            match stream.payload(number).cloned() {
                Some(payload) if has_room => {
                    self.waiting += memory_cost(&payload);
                    context.deliver(source as usize, number, payload);
                }
                _ if stream.mark_lost(number) => context.events.loss_final(node, MessageId(number)),
                _ => {}
            }
        }
        stream.advance_to(limit);
    }

    /// Declares a message lost that no member repairs.
    pub fn declare_lost(&mut self, context: &mut Context, (source, number): Key) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        if stream.mark_lost(number) {
            context.events.loss_final(context.nodes[source as usize], MessageId(number));
        }
        self.deliver(context, source);
    }

    /// Records the number of finished request and repair rounds of a message.
    pub fn set_rounds(&mut self, (source, number): Key, rounds: u8) {
        if let Some(stream) = self.streams.get_mut(&source) {
            stream.set_rounds(number, rounds);
        }
    }

    /// Delivers messages in order while the application has room.
    pub fn deliver(&mut self, context: &mut Context, source: u32) {
        let Some(stream) = self.streams.get_mut(&source).filter(|_| source != self.own) else { return };
        while (context.waiting() as u64) < self.settings.buffer && self.waiting < self.settings.room {
            let Some((number, payload)) = stream.take() else { break };
            self.waiting += memory_cost(&payload);
            context.deliver(source as usize, number, payload);
        }
        match stream.is_ready() {
            true => self.ready.insert(source),
            false => self.ready.remove(&source),
        };
        self.report_due |=
            self.settings.flow && stream.unreported() >= (self.settings.buffer / REPORTS_PER_BUFFER).max(1);
    }

    /// Next message for the application, which makes room for others.
    pub fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.waiting -= memory_cost(&delivery.payload);
        if let Some(&source) = self.ready.first() {
            self.deliver(context, source);
        }
        Some(delivery)
    }

    /// Drops messages before `base`.
    fn forget_before(&mut self, context: &mut Context, source: u32, base: u64) {
        let Some(old) = self.get(source).map(KeptStream::base).filter(|&old| old < base) else { return };
        self.declare_lost_before(context, source, base);
        self.recovery.forget(source, old..base);
        if let Some(stream) = self.streams.get_mut(&source) {
            stream.forget_before(base);
        }
    }

    /// Memory share of each source, in bytes.
    fn share(&self) -> usize {
        self.settings.room / self.streams.len().max(1)
    }

    /// Maximum number of messages kept or awaited per source. A missing message costs memory too.
    fn max_slots(&self) -> u64 {
        ((self.share() / BYTES_PER_SLOT).max(1) as u64).min(self.settings.buffer)
    }
}

/// Number of status reports per buffer of received messages, with flow control.
const REPORTS_PER_BUFFER: u64 = 4;
/// Memory per message slot, in bytes, with the timers and rounds of a missing one.
const BYTES_PER_SLOT: usize = 256;
/// Maximum number of unknown lost messages that are reported one by one.
const MAX_NAMED_LOSSES: u64 = 1 << 10;
