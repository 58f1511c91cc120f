//! What a member is about to do for one message: ask for it, or repair it.

use carillon_core::Time;

use crate::blocks::{Distance, Reach};

/// A request object.
#[derive(Debug)]
pub(super) struct Request {
    /// When the loss was found.
    pub since: Time,
    pub distance: Distance,
    /// The constants when the loss was found: they hold for all rounds.
    pub c1: f64,
    pub c2: f64,
    /// Request timers set, counted from the first time that the message was missed.
    pub round: u32,
    /// Requests for it are heard and nothing more until then (ignore-backoff).
    pub ignore_until: Option<Time>,
}

/// A repair object.
#[derive(Debug)]
pub(super) struct Repair {
    /// When the request came.
    pub since: Time,
    /// Rank of the member that asked.
    pub requester: u32,
    /// To that member.
    pub distance: Distance,
    pub round: u32,
    /// This member has sent it.
    pub is_sent: bool,
    /// How far it goes: to the group in any case.
    pub reach: Reach,
}
