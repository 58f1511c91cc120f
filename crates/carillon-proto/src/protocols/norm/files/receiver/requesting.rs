//! NACK process of a receiver of files (RFC 5740, 5.3): back-off, suppression and hold-off.

use std::time::Duration;

use carillon_core::{Event, MessageId};
use carillon_wire::norm::Requests;

use super::{Context, NormFileReceiver, Reception, Timer};
use crate::protocols::norm::files::needs::{MAX_BLOCKS, Needs};
use crate::protocols::norm::grtt::random_backoff;
use crate::protocols::norm::phase::Phase;

/// State of the NACK process.
#[derive(Debug)]
pub(super) struct Requesting {
    phase: Phase,
    unicast: bool,
    most_bytes: usize,
    robust: u64,
    /// Needs when the back-off began: requests of others need not cover what became known later.
    noted: Needs,
    /// Requests of others during the back-off.
    collected: Needs,
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
            noted: Needs::default(),
            collected: Needs::default(),
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

impl NormFileReceiver {
    /// Everything that is missing before the end of the data sent so far.
    fn needs(&self) -> Needs {
        let (mut needs, (last, blocks)) = (Needs::default(), self.end);
        let Some(first) = self.first else { return needs };
        for number in first..=last {
            if needs.blocks.len() >= MAX_BLOCKS || needs.objects.len() >= MAX_BLOCKS {
                break;
            }
            let end = if number < last { u64::MAX } else { blocks };
            match self.objects.get(&number) {
                Some(Reception::Assembling(assembly)) => assembly.needs(number, end, &mut needs),
                Some(Reception::Done) => {}
                // Nothing of the last one may have been sent yet.
                None if end > 0 => {
                    needs.objects.insert(number);
                }
                None => {}
            }
        }
        needs
    }

    /// Begins a back-off if anything is missing.
    pub(super) fn consider(&mut self, context: &mut Context) {
        if self.requesting.phase != Phase::Idle {
            return;
        }
        let needs = self.needs();
        if needs.is_empty() {
            return;
        }
        let timing = &mut self.timing;
        let longest = timing.backoff * timing.grtt;
        let wait = random_backoff(longest, timing.group_size, timing.draws.rng());
        self.requesting.collected = Needs::default();
        // Receivers that cannot hear each other: the last part of the waits is left to a NACK that the sender
        // advertises. Not twice in a row, since there may be no other receiver that misses anything.
        let late = timing.backoff > 1 && wait > longest - timing.grtt;
        self.requesting.deferred = self.requesting.unicast && late && !self.requesting.deferred;
        if self.requesting.deferred {
            return self.hold_off(context);
        }
        self.requesting.noted = needs;
        self.requesting.enter(Phase::BackOff);
        context.timers.arm(Timer::Request, context.now + wait.max(SHORTEST_WAIT));
    }

    /// Handles the requests of another receiver, which the sender will satisfy for all.
    pub(super) fn on_requests_of_others(&mut self, requests: Requests<'_>) {
        if self.requesting.phase == Phase::BackOff {
            self.requesting.collected.merge(Needs::read(requests, self.end.0));
        }
    }

    /// Handles the end of the back-off or of the hold-off.
    pub(super) fn on_request_timer(&mut self, context: &mut Context) {
        if self.requesting.phase == Phase::HoldOff {
            self.requesting.enter(Phase::Idle);
            return self.consider(context);
        }
        let needs = self.needs();
        let Some(first) = needs.first() else { return self.requesting.enter(Phase::Idle) };
        // A sender that has gone back to an earlier block will come to the missing ones.
        let passed = self.position >= first;
        if passed && !self.requesting.noted.is_covered_by(&self.requesting.collected) {
            let (bytes, _) = needs.write(self.requesting.most_bytes);
            self.requesting.due = Some(bytes);
            context.events.push(Event::Requested { source: context.sender, message: MessageId(first.0) });
        } else {
            context.events.push(Event::RequestSuppressed { message: MessageId(first.0) });
        }
        self.hold_off(context);
    }

    /// Waits for repairs: K + 2 round-trip times.
    fn hold_off(&mut self, context: &mut Context) {
        self.requesting.enter(Phase::HoldOff);
        let wait = (self.timing.backoff + 2) * self.timing.grtt;
        context.timers.arm(Timer::Request, context.now + wait.max(SHORTEST_WAIT));
    }

    /// Asks a silent sender, a limited number of times. If nothing is missing, it has ended.
    pub(super) fn on_inactivity(&mut self, context: &mut Context) {
        let (needs, silence) = (self.needs(), context.now.since(self.heard));
        if needs.is_empty() && silence >= self.timing.end_wait {
            return self.close(context);
        }
        if !needs.is_empty() {
            if self.requesting.silent >= self.requesting.robust {
                return;
            }
            self.requesting.silent += 1;
            self.position = self.position.max(self.end);
            self.consider(context);
        }
        context.timers.arm(Timer::Inactivity, context.now + self.timing.inactivity());
    }
}

/// Shortest wait, so that a timer never fires twice at one instant.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);
