//! The receiving side.

use std::collections::BTreeMap;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, Dest, DropReason, MessageId, ObservedState, Received, Rng, Role, Transmit, expand,
};
use carillon_wire::carillon::{
    ClosedBlocks, CodedBlock, DATA_HEADER_LEN, INCOMPLETE_BLOCK_LEN, IncompleteBlock, IncompleteBlocks,
    MAX_LISTED_BLOCKS, Packet, Poll, PolledReceivers, REPAIR_HEADER_LEN, STATUS_LEN, Status, SymbolPositions,
};
use carillon_wire::map::{MAX_WORDS, Map};

use super::MODULUS;
use super::arrivals::Arrivals;
use super::describe::DESCRIBED;
use crate::blocks::{Part, PastLimit, Player, ReedSolomon, Shape, SymbolBlock};

pub(super) type Context = crate::blocks::MachineContext<Timer>;

/// Delivers what comes, and what it makes of coded symbols, in order or at once; says what it lacks when it is asked.
#[derive(Debug)]
pub struct CarillonReceiver {
    /// What the sender calls it.
    identity: u32,
    window: u64,
    /// No message lies further ahead of the expected one: a receiver never says that it has room for more than its memory holds.
    reach: u64,
    /// The sender skips nothing that it lacks: where it does, it has given this receiver up, which its host will be told.
    is_awaited: bool,
    /// Messages and symbols that its memory holds.
    capacity: u64,
    arrivals: Arrivals,
    /// What is here of messages that are withheld, until it is known in which block they are.
    supplied: BTreeMap<u64, Bytes>,
    /// The blocks that are not delivered as a whole, by their first messages.
    blocks: BTreeMap<u64, SymbolBlock>,
    /// What they keep.
    held: usize,
    /// Places that they have made room for.
    places: u64,
    code: ReedSolomon,
    /// DATA, REPAIR and XOR that have come.
    arrived: u32,
    /// The newest question that is to be answered: its answer says all that those before would.
    asked: Option<u32>,
    /// What is lacking is to be said in the answer.
    lists_asked: bool,
    /// It asks by itself.
    asks: bool,
    /// Statuses say which messages are missing: not where there are so many receivers that nobody could make use of it.
    names: bool,
    rng: Rng,
    /// The lists of the last status, kept for their room.
    lists: (Vec<u8>, Vec<u8>),
}

/// The receiver's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// It asks for what is lacking and not due.
    Request,
}

impl CarillonReceiver {
    /// A receiver of this session.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        let (window, capacity) = (settings.count("window"), build.max_messages(u64::MAX));
        CarillonReceiver {
            identity: build.identities.own(build.node) as u32,
            window,
            reach: window.min(capacity),
            is_awaited: matches!(PastLimit::of(settings), PastLimit::Wait) && !super::is_one_way(settings),
            capacity,
            arrivals: Arrivals::new(super::ENTRY.order_with(settings)),
            supplied: BTreeMap::new(),
            blocks: BTreeMap::new(),
            held: 0,
            places: 0,
            code: ReedSolomon,
            arrived: 0,
            asked: None,
            lists_asked: false,
            asks: false,
            names: true,
            rng: build.seeds.stream("carillon.request"),
            lists: Default::default(),
        }
        .play(build)
    }

    /// What is kept, of which that beyond a gap counts twice: in its block and in its place.
    fn kept(&self, context: &Context) -> u64 {
        (self.held + self.arrivals.kept() + self.supplied.len() + context.waiting()) as u64
    }

    /// Messages from the expected one on that it can take.
    fn room(&self, context: &Context) -> u64 {
        // What is kept for coding alone is let go where nothing is missing.
        let kept = if self.arrivals.is_empty() { context.waiting() as u64 } else { self.kept(context) };
        let free = self.capacity.saturating_sub(kept);
        self.window.min(free / 2 + self.arrivals.len() as u64)
    }

    /// Whether one more can be kept. If it is the next one for the application, what blocks keep goes first.
    fn has_room_for(&mut self, context: &Context, number: u64) -> bool {
        if self.kept(context) + 2 <= self.capacity {
            return true;
        }
        if number != self.arrivals.expected() {
            return false;
        }
        self.blocks.values_mut().for_each(SymbolBlock::forget);
        self.held = 0;
        self.kept(context) < self.capacity
    }

    /// Does something with the block that begins with this message, if there may be one; then it may be whole.
    fn with_block<R>(
        &mut self,
        context: &mut Context,
        first: u64,
        change: impl FnOnce(&mut SymbolBlock) -> R,
    ) -> Option<R> {
        if !self.blocks.contains_key(&first) && self.blocks.len() >= MOST_BLOCKS {
            context.events.dropped(DropReason::OutOfWindow);
            return None;
        }
        let block = self.blocks.entry(first).or_default();
        self.held -= block.held();
        self.places -= block.places();
        let result = change(block);
        for (index, message) in block.restore(&self.code) {
            let number = first + u64::from(index);
            if number >= self.arrivals.expected() && number < self.arrivals.expected() + self.reach {
                self.arrivals.insert(context, number, message);
            }
        }
        self.held += block.held();
        self.places += block.places();
        Some(result)
    }

    fn settle(&mut self, context: &mut Context) {
        self.arrivals.deliver(context);
        let expected = self.arrivals.expected();
        if self.supplied.first_key_value().is_some_and(|(&number, _)| number < expected) {
            self.supplied = self.supplied.split_off(&expected);
        }
        // Where one begins all before it have ended.
        let begun = self.blocks.range(..=expected).next_back().map_or(0, |(&first, _)| first);
        while let Some(entry) = self.blocks.first_entry() {
            let is_past = |length: u16| entry.key() + u64::from(length) <= expected;
            if *entry.key() >= begun && !entry.get().length().is_some_and(is_past) {
                break;
            }
            let block = entry.remove();
            self.held -= block.held();
            self.places -= block.places();
        }
    }

    /// Whether no two blocks share a message.
    fn are_apart(&self) -> bool {
        let ends =
            self.blocks.iter().map(|(key, block)| key + block.length().map_or(block.places(), u64::from));
        ends.zip(self.blocks.keys().skip(1)).all(|(end, &next)| end <= next)
    }

    /// There is a block from `first` to `end`: others that reach into it are none of the sender's.
    fn forget_others(&mut self, first: u64, end: u64) {
        let reaches = |(key, block): &(&u64, &SymbolBlock)| {
            **key != first && **key + block.length().map_or(block.places(), u64::from) > first
        };
        while let Some((&key, _)) = self.blocks.range(..end).rev().find(reaches) {
            if let Some(block) = self.blocks.remove(&key) {
                self.held -= block.held();
                self.places -= block.places();
            }
        }
    }

    /// The sender holds nothing before `first` any more: what is there is delivered, the rest is lost.
    fn give_up_before(&mut self, context: &mut Context, first: u64) {
        let mut expected = self.arrivals.expected();
        // What a sender never held so long cannot be named: anybody may say so.
        let named = expected + self.window;
        context.events.loss_found(context.sender, expected);
        for (number, message) in self.arrivals.skip_to(first) {
            give_up(context, expected..number.min(named));
            message.deliver(context, number);
            expected = number + 1;
        }
        give_up(context, expected..first.min(named));
        self.settle(context);
    }

    /// A message came, by a packet of this name.
    fn on_message(
        &mut self,
        context: &mut Context,
        name: &'static str,
        (number, index): (u64, u16),
        (length, count): (u16, u16),
        payload: Bytes,
    ) {
        let expected = self.arrivals.expected();
        let Some(first) = number.checked_sub(index.into()) else {
            return context.events.dropped(DropReason::Malformed);
        };
        if number >= expected + self.reach {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let is_known = self.arrivals.has(number);
        if is_known && !self.blocks.contains_key(&first) {
            return context.events.dropped(DropReason::Duplicate);
        }
        if !is_known && !self.has_room_for(context, number) {
            // The application does not keep up: as good as lost, the sender will repeat it.
            return context.events.dropped(DropReason::BufferFull);
        }
        // The blocks that are open at once have no more messages than a window, and one that is not whole yet.
        let places = self.blocks.get(&first).map_or(0, SymbolBlock::places);
        if self.places + (u64::from(index) + 1).saturating_sub(places) > 2 * self.reach {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let message = payload.clone();
        let taken = self.with_block(context, first, |block| {
            block.see(count, 0);
            let fits = block.may_have(index) && (length == 0 || block.set_length(length));
            if fits {
                block.insert(index, message);
            }
            fits
        });
        match taken {
            None => return,
            Some(false) => context.events.dropped(DropReason::Malformed),
            Some(true) if is_known => context.events.dropped(DropReason::Duplicate),
            Some(true) => {
                context.events.received(name, number);
                if number > expected && self.arrivals.is_empty() {
                    context.events.loss_found(context.sender, expected);
                }
                self.arrivals.insert(context, number, payload);
            }
        }
        self.settle(context);
    }

    /// The first message of a block that something is sent for again, if anything of it may be lacking.
    fn place(&self, first: u32, length: u16) -> Result<u64, DropReason> {
        let expected = self.arrivals.expected();
        match expand(first.into(), MODULUS, expected) {
            first if first + u64::from(length) <= expected => Err(DropReason::Duplicate),
            first if first >= expected + self.reach => Err(DropReason::OutOfWindow),
            first => Ok(first),
        }
    }

    /// The exclusive or of messages of which one is lacking is as good as that one.
    fn on_xor(
        &mut self,
        context: &mut Context,
        (first, length, count): (u32, u16, u16),
        places: SymbolPositions,
        sum: &[u8],
    ) {
        let first = match self.place(first, length) {
            Ok(first) => first,
            Err(reason) => return context.events.dropped(reason),
        };
        let taken = self.with_block(context, first, |block| {
            block.see(count, 0);
            if block.set_length(length) {
                block.only_missing(places.as_slice(), sum)
            } else {
                Err(DropReason::Malformed)
            }
        });
        match taken {
            None => {}
            Some(Err(reason)) => context.events.dropped(reason),
            Some(Ok((index, message))) => {
                self.on_message(context, "xor", (first + u64::from(index), index), (length, count), message);
            }
        }
    }

    fn on_repair(
        &mut self,
        context: &mut Context,
        coded: CodedBlock,
        (number, count, more): (u16, u16, u16),
        symbol: Bytes,
    ) {
        let first = match self.place(coded.first, coded.length) {
            Ok(first) => first,
            Err(reason) => return context.events.dropped(reason),
        };
        let has_room = self.kept(context) + 2 <= self.capacity;
        let shape = Shape { length: coded.length, planned: coded.planned, size: symbol.len() };
        let taken = self.with_block(context, first, |block| {
            block.see(count, more);
            if block.is_whole() || block.has_coded(number) {
                return Err(DropReason::Redundant);
            }
            if !has_room {
                return Err(DropReason::BufferFull);
            }
            if block.insert_coded(shape, number, symbol) { Ok(()) } else { Err(DropReason::Malformed) }
        });
        match taken {
            None => return,
            Some(Err(reason)) => context.events.dropped(reason),
            Some(Ok(())) => context.events.received("repair", first),
        }
        self.settle(context);
    }

    fn on_poll(
        &mut self,
        context: &mut Context,
        poll: Poll,
        blocks: ClosedBlocks<'_>,
        asked: PolledReceivers<'_>,
    ) {
        let expected = self.arrivals.expected();
        let next = expand(poll.next.into(), MODULUS, expected);
        let first = expand(poll.first.into(), MODULUS, expected);
        // What the sender holds spans at most a window before its newest message.
        if first > next || next - first > self.window {
            return context.events.dropped(DropReason::Malformed);
        }
        if first > expected && self.is_awaited {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        context.events.received("poll", next.saturating_sub(1));
        if first > expected {
            self.give_up_before(context, first);
        }
        let expected = self.arrivals.expected();
        let are_apart = self.are_apart();
        for closed in blocks.iter() {
            let first = expand(closed.first.into(), MODULUS, expected);
            let end = first + u64::from(closed.length);
            if end <= expected || end > next || end > expected + self.reach {
                continue;
            }
            let is_known = self.blocks.get(&first).is_some_and(|block| block.length() == Some(closed.length));
            // A large group's poll goes to all, and each looks at every block of it.
            if !(are_apart && is_known) {
                self.forget_others(first, end);
            }
            self.with_block(context, first, |block| {
                if !block.set_length(closed.length) {
                    // Something of it was not the sender's: what is lacking would never be asked for.
                    *block = SymbolBlock::default();
                    block.set_length(closed.length);
                }
                block.on_poll();
                block.see(closed.count, 0);
            });
            self.take_supplied(context, first, (closed.length, closed.count));
        }
        self.settle(context);
        let lists = blocks.count() > 0;
        if lists {
            self.names = poll.span == 0;
        }
        if let Some(at) = asked.position(self.identity) {
            self.asked = Some(poll.question.wrapping_add(at as u32));
            self.lists_asked |= lists;
        } else if poll.span > 0 && self.is_unserved() && context.timers.armed(Timer::Request).is_none() {
            let micros =
                u64::from(poll.after.min(MOST_WAIT)) + self.rng.below(u64::from(poll.span.min(MOST_WAIT)));
            context.timers.arm(Timer::Request, context.now + std::time::Duration::from_micros(micros.max(1)));
        }
    }

    /// What is here of a block of this length: as good as if it had come before the question.
    fn take_supplied(&mut self, context: &mut Context, first: u64, (length, count): (u16, u16)) {
        let numbers: Vec<u64> =
            self.supplied.range(first..first + u64::from(length)).map(|(&at, _)| at).collect();
        for number in numbers {
            let Some(payload) = self.supplied.remove(&number) else { continue };
            if !self.arrivals.has(number) {
                let index = (number - first) as u16;
                self.on_message(context, "supplied", (number, index), (length, count), payload);
            }
        }
    }

    /// Whether more is lacking than is due.
    fn is_unserved(&self) -> bool {
        self.blocks.values().any(|block| !block.is_served())
    }

    /// The blocks that are not whole, in the lists; how many there are.
    fn list_lacking(&mut self) -> usize {
        let (list, map) = &mut self.lists;
        list.clear();
        let mut listed = 0;
        for (&first, block) in &self.blocks {
            let Some(lacks) = block.lacks().filter(|&lacks| lacks > 0) else { continue };
            if listed == MAX_LISTED_BLOCKS || STATUS_LEN + list.len() + INCOMPLETE_BLOCK_LEN > MOST_BYTES {
                break;
            }
            map.clear();
            if self.names {
                name(block, map);
            }
            let fits = STATUS_LEN + list.len() + INCOMPLETE_BLOCK_LEN + map.len() <= MOST_BYTES;
            let missing = Map::new(if fits { map } else { &[] });
            let (first, count, plain) = ((first % MODULUS) as u32, block.seen(), block.is_plain());
            IncompleteBlocks::push(IncompleteBlock { first, count, lacks, plain, missing }, list);
            listed += 1;
        }
        listed
    }
}

/// Names what will not come.
fn give_up(context: &mut Context, messages: std::ops::Range<u64>) {
    messages.for_each(|number| context.events.loss_final(context.sender, MessageId(number)));
}

/// The map of the missing messages of a block, unless it is too long.
fn name(block: &SymbolBlock, map: &mut Vec<u8>) {
    let mut word = (0, 0);
    for index in block.missing() {
        let at = usize::from(index) / 64;
        if at >= MAX_WORDS {
            return map.clear();
        }
        while word.0 < at {
            Map::push(word.1, map);
            word = (word.0 + 1, 0);
        }
        word.1 |= 1 << (index % 64);
    }
    Map::push(word.1, map);
}

impl Part for CarillonReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some((self.arrivals.kept() + self.held) as u64)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for (&about, block) in &self.blocks {
            let state = match block.length() {
                _ if block.is_whole() => "Whole",
                None => "Open",
                Some(_) => "Lacking",
            };
            tell(ObservedState { of: DESCRIBED.states[1].of, about, state, turn: 0 });
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        if matches!(packet, Packet::Data { .. } | Packet::Repair { .. } | Packet::Xor { .. }) {
            self.arrived = self.arrived.wrapping_add(1);
        }
        match packet {
            Packet::Data { sequence, index, length, count, .. } => {
                let number = expand(sequence.into(), MODULUS, self.arrivals.expected());
                let payload = datagram.bytes.slice(DATA_HEADER_LEN..);
                self.on_message(context, "data", (number, index), (length, count), payload);
            }
            Packet::Repair { block, number, count, more, .. } => {
                let symbol = datagram.bytes.slice(REPAIR_HEADER_LEN..);
                self.on_repair(context, block, (number, count, more), symbol);
            }
            Packet::Xor { first, length, count, places, sum } => {
                self.on_xor(context, (first, length, count), places, sum);
            }
            Packet::Poll { poll, blocks, asked } => self.on_poll(context, poll, blocks, asked),
            Packet::Status { .. } => context.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, _context: &mut Context, timer: Timer) {
        match timer {
            Timer::Request => self.asks = self.is_unserved(),
        }
    }

    fn supply(&mut self, context: &mut Context, message: MessageId, payload: Bytes) {
        let (number, expected) = (message.0, self.arrivals.expected());
        let fits =
            number >= expected && number < expected + self.reach && self.kept(context) + 2 <= self.capacity;
        if fits && !self.arrivals.has(number) {
            self.supplied.insert(number, payload);
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.asked.is_none() && !(std::mem::take(&mut self.asks) && self.is_unserved()) {
            return None;
        }
        self.asks = false;
        let says_all = std::mem::take(&mut self.lists_asked) || self.asked.is_none();
        let listed = if says_all { self.list_lacking() } else { 0 };
        let expected = self.arrivals.expected();
        let status = Status {
            expected: (expected % MODULUS) as u32,
            question: self.asked.take().unwrap_or(0),
            arrived: self.arrived,
            room: u32::try_from(self.room(context)).unwrap_or(u32::MAX),
        };
        Packet::Status { status, lacking: IncompleteBlocks::new(&self.lists.0, listed) }
            .emit(context.association, buf);
        context.events.control("status", expected.saturating_sub(1));
        Some(Transmit::now(Dest::Node(context.sender)))
    }
}

/// Blocks that are known and not delivered.
const MOST_BLOCKS: usize = 4096;
/// A status has no more bytes than this, so that it is one frame wherever IPv6 goes.
const MOST_BYTES: usize = 1200;
/// Microseconds: nobody waits for longer to ask.
const MOST_WAIT: u32 = 10_000_000;
