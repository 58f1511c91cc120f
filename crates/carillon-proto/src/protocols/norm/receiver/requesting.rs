//! NACK process of a receiver (RFC 5740, 5.3): back-off, suppression and hold-off.

use carillon_core::{Event, MessageId};
use carillon_wire::norm::Requests;

use super::{Context, NormReceiver, Timer};
use crate::protocols::norm::grtt::random_backoff;
use crate::protocols::norm::phase::Phase;
use crate::protocols::norm::repairs::Wants;

/// State of the NACK process.
#[derive(Debug)]
pub(super) struct Requesting {
    phase: Phase,
    unicast: bool,
    most_bytes: usize,
    robust: u64,
    /// Number before which symbols may be requested.
    limit: u64,
    /// Limit when the back-off began: requests of others need not cover what became known later.
    noted: u64,
    /// Requests of others during the back-off.
    collected: Wants,
    /// Requests to send.
    due: Option<Vec<u8>>,
    /// Number of times that a silent sender was asked.
    silent: u64,
    /// True if the last wait was left to others.
    deferred: bool,
    /// Number of phases so far.
    turn: u64,
}

impl Requesting {
    pub fn new(unicast: bool, most_bytes: usize, robust: u64) -> Self {
        Requesting {
            phase: Phase::Idle,
            unicast,
            most_bytes,
            robust,
            limit: 0,
            noted: 0,
            collected: Wants::default(),
            due: None,
            silent: 0,
            deferred: false,
            turn: 0,
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn turn(&self) -> u64 {
        self.turn
    }

    pub fn is_unicast(&self) -> bool {
        self.unicast
    }

    /// Takes the requests to send.
    pub fn take_due(&mut self) -> Option<Vec<u8>> {
        self.due.take()
    }

    /// Records a packet of the sender.
    pub fn on_heard(&mut self) {
        self.silent = 0;
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.turn += 1;
    }
}

impl NormReceiver {
    /// Begins a back-off if symbols before `limit` are missing.
    pub(super) fn consider(&mut self, context: &mut Context, limit: u64) {
        self.requesting.limit = self.requesting.limit.max(limit);
        if self.requesting.phase != Phase::Idle || self.store.needs(self.requesting.limit).is_empty() {
            return;
        }
        let timing = &mut self.timing;
        let longest = timing.backoff * timing.grtt;
        let wait = random_backoff(longest, timing.group_size, timing.draws.rng());
        self.requesting.collected = Wants::default();
        // Receivers that cannot hear each other: the last part of the waits is left to a NACK that the sender
        // advertises. Not twice in a row, since there may be no other receiver that misses anything.
        let late = timing.backoff > 1 && wait > longest - timing.grtt;
        self.requesting.deferred = self.requesting.unicast && late && !self.requesting.deferred;
        if self.requesting.deferred {
            return self.hold_off(context);
        }
        self.requesting.noted = self.requesting.limit;
        self.requesting.enter(Phase::BackOff);
        context.timers.arm(Timer::Request, context.now + wait.max(SHORTEST_WAIT));
    }

    /// Handles the requests of another receiver, which the sender will satisfy for all.
    pub(super) fn on_requests_of_others(&mut self, requests: Requests<'_>) {
        if self.requesting.phase == Phase::BackOff {
            let expected = self.shape.place(self.store.expected()).0;
            self.requesting.collected.merge(Wants::read(requests, self.shape, expected, MAX_BLOCKS));
        }
    }

    /// Handles the end of the back-off or of the hold-off.
    pub(super) fn on_request_timer(&mut self, context: &mut Context) {
        if self.requesting.phase == Phase::HoldOff {
            self.requesting.enter(Phase::Idle);
            return self.consider(context, 0);
        }
        let needs = self.store.needs(self.requesting.noted);
        let Some(first) = needs.blocks().next() else { return self.requesting.enter(Phase::Idle) };
        // A sender that has gone back to an earlier block will come to the missing ones.
        let passed = self.shape.place(self.position).0 >= first;
        if passed && !needs.is_covered_by(&self.requesting.collected) {
            let all = self.store.needs(self.requesting.limit);
            let (bytes, _) = all.write(super::STREAM, self.requesting.most_bytes);
            self.requesting.due = Some(bytes);
            self.tell_requests(context, |source, message| Event::Requested { source, message });
        } else {
            self.tell_requests(context, |_, message| Event::RequestSuppressed { message });
        }
        self.hold_off(context);
    }

    /// Records an event for each missing message that may be requested now.
    fn tell_requests(
        &self,
        context: &mut Context,
        event: impl Fn(carillon_core::NodeId, MessageId) -> Event,
    ) {
        for &number in self.missing.range(..self.requesting.limit) {
            context.events.push(event(context.sender, MessageId(number)));
        }
    }

    /// Waits for repairs: K + 2 round-trip times.
    fn hold_off(&mut self, context: &mut Context) {
        self.requesting.enter(Phase::HoldOff);
        let wait = (self.timing.backoff + 2) * self.timing.grtt;
        context.timers.arm(Timer::Request, context.now + wait.max(SHORTEST_WAIT));
    }

    /// Asks a silent sender, a limited number of times.
    pub(super) fn on_inactivity(&mut self, context: &mut Context) {
        if self.requesting.silent >= self.requesting.robust {
            return;
        }
        self.requesting.silent += 1;
        self.position = self.position.max(self.end.saturating_sub(1));
        self.consider(context, self.end);
        context.timers.arm(Timer::Inactivity, context.now + self.timing.inactivity());
    }
}

/// Shortest wait, so that a timer never fires twice at one instant.
const SHORTEST_WAIT: std::time::Duration = std::time::Duration::from_micros(1);
/// Maximum number of blocks of which requests of others are remembered.
const MAX_BLOCKS: usize = 1024;
