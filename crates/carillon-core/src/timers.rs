//! Timers of a machine: a set of keys, each armed for a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::Time;

/// Armed timers of one machine.
///
/// A machine names its timers in one enum `K`, with data in its variants if needed (`Timer::NakBackoff(sequence)`).
/// Arming an armed key moves it. Timers expire in (deadline, key) order, which does not depend on the order of
/// arming.
#[derive(Clone, Debug)]
pub struct Timers<K>(Repr<K>);

/// Representation: a short list is searched, a long one is indexed. Most machines have one or two timers, some have
/// thousands.
#[derive(Clone, Debug)]
enum Repr<K> {
    List(Vec<(Time, K)>),
    Index(Box<Index<K>>),
}

/// Index by key and by deadline. It is instantiated for the key of every protocol, so it uses collections with little
/// generated code.
#[derive(Clone, Debug)]
struct Index<K> {
    by_key: BTreeMap<K, Time>,
    /// Deadlines, including stale ones of keys that were moved or cancelled. The first entry is never stale.
    by_time: BinaryHeap<Reverse<(Time, K)>>,
}

impl<K: Ord + Copy> Index<K> {
    fn new() -> Self {
        Index { by_key: BTreeMap::new(), by_time: BinaryHeap::new() }
    }

    fn arm(&mut self, key: K, at: Time) {
        if self.by_key.insert(key, at) != Some(at) {
            self.by_time.push(Reverse((at, key)));
            self.remove_stale();
        }
    }

    fn cancel(&mut self, key: K) -> bool {
        let armed = self.by_key.remove(&key).is_some();
        self.remove_stale();
        armed
    }

    fn expire(&mut self, now: Time) -> Option<K> {
        let &Reverse((time, key)) = self.by_time.peek()?;
        if time > now {
            return None;
        }
        self.by_key.remove(&key);
        self.remove_stale();
        Some(key)
    }

    fn next(&self) -> Option<Time> {
        self.by_time.peek().map(|first| first.0.0)
    }

    /// Removes stale deadlines: always at the front, and everywhere once they outnumber the armed ones.
    fn remove_stale(&mut self) {
        let Index { by_key, by_time } = self;
        let is_armed = |&Reverse((time, key)): &Reverse<(Time, K)>| by_key.get(&key) == Some(&time);
        while by_time.peek().is_some_and(|first| !is_armed(first)) {
            by_time.pop();
        }
        // A binary heap cannot remove an inner entry. This bound keeps its memory and the cost of the sweep
        // proportional to the armed timers.
        if by_time.len() > 2 * by_key.len() + MAX_LISTED_TIMERS {
            by_time.retain(is_armed);
        }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// True if the timers may need an index. A key of one byte, such as an enum without data, has few values, so that
    /// a list holds them all and no index is compiled for the machine.
    const INDEXED: bool = size_of::<K>() > 1;

    /// No timer armed.
    pub const fn new() -> Self {
        Timers(Repr::List(Vec::new()))
    }

    /// Arms `key` for `at`; an armed key is moved.
    pub fn arm(&mut self, key: K, at: Time) {
        match &mut self.0 {
            Repr::List(list) => {
                if let Some(entry) = list.iter_mut().find(|entry| entry.1 == key) {
                    entry.0 = at;
                } else if !Self::INDEXED || list.len() < MAX_LISTED_TIMERS {
                    list.push((at, key));
                } else {
                    // The list is full: switch to the index for good.
                    let mut index = Box::new(Index::new());
                    list.drain(..).chain([(at, key)]).for_each(|(at, key)| index.arm(key, at));
                    self.0 = Repr::Index(index);
                }
            }
            Repr::Index(index) if Self::INDEXED => index.arm(key, at),
            // Unreachable: a key of one byte never gets an index, and the compiler removes the arm.
            Repr::Index(_) => {}
        }
    }

    /// Disarms `key`; returns true if it was armed.
    pub fn cancel(&mut self, key: K) -> bool {
        match &mut self.0 {
            Repr::List(list) => match list.iter().position(|entry| entry.1 == key) {
                Some(at) => {
                    list.swap_remove(at);
                    true
                }
                None => false,
            },
            Repr::Index(index) if Self::INDEXED => index.cancel(key),
            Repr::Index(_) => false,
        }
    }

    /// Disarms all timers.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Repr::List(list) => list.clear(),
            Repr::Index(index) if Self::INDEXED => {
                index.by_key.clear();
                index.by_time.clear();
            }
            Repr::Index(_) => {}
        }
    }

    /// Disarms and returns the first timer due at or before `now`. Call until `None`.
    pub fn expire(&mut self, now: Time) -> Option<K> {
        match &mut self.0 {
            Repr::List(list) => {
                let (at, &(time, key)) = list.iter().enumerate().min_by_key(|(_, entry)| **entry)?;
                if time > now {
                    return None;
                }
                list.swap_remove(at);
                Some(key)
            }
            Repr::Index(index) if Self::INDEXED => index.expire(now),
            Repr::Index(_) => None,
        }
    }

    /// Deadline of `key`, if it is armed.
    pub fn armed(&self, key: K) -> Option<Time> {
        match &self.0 {
            Repr::List(list) => list.iter().find(|entry| entry.1 == key).map(|entry| entry.0),
            Repr::Index(index) if Self::INDEXED => index.by_key.get(&key).copied(),
            Repr::Index(_) => None,
        }
    }

    /// First timer in (deadline, key) order, by which a machine of several parts finds the part to fire next.
    pub fn first(&self) -> Option<(Time, K)> {
        match &self.0 {
            Repr::List(list) => list.iter().copied().min(),
            Repr::Index(index) if Self::INDEXED => index.by_time.peek().map(|first| first.0),
            Repr::Index(_) => None,
        }
    }

    /// Earliest deadline, for `poll_timeout`.
    pub fn next(&self) -> Option<Time> {
        match &self.0 {
            Repr::List(list) => list.iter().map(|entry| entry.0).min(),
            Repr::Index(index) if Self::INDEXED => index.next(),
            Repr::Index(_) => None,
        }
    }
}

impl<K: Ord + Copy> Default for Timers<K> {
    fn default() -> Self {
        Timers::new()
    }
}

/// Maximum number of timers in a list; up to this number a linear search is faster than an index.
const MAX_LISTED_TIMERS: usize = 16;
