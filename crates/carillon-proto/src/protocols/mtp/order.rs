//! The total order as one member holds it: incomplete messages, their status, the log, and the application's progress.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_core::{BuildContext, Event, MessageId, Outcome, Time};
use carillon_wire::mtp::{Acceptance, HORIZON, Mark, Status};

use super::assembly::Assembly;
use super::config::{MAX_FETCHED_HISTORIES, MAX_OWED_HISTORIES, Settings};
use super::context::{Context, Timer};
use crate::blocks::reformation::View;
use crate::blocks::{OrderLog, Outbox, Placed, Until, ViewOrder};

/// Message of the application with its place in the order.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Rank of the source.
    pub source: usize,
    /// Number among the messages of its source.
    pub message: u64,
    pub payload: Bytes,
}

impl Placed for Entry {
    fn message(&self) -> Option<(usize, u64)> {
        Some((self.source, self.message))
    }
}

/// MTP message in the log.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Place of its first packet.
    start: u64,
    len: u16,
    source: usize,
    stream: u8,
    /// Time at which it was complete.
    since: Time,
}

/// Data packet as it is kept for repairs.
#[derive(Debug)]
pub(super) struct Kept<'a> {
    pub source: usize,
    pub stream: u8,
    pub number: u64,
    pub payload: &'a Bytes,
    pub is_last: bool,
}

/// Effect of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    New,
    Duplicate,
    NoRoom,
    Invalid,
}

/// Messages as one member holds them. MTP messages count from 0 in each view.
#[derive(Debug)]
pub(super) struct Order {
    settings: Settings,
    pub log: OrderLog<Entry, ()>,
    pub outbox: Outbox,
    /// MTP messages of which packets are here and that are not in the log.
    assemblies: BTreeMap<u64, Assembly>,
    /// Decisions of the master.
    decided: BTreeMap<u64, Status>,
    /// MTP messages in the log.
    runs: BTreeMap<u64, Run>,
    /// First MTP message that is neither in the log nor rejected.
    next: u64,
    /// MTP message after the last one known.
    horizon: u64,
    /// First MTP message that is not decided here or not in the log.
    settled: u64,
    /// Place before which messages may be delivered.
    accepted: u64,
    /// Number of delivered messages of this member without one of another in between.
    own_run: u64,
}

impl Order {
    /// Creates an empty order.
    pub fn new(build: &BuildContext, settings: &Settings) -> Self {
        Order {
            log: OrderLog::new(build.members.len()),
            outbox: Outbox::new(settings.queue, Until::Delivered, build.max_payload as usize),
            settings: settings.clone(),
            assemblies: BTreeMap::new(),
            decided: BTreeMap::new(),
            runs: BTreeMap::new(),
            next: 0,
            horizon: 0,
            settled: 0,
            accepted: 0,
            own_run: 0,
        }
    }

    /// Begins at this MTP message, as a member that joins late.
    pub fn begin_at(&mut self, message: u64) {
        (self.next, self.settled) = (message, message);
        self.horizon = self.horizon.max(message);
    }

    /// Stores a data packet.
    pub fn on_data(
        &mut self,
        context: &Context,
        (message, packet): (u64, u16),
        (source, stream): (usize, u8),
        mark: Mark,
        (number, payload): (u64, Bytes),
    ) -> Effect {
        if message < self.next {
            return Effect::Duplicate;
        }
        if packet >= self.settings.batch {
            return Effect::Invalid;
        }
        // The producer's own message is in its queue anyway.
        if source != context.rank && !self.has_room(context, message) {
            return Effect::NoRoom;
        }
        self.see(message + 1);
        let now = context.now;
        let assembly = self.assemblies.entry(message).or_insert_with(|| Assembly::new(source, stream, now));
        if assembly.source != source || assembly.len.is_some_and(|len| packet >= len) {
            return Effect::Invalid;
        }
        if assembly.packets.contains_key(&packet) {
            return Effect::Duplicate;
        }
        if mark == Mark::EndOfMessage {
            if assembly.packets.last_key_value().is_some_and(|(&last, _)| last > packet) {
                return Effect::Invalid;
            }
            assembly.len = Some(packet + 1);
        }
        assembly.packets.insert(packet, (number, payload));
        assembly.heard = now;
        self.advance(now);
        Effect::New
    }

    /// Takes the decisions that a packet's acceptance record states for the messages before `message`.
    pub fn on_record(&mut self, now: Time, message: u64, status: &[Status; HORIZON]) {
        for (back, &status) in (1..).zip(status) {
            if let Some(decided) = message.checked_sub(back).filter(|&decided| decided >= self.settled) {
                self.decide(decided, status);
            }
        }
        self.advance(now);
    }

    /// Notes that all messages before `end` exist.
    pub fn see(&mut self, end: u64) {
        // A forged number must not make the member look for millions of messages.
        self.horizon = self.horizon.max(end.min(self.next + MAX_AHEAD));
    }

    /// Records a decision of the master. The first one stays.
    pub fn decide(&mut self, message: u64, status: Status) {
        if status != Status::Pending && message < self.next + MAX_AHEAD {
            self.decided.entry(message).or_insert(status);
            self.horizon = self.horizon.max(message + 1);
        }
    }

    /// Extends the log by complete messages, and drops rejected ones.
    pub fn advance(&mut self, now: Time) {
        loop {
            let (message, decision) = (self.next, self.decided.get(&self.next));
            if decision == Some(&Status::Rejected) {
                self.assemblies.remove(&message);
                self.next += 1;
                continue;
            }
            // With an election the log holds undecided messages too, since a new master continues it. Otherwise the
            // master may still reject them.
            let may_enter = self.settings.election.is_some() || decision.is_some();
            let complete = self.assemblies.get(&message).is_some_and(Assembly::is_complete);
            if !may_enter || !complete {
                break;
            }
            let Some(assembly) = self.assemblies.remove(&message) else { break };
            self.append(now, message, assembly);
        }
        while self.settled < self.next && self.decided.contains_key(&self.settled) {
            if let Some(run) = self.runs.get(&self.settled) {
                self.accepted = self.accepted.max(run.start + u64::from(run.len));
            }
            self.settled += 1;
        }
    }

    /// Appends a complete message to the log.
    fn append(&mut self, now: Time, message: u64, assembly: Assembly) {
        let (start, mut len, source) = (self.log.length(), 0, assembly.source);
        for (number, payload) in assembly.packets.into_values() {
            // All members skip a repeated number alike, since their logs are equal up to here.
            if number >= self.log.next(source) {
                self.log.push(Entry { source, message: number, payload });
                len += 1;
            }
        }
        let run = Run { start, len, source, stream: assembly.stream, since: now };
        self.runs.insert(message, run);
        self.next = message + 1;
    }

    /// Delivers accepted messages. Returns true if there were any.
    pub fn deliver(&mut self, context: &mut Context) -> bool {
        let mut any = false;
        while self.log.delivered() < self.accepted
            && let Some(entry) = self.log.deliver_if(|_| true)
        {
            let Entry { source, message, payload } = entry.clone();
            context.deliver(source, message, payload);
            any = true;
            self.own_run = if source == context.rank { self.own_run + 1 } else { 0 };
            if source == context.rank {
                self.complete_below(context, message + 1, Outcome::Acknowledged);
            }
        }
        any
    }

    /// Completes own messages before `end`.
    pub fn complete_below(&mut self, context: &mut Context, end: u64, outcome: Outcome) {
        while let Some((number, sent)) = self.outbox.complete_below(end) {
            context.events.completed(MessageId(number), outcome, sent.unwrap_or(1));
        }
    }

    /// Drops messages that the application has and that need not be kept for others. `serves` is true at the master.
    pub fn purge(&mut self, context: &Context, serves: bool) {
        let (history, rank) = (self.settings.history, context.rank);
        let (keeps_all, retention) = (self.settings.election.is_some(), self.settings.retention_time());
        let consumed = self.log.delivered().saturating_sub(context.waiting() as u64);
        // Time of the oldest run decides, since the log is purged from its beginning.
        let since = |place: u64, runs: &BTreeMap<u64, Run>| {
            let run = runs.values().find(|run| place < run.start + u64::from(run.len));
            run.map_or(Time::ZERO, |run| run.since)
        };
        let runs = &self.runs;
        self.log.purge(|place, entry, held| {
            let times = if entry.source == rank { 1 } else { FOREIGN_RETENTIONS };
            let is_expired = context.now >= since(place, runs) + retention * times;
            let is_owed = serves || entry.source == rank;
            place < consumed
                && match held > history {
                    true => is_expired || !is_owed || held as u64 > MAX_OWED_HISTORIES * history as u64,
                    // MTP-2 keeps its history for members that fetch it between views.
                    false => is_expired && !keeps_all,
                }
        });
        let base = self.log.base();
        while let Some(run) = self.runs.first_entry()
            && run.get().start + u64::from(run.get().len) <= base
            && *run.key() < self.settled
        {
            run.remove();
        }
        // Old decisions answer members that have missed them.
        let oldest = self.settled.saturating_sub(MAX_AHEAD);
        self.decided = match self.decided.first_key_value() {
            Some((&first, _)) if first < oldest => self.decided.split_off(&oldest),
            _ => return,
        };
    }

    /// Packet of a message, if this member, with this rank, keeps it.
    pub fn kept(&self, (now, rank): (Time, usize), message: u64, packet: u16) -> Option<Kept<'_>> {
        if let Some(assembly) = self.assemblies.get(&message) {
            let (number, payload) = assembly.packets.get(&packet)?;
            let (source, stream) = (assembly.source, assembly.stream);
            let is_last = assembly.len == Some(packet + 1);
            return Some(Kept { source, stream, number: *number, payload, is_last });
        }
        let run = self.runs.get(&message)?;
        // A member keeps the messages of others longer, for members that have asked a failed producer first.
        let times = if run.source == rank { 1 } else { FOREIGN_RETENTIONS };
        if now >= run.since + self.settings.retention_time() * times {
            return None;
        }
        let entry = self.log.get(run.start + u64::from(packet)).filter(|_| packet < run.len)?;
        let (source, stream, is_last) = (run.source, run.stream, packet + 1 == run.len);
        Some(Kept { source, stream, number: entry.message, payload: &entry.payload, is_last })
    }

    /// Number of packets of a message, as far as they are here; 0 if nothing of it is kept.
    pub fn packets(&self, message: u64) -> u16 {
        match (self.assemblies.get(&message), self.runs.get(&message)) {
            (Some(assembly), _) => assembly.packets.last_key_value().map_or(0, |(&last, _)| last + 1),
            (None, Some(run)) => run.len,
            (None, None) => 0,
        }
    }

    /// Acceptance record of a packet of this message.
    pub fn record(&self, message: u64, packet: u16) -> Acceptance {
        let status = std::array::from_fn(|back| match message.checked_sub(1 + back as u64) {
            Some(before) => self.decided.get(&before).copied().unwrap_or(Status::Pending),
            // Before the first message the vector is zero.
            None => Status::Accepted,
        });
        Acceptance { synchro: 0, status, message: message as u16, packet }
    }

    /// Message of which packets are here and that is not in the log.
    pub fn assembly(&self, message: u64) -> Option<&Assembly> {
        self.assemblies.get(&message)
    }

    /// Returns true if all packets of the message are here.
    pub fn is_complete(&self, message: u64) -> bool {
        message < self.next || self.assemblies.get(&message).is_some_and(Assembly::is_complete)
    }

    /// Place after the packets of a message, if it is in the log.
    pub fn end_of(&self, message: u64) -> Option<u64> {
        self.runs.get(&message).map(|run| run.start + u64::from(run.len))
    }

    /// Messages that are not complete here and fit.
    pub fn incomplete(&self, context: &Context) -> impl Iterator<Item = u64> {
        (self.next..self.horizon).filter(|&message| {
            !self.decided.get(&message).is_some_and(|&status| status == Status::Rejected)
                && !self.is_complete(message)
                && self.has_room(context, message)
        })
    }

    /// Returns true if a message fits: neither the application may be a history behind, nor the gap too old.
    pub fn has_room(&self, context: &Context, message: u64) -> bool {
        let unread = context.waiting() as u64 + self.log.length() - self.log.delivered();
        let ahead = (self.settings.history / usize::from(self.settings.batch)).max(1) as u64;
        message < self.next + ahead.min(MAX_AHEAD) && unread < self.settings.history as u64
    }

    /// Returns true if the application has not read half of the history.
    pub fn is_crowded(&self, context: &Context) -> bool {
        2 * context.waiting() > self.settings.history
    }

    /// First MTP message that is neither in the log nor rejected.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// MTP message after the last one known.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// First MTP message of which the decision or packets are missing here.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Decision about a message, if one is known.
    pub fn decision(&self, message: u64) -> Option<Status> {
        self.decided.get(&message).copied()
    }

    /// Number of delivered messages of this member since the last one of another.
    pub fn own_run(&self) -> u64 {
        self.own_run
    }

    /// Begins to count own messages anew.
    pub fn end_own_run(&mut self) {
        self.own_run = 0;
    }

    /// Returns true if messages are known that cannot be delivered yet.
    pub fn waits(&self) -> bool {
        self.settled < self.horizon || self.log.delivered() < self.log.length()
    }

    /// Number of messages of the application that are held.
    pub fn held(&self) -> u64 {
        let packets: usize = self.assemblies.values().map(|assembly| assembly.packets.len()).sum();
        (self.log.len() + packets) as u64
    }

    /// Number of the message nearest to this member's progress that has these 16 bits.
    pub fn near(&self, low: u16) -> u64 {
        carillon_core::expand(low.into(), 1 << 16, self.next)
    }

    /// Forgets all messages of a view that ends, except the log.
    fn restart(&mut self) {
        self.assemblies.clear();
        self.decided.clear();
        self.runs.clear();
        (self.next, self.horizon, self.settled) = (0, 0, 0);
    }
}

impl ViewOrder<Timer> for Order {
    type Early = ();
    type Entry = Entry;

    fn log(&self) -> &OrderLog<Entry, ()> {
        &self.log
    }

    fn max_fetched(&self) -> u64 {
        MAX_FETCHED_HISTORIES * self.settings.history as u64
    }

    /// Drops incomplete messages; their producers send them again in the next view.
    fn leave(&mut self) {
        self.restart();
    }

    fn replace(
        &mut self,
        context: &mut Context,
        from: u64,
        skipped: Option<Vec<u64>>,
        entries: impl Iterator<Item = Entry>,
    ) {
        match skipped {
            None => self.log.truncate(from),
            Some(numbers) => {
                // Everything here was accepted by the members that moved on.
                self.log.truncate(self.log.delivered());
                for (source, &number) in numbers.iter().enumerate() {
                    let first = self.log.next(source);
                    if first < number {
                        let node = context.nodes[source];
                        context
                            .events
                            .push(Event::LossFound { source: Some(node), message: MessageId(first) });
                        context.unrecoverable(Some(node), first, number - first);
                    }
                }
                self.complete_below(context, numbers[context.rank], Outcome::Acknowledged);
                self.log.skip_to(from, numbers);
                self.accepted = self.accepted.max(from);
            }
        }
        entries.for_each(|entry| self.log.push(entry));
    }

    fn join(&mut self, context: &mut Context, place: u64, numbers: Vec<u64>) -> bool {
        if self.outbox.is_empty() {
            self.outbox.number_from(numbers[context.rank]);
        }
        self.log.skip_to(place, numbers);
        self.accepted = self.accepted.max(place);
        true
    }

    fn install(&mut self, context: &mut Context, _view: &View) {
        self.restart();
        self.accepted = self.log.length();
        self.deliver(context);
        self.outbox.reorder(self.log.next(context.rank));
    }
}

/// Maximum distance between the first gap of a member and a message that it knows of. It is less than half of the
/// wire's number space.
const MAX_AHEAD: u64 = 4096;
/// Number of retentions for which a member keeps the messages of others.
const FOREIGN_RETENTIONS: u32 = 2;
