//! Receiver of the protocol: assembles blocks, rebuilds missing messages, and answers polls.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, Dest, Draws, DropReason, MessageId, ObservedState, Received, Role, Transmit,
};
use carillon_wire::carillon::{
    ClosedBlocks, CodedBlock, DATA_HEADER_LEN, INCOMPLETE_BLOCK_LEN, IncompleteBlock, IncompleteBlocks,
    MAX_LISTED_BLOCKS, Packet, Poll, PolledReceivers, REPAIR_HEADER_LEN, STATUS_LEN, Status, SymbolPositions,
};
use carillon_wire::map::{MAX_WORDS, Map};

use super::arrivals::Arrivals;
use super::census::MAX_SPAN;
use super::config::{is_one_way, order};
use super::states::STATES;
use crate::blocks::{NumberMap, Part, PastLimit, Player, ReedSolomon, Shape, SymbolBlock, near, wire};

type Context = crate::blocks::MachineContext<Timer>;

/// Receiver that delivers messages in order or as they come, rebuilds missing ones from repairs, and states what is
/// missing when polled.
#[derive(Debug)]
pub struct CarillonReceiver {
    /// Identifier of this receiver on the wire.
    identity: u32,
    /// Send window of the sender in messages.
    window: u64,
    /// True if the sender never skips messages that this receiver misses. A sender that does so has expelled it, and
    /// the host will be notified.
    is_awaited: bool,
    /// Number of messages and symbols that fit its memory.
    capacity: u64,
    /// Messages received, and the order of their delivery.
    arrivals: Arrivals,
    /// Payloads of withheld messages that the host supplied, until the block they belong to is known.
    supplied: BTreeMap<u64, Bytes>,
    /// Blocks that are not delivered as a whole, by the sequence number of their first message.
    blocks: NumberMap<SymbolBlock>,
    /// Number of payloads that these blocks keep.
    held: usize,
    /// Number of places that these blocks have reserved.
    places: u64,
    code: ReedSolomon,
    /// Number of DATA, REPAIR and XOR packets received, modulo 2^32.
    arrived: u32,
    /// Newest poll to answer. Its answer supersedes the answers to earlier polls.
    asked: Option<u32>,
    /// True if the answer must list the missing messages.
    is_list_wanted: bool,
    /// True if a request without a poll is due.
    is_request_due: bool,
    /// Number of the last census, and true if the status that it asks for is due.
    census: (u32, bool),
    /// True if statuses list the missing messages. In a large group they only count them, since the sender could not
    /// use the lists.
    lists_missing: bool,
    /// Random stream of the back-off.
    draws: Draws,
    /// Buffers for the lists of a status, reused.
    lists: (Vec<u8>, Vec<u8>),
}

/// Timer of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Back-off before a request for missing data for which no repairs are due.
    Request,
    /// Random time of the status that a census asks for.
    Census,
}

impl CarillonReceiver {
    /// Creates the receiver of the node in `build`.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        let (window, capacity) = (settings.count("window"), build.max_messages(u64::MAX));
        CarillonReceiver {
            identity: build.identities.own(build.node) as u32,
            window,
            is_awaited: matches!(PastLimit::of(settings), PastLimit::Wait) && !is_one_way(settings),
            capacity,
            arrivals: Arrivals::new(order(settings)),
            supplied: BTreeMap::new(),
            blocks: NumberMap::default(),
            held: 0,
            places: 0,
            code: ReedSolomon,
            arrived: 0,
            asked: None,
            is_list_wanted: false,
            is_request_due: false,
            census: (0, false),
            lists_missing: true,
            draws: build.seeds.draws("carillon.request"),
            lists: Default::default(),
        }
        .play(build)
    }

    /// Number of messages from the expected one that are accepted. It keeps the announced room within the memory.
    fn reach(&self) -> u64 {
        self.window.min(self.capacity)
    }

    /// Number of payloads kept. A message beyond a gap counts twice: in its block and in its place.
    fn kept(&self, context: &Context) -> u64 {
        (self.held + self.arrivals.kept() + self.supplied.len() + context.waiting()) as u64
    }

    /// Number of messages from the expected one that fit the memory.
    fn room(&self, context: &Context) -> u64 {
        // Nothing is missing, so payloads kept only for decoding will be freed.
        let kept = if self.arrivals.is_empty() { context.waiting() as u64 } else { self.kept(context) };
        // A message beyond a gap takes two places, so the free memory counts half.
        let free = self.capacity.saturating_sub(kept);
        self.window.min(free / 2 + self.arrivals.len() as u64)
    }

    /// Returns true if one more payload can be kept. For the message that the application needs next, the payloads
    /// kept for decoding are freed first.
    fn has_room_for(&mut self, context: &Context, number: u64) -> bool {
        // A message takes up to two places: in its block, and among the messages that wait for earlier ones.
        if self.kept(context) + 2 <= self.capacity {
            return true;
        }
        if number != self.arrivals.expected() {
            return false;
        }
        // The status then asks for plain messages of these blocks, as symbols would not help.
        self.blocks.values_mut().for_each(SymbolBlock::forget);
        self.held = 0;
        self.kept(context) < self.capacity
    }

    /// Applies `change` to the block that begins with this message, creates the block if necessary, and inserts the
    /// messages that the block can then rebuild. Returns none if there are too many blocks.
    fn with_block<R>(
        &mut self,
        context: &mut Context,
        first: u64,
        change: impl FnOnce(&mut SymbolBlock) -> R,
    ) -> Option<R> {
        if !self.blocks.contains(first) && self.blocks.len() >= MAX_BLOCKS {
            context.events.dropped(DropReason::OutOfWindow);
            return None;
        }
        // Subtract the block's counts before the change and add them after it, as the change may free or reserve
        // memory.
        let reach = self.reach();
        let block = self.blocks.get_or_default(first);
        self.held -= block.held();
        self.places -= block.places();
        let result = change(block);
        for (index, message) in block.restore(&self.code) {
            let number = first + u64::from(index);
            // A rebuilt message may be delivered already. A forged block may reach beyond the window.
            if number >= self.arrivals.expected() && number < self.arrivals.expected() + reach {
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
        // Supplied payloads of delivered messages are not needed.
        if self.supplied.first_key_value().is_some_and(|(&number, _)| number < expected) {
            self.supplied = self.supplied.split_off(&expected);
        }
        // Blocks are consecutive, so all blocks before the one with the expected message have ended.
        let begun = self.blocks.below(expected + 1).next_back().map_or(0, |(first, _)| first);
        while let Some((first, block)) = self.blocks.first() {
            let is_past = |length: u16| first + u64::from(length) <= expected;
            if first >= begun && !block.length().is_some_and(is_past) {
                break;
            }
            self.drop_block(first);
        }
    }

    /// Returns true if no two blocks share a message.
    fn are_disjoint(&self) -> bool {
        let ends =
            self.blocks.iter().map(|(first, block)| first + block.length().map_or(block.places(), u64::from));
        ends.zip(self.blocks.iter().skip(1)).all(|(end, (next, _))| end <= next)
    }

    /// Drops all blocks that overlap the block from `first` to `end`: they were forged.
    fn drop_overlapping(&mut self, first: u64, end: u64) {
        let reaches = |&(at, block): &(u64, &SymbolBlock)| {
            at != first && at + block.length().map_or(block.places(), u64::from) > first
        };
        let overlapping: Vec<u64> = self.blocks.below(end).filter(reaches).map(|(at, _)| at).collect();
        overlapping.into_iter().for_each(|at| self.drop_block(at));
    }

    /// Drops a block, and what is counted for it.
    fn drop_block(&mut self, first: u64) {
        if let Some(block) = self.blocks.remove(first) {
            self.held -= block.held();
            self.places -= block.places();
        }
    }

    /// Skips to `first`, since the sender holds no earlier message: delivers the messages that are present and
    /// reports the others as lost.
    fn skip_lost_before(&mut self, context: &mut Context, first: u64) {
        let mut expected = self.arrivals.expected();
        // No sender holds more than a window, so that a forged packet can report at most one window as lost.
        let named = expected + self.window;
        context.events.loss_found(context.sender, expected);
        for (number, message) in self.arrivals.skip_to(first) {
            report_lost(context, expected..number.min(named));
            message.deliver(context, number);
            expected = number + 1;
        }
        report_lost(context, expected..first.min(named));
        self.settle(context);
    }

    /// Inserts a message that arrived in a packet with this name.
    fn on_message(
        &mut self,
        context: &mut Context,
        name: &'static str,
        (number, index): (u64, u16),
        (length, count): (u16, u16),
        payload: Bytes,
    ) {
        let expected = self.arrivals.expected();
        // A message with an index above its sequence number cannot be genuine.
        let Some(first) = number.checked_sub(index.into()) else {
            return context.events.dropped(DropReason::Malformed);
        };
        // No genuine sender goes beyond the announced room.
        if number >= expected + self.reach() {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        // A known message can still be worth keeping: its block needs it to decode others.
        let is_known = self.arrivals.has(number);
        if is_known && !self.blocks.contains(first) {
            return context.events.dropped(DropReason::Duplicate);
        }
        if !is_known && !self.has_room_for(context, number) {
            // The application is slow. Treat the message as lost; the sender will repeat it.
            return context.events.dropped(DropReason::BufferFull);
        }
        // All open blocks together have no more messages than the window, plus one block that is not complete.
        let places = self.blocks.get(first).map_or(0, SymbolBlock::places);
        if self.places + (u64::from(index) + 1).saturating_sub(places) > 2 * self.reach() {
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
                // The first message beyond the expected one reveals the gap.
                if number > expected && self.arrivals.is_empty() {
                    context.events.loss_found(context.sender, expected);
                }
                self.arrivals.insert(context, number, payload);
            }
        }
        self.settle(context);
    }

    /// Sequence number of the first message of a repaired block, or the reason to drop the repair.
    fn block_start(&self, first: u32, length: u16) -> Result<u64, DropReason> {
        let expected = self.arrivals.expected();
        match near(first, expected) {
            first if first + u64::from(length) <= expected => Err(DropReason::Duplicate),
            first if first >= expected + self.reach() => Err(DropReason::OutOfWindow),
            first => Ok(first),
        }
    }

    /// Handles a sum (exclusive or) of messages. If exactly one of them is missing, the sum yields that message.
    fn on_xor(
        &mut self,
        context: &mut Context,
        (first, length, count): (u32, u16, u16),
        places: SymbolPositions,
        sum: &[u8],
    ) {
        let first = match self.block_start(first, length) {
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
        let first = match self.block_start(coded.first, coded.length) {
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
                // Symbols beyond those needed to complete the block are redundant.
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
        let next = near(poll.next, expected);
        let first = near(poll.first, expected);
        // The sender holds at most a window of messages before its newest one.
        if first > next || next - first > self.window {
            return context.events.dropped(DropReason::Malformed);
        }
        // The sender skips no message that this receiver is missing unless it has expelled it.
        if first > expected && self.is_awaited {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        context.events.received("poll", next.saturating_sub(1));
        if first > expected {
            self.skip_lost_before(context, first);
        }
        let expected = self.arrivals.expected();
        let are_disjoint = self.are_disjoint();
        for closed in blocks.iter() {
            let first = near(closed.first, expected);
            let end = first + u64::from(closed.length);
            // Skip blocks that are delivered, and blocks that a genuine sender cannot have.
            if end <= expected || end > next || end > expected + self.reach() {
                continue;
            }
            let is_known = self.blocks.get(first).is_some_and(|block| block.length() == Some(closed.length));
            // A poll to a large group reaches all members, and each looks at all blocks in it: skip the search for
            // known ones.
            if !(are_disjoint && is_known) {
                self.drop_overlapping(first, end);
            }
            self.with_block(context, first, |block| {
                if !block.set_length(closed.length) {
                    // A forged packet fixed a wrong length. Start the block anew, or its missing messages would never
                    // be requested.
                    *block = SymbolBlock::default();
                    block.set_length(closed.length);
                }
                block.on_poll();
                block.see(closed.count, 0);
            });
            // The host may have supplied withheld messages before their block was known.
            self.take_supplied(context, first, (closed.length, closed.count));
        }
        self.settle(context);
        let lists = blocks.count() > 0;
        if lists {
            // The sender of a small group leaves `span` zero and uses the lists.
            self.lists_missing = poll.span == 0;
        }
        // The poll numbers its members consecutively from `question`, so the position gives the number to answer.
        if let Some(at) = asked.position(self.identity) {
            self.asked = Some(poll.question.wrapping_add(at as u32));
            self.is_list_wanted |= lists;
        } else if asked.count() == 0 && poll.question > 0 && poll.span > 0 {
            self.on_census(context, poll);
        // Large group: request by itself after a random back-off, if the repairs announced do not cover what is
        // missing.
        } else if poll.span > 0 && self.needs_request() && context.timers.armed(Timer::Request).is_none() {
            let micros = u64::from(poll.after.min(MAX_REQUEST_DELAY_MICROS))
                + self.draws.with(|rng| rng.below(u64::from(poll.span.min(MAX_REQUEST_DELAY_MICROS))));
            context.timers.arm(Timer::Request, context.now + Duration::from_micros(micros.max(1)));
        }
    }

    /// Handles the poll of a census, which asks all receivers: draws the time of the status, or draws it anew if it is
    /// still to be sent. Each census is answered once.
    fn on_census(&mut self, context: &mut Context, poll: Poll) {
        if poll.question == self.census.0 && context.timers.armed(Timer::Census).is_none() {
            return;
        }
        self.census.0 = poll.question;
        let span = u64::from(poll.span).min(MAX_SPAN.as_micros() as u64);
        let micros =
            u64::from(poll.after.min(MAX_REQUEST_DELAY_MICROS)) + self.draws.with(|rng| rng.below(span));
        context.timers.arm(Timer::Census, context.now + Duration::from_micros(micros.max(1)));
    }

    /// Inserts the supplied payloads of a block, as if their messages had arrived before the poll.
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

    /// Returns true if more repairs are missing than are announced.
    fn needs_request(&self) -> bool {
        self.blocks.iter().any(|(_, block)| !block.is_served())
    }

    /// Writes the incomplete blocks to the lists of a status. Returns their number.
    fn list_lacking(&mut self) -> usize {
        let (list, map) = &mut self.lists;
        list.clear();
        let mut listed = 0;
        for (first, block) in self.blocks.iter() {
            let Some(lacks) = block.lacks().filter(|&lacks| lacks > 0) else { continue };
            // The status fits one frame, so the newest blocks may be left out.
            if listed == MAX_LISTED_BLOCKS
                || STATUS_LEN + list.len() + INCOMPLETE_BLOCK_LEN > MAX_STATUS_BYTES
            {
                break;
            }
            map.clear();
            if self.lists_missing {
                push_missing(block, map);
            }
            // A bitmap that does not fit is omitted, since the number of missing messages suffices for coded symbols.
            let fits = STATUS_LEN + list.len() + INCOMPLETE_BLOCK_LEN + map.len() <= MAX_STATUS_BYTES;
            let missing = Map::new(if fits { map } else { &[] });
            let (first, count, plain) = (wire(first), block.seen(), block.is_plain());
            IncompleteBlocks::push(IncompleteBlock { first, count, lacks, plain, missing }, list);
            listed += 1;
        }
        listed
    }
}

/// Reports these messages as lost.
fn report_lost(context: &mut Context, messages: std::ops::Range<u64>) {
    messages.for_each(|number| context.events.loss_final(context.sender, MessageId(number)));
}

/// Writes the bitmap of the missing messages of a block up to the last of them, or nothing if the bitmap is too long.
fn push_missing(block: &SymbolBlock, map: &mut Vec<u8>) {
    // Number of bytes up to the last word that is not zero.
    let mut len = 0;
    for (at, word) in block.missing().enumerate() {
        if word != 0 && at >= MAX_WORDS {
            return map.clear();
        }
        if at < MAX_WORDS {
            Map::push(word, map);
        }
        if word != 0 {
            len = map.len();
        }
    }
    map.truncate(len);
}

impl Part for CarillonReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some((self.arrivals.kept() + self.held) as u64)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        for (about, block) in self.blocks.iter() {
            let state = match block.length() {
                _ if block.is_whole() => "Whole",
                None => "Open",
                Some(_) => "Lacking",
            };
            tell(ObservedState { of: STATES[1].of, about, state, turn: 0 });
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        // The sender derives the loss of the path from this count, so redundant packets count too.
        if matches!(packet, Packet::Data { .. } | Packet::Repair { .. } | Packet::Xor { .. }) {
            self.arrived = self.arrived.wrapping_add(1);
        }
        match packet {
            Packet::Data { sequence, index, length, count, .. } => {
                let number = near(sequence, self.arrivals.expected());
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
            Timer::Request => self.is_request_due = self.needs_request(),
            Timer::Census => self.census.1 = true,
        }
    }

    fn supply(&mut self, context: &mut Context, message: MessageId, payload: Bytes) {
        let (number, expected) = (message.0, self.arrivals.expected());
        // The payload waits until a poll lists its block.
        let fits =
            number >= expected && number < expected + self.reach() && self.kept(context) + 2 <= self.capacity;
        if fits && !self.arrivals.has(number) {
            self.supplied.insert(number, payload);
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Transmit if a poll awaits an answer, or if a request is due that still makes sense.
        let is_counted = std::mem::take(&mut self.census.1);
        let requests = std::mem::take(&mut self.is_request_due) && self.needs_request();
        if self.asked.is_none() && !is_counted && !requests {
            return None;
        }
        // A request without a poll always lists blocks, since nothing else would tell the sender of them.
        let says_all = std::mem::take(&mut self.is_list_wanted) || self.asked.is_none();
        let listed = if says_all { self.list_lacking() } else { 0 };
        let expected = self.arrivals.expected();
        let status = Status {
            expected: wire(expected),
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

/// Maximum number of blocks that are not delivered. It bounds the memory that forged packets can take.
const MAX_BLOCKS: usize = 4096;
/// Maximum number of bytes of a status: one frame on every IPv6 path (minimum MTU 1280, RFC 8200, section 5).
const MAX_STATUS_BYTES: usize = 1200;
/// Maximum back-off before a request, in microseconds. It bounds the delay that a forged poll can cause.
const MAX_REQUEST_DELAY_MICROS: u32 = 10_000_000;
