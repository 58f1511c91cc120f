//! What a sender has under way, by blocks.

use std::collections::{BTreeMap, VecDeque};

use carillon_core::{Config, MessageId, Outcome, Transmit};
use carillon_wire::carillon::{Blocks as Listed, Closed, Coded, MAX_LISTED, Packet, Places, most_places};

use super::MODULUS;
use super::sender::Scene;
use crate::blocks::{AckWindow, ReedSolomon, Repair, RepairBlock};

/// The messages that not all have, and the blocks that they are in.
#[derive(Debug)]
pub(super) struct Blocks {
    pub window: AckWindow,
    /// From the oldest one that not all have to the newest, which may be open.
    blocks: VecDeque<RepairBlock>,
    code: ReedSolomon,
    /// Messages that are kept until all have them, at most.
    pub kept: u64,
    /// Messages of a block and coded symbols, at most.
    most: u64,
    /// Messages of a block, at least, if it has as many.
    least: u64,
    /// Symbols that go out with each block before anybody has asked, for each of its messages.
    redundancy: f64,
    /// Messages that the open block is to have.
    aim: u64,
    /// One past the last message sent.
    pub sent: u64,
    /// Packets of messages and symbols sent.
    pub serial: u64,
}

impl Blocks {
    /// None yet.
    pub fn new(window: AckWindow, settings: &Config) -> Self {
        let most = settings.count("block").min(settings.count("window").div_ceil(2));
        Blocks {
            window,
            blocks: VecDeque::new(),
            code: ReedSolomon,
            kept: settings.count("window"),
            most,
            least: LEAST_LENGTH.max((settings.count("window") / SHARES).next_power_of_two()),
            redundancy: settings.probability("redundancy").value(),
            aim: 0,
            sent: 0,
            serial: 0,
        }
    }

    /// Whether a block is open, and has messages.
    pub fn is_open(&self) -> bool {
        self.blocks.back().is_some_and(|block| !block.is_closed())
    }

    /// No more messages go into the open block.
    pub fn close(&mut self) {
        if let Some(block) = self.blocks.back_mut().filter(|block| !block.is_closed()) {
            block.close();
            block.foresee(foreseen(self.redundancy, block));
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
    /// everybody lacks. With `spare`, which part of the packets is lost, some more than that, so that hardly anybody has to ask again.
    pub fn decide(&mut self, scene: &mut Scene, of_all: bool, spare: Option<f64>) {
        if !self.blocks.iter().any(RepairBlock::is_asked) {
            return;
        }
        let mut served: BTreeMap<usize, u64> = BTreeMap::new();
        for block in self.blocks.iter_mut().filter(|block| block.is_polled() || of_all && block.is_closed()) {
            let plain = TINY + u64::from(block.len()) / TINY_PART;
            let degree = most_places(block.len());
            let before = block.due();
            block.decide(|symbols| plain.max(symbols + symbols / PLAIN_PART), degree);
            if let Some(loss) = spare {
                block.spare(spared(block.due().saturating_sub(before), loss), FEW);
            }
            for (index, packets) in block.serves() {
                *served.entry(index).or_default() += packets;
            }
        }
        for (index, packets) in served.into_iter().filter(|(_, packets)| *packets > 0) {
            let packets = u32::try_from(packets).unwrap_or(u32::MAX);
            scene.events.repair_needed(self.window.node(index), packets);
        }
    }

    /// The closed blocks for a poll, which asks all about them or only some. A crowd would ask by itself for those that the next round is
    /// about: they are listed in that.
    pub fn list(&mut self, asks_all: bool, is_crowd: bool, bytes: &mut Vec<u8>) {
        let is_listed =
            |block: &&mut RepairBlock| block.is_closed() && (asks_all || !is_crowd || !block.is_news());
        for block in self.blocks.iter_mut().filter(is_listed).take(MAX_LISTED) {
            let first = (block.first() % MODULUS) as u32;
            Listed::push(Closed { first, length: block.length(), count: block.count() }, bytes);
            if asks_all && block.is_news() {
                block.on_poll();
            }
        }
    }

    /// Completes what all have acknowledged.
    pub fn advance(&mut self, scene: &mut Scene) {
        while let Some((number, slot)) = self.window.pop_acknowledged() {
            let outcome = if slot.failed { Outcome::Failed } else { Outcome::Acknowledged };
            let window = slot.sent.map_or(0, |(_, window)| window);
            scene.events.completed(MessageId(number), outcome, window);
        }
        let start = self.window.start();
        if start > self.sent {
            // Nobody is left who would want them.
            self.sent = start;
            self.close();
        }
        while self.blocks.front().is_some_and(|block| block.end() <= start) {
            self.blocks.pop_front();
        }
    }

    /// The next repair, as a packet, to a crowd or not.
    pub fn next_repair(&mut self, scene: &mut Scene, is_crowd: bool, buf: &mut Vec<u8>) -> Option<Transmit> {
        let at = self.blocks.iter().position(|block| block.due() > 0)?;
        let (block, most) = (&mut self.blocks[at], self.most);
        let first = block.first();
        let spare = spare(block.len().into());
        // Of a crowd the first to ask is not the one that lacks most.
        let margin = |wanted: u64| if is_crowd { 3 * wanted + 64 } else { wanted + wanted / 2 + 16 };
        let repair = block.next(&self.code, |wanted| planned(most, margin(wanted).max(spare)))?;
        self.serial += 1;
        let block = &self.blocks[at];
        let (count, length) = (block.count(), block.length());
        let more = u16::try_from(block.due()).unwrap_or(u16::MAX);
        match repair {
            Repair::Message(index) => Some(emit(scene, block, index, buf)),
            Repair::Sum(places, sum) => {
                let (first, places) = ((first % MODULUS) as u32, Places::new(&places, length));
                Packet::Xor { first, length, count, places, sum: &sum }.emit(scene.association, buf);
                let to_group = scene.to_group();
                let number = MessageId(block.first() + u64::from(places.as_slice()[0]));
                Some(scene.events.data_sent(to_group, number, buf.len(), true))
            }
            Repair::Coded(shape, number, symbol) => {
                let block = Coded { first: (first % MODULUS) as u32, length, planned: shape.planned };
                Packet::Repair { block, number, count, more, symbol: &symbol }.emit(scene.association, buf);
                let to_group = scene.to_group();
                Some(scene.events.data_sent(to_group, MessageId(first), buf.len(), true))
            }
        }
    }

    /// The next message, as a packet, and whether it begins a block; `room` is how many messages the receivers can take, `loss` which part
    /// of them may be lost, of so many receivers at the worst.
    pub fn next_message(
        &mut self,
        scene: &mut Scene,
        (receivers, room, loss): (usize, u64, f64),
        buf: &mut Vec<u8>,
    ) -> (Transmit, bool) {
        let begins = !self.is_open();
        if begins {
            self.aim = self.length(receivers, room, loss);
            self.blocks.push_back(RepairBlock::new(self.sent));
        }
        let is_end = self.window.is_closed() && self.sent + 1 == self.window.end();
        let under_way = self.window.len() as u32;
        let slot = self.window.get_mut(self.sent).expect("the caller has asked whether there is one");
        slot.sent.get_or_insert((scene.now, under_way));
        let message = slot.payload.clone();
        let block = self.blocks.back_mut().expect("one is open");
        let is_last = is_end || u64::from(block.len()) + 1 >= self.aim;
        let index = block.send(message, is_last);
        if is_last {
            block.foresee(foreseen(self.redundancy, block));
        }
        self.sent += 1;
        self.serial += 1;
        (emit(scene, block, index, buf), begins)
    }

    /// Messages of a new block, if so many receivers are there: no more than make the receiver that lacks most lack little more than the others, since
    /// receivers keep them; and with the symbols that it will need they fill a power of two, for which the code takes least time.
    fn length(&self, receivers: usize, room: u64, loss: f64) -> u64 {
        let loss = loss.min(MOST_LOSS);
        let deviation = loss * (1.0 - loss) * 2.0 * libm::log(receivers.max(1) as f64);
        let enough = (deviation / (TOLERANCE * TOLERANCE)) as u64;
        let enough = enough.next_power_of_two().max(self.least);
        let most = self.most.min(enough).min((room / 2).max(1));
        if most < LEAST_CODED {
            return most;
        }
        let all = most.next_power_of_two() >> u64::from(!most.is_power_of_two());
        let lost = all as f64 * loss;
        let wanted = 1.5 * lost + 4.0 * libm::sqrt(lost) + 8.0;
        all - u64::from(planned(all, wanted as u64)).min(all / 2)
    }
}

/// A message of a block, for the first time if nothing has gone out for the block beyond first transmissions.
fn emit(scene: &mut Scene, block: &RepairBlock, index: u16, buf: &mut Vec<u8>) -> Transmit {
    let number = block.first() + u64::from(index);
    let payload = block.message(index).expect("a message of the block");
    let (sequence, length, count) = ((number % MODULUS) as u32, block.length(), block.count());
    Packet::Data { sequence, index, length, count, payload }.emit(scene.association, buf);
    let to_group = scene.to_group();
    scene.events.data_sent(to_group, MessageId(number), buf.len(), block.has_repeated())
}

/// Symbols that go out with a block before anybody has asked.
fn foreseen(redundancy: f64, block: &RepairBlock) -> u64 {
    libm::ceil(redundancy * f64::from(block.len())) as u64
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

/// Blocks are so long that the receiver that lacks most, of independent losses, lacks no more than this part of the block beyond the mean. But
/// they have so many messages at least, and this part of the window.
const TOLERANCE: f64 = 0.01;
const LEAST_LENGTH: u64 = 256;
const SHARES: u64 = 64;
/// Shorter blocks are not worth a plan.
const LEAST_CODED: u64 = 64;
/// So many packets go out several times rather than with coded symbols beside them, and how often at most.
const FEW: u64 = 16;
const MOST_TIMES: f64 = 3.0;
/// Who loses less has nothing spared.
const LEAST_SPARED: f64 = 0.002;
/// Who loses more does not make blocks shorter.
const MOST_LOSS: f64 = 0.3;
/// So few symbols cost no more than fewer.
const LEAST_PLANNED: u64 = 16;
/// So many packets of messages are sent again rather than coded, and this part of a block.
const TINY: u64 = 4;
const TINY_PART: u64 = 128;
/// Packets of messages rather than coded symbols, which take far more work, as long as they are no more than this part more.
const PLAIN_PART: u64 = 8;
