//! Withholding of data that receivers may have overheard.

use std::collections::VecDeque;

use carillon_core::{AssociationId, Bytes, Time};
use carillon_wire::file::{Record, SESSIONS_MAX, Sessions};

/// Announces runs of messages with pieces of one file in a SPAN, and withholds them once every receiver has the
/// announcement.
///
/// An announcement costs round trips without other data. A short run is therefore tried first. If most of it had to
/// be sent anyway, the following data is sent normally, for the duration of the trial plus half of the time since
/// withholding last helped. A late receiver misses the beginning of a file and has overheard its end.
#[derive(Debug)]
pub(super) struct Withholding {
    /// Overheard sessions, encoded for a SPAN.
    sessions: Vec<u8>,
    /// Number of messages in the announcement at the head of the queue, if there is one.
    announces: u32,
    /// Announced messages that were not offered yet.
    left: u32,
    /// True while the announcement is in flight: a receiver without it would request everything.
    waits: bool,
    /// Last announced run: its length, the repair count before it, and the time of the announcement.
    run: (u32, u64),
    began: Time,
    /// Last run that was offered in full, until its repairs are known.
    tried: Option<(u32, u64)>,
    /// True if receivers had most of the last run.
    pays: bool,
    /// Time at which withholding last helped or began, and the time of the next trial if it did not.
    paid: Option<Time>,
    until: Time,
}

/// Decision about the first message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Offer nothing until every receiver has the announcement.
    Wait,
    /// Offer it as withheld: only missing parts are sent.
    Withhold,
    /// Send it.
    Send,
}

impl Withholding {
    /// Creates the state for these overheard sessions, of which the latest are used.
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
            began: Time::ZERO,
            tried: None,
            pays: false,
            paid: None,
            until: Time::ZERO,
        })
    }

    /// Decides about the first message, and may insert an announcement before it. `has_all` is true if the protocol
    /// has released everything before; `repairs` is its repair count.
    pub fn next(
        &mut self,
        now: Time,
        ready: &mut VecDeque<(Bytes, u64)>,
        has_all: bool,
        repairs: u64,
    ) -> Turn {
        // Everything before is released, so the repairs of the last run are complete.
        if has_all {
            self.judge(now, repairs);
            if std::mem::take(&mut self.waits) {
                self.run.1 = repairs;
            }
        }
        match self.left {
            // An announcement at the head goes out first.
            _ if self.announces > 0 => return Turn::Send,
            // The result of the last trial is still unknown.
            0 if self.tried.is_some() && !self.pays => return Turn::Wait,
            0 if now < self.until => return Turn::Send,
            0 => {}
            _ if self.waits => return Turn::Wait,
            _ => return Turn::Withhold,
        }
        // Announce the next run: all of it after a success, otherwise only a short trial.
        let Some((index, offset, step, count)) = run(ready) else { return Turn::Send };
        let Some(sessions) = Sessions::new(&self.sessions) else { return Turn::Send };
        self.announces = if self.pays { count } else { least(step) };
        let record = Record::Span { index, offset, step, count: self.announces, sessions };
        let mut message = Vec::with_capacity(record.wire_len());
        record.emit(&mut message);
        ready.push_front((message.into(), 0));
        Turn::Send
    }

    /// Evaluates the last run.
    fn judge(&mut self, now: Time, repairs: u64) {
        let Some((count, before)) = self.tried.take() else { return };
        // Withholding pays if less than three quarters of the run had to be sent as repairs.
        self.pays = (repairs - before) * 4 < u64::from(count) * 3;
        if self.pays {
            self.paid = Some(now);
        } else {
            // After a failure pause for half of the time without success, at least as long as the trial took.
            let so_far = now.since(*self.paid.get_or_insert(self.began));
            self.until = now + (so_far / 2).max(now.since(self.began));
        }
    }

    /// Called after the first message was accepted.
    pub fn taken(&mut self, now: Time) {
        if self.announces > 0 {
            self.left = std::mem::take(&mut self.announces);
            (self.waits, self.run.0, self.began) = (true, self.left, now);
        } else if self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                self.tried = Some(self.run);
            }
        }
    }
}

/// Returns the run at the head of the queue: adjacent pieces of one file with equal length. The result has entry,
/// offset, length of a piece and number of pieces.
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
    (step > 0 && count >= least(step)).then_some((index, first, step, count))
}

/// Minimum number of pieces of this length in a run, as an announcement costs a round trip. Trials use this number.
fn least(step: u32) -> u32 {
    (MIN_RUN_BYTES / step).clamp(MIN_RUN, MIN_SHORT_RUN)
}

/// Minimum bytes of a run: a few long pieces are as costly to send needlessly as many short ones.
const MIN_RUN_BYTES: u32 = 128 << 10;
const MIN_RUN: u32 = 8;
const MIN_SHORT_RUN: u32 = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TEST_TIME: Time = Time::from_nanos(1_000_000);

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

    /// Number of messages in the announcement at the head of the queue, if there is one.
    fn announced(ready: &VecDeque<(Bytes, u64)>) -> Option<u32> {
        match Record::parse(&ready.front()?.0) {
            Ok(Record::Span { index: 3, step: 10, count, sessions, .. }) => {
                assert!(sessions.iter().eq([AssociationId(7)]));
                Some(count)
            }
            _ => None,
        }
    }

    /// Takes the announced run and returns its length; `repairs` packets are sent for it.
    fn take_run(
        withholding: &mut Withholding,
        ready: &mut VecDeque<(Bytes, u64)>,
        repairs: &mut u64,
        lacks: u64,
    ) -> Option<u32> {
        assert_eq!(withholding.next(TEST_TIME, ready, false, *repairs), Turn::Send);
        let count = announced(ready)?;
        // The run follows after the announcement was accepted and every receiver has it.
        assert_eq!(withholding.next(TEST_TIME, ready, true, *repairs), Turn::Send);
        take(withholding, ready);
        assert_eq!(withholding.next(TEST_TIME, ready, false, *repairs), Turn::Wait);
        assert_eq!(withholding.next(TEST_TIME, ready, true, *repairs), Turn::Withhold);
        for _ in 0..count {
            assert_eq!(withholding.next(TEST_TIME, ready, false, *repairs), Turn::Withhold);
            take(withholding, ready);
        }
        *repairs += lacks;
        Some(count)
    }

    fn take(withholding: &mut Withholding, ready: &mut VecDeque<(Bytes, u64)>) {
        withholding.taken(TEST_TIME);
        ready.pop_front();
    }

    #[test]
    fn withholding_grows_after_a_short_run_pays() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let (mut ready, mut repairs) = (pieces(1000, 10), 5);
        assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, 40), Some(MIN_SHORT_RUN));
        // The result is unknown.
        assert_eq!(withholding.next(TEST_TIME, &mut ready, false, repairs), Turn::Wait);
        assert_eq!(withholding.next(TEST_TIME, &mut ready, true, repairs), Turn::Send);
        assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, 700), Some(1000 - MIN_SHORT_RUN));
        // The next run is announced while the repairs of this one are counted.
        ready = pieces(500, 10);
        assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, 0), Some(500));
        assert_eq!(take_run(&mut withholding, &mut ready, &mut repairs, 0), None, "nothing is left");
    }

    #[test]
    fn withholding_pauses_after_a_run_without_gain() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let (mut ready, mut repairs) = (pieces(1000, 10), 0);
        assert_eq!(
            take_run(&mut withholding, &mut ready, &mut repairs, MIN_SHORT_RUN.into()),
            Some(MIN_SHORT_RUN)
        );
        // The first trial takes ten milliseconds, later ones no time.
        for (from, until) in [(10, 20), (20, 30), (30, 45), (45, 68)] {
            let millis = |millis| TEST_TIME + Duration::from_millis(millis);
            for (at, is_tried) in [(from, false), (until - 1, false), (until, true)] {
                assert_eq!(withholding.next(millis(at), &mut ready, true, repairs), Turn::Send);
                assert_eq!(announced(&ready).is_some(), is_tried, "at {at} ms");
            }
            withholding.taken(millis(until));
            ready.pop_front();
            assert_eq!(withholding.next(millis(until), &mut ready, true, repairs), Turn::Withhold);
            (0..MIN_SHORT_RUN).for_each(|_| withholding.taken(millis(until)));
            repairs += u64::from(MIN_SHORT_RUN);
        }
    }

    #[test]
    fn few_long_pieces_are_tried() {
        assert_eq!([1, 1400, 2048, 8192, 20_000, 65_000].map(least), [64, 64, 64, 16, 8, 8]);
    }

    #[test]
    fn short_runs_go_out() {
        let mut withholding = Withholding::new(&[AssociationId(7)]).expect("a session");
        let mut broken = pieces(100, 10);
        broken.remove(50);
        for mut ready in [pieces(u64::from(MIN_SHORT_RUN) - 1, 10), VecDeque::new(), broken] {
            let before = ready.len();
            assert_eq!(withholding.next(TEST_TIME, &mut ready, true, 0), Turn::Send);
            assert_eq!(ready.len(), before);
        }
        assert!(Withholding::new(&[]).is_none());
        let many: Vec<AssociationId> = (0..20).map(AssociationId).collect();
        assert!(Withholding::new(&many).is_some());
    }
}
