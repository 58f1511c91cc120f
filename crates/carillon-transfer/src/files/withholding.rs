//! What a sender withholds of what receivers may have overheard.

use std::collections::VecDeque;

use carillon_core::{AssociationId, Bytes};
use carillon_wire::file::{Record, SESSIONS_MAX, Sessions};

/// Runs of messages that are pieces of one file each: a SPAN announces them, and when all have that they are withheld.
#[derive(Debug)]
pub(super) struct Withholding {
    /// The sessions in which they went by, as a SPAN has them.
    sessions: Vec<u8>,
    /// What is announced and not offered yet.
    left: u32,
    /// The announcement is under way: who has not got it would ask for everything.
    waits: bool,
    /// What the announcement that is to be offered says.
    announces: u32,
}

/// What is to be done with the next message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// This goes before it.
    Announce(Bytes),
    /// Nothing before all have the announcement.
    Wait,
    /// It goes out as far as somebody lacks it.
    Withhold,
    /// It goes out.
    Send,
}

impl Withholding {
    /// What went by in these sessions; of many the last.
    pub fn new(sessions: &[AssociationId]) -> Option<Self> {
        let last = &sessions[sessions.len().saturating_sub(SESSIONS_MAX)..];
        let sessions: Vec<u8> = last.iter().flat_map(|session| session.0.to_be_bytes()).collect();
        Sessions::new(&sessions)?;
        Some(Withholding { sessions, left: 0, waits: false, announces: 0 })
    }

    /// What becomes of the first of these; `has_all` if the protocol is done with everything before.
    pub fn next(&mut self, ready: &VecDeque<(Bytes, u64)>, has_all: bool) -> Turn {
        self.waits &= !has_all;
        match self.left {
            0 => {}
            _ if self.waits => return Turn::Wait,
            _ => return Turn::Withhold,
        }
        let Some((index, offset, step, count)) = run(ready) else { return Turn::Send };
        let Some(sessions) = Sessions::new(&self.sessions) else { return Turn::Send };
        let record = Record::Span { index, offset, step, count, sessions };
        let mut message = Vec::with_capacity(record.wire_len());
        record.emit(&mut message);
        self.announces = count;
        Turn::Announce(message.into())
    }

    /// The announcement was taken.
    pub fn announced(&mut self) {
        (self.left, self.waits) = (self.announces, true);
    }

    /// A message was taken.
    pub fn withheld(&mut self) {
        self.left -= 1;
    }
}

/// The first messages, as far as each is a piece of the same file, next to the one before, and of the same length: of which file, from where on, of how many bytes each, and how many.
fn run(ready: &VecDeque<(Bytes, u64)>) -> Option<(u32, u64, u32, u32)> {
    let pieces = ready.iter().map_while(|(message, _)| match Record::parse(message) {
        Ok(Record::Data { index, offset, bytes }) => Some((index, offset, bytes.len() as u32)),
        _ => None,
    });
    let mut pieces = pieces.peekable();
    let &(index, first, step) = pieces.peek()?;
    let follows =
        |(place, piece): &(u64, (u32, u64, u32))| *piece == (index, first + place * u64::from(step), step);
    let count = (0..).zip(pieces).take_while(follows).count() as u32;
    (step > 0 && count >= LEAST).then_some((index, first, step, count))
}

/// Shorter runs go out: to announce them takes a round trip.
const LEAST: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(record: &Record<'_>) -> (Bytes, u64) {
        let mut message = Vec::new();
        record.emit(&mut message);
        (message.into(), 0)
    }

    fn pieces(count: u64, step: usize) -> VecDeque<(Bytes, u64)> {
        let bytes = vec![1; step];
        let piece = |at: u64| Record::Data { index: 3, offset: 100 + at * step as u64, bytes: &bytes };
        (0..count).map(|at| message(&piece(at))).collect()
    }

    #[test]
    fn what_is_withheld_is_announced_and_waits_until_all_know() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let mut ready = pieces(70, 10);
        ready.push_back(message(&Record::Data { index: 3, offset: 800, bytes: b"last" }));
        let Turn::Announce(span) = withholding.next(&ready, false) else { panic!("it is announced") };
        let sessions = Sessions::new(&[0, 0, 0, 7]).unwrap();
        let expected = Record::Span { index: 3, offset: 100, step: 10, count: 70, sessions };
        assert_eq!(Record::parse(&span), Ok(expected));
        // Not before it was taken.
        assert!(matches!(withholding.next(&ready, true), Turn::Announce(_)));
        withholding.announced();
        assert_eq!(withholding.next(&ready, false), Turn::Wait);
        assert_eq!(withholding.next(&ready, true), Turn::Withhold);
        for _ in 0..70 {
            assert_eq!(withholding.next(&ready, false), Turn::Withhold);
            withholding.withheld();
            ready.pop_front();
        }
        assert_eq!(withholding.next(&ready, false), Turn::Send);
    }

    #[test]
    fn short_runs_go_out() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let mut turn = |ready: &VecDeque<(Bytes, u64)>| withholding.next(ready, true);
        assert_eq!(turn(&pieces(u64::from(LEAST) - 1, 10)), Turn::Send);
        assert_eq!(turn(&VecDeque::new()), Turn::Send);
        let mut broken = pieces(100, 10);
        broken.remove(50);
        assert_eq!(turn(&broken), Turn::Send);
        assert!(Withholding::new(&[]).is_none());
        let many: Vec<AssociationId> = (0..20).map(AssociationId).collect();
        assert!(Withholding::new(&many).is_some());
    }
}
