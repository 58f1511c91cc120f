//! State of one child as its parent knows it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carillon_core::Time;

use super::congestion::ChildCongestion;
use crate::blocks::{ReceiverMap, RoundTrip};
use crate::protocols::pf::config::CongestionRule;

/// Window, round-trip time and outstanding polls of a child.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    /// True while the parent waits for this child.
    pub live: bool,
    /// LE: first message that the child has not consumed, or is missing.
    pub left: u64,
    /// S: number of messages that its buffer holds.
    pub size: u64,
    /// First message without room at the child, or beyond its congestion window. The effective window EW ends here.
    pub limit: u64,
    /// Congestion window, with congestion control.
    congestion: Option<ChildCongestion>,
    /// First number beyond HR, the highest message that the child knows.
    pub highest: u64,
    /// Messages that the child has.
    pub map: ReceiverMap,
    pub round_trip: RoundTrip,
    /// Unanswered polls, oldest first.
    pub asked: VecDeque<OutstandingPoll>,
    /// Sending times of the first and the last unanswered poll that was dropped from the list.
    forgotten: Option<(Time, Time)>,
    /// First number beyond the highest message of all answered polls.
    answered: u64,
    /// Number of consecutive unanswered polls.
    pub absent: u32,
    /// Sending time of the last of them.
    last_absent: Time,
    /// Sending time of the first poll that timed out since the last response.
    pub silent_since: Option<Time>,
    /// True if the child has children of its own.
    pub helps: bool,
    /// Time of the last retransmission of each message to this child alone.
    pub resent: BTreeMap<u64, Time>,
}

/// Poll that a child has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutstandingPoll {
    /// Number of the poll.
    pub poll: u64,
    /// POLL.TS, the sending time.
    pub at: Time,
    /// First number beyond POLL.SEQ.
    pub end: u64,
    /// True after the timeout of the poll.
    pub absent: bool,
}

impl Child {
    /// Creates a child without messages, with room for `size` messages.
    pub fn new(size: u64, rule: CongestionRule) -> Self {
        let mut child = Child {
            live: true,
            left: 0,
            size,
            limit: 0,
            congestion: ChildCongestion::new(rule, size),
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
        };
        child.limit = child.first_without_room();
        child
    }

    /// First message without room in the buffer of the child.
    pub fn buffer_limit(&self) -> u64 {
        self.left.saturating_add(self.size)
    }

    /// First message without room in the buffer of the child, or in the network to it.
    pub fn first_without_room(&self) -> u64 {
        self.buffer_limit().min(self.congestion_limit())
    }

    /// First message beyond the congestion window.
    pub fn congestion_limit(&self) -> u64 {
        let window = self.congestion.and_then(|congestion| congestion.limiting_window());
        window.map_or(u64::MAX, |window| self.map.next().saturating_add(window))
    }

    /// Congestion window that the parent reports to the node that sends its messages, as far as the buffer has room.
    pub fn reported_window(&self) -> Option<u64> {
        Some(self.congestion?.reported_window()?.min(self.size))
    }

    /// Handles a message that the child has now.
    pub fn on_arrived(&mut self) {
        if let Some(congestion) = &mut self.congestion {
            congestion.on_arrived();
        }
    }

    /// Handles a message that the child reports as missing; `sent` is the next message.
    pub fn on_missing(&mut self, message: u64, sent: u64) {
        if let Some(congestion) = &mut self.congestion {
            congestion.on_missing(message, sent);
        }
    }

    /// Handles an unanswered poll after [`Child::miss`]; `sent` is the next message.
    pub fn on_absent(&mut self, sent: u64) {
        let missing = self.map.next();
        if let Some(congestion) = &mut self.congestion {
            congestion.on_absent(self.absent, missing, sent);
        }
    }

    /// Returns true if the child is known to be missing a message.
    pub fn nacks(&self, number: u64) -> bool {
        number < self.highest && !self.map.has(number)
    }

    /// Handles the response to the poll sent at `at`, which also answers all earlier polls. Returns the polls that
    /// are no longer awaited; `None` if no poll was sent at `at` or a later one is answered.
    pub fn answer(&mut self, at: Time) -> Option<Vec<u64>> {
        // Outstanding polls are sorted by sending time, which the response echoes.
        let before = self.asked.partition_point(|asked| asked.at < at);
        let until = match self.asked.get(before).is_some_and(|asked| asked.at == at) {
            true => before + 1,
            // A poll that was dropped from the list counts as the last kept one before it.
            false if self.forgotten.is_some_and(|(first, last)| (first..=last).contains(&at)) => before,
            false => return None,
        };
        // A response covers all earlier polls, kept or dropped.
        let after = at + Duration::from_nanos(1);
        let left = self.forgotten.map(|(first, last)| (first.max(after), last));
        self.forgotten = left.filter(|(first, last)| first <= last);
        let last = until.checked_sub(1).map_or(0, |index| self.asked[index].end);
        self.answered = self.answered.max(last);
        self.silent_since = None;
        if self.absent > 0 {
            // Missing poll table, section 3.
            self.absent = match at.cmp(&self.last_absent) {
                std::cmp::Ordering::Equal => self.absent - 1,
                std::cmp::Ordering::Greater => 0,
                std::cmp::Ordering::Less => 1,
            };
        }
        // Timed-out polls are no longer in the timeout queue of the parent.
        let over = self.asked.drain(..until).filter(|asked| !asked.absent);
        Some(over.map(|asked| asked.poll).collect())
    }

    /// Marks a poll as timed out; returns false if it is not awaited.
    pub fn miss(&mut self, poll: u64) -> bool {
        let Some(asked) = self.asked.iter_mut().find(|asked| asked.poll == poll && !asked.absent) else {
            return false;
        };
        asked.absent = true;
        self.last_absent = self.last_absent.max(asked.at);
        self.silent_since = self.silent_since.or(Some(asked.at));
        self.absent += 1;
        // The oldest polls give the round-trip time of a distant child, and the newest the state of a child that was
        // silent for a while. A distant child that learns late of its parent answers a poll between them.
        let absent = self.asked.iter().enumerate().filter(|(_, asked)| asked.absent);
        if let Some((index, _)) =
            absent.clone().nth(MAX_ABSENT_POLLS / 2).filter(|_| absent.count() > MAX_ABSENT_POLLS)
            && let Some(asked) = self.asked.remove(index)
        {
            self.forgotten = Some((self.forgotten.map_or(asked.at, |(first, _)| first), asked.at));
        }
        true
    }

    /// Clears all outstanding polls and retransmission times.
    pub fn rest(&mut self) {
        self.asked.clear();
        self.forgotten = None;
        self.resent.clear();
    }

    /// Drops the polls that have timed out.
    pub fn forget_absent(&mut self) {
        self.asked.retain(|asked| !asked.absent);
        self.forgotten = None;
    }

    /// Returns true if the child has answered no poll about this message, and all of these polls have timed out.
    pub fn is_repolled(&self, number: u64) -> bool {
        let about = |asked: &&OutstandingPoll| asked.end > number;
        number >= self.answered
            && self.asked.iter().any(|asked| asked.end > number)
            && self.asked.iter().filter(about).all(|asked| asked.absent)
    }

    /// Returns true while a response of the child may be in flight.
    pub fn is_awaited(&self) -> bool {
        self.asked.iter().any(|asked| !asked.absent)
    }

    /// Round-trip estimate of the child, or `unknown` without a sample.
    pub fn distance(&self, unknown: Duration) -> Duration {
        self.round_trip.mean().unwrap_or(unknown)
    }
}

/// Maximum number of timed-out polls that are kept to accept late responses, one half oldest, the other newest. It
/// bounds the memory for each child.
const MAX_ABSENT_POLLS: usize = 16;
