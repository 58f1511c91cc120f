//! Gathering: the condition that ends the joining of receivers.

use carillon_core::{Duration, ObservedState, States, Time, Timers};

use super::arrivals::Arrivals;
use super::state::Timer;
use crate::config::Gather;
use crate::observed;

/// States of gathering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum GatheringState {
    /// No time of the start condition has passed.
    #[default]
    Open,
    /// The time of the start condition has passed.
    WaitOver,
    /// `gather_limit` has passed, and the session starts with the receivers that have joined.
    LimitOver,
    /// The session no longer gathers.
    Closed,
}

/// Declared states.
pub(super) const STATES: States = States {
    of: "sender, gathering",
    transitions: &[
        ("[*]", "Open", ""),
        ("[*]", "WaitOver", "the start condition has no time to wait"),
        ("Open", "Settling", "the first receiver joined, or gathering began with a time to wait"),
        ("[*]", "Settling", "gathering begins with a time to wait"),
        ("Open", "WaitOver", "the first receiver joined, and there is no time to wait"),
        ("Settling", "WaitOver", "the time has passed, and no receiver has joined"),
        ("WaitOver", "Settling", "a receiver joined after all others had left"),
        ("Any", "Closed", "the start condition holds, a limit has passed, or abort"),
    ],
};

/// Times of gathering.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    pub state: GatheringState,
    /// Requests to join.
    pub arrivals: Arrivals,
    /// Latest time of the start, if the session may start sooner after a quiet time.
    quiet_limit: Option<Time>,
    pub timers: Timers<Timer>,
}

impl Gathering {
    /// Begins to gather.
    pub fn begin(&mut self, now: Time, gather: &Gather, limit: Option<Duration>) {
        self.arrivals.begin(now);
        if let Some(limit) = limit {
            self.timers.arm(Timer::GatherLimit, now + limit);
        }
        match gather {
            Gather::Wait(wait) | Gather::Silent(wait) if wait.is_zero() => {
                self.state = GatheringState::WaitOver
            }
            Gather::Wait(wait) | Gather::Silent(wait) => self.timers.arm(Timer::GatherWait, now + *wait),
            Gather::Count(_)
            | Gather::Names(_)
            | Gather::Settle(_)
            | Gather::Quiet(_)
            | Gather::Again { .. } => {}
        }
    }

    /// Records the join of the first receiver, from which a waiting time runs.
    pub fn on_first_join(&mut self, now: Time, time: Duration) {
        self.state = if time.is_zero() { GatheringState::WaitOver } else { GatheringState::Open };
        self.timers.arm(Timer::GatherWait, now + time);
        self.quiet_limit = None;
    }

    /// Lets the session start after a quiet time, if that is sooner than the end of the waiting time.
    pub fn permit_quiet_start(&mut self) {
        self.quiet_limit = self.timers.armed(Timer::GatherWait);
    }

    /// Puts the start off until the end of the quiet time. Returns true if the session may start after one.
    pub fn await_quiet(&mut self, until: Option<Time>) -> bool {
        let Some(limit) = self.quiet_limit.filter(|_| self.state == GatheringState::Open) else {
            return false;
        };
        self.timers.arm(Timer::GatherWait, until.map_or(limit, |until| until.min(limit)));
        true
    }

    /// Time at which the session starts, if no further receiver asks to join.
    pub fn starts_at(&self) -> Option<Time> {
        self.timers.armed(Timer::GatherWait)
    }

    /// Handles the end of the waiting time.
    pub fn on_wait_over(&mut self) {
        self.state = GatheringState::WaitOver;
    }

    pub fn is_wait_over(&self) -> bool {
        matches!(self.state, GatheringState::WaitOver | GatheringState::LimitOver)
    }

    pub fn is_limit_over(&self) -> bool {
        self.state == GatheringState::LimitOver
    }

    /// Ends gathering.
    pub fn end(&mut self) {
        self.state = GatheringState::Closed;
        self.timers.clear();
    }

    pub fn observe(&self) -> ObservedState {
        observed(
            &STATES,
            match self.state {
                GatheringState::Open if self.timers.armed(Timer::GatherWait).is_some() => "Settling",
                GatheringState::Open => "Open",
                GatheringState::WaitOver => "WaitOver",
                GatheringState::LimitOver => "LimitOver",
                GatheringState::Closed => "Closed",
            },
        )
    }
}
