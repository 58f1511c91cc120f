//! What a member has of the messages of each source, and what of it goes to the application.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{BuildContext, Delivery, MessageId};

use super::config::Settings;
use super::context::Context;
use super::recovery::{Key, Recovery};
use crate::blocks::{Echo, KeptStream, cost};

/// The messages of all sources, this member's own too: what is here, and recovery of what is missing.
#[derive(Debug)]
pub(super) struct Streams {
    settings: Arc<Settings>,
    /// Rank of this member.
    own: u32,
    rejoining: bool,
    /// By the rank of their source.
    streams: BTreeMap<u32, KeptStream>,
    /// What those cost in memory that wait for the application.
    waiting: usize,
    /// Sources whose next message is here and waits for the application.
    ready: BTreeSet<u32>,
    /// What is missing.
    pub recovery: Recovery,
    /// A source may be waiting to hear how far this member is.
    pub report_due: bool,
}

impl Streams {
    /// Messages that are here.
    pub fn held(&self) -> u64 {
        self.streams.values().map(KeptStream::held).sum()
    }

    /// Nothing was sent.
    pub fn new(settings: Arc<Settings>, own: u32, build: &BuildContext) -> Self {
        Streams {
            recovery: Recovery::new(settings.clone(), own, build.seeds.clone()),
            settings,
            own,
            rejoining: build.rejoining,
            streams: BTreeMap::new(),
            waiting: 0,
            ready: BTreeSet::new(),
            report_due: false,
        }
    }

    /// The messages of a source. One that comes back begins with what it hears of first.
    pub fn stream(&mut self, source: u32, sequence: u32) -> &mut KeptStream {
        let first = if self.rejoining && source != self.own { sequence } else { 0 };
        self.streams.entry(source).or_insert_with(|| KeptStream::new(first.into()))
    }

    /// The same of a source that was heard of.
    pub fn get(&self, source: u32) -> Option<&KeptStream> {
        self.streams.get(&source)
    }

    /// A message that is here.
    pub fn payload(&self, (source, number): Key) -> Option<&Bytes> {
        self.get(source)?.payload(number)
    }

    /// How many messages this member has sent.
    pub fn sent(&self) -> u64 {
        self.get(self.own).map_or(0, KeptStream::next)
    }

    /// How many messages have been here: others may say that there are more than there are.
    pub fn stored(&self) -> u64 {
        self.streams.values().map(KeptStream::stored).sum()
    }

    /// What a session message with so many entries tells: of each member, how much of its messages has come.
    pub fn report(&mut self, most: usize) -> Vec<(u32, u64, Echo)> {
        let (own, flow) = (self.own, self.settings.flow);
        let told = self.streams.iter_mut().map(|(&rank, stream)| match flow {
            true => (rank, stream.tell()),
            false => (rank, stream.next()),
        });
        let told = told.filter(|&(rank, next)| rank != own && next > 0);
        self.recovery.distances.next_report(most, told)
    }

    /// This member sends a message; the last ones are kept.
    pub fn push(&mut self, context: &mut Context, payload: Bytes) -> u64 {
        let stream = self.streams.entry(self.own).or_insert_with(|| KeptStream::new(0));
        let number = stream.push(payload);
        let base = stream.next().saturating_sub(self.settings.buffer);
        self.forget_before(context, self.own, base);
        number
    }

    /// With flow control: whether a message has a place. What is still to be delivered makes no room for
    /// what comes after it, which is as good as lost; but for the one that is next.
    pub fn has_room(&self, source: u32, number: u64, payload: &Bytes) -> bool {
        let Some(stream) = self.get(source).filter(|_| self.settings.flow && source != self.own) else {
            return true;
        };
        number <= stream.deliver()
            || (number < stream.deliver() + self.max_slots()
                && (stream.payload(number).is_some() || stream.undelivered() + cost(payload) <= self.share()))
    }

    /// Keeps a message, and delivers what it makes deliverable; the oldest of its source make room for it.
    pub fn store(&mut self, context: &mut Context, key: Key, payload: Bytes) {
        let ((source, number), share) = (key, self.share());
        while let Some(stream) = self.get(source).filter(|_| source != self.own)
            && stream.bytes() + cost(&payload) > share
            && stream.base() < number
            && !(self.settings.flow && stream.base() >= stream.deliver())
        {
            self.forget_before(context, source, stream.base() + 1);
        }
        self.stream(source, 0).store(number, payload);
        self.deliver(context, source);
    }

    /// All messages of a source before `next` were sent. Those not known before are missing, but for
    /// the one that has just come.
    pub fn extend_known(&mut self, context: &mut Context, source: u32, next: u64, coming: Option<u64>) {
        let stream = &self.streams[&source];
        let known = stream.next();
        // No source that waits for its members is further ahead of this one.
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

    /// What is still missing before `limit` will not come any more.
    pub fn declare_lost_before(&mut self, context: &mut Context, source: u32, limit: u64) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        let (node, first) = (context.nodes[source as usize], stream.deliver());
        if first >= limit {
            return;
        }
        self.recovery.forget(source, first..limit);
        // Messages that nobody ever heard of are not named one by one: they may be as many as one likes.
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
                    self.waiting += cost(&payload);
                    context.deliver(source as usize, number, payload);
                }
                _ if stream.give_up(number) => context.events.loss_final(node, MessageId(number)),
                _ => {}
            }
        }
        stream.pass_to(limit);
    }

    /// A message that nobody answers for is given up.
    pub fn declare_lost(&mut self, context: &mut Context, (source, number): Key) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        if stream.give_up(number) {
            context.events.loss_final(context.nodes[source as usize], MessageId(number));
        }
        self.deliver(context, source);
    }

    /// So many rounds of requests and repairs of a message are over.
    pub fn set_rounds(&mut self, (source, number): Key, rounds: u8) {
        if let Some(stream) = self.streams.get_mut(&source) {
            stream.set_rounds(number, rounds);
        }
    }

    /// Hands over what is next in order, while the application takes it.
    pub fn deliver(&mut self, context: &mut Context, source: u32) {
        let Some(stream) = self.streams.get_mut(&source).filter(|_| source != self.own) else { return };
        while (context.waiting() as u64) < self.settings.buffer && self.waiting < self.settings.room {
            let Some((number, payload)) = stream.take() else { break };
            self.waiting += cost(&payload);
            context.deliver(source as usize, number, payload);
        }
        match stream.is_ready() {
            true => self.ready.insert(source),
            false => self.ready.remove(&source),
        };
        self.report_due |=
            self.settings.flow && stream.untold() >= (self.settings.buffer / REPORTS_PER_BUFFER).max(1);
    }

    /// The next message for the application, which makes room for others.
    pub fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.waiting -= cost(&delivery.payload);
        if let Some(&source) = self.ready.first() {
            self.deliver(context, source);
        }
        Some(delivery)
    }

    /// Messages before `base` are kept no longer.
    fn forget_before(&mut self, context: &mut Context, source: u32, base: u64) {
        let Some(old) = self.get(source).map(KeptStream::base).filter(|&old| old < base) else { return };
        self.declare_lost_before(context, source, base);
        self.recovery.forget(source, old..base);
        if let Some(stream) = self.streams.get_mut(&source) {
            stream.forget_before(base);
        }
    }

    /// Bytes that the messages of one source may take.
    fn share(&self) -> usize {
        self.settings.room / self.streams.len().max(1)
    }

    /// Messages of one source that a member keeps or waits for: a place costs something too, whether its
    /// message ever comes or not.
    fn max_slots(&self) -> u64 {
        ((self.share() / BYTES_PER_SLOT).max(1) as u64).min(self.settings.buffer)
    }
}

/// A member says what it has when so manyth of a window has come since it last did.
const REPORTS_PER_BUFFER: u64 = 4;
/// Bytes that a place takes, and the timers and rounds of a message that is missing from it.
const BYTES_PER_SLOT: usize = 256;
/// Messages given up that are named one by one, of those nobody had heard of.
const MAX_NAMED_LOSSES: u64 = 1 << 10;
