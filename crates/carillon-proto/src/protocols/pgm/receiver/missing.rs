//! The packets a receiver misses, and how far it is with asking for each: RFC 3208, section 6.4.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::{Rng, Seeds, Time, Timers};

/// How a missing packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is not asked for yet: somebody else may, or it may come.
    BackOff,
    /// It was asked for; nobody has confirmed that.
    WaitNcf,
    /// That was confirmed; the repair is to come.
    WaitData,
}

/// Waits and limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) back_off: Duration,
    pub(super) ncf: Duration,
    pub(super) data: Duration,
    pub(super) ncf_retries: u32,
    pub(super) data_retries: u32,
}

#[derive(Clone, Copy, Debug)]
struct Nak {
    state: State,
    ncf_retries: u32,
    data_retries: u32,
}

/// What came of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    /// The packet is asked for, now or later.
    Again,
    /// It was asked for too often.
    GivenUp(u64),
}

/// The packets missed. Takes next to no memory while there are none.
#[derive(Debug)]
pub(super) struct Missing {
    waits: Waits,
    naks: BTreeMap<u64, Nak>,
    /// Those that are to be asked for now.
    due: BTreeSet<u64>,
    timers: Timers<u64>,
    seeds: Seeds,
    /// Made when the first packet is missed.
    delays: Option<Box<Rng>>,
}

impl Missing {
    pub(super) fn new(waits: Waits, seeds: Seeds) -> Self {
        Missing {
            waits,
            naks: BTreeMap::new(),
            due: BTreeSet::new(),
            timers: Timers::new(),
            seeds,
            delays: None,
        }
    }

    /// Packets found missing at once back off together, so that one request can name them all.
    pub(super) fn add(&mut self, now: Time, numbers: impl IntoIterator<Item = u64>) {
        let mut wait = None;
        for number in numbers {
            self.naks.insert(number, Nak { state: State::BackOff, ncf_retries: 0, data_retries: 0 });
            let wait = *wait.get_or_insert_with(|| self.draw());
            self.back_off(now, number, wait);
        }
    }

    /// A packet is missed no more; whether it was.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let missed = self.naks.remove(&number).is_some();
        if missed {
            self.due.remove(&number);
            self.timers.cancel(number);
        }
        if missed && self.naks.is_empty() {
            // Empty maps keep memory.
            self.naks = BTreeMap::new();
            self.due = BTreeSet::new();
        }
        missed
    }

    /// The first packet missed before `limit`.
    pub(super) fn first_before(&self, limit: u64) -> Option<u64> {
        self.naks.first_key_value().map(|(&number, _)| number).filter(|&number| number < limit)
    }

    /// Somebody confirmed that this packet was asked for: whether that was before this receiver did.
    /// `None` if it is not missed.
    pub(super) fn on_confirmed(&mut self, now: Time, number: u64) -> Option<bool> {
        let nak = self.naks.get_mut(&number)?;
        let suppressed = std::mem::replace(&mut nak.state, State::WaitData) == State::BackOff;
        self.due.remove(&number);
        self.timers.arm(number, now + self.waits.data);
        Some(suppressed)
    }

    /// Somebody else asks for this packet: whether this receiver need not. `None` if it is not missed.
    ///
    /// As in the RFC's diagram, which waits for the NCF as if the request were one's own; its text
    /// waits as if it were confirmed.
    pub(super) fn on_overheard(&mut self, now: Time, number: u64) -> Option<bool> {
        let nak = self.naks.get_mut(&number)?;
        let suppressed = nak.state == State::BackOff;
        let wait = match nak.state {
            State::BackOff | State::WaitNcf => {
                nak.state = State::WaitNcf;
                self.waits.ncf
            }
            State::WaitData => self.waits.data,
        };
        self.due.remove(&number);
        self.timers.arm(number, now + wait);
        Some(suppressed)
    }

    /// This packet is to be asked for now if it is to be asked for at all.
    pub(super) fn hurry(&mut self, number: u64) {
        if self.naks.get(&number).is_some_and(|nak| nak.state == State::BackOff) {
            self.timers.cancel(number);
            self.due.insert(number);
        }
    }

    /// The next wait that is over, and what comes of it. Call until `None`.
    pub(super) fn expire(&mut self, now: Time) -> Option<Expired> {
        let number = self.timers.expire(now)?;
        let (ncf_limit, data_limit) = (self.waits.ncf_retries, self.waits.data_retries);
        let Some(nak) = self.naks.get_mut(&number) else { return Some(Expired::Again) };
        let exhausted = match nak.state {
            State::BackOff => {
                self.due.insert(number);
                return Some(Expired::Again);
            }
            State::WaitNcf => {
                nak.ncf_retries += 1;
                nak.ncf_retries > ncf_limit
            }
            State::WaitData => {
                nak.data_retries += 1;
                nak.data_retries > data_limit
            }
        };
        if exhausted {
            self.naks.remove(&number);
            return Some(Expired::GivenUp(number));
        }
        nak.state = State::BackOff;
        let wait = self.draw();
        self.back_off(now, number, wait);
        Some(Expired::Again)
    }

    /// The random streams of this node.
    pub(super) fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    /// When the next wait is over.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Whether something is to be asked for now.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The oldest packet to be asked for now: it is asked for.
    pub(super) fn ask_next(&mut self, now: Time) -> Option<u64> {
        let number = self.due.pop_first()?;
        if let Some(nak) = self.naks.get_mut(&number) {
            nak.state = State::WaitNcf;
        }
        self.timers.arm(number, now + self.waits.ncf);
        Some(number)
    }

    /// A random back-off.
    fn draw(&mut self) -> Duration {
        let bound = u64::try_from(self.waits.back_off.as_nanos()).unwrap_or(u64::MAX);
        if bound == 0 {
            return Duration::ZERO;
        }
        let delays = self.delays.get_or_insert_with(|| Box::new(self.seeds.stream("pgm.nak_back_off")));
        Duration::from_nanos(delays.below(bound))
    }

    fn back_off(&mut self, now: Time, number: u64, wait: Duration) {
        match wait.is_zero() {
            true => drop(self.due.insert(number)),
            false => self.timers.arm(number, now + wait),
        }
    }
}
