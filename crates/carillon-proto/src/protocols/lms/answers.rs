//! What a node that has messages does with requests for them: the source, or a replier.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use carillon_core::NodeId;
use carillon_wire::lms::{Request, TurningPoint};

/// The last requests heard and the answers that are due.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The newest is the last.
    heard: VecDeque<Key>,
    due: VecDeque<Answer>,
}

/// What makes two requests the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
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
    pub numbers: RangeInclusive<u64>,
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

/// Why no answer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request was heard before.
    Duplicate,
    /// Too many answers are due.
    Full,
}

impl Answers {
    /// A request came from a node, for messages of these numbers. Duplicates are those of the last
    /// ten with the same messages and turning point \[ns-2: LMS_RQL_MAX\]; other attempts are
    /// duplicates too unless `attempts_differ`.
    pub fn ask(
        &mut self,
        request: &Request,
        from: NodeId,
        numbers: RangeInclusive<u64>,
        attempts_differ: bool,
    ) -> Result<(), Refusal> {
        let key = Key {
            lo: request.lo,
            hi: request.hi,
            turning_point: request.turning_point,
            direct: request.direct.then_some(from),
            attempt: if attempts_differ { request.attempt } else { 0 },
        };
        if self.heard.contains(&key) {
            return Err(Refusal::Duplicate);
        }
        if self.due.len() >= MAX_DUE {
            return Err(Refusal::Full);
        }
        if self.heard.len() >= REMEMBERED {
            self.heard.pop_front();
        }
        self.heard.push_back(key);
        let to = match (request.direct, request.turning_point) {
            (true, _) => To::Node(from),
            (false, Some(point)) => To::TurningPoint(point),
            (false, None) => To::Group,
        };
        if !numbers.is_empty() {
            self.due.push_back(Answer { numbers, to, attempt: request.attempt, from });
        }
        Ok(())
    }

    /// From which message on the answer that is next is due.
    pub fn next(&self) -> Option<u64> {
        self.due.front().map(|answer| *answer.numbers.start())
    }

    /// The next message to be sent again, and the answer that it belongs to.
    pub fn pop(&mut self) -> Option<(u64, Answer)> {
        let answer = self.due.front_mut()?;
        let number = answer.numbers.next();
        let whole = answer.clone();
        if answer.numbers.is_empty() {
            self.due.pop_front();
        }
        number.map(|number| (number, whole))
    }

    /// Of the answer that is next, what comes before this message is not there: `None` if nothing of it is.
    pub fn skip_to(&mut self, held: Option<u64>) {
        let Some(answer) = self.due.front_mut() else { return };
        match held.filter(|held| answer.numbers.contains(held)) {
            Some(held) => answer.numbers = held..=*answer.numbers.end(),
            None => _ = self.due.pop_front(),
        }
    }

    /// Whether none is due.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

/// Requests and repairs that are remembered \[ns-2: LMS_RQL_MAX, LMS_RDL_MAX\].
pub(super) const REMEMBERED: usize = 10;

/// Requests that may wait for their answer.
const MAX_DUE: usize = 64;
