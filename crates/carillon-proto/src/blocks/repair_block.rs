//! Repairs of one block at the sender.
//!
//! A repair is a coded symbol, a repeated message, or the exclusive or of several messages of which no receiver
//! misses two. All repairs of a block are counted in transmit order, and each request quotes the count that the
//! receiver has seen. The sender thus knows what was sent since, and never serves a request twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::expand;

use super::{ErasureCode, Shape, xor};

/// A block, from the first transmission until all receivers have it.
#[derive(Debug)]
pub struct RepairBlock {
    /// First message of the block.
    first: u64,
    /// Messages sent. All are kept until the receivers have the block, since coding needs all of them.
    messages: Vec<Bytes>,
    /// True if no more messages will join the block.
    closed: bool,
    /// Repairs sent, in order, each with the number of coded symbols sent before it.
    sent_repairs: Vec<(SentRepair, u64)>,
    /// Number of repairs sent from the sequence of all coded symbols followed by the messages.
    coded: u64,
    /// Number of repairs of that sequence that are wanted.
    wanted: u64,
    /// Number of coded symbols sent.
    symbols: u64,
    /// Newest request of each receiver since the last decision.
    requests: BTreeMap<usize, RecordedRequest>,
    /// Messages to repeat, one packet each.
    again: VecDeque<Vec<u16>>,
    /// True if repairs were sent since the last poll.
    news: bool,
    /// Number of packets that each requester needs, since the last decision.
    needs: BTreeMap<usize, u64>,
    /// Count of repairs at which each requester has enough of the ones due.
    serves: BTreeMap<usize, u64>,
    /// Coded symbols one after the other, once computed, and their shape.
    code: Option<(Shape, Bytes)>,
}

/// Request of a receiver, as of a count of repairs.
#[derive(Debug)]
struct RecordedRequest {
    /// Number of repairs that the receiver had seen.
    seen: usize,
    /// Number of symbols that it misses.
    lacks: u64,
    /// True if only repeated messages help it.
    plain: bool,
    /// Indices of its missing messages, if it has named them.
    missing: Option<Vec<u16>>,
    /// Maximum number of repairs that the receiver may cause.
    most: u64,
}

/// Part of a request that is neither in flight nor due.
struct Shortage {
    /// Number of coded symbols, in total, that must have been sent for it.
    asked: u64,
    /// Number of packets the receiver needs.
    packets: u64,
    /// Named messages that no repair in flight or due brings.
    missing: Option<Vec<u16>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SentRepair {
    /// Message, or sum of several.
    Messages(Vec<u16>),
    /// A coded symbol.
    Coded,
}

/// Next repair of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Repeated message.
    Message(u16),
    /// Several messages as their [sum](xor::sum).
    Sum(Vec<u16>, Vec<u8>),
    /// Coded symbol with its number.
    Coded(Shape, u16, Bytes),
}

/// Request of a receiver for repairs of a block.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Index of the receiver.
    pub index: usize,
    /// Number of repairs that it has seen, modulo 2^16.
    pub count: u16,
    /// Number of symbols that it misses.
    pub lacks: u16,
    /// True if only repeated messages help the receiver.
    pub plain: bool,
    /// Indices of the missing messages, ascending, if the request names them.
    pub missing: Option<&'a [u16]>,
    /// Maximum number of repairs that the receiver may cause.
    pub most: u64,
}

impl RepairBlock {
    /// Creates a block that begins with this message.
    pub fn new(first: u64) -> Self {
        RepairBlock {
            first,
            messages: Vec::new(),
            closed: false,
            sent_repairs: Vec::new(),
            coded: 0,
            wanted: 0,
            symbols: 0,
            requests: BTreeMap::new(),
            again: VecDeque::new(),
            news: false,
            needs: BTreeMap::new(),
            serves: BTreeMap::new(),
            code: None,
        }
    }

    /// First message of the block.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Sequence number after the last message of the block.
    pub fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// Number of messages; 0 while the block is open.
    pub fn length(&self) -> u16 {
        if self.closed { self.len() } else { 0 }
    }

    /// Number of messages so far.
    pub fn len(&self) -> u16 {
        self.messages.len() as u16
    }

    /// Returns true if the block has no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds the next message, as the last one if `is_last`. Returns its index.
    pub fn send(&mut self, message: Bytes, is_last: bool) -> u16 {
        self.messages.push(message);
        if is_last {
            self.close();
        }
        self.len() - 1
    }

    /// Message with this index.
    pub fn message(&self, index: u16) -> Option<&Bytes> {
        self.messages.get(usize::from(index))
    }

    /// Closes the block: no more messages join it.
    pub fn close(&mut self) {
        (self.closed, self.news) = (true, true);
    }

    /// Returns true if the block is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Number of repairs sent, modulo 2^16.
    pub fn count(&self) -> u16 {
        (self.sent_repairs.len() as u64 % COUNTS) as u16
    }

    /// Returns true if repairs were sent.
    pub fn has_repeated(&self) -> bool {
        !self.sent_repairs.is_empty()
    }

    /// Number of repairs due.
    pub fn due(&self) -> u64 {
        self.again.len() as u64 + self.wanted.saturating_sub(self.coded)
    }

    /// Plans coded symbols to be sent before any request.
    pub fn plan_proactive(&mut self, symbols: u64) {
        self.wanted = self.wanted.max(symbols);
    }

    /// Handles a request. Returns the number of additional packets that the receiver needs, compared with its
    /// requests since the last decision.
    pub fn on_request(&mut self, request: Request<'_>) -> u64 {
        let Request { index, count, lacks, plain, missing, most } = request;
        let now = self.sent_repairs.len() as u64;
        // A damaged or forged request may quote a count that was not reached yet, or messages that the block does not
        // have. The bounds keep later look-ups valid.
        let seen = expand(count.into(), COUNTS, now).min(now) as usize;
        let length = self.len();
        let missing =
            missing.map(|missing| missing.iter().copied().filter(|&place| place < length).collect());
        let request = RecordedRequest { seen, lacks: lacks.min(length).into(), plain, missing, most };
        let packets = self.shortage(&request).packets;
        // A request from before a newer count is obsolete.
        if self.requests.get(&index).is_none_or(|known| known.seen <= seen) {
            self.requests.insert(index, request);
        }
        // Report only the increase, so that the repair budget is not charged twice for a repeated request.
        let known = self.needs.entry(index).or_default();
        let before = *known;
        *known = before.max(packets);
        *known - before
    }

    /// Part of a request that is neither in flight nor due.
    fn shortage(&self, request: &RecordedRequest) -> Shortage {
        // Symbols sent after the count that the request quotes are in flight to this receiver.
        let in_flight = &self.sent_repairs[request.seen..];
        let coded = in_flight.first().map_or(0, |(_, before)| self.symbols - before);
        // The budget bounds further repairs. Symbols in flight were charged already.
        let mut lacks = request.lacks.min(request.most.saturating_add(coded));
        let missing = request.missing.as_ref().map(|missing| {
            // Messages that other repairs bring need no further packet.
            let on_their_way = on_their_way(in_flight, &self.again, missing);
            lacks = lacks.saturating_sub(on_their_way.len() as u64);
            let most = usize::try_from(request.most).unwrap_or(usize::MAX);
            let left = missing.iter().copied().filter(|place| !on_their_way.contains(place));
            left.take(most).collect()
        });
        // A coded symbol replaces any missing message, except at a receiver that cannot decode.
        let packets = if request.plain { lacks } else { lacks.saturating_sub(coded) };
        Shortage { asked: self.coded - coded + lacks, packets, missing }
    }

    /// Returns true if a receiver asked for repairs that are not in flight, since the last decision.
    pub fn is_asked(&self) -> bool {
        self.needs.values().any(|&needs| needs > 0)
    }

    /// Decides which repairs answer the requests: missing messages, up to `degree` in a packet, if they take at most
    /// `plain_up_to` packets for the number of coded symbols that would do; otherwise those symbols. Returns the
    /// indices of the requesters.
    pub fn decide(&mut self, plain_up_to: impl Fn(u64) -> u64, degree: usize) -> Vec<usize> {
        let requests = std::mem::take(&mut self.requests);
        let plain = requests.values().any(|request| request.plain);
        let (mut named, mut all_named, mut asked) = (BTreeMap::<u16, u64>::new(), true, 0);
        // Each requester gets a bit. A message is named with the bits of the receivers that miss it.
        for (bit, request) in requests.values().enumerate() {
            let shortage = self.shortage(request);
            asked = asked.max(shortage.asked);
            // The bit set has room for 64 requesters. With more of them, only coded symbols or the whole block serve
            // all.
            match shortage.missing.zip(1u64.checked_shl(bit as u32)) {
                None => all_named = false,
                Some((missing, bit)) => {
                    missing.into_iter().for_each(|place| *named.entry(place).or_default() |= bit)
                }
            }
        }
        let symbols = asked.saturating_sub(self.coded);
        // Prefer repeated messages and sums while they are few, since they need no decoding.
        let shares = match () {
            // A receiver that keeps no messages cannot decode a sum.
            _ if plain && all_named => Some(named.into_keys().map(|place| vec![place]).collect()),
            // Some receiver has not named its missing messages, so all of them are repeated.
            _ if plain => {
                self.again.clear();
                Some((0..self.len()).map(|place| vec![place]).collect())
            }
            // If coded symbols are due anyway, more of them serve best.
            _ if symbols > 0 && all_named && self.wanted <= self.coded => {
                xor::combine(&named, degree, plain_up_to(symbols))
            }
            _ => None,
        };
        match shares {
            Some(shares) => self.again.extend(shares),
            // Any symbol helps any receiver, so the receiver that needs most determines the number.
            None => self.wanted = self.wanted.max(asked),
        }
        let (due, sent) = (self.due(), self.sent_repairs.len() as u64);
        // Each requester has enough after as many further repairs as it needs, but no more than are due.
        let needs = std::mem::take(&mut self.needs);
        for (&index, needs) in &needs {
            let until = self.serves.entry(index).or_default();
            *until = sent + ((*until).saturating_sub(sent) + needs).min(due);
        }
        needs.into_iter().filter(|&(_, needs)| needs > 0).map(|(index, _)| index).collect()
    }

    /// Adds repairs against expected loss for the requesters `asked`: the same messages again if they are at most
    /// `plain_up_to`, otherwise coded symbols.
    pub fn spare(&mut self, packets: u64, plain_up_to: u64, asked: &[usize]) {
        let due = self.again.len();
        if packets == 0 || self.due() == 0 {
            return;
        }
        // A repetition helps only a receiver that lost the same packet. With many packets a symbol, which replaces any
        // of them, is the better spare.
        if self.wanted <= self.coded && due as u64 <= plain_up_to {
            let again: Vec<_> = self.again.iter().cycle().take(packets as usize).cloned().collect();
            self.again.extend(again);
        } else {
            self.wanted = self.wanted.max(self.coded) + packets;
        }
        // The spare packets are for these requesters too, so they have enough only after them.
        for index in asked {
            self.serves.entry(*index).and_modify(|until| *until += packets);
        }
    }

    /// Number of the repairs due that this receiver needs, as far as it has said.
    pub fn serves(&self, index: usize) -> u64 {
        let sent = self.sent_repairs.len() as u64;
        self.serves.get(&index).map_or(0, |until| until.saturating_sub(sent))
    }

    /// Returns true if repairs were sent about which no receiver was polled, and none are due.
    pub fn is_news(&self) -> bool {
        self.news && self.closed && self.due() == 0
    }

    /// Returns true if all receivers were polled after the last repair, so that a decision can be made when they have
    /// answered.
    pub fn is_polled(&self) -> bool {
        self.closed && !self.news
    }

    /// Records a poll about the block.
    pub fn on_poll(&mut self) {
        self.news = false;
    }

    /// Next repair, if one is due. `planned` gives the number of coded symbols to plan for a number wanted.
    pub fn next(&mut self, code: &dyn ErasureCode, planned: impl Fn(u64) -> u16) -> Option<Repair> {
        // An open block has no final length yet, and coding needs all messages.
        if self.due() == 0 || !self.closed {
            return None;
        }
        // The receivers must be polled about the effect of this repair.
        self.news = true;
        if let Some(places) = self.again.pop_front() {
            self.sent_repairs.push((SentRepair::Messages(places.clone()), self.symbols));
            return Some(match places[..] {
                [place] => Repair::Message(place),
                _ => {
                    let sum = xor::sum(places.iter().map(|&place| &self.messages[usize::from(place)]));
                    Repair::Sum(places, sum)
                }
            });
        }
        // In a block of one message, the message serves as a coded symbol.
        if self.len() == 1 {
            self.coded += 1;
            self.sent_repairs.push((SentRepair::Coded, self.symbols));
            self.symbols += 1;
            return Some(Repair::Message(0));
        }
        // Code all planned symbols at once: that costs hardly more than coding one.
        if self.code.is_none() {
            let longest = self.messages.iter().map(Bytes::len).max()?;
            let (length, planned) = (self.len(), planned(self.wanted));
            let shape = Shape { length, planned, size: Shape::size_for(longest) };
            // If the code does not support the shape, there are no symbols, and all messages are repeated in turn.
            let coded = code.code(shape, &mut self.messages.iter().cloned());
            self.code = coded.map(|coded| (shape, Bytes::from(coded)));
        }
        let planned = self.code.as_ref().map_or(0, |(shape, _)| u64::from(shape.planned));
        // After all coded symbols the messages follow, and then the sequence begins again.
        let turn = self.coded % (planned + self.messages.len() as u64);
        self.coded += 1;
        match &self.code {
            Some((shape, coded)) if turn < planned => {
                self.sent_repairs.push((SentRepair::Coded, self.symbols));
                self.symbols += 1;
                // All symbols share one buffer.
                let at = turn as usize * shape.size;
                Some(Repair::Coded(*shape, turn as u16, coded.slice(at..at + shape.size)))
            }
            _ => {
                let index = (turn - planned) as u16;
                self.sent_repairs.push((SentRepair::Messages(vec![index]), self.symbols));
                Some(Repair::Message(index))
            }
        }
    }
}

/// Missing messages that repairs in flight or due will bring: a packet brings one if no more of its messages are
/// missing.
fn on_their_way(in_flight: &[(SentRepair, u64)], due: &VecDeque<Vec<u16>>, missing: &[u16]) -> BTreeSet<u16> {
    let only = |places: &Vec<u16>| {
        // Requests list the missing messages in ascending order.
        let mut lacking = places.iter().copied().filter(|place| missing.binary_search(place).is_ok());
        lacking.next().filter(|_| lacking.next().is_none())
    };
    let sent = in_flight.iter().filter_map(|(extra, _)| match extra {
        SentRepair::Messages(places) => Some(places),
        SentRepair::Coded => None,
    });
    sent.chain(due).filter_map(only).collect()
}

/// Modulus of the repair count on the wire.
const COUNTS: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use carillon_core::{Rng, Seeds};

    use super::*;
    use crate::blocks::{ReedSolomon, SymbolBlock};

    /// Receiver of a block, with the packets it has not seen yet.
    #[derive(Default)]
    struct Reader {
        block: SymbolBlock,
        in_flight: std::collections::VecDeque<(u16, Repair)>,
    }

    impl Reader {
        fn read(&mut self, messages: &[Bytes], code: ReedSolomon) {
            let Some((count, repair)) = self.in_flight.pop_front() else { return };
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

        /// Sends a request for the missing symbols.
        fn ask(&self, index: usize, names: bool, block: &mut RepairBlock) -> u64 {
            let Some(lacks) = self.block.lacks().filter(|&lacks| lacks > 0) else { return 0 };
            let missing: Vec<u16> = (0..self.block.length().unwrap_or_default())
                .filter(|&index| !self.block.has(index))
                .collect();
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
    fn receivers_complete_block_under_any_loss() {
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
                            // A poll after all repairs states their number.
                            if reader.in_flight.is_empty() {
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
                            reader.in_flight.push_back((block.count(), repair.clone()));
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
    fn repairs_in_flight_are_not_sent_again() {
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
    fn repairs_stay_within_budget() {
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
