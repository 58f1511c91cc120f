//! Claims: announced states that any node could have forged, until the sender confirms them.
//!
//! The receiver asks the sender itself several times, and the answer counts. Without an answer it accepts an announced
//! end, unless the sender was heard continuing after the first query.

use carillon_core::{Duration, ObservedState, States, Time, Timers};
use carillon_wire::session::State;

use super::state::Timer;
use crate::observed;

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver, announced state",
    transitions: &[
        ("[*]", "Settled", ""),
        ("Settled", "Asking", "INVITE with an end, or a start while assembling: ASK"),
        ("Asking", "Contradicted", "the sender was heard continuing after the first query"),
        ("Asking", "Settled", "ANSWER, or no answer to six queries: an announced end counts"),
        ("Contradicted", "Settled", "ANSWER, or no answer to six queries: the end was forged"),
    ],
};

/// Announced state that the sender has not confirmed, if there is one.
#[derive(Debug, Default)]
pub(super) struct Claim {
    claimed: Option<Claimed>,
    pub timers: Timers<Timer>,
}

/// Announced state that the sender has not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub state: State,
    pub reason: String,
    /// Number of queries sent.
    asked: u32,
    /// True if the sender was heard continuing meanwhile.
    contradicted: bool,
}

/// Action when the time of a query is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask the sender.
    Ask,
    /// Accept the announced end.
    Accept(Claimed),
    /// Drop the claim.
    Drop,
}

impl Claimed {
    fn is_end(&self) -> bool {
        matches!(self.state, State::Finished | State::Aborted)
    }
}

impl Claim {
    /// Records an announced state. Returns true if it is new and is to be verified.
    pub fn begin(&mut self, state: State, reason: &str) -> bool {
        let is_new = self.claimed.is_none();
        self.claimed.get_or_insert_with(|| Claimed {
            state,
            reason: reason.to_owned(),
            asked: 0,
            contradicted: false,
        });
        is_new
    }

    /// Asks the sender at this time.
    pub fn ask(&mut self, at: Time) {
        self.timers.arm(Timer::Ask, at);
    }

    /// Records that the sender was heard continuing. A packet right after the announcement may be older than it,
    /// since multicast and unicast packets wait in different sockets, so only packets after the first query count.
    pub fn contradict(&mut self) {
        if let Some(claimed) = self.claimed.as_mut().filter(|claimed| claimed.asked > 1) {
            claimed.contradicted = true;
        }
    }

    /// Handles the time of a query.
    pub fn on_timer(&mut self, now: Time) -> Step {
        match &mut self.claimed {
            // Queries are repeated, since each or its answer may be lost.
            Some(claimed) if claimed.asked < MAX_QUERIES => {
                claimed.asked += 1;
                self.timers.arm(Timer::Ask, now + QUERY_INTERVAL);
                Step::Ask
            }
            // An unconfirmed start changes nothing: the next packet of the running session asks again.
            claimed => match claimed.take() {
                Some(claimed) if claimed.is_end() && !claimed.contradicted => Step::Accept(claimed),
                Some(_) | None => Step::Drop,
            },
        }
    }

    /// Ends the verification: the sender has answered, or the session is over.
    pub fn settle(&mut self) -> Option<Claimed> {
        self.timers.clear();
        self.claimed.take()
    }

    pub fn observe(&self) -> ObservedState {
        observed(
            &STATES,
            match &self.claimed {
                None => "Settled",
                Some(Claimed { contradicted: false, .. }) => "Asking",
                Some(Claimed { contradicted: true, .. }) => "Contradicted",
            },
        )
    }
}

/// Maximum number of queries for a state.
const MAX_QUERIES: u32 = 6;
/// Interval between these queries.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);
