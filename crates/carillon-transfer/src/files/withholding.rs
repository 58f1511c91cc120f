//! What a sender withholds of what receivers may have overheard.

use std::collections::VecDeque;

use carillon_core::{AssociationId, Bytes};
use carillon_wire::file::{Record, SESSIONS_MAX, Sessions};

/// Runs of messages that are pieces of one file each: a SPAN announces them, and when all have that they are withheld.
///
/// That takes round trips, in which nothing else goes out. So it is tried with a short run first, and where most of it had to go out all the
/// same the next megabytes are just sent: who came late has nothing of the beginning, and all of the end.
#[derive(Debug)]
pub(super) struct Withholding {
    /// The sessions in which they went by, as a SPAN has them.
    sessions: Vec<u8>,
    /// What the announcement that is to be offered says.
    announces: u32,
    /// What is announced and not offered yet.
    left: u32,
    /// The announcement is under way: who has not got it would ask for everything.
    waits: bool,
    /// How long the run is that was announced last, and what had been sent again before it.
    run: (u32, u64),
    /// The last run that was offered as a whole, until it shows what of it went out.
    tried: Option<(u32, u64)>,
    /// Somebody had much of the last one.
    pays: bool,
    /// Bytes that are sent before it is tried again, and after the next time that it does not pay.
    plain: usize,
    pause: usize,
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
        Some(Withholding {
            sessions,
            announces: 0,
            left: 0,
            waits: false,
            run: (0, 0),
            tried: None,
            pays: false,
            plain: 0,
            pause: LEAST_PAUSE,
        })
    }

    /// What becomes of the first of these; `has_all` if the protocol is done with everything before, for which it has sent so many packets
    /// again.
    pub fn next(&mut self, ready: &VecDeque<(Bytes, u64)>, has_all: bool, repairs: u64) -> Turn {
        if has_all {
            self.judge(repairs);
            if std::mem::take(&mut self.waits) {
                self.run.1 = repairs;
            }
        }
        match self.left {
            // Whether it pays is not known.
            0 if self.tried.is_some() && !self.pays => return Turn::Wait,
            0 if self.plain > 0 => return Turn::Send,
            0 => {}
            _ if self.waits => return Turn::Wait,
            _ => return Turn::Withhold,
        }
        let Some((index, offset, step, count)) = run(ready) else { return Turn::Send };
        let Some(sessions) = Sessions::new(&self.sessions) else { return Turn::Send };
        self.announces = if self.pays { count } else { LEAST };
        let record = Record::Span { index, offset, step, count: self.announces, sessions };
        let mut message = Vec::with_capacity(record.wire_len());
        record.emit(&mut message);
        Turn::Announce(message.into())
    }

    /// Whether the last run was worth it.
    fn judge(&mut self, repairs: u64) {
        let Some((count, before)) = self.tried.take() else { return };
        self.pays = (repairs - before) * 4 < u64::from(count) * 3;
        if self.pays {
            self.pause = LEAST_PAUSE;
        } else {
            self.plain = self.pause;
            self.pause = (self.pause * 2).min(MOST_PAUSE);
        }
    }

    /// The announcement was taken.
    pub fn announced(&mut self) {
        (self.left, self.waits, self.run.0) = (self.announces, true, self.announces);
    }

    /// A message of so many bytes was taken, perhaps as one that is withheld.
    pub fn taken(&mut self, withheld: bool, bytes: usize) {
        if !withheld {
            self.plain = self.plain.saturating_sub(bytes);
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            self.tried = Some(self.run);
        }
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

/// Shorter runs go out: to announce them takes a round trip. It is tried with so many.
const LEAST: u32 = 64;
/// Bytes between two trials that did not pay: at first, and at most.
const LEAST_PAUSE: usize = 2 << 20;
const MOST_PAUSE: usize = 16 << 20;

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

    /// Takes one run as far as it is announced; how many messages it has, and what of them went out.
    fn take_run(
        withholding: &mut Withholding,
        ready: &mut VecDeque<(Bytes, u64)>,
        repairs: &mut u64,
        lacks: u64,
    ) -> u32 {
        let Turn::Announce(span) = withholding.next(ready, false, *repairs) else {
            panic!("it is announced")
        };
        let Ok(Record::Span { index: 3, step: 10, count, sessions, .. }) = Record::parse(&span) else {
            panic!()
        };
        assert!(sessions.iter().eq([AssociationId(7)]));
        // Not before it was taken, and all have it.
        assert!(matches!(withholding.next(ready, true, *repairs), Turn::Announce(_)));
        withholding.announced();
        assert_eq!(withholding.next(ready, false, *repairs), Turn::Wait);
        assert_eq!(withholding.next(ready, true, *repairs), Turn::Withhold);
        for _ in 0..count {
            assert_eq!(withholding.next(ready, false, *repairs), Turn::Withhold);
            let (message, _) = ready.pop_front().expect("a piece");
            withholding.taken(true, message.len());
        }
        *repairs += lacks;
        count
    }

    #[test]
    fn a_short_run_is_tried_and_where_it_pays_all_that_is_ready_is_withheld() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let (mut ready, mut repairs) = (pieces(1000, 10), 5);
        assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, 40), LEAST);
        // Not known yet.
        assert_eq!(withholding.next(&ready, false, repairs), Turn::Wait);
        assert!(matches!(withholding.next(&ready, true, repairs), Turn::Announce(_)));
        assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, 700), 1000 - LEAST);
        // While it shows what went out of that the next one is announced.
        ready = pieces(500, 10);
        assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, 0), 500);
        assert_eq!(withholding.next(&ready, true, repairs), Turn::Send, "it paid, and nothing is left");
    }

    #[test]
    fn where_it_does_not_pay_ever_more_is_sent_before_it_is_tried_again() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let (mut ready, mut repairs) = (pieces(1000, 10), 0);
        for pause in [2, 4, 8, 16, 16].map(|megabytes| megabytes << 20) {
            assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, LEAST.into()), LEAST);
            let mut sent = 0;
            while withholding.next(&ready, true, repairs) == Turn::Send {
                withholding.taken(false, 1 << 10);
                sent += 1 << 10;
            }
            assert_eq!(sent, pause);
        }
    }

    #[test]
    fn short_runs_go_out() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let mut turn = |ready: &VecDeque<(Bytes, u64)>| withholding.next(ready, true, 0);
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
