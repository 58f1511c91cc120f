//! Confirmation by all members of a very large group: a census.
//!
//! A poll that names members reaches the whole group and asks 256 of it. Polling everybody by name thus costs a packet
//! to all for every 256 members. A census asks all of them by one POLL: each member sends a STATUS at a random time
//! within a span. The sender begins with a span in which few answers come at a time, and repeats the POLL with another
//! one as the answers show what the return paths carry. Members that stay silent are polled by name afterwards.

use std::time::Duration;

use carillon_core::{Time, Transmit};
use carillon_wire::carillon::{ClosedBlocks, Packet, Poll, PolledReceivers};

use super::blocks::Blocks;
use super::context::{Context, micros};
use crate::blocks::PollWindow;

/// The census in progress, if any.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Number of the last census, from 1 on.
    number: u32,
    /// Message before which everything was to be confirmed in it.
    end: u64,
    /// Number of members that had not confirmed when it began.
    unconfirmed: usize,
    phase: Phase,
}

/// Phase of a census.
#[derive(Debug, Default)]
enum Phase {
    /// No census is in progress.
    #[default]
    Idle,
    /// Members answer.
    Counting(Stage),
    /// Members that have not confirmed are polled by name, until this time.
    Naming(Time),
}

/// Time between two POLLs of a census.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// Time of its POLL.
    at: Time,
    /// Time over which the answers are spread.
    span: Duration,
    /// Number of members that were still to answer.
    pending: f64,
    /// Number of answers since.
    answers: usize,
    /// Time at which the answers are counted.
    check: Time,
}

/// Next action of the sender for a census.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Asks all members to answer within this time.
    Ask(Duration),
    /// Waits until this time.
    Wait(Time),
    /// Polls members by name.
    Name,
}

impl Census {
    /// Message before which everything is to be confirmed.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns true from the beginning of a census until it is over.
    pub fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// Begins a census of a group of this size about everything before `end`. Few unconfirmed members, and those that
    /// an earlier census did not halve, are polled by name.
    pub fn begin(&mut self, now: Time, end: u64, (unconfirmed, group): (usize, usize), trip: Duration) {
        let before = if self.end == end { self.unconfirmed } else { usize::MAX };
        (self.end, self.unconfirmed) = (end, unconfirmed);
        if unconfirmed <= MAX_NAMED || unconfirmed > before / 2 {
            self.phase = Phase::Naming(now + (trip * TRIPS_OF_NAMING).max(MIN_NAMING));
            return;
        }
        self.number = self.number.wrapping_add(1).max(1);
        // Those that have confirmed answer too. Nothing is asked yet, which the first step changes.
        let (span, pending) = (Duration::ZERO, group as f64);
        self.phase = Phase::Counting(Stage { at: now, span, pending, answers: 0, check: now });
    }

    /// Counts an answer. Returns true if a census is in progress.
    pub fn on_answer(&mut self) -> bool {
        let Phase::Counting(stage) = &mut self.phase else { return false };
        stage.answers += 1;
        true
    }

    /// Returns what to do now; none if no census is in progress. The window says how many answers may come in a round
    /// trip, and learns of missing ones. Random loss takes the share `lost` of them.
    pub fn step(&mut self, now: Time, trip: Duration, window: &mut PollWindow, lost: f64) -> Option<Step> {
        let stage = match &mut self.phase {
            Phase::Counting(stage) => stage,
            Phase::Idle => return None,
            Phase::Naming(_) => return Some(Step::Name),
        };
        let is_asked = !stage.span.is_zero();
        if now < stage.check {
            return Some(Step::Wait(stage.check.min(stage.over(trip))));
        }
        if is_asked {
            let missing = stage.missing(now, trip);
            (0..missing).for_each(|_| window.on_no_answer(lost, missing));
        }
        let passed = now.since(stage.at);
        let pending = stage.pending * if is_asked { 1.0 - share(passed, stage.span) } else { 1.0 };
        let (planned, span) = (stage.span.saturating_sub(passed), span(pending, window.limit(), trip));
        let is_other = span * 3 < planned * 2 || span * 2 > planned * 3;
        let span = if is_other { span } else { planned };
        *stage = Stage { at: now, span, pending, answers: 0, check: now + trip * TRIPS_PER_STAGE };
        Some(if is_other { Step::Ask(span) } else { Step::Wait(stage.check.min(stage.over(trip))) })
    }

    /// Writes the POLL that asks all members to answer within this time.
    pub fn poll(
        &self,
        context: &mut Context,
        blocks: &Blocks,
        span: Duration,
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let (next, first) = blocks.poll_range();
        let poll = Poll { next, first, question: self.number, after: 0, span: micros(span) };
        let (blocks, asked) = (ClosedBlocks::new(&[]), PolledReceivers::new(&[]));
        Packet::Poll { poll, blocks, asked }.emit(context.association, buf);
        context.events.control("poll", self.end.saturating_sub(1));
        context.to_group()
    }

    /// Goes on when the last answer is due. Ends the census if all members have confirmed, or after a time in which
    /// each was polled by name.
    pub fn continue_with(&mut self, now: Time, (unconfirmed, group): (usize, usize), trip: Duration) {
        match self.phase {
            Phase::Naming(until) if unconfirmed == 0 || now >= until => self.phase = Phase::Idle,
            Phase::Counting(stage) if !stage.span.is_zero() && now >= stage.over(trip) => {
                self.begin(now, self.end, (unconfirmed, group), trip);
            }
            Phase::Idle | Phase::Counting(_) | Phase::Naming(_) => {}
        }
    }

    /// Ends the census.
    pub fn clear(&mut self) {
        self.phase = Phase::Idle;
    }
}

impl Stage {
    /// Time at which the last answer is due.
    fn over(&self, trip: Duration) -> Time {
        self.at + self.span + trip * 2
    }

    /// Number of answers that are due in this stage and missing.
    fn missing(&self, now: Time, trip: Duration) -> usize {
        let due = self.pending * share(now.since(self.at).saturating_sub(trip), self.span);
        (due as usize).saturating_sub(self.answers)
    }
}

/// Share of a span that has passed.
fn share(passed: Duration, span: Duration) -> f64 {
    (passed.as_secs_f64() / span.as_secs_f64().max(1e-9)).min(1.0)
}

/// Time over which this many members spread their answers, so that `limit` come in a round trip.
fn span(members: f64, limit: usize, trip: Duration) -> Duration {
    let trips = members / limit.max(1) as f64;
    trip.mul_f64(trips.max(1.0)).min(MAX_SPAN)
}

/// Number of members up to which polls by name are cheaper than a census: 16 polls reach as many members as the polls
/// and answers of a census do.
const MAX_NAMED: usize = 4096;
/// Longest span of a census. Receivers accept no longer one.
pub(super) const MAX_SPAN: Duration = Duration::from_secs(600);
/// Round trips after which the answers of a stage are counted: one until the first arrives, and two of answers.
const TRIPS_PER_STAGE: u32 = 3;
/// Round trips, at least [`MIN_NAMING`], for polls by name before the next census.
const TRIPS_OF_NAMING: u32 = 20;
/// See [`TRIPS_OF_NAMING`].
const MIN_NAMING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(20);

    fn started(end: u64, group: usize) -> Census {
        let mut census = Census::default();
        census.begin(Time::ZERO, end, (group, group), TRIP);
        census
    }

    fn stage(census: &Census) -> Stage {
        let Phase::Counting(stage) = census.phase else { panic!("{census:?}") };
        stage
    }

    /// Has a group confirm. This share of the answers arrives, and no more than `most` in a round trip. Returns the
    /// duration, the number of POLLs, the greatest number of answers in a round trip, and the number of members left
    /// to be polled by name.
    fn taken(group: usize, arriving: f64, most: f64) -> (Duration, u32, f64, usize) {
        let (mut census, mut now, mut window) = (started(1, group), Time::ZERO, PollWindow::default());
        let (mut polls, mut densest, mut left) = (0, 0f64, group as f64);
        loop {
            census.continue_with(now, (left as usize, group), TRIP);
            match census.step(now, TRIP, &mut window, 1.0 - arriving).expect("it runs") {
                Step::Ask(_) => polls += 1,
                Step::Wait(at) => {
                    let Stage { at: from, span, pending, .. } = stage(&census);
                    assert!(at > now, "{census:?}");
                    let dense = pending / span.as_secs_f64() * TRIP.as_secs_f64();
                    densest = densest.max(dense);
                    // Answers begin to arrive a round trip after the POLL. Some come from members that have confirmed.
                    let part = share(at.since(from).saturating_sub(TRIP), span);
                    let answers = pending * part * arriving * (most / dense).min(1.0);
                    left -= answers * census.unconfirmed as f64 / group as f64;
                    for _ in 0..answers as usize {
                        assert!(census.on_answer());
                        window.on_answer(group);
                    }
                    now = at;
                }
                Step::Name => return (now.since(Time::ZERO), polls, densest, left as usize),
            }
        }
    }

    #[test]
    fn a_million_members_are_asked_by_few_polls() {
        let (took, polls, densest, left) = taken(1_000_000, 0.94, f64::INFINITY);
        assert!(took < TRIP * 100, "{took:?}");
        assert!((5..30).contains(&polls) && left < MAX_NAMED, "{polls}, {left}");
        assert!((100_000.0..260_000.0).contains(&densest), "{densest}");
    }

    #[test]
    fn answers_come_as_fast_as_the_path_carries() {
        let (took, polls, densest, _) = taken(100_000, 0.94, 2000.0);
        assert!(densest < 12_000.0, "{densest}");
        assert!(took > TRIP * 20 && took < TRIP * 200, "{took:?}");
        assert!(polls < 30, "{polls}");
    }

    #[test]
    fn few_members_are_polled_by_name() {
        let (mut census, mut window) = (started(1, MAX_NAMED), PollWindow::default());
        assert_eq!(census.step(Time::ZERO, TRIP, &mut window, 0.0), Some(Step::Name));
        assert!(!census.on_answer() && census.number == 0);
        census.continue_with(Time::ZERO, (3, 5000), TRIP);
        assert!(census.is_running());
        census.continue_with(Time::ZERO + MIN_NAMING, (3, 5000), TRIP);
        assert!(!census.is_running());
        assert_eq!(census.step(Time::ZERO, TRIP, &mut window, 0.0), None);
    }

    #[test]
    fn a_census_is_repeated_while_it_halves_the_rest() {
        let mut window = PollWindow::default();
        let mut census = started(9, 100_000);
        let mut begin = |end, unconfirmed| {
            census.begin(Time::ZERO, end, (unconfirmed, 100_000), TRIP);
            let step = census.step(Time::ZERO, TRIP, &mut window, 0.0);
            (matches!(step, Some(Step::Ask(_))), census.number)
        };
        assert_eq!(begin(9, 40_000), (true, 2));
        assert_eq!(begin(9, 30_000), (false, 2), "it helps little");
        assert_eq!(begin(10, 30_000), (true, 3), "it is about more");
    }

    #[test]
    fn missing_answers_are_counted_after_a_round_trip() {
        let (mut census, mut window) = (started(1, 5120), PollWindow::default());
        assert_eq!(census.step(Time::ZERO, TRIP, &mut window, 0.0), Some(Step::Ask(TRIP * 20)));
        (0..100).for_each(|_| assert!(census.on_answer()));
        let stage = stage(&census);
        assert_eq!(stage.missing(Time::ZERO + TRIP, TRIP), 0);
        // Two of twenty parts are due.
        assert_eq!(stage.missing(Time::ZERO + TRIP * 3, TRIP), 411);
    }
}
