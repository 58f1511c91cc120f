//! A machine's timers: a set of keys, each armed for a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// The armed timers of one machine.
///
/// A machine names its timers in one enum `K`, whose variants may carry data
/// (`Timer::NakBackoff(sequence)`). Arming an armed key moves it. Expiry is in (deadline, key)
/// order, so it does not depend on the order of arming.
#[derive(Clone, Debug)]
pub struct Timers<K>(Repr<K>);

/// Most machines have one or two timers, some have thousands: a short list is searched, a long
/// one is indexed both ways.
#[derive(Clone, Debug)]
enum Repr<K> {
    Few(Vec<(Time, K)>),
    Many(Box<Index<K>>),
}

#[derive(Clone, Debug)]
struct Index<K> {
    by_key: BTreeMap<K, Time>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K: Ord + Copy> Timers<K> {
    /// No timer armed.
    pub const fn new() -> Self {
        Timers(Repr::Few(Vec::new()))
    }

    /// Arms `key` for `at`, wherever it stood before.
    pub fn arm(&mut self, key: K, at: Time) {
        match &mut self.0 {
            Repr::Few(list) => {
                if let Some(entry) = list.iter_mut().find(|entry| entry.1 == key) {
                    entry.0 = at;
                } else if list.len() < FEW {
                    list.push((at, key));
                } else {
                    let by_time: BTreeSet<_> = list.drain(..).chain([(at, key)]).collect();
                    let by_key = by_time.iter().map(|&(at, key)| (key, at)).collect();
                    self.0 = Repr::Many(Box::new(Index { by_key, by_time }));
                }
            }
            Repr::Many(index) => {
                let Index { by_key, by_time } = &mut **index;
                if let Some(old) = by_key.insert(key, at) {
                    by_time.remove(&(old, key));
                }
                by_time.insert((at, key));
            }
        }
    }

    /// Disarms `key`; returns whether it was armed.
    pub fn cancel(&mut self, key: K) -> bool {
        match &mut self.0 {
            Repr::Few(list) => match list.iter().position(|entry| entry.1 == key) {
                Some(at) => {
                    list.swap_remove(at);
                    true
                }
                None => false,
            },
            Repr::Many(index) => match index.by_key.remove(&key) {
                Some(at) => index.by_time.remove(&(at, key)),
                None => false,
            },
        }
    }

    /// Disarms all.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Repr::Few(list) => list.clear(),
            Repr::Many(index) => {
                let Index { by_key, by_time } = &mut **index;
                by_key.clear();
                by_time.clear();
            }
        }
    }

    /// Disarms and returns the first timer due at or before `now`. Call until `None`.
    pub fn expire(&mut self, now: Time) -> Option<K> {
        match &mut self.0 {
            Repr::Few(list) => {
                let (at, &(time, key)) = list.iter().enumerate().min_by_key(|(_, entry)| **entry)?;
                if time > now {
                    return None;
                }
                list.swap_remove(at);
                Some(key)
            }
            Repr::Many(index) => {
                let Index { by_key, by_time } = &mut **index;
                let &(time, key) = by_time.first()?;
                if time > now {
                    return None;
                }
                by_time.pop_first();
                by_key.remove(&key);
                Some(key)
            }
        }
    }

    /// When `key` is armed for, if it is.
    pub fn armed(&self, key: K) -> Option<Time> {
        match &self.0 {
            Repr::Few(list) => list.iter().find(|entry| entry.1 == key).map(|entry| entry.0),
            Repr::Many(index) => index.by_key.get(&key).copied(),
        }
    }

    /// The earliest deadline: what `poll_timeout` returns.
    pub fn next(&self) -> Option<Time> {
        match &self.0 {
            Repr::Few(list) => list.iter().map(|entry| entry.0).min(),
            Repr::Many(index) => index.by_time.first().map(|entry| entry.0),
        }
    }
}

impl<K: Ord + Copy> Default for Timers<K> {
    fn default() -> Self {
        Timers::new()
    }
}

/// Up to this many timers a linear search beats two trees.
const FEW: usize = 16;
