//! Assembling: a member among peers, or in a session with helpers, learns the roster and where the others are.
//!
//! The organiser sends the roster. Each member sends PRESENT, by which the others learn its node. A member that has
//! the whole roster and has received from all members in it builds the protocol's machine and reports that it is
//! ready. The machine starts when the organiser says that all are ready, or when another member has begun.

use carillon_core::{Duration, ObservedState, States, Time, Timers};

use super::peers::Peers;
use super::probing::Probing;
use super::state::Timer;
use crate::observed;

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver, roster",
    transitions: &[
        ("[*]", "None", ""),
        ("None", "Waiting", "INVITE of a protocol of peers or with helpers"),
        ("Waiting", "Learning", "ROSTER: PRESENT at intervals"),
        ("Waiting", "Ready", "the whole ROSTER, after PRESENT of all others"),
        ("Learning", "Ready", "the whole ROSTER, and PRESENT of all others: READY at intervals"),
        ("Ready", "Learning", "ROSTER of a new edition"),
        ("Ready", "Started", "ANSWER running"),
        ("Any", "None", "another sender gets a turn"),
    ],
};

/// Agreement of a member with the others.
#[derive(Debug)]
pub(super) struct Assembling {
    /// Other members, in a protocol with peers or helpers.
    pub peers: Option<Box<Peers>>,
    pub probing: Probing,
    /// Wait after the next PRESENT.
    pub wait: Duration,
    pub timers: Timers<Timer>,
}

impl Assembling {
    pub fn new(probing: Probing) -> Self {
        Assembling { peers: None, probing, wait: PRESENT_WAIT_MIN, timers: Timers::new() }
    }

    /// Begins to send PRESENT at this time.
    pub fn present_from(&mut self, at: Time) {
        self.wait = PRESENT_WAIT_MIN;
        self.timers.arm(Timer::Present, at);
    }

    /// Schedules the PRESENT after the one that is sent now.
    pub fn present_again(&mut self, now: Time, delay: Duration) {
        self.timers.arm(Timer::Present, now + self.wait + delay);
        self.wait = (self.wait * 2).min(PRESENT_WAIT_MAX);
    }

    /// Schedules the READY after the one that is sent now.
    pub fn ready_again(&mut self, now: Time) {
        self.timers.arm(Timer::Ready, now + READY_INTERVAL);
    }

    /// Ends the exchange.
    pub fn end(&mut self) {
        self.timers.clear();
    }

    pub fn observe(&self) -> [ObservedState; 2] {
        let roster = match &self.peers {
            None => "None",
            Some(peers) if peers.ready.is_some() => "Ready",
            Some(peers) if !peers.members().is_empty() => "Started",
            Some(peers) if peers.edition() > 0 => "Learning",
            Some(_) => "Waiting",
        };
        [observed(&STATES, roster), self.probing.observe()]
    }
}

/// Wait between the first two PRESENTs; it doubles at each PRESENT.
const PRESENT_WAIT_MIN: Duration = Duration::from_millis(50);

/// Upper bound of the wait between PRESENTs.
const PRESENT_WAIT_MAX: Duration = Duration::from_millis(400);

/// Interval between READYs.
const READY_INTERVAL: Duration = Duration::from_millis(200);
