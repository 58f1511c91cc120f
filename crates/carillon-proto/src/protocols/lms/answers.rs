//! Pending answers of the source or of a replier to LMS requests, and their destinations.

use std::ops::RangeInclusive;

use carillon_core::{Events, NodeId};
use carillon_wire::lms::{Request, TurningPoint};

use crate::blocks::{DueAnswers, near};

/// Recent requests and pending answers. Two requests are equal if they ask for the same messages with the same
/// destination and the same attempt; the attempt is 0 if all attempts are to be equal.
pub(super) type Answers = DueAnswers<(u32, u32, To, u32), Answer>;

/// Answer to a request: messages to send again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub to: To,
    /// Attempt number of the request.
    pub attempt: u32,
    /// Node that sent or forwarded the request.
    pub from: NodeId,
}

/// Destination of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Router that multicasts the repair on one of its interfaces.
    TurningPoint(TurningPoint),
    /// Node that asked the source directly.
    Node(NodeId),
    /// Group, if the request had no turning point.
    Group,
}

/// First and last message of a request; numbers are expanded near `expected`.
pub(super) fn asked_for(request: &Request, expected: u64) -> (u64, u64) {
    let lo = near(request.lo, expected);
    (lo, lo + u64::from(request.hi.wrapping_sub(request.lo)))
}

/// Handles a request for the messages `numbers`. A request equal to one of the last ten is a duplicate \[ns-2:
/// LMS_RQL_MAX\]; other attempts are duplicates too unless `attempts_differ`.
pub(super) fn ask(
    answers: &mut Answers,
    events: &mut Events,
    request: &Request,
    from: NodeId,
    numbers: RangeInclusive<u64>,
    attempts_differ: bool,
) {
    let Request { lo, hi, attempt, .. } = *request;
    let to = match (request.direct, request.turning_point) {
        (true, _) => To::Node(from),
        (false, Some(point)) => To::TurningPoint(point),
        (false, None) => To::Group,
    };
    let key = (lo, hi, to, if attempts_differ { attempt } else { 0 });
    if let Err(reason) = answers.request(key, numbers, Answer { to, attempt, from }) {
        events.dropped(reason);
    }
}

/// Number of requests and repairs that are remembered \[ns-2: LMS_RQL_MAX, LMS_RDL_MAX\].
pub(super) const MAX_REMEMBERED_RANGES: usize = 10;

/// Maximum number of pending answers; it bounds the memory that requests can take.
pub(super) const MAX_PENDING_ANSWERS: usize = 64;
