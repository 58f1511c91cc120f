//! What a parent knows of one child.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carillon_core::Time;

use crate::blocks::{ReceiverMap, RoundTrip};

/// A child's window as the parent knows it, how far away it is, and what it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    /// Somebody waits for it.
    pub live: bool,
    /// LE: the first message that it has not consumed, or that it lacks.
    pub left: u64,
    /// S: messages that its buffer holds.
    pub size: u64,
    /// One past HR, the highest that it has heard of.
    pub highest: u64,
    /// What it has.
    pub map: ReceiverMap,
    pub round_trip: RoundTrip,
    /// Polls that it has not answered, the oldest first.
    pub asked: VecDeque<OutstandingPoll>,
    /// When the first and the last were sent of those among them that are not kept any more.
    forgotten: Option<(Time, Time)>,
    /// One past the highest message of the polls that it has answered.
    answered: u64,
    /// How many polls in a row it has not answered, and when the last of them was sent.
    pub absent: u32,
    last_absent: Time,
    /// When the first poll was sent that it has not answered in time, if it has answered none since.
    pub silent_since: Option<Time>,
    /// It has children of its own.
    pub helps: bool,
    /// When messages were last sent again to it alone.
    pub resent: BTreeMap<u64, Time>,
}

/// A poll that a child has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutstandingPoll {
    /// Its number.
    pub poll: u64,
    /// POLL.TS.
    pub at: Time,
    /// One past POLL.SEQ.
    pub end: u64,
    /// It has had its time to answer.
    pub absent: bool,
}

impl Child {
    /// One that has nothing, and room for so many messages.
    pub fn new(size: u64) -> Self {
        Child {
            live: true,
            left: 0,
            size,
            highest: 0,
            map: ReceiverMap::default(),
            round_trip: RoundTrip::default(),
            asked: VecDeque::new(),
            forgotten: None,
            answered: 0,
            absent: 0,
            last_absent: Time::ZERO,
            silent_since: None,
            helps: false,
            resent: BTreeMap::new(),
        }
    }

    /// One past the last message for which it has room: EW is what of it lies beyond the last message sent.
    pub fn limit(&self) -> u64 {
        self.left.saturating_add(self.size)
    }

    /// Whether it is known to lack a message.
    pub fn nacks(&self, number: u64) -> bool {
        number < self.highest && !self.map.has(number)
    }

    /// The response to the poll sent at this time has come: earlier ones say no more than it does. Returns the polls that it
    /// is not awaited for any more; `None` if it was not asked then, or has answered a later poll.
    pub fn answer(&mut self, at: Time) -> Option<Vec<u64>> {
        let before = self.asked.partition_point(|asked| asked.at < at);
        let until = match self.asked.get(before).is_some_and(|asked| asked.at == at) {
            true => before + 1,
            // One that is not kept counts as the last one kept before it.
            false if self.forgotten.is_some_and(|(first, last)| (first..=last).contains(&at)) => before,
            false => return None,
        };
        let after = at + Duration::from_nanos(1);
        let left = self.forgotten.map(|(first, last)| (first.max(after), last));
        self.forgotten = left.filter(|(first, last)| first <= last);
        let last = until.checked_sub(1).map_or(0, |index| self.asked[index].end);
        self.answered = self.answered.max(last);
        self.silent_since = None;
        if self.absent > 0 {
            // The missing poll table, section 3.
            self.absent = match at.cmp(&self.last_absent) {
                std::cmp::Ordering::Equal => self.absent - 1,
                std::cmp::Ordering::Greater => 0,
                std::cmp::Ordering::Less => 1,
            };
        }
        let over = self.asked.drain(..until).filter(|asked| !asked.absent);
        Some(over.map(|asked| asked.poll).collect())
    }

    /// It has not answered this poll in time. `false` if it is not awaited.
    pub fn miss(&mut self, poll: u64) -> bool {
        let Some(asked) = self.asked.iter_mut().find(|asked| asked.poll == poll && !asked.absent) else {
            return false;
        };
        asked.absent = true;
        self.last_absent = self.last_absent.max(asked.at);
        self.silent_since = self.silent_since.or(Some(asked.at));
        self.absent += 1;
        // The first of them tell how far away it is, however far; the last ones, what one has that was silent for a while. One that is
        // told late whom it is to answer, and is far away, answers one between them.
        let absent = self.asked.iter().enumerate().filter(|(_, asked)| asked.absent);
        if let Some((index, _)) =
            absent.clone().nth(MAX_ABSENT_POLLS / 2).filter(|_| absent.count() > MAX_ABSENT_POLLS)
            && let Some(asked) = self.asked.remove(index)
        {
            self.forgotten = Some((self.forgotten.map_or(asked.at, |(first, _)| first), asked.at));
        }
        true
    }

    /// Nothing is waited for.
    pub fn rest(&mut self) {
        self.asked.clear();
        self.forgotten = None;
        self.resent.clear();
    }

    /// The polls that it has not answered in time are no more.
    pub fn forget_absent(&mut self) {
        self.asked.retain(|asked| !asked.absent);
        self.forgotten = None;
    }

    /// Whether it has answered none of the polls about this message, at least one of which it should have by now.
    pub fn is_repolled(&self, number: u64) -> bool {
        let about = |asked: &&OutstandingPoll| asked.end > number;
        number >= self.answered
            && self.asked.iter().any(|asked| asked.end > number)
            && self.asked.iter().filter(about).all(|asked| asked.absent)
    }

    /// Whether an answer is under way, as far as is known.
    pub fn is_awaited(&self) -> bool {
        self.asked.iter().any(|asked| !asked.absent)
    }

    /// The estimate of its round trip.
    pub fn distance(&self, unknown: Duration) -> Duration {
        self.round_trip.mean().unwrap_or(unknown)
    }
}

/// Polls not answered in time whose answers are still taken: half of them the oldest, half the newest.
const MAX_ABSENT_POLLS: usize = 16;
