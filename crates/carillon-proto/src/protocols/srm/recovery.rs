//! Loss recovery: request and repair timers, their back-off, suppression and hold-down.
//!
//! The rules are those of the request and repair objects of ns-2.35, one object for each missing or requested
//! message. As there, a member receives its own requests and repairs; here that happens when it sends them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use carillon_core::{Draws, DropReason, Event, MessageId, ObservedState, Seeds, Time};

use super::config::{MAX_DISTANCE, Mode, Settings};
use super::context::Context;
use super::states::STATES;
use crate::blocks::{
    AdaptiveDelay, ByDistance, Distance, Distances, Expired, FeedbackDelay, Reach, RequestSchedule, Stage,
    Tries, in_seconds,
};

/// Message key: rank of the source and its sequence number.
pub(super) type Key = (u32, u64);

/// Requests for missing messages, and repairs for other members. A sent request backs off as an overheard one does,
/// and no member confirms it.
#[derive(Debug)]
pub(super) struct Recovery {
    settings: Arc<Settings>,
    pub requests: RequestSchedule<Key, Request>,
    pub repairs: RequestSchedule<Key, Repair>,
    /// Adaptive timer constants of requests and of repairs.
    adaptive: Option<Box<[AdaptiveDelay; 2]>>,
    draws: Draws,
    /// Distances to the members, which scale all waits.
    pub distances: Distances,
}

/// State of a request (ns-2 request object).
#[derive(Debug)]
pub(super) struct Request {
    /// Time when the loss was found.
    pub since: Time,
    pub distance: Distance,
    /// Constants C1 and C2 when the loss was found, which apply to all rounds.
    pub c1: f64,
    pub c2: f64,
    /// Number of request timers set since the loss was found.
    pub round: u32,
    /// Until then, further requests are ignored (ignore-backoff).
    pub ignore_until: Option<Time>,
}

/// State of a repair (ns-2 repair object).
#[derive(Debug)]
pub(super) struct Repair {
    /// Time when the request arrived.
    pub since: Time,
    /// Rank of the requester.
    pub requester: u32,
    /// Distance to the requester.
    pub distance: Distance,
    pub round: u32,
    /// True if this member has sent the repair.
    pub is_sent: bool,
    /// Scope of the repair, always to the group.
    pub reach: Reach,
}

impl Recovery {
    /// Creates a recovery state without losses.
    pub fn new(settings: Arc<Settings>, own: u32, seeds: &Seeds) -> Self {
        let adaptive = (settings.mode == Mode::Adaptive).then(|| {
            let pair = |first, second| AdaptiveDelay::new(first, second, settings.sending_step);
            Box::new([pair(settings.c1, settings.c2), pair(settings.d1, settings.d2)])
        });
        Recovery {
            distances: Distances::new(own, settings.initial_distance, MAX_DISTANCE, settings.clock_tick),
            settings,
            requests: RequestSchedule::new(Tries::UNLIMITED),
            repairs: RequestSchedule::new(Tries::UNLIMITED),
            adaptive,
            draws: seeds.draws("srm.recovery"),
        }
    }

    /// Starts a request timer for each missing message of a source.
    pub fn on_missing(&mut self, context: &mut Context, source: u32, numbers: impl Iterator<Item = u64>) {
        let mut found = false;
        for number in numbers {
            found = true;
            let node = context.nodes[source as usize];
            context.events.loss_found(node, number);
            // Adaptive timers update C1 and C2 before each new loss.
            let (mut c1, mut c2) = (self.settings.c1, self.settings.c2);
            if let Some([pair, _]) = self.adaptive.as_deref_mut() {
                pair.adapt(MAX_C1, self.distances.group() as f64);
                (c1, c2) = (pair.first, pair.second);
            }
            let mut distance = Distance::new(self.settings.distance_gain);
            distance.sample(self.distances.distance(source));
            let mut request = Request { since: context.now, distance, c1, c2, round: 0, ignore_until: None };
            let wait = next_wait(&self.settings, &mut self.draws, &self.distances, source, &mut request);
            self.requests.begin(context.now, (source, number), wait, request);
        }
        if let Some([pair, _]) = self.adaptive.as_deref_mut().filter(|_| found) {
            pair.mark_period();
        }
    }

    /// Handles a request for a known message, also this member's own. Returns false if no request or repair is
    /// pending, so that the message is here and must be repaired.
    pub fn on_request(&mut self, context: &mut Context, key: Key, round: u32, is_own: bool) -> bool {
        let is_open = self.is_open(key);
        // Held down, or a repair is pending already: the request changes nothing.
        let Some(request) = self.requests.get_mut(key).filter(|_| is_open) else {
            let is_pending = self.requests.stage(key).or(self.repairs.stage(key)).is_some();
            if is_pending {
                context.events.dropped(DropReason::Redundant);
            }
            return is_pending;
        };
        let ignore = request.ignore_until;
        // A second request of the first round within the ignore interval counts as a duplicate.
        if round == 1
            && request.round == 2
            && ignore.is_some_and(|until| context.now <= until)
            && let Some([pair, _]) = self.adaptive.as_deref_mut()
        {
            pair.count_duplicate();
        }
        if ignore.is_some_and(|until| context.now < until) {
            context.events.dropped(DropReason::Redundant);
            return true;
        }
        // The overheard request suppresses the own one: back off, and ignore further ones for half the wait.
        end_first_round(&mut self.adaptive, context.now, request);
        let wait = next_wait(&self.settings, &mut self.draws, &self.distances, key.0, request);
        request.ignore_until = Some(context.now + wait / 2);
        self.requests.back_off(context.now, key, wait);
        if !is_own {
            context.events.push(Event::RequestSuppressed { message: MessageId(key.1) });
        }
        true
    }

    /// Starts a repair timer for a message that is here; `rounds` counts its earlier rounds.
    pub fn begin_repair(
        &mut self,
        context: &mut Context,
        key: Key,
        requester: u32,
        rounds: u8,
        reach: Reach,
    ) {
        let (mut d1, mut d2) = (self.settings.d1, self.settings.d2);
        let group = self.distances.group() as f64;
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
        distance.sample(self.distances.distance(requester));
        let distance_s = distance.sample(self.distances.distance(requester));
        let mut delay = ByDistance { first: d1, second: d2, growth: (1.0, 0), draws: &mut self.draws };
        let wait = delay.delay(0, distance_s);
        let round = u32::from(rounds) + 1;
        let repair = Repair { since: context.now, requester, distance, round, is_sent: false, reach };
        self.repairs.begin(context.now, key, wait, repair);
    }

    /// Widens a pending repair to the whole group, after a request from far away.
    pub fn widen(&mut self, key: Key) {
        if let Some(repair) = self.repairs.get_mut(key) {
            repair.reach = Reach::WHOLE_GROUP;
        }
    }

    /// Round of the pending request for a message.
    pub fn request_round(&self, key: Key) -> Option<u32> {
        self.requests.get(key).filter(|_| self.is_open(key)).map(|request| request.round)
    }

    /// Handles the arrival of a known message: a late original or a repair. Returns true if it was missing.
    pub fn on_arrival(&mut self, context: &mut Context, key: Key, is_original: bool) -> bool {
        let is_open = self.is_open(key);
        let Some(request) = self.requests.get_mut(key).filter(|_| is_open) else { return false };
        if is_original && request.round == 1 {
            // The original was late, not lost.
            self.requests.remove(key);
            return true;
        }
        // Hold down: requests for the message are ignored while the repair may be in flight.
        let distance_s = request.distance.sample(self.distances.distance(key.0));
        end_first_round(&mut self.adaptive, context.now, request);
        self.requests.hold_down(context.now, key, in_seconds(HOLD_DOWN_DISTANCES * distance_s, 1.0));
        true
    }

    /// Handles a repair of a message that is here, also this member's own: suppresses the pending repair and starts
    /// its hold-down.
    pub fn on_repair(&mut self, context: &mut Context, key: Key, round: u8, distance_us: u32) {
        let is_held_down = self.repairs.stage(key) == Some(Stage::HeldDown);
        let Some(repair) = self.repairs.get_mut(key) else { return };
        let distance_s = self.distances.distance(repair.requester);
        // Adaptive timers count duplicate repairs of the first round.
        if let Some([_, pair]) = self.adaptive.as_deref_mut().filter(|_| round == 1 && repair.round == 1) {
            if repair.is_sent {
                let farther =
                    f64::from(distance_us) / 1e6 > FARTHER_RATIO * repair.distance.sample(distance_s);
                pair.set_closest(farther);
            }
            pair.count_duplicate();
        }
        if is_held_down {
            return;
        }
        let hold_down = in_seconds(HOLD_DOWN_DISTANCES * repair.distance.sample(distance_s), 1.0)
            .max(self.settings.hold_down_min);
        if let Some([_, pair]) = self.adaptive.as_deref_mut().filter(|_| repair.round == 1) {
            pair.on_delay(repair.distance.round_trips(context.now.since(repair.since)));
        }
        self.repairs.hold_down(context.now, key, hold_down);
    }

    /// Next expired wait: of a due request or repair, or of a hold-down, with its number of rounds. Call until it
    /// returns `None`.
    pub fn expire(&mut self, now: Time) -> Option<(Key, Option<u8>)> {
        let (key, over) = match self.requests.expire(now) {
            Some((key, Expired::Over(request))) => (key, Some(request.round)),
            Some((key, _)) => (key, None),
            None => match self.repairs.expire(now)? {
                (key, Expired::Over(repair)) => (key, Some(repair.round)),
                (key, _) => (key, None),
            },
        };
        Some((key, over.map(|round| round.min(u8::MAX.into()) as u8)))
    }

    /// Earliest timeout of a wait.
    pub fn next_timeout(&self) -> Option<Time> {
        self.requests.next_timeout().into_iter().chain(self.repairs.next_timeout()).min()
    }

    /// Drops the requests and repairs of a range of a source's messages.
    pub fn forget(&mut self, source: u32, numbers: Range<u64>) {
        if numbers.is_empty() {
            return;
        }
        let keys = (source, numbers.start)..(source, numbers.end);
        self.requests.remove_all(keys.clone());
        self.repairs.remove_all(keys);
    }

    /// Next due request and its round.
    pub fn next_request(&mut self) -> Option<(Key, u32)> {
        let key = self.requests.take_due()?;
        let round = self.requests.get(key)?.round;
        if let Some([pair, _]) = self.adaptive.as_deref_mut().filter(|_| round == 1) {
            pair.on_sending(MAX_C1);
        }
        Some((key, round))
    }

    /// Next due repair.
    pub fn next_repair(&mut self) -> Option<(Key, &Repair)> {
        let key = self.repairs.take_due()?;
        Some((key, self.repairs.get(key)?))
    }

    /// Records a sent repair, which this member receives itself, as in ns-2.
    pub fn on_sent_repair(&mut self, context: &mut Context, key: Key, round: u8, distance_us: u32) {
        if let Some([_, pair]) = self.adaptive.as_deref_mut().filter(|_| round == 1) {
            pair.on_sending(libm::log10(self.distances.group() as f64));
        }
        self.on_repair(context, key, round, distance_us);
        if let Some(repair) = self.repairs.get_mut(key) {
            repair.is_sent = true;
        }
    }

    /// Reports the states; see [`Machine::report_states`](carillon_core::Machine::report_states).
    pub fn report_states(&self, tell: &mut dyn FnMut(ObservedState)) {
        let requests =
            self.requests.iter().map(|(key, stage, _, r)| (key, stage, "WaitForRequestTimer", r.round));
        let repairs = self.repairs.iter().map(|(key, stage, ..)| (key, stage, "WaitForRepairTimer", 0));
        for ((source, number), stage, open, round) in requests.chain(repairs) {
            let (state, turn) = match stage {
                Stage::HeldDown => ("HoldDown", 0),
                _ => (open, round.into()),
            };
            let about = u64::from(source) << 40 | number;
            tell(ObservedState { of: STATES[0].of, about, state, turn });
        }
    }

    /// Returns true if a request for the message is pending.
    fn is_open(&self, key: Key) -> bool {
        self.requests.stage(key).is_some_and(|stage| stage != Stage::HeldDown)
    }
}

/// Ends the first round of a request: adapts the request timers to its delay.
fn end_first_round(adaptive: &mut Option<Box<[AdaptiveDelay; 2]>>, now: Time, request: &Request) {
    if let Some([pair, _]) = adaptive.as_deref_mut().filter(|_| request.round == 1) {
        pair.on_delay(request.distance.round_trips(now.since(request.since)));
    }
}

/// Starts the next round of a request. Returns its wait.
fn next_wait(
    settings: &Settings,
    draws: &mut Draws,
    distances: &Distances,
    source: u32,
    request: &mut Request,
) -> Duration {
    let distance_s = request.distance.sample(distances.distance(source));
    let growth = (if settings.mode == Mode::Adaptive { 3.0 } else { 2.0 }, settings.backoff_limit);
    let mut delay = ByDistance { first: request.c1, second: request.c2, growth, draws };
    let wait = delay.delay(request.round, distance_s);
    request.round = request.round.saturating_add(1);
    wait
}

/// Maximum of C1.
pub(super) const MAX_C1: f64 = 2.0;
/// Hold-down of a repaired message, in distances (3 d in the paper).
const HOLD_DOWN_DISTANCES: f64 = 3.0;
/// Ratio of distances above which another repairer counts as farther away (adaptive timers).
const FARTHER_RATIO: f64 = 1.5;
