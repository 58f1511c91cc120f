//! Liveness of the sender, as a receiver judges it.
//!
//! Two timers measure the silence of the sender. Any packet in its name restarts the first. Only a packet with the
//! nonce restarts the second, since any node can forge a packet to the group. If packets arrive, but none with the
//! nonce, the receiver asks the sender itself several times before it takes it for silent.

use carillon_core::{Duration, ObservedState, States, Time, Timers};

use super::claim::Claim;
use super::state::Timer;
use crate::observed;

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver, liveness of the sender",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Heard", "INVITE of a session to join or to follow"),
        ("Heard", "Doubted", "packets, but none with the nonce for the silence timeout: ASK"),
        ("Doubted", "Heard", "a packet with the nonce, or the process was suspended"),
        ("Any", "Idle", "silence, or the session is over"),
    ],
};

/// Timers of the sender's silence.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Silence timeout.
    timeout: Duration,
    /// True if the receiver can ask the sender.
    asks: bool,
    /// Number of consecutive queries without an authenticated answer.
    unconfirmed: u32,
    pub timers: Timers<Timer>,
    /// Announced state that the sender has not confirmed.
    pub claim: Claim,
}

impl Liveness {
    pub fn new(timeout: Duration, asks: bool) -> Self {
        Liveness { timeout, asks, unconfirmed: 0, timers: Timers::new(), claim: Claim::default() }
    }

    /// Begins to measure the silence of a sender.
    pub fn begin(&mut self, now: Time) {
        self.timers.arm(Timer::Silence, now + self.timeout);
    }

    /// Records that the sender was heard. Any node can forge the packet.
    pub fn heard(&mut self, now: Time) {
        // An unarmed timer means that no session is joined.
        if self.timers.armed(Timer::Silence).is_some() {
            self.begin(now);
        }
    }

    /// Records a packet with the nonce, which restarts both timers.
    pub fn authenticated(&mut self, now: Time) {
        self.heard(now);
        self.unconfirmed = 0;
        if self.timers.armed(Timer::Silence).is_some() {
            self.await_confirmation(now);
        }
    }

    /// Begins to measure the time without a packet with the nonce.
    pub fn await_confirmation(&mut self, now: Time) {
        self.timers.arm(Timer::Confirm, now + self.timeout);
    }

    /// Restarts the timers after the process was suspended, since a suspended receiver could not hear the sender.
    pub fn note_suspension(&mut self, now: Time) {
        // A timer of a running process is never this late. Packets that arrived meanwhile still wait in the socket.
        if self.timers.armed(Timer::Silence).is_some_and(|over| now > over + SUSPENSION_THRESHOLD) {
            self.unconfirmed = 0;
            self.begin(now);
            // A silent receiver cannot ask, so it has no timer to confirm the session.
            if self.asks {
                self.await_confirmation(now);
            }
        }
    }

    /// Handles the time without a packet with the nonce. Returns true if the sender is to be asked, and false if it was
    /// asked often enough.
    pub fn on_unconfirmed(&mut self, now: Time) -> bool {
        let asks = self.unconfirmed < MAX_UNCONFIRMED_QUERIES;
        if asks {
            self.unconfirmed += 1;
            self.timers.arm(Timer::Confirm, now + self.timeout / 16);
        }
        asks
    }

    /// Time for which the sender was not heard; none if no session is joined.
    pub fn silence(&self, now: Time) -> Option<Duration> {
        // The timer shows when the sender was last heard.
        self.timers.armed(Timer::Silence).map(|over| (now + self.timeout).since(over))
    }

    /// Ends the session.
    pub fn end(&mut self) {
        self.unconfirmed = 0;
        self.timers.clear();
        self.claim.settle();
    }

    pub fn observe(&self) -> [ObservedState; 2] {
        let liveness = match (self.timers.armed(Timer::Silence), self.unconfirmed) {
            (None, _) => "Idle",
            (Some(_), 0) => "Heard",
            (Some(_), _) => "Doubted",
        };
        [observed(&STATES, liveness), self.claim.observe()]
    }
}

/// Maximum number of queries, a sixteenth of the silence timeout apart, to a sender that is heard but does not
/// answer. At a loss of a fifth per port, three of five queries remain without an answer.
const MAX_UNCONFIRMED_QUERIES: u32 = 32;
/// Lateness of a timer that shows that the process was suspended.
const SUSPENSION_THRESHOLD: Duration = Duration::from_secs(1);
