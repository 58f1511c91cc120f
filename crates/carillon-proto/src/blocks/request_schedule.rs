//! Schedule of requests for missing data: back-off, suppression, confirmation, retry and hold-down.
//!
//! Each request is a small state machine with one timer. NAK protocols (RFC 3208, section 6; SRM) and repair
//! schedules of members share it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::time::Duration;

use carillon_core::{Time, Timers};

/// Stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Back-off: another node may request, or the data may arrive.
    BackOff,
    /// The request is to be sent now. It may still be suppressed.
    Due,
    /// This node or another one sent the request, and no confirmation has arrived.
    Asked,
    /// The request was confirmed, and the repair is expected.
    Confirmed,
    /// The data arrived. A node that requests them now has not received them yet.
    HeldDown,
}

/// Outcome of a wait that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expired<T> {
    /// End of the back-off: the request is due.
    Due,
    /// No confirmation or repair came: the request must [back off](RequestSchedule::back_off) again.
    Unanswered,
    /// The request was sent too often or for too long, and was removed.
    Abandoned(T),
    /// End of the hold-down: the request was removed.
    Over(T),
}

/// Limits of the waits that end without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Maximum number of waits for a confirmation without result.
    pub unconfirmed: u32,
    /// Maximum number of waits for a repair without result.
    pub unrepaired: u32,
}

impl Tries {
    /// Limits that are never reached.
    pub const UNLIMITED: Tries = Tries { unconfirmed: u32::MAX, unrepaired: u32::MAX };
}

/// Requests of a node, one per missing item, each with data of the protocol (`T`). A
/// [`FeedbackDelay`](super::FeedbackDelay) determines the waits. Answers to requests can use a schedule too, since
/// they wait and are suppressed in the same way.
///
/// Takes nearly no memory while nothing is missing.
#[derive(Debug)]
pub struct RequestSchedule<K, T = ()> {
    tries: Tries,
    /// Requests and their timers; `None` while nothing is missing.
    open: Option<Box<Open<K, T>>>,
}

/// Requests with their timers. Each request has at most one timer, and is due or not.
#[derive(Debug)]
struct Open<K, T> {
    /// Requests by item.
    requests: BTreeMap<K, Request<T>>,
    /// Requests in the stage `Due` that the caller has not taken.
    due: BTreeSet<K>,
    /// Timer of each request for the end of its wait or its deadline, whichever is earlier.
    timers: Timers<K>,
}

#[derive(Debug)]
struct Request<T> {
    stage: Stage,
    /// End of the wait of this stage.
    ends: Option<Time>,
    /// Number of waits for a confirmation without result.
    unconfirmed: u32,
    /// Number of waits for a repair without result.
    unrepaired: u32,
    /// Time at which the request is abandoned unless it is confirmed before.
    until: Option<Time>,
    /// Data of the protocol.
    about: T,
}

impl<K: Ord + Copy, T> RequestSchedule<K, T> {
    /// Creates an empty schedule.
    pub fn new(tries: Tries) -> Self {
        RequestSchedule { tries, open: None }
    }

    /// Adds a request that is due after `wait`.
    pub fn begin(&mut self, now: Time, key: K, wait: Duration, about: T) {
        let (stage, ends, until) = (Stage::BackOff, None, None);
        let request = Request { stage, ends, unconfirmed: 0, unrepaired: 0, until, about };
        let nothing =
            || Box::new(Open { requests: BTreeMap::new(), due: BTreeSet::new(), timers: Timers::new() });
        // A request that already exists for the item is replaced and begins anew.
        self.open.get_or_insert_with(nothing).requests.insert(key, request);
        self.back_off(now, key, wait);
    }

    /// Makes a request wait again, since no answer came or another node has requested.
    pub fn back_off(&mut self, now: Time, key: K, wait: Duration) {
        // Without a wait no timer is needed: the caller can take the request at once.
        let stage = if wait.is_zero() { Stage::Due } else { Stage::BackOff };
        self.enter(now, key, stage, wait);
    }

    /// Sets the time at which a request is abandoned unless it is confirmed before.
    pub fn give_up_at(&mut self, key: K, at: Time) {
        let Some(open) = self.open.as_deref_mut() else { return };
        if let Some(request) = open.requests.get_mut(&key) {
            request.until = Some(at);
            // The deadline may lie before the end of the present wait, so the timer is armed anew.
            open.arm(key);
        }
    }

    /// Ends the back-off of a request, if it is in one.
    pub fn end_back_off(&mut self, now: Time, key: K) {
        if self.stage(key) == Some(Stage::BackOff) {
            self.back_off(now, key, Duration::ZERO);
        }
    }

    /// Records that this node or another one sent the request; a confirmation is expected within `wait`. Returns true
    /// if this node was about to send it and need not; `None` if there is no such request.
    pub fn asked(&mut self, now: Time, key: K, wait: Duration) -> Option<bool> {
        Some(is_waiting(self.enter(now, key, Stage::Asked, wait)?))
    }

    /// Records a confirmation; a repair is expected within `wait`. Returns the same as [`RequestSchedule::asked`].
    pub fn confirm(&mut self, now: Time, key: K, wait: Duration) -> Option<bool> {
        // A confirmed request is no longer bounded by its deadline, but by the number of waits for the repair.
        self.open.as_deref_mut()?.requests.get_mut(&key)?.until = None;
        Some(is_waiting(self.enter(now, key, Stage::Confirmed, wait)?))
    }

    /// Records that the data arrived or were sent. Requests for them are ignored for `wait`.
    pub fn hold_down(&mut self, now: Time, key: K, wait: Duration) {
        self.enter(now, key, Stage::HeldDown, wait);
    }

    /// Removes a request.
    pub fn remove(&mut self, key: K) -> Option<T> {
        let open = self.open.as_deref_mut()?;
        let request = open.requests.remove(&key)?;
        open.due.remove(&key);
        open.timers.cancel(key);
        // Free the maps and timers with the last request, as most nodes miss nothing most of the time.
        if open.requests.is_empty() {
            self.open = None;
        }
        Some(request.about)
    }

    /// Removes all requests in this range.
    pub fn remove_all(&mut self, keys: impl RangeBounds<K>) {
        let Some(open) = self.open.as_deref() else { return };
        // Collect the keys first: the removal of the last request frees the map.
        for key in open.requests.range(keys).map(|(&key, _)| key).collect::<Vec<_>>() {
            self.remove(key);
        }
    }

    /// Takes the first request that is due. The caller says next what it waits for.
    pub fn take_due(&mut self) -> Option<K> {
        // The request stays in the stage `Due` without an end of its wait. If the caller records no next wait, the
        // request is not reported again before its deadline.
        self.open.as_deref_mut()?.due.pop_first()
    }

    /// Next wait that has ended, with its outcome. Call this until it returns `None`.
    pub fn expire(&mut self, now: Time) -> Option<(K, Expired<T>)> {
        let open = self.open.as_deref_mut()?;
        let key = open.timers.expire(now)?;
        let request = open.requests.get_mut(&key)?;
        // A request may end by its deadline, by the number of its waits, or enter its next stage.
        let is_late = request.until.is_some_and(|until| until <= now);
        let (count, most) = match request.stage {
            // The hold-down is over: a later request for the item is answered again.
            Stage::HeldDown => return self.remove(key).map(|about| (key, Expired::Over(about))),
            // Neither another request nor the data suppressed this one. It was not sent yet, so no try is counted.
            Stage::BackOff if !is_late => {
                self.back_off(now, key, Duration::ZERO);
                return Some((key, Expired::Due));
            }
            // The request was confirmed, but the repair did not arrive.
            Stage::Confirmed => (&mut request.unrepaired, self.tries.unrepaired),
            // No confirmation arrived, or the deadline passed before the request was sent.
            _ => (&mut request.unconfirmed, self.tries.unconfirmed),
        };
        *count = count.saturating_add(1);
        if is_late || *count > most {
            return self.remove(key).map(|about| (key, Expired::Abandoned(about)));
        }
        // Only the deadline stays armed. The caller chooses the next back-off.
        request.ends = None;
        open.arm(key);
        Some((key, Expired::Unanswered))
    }

    /// End of the next wait.
    pub fn next_timeout(&self) -> Option<Time> {
        self.open.as_deref()?.timers.next()
    }

    /// First request that is due, with its data.
    pub fn first_due(&self) -> Option<(K, &T)> {
        let &key = self.open.as_deref()?.due.first()?;
        Some((key, self.get(key)?))
    }

    /// Returns true if a request is due.
    pub fn is_due(&self) -> bool {
        self.open.as_deref().is_some_and(|open| !open.due.is_empty())
    }

    /// Stage of a request.
    pub fn stage(&self, key: K) -> Option<Stage> {
        Some(self.open.as_deref()?.requests.get(&key)?.stage)
    }

    /// Data of a request.
    pub fn get(&self, key: K) -> Option<&T> {
        Some(&self.open.as_deref()?.requests.get(&key)?.about)
    }

    /// Mutable data of a request.
    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        Some(&mut self.open.as_deref_mut()?.requests.get_mut(&key)?.about)
    }

    /// Requests with stage, end of the wait, and data.
    pub fn iter(&self) -> impl Iterator<Item = (K, Stage, Option<Time>, &T)> {
        let open = self.open.as_deref().into_iter().flat_map(|open| &open.requests);
        open.map(|(&key, request)| (key, request.stage, request.ends, &request.about))
    }

    /// Number of requests.
    pub fn count(&self) -> usize {
        self.open.as_deref().map_or(0, |open| open.requests.len())
    }

    /// First item that is missing.
    pub fn first(&self) -> Option<K> {
        self.open.as_deref()?.requests.first_key_value().map(|(&key, _)| key)
    }

    /// Last missing item up to this one.
    pub fn last_up_to(&self, key: K) -> Option<(K, &T)> {
        let (&key, request) = self.open.as_deref()?.requests.range(..=key).next_back()?;
        Some((key, &request.about))
    }

    /// Moves a request to a stage. Returns the previous stage.
    fn enter(&mut self, now: Time, key: K, stage: Stage, wait: Duration) -> Option<Stage> {
        let open = self.open.as_deref_mut()?;
        let request = open.requests.get_mut(&key)?;
        let before = std::mem::replace(&mut request.stage, stage);
        // The stage `Due` ends when the caller takes the request, and not at a time.
        request.ends = (stage != Stage::Due).then(|| now + wait);
        match stage {
            Stage::Due => open.due.insert(key),
            _ => open.due.remove(&key),
        };
        open.arm(key);
        Some(before)
    }
}

impl<K: Ord + Copy, T> Open<K, T> {
    /// Arms the timer for the end of the wait or the time of giving up, whichever is earlier.
    fn arm(&mut self, key: K) {
        let Some(request) = self.requests.get(&key) else { return };
        // The deadline applies until the confirmation. The later stages have waits of their own.
        let until = request.until.filter(|_| is_waiting(request.stage) || request.stage == Stage::Asked);
        match request.ends.into_iter().chain(until).min() {
            Some(at) => self.timers.arm(key, at),
            None => drop(self.timers.cancel(key)),
        }
    }
}

/// Returns true if this node was still to send the request.
fn is_waiting(stage: Stage) -> bool {
    matches!(stage, Stage::BackOff | Stage::Due)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Schedule = RequestSchedule<u64, &'static str>;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + ms(millis)
    }

    fn schedule(unconfirmed: u32, unrepaired: u32) -> Schedule {
        RequestSchedule::new(Tries { unconfirmed, unrepaired })
    }

    fn all(schedule: &mut Schedule, now: u64) -> Vec<(u64, Expired<&'static str>)> {
        std::iter::from_fn(|| schedule.expire(at(now))).collect()
    }

    #[test]
    fn request_is_due_after_back_off_unless_suppressed() {
        let mut requests = schedule(9, 9);
        requests.begin(at(0), 1, ms(10), "one");
        requests.begin(at(0), 2, ms(10), "two");
        assert_eq!(requests.asked(at(5), 2, ms(50)), Some(true), "suppressed");
        assert_eq!(requests.asked(at(6), 2, ms(50)), Some(false));
        assert_eq!(requests.asked(at(6), 3, ms(50)), None, "it is not missing");
        assert_eq!(all(&mut requests, 10), [(1, Expired::Due)]);
        assert_eq!((requests.take_due(), requests.take_due()), (Some(1), None));
        requests.asked(at(10), 1, ms(20));
        assert_eq!(requests.next_timeout(), Some(at(30)));
        assert_eq!(all(&mut requests, 30), [(1, Expired::Unanswered)]);
    }

    #[test]
    fn suppressed_or_removed_request_is_not_sent() {
        let mut requests = schedule(9, 9);
        for key in 1..=3 {
            requests.begin(at(0), key, Duration::ZERO, "");
        }
        assert_eq!(requests.confirm(at(0), 1, ms(5)), Some(true));
        assert_eq!(requests.remove(2), Some(""));
        assert_eq!((requests.take_due(), requests.take_due()), (Some(3), None));
    }

    #[test]
    fn request_is_abandoned_by_count_and_by_deadline() {
        let mut requests = schedule(1, 0);
        requests.begin(at(0), 1, Duration::ZERO, "often");
        requests.asked(at(0), 1, ms(10));
        assert_eq!(all(&mut requests, 10), [(1, Expired::Unanswered)]);
        requests.asked(at(10), 1, ms(10));
        assert_eq!(all(&mut requests, 20), [(1, Expired::Abandoned("often"))]);
        requests.begin(at(20), 2, Duration::ZERO, "unrepaired");
        requests.confirm(at(20), 2, ms(10));
        assert_eq!(all(&mut requests, 30), [(2, Expired::Abandoned("unrepaired"))]);
        let mut requests = RequestSchedule::new(Tries::UNLIMITED);
        requests.begin(at(0), 3, Duration::ZERO, "long");
        requests.give_up_at(3, at(25));
        for now in [0, 10, 20] {
            requests.back_off(at(now), 3, Duration::ZERO);
            assert_eq!(requests.take_due(), Some(3));
            requests.asked(at(now), 3, ms(10));
            let expired = all(&mut requests, (now + 10).min(25));
            assert_eq!(
                expired,
                [(3, if now < 20 { Expired::Unanswered } else { Expired::Abandoned("long") })]
            );
        }
        // A confirmation in time ends the deadline.
        requests.begin(at(0), 4, Duration::ZERO, "confirmed");
        requests.give_up_at(4, at(5));
        requests.confirm(at(1), 4, ms(100));
        assert_eq!((all(&mut requests, 99), requests.next_timeout()), (vec![], Some(at(101))));
    }

    #[test]
    fn arrived_item_is_held_down() {
        let mut requests = schedule(9, 9);
        requests.begin(at(0), 1, ms(10), "one");
        requests.hold_down(at(5), 1, ms(30));
        requests.end_back_off(at(6), 1);
        assert_eq!((requests.stage(1), requests.is_due()), (Some(Stage::HeldDown), false));
        assert_eq!(all(&mut requests, 35), [(1, Expired::Over("one"))]);
        assert_eq!(requests.first(), None);
    }

    /// Model: a list of requests with all their state, searched each time.
    #[derive(Clone, Copy, Debug)]
    struct Entry {
        key: u64,
        stage: Stage,
        ends: Option<u64>,
        until: Option<u64>,
        vain: [u32; 2],
    }

    #[test]
    fn schedule_agrees_with_model_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("requests");
        let mut requests: RequestSchedule<u64> =
            RequestSchedule::new(Tries { unconfirmed: 2, unrepaired: 1 });
        let mut list: Vec<Entry> = Vec::new();
        let mut now = 0;
        let mut seen = [0; 4];
        for _ in 0..50_000 {
            let (key, wait) = (rng.below(12), rng.below(20));
            let place = list.iter().position(|entry| entry.key == key);
            let waits = |stage| matches!(stage, Stage::BackOff | Stage::Due);
            let before = place.map(|place| list[place].stage);
            let mut enter = |stage: Stage, wait: u64| {
                if let Some(place) = place {
                    let entry = &mut list[place];
                    entry.stage = stage;
                    entry.ends = (stage != Stage::Due).then_some(now + wait);
                    if stage == Stage::Confirmed {
                        entry.until = None;
                    }
                }
            };
            let backing = if wait == 0 { Stage::Due } else { Stage::BackOff };
            match rng.below(9) {
                0 | 1 => {
                    requests.begin(at(now), key, ms(wait), ());
                    list.retain(|entry| entry.key != key);
                    let ends = (wait > 0).then_some(now + wait);
                    list.push(Entry { key, stage: backing, ends, until: None, vain: [0; 2] });
                }
                2 => {
                    requests.back_off(at(now), key, ms(wait));
                    enter(backing, wait);
                }
                3 => {
                    assert_eq!(requests.asked(at(now), key, ms(wait)), before.map(waits));
                    enter(Stage::Asked, wait);
                }
                4 => {
                    assert_eq!(requests.confirm(at(now), key, ms(wait)), before.map(waits));
                    enter(Stage::Confirmed, wait);
                }
                5 => {
                    requests.hold_down(at(now), key, ms(wait));
                    enter(Stage::HeldDown, wait);
                }
                6 if before.is_some_and(|stage| waits(stage) || stage == Stage::Asked) => {
                    requests.give_up_at(key, at(now + wait));
                    place.into_iter().for_each(|place| list[place].until = Some(now + wait));
                }
                7 if rng.below(4) == 0 => {
                    assert_eq!(requests.remove(key).is_some(), place.is_some());
                    list.retain(|entry| entry.key != key);
                }
                _ => now += rng.below(6),
            }
            let counts = |entry: &Entry| waits(entry.stage) || entry.stage == Stage::Asked;
            let until = |entry: &Entry| entry.until.filter(|_| counts(entry));
            let end = |entry: &Entry| entry.ends.into_iter().chain(until(entry)).min();
            while let Some((key, expired)) = requests.expire(at(now)) {
                let first = list.iter().filter_map(|entry| Some((end(entry)?, entry.key))).min();
                assert_eq!(first.filter(|&(end, _)| end <= now).map(|(_, key)| key), Some(key));
                let place = list.iter().position(|entry| entry.key == key).expect("it is there");
                let entry = &mut list[place];
                let is_late = until(entry).is_some_and(|until| until <= now);
                let (what, wanted) = match entry.stage {
                    Stage::HeldDown => (0, Expired::Over(())),
                    Stage::BackOff if !is_late => (1, Expired::Due),
                    stage => {
                        let vain = &mut entry.vain[usize::from(stage == Stage::Confirmed)];
                        *vain += 1;
                        let most = if stage == Stage::Confirmed { 1 } else { 2 };
                        match is_late || *vain > most {
                            true => (2, Expired::Abandoned(())),
                            false => (3, Expired::Unanswered),
                        }
                    }
                };
                assert_eq!(expired, wanted);
                seen[what] += 1;
                match what {
                    1 => (entry.stage, entry.ends) = (Stage::Due, None),
                    3 => entry.ends = None,
                    _ => drop(list.remove(place)),
                }
            }
            let next = list.iter().filter_map(end).min();
            assert_eq!(requests.next_timeout(), next.map(at));
            let due = list.iter().filter(|entry| entry.stage == Stage::Due).map(|entry| entry.key).min();
            assert_eq!(requests.first_due().map(|(key, ())| key), due);
            assert_eq!(requests.first(), list.iter().map(|entry| entry.key).min());
            for entry in &list {
                assert_eq!(requests.stage(entry.key), Some(entry.stage));
            }
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }
}
