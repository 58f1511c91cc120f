//! Event queue of the simulator, keyed by (time, serial).
//!
//! Three lanes, each holding later events than the one before it:
//!
//! - *instant*: a first-in first-out list of events pushed at the very time of the last pop.
//! - *near*: a small sorted vector of everything else up to `near_last`.
//! - *far*: everything after it, in the buckets of a 64-ary radix heap (module `far`).
//!
//! A queue of few events is entirely in the near lane: a sorted array of a few cache lines. When the near lane
//! overflows, its later half spills into the far lane; when it runs dry, it is refilled with the earliest bucket. An
//! event is therefore appended to a bucket a few times (about the logarithm to base 64 of the number pending, at most
//! 11) and sorted once among a few dozen neighbours, and all of that walks memory in order, which is what a binary
//! heap of a million events cannot do.
//!
//! There are no serial numbers: every step keeps events of equal time in the order they came, so
//! the order of insertion is the order within each lane.
//!
//! The radix heap is from R. K. Ahuja, K. Mehlhorn, J. B. Orlin and R. E. Tarjan, "Faster
//! algorithms for the shortest path problem", Journal of the ACM 37 (1990); sorting only the
//! earliest bucket is the idea of the ladder queue, W. T. Tang, R. S. M. Goh and I. L.-J. Thng,
//! "Ladder queue", ACM TOMACS 15 (2005). Events cannot be cancelled: the simulator lets a stale event
//! fire and ignores it.
//!
//! # Comparison with other queues
//!
//! Hold operations (pop, push back later), millions per second, on one core of a server with 2 MiB
//! of second-level cache. *Binary* is `std`'s heap; *calendar* is R. Brown's calendar queue (1988);
//! *radix 2* is the radix heap with binary digits and neither blocks nor a near lane; *sorted* is a
//! near lane without a limit. `benches/queue.rs` repeats the first and the last column.
//!
//! | increments | pending | binary | 4-ary | 8-ary | calendar | radix 2 | sorted | this |
//! |---|---:|---:|---:|---:|---:|---:|---:|---:|
//! | exponential | 10² | 28.9 | 22.7 | 22.5 | 44.4 | 29.3 | 26.4 | 34.2 |
//! | exponential | 10⁴ | 13.5 | 10.3 | 9.7 | 34.3 | 24.5 | 0.7 | 33.2 |
//! | exponential | 10⁶ | 1.9 | 3.3 | 3.3 | 5.7 | 18.1 | - | 24.1 |
//! | bimodal | 10² | 32.6 | 34.8 | 32.8 | 18.9 | 34.2 | 35.6 | 76.3 |
//! | bimodal | 10⁴ | 12.7 | 13.8 | 11.9 | 10.7 | 26.7 | 5.1 | 43.0 |
//! | bimodal | 10⁶ | 1.8 | 3.7 | 3.4 | 5.7 | 19.8 | - | 25.0 |
//! | ticks | 10² | 22.6 | 14.9 | 12.5 | 55.1 | 71.3 | 24.6 | 82.5 |
//! | ticks | 10⁴ | 11.8 | 8.4 | 6.9 | 4.0 | 79.4 | 0.5 | 87.8 |
//! | ticks | 10⁶ | 1.6 | 3.2 | 3.0 | 0.02 | 59.0 | - | 61.1 |
//! | decades | 10² | 36.1 | 37.2 | 35.8 | 9.0 | 29.9 | 40.6 | 81.5 |
//! | decades | 10⁴ | 16.0 | 19.0 | 16.5 | 0.11 | 28.5 | 5.2 | 54.3 |
//! | decades | 10⁶ | 3.6 | 6.7 | 6.2 | 0.29 | 22.9 | - | 36.6 |
//!
//! (*decades*: every order of magnitude from nanoseconds to hours is as likely as another.) The
//! calendar queue is the fastest for the increments it was made for and collapses on the others. The
//! sizes of lanes, blocks and digits below were tried at half and twice their values.

use std::collections::VecDeque;
use std::fmt;

use carillon_core::Time;

use entry::Entry;
use far::Far;

mod entry;
mod far;

/// Queue of events in ascending (time, order of insertion).
///
/// Time does not go back: an event earlier than the last popped one is refused. It may be earlier than
/// [`next_time`](Self::next_time).
pub struct EventQueue<T> {
    /// Time of the last pop.
    now: u64,
    /// Events at `now` that were pushed after `now` was reached; they follow those at `now` in `near`.
    instant: VecDeque<T>,
    /// Events of `now <= time <= near_last`, latest first, so that a pop shortens the vector.
    near: Vec<Entry<T>>,
    /// Last time of the near lane, after which the far lane begins; never before `now`.
    near_last: u64,
    /// Events of `time > near_last`.
    far: Far<T>,
}

impl<T> EventQueue<T> {
    /// Empty queue that has popped nothing yet.
    pub fn new() -> Self {
        EventQueue {
            now: 0,
            instant: VecDeque::new(),
            near: Vec::new(),
            near_last: u64::MAX,
            far: Far::new(),
        }
    }

    /// Adds an event behind those of the same time.
    ///
    /// # Panics
    ///
    /// Panics if `time` is before the time of the last pop: no order of events could repair such a mistake of the
    /// caller.
    #[inline]
    pub fn push(&mut self, time: Time, item: T) {
        let nanos = time.as_nanos();
        if nanos > self.near_last {
            self.far.push(Entry { time: nanos, item });
        } else if nanos > self.now {
            // The vector descends, so a new event goes in front of its equals.
            let at = self.near.partition_point(|entry| entry.time > nanos);
            self.near.insert(at, Entry { time: nanos, item });
            if self.near.len() > MAX_NEAR_EVENTS {
                self.spill();
            }
        } else if nanos == self.now {
            self.instant.push_back(item);
        } else {
            refuse(time, Time::from_nanos(self.now));
        }
    }

    /// Takes the earliest event; among those of the same time, the one pushed first.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, T)> {
        if self.instant.is_empty() {
            if self.near.is_empty() {
                self.refill();
            }
        } else if self.near.last().is_none_or(|entry| entry.time > self.now) {
            return self.pop_instant();
        }
        match self.near.pop() {
            Some(entry) => {
                self.now = entry.time;
                Some((Time::from_nanos(entry.time), entry.item))
            }
            // A refill may have moved a single long instant to the instant lane.
            None => self.pop_instant(),
        }
    }

    /// Time of the event that [`pop`](Self::pop) would take. Earlier ones may still be pushed.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        let nanos = if !self.instant.is_empty() {
            Some(self.now)
        } else if let Some(entry) = self.near.last() {
            Some(entry.time)
        } else {
            self.far.first_time()
        };
        nanos.map(Time::from_nanos)
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.instant.len() + self.near.len() + self.far.len()
    }

    /// Returns true if no event is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn pop_instant(&mut self) -> Option<(Time, T)> {
        let item = self.instant.pop_front()?;
        if self.instant.is_empty() && self.instant.capacity() > MAX_KEPT_INSTANT_CAPACITY {
            self.instant = VecDeque::new();
        }
        Some((Time::from_nanos(self.now), item))
    }

    /// Moves the later half of an overfull near lane to the far lane.
    ///
    /// The cut falls between two times, never within one, so that equals stay together. At worst it falls just after
    /// `now`; then the near lane cannot grow further, since events at `now` go to the instant lane.
    #[cold]
    #[inline(never)]
    fn spill(&mut self) {
        let end = self.near[self.near.len() / 2].time.max(self.now + 1);
        let kept = self.near.partition_point(|entry| entry.time >= end);
        for entry in self.near.drain(..kept).rev() {
            self.far.push(entry);
        }
        self.near_last = end - 1;
    }

    /// Fills the empty near lane with the earliest far events. The caller pops one at once.
    #[inline(never)]
    fn refill(&mut self) {
        self.near_last = self.far.take_first(&mut self.near, &mut self.instant);
        if !self.instant.is_empty() {
            self.now = self.near_last;
        }
        // The sort is stable and then reversed: latest first, and among equals the last pushed first.
        self.near.sort_by_key(|entry| entry.time);
        self.near.reverse();
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        EventQueue::new()
    }
}

impl<T> fmt::Debug for EventQueue<T> {
    /// Formats the state in brief, since a queue may hold a million events.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue")
            .field("now", &Time::from_nanos(self.now))
            .field("next_time", &self.next_time())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cold]
#[inline(never)]
fn refuse(time: Time, now: Time) -> ! {
    panic!("an event at {time} cannot be queued: the last event popped was at {now}");
}

/// Maximum number of events in the near lane, beyond which it spills. A sorted insertion moves half of it on average.
const MAX_NEAR_EVENTS: usize = 32;

/// Capacity up to which an empty instant lane keeps its memory, in events.
const MAX_KEPT_INSTANT_CAPACITY: usize = 4096;
