//! Arrivals: what the receivers that ask to join say about those that have not asked yet.
//!
//! The sender has to decide when all that wait for it have joined, if it has no list of receivers. Receivers that were
//! there before the sender answer its first invitations, all within a short time. So the session can start once none
//! has asked for a *quiet time*. A receiver that joins later shows that receivers are being started, and then the
//! sender waits for the whole time of the start condition.
//!
//! The quiet time covers nine invitations and several round trips. The round-trip time is that of a CHALLENGE and the
//! JOIN that answers it. A lost CHALLENGE makes the measurement longer, and so does a lost answer. Other signs of loss
//! are a first JOIN that comes too late for an answer to the first invitation, and a JOIN that a node repeats after
//! the answer should have arrived. After any such sign the quiet time is longer. A quarter of the time that the data
//! take is a lower bound, because a receiver that misses the start costs the data once more.

use std::collections::BTreeMap;

use carillon_core::{Duration, NodeId, Time};

use crate::ANSWER_SPREAD;

/// Requests to join while the sender gathers.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Time of the first invitation.
    begin: Time,
    /// Time of the last JOIN from a node that was no member.
    last: Option<Time>,
    /// Time of the first CHALLENGE to a node that has not answered it, for a bounded number of nodes; none if the node
    /// has only been heard in the group.
    challenged: BTreeMap<NodeId, Option<Time>>,
    /// Names that some of these nodes state.
    names: BTreeMap<NodeId, String>,
    /// Longest measured round-trip time.
    round_trip: Option<Duration>,
    /// Time from the first invitation to the first JOIN.
    first: Option<Duration>,
    /// True if a JOIN was repeated although its answer had time to arrive, or went to the group.
    has_repeats: bool,
}

impl Arrivals {
    /// Begins with the first invitation.
    pub fn begin(&mut self, now: Time) {
        *self = Arrivals { begin: now, ..Arrivals::default() };
    }

    /// Records a JOIN of a node that is no member and gets a CHALLENGE now.
    pub fn on_challenged(&mut self, now: Time, node: NodeId) {
        self.last = Some(now);
        self.first.get_or_insert(now.since(self.begin));
        if let Some(&Some(since)) = self.challenged.get(&node) {
            self.on_repeated(now.since(since));
        }
        // The first time is kept: with a later one, an answer to the first CHALLENGE would seem too fast.
        self.await_answer(node, Some(now));
    }

    /// Records a node that asks to join in the group, since its JOINs to the sender have no answer.
    pub fn on_knock(&mut self, now: Time, node: NodeId) {
        self.last = Some(now);
        // Its JOINs to the sender would have arrived before.
        self.has_repeats |= !self.challenged.contains_key(&node);
        self.await_answer(node, None);
    }

    fn await_answer(&mut self, node: NodeId, since: Option<Time>) {
        if self.challenged.len() < MAX_CHALLENGED || self.challenged.contains_key(&node) {
            let known = self.challenged.entry(node).or_default();
            *known = known.or(since);
        }
    }

    /// Records a JOIN that answers a CHALLENGE.
    pub fn on_answered(&mut self, now: Time, node: NodeId) {
        self.last = Some(now);
        self.names.remove(&node);
        if let Some(Some(since)) = self.challenged.remove(&node) {
            self.round_trip = self.round_trip.max(Some(now.since(since)));
        }
    }

    /// Keeps the name of a node that asks, for a few nodes.
    pub fn note_name(&mut self, node: NodeId, name: &str) {
        if self.names.len() < MAX_NAMES && self.challenged.contains_key(&node) {
            self.names.entry(node).or_insert_with(|| name.to_owned());
        }
    }

    /// Takes the nodes that have asked and not answered a CHALLENGE, with their names.
    pub fn take_unanswered(&mut self) -> BTreeMap<NodeId, String> {
        std::mem::take(&mut self.names)
    }

    /// Records a receiver that waits for the end of an earlier session, and will ask to join this one.
    pub fn on_stranded(&mut self, now: Time) {
        self.last = self.last.map(|_| now);
    }

    /// Records a JOIN that a node repeats this long after the sender answered it.
    pub fn on_repeated(&mut self, after: Duration) {
        // Members also repeat their JOINs as keepalives, a second after the answer.
        self.has_repeats |= self.round_trip.is_some_and(|round_trip| after > round_trip + HOST_DELAY)
            && after < KEEPALIVE_INTERVAL;
    }

    /// Returns true if packets seem to be lost.
    fn is_lossy(&self) -> bool {
        let longest = self.round_trip.map(|round_trip| round_trip + ANSWER_SPREAD + HOST_DELAY);
        self.has_repeats || longest.zip(self.first).is_some_and(|(longest, first)| first > longest)
    }

    /// Returns true if a receiver that joins now was there before the first invitation: it has answered one of the
    /// invitations of the first `heartbeat`. A join takes two round trips.
    pub fn was_waiting(&self, now: Time, heartbeat: Duration) -> bool {
        self.round_trip.is_some_and(|round_trip| now.since(self.begin) <= heartbeat + 2 * round_trip)
    }

    /// Quiet time after which no receiver is likely to ask any longer, for data that take `transfer` at the rate of
    /// the interface.
    pub fn quiet_time(&self, transfer: Duration) -> Duration {
        let least = if self.is_lossy() { LOSSY_QUIET_TIME } else { MIN_QUIET_TIME };
        let paths = least + ROUND_TRIPS * self.round_trip.unwrap_or_default();
        paths.max(transfer / TRANSFER_SHARE)
    }

    /// End of the quiet time, if no further receiver asks; none while a node that asked has not answered a CHALLENGE.
    pub fn quiet_until(&self, transfer: Duration) -> Option<Time> {
        self.last.filter(|_| self.challenged.is_empty()).map(|last| last + self.quiet_time(transfer))
    }
}

/// Interval between invitations in a quiet time, up to a heartbeat. A receiver that long datagrams do not reach joins
/// after eight invitations, so a quiet time has room for them and for its answer.
pub(super) fn invitation_interval(quiet: Duration, heartbeat: Duration) -> Duration {
    (quiet / INVITATIONS).min(heartbeat)
}

/// Minimum quiet time. A receiver sends four JOINs within it, if none is answered.
const MIN_QUIET_TIME: Duration = Duration::from_millis(190);
/// Minimum quiet time if packets seem to be lost. A receiver sends six JOINs within it.
const LOSSY_QUIET_TIME: Duration = Duration::from_millis(500);
/// Time that a host may take to handle a packet.
const HOST_DELAY: Duration = Duration::from_millis(10);
/// Lower bound of the interval between the keepalives of a member.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(900);
/// Round trips that a quiet time is longer.
const ROUND_TRIPS: u32 = 4;
/// Divisor of the time that the data take, for the minimum of the quiet time.
const TRANSFER_SHARE: u32 = 4;
/// Number of invitations in a quiet time.
const INVITATIONS: u32 = 9;
/// Maximum number of nodes of which the time of a CHALLENGE is kept.
const MAX_CHALLENGED: usize = 256;
/// Maximum number of names of these, since a stranger can forge them.
const MAX_NAMES: usize = 8;
