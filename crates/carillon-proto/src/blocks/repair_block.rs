//! What a sender has to send of a block beyond its messages: coded symbols by number, or messages again by name, several in one
//! packet where nobody lacks two of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::expand;

use super::{ErasureCode, Shape, xor};

/// A block from when its first message goes out to when all have it.
///
/// What receivers lack they say as of a packet: the count of those that have gone out for the block beyond first transmissions. So a request is
/// never served twice, however late it comes: what has gone out since is known here.
#[derive(Debug)]
pub struct RepairBlock {
    /// Its first message.
    first: u64,
    /// Its messages that have gone out. All of them are kept until all have the block: whatever is coded is coded from all.
    messages: Vec<Bytes>,
    /// No more will be added.
    closed: bool,
    /// What has gone out beyond them: a message again, or a coded symbol; and how many coded ones before it.
    extras: Vec<(Extra, u64)>,
    /// Coded symbols that have gone out, in the order of which the messages follow when there is none left; and that are wanted.
    coded: u64,
    wanted: u64,
    /// Of them those that were symbols.
    symbols: u64,
    /// What receivers have said that they lack since it was last decided what to send, the newest of each.
    wishes: BTreeMap<usize, Wish>,
    /// Messages to be sent again, by packets.
    again: VecDeque<Vec<u16>>,
    /// Something has gone out since receivers were last asked.
    news: bool,
    /// How many packets each of those who have asked needs, since it was last decided what to send.
    needs: BTreeMap<usize, u64>,
    /// How many packets will have gone out when each of them has as many of those that are due as it needs.
    serves: BTreeMap<usize, u64>,
    code: Option<(Shape, Bytes)>,
}

/// What a receiver lacked when it had seen so many of the packets beyond first transmissions.
#[derive(Debug)]
struct Wish {
    seen: usize,
    lacks: u64,
    plain: bool,
    missing: Option<Vec<u16>>,
    /// It may have no more than so many packets sent.
    most: u64,
}

/// What of it is not on its way, after what has gone out since and what is due.
struct Lack {
    /// Coded symbols that it needs to have gone out, of all that ever do.
    asked: u64,
    /// Packets that it needs.
    packets: u64,
    missing: Option<Vec<u16>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Extra {
    Messages(Vec<u16>),
    Coded,
}

/// What is to go out next for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// A message again.
    Message(u16),
    /// Several messages, as their [sum](xor::sum).
    Sum(Vec<u16>, Vec<u8>),
    /// A coded symbol, of this number.
    Coded(Shape, u16, Bytes),
}

/// What a receiver says that it lacks of a block.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who, by its place in the group.
    pub index: usize,
    /// The last of its packets beyond first transmissions that it has seen, modulo 2^16.
    pub count: u16,
    /// Symbols.
    pub lacks: u16,
    /// Only the messages themselves help it.
    pub plain: bool,
    /// The places of the missing messages, ascending, if it names them.
    pub missing: Option<&'a [u16]>,
    /// It may have no more than so many packets sent.
    pub most: u64,
}

impl RepairBlock {
    /// One that begins with this message.
    pub fn new(first: u64) -> Self {
        RepairBlock {
            first,
            messages: Vec::new(),
            closed: false,
            extras: Vec::new(),
            coded: 0,
            wanted: 0,
            symbols: 0,
            wishes: BTreeMap::new(),
            again: VecDeque::new(),
            news: false,
            needs: BTreeMap::new(),
            serves: BTreeMap::new(),
            code: None,
        }
    }

    /// Its first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// One past its last message.
    pub fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// How many messages it has, or 0 if it may become more.
    pub fn length(&self) -> u16 {
        if self.closed { self.len() } else { 0 }
    }

    /// Messages that it has so far.
    pub fn len(&self) -> u16 {
        self.messages.len() as u16
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Its next message goes out, perhaps as its last. Returns the place of it.
    pub fn send(&mut self, message: Bytes, is_last: bool) -> u16 {
        self.messages.push(message);
        if is_last {
            self.close();
        }
        self.len() - 1
    }

    /// The message of this place.
    pub fn message(&self, index: u16) -> Option<&Bytes> {
        self.messages.get(usize::from(index))
    }

    /// No message is added any more.
    pub fn close(&mut self) {
        (self.closed, self.news) = (true, true);
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Packets that have gone out beyond first transmissions, modulo 2^16.
    pub fn count(&self) -> u16 {
        (self.extras.len() as u64 % COUNTS) as u16
    }

    /// Whether anything has gone out beyond first transmissions.
    pub fn has_repeated(&self) -> bool {
        !self.extras.is_empty()
    }

    /// Packets that are due.
    pub fn due(&self) -> u64 {
        self.again.len() as u64 + self.wanted.saturating_sub(self.coded)
    }

    /// So many coded symbols are to go out before anybody asks.
    pub fn plan_proactive(&mut self, symbols: u64) {
        self.wanted = self.wanted.max(symbols);
    }

    /// A receiver says what it lacks. Returns how many packets more it needs than it has said since it was last decided what to send.
    pub fn on_request(&mut self, request: Request<'_>) -> u64 {
        let Request { index, count, lacks, plain, missing, most } = request;
        let now = self.extras.len() as u64;
        let seen = expand(count.into(), COUNTS, now).min(now) as usize;
        let length = self.len();
        let missing =
            missing.map(|missing| missing.iter().copied().filter(|&place| place < length).collect());
        let wish = Wish { seen, lacks: lacks.min(length).into(), plain, missing, most };
        let packets = self.lack(&wish).packets;
        // What it said before it had seen as much is of no use any more.
        if self.wishes.get(&index).is_none_or(|known| known.seen <= seen) {
            self.wishes.insert(index, wish);
        }
        let known = self.needs.entry(index).or_default();
        let before = *known;
        *known = before.max(packets);
        *known - before
    }

    /// What of this is not on its way.
    fn lack(&self, wish: &Wish) -> Lack {
        let under_way = &self.extras[wish.seen..];
        let coded = under_way.first().map_or(0, |(_, before)| self.symbols - before);
        let mut lacks = wish.lacks.min(wish.most.saturating_add(coded));
        let missing = wish.missing.as_ref().map(|missing| {
            let on_their_way = on_their_way(under_way, &self.again, missing);
            lacks = lacks.saturating_sub(on_their_way.len() as u64);
            let most = usize::try_from(wish.most).unwrap_or(usize::MAX);
            let left = missing.iter().copied().filter(|place| !on_their_way.contains(place));
            left.take(most).collect()
        });
        let packets = if wish.plain { lacks } else { lacks.saturating_sub(coded) };
        Lack { asked: self.coded - coded + lacks, packets, missing }
    }

    /// Whether somebody has asked for what is not on its way, since it was last decided what to send.
    pub fn is_asked(&self) -> bool {
        self.needs.values().any(|&needs| needs > 0)
    }

    /// Decides what to send for what was asked: the messages that somebody lacks, up to `degree` in a packet, if those packets are no more than
    /// `plain_up_to` says for so many coded symbols that would do for all; or those symbols. Returns who has asked for something.
    pub fn decide(&mut self, plain_up_to: impl Fn(u64) -> u64, degree: usize) -> Vec<usize> {
        let wishes = std::mem::take(&mut self.wishes);
        let plain = wishes.values().any(|wish| wish.plain);
        let (mut named, mut all_named, mut asked) = (BTreeMap::<u16, u64>::new(), true, 0);
        for (bit, wish) in wishes.values().enumerate() {
            let lack = self.lack(wish);
            asked = asked.max(lack.asked);
            match lack.missing.zip(1u64.checked_shl(bit as u32)) {
                None => all_named = false,
                Some((missing, bit)) => {
                    missing.into_iter().for_each(|place| *named.entry(place).or_default() |= bit)
                }
            }
        }
        let symbols = asked.saturating_sub(self.coded);
        let shares = match () {
            // Who keeps nothing cannot make a message of a sum.
            _ if plain && all_named => Some(named.into_keys().map(|place| vec![place]).collect()),
            _ if plain => {
                self.again.clear();
                Some((0..self.len()).map(|place| vec![place]).collect())
            }
            // Where coded symbols are due more of them serve best.
            _ if symbols > 0 && all_named && self.wanted <= self.coded => {
                xor::combine(&named, degree, plain_up_to(symbols))
            }
            _ => None,
        };
        match shares {
            Some(shares) => self.again.extend(shares),
            None => self.wanted = self.wanted.max(asked),
        }
        let (due, sent) = (self.due(), self.extras.len() as u64);
        let needs = std::mem::take(&mut self.needs);
        for (&index, needs) in &needs {
            let until = self.serves.entry(index).or_default();
            *until = sent + ((*until).saturating_sub(sent) + needs).min(due);
        }
        needs.into_iter().filter(|&(_, needs)| needs > 0).map(|(index, _)| index).collect()
    }

    /// So many packets more are to go out than are due, for those that will be lost: the same messages again where they are no more than
    /// `plain_up_to`, otherwise coded symbols. They are for those who have asked.
    pub fn spare(&mut self, packets: u64, plain_up_to: u64, asked: &[usize]) {
        let due = self.again.len();
        if packets == 0 || self.due() == 0 {
            return;
        }
        if self.wanted <= self.coded && due as u64 <= plain_up_to {
            let again: Vec<_> = self.again.iter().cycle().take(packets as usize).cloned().collect();
            self.again.extend(again);
        } else {
            self.wanted = self.wanted.max(self.coded) + packets;
        }
        for index in asked {
            self.serves.entry(*index).and_modify(|until| *until += packets);
        }
    }

    /// How many of the packets that are due this receiver needs, as far as it has said so.
    pub fn serves(&self, index: usize) -> u64 {
        let sent = self.extras.len() as u64;
        self.serves.get(&index).map_or(0, |until| until.saturating_sub(sent))
    }

    /// Whether something has gone out of which nobody was asked, all of it.
    pub fn is_news(&self) -> bool {
        self.news && self.closed && self.due() == 0
    }

    /// Whether all that receivers lack has been asked for, so that it can be decided what to send when all have answered.
    pub fn is_polled(&self) -> bool {
        self.closed && !self.news
    }

    /// Receivers are asked what they lack.
    pub fn on_poll(&mut self) {
        self.news = false;
    }

    /// What goes out next, if something is due; `planned` says how many symbols to plan where so many are wanted.
    pub fn next(&mut self, code: &dyn ErasureCode, planned: impl Fn(u64) -> u16) -> Option<Repair> {
        if self.due() == 0 || !self.closed {
            return None;
        }
        self.news = true;
        if let Some(places) = self.again.pop_front() {
            self.extras.push((Extra::Messages(places.clone()), self.symbols));
            return Some(match places[..] {
                [place] => Repair::Message(place),
                _ => {
                    let sum = xor::sum(places.iter().map(|&place| &self.messages[usize::from(place)]));
                    Repair::Sum(places, sum)
                }
            });
        }
        // A message alone is as good as any symbol of it.
        if self.len() == 1 {
            self.coded += 1;
            self.extras.push((Extra::Coded, self.symbols));
            self.symbols += 1;
            return Some(Repair::Message(0));
        }
        if self.code.is_none() {
            let longest = self.messages.iter().map(Bytes::len).max()?;
            let (length, planned) = (self.len(), planned(self.wanted));
            let shape = Shape { length, planned, size: Shape::size_for(longest) };
            let coded = code.code(shape, &mut self.messages.iter().cloned());
            self.code = coded.map(|coded| (shape, Bytes::from(coded)));
        }
        let planned = self.code.as_ref().map_or(0, |(shape, _)| u64::from(shape.planned));
        // When all have gone out the messages themselves are next, and then they all begin again.
        let turn = self.coded % (planned + self.messages.len() as u64);
        self.coded += 1;
        match &self.code {
            Some((shape, coded)) if turn < planned => {
                self.extras.push((Extra::Coded, self.symbols));
                self.symbols += 1;
                let at = turn as usize * shape.size;
                Some(Repair::Coded(*shape, turn as u16, coded.slice(at..at + shape.size)))
            }
            _ => {
                let index = (turn - planned) as u16;
                self.extras.push((Extra::Messages(vec![index]), self.symbols));
                Some(Repair::Message(index))
            }
        }
    }
}

/// Which of these missing messages what is under way or due will bring: it brings one if no more of it is missing.
fn on_their_way(under_way: &[(Extra, u64)], due: &VecDeque<Vec<u16>>, missing: &[u16]) -> BTreeSet<u16> {
    let only = |places: &Vec<u16>| {
        let mut lacking = places.iter().copied().filter(|place| missing.binary_search(place).is_ok());
        lacking.next().filter(|_| lacking.next().is_none())
    };
    let sent = under_way.iter().filter_map(|(extra, _)| match extra {
        Extra::Messages(places) => Some(places),
        Extra::Coded => None,
    });
    sent.chain(due).filter_map(only).collect()
}

/// Packets beyond first transmissions count modulo this on the wire.
const COUNTS: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};

    use super::*;
    use crate::blocks::{ReedSolomon, SymbolBlock};

    /// A receiver, and what of the block's packets it has not seen yet.
    #[derive(Default)]
    struct Reader {
        block: SymbolBlock,
        under_way: std::collections::VecDeque<(u16, Repair)>,
    }

    impl Reader {
        fn read(&mut self, messages: &[Bytes], code: ReedSolomon) {
            let Some((count, repair)) = self.under_way.pop_front() else { return };
            self.block.see(count, 0);
            match repair {
                Repair::Message(index) => self.block.insert(index, messages[usize::from(index)].clone()),
                Repair::Sum(places, sum) => {
                    if let Ok((index, message)) = self.block.only_missing(&places, &sum) {
                        assert_eq!(message, messages[usize::from(index)]);
                        self.block.insert(index, message);
                    }
                }
                Repair::Coded(shape, number, symbol) => {
                    assert!(self.block.insert_coded(shape, number, symbol));
                }
            }
            self.block.restore(&code);
        }

        /// Says what it lacks.
        fn ask(&self, index: usize, names: bool, block: &mut RepairBlock) -> u64 {
            let Some(lacks) = self.block.lacks().filter(|&lacks| lacks > 0) else { return 0 };
            let missing: Vec<u16> = self.block.missing().collect();
            let missing = names.then_some(&missing[..]);
            let (count, plain) = (self.block.seen(), self.block.is_plain());
            block.on_request(Request { index, count, lacks, plain, missing, most: u64::MAX })
        }
    }

    fn message(rng: &mut Rng) -> Bytes {
        let mut bytes = vec![0; rng.below(9) as usize];
        rng.fill(&mut bytes);
        bytes.into()
    }

    #[test]
    fn all_become_whole_whatever_is_lost_late_or_forgotten() {
        let (mut rng, code) = (Seeds::new(1).stream("repairs"), ReedSolomon);
        for round in 0..60 {
            let length = 1 + rng.below(30) as u16;
            let messages: Vec<Bytes> = (0..length).map(|_| message(&mut rng)).collect();
            let mut readers: Vec<Reader> = (0..1 + rng.below(5)).map(|_| Reader::default()).collect();
            let mut block = RepairBlock::new(7);
            for (index, message) in messages.iter().enumerate() {
                assert_eq!(block.send(message.clone(), false), index as u16);
                for reader in readers.iter_mut().filter(|_| round % 2 == 0 && rng.below(3) > 0) {
                    reader.block.insert(index as u16, message.clone());
                }
            }
            block.close();
            readers.iter_mut().for_each(|reader| assert!(reader.block.set_length(length)));
            let (plain, planned) = (rng.below(40), 1 << rng.below(6));
            let mut sent = 0;
            while readers.iter().any(|reader| !reader.block.is_whole()) {
                match rng.below(5) {
                    0 => {
                        let names = rng.below(4) > 0;
                        for (index, reader) in readers.iter_mut().enumerate() {
                            // A poll behind all that has gone out tells how much that was.
                            if reader.under_way.is_empty() {
                                reader.block.see(block.count(), 0);
                            }
                            reader.ask(index, names, &mut block);
                        }
                        block.decide(|_| plain, 1 + rng.below(4) as usize);
                        assert!(!block.is_asked());
                    }
                    1 | 2 => {
                        let Some(repair) = block.next(&code, |_| planned) else { continue };
                        sent += 1;
                        for reader in readers.iter_mut().filter(|_| rng.below(3) > 0) {
                            reader.under_way.push_back((block.count(), repair.clone()));
                        }
                    }
                    3 => readers.iter_mut().for_each(|reader| reader.read(&messages, code)),
                    _ if rng.below(50) == 0 => readers[0].block.forget(),
                    _ => {}
                }
                assert!(sent < 50_000, "it does not end");
            }
        }
    }

    #[test]
    fn what_is_under_way_or_due_is_not_sent_again_however_often_it_is_asked_for() {
        let (mut rng, code) = (Seeds::new(2).stream("repairs"), ReedSolomon);
        for plain in [0, 100] {
            let mut block = RepairBlock::new(0);
            for _ in 0..20 {
                block.send(message(&mut rng), false);
            }
            block.close();
            let missing = [3, 5, 8];
            let request = |index: usize, count: u16, lacks: u16| Request {
                index,
                count,
                lacks,
                plain: false,
                missing: Some(&missing[..usize::from(lacks)]),
                most: 100,
            };
            assert_eq!(block.on_request(request(0, 0, 3)), 3);
            assert_eq!(block.on_request(request(0, 0, 3)), 0, "it was said before");
            assert_eq!(block.on_request(request(1, 0, 2)), 2);
            block.decide(|_| plain, 1);
            assert_eq!(block.due(), 3);
            assert_eq!([0, 1, 2].map(|index| block.serves(index)), [3, 2, 0]);
            block.on_request(request(0, 0, 3));
            block.decide(|_| plain, 1);
            assert_eq!(block.due(), 3, "it is due");
            assert!(block.next(&code, |_| 4).is_some());
            assert_eq!([0, 1].map(|index| block.serves(index)), [2, 1]);
            while block.next(&code, |_| 4).is_some() {}
            assert_eq!((block.count(), block.is_news()), (3, true));
            assert_eq!(block.on_request(request(0, 0, 3)), 0);
            block.decide(|_| plain, 1);
            assert_eq!(block.due(), 0, "it is under way");
            assert_eq!(block.on_request(request(0, 3, 3)), 3, "all of it was lost");
            block.decide(|_| plain, 1);
            assert_eq!(block.due(), 3);
        }
    }

    #[test]
    fn nobody_has_more_sent_than_it_may() {
        let mut block = RepairBlock::new(0);
        for _ in 0..20 {
            block.send(Bytes::new(), false);
        }
        block.close();
        let missing: Vec<u16> = (0..20).collect();
        let request =
            Request { index: 0, count: 0, lacks: 20, plain: false, missing: Some(&missing), most: 4 };
        assert_eq!(block.on_request(request), 4);
        block.decide(|symbols| symbols, 1);
        assert_eq!(block.due(), 4);
    }
}
