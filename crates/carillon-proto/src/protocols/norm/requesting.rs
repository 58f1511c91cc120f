//! NACK process that both receivers share (RFC 5740, 5.3): phases, waits, and requests of others.

use std::time::Duration;

use carillon_core::Config;

use super::phase::Phase;
use super::timing::Timing;

/// State of the NACK process; `N` is what was missing when the back-off began, and `C` collects requests of others.
#[derive(Debug)]
pub(super) struct Requesting<N, C> {
    phase: Phase,
    unicast: bool,
    /// Maximum number of bytes of requests in a NACK.
    pub most_bytes: usize,
    robust: u64,
    /// Needs when the back-off began: requests of others need not cover what became known later.
    pub noted: N,
    /// Requests of others during the back-off.
    pub collected: C,
    /// Requests to send.
    pub due: Option<Vec<u8>>,
    /// Number of times that a silent sender was asked.
    silent: u64,
    /// True if the last wait was left to others.
    deferred: bool,
    /// Number of times in a row that requests of others stood for own ones.
    suppressed: u32,
    /// Number of phases so far.
    turn: u64,
}

impl<N: Default, C: Default> Requesting<N, C> {
    /// Idle process with these settings.
    pub fn new(settings: &Config) -> Self {
        Requesting {
            phase: Phase::Idle,
            unicast: settings.choice("feedback") == "unicast",
            most_bytes: settings.count("nack_bytes") as usize,
            robust: settings.count("robust_factor"),
            noted: N::default(),
            collected: C::default(),
            due: None,
            silent: 0,
            deferred: false,
            suppressed: 0,
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

    /// Records a packet of the sender.
    pub fn on_heard(&mut self) {
        self.silent = 0;
    }

    /// Returns true if a silent sender may be asked once more.
    pub fn may_ask(&mut self) -> bool {
        let may = self.silent < self.robust;
        self.silent += u64::from(may);
        may
    }

    /// Enters a phase.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.turn += 1;
    }

    /// Begins a back-off and returns its length; `None` if the wait is left to others.
    pub fn back_off(&mut self, timing: &mut Timing) -> Option<Duration> {
        let (wait, longest) = timing.draw_wait();
        self.collected = C::default();
        // Receivers that cannot hear each other: the last part of the waits is left to a NACK that the sender
        // advertises. Not twice in a row, since there may be no other receiver that misses anything.
        let late = timing.backoff > 1 && wait > longest - timing.grtt;
        self.deferred = self.unicast && late && !self.deferred;
        if self.deferred {
            return None;
        }
        self.enter(Phase::BackOff);
        Some(wait.max(SHORTEST_WAIT))
    }

    /// Returns true if requests of others stand for the own ones, which they cover or not. Not for ever, since nothing
    /// proves that the sender has them.
    pub fn is_left_to_others(&mut self, is_covered: bool) -> bool {
        let is_left = is_covered && self.suppressed < MAX_SUPPRESSED;
        self.suppressed = if is_left { self.suppressed + 1 } else { 0 };
        is_left
    }

    /// Begins a hold-off and returns its length: K + 2 round-trip times.
    pub fn hold_off(&mut self, timing: &Timing) -> Duration {
        self.enter(Phase::HoldOff);
        let wait = (timing.backoff + 2) * timing.grtt;
        wait.max(SHORTEST_WAIT)
    }
}

/// Maximum number of times in a row that requests of others stand for own ones.
const MAX_SUPPRESSED: u32 = 8;
/// Shortest wait, so that a timer never fires twice at one instant.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);
