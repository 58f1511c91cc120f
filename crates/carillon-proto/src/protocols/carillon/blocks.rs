//! Blocks of a sender in flight: their lengths, the repairs due, and the order in which polls list them.

use std::collections::{BTreeSet, VecDeque};

use carillon_core::{Config, MessageId, SeqSet, Transmit};
use carillon_wire::carillon::{
    ClosedBlock, ClosedBlocks as Listed, CodedBlock, MAX_LISTED_BLOCKS, Packet, SymbolPositions,
    max_positions,
};

use super::context::Context;
use crate::blocks::{AckWindow, FixedWindow, ReedSolomon, Repair, RepairBlock, wire, worst};

/// Messages that some member has not acknowledged, and the blocks that contain them.
#[derive(Debug)]
pub(super) struct Blocks {
    pub window: AckWindow,
    /// Blocks from the oldest that is not fully acknowledged to the newest, which may be open.
    blocks: VecDeque<RepairBlock>,
    /// Messages that are sent only if a receiver misses them.
    withheld: SeqSet,
    code: ReedSolomon,
    /// Maximum number of messages kept until all members have them.
    pub kept: u64,
    /// Maximum number of messages and coded symbols of a block together.
    max_symbols: u64,
    /// Coded symbols sent with each block before any request, per message of the block.
    redundancy: f64,
    /// True if blocks carry as many symbols as earlier blocks needed, if that is more than `redundancy`.
    is_adaptive: bool,
    /// EWMA of the number of repairs per message that finished blocks needed.
    needed: f64,
    /// Number of messages planned for the open block.
    aim: u64,
    /// First message of the block at which the next poll continues to list, if it cannot list all blocks.
    turn: u64,
    /// Sequence number after the last message sent.
    pub sent: u64,
    /// Number of packets of messages and symbols sent, in transmit order.
    pub serial: u64,
}

impl Blocks {
    /// Creates an empty set of blocks on this window.
    pub fn new(window: AckWindow, settings: &Config) -> Self {
        let mut blocks = Blocks {
            window,
            blocks: VecDeque::new(),
            withheld: SeqSet::new(),
            code: ReedSolomon,
            kept: settings.count("window"),
            max_symbols: settings.count("block"),
            redundancy: settings.probability("redundancy").value(),
            is_adaptive: settings.choice("proactive") == "loss",
            needed: 0.0,
            aim: 0,
            turn: 0,
            sent: 0,
            serial: 0,
        };
        blocks.make_room();
        blocks
    }

    /// Limits the room for offered messages to as many as can be sent soon. A long window then takes no memory while
    /// the path is short.
    fn make_room(&mut self) {
        let under_way = self.sent - self.window.start().min(self.sent);
        self.window.set_room(FixedWindow(self.kept.min(under_way + MAX_UNSENT_MESSAGES)));
    }

    /// Returns true if no more messages can be kept.
    pub fn is_full(&self) -> bool {
        self.window.len() as u64 >= self.kept
    }

    /// Returns true if a block is open and has messages.
    pub fn is_open(&self) -> bool {
        self.blocks.back().is_some_and(|block| !block.is_closed())
    }

    /// Closes the open block: no more messages join it.
    pub fn close(&mut self) {
        let part = self.proactive_share();
        if let Some(block) = self.blocks.back_mut().filter(|block| !block.is_closed()) {
            block.close();
            block.plan_proactive(proactive_symbols(part, block));
        }
    }

    /// Returns true if the open block is the only one, so that nothing can be confirmed before it is closed.
    pub fn is_open_alone(&self) -> bool {
        self.is_open() && self.blocks.len() == 1
    }

    /// Sequence number after the last message of a closed block.
    pub fn closed_below(&self) -> u64 {
        self.blocks.iter().rev().find(|block| block.is_closed()).map_or(self.window.start(), RepairBlock::end)
    }

    /// Fields `next` and `first` of a poll.
    pub fn poll_range(&self) -> (u32, u32) {
        (wire(self.sent), wire(self.window.start().min(self.sent)))
    }

    /// Blocks from the oldest to the newest.
    pub fn iter(&self) -> impl Iterator<Item = &RepairBlock> {
        self.blocks.iter()
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Closed block that begins with this message.
    pub fn find(&mut self, first: u64) -> Option<&mut RepairBlock> {
        // Blocks are consecutive, so they are sorted by their first message.
        let at = self.blocks.binary_search_by_key(&first, RepairBlock::first).ok()?;
        self.blocks.get_mut(at).filter(|block| block.is_closed())
    }

    /// Returns true if receivers should be polled about a block: packets were sent for it since the last poll, or a
    /// request arrived.
    pub fn wants_round(&self) -> bool {
        self.blocks.iter().any(|block| block.is_news() || block.is_asked() && block.due() == 0)
    }

    /// Returns true if repairs are due.
    pub fn has_repairs(&self) -> bool {
        self.blocks.iter().any(|block| block.due() > 0)
    }

    /// Decides which repairs to send: of all blocks, or of blocks that all members were polled about, since only there
    /// the missing messages of all are known. If a response is missing (`is_complete` is false), coded symbols serve
    /// the silent members best, as any symbol replaces any message. `spare` is a loss rate: extra repairs go out
    /// against it, so that few members need another round.
    pub fn decide(&mut self, context: &mut Context, of_all: bool, is_complete: bool, spare: Option<f64>) {
        if !self.blocks.iter().any(RepairBlock::is_asked) {
            return;
        }
        // Collect the members that the repairs serve, to record how many packets each will get.
        let mut asked = BTreeSet::new();
        for block in self.blocks.iter_mut().filter(|block| block.is_polled() || of_all && block.is_closed()) {
            // Short repairs go out as plain messages, since coding costs more than a few packets. If the round is
            // complete, messages and sums may replace symbols even at an excess of an eighth.
            let plain = MIN_PLAIN_REPAIRS + u64::from(block.len()) / MESSAGES_PER_PLAIN_REPAIR;
            let plain_up_to = |symbols: u64| match is_complete {
                true => plain.max(symbols + symbols / PLAIN_EXCESS_DIVISOR),
                false => plain * u64::from(symbols <= plain),
            };
            // Repairs decided earlier have their extra packets already.
            let before = block.due();
            let members = block.decide(plain_up_to, max_positions(block.len()));
            if let Some(loss) = spare {
                block.spare(
                    extra_for_loss(block.due().saturating_sub(before), loss),
                    MAX_REPEATED_PACKETS,
                    &members,
                );
            }
            asked.extend(members);
        }
        for index in asked {
            let packets = self.blocks.iter().map(|block| block.serves(index)).sum::<u64>();
            if packets > 0 {
                let packets = u32::try_from(packets).unwrap_or(u32::MAX);
                context.events.repair_needed(self.window.node(index), packets);
            }
        }
    }

    /// Lists closed blocks for a poll to `members`, in a round (`asks_all`) or later. Members of a large group
    /// request by themselves, so that a poll outside a round omits the blocks that the next round will list. If there
    /// are more blocks than fit, the poll lists blocks not polled yet, then those at which the members stand, then
    /// the rest in turn. A member that missed a poll thus learns of every block in a later one.
    pub fn list(&mut self, asks_all: bool, is_large_group: bool, members: &[usize], bytes: &mut Vec<u8>) {
        let is_listed =
            |block: &RepairBlock| block.is_closed() && (asks_all || !is_large_group || !block.is_news());
        // Everything fits in most polls; turns matter only with very many blocks.
        let mut places: Vec<usize> =
            (0..self.blocks.len()).filter(|&at| is_listed(&self.blocks[at])).collect();
        if places.len() > MAX_LISTED_BLOCKS {
            places = self.by_turns(&places, asks_all, members);
        }
        for at in places {
            let block = &mut self.blocks[at];
            let first = wire(block.first());
            Listed::push(ClosedBlock { first, length: block.length(), count: block.count() }, bytes);
            if asks_all && block.is_news() {
                block.on_poll();
            }
        }
    }

    /// Selects as many of these blocks as a poll lists, in ascending order.
    fn by_turns(&mut self, all: &[usize], asks_all: bool, members: &[usize]) -> Vec<usize> {
        let is_news = |at: &usize| asks_all && self.blocks[*at].is_news();
        // A member stands at the block with its first unconfirmed message.
        let standing = members.iter().filter_map(|&index| {
            let next = self.window.acknowledged_below(index).max(self.window.start());
            let at = self.blocks.partition_point(|block| block.end() <= next);
            all.binary_search(&at).is_ok().then_some(at)
        });
        let turn = all.partition_point(|&at| self.blocks[at].first() < self.turn);
        let others = all[turn..].iter().chain(&all[..turn]).copied();
        let news = || all.iter().copied().filter(is_news);
        // First the reserved part for unpolled blocks, then the blocks of the members, then more unpolled ones.
        let mut listed = BTreeSet::new();
        for at in news().take(RESERVED_FOR_NEWS).chain(standing.take(MAX_LISTED_CURRENT)).chain(news()) {
            if listed.len() < MAX_LISTED_BLOCKS - RESERVED_FOR_OTHERS {
                listed.insert(at);
            }
        }
        // The rest goes to the other blocks, from the one at which the previous poll ended.
        let mut last = None;
        for at in others {
            if listed.len() == MAX_LISTED_BLOCKS {
                break;
            }
            if listed.insert(at) {
                last = Some(at);
            }
        }
        self.turn = last.map_or(self.turn, |at| self.blocks[at].end());
        listed.into_iter().collect()
    }

    /// Completes the messages that all members have acknowledged, and drops their blocks.
    pub fn advance(&mut self, context: &mut Context) {
        while self.window.complete_first(&mut context.events).is_some() {}
        let start = self.window.start();
        if start > self.sent {
            // No member remains that would need the messages not sent yet.
            self.sent = start;
            self.close();
        }
        while let Some(block) = self.blocks.pop_front_if(|block| block.end() <= start) {
            // Short blocks are too noisy a sample for the adaptive redundancy.
            if u64::from(block.len()) >= MIN_CODED_LENGTH {
                let needed = f64::from(block.count()) / f64::from(block.len());
                self.needed += (needed - self.needed) * REDUNDANCY_GAIN;
            }
        }
        if !self.withheld.is_empty() {
            self.withheld.remove_below(start);
        }
        self.make_room();
    }

    /// Forgets the first blocks once everything planned for them was sent, without any acknowledgment (one-way
    /// sessions).
    pub fn forget_sent(&mut self) {
        while let Some(block) = self.blocks.front().filter(|block| block.is_closed() && block.due() == 0) {
            let end = block.end();
            // No acknowledgment completes these messages, so they leave the window here.
            while self.window.start() < end && self.window.pop().is_some() {}
            self.blocks.pop_front();
        }
        self.make_room();
    }

    /// Writes the next repair. `is_large_group` is true for a large group.
    pub fn next_repair(
        &mut self,
        context: &mut Context,
        is_large_group: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        // The oldest block comes first, since messages of later ones wait for it in source order.
        let at = self.blocks.iter().position(|block| block.due() > 0)?;
        let (block, most) = (&mut self.blocks[at], self.max_symbols);
        let first = block.first();
        let spare = free_symbols(block.len().into());
        // In a large group the first member to ask is rarely the one with the most missing messages.
        let margin = |wanted: u64| wanted + wanted / 2 + if is_large_group { 64 } else { 16 };
        // A short block needs few different symbols: once all were sent, they are sent again.
        let enough =
            (u64::from(block.len()) * MAX_PLANNED_PER_MESSAGE).next_power_of_two().max(MIN_PLANNED_SYMBOLS);
        let repair = block.next(&self.code, |wanted| planned(most.min(enough), margin(wanted).max(spare)))?;
        self.serial += 1;
        let block = &self.blocks[at];
        let (count, length) = (block.count(), block.length());
        // The number of repairs that follow suppresses requests of receivers that these will serve.
        let more = u16::try_from(block.due()).unwrap_or(u16::MAX);
        match repair {
            Repair::Message(index) => Some(emit(context, block, index, buf)),
            Repair::Sum(places, sum) => {
                let (first, places) = (wire(first), SymbolPositions::new(&places, length));
                Packet::Xor { first, length, count, places, sum: &sum }.emit(context.association, buf);
                let to_group = context.to_group();
                let number = MessageId(block.first() + u64::from(places.as_slice()[0]));
                Some(context.events.data_sent(to_group, number, buf.len(), true))
            }
            Repair::Coded(shape, number, symbol) => {
                let block = CodedBlock { first: wire(first), length, planned: shape.planned };
                Packet::Repair { block, number, count, more, symbol: &symbol }.emit(context.association, buf);
                let to_group = context.to_group();
                Some(context.events.data_sent(to_group, MessageId(first), buf.len(), true))
            }
        }
    }

    /// Marks a message that is sent only if a receiver misses it.
    pub fn withhold(&mut self, number: u64) {
        self.withheld.insert(number);
    }

    /// Returns true if the next message is withheld.
    pub fn is_next_withheld(&self) -> bool {
        self.withheld.contains(self.sent)
    }

    /// Writes the next message. Returns true beside it if the message begins a block.
    pub fn next_message(
        &mut self,
        context: &mut Context,
        to: GroupEstimate,
        buf: &mut Vec<u8>,
    ) -> (Transmit, bool) {
        let (index, begins) = self.take_next(context, to);
        self.serial += 1;
        let block = self.blocks.back().expect("the message is in it");
        (emit(context, block, index, buf), begins)
    }

    /// Puts the next message into the open block without sending it. Returns its index, and true if it begins the
    /// block.
    pub fn take_next(&mut self, context: &Context, to: GroupEstimate) -> (u16, bool) {
        let begins = !self.is_open();
        if begins {
            self.aim = self.length(to);
            self.blocks.push_back(RepairBlock::new(self.sent));
        }
        // The last message closes its block at once, so that no timer delays the repair.
        let is_end = self.window.is_closed() && self.sent + 1 == self.window.end();
        let under_way = self.window.len() as u32;
        let slot = self.window.get_mut(self.sent).expect("the caller has asked whether there is one");
        slot.sent.get_or_insert((context.now, under_way));
        let message = slot.payload.clone();
        let part = self.proactive_share();
        let block = self.blocks.back_mut().expect("one is open");
        let is_last = is_end || u64::from(block.len()) + 1 >= self.aim;
        let index = block.send(message, is_last);
        if is_last {
            block.plan_proactive(proactive_symbols(part, block));
        }
        self.sent += 1;
        self.make_room();
        (index, begins)
    }

    /// Share of a block that is sent as coded symbols before any request. Adaptive redundancy stays below the
    /// measured need: a surplus goes unnoticed, while a shortage is requested.
    fn proactive_share(&self) -> f64 {
        let needed = if self.is_adaptive { self.needed * PROACTIVE_SHARE } else { 0.0 };
        self.redundancy.max(needed)
    }

    /// Number of messages of a new block. It is long enough that the receiver with the most losses needs hardly more
    /// repairs than an average one, and no longer, since receivers must keep whole blocks. If coded symbols are
    /// likely, messages and symbols together fill a power of two, at which the code is fastest.
    fn length(&self, to: GroupEstimate) -> u64 {
        // The length must be at least the length at which an excess is tolerable, and a share of the window.
        let loss = to.loss.min(MAX_ASSUMED_LOSS);
        let least = MIN_LENGTH.max((to.window / BLOCKS_PER_WINDOW).next_power_of_two());
        let is_summed = to.receivers <= MAX_SUMMED_RECEIVERS;
        let tolerance = if is_summed { MAX_SUMMED_EXCESS } else { MAX_EXCESS };
        let enough = (worst::length_for(loss, to.receivers, tolerance) as u64).max(least);
        // At most half of the send window or the receive windows, so that one block can fill while another
        // is repaired.
        let most = (self.kept.div_ceil(2)).min((to.room / 2).max(1));
        if most.min(self.max_symbols) < MIN_CODED_LENGTH {
            return most.min(self.max_symbols);
        }
        if is_summed {
            return enough.min(MAX_SUMMED_LENGTH.max(least)).min(most).min(self.max_symbols);
        }
        // Try lengths that fill powers of two, longer ones only while the present one is clearly too short.
        let lengths = (0..).map(|doubled| length_in(MIN_CODED_LENGTH << doubled, loss, to.receivers));
        let fits = |&(all, length): &(u64, u64)| length <= most && all <= self.max_symbols;
        let mut fitting = lengths.take_while(fits).map(|(_, length)| length);
        let mut length = fitting.next().unwrap_or(MIN_CODED_LENGTH);
        while length < enough - enough / LENGTH_TOLERANCE
            && let Some(longer) = fitting.next()
        {
            length = longer;
        }
        length
    }
}

/// Estimate of the group that decides the length of a block: number of receivers, room in messages, loss rate of the
/// worst path, and packets that may be in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupEstimate {
    pub receivers: usize,
    pub room: u64,
    pub loss: f64,
    pub window: u64,
}

/// Number of messages of a block that fills `all` places together with the symbols that the receivers will need.
fn length_in(all: u64, loss: f64, receivers: usize) -> (u64, u64) {
    let needed = |length: u64| {
        let more = worst::packets(length as f64, loss, receivers) - length as f64;
        (more * PLAN_MARGIN) as u64 + MIN_PLANNED_SYMBOLS / 2
    };
    let mut planned = MIN_PLANNED_SYMBOLS.min(all / 2);
    // Double the symbols until they cover the need, up to half of the places.
    while planned < all / 2 && needed(all - planned) > planned {
        planned *= 2;
    }
    (all, all - planned)
}

/// Writes a message of a block. It counts as a first transmission if the block has no repairs yet.
fn emit(context: &mut Context, block: &RepairBlock, index: u16, buf: &mut Vec<u8>) -> Transmit {
    let number = block.first() + u64::from(index);
    let payload = block.message(index).expect("a message of the block");
    let (sequence, length, count) = (wire(number), block.length(), block.count());
    Packet::Data { sequence, index, length, count, payload }.emit(context.association, buf);
    let to_group = context.to_group();
    context.events.data_sent(to_group, MessageId(number), buf.len(), block.has_repeated())
}

/// Number of coded symbols sent with a block before any request.
fn proactive_symbols(part: f64, block: &RepairBlock) -> u64 {
    libm::ceil(part * f64::from(block.len())) as u64
}

/// Number of packets to add to `due` repairs so that, at this loss, enough arrive nearly always.
fn extra_for_loss(due: u64, loss: f64) -> u64 {
    // Losses below the minimum are too rare to send anything against them.
    let loss = if loss < MIN_SPARED_LOSS { 0.0 } else { loss.min(MAX_ASSUMED_LOSS) };
    let lost = due as f64 * loss / (1.0 - loss);
    if due <= MAX_REPEATED_PACKETS {
        // Few packets are repeated as a whole until each has arrived with a probability of 90 %.
        // Solve due * loss^times = 0.1 for the number of transmissions.
        let times = libm::log(0.1 / due.max(1) as f64) / libm::log(loss.max(1e-9));
        let times = libm::ceil(times).clamp(1.0, MAX_REPETITIONS);
        return if loss > 0.0 { due * (times as u64 - 1) } else { 0 };
    }
    // Mean and two standard deviations of the packets lost until `due` have arrived (negative binomial distribution).
    libm::ceil(lost + 2.0 * libm::sqrt(lost / (1.0 - loss))) as u64
}

/// Number of symbols that fill a power of two beside `length` messages. Decoding costs nothing more for them.
fn free_symbols(length: u64) -> u64 {
    let spare = (length + 1).next_power_of_two() - length;
    // Round down to a power of two, up to half of the block.
    (spare.next_power_of_two() >> u64::from(!spare.is_power_of_two())).min(length.div_ceil(2))
}

/// Number of symbols to plan if `wanted` are needed: a power of two.
fn planned(most: u64, wanted: u64) -> u16 {
    let planned = wanted.next_power_of_two().max(MIN_PLANNED_SYMBOLS).min(most.next_power_of_two());
    u16::try_from(planned).unwrap_or(1 << 14).min(1 << 14)
}

/// Bound of the extra repairs that the receiver with the most independent losses needs over an average one, as a
/// share. It decides the length of coded blocks.
const MAX_EXCESS: f64 = 0.02;
/// Tolerance below the length of `MAX_EXCESS`, as a divisor: a block may be a fifth shorter if that fills a power of
/// two.
const LENGTH_TOLERANCE: u64 = 5;
/// Minimum number of messages of a block, unless memory is small: shorter ones need more polls than they save.
const MIN_LENGTH: u64 = 256;
/// Number of blocks that the window in flight is divided into, at least.
const BLOCKS_PER_WINDOW: u64 = 32;
/// Number of receivers up to which sums (exclusive ors) nearly always suffice, so that no coded symbols are planned.
const MAX_SUMMED_RECEIVERS: usize = 16;
/// Bound of the extra repairs in a group served by sums. Each round of sums has a worst receiver of its own, so
/// blocks are longer.
const MAX_SUMMED_EXCESS: f64 = 0.0075;
/// Maximum number of messages of a block that sums repair: it is coded after all if a response is lost.
const MAX_SUMMED_LENGTH: u64 = 4096;
/// Gain of the EWMA of needed repairs.
const REDUNDANCY_GAIN: f64 = 0.25;
/// Share of the needed repairs that is sent before any request.
const PROACTIVE_SHARE: f64 = 0.9;
/// Factor of the planned symbols over the expected need.
const PLAN_MARGIN: f64 = 1.05;
/// Maximum number of messages taken from the application before they can be sent.
const MAX_UNSENT_MESSAGES: u64 = 1024;
/// Minimum number of messages of a coded block: planning shorter ones does not pay.
const MIN_CODED_LENGTH: u64 = 64;
/// Number of packets up to which repairs are repeated as a whole instead of adding coded symbols.
const MAX_REPEATED_PACKETS: u64 = 16;
/// Maximum number of such repetitions.
const MAX_REPETITIONS: f64 = 3.0;
/// Loss rate below which no repairs are added.
const MIN_SPARED_LOSS: f64 = 0.002;
/// Loss rate above which blocks get no shorter, and repairs do not grow.
const MAX_ASSUMED_LOSS: f64 = 0.3;
/// Maximum number of coded symbols planned per message of a block.
const MAX_PLANNED_PER_MESSAGE: u64 = 8;
/// Entries of a poll reserved for blocks that were not polled yet.
const RESERVED_FOR_NEWS: usize = MAX_LISTED_BLOCKS / 2;
/// Maximum number of entries for blocks at which the polled members stand.
const MAX_LISTED_CURRENT: usize = MAX_LISTED_BLOCKS / 4;
/// Entries of a poll reserved for the remaining blocks in turn.
const RESERVED_FOR_OTHERS: usize = MAX_LISTED_BLOCKS / 8;
/// Minimum number of planned symbols: fewer would not cost less.
const MIN_PLANNED_SYMBOLS: u64 = 16;
/// Number of plain messages that are always sent rather than coded.
const MIN_PLAIN_REPAIRS: u64 = 4;
/// Divisor of the block length that adds to these.
const MESSAGES_PER_PLAIN_REPAIR: u64 = 128;
/// Bound of the plain messages over the coded symbols they replace, as a divisor: up to an eighth more, since coding
/// takes more work.
const PLAIN_EXCESS_DIVISOR: u64 = 8;
