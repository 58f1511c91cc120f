//! The requests of LMS that are answered, by the source or a replier, and where their answers go.

use std::ops::RangeInclusive;

use carillon_core::{Events, NodeId};
use carillon_wire::lms::{Request, TurningPoint};

use crate::blocks::{DueAnswers, near};

/// The last requests heard and the answers that are due. Two requests are the same if they ask for the same messages, are
/// answered alike and are the same attempt: 0 where further attempts are the same.
pub(super) type Answers = DueAnswers<(u32, u32, To, u32), Answer>;

/// Messages to be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub to: To,
    /// Of the request that it answers.
    pub attempt: u32,
    /// Who sent that, or sent it on.
    pub from: NodeId,
}

/// Where a repair goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// To this router, which multicasts it on one of its interfaces.
    TurningPoint(TurningPoint),
    /// To the node that asked the source itself.
    Node(NodeId),
    /// To the group: the request turned nowhere.
    Group,
}

/// The first and the last message that a request asks for, at a node that expects this one.
pub(super) fn asked_for(request: &Request, expected: u64) -> (u64, u64) {
    let lo = near(request.lo, expected);
    (lo, lo + u64::from(request.hi.wrapping_sub(request.lo)))
}

/// A request came from a node, for messages of these numbers. Duplicates are those of the last
/// ten with the same messages and turning point \[ns-2: LMS_RQL_MAX\]; other attempts are
/// duplicates too unless `attempts_differ`.
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

/// Requests and repairs that are remembered \[ns-2: LMS_RQL_MAX, LMS_RDL_MAX\].
pub(super) const MAX_REMEMBERED_RANGES: usize = 10;

/// Requests that may wait for their answer.
pub(super) const MAX_PENDING_ANSWERS: usize = 64;
