//! Requests and repairs: when they are sent, and when they are not.
//!
//! The rules are those of the request and repair objects of ns-2.35, one object for a message that is
//! missing or asked for. A member hears its own requests and repairs, as there; here that happens at the
//! moment of sending.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{DropReason, Event, MessageId, Rng, Seeds, Time, Timers};

use super::adaptive::{MOST_C1, Pair};
use super::config::{Mode, Settings};
use super::known::Known;
use super::peer::{Scene, Timer};
use super::pending::{Distance, Pending, Repair, Request, wait};

/// A message: rank of its source, and its number.
pub(super) type Key = (u32, u64);

/// Everything that a member does about missing messages, its own and others'.
#[derive(Debug)]
pub(super) struct Recovery {
    settings: Arc<Settings>,
    pending: BTreeMap<Key, Pending>,
    requests_due: BTreeSet<Key>,
    repairs_due: BTreeSet<Key>,
    /// Of the requests and of the repairs, if they adapt.
    adaptive: Option<Box<[Pair; 2]>>,
    seeds: Seeds,
    /// Made when first needed: most members of a large group never draw.
    rng: Option<Box<Rng>>,
}

/// What the coming of a message means to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It was missing.
    Awaited,
    /// It was here already.
    Duplicate,
}

impl Recovery {
    /// Nothing is missing.
    pub fn new(settings: Arc<Settings>, seeds: Seeds) -> Self {
        let adaptive = (settings.mode == Mode::Adaptive).then(|| {
            let requests = Pair::new(settings.c1, settings.c2, &settings);
            let repairs = Pair::new(settings.d1, settings.d2, &settings);
            Box::new([requests, repairs])
        });
        Recovery {
            settings,
            pending: BTreeMap::new(),
            requests_due: BTreeSet::new(),
            repairs_due: BTreeSet::new(),
            adaptive,
            seeds,
            rng: None,
        }
    }

    /// These messages of a source are found missing: a request timer for each.
    pub fn on_missing(&mut self, scene: &mut Scene<'_>, source: u32, numbers: impl Iterator<Item = u64>) {
        let mut found = false;
        for number in numbers {
            found = true;
            scene
                .events
                .push(Event::LossFound { source: Some(scene.node(source)), message: MessageId(number) });
            let (mut c1, mut c2) = (self.settings.c1, self.settings.c2);
            if let Some([pair, _]) = self.adaptive.as_deref_mut() {
                pair.adapt(MOST_C1, scene.known.group() as f64);
                (c1, c2) = (pair.first, pair.second);
            }
            let mut distance = Distance::new(self.settings.distance_gain);
            distance.sample(scene.known.distance(source));
            let mut request = Request {
                since: scene.now,
                distance,
                c1,
                c2,
                round: 0,
                backoff: 1.0,
                backoffs: 0,
                ignore_until: None,
                is_held_down: false,
            };
            let key = (source, number);
            let wait = self.schedule(scene.known, source, &mut request);
            scene.timers.arm(Timer::Message(key), scene.now + wait);
            self.pending.insert(key, Pending::Request(request));
        }
        if let Some([pair, _]) = self.adaptive.as_deref_mut().filter(|_| found) {
            pair.mark_period();
        }
    }

    /// A request for a message that was known came, this member's own too. False if nothing is pending
    /// for the message: then it is here, and to be repaired.
    pub fn on_request(&mut self, scene: &mut Scene<'_>, key: Key, round: u32, is_own: bool) -> bool {
        let Some(mut pending) = self.pending.remove(&key) else { return false };
        match &mut pending {
            Pending::Request(request) if !request.is_held_down => {
                let ignore = request.ignore_until;
                if round == 1
                    && request.round == 2
                    && ignore.is_some_and(|until| scene.now <= until)
                    && let Some([pair, _]) = self.adaptive.as_deref_mut()
                {
                    pair.count_duplicate();
                }
                if ignore.is_some_and(|until| scene.now < until) {
                    scene.events.dropped(DropReason::Redundant);
                } else {
                    self.end_first_round(scene.now, request);
                    let wait = self.schedule(scene.known, key.0, request);
                    request.ignore_until = Some(scene.now + wait / 2);
                    scene.timers.arm(Timer::Message(key), scene.now + wait);
                    self.requests_due.remove(&key);
                    if !is_own {
                        scene.events.push(Event::RequestSuppressed { message: MessageId(key.1) });
                    }
                }
            }
            Pending::Request(_) | Pending::Repair(_) => scene.events.dropped(DropReason::Redundant),
        }
        self.pending.insert(key, pending);
        true
    }

    /// A member asks for a message that is here: a repair timer. `rounds` is how many were over before.
    pub fn begin_repair(
        &mut self,
        scene: &mut Scene<'_>,
        key: Key,
        requester: u32,
        rounds: u8,
        scope: u8,
        again: u8,
    ) {
        let (mut d1, mut d2) = (self.settings.d1, self.settings.d2);
        let group = scene.known.group() as f64;
        let log_group = libm::log10(group);
        if self.settings.mode == Mode::Log {
            (d1, d2) = (log_group, log_group);
        }
        if let Some([_, pair]) = self.adaptive.as_deref_mut() {
            if pair.is_new() {
                (pair.first, pair.second) = (log_group, log_group);
            }
            pair.adapt(log_group, group);
            (d1, d2) = (pair.first, pair.second);
            pair.mark_period();
        }
        let mut distance = Distance::new(self.settings.distance_gain);
        distance.sample(scene.known.distance(requester));
        let away = distance.sample(scene.known.distance(requester));
        let wait = wait((d1 + d2 * self.rng().unit()) * away, 1.0);
        let round = u32::from(rounds) + 1;
        let (since, is_sent, is_held_down) = (scene.now, false, false);
        let repair = Repair { since, requester, distance, round, is_sent, is_held_down, scope, again };
        scene.timers.arm(Timer::Message(key), scene.now + wait);
        self.pending.insert(key, Pending::Repair(repair));
    }

    /// Somebody far away asks too: the repair that waits goes to all.
    pub fn widen(&mut self, key: Key) {
        if let Some(Pending::Repair(repair)) = self.pending.get_mut(&key) {
            (repair.scope, repair.again) = (u8::MAX, 0);
        }
    }

    /// The round of the request for a message that is missing.
    pub fn request_round(&self, key: Key) -> Option<u32> {
        match self.pending.get(&key) {
            Some(Pending::Request(request)) if !request.is_held_down => Some(request.round),
            _ => None,
        }
    }

    /// A message came that is not new: the original, late, or a repair.
    pub fn on_arrival(&mut self, scene: &mut Scene<'_>, key: Key, is_original: bool) -> Arrival {
        let Some(mut pending) = self.pending.remove(&key) else { return Arrival::Duplicate };
        let Pending::Request(request) = &mut pending else {
            self.pending.insert(key, pending);
            return Arrival::Duplicate;
        };
        if request.is_held_down {
            self.pending.insert(key, pending);
            return Arrival::Duplicate;
        }
        self.requests_due.remove(&key);
        if is_original && request.round == 1 {
            // It was not lost.
            scene.timers.cancel(Timer::Message(key));
            return Arrival::Awaited;
        }
        let away = request.distance.sample(scene.known.distance(key.0));
        self.end_first_round(scene.now, request);
        request.is_held_down = true;
        let hold_down = scene.now + wait(HOLD_DOWN * away, 1.0);
        scene.timers.arm(Timer::Message(key), hold_down);
        self.pending.insert(key, pending);
        Arrival::Awaited
    }

    /// A repair of a message that is here, this member's own too.
    pub fn on_repair(&mut self, scene: &mut Scene<'_>, key: Key, round: u8, distance_us: u32) {
        let Some(Pending::Repair(repair)) = self.pending.get_mut(&key) else { return };
        let away = scene.known.distance(repair.requester);
        if let Some([_, pair]) = self.adaptive.as_deref_mut().filter(|_| round == 1 && repair.round == 1) {
            if repair.is_sent {
                let farther = f64::from(distance_us) / 1e6 > CLOSER * repair.distance.sample(away);
                pair.set_closest(farther);
            }
            pair.count_duplicate();
        }
        if repair.is_held_down {
            return;
        }
        repair.is_held_down = true;
        let hold_down = wait(HOLD_DOWN * repair.distance.sample(away), 1.0).max(self.settings.hold_down_min);
        if let Some([_, pair]) = self.adaptive.as_deref_mut().filter(|_| repair.round == 1) {
            pair.on_delay(repair.distance.round_trips(scene.now.since(repair.since)));
        }
        self.repairs_due.remove(&key);
        scene.timers.arm(Timer::Message(key), scene.now + hold_down);
    }

    /// The timer of a message expired. Returns how many rounds are over, if that was the hold-down.
    pub fn on_timer(&mut self, key: Key) -> Option<u8> {
        let (is_held_down, round, due) = match self.pending.get(&key)? {
            Pending::Request(request) => (request.is_held_down, request.round, &mut self.requests_due),
            Pending::Repair(repair) => (repair.is_held_down, repair.round, &mut self.repairs_due),
        };
        if !is_held_down {
            due.insert(key);
            return None;
        }
        self.pending.remove(&key);
        Some(round.min(u8::MAX.into()) as u8)
    }

    /// Nothing is to be done any more about the messages of a source with these numbers.
    pub fn forget(&mut self, timers: &mut Timers<Timer>, source: u32, numbers: Range<u64>) {
        if numbers.is_empty() {
            return;
        }
        let keys = self.pending.range((source, numbers.start)..(source, numbers.end));
        for key in keys.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.pending.remove(&key);
            self.requests_due.remove(&key);
            self.repairs_due.remove(&key);
            timers.cancel(Timer::Message(key));
        }
    }

    /// The message to be asked for next, and in which round.
    pub fn next_request(&mut self) -> Option<(Key, u32)> {
        let key = self.requests_due.pop_first()?;
        match self.pending.get(&key) {
            Some(Pending::Request(request)) => Some((key, request.round)),
            _ => None,
        }
    }

    /// Whether requests are to be sent.
    pub fn has_requests(&self) -> bool {
        !self.requests_due.is_empty()
    }

    /// A request is being sent: before this member hears it.
    pub fn on_sending_request(&mut self, round: u32) {
        if let Some([pair, _]) = self.adaptive.as_deref_mut().filter(|_| round == 1) {
            pair.on_sending(MOST_C1);
        }
    }

    /// Whether repairs are to be sent.
    pub fn has_repairs(&self) -> bool {
        !self.repairs_due.is_empty()
    }

    /// The message to be repaired next.
    pub fn next_repair(&mut self) -> Option<(Key, &mut Repair)> {
        let key = self.repairs_due.pop_first()?;
        match self.pending.get_mut(&key) {
            Some(Pending::Repair(repair)) => Some((key, repair)),
            _ => None,
        }
    }

    /// A repair was sent: this member hears it, and has sent it only then, as in ns-2.
    pub fn on_sent_repair(&mut self, scene: &mut Scene<'_>, key: Key, round: u8, distance_us: u32) {
        if let Some([_, pair]) = self.adaptive.as_deref_mut().filter(|_| round == 1) {
            pair.on_sending(libm::log10(scene.known.group() as f64));
        }
        self.on_repair(scene, key, round, distance_us);
        if let Some(Pending::Repair(repair)) = self.pending.get_mut(&key) {
            repair.is_sent = true;
        }
    }

    /// The first round of a request is over.
    fn end_first_round(&mut self, now: Time, request: &Request) {
        if let Some([pair, _]) = self.adaptive.as_deref_mut().filter(|_| request.round == 1) {
            pair.on_delay(request.distance.round_trips(now.since(request.since)));
        }
    }

    /// The next round of a request begins. Returns its wait.
    fn schedule(&mut self, known: &Known, source: u32, request: &mut Request) -> Duration {
        request.round = request.round.saturating_add(1);
        let away = request.distance.sample(known.distance(source));
        let wait = wait((request.c1 + request.c2 * self.rng().unit()) * away, request.backoff);
        if request.backoffs < self.settings.backoff_limit {
            request.backoffs += 1;
            request.backoff *= if self.settings.mode == Mode::Adaptive { 3.0 } else { 2.0 };
        }
        wait
    }

    fn rng(&mut self) -> &mut Rng {
        self.rng.get_or_insert_with(|| Box::new(self.seeds.stream("srm.recovery")))
    }
}

/// Hold-down, in distances.
const HOLD_DOWN: f64 = 3.0;
/// Whose distance is so much smaller is closer.
const CLOSER: f64 = 1.5;
