//! Sequence numbers of the received messages of a live stream.

use carillon_core::{Order, SeqSet};

use super::pieces::Pieces;

/// Received sequence numbers of one sender, for ordered or unordered delivery.
#[derive(Debug)]
pub(super) struct MessageNumbers {
    as_they_come: bool,
    /// Smallest number that was not received.
    next: u64,
    /// Received numbers above `next`.
    ahead: SeqSet,
    /// Greatest number seen, plus one.
    seen: u64,
    /// Total number of messages up to the end of this session, once known.
    total: Option<u64>,
    pieces: Pieces,
    /// True in a later session of the stream, which may repeat messages.
    repeats: bool,
    /// Number of the first message that a session could deliver.
    first: u64,
    /// Number of messages that no session delivers.
    missed: u64,
}

impl MessageNumbers {
    /// Creates an empty set for this order of delivery.
    pub fn new(order: Order) -> Self {
        MessageNumbers {
            as_they_come: order == Order::Arrival,
            next: 0,
            ahead: SeqSet::new(),
            seen: 0,
            total: None,
            pieces: Pieces::default(),
            repeats: false,
            first: 0,
            missed: 0,
        }
    }

    /// Prepares for a later session of the stream, with this order of delivery.
    pub fn resumed(self, order: Order) -> Self {
        let as_they_come = order == Order::Arrival;
        MessageNumbers { as_they_come, total: None, pieces: Pieces::default(), repeats: true, ..self }
    }

    /// Records that a session begins with this message: earlier ones that were not received are missed.
    pub fn begin_with(&mut self, number: u64) {
        if number <= self.next {
            return;
        }
        if self.next == 0 && self.ahead.missing(0..number).next() == Some(0..number) {
            self.first = number;
        }
        let missing = self.ahead.missing(self.next..number);
        self.missed += missing.map(|run| run.end - run.start).sum::<u64>();
        self.next = self.ahead.first_missing(number);
        self.ahead.remove_below(self.next);
    }

    /// Returns true if a later session repeats this message.
    pub fn is_repeated(&self, number: u64) -> bool {
        self.repeats && (number < self.next || self.ahead.contains(number))
    }

    /// Smallest number that was not received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Number of the first message that a session could deliver.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of messages that no session delivers.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns true if messages are delivered as they arrive.
    pub fn as_they_come(&self) -> bool {
        self.as_they_come
    }

    /// Records a message; fails if it is a duplicate or out of order.
    pub fn take(&mut self, number: u64) -> Result<(), String> {
        self.expect(number, "message")?;
        if number == self.next {
            self.next = self.ahead.first_missing(number + 1);
            if !self.ahead.is_empty() {
                self.ahead.remove_below(self.next);
            }
        } else if self.ahead.count_runs() > MAX_GAPS {
            return Err(format!("message {number} arrived with more than {MAX_GAPS} gaps before it"));
        } else {
            self.ahead.insert(number);
        }
        Ok(())
    }

    /// Adds a piece of a message; returns the message when it is complete.
    pub fn take_piece(
        &mut self,
        number: u64,
        place: (u32, u32),
        piece: &[u8],
    ) -> Result<Option<Vec<u8>>, String> {
        self.expect(number, "a piece of message")?;
        let whole = self.pieces.take(number, place, piece)?;
        if whole.is_some() {
            self.take(number)?;
        }
        Ok(whole)
    }

    /// Records the total number of messages; returns true if all were received.
    pub fn end(&mut self, total: u64) -> Result<bool, String> {
        if self.seen > total {
            return Err(format!("more messages arrived than the {total} that were sent"));
        }
        if self.total.replace(total).is_some_and(|before| before != total) {
            return Err(format!("the sender announces its number of messages twice, now {total}"));
        }
        match self.shortage().filter(|_| !self.as_they_come) {
            Some(shortage) => Err(shortage),
            None => Ok(self.is_complete()),
        }
    }

    /// Returns true if no message is missing, as far as known.
    pub fn is_complete(&self) -> bool {
        self.total == Some(self.next) && self.pieces.is_empty()
    }

    /// Returns true if the sender has ended the stream and messages are missing.
    pub fn is_short(&self) -> bool {
        self.total.is_some() && !self.is_complete()
    }

    /// Describes missing messages after the end of the stream.
    pub fn shortage(&self) -> Option<String> {
        let total = self.total.filter(|_| self.is_short())?;
        let came = self.next + self.ahead.len();
        let mut missing = self.ahead.missing(self.next..total).map(|run| match run.end - run.start {
            1 => run.start.to_string(),
            _ => format!("{} to {}", run.start, run.end - 1),
        });
        let named: Vec<String> = missing.by_ref().take(MAX_LISTED_GAPS).collect();
        let rest = missing.next().map_or("", |_| " and others");
        Some(format!(
            "the stream is incomplete: {came} of {total} messages arrived, missing: {}{rest}",
            named.join(", ")
        ))
    }

    /// Discards incomplete messages after the last record.
    pub fn forget(&mut self) {
        self.pieces = Pieces::default();
    }

    /// Checks that a message of this number is expected.
    fn expect(&mut self, number: u64, what: &str) -> Result<(), String> {
        let is_over = self.total.is_some_and(|total| number >= total);
        let is_beyond = number != self.next && !self.as_they_come;
        if is_over || is_beyond || number == u64::MAX {
            return Err(format!("{what} {number} arrived instead of message {}", self.next));
        }
        if number < self.next || self.ahead.contains(number) {
            return Err(format!("{what} {number} arrived twice"));
        }
        self.seen = self.seen.max(number + 1);
        Ok(())
    }
}

/// `entry` of a RESUME with the number of the first message of a session.
pub const BEGINS: u32 = 0;
/// `entry` of a RESUME with the number of the first message of the session that continues the stream.
pub const CONTINUES: u32 = 1;
/// Maximum number of listed gaps.
const MAX_LISTED_GAPS: usize = 8;
/// Maximum number of gaps: more than the packets that any protocol has in flight.
const MAX_GAPS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_missing_numbers_is_bounded() {
        let mut numbers = MessageNumbers::new(Order::Arrival);
        for number in [0, 1, 3, 6, 9] {
            numbers.take(number).expect("it is new");
        }
        assert_eq!((numbers.shortage(), numbers.end(10)), (None, Ok(false)));
        let said = "the stream is incomplete: 5 of 10 messages arrived, missing: 2, 4 to 5, 7 to 8";
        assert_eq!(numbers.shortage().as_deref(), Some(said));
        for number in [2, 4, 5, 7] {
            numbers.take(number).expect("it is new");
            assert!(numbers.is_short());
        }
        assert_eq!((numbers.take(8), numbers.is_complete(), numbers.is_short()), (Ok(()), true, false));
        let mut numbers = MessageNumbers::new(Order::Arrival);
        (0..100).step_by(2).for_each(|number| numbers.take(number).expect("it is new"));
        assert_eq!(numbers.end(99), Ok(false));
        assert!(
            numbers
                .shortage()
                .expect("half is missing")
                .ends_with("missing: 1, 3, 5, 7, 9, 11, 13, 15 and others")
        );
    }

    #[test]
    fn further_session_repeats_messages_and_leaves_others_out() {
        let mut numbers = MessageNumbers::new(Order::Source);
        for number in 0..3 {
            numbers.take(number).expect("it is new");
        }
        // The receiver was expelled, and messages 3 and 4 are gone.
        let mut numbers = numbers.resumed(Order::Source);
        numbers.begin_with(1);
        assert!(numbers.is_repeated(1) && numbers.is_repeated(2) && !numbers.is_repeated(3));
        numbers.begin_with(5);
        assert_eq!((numbers.first(), numbers.missed(), numbers.next()), (0, 2, 5));
        assert_eq!((numbers.take(5), numbers.end(6)), (Ok(()), Ok(true)));
        // A late receiver.
        let mut late = MessageNumbers::new(Order::Source);
        late.begin_with(4);
        assert_eq!((late.first(), late.missed()), (4, 4));
        assert!(!late.is_repeated(3), "its first session repeats nothing");
        assert!(late.take(3).is_err() && late.take(4).is_ok());
    }

    #[test]
    fn first_message_of_a_session_may_be_told_after_others() {
        let mut late = MessageNumbers::new(Order::Arrival);
        for number in [7, 5] {
            late.take(number).expect("it is new");
        }
        late.begin_with(5);
        assert_eq!((late.first(), late.missed(), late.next()), (5, 5, 6));
        let mut numbers = late.resumed(Order::Arrival);
        assert!(numbers.is_repeated(7) && !numbers.is_repeated(6));
        numbers.begin_with(9);
        assert_eq!((numbers.first(), numbers.missed(), numbers.next()), (5, 7, 9));
    }
}
