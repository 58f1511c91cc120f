//! Total order as one member knows it (the source's ordering queue), and the messages without a slot (its data queue).

use std::collections::btree_map;

use carillon_core::{BuildContext, DropReason};
use carillon_wire::reformation::Ranks;
use carillon_wire::rmp::{Id, Ids, Item, Quality, Slot};

use super::arrivals::Arrivals;
use super::config::Settings;
use super::context::Context;
use super::lists::Lists;
use super::own::Own;
use super::service::passes_needed;
use super::slots::{Early, Entry, Message};
use crate::blocks::reformation::View;
use crate::blocks::{MAX_MESSAGES, OrderLog, TokenPasses, Unplaced, ViewOrder};

/// Total order of the present view, and the messages that wait for a slot in it.
#[derive(Debug)]
pub(super) struct Order {
    settings: Settings,
    /// Rank of this member.
    rank: usize,
    /// Members of the ring, through which the token moves by rank.
    pub ring: Ranks,
    pub lists: Lists,
    /// First token site of the view.
    leader: u16,
    pub log: OrderLog<Entry, Early>,
    /// Passes of the token, counted from the slots of this view in the log.
    pub passes: TokenPasses<Slot>,
    inbox: Unplaced<Message>,
    arrivals: Arrivals,
    /// Number of slots beyond the log that are kept. A source may send the same number of further messages, because
    /// it may know slots that this member has not received.
    ahead: u64,
    pub own: Own,
}

/// Classification of a received message by its position in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageState {
    /// Message with a slot already.
    Ordered,
    /// Message that is kept until it gets a slot.
    Waiting,
    /// Message beyond the window of its source.
    Ahead,
}

impl Order {
    /// Creates the order of the first view.
    pub fn new(build: &BuildContext, rank: usize, settings: Settings, view: &View) -> Self {
        let members = build.members.len();
        // A member with a gap does not accept the token, so the others get at most one round ahead of it.
        let ahead = (members as u64 + 1) * settings.batch as u64;
        Order {
            settings,
            rank,
            ring: view.members,
            lists: Lists::new(view.members),
            leader: view.leader() as u16,
            log: OrderLog::new(members),
            passes: TokenPasses::new(members),
            inbox: Unplaced::new(members),
            arrivals: Arrivals::new(members),
            ahead,
            own: Own::new(build, settings),
        }
    }

    /// Number of messages that this member keeps, with and without a slot.
    pub fn held(&self) -> u64 {
        (self.log.len() + self.inbox.len()) as u64
    }

    /// Keeps a message until it has a slot, and returns its classification. Delivers it if its quality permits.
    pub fn on_data(&mut self, context: &mut Context, message: Message) -> MessageState {
        let Message { id, quality, number, .. } = message;
        if quality == Quality::Unreliable {
            self.on_unreliable(context, message);
            return MessageState::Ordered;
        }
        let state = self.place(id);
        match state {
            MessageState::Ordered => context.events.dropped(DropReason::Duplicate),
            MessageState::Ahead => context.events.dropped(DropReason::OutOfWindow),
            MessageState::Waiting if self.is_full(context) || self.held() >= self.settings.waiting => {
                context.events.dropped(DropReason::BufferFull);
            }
            MessageState::Waiting if self.inbox.keep(id.source.into(), id.sequence, message) => {
                context.received("data", number);
                self.deliver_arrival(context, id);
            }
            MessageState::Waiting => context.events.dropped(DropReason::Duplicate),
        }
        state
    }

    /// Keeps a slot beyond the log, with its message if present.
    pub fn on_slot(&mut self, context: &mut Context, slot: Slot, message: Option<Message>) {
        if slot.timestamp >= self.limit() {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        if message.is_some() && self.is_full(context) {
            return context.events.dropped(DropReason::BufferFull);
        }
        match self.log.early_mut().entry(slot.timestamp) {
            btree_map::Entry::Vacant(early) => _ = early.insert(Early { slot, message }),
            btree_map::Entry::Occupied(mut early) if message.is_some() && early.get().message.is_none() => {
                early.get_mut().message = message;
            }
            btree_map::Entry::Occupied(_) => context.events.dropped(DropReason::Duplicate),
        }
    }

    /// Moves early slots into the log as far as they are contiguous, and delivers. Returns true if the log grew.
    pub fn advance(&mut self, context: &mut Context) -> bool {
        let before = self.log.length();
        while let Some(early) = self.log.early().get(&self.log.length()) {
            let slot = early.slot;
            // A slot out of its source's order or of the wrong site belongs to another view.
            let in_turn = match slot.item {
                Item::Message(id) => id.sequence == self.expected(id.source),
                Item::Null | Item::List(_) => true,
            };
            if !in_turn || !self.may_follow(&slot) {
                self.log.early_mut().remove(&slot.timestamp);
                context.events.dropped(DropReason::OutOfOrder);
                continue;
            }
            let message = match slot.item {
                Item::Null | Item::List(_) => None,
                Item::Message(id) => match early.message.as_ref().or_else(|| self.waits(id)) {
                    Some(message) => Some(message.clone()),
                    None => break,
                },
            };
            self.append(context, slot, message);
            self.own.outbox.on_sequencer_alive();
        }
        self.deliver_ready(context);
        self.log.length() > before
    }

    /// Appends a slot, which gives its message its position.
    pub fn append(&mut self, context: &mut Context, slot: Slot, message: Option<Message>) {
        debug_assert_eq!(slot.timestamp, self.log.length(), "timestamps are given without gaps");
        let passes = self.passes.on_entry(slot);
        self.log.push(Entry { slot, message, passes, members: self.members() });
        match slot.item {
            Item::Message(Id { source, sequence }) => {
                self.inbox.take(source.into(), sequence);
                self.inbox.set_turn(source.into());
                if usize::from(source) == context.rank {
                    self.own.on_ordered(context, sequence, slot.site.into());
                }
            }
            Item::List(members) => {
                let come = members.without(&self.ring);
                self.forget_waiting(&come);
                self.lists.on_list(slot.timestamp, passes, &members, &come);
                self.ring = members;
            }
            Item::Null => {}
        }
    }

    /// Delivers the slots that enough members hold, and purges slots that all members hold.
    pub fn deliver_ready(&mut self, context: &mut Context) {
        let (accepted, members) = (self.passes.accepted(), self.members());
        // While the members change one by one, the larger number counts all that have to hold the slot.
        let ring = |entry: &Entry| if members > 1 { members.max(entry.members) } else { members };
        let needed = |entry: &Entry| match &entry.message {
            Some(message) => passes_needed(message.quality, ring(entry)),
            None => 0,
        };
        while let Some(entry) = self.log.deliver_if(|entry| accepted >= entry.passes + needed(entry)).cloned()
        {
            self.deliver(context, entry);
        }
        // After a whole round everybody has the slot. A member alone keeps slots for no other member.
        let round = |entry: &Entry| if members > 1 { ring(entry) } else { 0 };
        self.log.purge(|_, entry, _| accepted >= entry.passes + round(entry));
    }

    /// Keeps a message that this member has sent like any other member, since it may become the token site.
    pub fn on_sent(&mut self, context: &mut Context, message: Message) {
        let id = message.id;
        if message.quality == Quality::Unreliable {
            self.on_unreliable(context, message);
        } else if self.place(id) == MessageState::Waiting
            && self.inbox.keep(id.source.into(), id.sequence, message)
        {
            self.deliver_arrival(context, id);
        }
    }

    /// Returns the messages that the next acknowledgment orders. Sources take turns.
    pub fn batch(&self) -> Vec<Id> {
        let sources: Vec<usize> = self.inbox.turns().collect();
        let mut next: Vec<u64> = (0..sources.len()).map(|source| self.log.next(source)).collect();
        let (mut ids, mut most) = (Vec::new(), self.settings.batch.min(Ids::MAX));
        while most > 0 {
            let before = most;
            for &source in &sources {
                if most > 0 && self.inbox.get(source, next[source]).is_some() {
                    ids.push(Id { source: source as u16, sequence: next[source] });
                    (next[source], most) = (next[source] + 1, most - 1);
                }
            }
            if most == before {
                break;
            }
        }
        ids
    }

    /// Returns a message that waits for its slot.
    pub fn waits(&self, id: Id) -> Option<&Message> {
        self.inbox.get(id.source.into(), id.sequence)
    }

    /// Returns true while a message of any source waits for its slot.
    pub fn has_waiting(&self) -> bool {
        !self.own.outbox.is_empty() || !self.inbox.is_empty()
    }

    /// Returns true if the application is so far behind that the member accepts nothing new.
    pub fn is_full(&self, context: &Context) -> bool {
        context.waiting() >= self.settings.buffer
    }

    /// Returns true if the source and the numbers of a message are valid in this group.
    pub fn is_valid(&self, context: &Context, message: &Message) -> bool {
        is_of_group(context, message.id) && message.number < MAX_MESSAGES
    }

    /// Returns true if all members and numbers in a slot are valid in this group.
    pub fn is_whole(&self, context: &Context, slot: &Slot) -> bool {
        let known = |rank: u16| usize::from(rank) < context.nodes.len();
        let item = match slot.item {
            Item::Message(id) => is_of_group(context, id),
            Item::List(members) => members.without(&Ranks::below(context.nodes.len())).is_empty(),
            Item::Null => true,
        };
        known(slot.site) && known(slot.next) && item
    }

    /// Sequence number of the source's next message in the order.
    pub fn expected(&self, source: u16) -> u64 {
        self.log.next(source.into())
    }

    /// First timestamp beyond the range that is kept.
    pub fn limit(&self) -> u64 {
        self.log.length().saturating_add(self.ahead)
    }

    /// Slot of a message, if it is still in the log.
    pub fn find(&self, id: Id) -> Option<&Entry> {
        self.log.iter().rev().find(|entry| entry.slot.item == Item::Message(id))
    }

    /// Messages of this source that are missing before a message beyond a gap.
    pub fn missing_before(&self, id: Id) -> impl Iterator<Item = Id> + use<'_> {
        let from = self.expected(id.source);
        let before = (from..id.sequence).rev().map(move |sequence| Id { sequence, ..id });
        before.take_while(|&id| self.waits(id).is_none())
    }

    /// Number of members of the ring.
    pub fn members(&self) -> u64 {
        self.ring.len() as u64
    }

    /// Returns the next list, in which one of these members is missing or one of these nodes is new. The next change
    /// waits until the token has gone around: then every member holds the slots before the last one.
    pub fn next_list(&self, departed: &Ranks, applicants: &Ranks) -> Option<Ranks> {
        let wait = self.members() + 1;
        if self.lists.last.is_some_and(|before| self.passes.accepted() < before + wait) {
            return None;
        }
        let mut members = self.ring;
        match (departed.iter().next(), applicants.iter().next()) {
            (Some(departed), _) => _ = members.remove(departed),
            (None, Some(applicant)) => _ = members.insert(applicant),
            (None, None) => return None,
        }
        Some(members)
    }

    /// Returns true if a list has admitted this member and the member has not shown yet that it holds the list.
    pub fn is_welcome(&self, rank: usize) -> bool {
        let list = self.lists.admitted.get(&(rank as u16));
        list.is_some_and(|&timestamp| self.passes.confirmed[rank] <= timestamp)
    }

    /// Token site as far as this member knows.
    pub fn token_site(&self) -> u16 {
        self.passes.last.map_or(self.leader, |slot| slot.next)
    }

    /// Returns true if the last slot passed the token to this member.
    pub fn is_passed_here(&self, context: &Context) -> bool {
        self.passes.last.is_some_and(|slot| slot.next != slot.site && usize::from(slot.next) == context.rank)
    }

    /// Returns true if a message in the log waits for further passes of the token.
    pub fn needs_passes(&self) -> bool {
        self.log.delivered() < self.log.length()
    }

    /// Rounds of the token since the last message.
    pub fn idle_rounds(&self) -> u64 {
        self.passes.accepted_since_last_message().unwrap_or(u64::MAX) / self.members().max(1)
    }

    /// Returns true if all members hold all messages and know that they do: the token has gone around twice.
    pub fn is_settled(&self) -> bool {
        let whole = 2 * self.members().saturating_sub(1);
        self.passes.accepted_since_last_message().is_none_or(|passes| passes >= whole)
    }

    /// Classifies a message by its distance from the next message of its source.
    fn place(&self, id: Id) -> MessageState {
        match id.sequence.checked_sub(self.expected(id.source)) {
            None => MessageState::Ordered,
            Some(ahead) if ahead < self.settings.window + self.ahead => MessageState::Waiting,
            Some(_) => MessageState::Ahead,
        }
    }

    /// Returns true if a slot may follow the last one: its site has the token, and passes it to the next member of
    /// the ring, or fills another slot with the same acknowledgment.
    fn may_follow(&self, slot: &Slot) -> bool {
        if let Some(members) = self.lists.awaited {
            // The list with which this member begins; it does not know where the token was before.
            return slot.item == Item::List(members) && slot.next == after(&members, slot.site);
        }
        if let Item::List(members) = slot.item {
            let changes = members.without(&self.ring).len() + self.ring.without(&members).len();
            let fits = changes == 1 && members.contains(slot.site.into());
            return fits && slot.site == self.token_site() && slot.next == after(&members, slot.site);
        }
        let stays = slot.next == slot.site;
        let in_batch =
            matches!(slot.item, Item::Message(_)) && self.passes.since + 1 < self.settings.batch as u64;
        slot.site == self.token_site()
            && if stays { in_batch } else { slot.next == after(&self.ring, slot.site) }
    }

    /// Starts a new view: all members hold the whole log.
    fn begin_view(&mut self) {
        self.passes = TokenPasses::new(self.passes.confirmed.len());
        self.lists.begin_view();
        self.log.early_mut().clear();
        self.log.iter_mut().for_each(|entry| (entry.passes, entry.members) = (0, 0));
    }

    /// Drops the messages without a slot of nodes that become members. They send them again, perhaps with other
    /// sequence numbers: a member without state continues after the ones that the group has ordered.
    fn forget_waiting(&mut self, come: &Ranks) {
        self.inbox.retain(|source, _| !come.contains(source));
    }

    fn on_unreliable(&mut self, context: &mut Context, message: Message) {
        let Message { id, number, payload, .. } = message;
        if self.is_full(context) {
            return context.events.dropped(DropReason::BufferFull);
        }
        if !self.arrivals.on_unreliable(id.source, number) {
            return context.events.dropped(DropReason::Duplicate);
        }
        context.received("data", number);
        context.deliver(id.source.into(), number, payload);
    }

    /// Delivers a message that has arrived before its slot, if its quality permits, and others that waited for it.
    fn deliver_arrival(&mut self, context: &mut Context, id: Id) {
        let Some(message) = self.waits(id).cloned() else { return };
        if self.arrivals.on_message(id, message.quality) {
            context.deliver(id.source.into(), message.number, message.payload);
        }
        self.deliver_source_ordered(context, id.source);
    }

    /// Delivers the source-ordered messages of a source, as far as all ordered messages before them are delivered.
    fn deliver_source_ordered(&mut self, context: &mut Context, source: u16) {
        while let Some(id) = self.arrivals.frontier(source) {
            let message = match self.waits(id) {
                Some(message) => Some(message),
                None => self.find(id).and_then(|entry| entry.message.as_ref()),
            };
            let Some(message) = message.filter(|message| message.quality <= Quality::SourceOrdered) else {
                return;
            };
            let (number, payload) = (message.number, message.payload.clone());
            if self.arrivals.pass(id) {
                context.deliver(source.into(), number, payload);
            }
        }
    }

    /// Delivers a slot, and completes its message if this member sent it.
    fn deliver(&mut self, context: &mut Context, entry: Entry) {
        if let Item::List(members) = entry.slot.item {
            self.lists.announce(context, members);
        }
        let Some(Message { id, number, payload, .. }) = entry.message else { return };
        if self.arrivals.on_slot(id) {
            context.deliver(id.source.into(), number, payload);
        }
        if usize::from(id.source) == context.rank {
            self.own.complete_below(context, id.sequence + 1);
        }
        self.deliver_source_ordered(context, id.source);
    }
}

/// Returns true if a message of this identity may exist in the group.
fn is_of_group(context: &Context, id: Id) -> bool {
    usize::from(id.source) < context.nodes.len() && id.sequence < MAX_MESSAGES
}

impl ViewOrder<super::context::Timer> for Order {
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
        self.own.outbox.clear_places(self.log.next(context.rank));
        entries.for_each(|entry| self.append(context, entry.slot, entry.message));
    }

    fn join(&mut self, context: &mut Context, length: u64, numbers: Vec<u64>) -> bool {
        if !self.own.join(context, numbers[context.rank]) {
            return false;
        }
        self.arrivals.skip_to(&numbers);
        self.log.skip_to(length, numbers);
        self.begin_view();
        self.inbox.retain(|_, _| false);
        true
    }

    fn conclude(&mut self, context: &mut Context, _known: Ranks) -> Ranks {
        while let Some(entry) = self.log.deliver_if(|_| true).cloned() {
            self.deliver(context, entry);
        }
        self.lists.announced
    }

    fn install(&mut self, _context: &mut Context, view: &View) {
        let mut come = view.members.without(&self.ring).or(&view.joiners);
        come.remove(self.rank);
        self.forget_waiting(&come);
        (self.ring, self.leader) = (view.members, view.leader() as u16);
        self.lists.announced = view.members;
        self.begin_view();
        let (most, log) = (self.settings.window + self.ahead, &self.log);
        self.inbox
            .retain(|source, number| number.checked_sub(log.next(source)).is_some_and(|ahead| ahead < most));
        // Messages that the new view dropped lose their slots and are sent again.
        self.own.on_view(self.log.next(self.rank));
    }
}

/// Member of the ring that receives the token after this one.
pub(super) fn after(ring: &Ranks, rank: u16) -> u16 {
    let later = ring.iter().find(|&member| member > rank.into()).or(ring.iter().next());
    later.map_or(rank, |member| member as u16)
}
