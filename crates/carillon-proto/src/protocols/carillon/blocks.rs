//! What a sender has under way, by blocks.

use std::collections::{BTreeSet, VecDeque};

use carillon_core::{Config, MessageId, SeqSet, Transmit};
use carillon_wire::carillon::{
    ClosedBlock, ClosedBlocks as Listed, CodedBlock, MAX_LISTED_BLOCKS, Packet, SymbolPositions,
    max_positions,
};

use super::MODULUS;
use super::context::Context;
use crate::blocks::{AckWindow, FixedWindow, ReedSolomon, Repair, RepairBlock, worst};

/// The messages that not all have, and the blocks that they are in.
#[derive(Debug)]
pub(super) struct Blocks {
    pub window: AckWindow,
    /// From the oldest one that not all have to the newest, which may be open.
    blocks: VecDeque<RepairBlock>,
    /// Messages that do not go out unless somebody lacks them.
    withheld: SeqSet,
    code: ReedSolomon,
    /// Messages that are kept until all have them, at most.
    pub kept: u64,
    /// Messages of a block and coded symbols, at most.
    most: u64,
    /// Symbols that go out with each block before anybody has asked, for each of its messages.
    redundancy: f64,
    /// At least most of what blocks turned out to need goes out with each, and which part of them that was, smoothed.
    is_adaptive: bool,
    needed: f64,
    /// Messages that the open block is to have.
    aim: u64,
    /// Where the blocks begin whose turn it is to be listed in a poll, if it does not list all.
    turn: u64,
    /// One past the last message sent.
    pub sent: u64,
    /// Packets of messages and symbols sent.
    pub serial: u64,
}

impl Blocks {
    /// None yet.
    pub fn new(window: AckWindow, settings: &Config) -> Self {
        let mut blocks = Blocks {
            window,
            blocks: VecDeque::new(),
            withheld: SeqSet::new(),
            code: ReedSolomon,
            kept: settings.count("window"),
            most: settings.count("block"),
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

    /// It takes what goes out next, and no more: a long window costs nothing where the path is short.
    fn make_room(&mut self) {
        let under_way = self.sent - self.window.start().min(self.sent);
        self.window.set_room(FixedWindow(self.kept.min(under_way + AHEAD)));
    }

    /// Whether no more can be kept.
    pub fn is_full(&self) -> bool {
        self.window.len() as u64 >= self.kept
    }

    /// Whether a block is open, and has messages.
    pub fn is_open(&self) -> bool {
        self.blocks.back().is_some_and(|block| !block.is_closed())
    }

    /// No more messages go into the open block.
    pub fn close(&mut self) {
        let part = self.foreseen_part();
        if let Some(block) = self.blocks.back_mut().filter(|block| !block.is_closed()) {
            block.close();
            block.foresee(foreseen(part, block));
        }
    }

    /// Whether the open block is all that there is, so that it has to be closed for anything to be confirmed.
    pub fn is_open_alone(&self) -> bool {
        self.is_open() && self.blocks.len() == 1
    }

    /// One past the last message of a closed block.
    pub fn closed_below(&self) -> u64 {
        self.blocks.iter().rev().find(|block| block.is_closed()).map_or(self.window.start(), RepairBlock::end)
    }

    /// The blocks, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &RepairBlock> {
        self.blocks.iter()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// The closed block that begins with this message.
    pub fn find(&mut self, first: u64) -> Option<&mut RepairBlock> {
        let at = self.blocks.binary_search_by_key(&first, RepairBlock::first).ok()?;
        self.blocks.get_mut(at).filter(|block| block.is_closed())
    }

    /// Whether receivers are to be asked about a block: something has gone out for it since they were, or somebody has asked.
    pub fn wants_round(&self) -> bool {
        self.blocks.iter().any(|block| block.is_news() || block.is_asked() && block.due() == 0)
    }

    /// Whether repairs are due.
    pub fn has_repairs(&self) -> bool {
        self.blocks.iter().any(|block| block.due() > 0)
    }

    /// Decides what is sent again: of all blocks, or of those about which all were asked, since it is not known of the others what
    /// everybody lacks. If they have not all answered, those who have not are served best by coded symbols, which whatever they lack is made of. With
    /// `spare`, which part of the packets is lost, some more than is lacking, so that hardly anybody has to ask again.
    pub fn decide(&mut self, context: &mut Context, of_all: bool, is_complete: bool, spare: Option<f64>) {
        if !self.blocks.iter().any(RepairBlock::is_asked) {
            return;
        }
        let mut asked = BTreeSet::new();
        for block in self.blocks.iter_mut().filter(|block| block.is_polled() || of_all && block.is_closed()) {
            let plain = TINY + u64::from(block.len()) / TINY_PART;
            let plain_up_to = |symbols: u64| match is_complete {
                true => plain.max(symbols + symbols / PLAIN_PART),
                false => plain * u64::from(symbols <= plain),
            };
            let before = block.due();
            let members = block.decide(plain_up_to, max_positions(block.len()));
            if let Some(loss) = spare {
                block.spare(spared(block.due().saturating_sub(before), loss), FEW, &members);
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

    /// Lists closed blocks for a poll to these members, which asks all about them or only some. A crowd would ask by itself for those that the next round is
    /// about: they are listed in that. Of more blocks than a poll lists each has its turn: those of which receivers were not asked first, those where
    /// the members stand, and then the others one after the other. So whoever missed a poll is told of every block again.
    pub fn list(&mut self, asks_all: bool, is_crowd: bool, members: &[usize], bytes: &mut Vec<u8>) {
        let is_listed =
            |block: &RepairBlock| block.is_closed() && (asks_all || !is_crowd || !block.is_news());
        let mut places: Vec<usize> =
            (0..self.blocks.len()).filter(|&at| is_listed(&self.blocks[at])).collect();
        if places.len() > MAX_LISTED_BLOCKS {
            places = self.by_turns(&places, asks_all, members);
        }
        for at in places {
            let block = &mut self.blocks[at];
            let first = (block.first() % MODULUS) as u32;
            Listed::push(ClosedBlock { first, length: block.length(), count: block.count() }, bytes);
            if asks_all && block.is_news() {
                block.on_poll();
            }
        }
    }

    /// As many of these blocks as a poll lists, ascending.
    fn by_turns(&mut self, all: &[usize], asks_all: bool, members: &[usize]) -> Vec<usize> {
        let is_news = |at: &usize| asks_all && self.blocks[*at].is_news();
        let standing = members.iter().filter_map(|&index| {
            let next = self.window.acknowledged_below(index).max(self.window.start());
            let at = self.blocks.partition_point(|block| block.end() <= next);
            all.binary_search(&at).is_ok().then_some(at)
        });
        let turn = all.partition_point(|&at| self.blocks[at].first() < self.turn);
        let others = all[turn..].iter().chain(&all[..turn]).copied();
        let news = || all.iter().copied().filter(is_news);
        let mut listed = BTreeSet::new();
        for at in news().take(MOST_NEWS).chain(standing.take(MOST_STANDING)).chain(news()) {
            if listed.len() < MAX_LISTED_BLOCKS - FEWEST_OTHERS {
                listed.insert(at);
            }
        }
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

    /// Completes what all have acknowledged.
    pub fn advance(&mut self, context: &mut Context) {
        while self.window.complete_first(&mut context.events).is_some() {}
        let start = self.window.start();
        if start > self.sent {
            // Nobody is left who would want them.
            self.sent = start;
            self.close();
        }
        while let Some(block) = self.blocks.pop_front_if(|block| block.end() <= start) {
            if u64::from(block.len()) >= LEAST_CODED {
                let needed = f64::from(block.count()) / f64::from(block.len());
                self.needed += (needed - self.needed) * NEEDED_GAIN;
            }
        }
        if !self.withheld.is_empty() {
            self.withheld.remove_below(start);
        }
        self.make_room();
    }

    /// Forgets the first blocks, as far as all has gone out that is to. Nobody has said that it has them.
    pub fn forget_sent(&mut self) {
        while let Some(block) = self.blocks.front().filter(|block| block.is_closed() && block.due() == 0) {
            let end = block.end();
            while self.window.start() < end && self.window.pop().is_some() {}
            self.blocks.pop_front();
        }
        self.make_room();
    }

    /// The next repair, as a packet, to a crowd or not.
    pub fn next_repair(
        &mut self,
        context: &mut Context,
        is_crowd: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let at = self.blocks.iter().position(|block| block.due() > 0)?;
        let (block, most) = (&mut self.blocks[at], self.most);
        let first = block.first();
        let spare = spare(block.len().into());
        // Of a crowd the first to ask is not the one that lacks most.
        let margin = |wanted: u64| wanted + wanted / 2 + if is_crowd { 64 } else { 16 };
        // Of a short block few are enough: they go out again when all have.
        let enough = (u64::from(block.len()) * PLANNED_EACH).next_power_of_two().max(LEAST_PLANNED);
        let repair = block.next(&self.code, |wanted| planned(most.min(enough), margin(wanted).max(spare)))?;
        self.serial += 1;
        let block = &self.blocks[at];
        let (count, length) = (block.count(), block.length());
        let more = u16::try_from(block.due()).unwrap_or(u16::MAX);
        match repair {
            Repair::Message(index) => Some(emit(context, block, index, buf)),
            Repair::Sum(places, sum) => {
                let (first, places) = ((first % MODULUS) as u32, SymbolPositions::new(&places, length));
                Packet::Xor { first, length, count, places, sum: &sum }.emit(context.association, buf);
                let to_group = context.to_group();
                let number = MessageId(block.first() + u64::from(places.as_slice()[0]));
                Some(context.events.data_sent(to_group, number, buf.len(), true))
            }
            Repair::Coded(shape, number, symbol) => {
                let block = CodedBlock { first: (first % MODULUS) as u32, length, planned: shape.planned };
                Packet::Repair { block, number, count, more, symbol: &symbol }.emit(context.association, buf);
                let to_group = context.to_group();
                Some(context.events.data_sent(to_group, MessageId(first), buf.len(), true))
            }
        }
    }

    /// This message does not go out unless somebody lacks it.
    pub fn withhold(&mut self, number: u64) {
        self.withheld.insert(number);
    }

    /// Whether the next message is such a one.
    pub fn is_next_withheld(&self) -> bool {
        self.withheld.contains(self.sent)
    }

    /// The next message, as a packet, and whether it begins a block.
    pub fn next_message(
        &mut self,
        context: &mut Context,
        to: Audience,
        buf: &mut Vec<u8>,
    ) -> (Transmit, bool) {
        let (index, begins) = self.take_next(context, to);
        self.serial += 1;
        let block = self.blocks.back().expect("the message is in it");
        (emit(context, block, index, buf), begins)
    }

    /// The next message goes into the open block, at this place; whether it begins that.
    pub fn take_next(&mut self, context: &Context, to: Audience) -> (u16, bool) {
        let begins = !self.is_open();
        if begins {
            self.aim = self.length(to);
            self.blocks.push_back(RepairBlock::new(self.sent));
        }
        let is_end = self.window.is_closed() && self.sent + 1 == self.window.end();
        let under_way = self.window.len() as u32;
        let slot = self.window.get_mut(self.sent).expect("the caller has asked whether there is one");
        slot.sent.get_or_insert((context.now, under_way));
        let message = slot.payload.clone();
        let part = self.foreseen_part();
        let block = self.blocks.back_mut().expect("one is open");
        let is_last = is_end || u64::from(block.len()) + 1 >= self.aim;
        let index = block.send(message, is_last);
        if is_last {
            block.foresee(foreseen(part, block));
        }
        self.sent += 1;
        self.make_room();
        (index, begins)
    }

    /// Which part of a block goes out beside it before anybody has asked. If that is what blocks needed it is less than all: what is sent too much nobody would
    /// complain of, and what is lacking is asked for.
    fn foreseen_part(&self) -> f64 {
        let needed = if self.is_adaptive { self.needed * FORESEEN } else { 0.0 };
        self.redundancy.max(needed)
    }

    /// Messages of a new block: so many that the receiver that lacks most needs hardly more packets than one alone would, and no more, since receivers
    /// keep them. Where coded symbols will be needed, block and symbols together fill a power of two, for which the code takes least time.
    fn length(&self, to: Audience) -> u64 {
        let loss = to.loss.min(MOST_LOSS);
        let least = LEAST_LENGTH.max((to.window / SHARES).next_power_of_two());
        let is_summed = to.receivers <= SUMMED;
        let tolerance = if is_summed { SUMMED_TOLERANCE } else { TOLERANCE };
        let enough = (worst::length_for(loss, to.receivers, tolerance) as u64).max(least);
        let most = (self.kept.div_ceil(2)).min((to.room / 2).max(1));
        if most.min(self.most) < LEAST_CODED {
            return most.min(self.most);
        }
        if is_summed {
            return enough.min(MOST_SUMMED.max(least)).min(most).min(self.most);
        }
        let lengths = (0..).map(|doubled| length_in(LEAST_CODED << doubled, loss, to.receivers));
        let fits = |&(all, length): &(u64, u64)| length <= most && all <= self.most;
        let mut fitting = lengths.take_while(fits).map(|(_, length)| length);
        let mut length = fitting.next().unwrap_or(LEAST_CODED);
        while length < enough - enough / SHORTER
            && let Some(longer) = fitting.next()
        {
            length = longer;
        }
        length
    }
}

/// Who is to have a block: how many they are, how many messages they have room for, which part of the packets is lost on the way to the worst of
/// them, and how many may be under way to them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Audience {
    pub receivers: usize,
    pub room: u64,
    pub loss: f64,
    pub window: u64,
}

/// Messages of a block that fills so many places together with the symbols that so many receivers will need of it.
fn length_in(all: u64, loss: f64, receivers: usize) -> (u64, u64) {
    let needed = |length: u64| {
        let more = worst::packets(length as f64, loss, receivers) - length as f64;
        (more * PLANNED_MORE) as u64 + LEAST_PLANNED / 2
    };
    let mut planned = LEAST_PLANNED.min(all / 2);
    while planned < all / 2 && needed(all - planned) > planned {
        planned *= 2;
    }
    (all, all - planned)
}

/// A message of a block, for the first time if nothing has gone out for the block beyond first transmissions.
fn emit(context: &mut Context, block: &RepairBlock, index: u16, buf: &mut Vec<u8>) -> Transmit {
    let number = block.first() + u64::from(index);
    let payload = block.message(index).expect("a message of the block");
    let (sequence, length, count) = ((number % MODULUS) as u32, block.length(), block.count());
    Packet::Data { sequence, index, length, count, payload }.emit(context.association, buf);
    let to_group = context.to_group();
    context.events.data_sent(to_group, MessageId(number), buf.len(), block.has_repeated())
}

/// Symbols that go out with a block before anybody has asked.
fn foreseen(part: f64, block: &RepairBlock) -> u64 {
    libm::ceil(part * f64::from(block.len())) as u64
}

/// Packets beyond so many that are due, so that with this loss so many come all the same, but once in a great while.
fn spared(due: u64, loss: f64) -> u64 {
    let loss = if loss < LEAST_SPARED { 0.0 } else { loss.min(MOST_LOSS) };
    let lost = due as f64 * loss / (1.0 - loss);
    if due <= FEW {
        // As often again as it takes until with nine chances in ten each came.
        let times = libm::log(0.1 / due.max(1) as f64) / libm::log(loss.max(1e-9));
        let times = libm::ceil(times).clamp(1.0, MOST_TIMES);
        return if loss > 0.0 { due * (times as u64 - 1) } else { 0 };
    }
    libm::ceil(lost + 2.0 * libm::sqrt(lost / (1.0 - loss))) as u64
}

/// Symbols that fill a power of two beside so many messages, which cost nothing more when they are decoded.
fn spare(length: u64) -> u64 {
    let spare = (length + 1).next_power_of_two() - length;
    (spare.next_power_of_two() >> u64::from(!spare.is_power_of_two())).min(length.div_ceil(2))
}

/// Symbols that are planned where so many are wanted.
fn planned(most: u64, wanted: u64) -> u16 {
    let planned = wanted.next_power_of_two().max(LEAST_PLANNED).min(most.next_power_of_two());
    u16::try_from(planned).unwrap_or(1 << 14).min(1 << 14)
}

/// Blocks are so long that the receiver that lacks most, of independent losses, needs no more than this part more packets than one alone, or less by this
/// part of it. But they have so many messages at least, and this part of what is under way.
const TOLERANCE: f64 = 0.02;
const SHORTER: u64 = 5;
const LEAST_LENGTH: u64 = 256;
const SHARES: u64 = 32;
/// So many receivers are nearly always served by sums, which need no plan. Each round of sums has a worst receiver of its own, so that they need longer
/// blocks for the same; but no longer ones than this, since they are coded where an answer is lost.
const SUMMED: usize = 16;
const SUMMED_TOLERANCE: f64 = 0.0075;
const MOST_SUMMED: u64 = 4096;
/// How much the newest block says of what blocks need, and how much of that goes out unasked.
const NEEDED_GAIN: f64 = 0.25;
const FORESEEN: f64 = 0.9;
/// So much more is planned than will be needed, in the mean.
const PLANNED_MORE: f64 = 1.05;
/// Messages that are taken from the application before they can go out.
const AHEAD: u64 = 1024;
/// Shorter blocks are not worth a plan.
const LEAST_CODED: u64 = 64;
/// So many packets go out several times rather than with coded symbols beside them, and how often at most.
const FEW: u64 = 16;
const MOST_TIMES: f64 = 3.0;
/// Who loses less has nothing spared.
const LEAST_SPARED: f64 = 0.002;
/// Who loses more does not make blocks shorter.
const MOST_LOSS: f64 = 0.3;
/// No more symbols are planned for each message of a block.
const PLANNED_EACH: u64 = 8;
/// Of the blocks in a poll that does not list all: those of which receivers were not asked, at least; those where members stand, at most; and
/// those by turns, at least.
const MOST_NEWS: usize = MAX_LISTED_BLOCKS / 2;
const MOST_STANDING: usize = MAX_LISTED_BLOCKS / 4;
const FEWEST_OTHERS: usize = MAX_LISTED_BLOCKS / 8;
/// So few symbols cost no more than fewer.
const LEAST_PLANNED: u64 = 16;
/// So many packets of messages are sent again rather than coded, and this part of a block.
const TINY: u64 = 4;
const TINY_PART: u64 = 128;
/// Packets of messages rather than coded symbols, which take far more work, as long as they are no more than this part more.
const PLAIN_PART: u64 = 8;
