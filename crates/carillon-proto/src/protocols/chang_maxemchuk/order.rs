//! Total order as one site knows it, messages without a timestamp, and the outbox of the site.

use std::collections::btree_map;

use bytes::Bytes;
use carillon_core::{BuildContext, DropReason, MessageId, Outcome, Transmit};
use carillon_wire::chang_maxemchuk::{Ack, Body, Id};

use super::config::Settings;
use super::context::{Context, Timer};
use super::log::{Early, Entry};
use crate::blocks::reformation::{To, View};
use crate::blocks::{MAX_MESSAGES, OrderLog, Outbox, TokenPasses, Unplaced, Until, ViewOrder};

/// Total order of the present token list, and the messages that wait for a position in it.
#[derive(Debug)]
pub(super) struct Order {
    settings: Settings,
    /// Token list with its first token site. The token moves by rank.
    pub view: View,
    pub log: OrderLog<Entry, Early>,
    /// Transfers of the token, counted from the acknowledgments of this list in the log.
    pub transfers: TokenPasses<Ack>,
    inbox: Unplaced,
    /// Number of timestamps beyond the log for which an acknowledgment is kept. A source may send the same number of
    /// further messages, because it may know acknowledgments that this site has not received.
    ahead: u64,
    pub outbox: Outbox,
}

/// Classification of a received message by its position in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageState {
    /// Message with a timestamp already.
    Acknowledged,
    /// Message that is kept until it is acknowledged.
    Waiting,
    /// Message beyond a gap of its source.
    Ahead,
}

impl Order {
    /// Number of messages that this site keeps, with and without a timestamp.
    pub fn held(&self) -> u64 {
        (self.log.len() + self.inbox.len()) as u64
    }

    /// Creates the order of the first list.
    pub fn new(build: &BuildContext, settings: Settings, view: View) -> Self {
        let sites = build.members.len();
        // A site with a gap does not accept the token, so the others get at most one round ahead of it.
        let ahead = (sites as u64 + 1) * settings.transfer_every;
        let mut outbox = Outbox::new(settings.window as usize, Until::Ordered, build.max_payload as usize);
        if build.rejoining {
            // A returning site does not know the numbers of its earlier messages and must not reuse them.
            outbox.finish();
        }
        Order {
            settings,
            view,
            log: OrderLog::new(sites),
            transfers: TokenPasses::new(sites),
            inbox: Unplaced::new(sites),
            ahead,
            outbox,
        }
    }

    /// Keeps a message until it is acknowledged, and returns its classification.
    pub fn on_msg(&mut self, context: &mut Context, id: Id, payload: Bytes) -> MessageState {
        let place = self.place(id);
        match place {
            MessageState::Acknowledged => context.events.dropped(DropReason::Duplicate),
            MessageState::Ahead => context.events.dropped(DropReason::OutOfOrder),
            MessageState::Waiting if self.is_full(context) || self.inbox.len() >= self.settings.waiting => {
                context.events.dropped(DropReason::BufferFull);
            }
            MessageState::Waiting if self.inbox.keep(id.source.into(), id.number, payload) => {
                context.received("msg", id.number);
            }
            MessageState::Waiting => context.events.dropped(DropReason::Duplicate),
        }
        place
    }

    /// Keeps an acknowledgment beyond the log, with its message if present.
    pub fn on_ack(&mut self, context: &mut Context, ack: Ack, payload: Option<Bytes>) {
        if ack.timestamp >= self.limit() {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        if payload.is_some() && self.is_full(context) {
            return context.events.dropped(DropReason::BufferFull);
        }
        match self.log.early_mut().entry(ack.timestamp) {
            btree_map::Entry::Vacant(early) => _ = early.insert(Early { ack, payload }),
            btree_map::Entry::Occupied(mut early) if payload.is_some() && early.get().payload.is_none() => {
                early.get_mut().payload = payload;
            }
            btree_map::Entry::Occupied(_) => return context.events.dropped(DropReason::Duplicate),
        }
        let number = ack.message.map_or(ack.timestamp, |id| id.number);
        context.received(if ack.message.is_some() { "ack" } else { "transfer" }, number);
    }

    /// Records that a site has accepted all entries below a timestamp.
    pub fn on_confirm(&mut self, site: u16, below: u64) {
        self.outbox.on_sequencer_alive();
        self.transfers.confirm(site, below);
    }

    /// Moves early entries into the log as far as they are contiguous, and commits. Returns true if the log grew.
    pub fn advance(&mut self, context: &mut Context) -> bool {
        let before = self.log.length();
        while let Some(early) = self.log.early().get(&self.log.length()) {
            let ack = early.ack;
            // An acknowledgment out of its source's order or of the wrong site belongs to an older list.
            let in_turn = ack.message.is_none_or(|id| id.number == self.expected(id.source));
            if !in_turn || !self.may_follow(&ack) {
                self.log.early_mut().remove(&ack.timestamp);
                context.events.dropped(DropReason::OutOfOrder);
                continue;
            }
            let payload = match ack.message {
                None => Bytes::new(),
                Some(id) => match early.payload.as_ref().or_else(|| self.waits(id)) {
                    Some(payload) => payload.clone(),
                    None => break,
                },
            };
            self.append(context, ack, payload);
            self.outbox.on_sequencer_alive();
        }
        self.commit(context);
        self.log.length() > before
    }

    /// Appends an entry, which gives its message its position.
    pub fn append(&mut self, context: &mut Context, ack: Ack, payload: Bytes) {
        debug_assert_eq!(ack.timestamp, self.log.length(), "timestamps are given without gaps");
        let transfers = self.transfers.on_entry(ack);
        self.log.push(Entry { ack, payload, transfers });
        if let Some(Id { source, number }) = ack.message {
            self.inbox.take(source.into(), number);
            self.inbox.set_turn(source.into());
            if usize::from(source) == context.rank {
                self.outbox.set_ordered(number);
                context.timers.cancel(Timer::Message(number));
            }
        }
    }

    /// Delivers the committed entries and purges entries that all sites have.
    pub fn commit(&mut self, context: &mut Context) {
        let (accepted, resilience) = (self.transfers.accepted(), self.resilience());
        // L further sites and the site that gave the acknowledgment hold the message then (section 2.9.1).
        let is_committed = |entry: &Entry| accepted >= entry.transfers + resilience;
        while let Some(entry) = self.log.deliver_if(is_committed).cloned() {
            self.deliver(context, entry);
        }
        // "Buffers may be purged" once the token has visited all sites. A site alone keeps entries for no other site.
        let round = if self.sites() > 1 { self.sites() } else { 0 };
        self.log.purge(|_, entry, _| accepted >= entry.transfers + round);
    }

    /// Sends the next message of this site that is due.
    pub fn poll(&mut self, context: &mut Context, buf: &mut Vec<u8>, view: u32) -> Option<Transmit> {
        let number = self.outbox.first_due()?;
        let (source, payload) = (context.rank, self.outbox.get(number)?.clone());
        let id = Id { source: source as u16, number };
        context.emit(view, Body::Msg { id, payload: &payload }, buf);
        let before = self.outbox.send(number);
        let transmit = context.data_sent(To::Group, (source, number), buf.len(), before, before);
        // The source keeps its own message like any other site, because it may become the token site.
        self.inbox.keep(source, number, payload);
        context.timers.arm(Timer::Message(number), context.now + self.settings.message_timeout);
        Some(transmit)
    }

    /// Returns the next message to acknowledge. Sources with waiting messages take turns.
    pub fn next_message(&self) -> Option<(Id, Bytes)> {
        let expected = |source: usize| Id { source: source as u16, number: self.log.next(source) };
        let source = self.inbox.in_turn(|source| self.waits(expected(source)).is_some())?;
        Some((expected(source), self.waits(expected(source))?.clone()))
    }

    /// Returns a message that waits for its timestamp.
    pub fn waits(&self, id: Id) -> Option<&Bytes> {
        self.inbox.get(id.source.into(), id.number)
    }

    /// Returns true while a message of any source waits for its timestamp.
    pub fn has_waiting(&self) -> bool {
        !self.outbox.is_empty() || !self.inbox.is_empty()
    }

    /// Returns true if the application is so far behind that the site accepts nothing new.
    pub fn is_full(&self, context: &Context) -> bool {
        context.waiting() >= self.settings.buffer
    }

    /// Returns true if all sites and numbers in an acknowledgment are valid in this group.
    pub fn is_whole(&self, context: &Context, ack: &Ack) -> bool {
        let known = |rank: u16| usize::from(rank) < context.nodes.len();
        let numbered = |id: Id| known(id.source) && id.number < MAX_MESSAGES;
        known(ack.site) && known(ack.next) && ack.message.is_none_or(numbered)
    }

    /// Number of the source's next message in the order.
    pub fn expected(&self, source: u16) -> u64 {
        self.log.next(source.into())
    }

    /// First timestamp beyond the range that is kept.
    pub fn limit(&self) -> u64 {
        self.log.length().saturating_add(self.ahead)
    }

    /// Timestamp of a message, if its entry is still in the log.
    pub fn find(&self, id: Id) -> Option<u64> {
        let entry = self.log.iter().rev().find(|entry| entry.ack.message == Some(id));
        entry.map(|entry| entry.ack.timestamp)
    }

    /// Number of sites in the list.
    pub fn sites(&self) -> u64 {
        self.view.members.len() as u64
    }

    /// L, limited to the number of other sites.
    pub fn resilience(&self) -> u64 {
        self.settings.resilience.min(self.sites() - 1)
    }

    /// Site that receives the token after this one: the list is a ring.
    pub fn after(&self, rank: u16) -> u16 {
        let mut sites = self.view.members.iter();
        let later = sites.find(|&site| site > rank.into()).or(self.view.members.iter().next());
        later.map_or(rank, |site| site as u16)
    }

    /// Token site as far as this site knows.
    pub fn token_site(&self) -> u16 {
        self.transfers.last.map_or(self.view.leader() as u16, |ack| ack.next)
    }

    /// Returns true if the last entry passed the token to this site.
    pub fn is_passed_here(&self, context: &Context) -> bool {
        self.transfers.last.is_some_and(|ack| ack.next != ack.site && usize::from(ack.next) == context.rank)
    }

    /// Number of transfers after a message until every site knows that it is committed. The token visits every site
    /// once, and `L` sites a second time, because they had it before the message was committed.
    pub fn whole_round(&self) -> u64 {
        self.sites() - 1 + self.resilience()
    }

    /// Returns true if the token rests until the next message: all messages are committed and, with `tail =
    /// "confirm"`, the token has completed its round.
    pub fn is_settled(&self) -> bool {
        let transfers = match self.settings.idle_timeout {
            Some(_) => self.whole_round(),
            None => self.resilience(),
        };
        self.transfers.accepted_since_last_message().is_none_or(|passes| passes >= transfers)
    }

    /// Classifies a message by its distance from the next number of its source.
    fn place(&self, id: Id) -> MessageState {
        let Settings { window, .. } = self.settings;
        match id.number.checked_sub(self.expected(id.source)) {
            None => MessageState::Acknowledged,
            Some(ahead) if ahead < window => MessageState::Waiting,
            Some(ahead) if ahead < window + self.ahead => {
                match self.waits(Id { number: id.number - 1, ..id }) {
                    Some(_) => MessageState::Waiting,
                    None => MessageState::Ahead,
                }
            }
            Some(_) => MessageState::Ahead,
        }
    }

    /// Returns true if an acknowledgment may follow the last entry: its site has the token, passes it on in time, and
    /// passes it to the next site of the list.
    fn may_follow(&self, ack: &Ack) -> bool {
        let stays = ack.next == ack.site;
        let in_time = self.transfers.since + 1 < self.settings.transfer_every && ack.message.is_some();
        ack.site == self.token_site() && if stays { in_time } else { ack.next == self.after(ack.site) }
    }

    /// Starts a new view: all sites of the list hold the whole log.
    fn begin_view(&mut self) {
        self.transfers = TokenPasses::new(self.transfers.confirmed.len());
        self.log.early_mut().clear();
        self.log.iter_mut().for_each(|entry| entry.transfers = 0);
    }

    /// Delivers an entry, and completes the message if this site sent it.
    fn deliver(&mut self, context: &mut Context, Entry { ack, payload, .. }: Entry) {
        let Some(id) = ack.message else { return };
        context.deliver(id.source.into(), id.number, payload);
        if usize::from(id.source) == context.rank {
            self.complete_below(context, id.number + 1);
        }
    }

    /// Completes the site's own messages before `end`, which enough sites hold.
    fn complete_below(&mut self, context: &mut Context, end: u64) {
        while let Some((number, _)) = self.outbox.complete_below(end) {
            let window = self.settings.window as u32;
            context.events.completed(MessageId(number), Outcome::Acknowledged, window);
        }
    }
}

impl ViewOrder<Timer> for Order {
    type Entry = Entry;
    type Early = Early;

    fn log(&self) -> &OrderLog<Entry, Early> {
        &self.log
    }

    fn max_fetched(&self) -> u64 {
        2 * self.ahead
    }

    fn replace(
        &mut self,
        context: &mut Context,
        from: u64,
        _skipped: Option<Vec<u64>>,
        entries: impl Iterator<Item = Entry>,
    ) {
        self.log.truncate(from);
        self.outbox.clear_places(self.log.next(context.rank));
        entries.for_each(|entry| self.append(context, entry.ack, entry.payload));
    }

    fn join(&mut self, context: &mut Context, length: u64, numbers: Vec<u64>) -> bool {
        let own = numbers[context.rank];
        if own > self.outbox.end() && !self.outbox.has_finished() {
            return false;
        }
        self.log.skip_to(length, numbers);
        self.begin_view();
        self.inbox.retain(|_, _| false);
        // Earlier messages of this site may be in the order without its knowledge.
        self.complete_below(context, own);
        true
    }

    fn install(&mut self, context: &mut Context, view: &View) {
        self.view = *view;
        while let Some(entry) = self.log.deliver_if(|_| true).cloned() {
            self.deliver(context, entry);
        }
        self.begin_view();
        let (most, log) = (self.settings.window + self.ahead, &self.log);
        self.inbox
            .retain(|source, number| number.checked_sub(log.next(source)).is_some_and(|ahead| ahead < most));
        // Messages that the new list dropped lose their timestamps and are sent again.
        self.outbox.reorder(self.log.next(context.rank));
    }
}
