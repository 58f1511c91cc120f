//! The requests of LMS that are answered, by the source or a replier, and where their answers go.

use std::ops::RangeInclusive;

use carillon_core::{DropReason, NodeId};
use carillon_wire::lms::{Request, TurningPoint};

use crate::blocks::{DueAnswers, Refusal};

/// The last requests heard and the answers that are due.
pub(super) type Answers = DueAnswers<Key, Answer>;

/// What makes two requests the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    lo: u32,
    hi: u32,
    turning_point: Option<TurningPoint>,
    /// Who sent it, if it is to be answered alone.
    direct: Option<NodeId>,
    /// Always 0 where further attempts are the same.
    attempt: u32,
}

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

/// A request came from a node, for messages of these numbers. Duplicates are those of the last
/// ten with the same messages and turning point \[ns-2: LMS_RQL_MAX\]; other attempts are
/// duplicates too unless `attempts_differ`.
pub(super) fn ask(
    answers: &mut Answers,
    request: &Request,
    from: NodeId,
    numbers: RangeInclusive<u64>,
    attempts_differ: bool,
) -> Result<(), DropReason> {
    let key = Key {
        lo: request.lo,
        hi: request.hi,
        turning_point: request.turning_point,
        direct: request.direct.then_some(from),
        attempt: if attempts_differ { request.attempt } else { 0 },
    };
    let to = match (request.direct, request.turning_point) {
        (true, _) => To::Node(from),
        (false, Some(point)) => To::TurningPoint(point),
        (false, None) => To::Group,
    };
    let answer = Answer { to, attempt: request.attempt, from };
    answers.ask(key, numbers, answer).map_err(|refusal| match refusal {
        Refusal::Duplicate => DropReason::Redundant,
        Refusal::Full => DropReason::BufferFull,
    })
}

/// Requests and repairs that are remembered \[ns-2: LMS_RQL_MAX, LMS_RDL_MAX\].
pub(super) const REMEMBERED: usize = 10;

/// Requests that may wait for their answer.
pub(super) const MAX_DUE: usize = 64;
