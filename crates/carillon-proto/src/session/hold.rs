//! Who holds the sender up: for how long, and whether for too long.
//!
//! The sender looks at its members at every tick, of which there are [`TICKS`] in a member timeout.
//! Time counts against a member while the protocol waits for it, nothing new goes out, and it has
//! acknowledged nothing since the tick before. What the sender itself is the cause of does not count:
//! its rate, and the time in which it was not running.

use carillon_core::{Duration, PathMeasure};

/// What the sender keeps of a member's holding it up.
#[derive(Clone, Debug, Default)]
pub(super) struct Hold {
    /// It was awaited at the last tick.
    pub awaited: bool,
    /// Messages it had acknowledged by then.
    acknowledged: u64,
    /// For so long, and so many ticks, it has been awaited and has acknowledged nothing.
    pub stalled: (Duration, u32),
    /// The last ticks, the newest lowest: whether it was awaited in them.
    awaited_in: u128,
    /// The same: whether it kept others waiting that had what it has not.
    held_in: u128,
    /// The last ticks: whether most of the others had all that was sent, and it had not, though it got on perhaps; or its path bounded what was sent.
    behind_in: u128,
    /// Those of them in which it had, since the session began, next to nothing of what most have.
    far_behind_in: u128,
    /// All the time that it held the sender up.
    waited: Duration,
    /// The path to it, as it was last measured.
    pub path: Option<PathMeasure>,
    /// For how long its path had bounded what went out by then, at the last tick.
    pub held_before: Duration,
    /// Packets sent when it was asked what it had answered by then.
    pub answered_before: u64,
    /// In the last tick most of the others waited for it, since it leaves questions unanswered.
    pub keeps_waiting: bool,
}

/// How a member stands, for whoever watches the session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Since it was last heard; the time in which the sender was not running does not count.
    pub silent: Duration,
    /// The protocol waited for it when the members were last looked at.
    pub awaited: bool,
    /// The path to it, as it was measured last, if the protocol measures paths.
    pub path: Option<PathMeasure>,
}

/// What happened between two looks at the members.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick {
    /// Its length, without what the sender itself is the cause of.
    pub counted: Duration,
    /// Nothing new went out.
    pub quiet: bool,
    /// There is more to send, or this is the last of it.
    pub wanting: bool,
    /// A member is not waited for.
    pub free: bool,
    /// Most are not.
    pub mostly_free: bool,
    /// What most have acknowledged.
    pub usual: u64,
    /// The member has answered, or was asked in vain: what it has acknowledged is about what it has.
    pub is_known: bool,
}

/// Whether a member is behind the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Its path bounds what goes out.
    Bounds,
    /// If it is awaited and most others are not.
    IfAwaited,
    /// It answers, has room, and has about what the others have: what it lacks is what was lost last.
    No,
}

impl Tick {
    /// Whether a member that is awaited or not was what most others waited for.
    pub fn holds(self, awaited: bool) -> bool {
        awaited && self.quiet && self.wanting && self.mostly_free && !self.counted.is_zero()
    }
}

/// How a member's path bounded what went out since the last tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// The member's.
    pub index: usize,
    /// For so long it did.
    pub held: Duration,
    /// Packets wait in its queues for so long.
    pub queued: Duration,
    /// And take so long there and back.
    pub round_trip: Duration,
}

impl Bound {
    /// The one whose path alone did, if packets wait in its queues and hardly in those of most others:
    /// where packets are lost at random hardly anybody ever has all that was sent, so that this tells who is slow.
    pub fn alone(bounds: &[Bound], elapsed: Duration) -> Option<usize> {
        let most = bounds.iter().max_by_key(|bound| bound.held)?;
        let all: Duration = bounds.iter().map(|bound| bound.held).sum();
        let mut queues: Vec<Duration> = bounds.iter().map(|bound| bound.queued).collect();
        queues.sort_unstable();
        let usual = queues[(queues.len() - 1) / 2];
        let least = LEAST_QUEUED.max(most.round_trip / QUEUED_PART);
        let alone = bounds.len() > 1 && most.held * 2 >= elapsed && most.held * 4 >= all * 3;
        (alone && most.queued >= least.max(usual * MUCH_LONGER)).then_some(most.index)
    }
}

impl Hold {
    /// Takes in what a tick shows of the member: whether the protocol waits for it, whether it is behind if so, and what it has acknowledged.
    pub fn note(&mut self, tick: Tick, awaited: bool, behind: Behind, acknowledged: u64) {
        let got_on = self.acknowledged != acknowledged;
        let all_along = awaited && self.awaited;
        (self.awaited, self.acknowledged) = (awaited, acknowledged);
        self.awaited_in = self.awaited_in << 1 | u128::from(all_along && tick.wanting);
        self.held_in <<= 1;
        let is_behind = match behind {
            Behind::Bounds => true,
            Behind::IfAwaited => all_along && tick.mostly_free,
            Behind::No => false,
        };
        let is_behind = is_behind && tick.wanting && !tick.counted.is_zero();
        self.behind_in = self.behind_in << 1 | u128::from(is_behind);
        let is_far = tick.is_known && acknowledged.saturating_mul(FAR) < tick.usual;
        self.far_behind_in = self.far_behind_in << 1 | u128::from(is_behind && is_far);
        if !all_along || got_on {
            self.stalled = (Duration::ZERO, 0);
        } else if tick.quiet {
            self.stalled.0 += tick.counted;
            self.stalled.1 = self.stalled.1.saturating_add(1);
            self.waited += match self.stalled.1.cmp(&NOTED) {
                std::cmp::Ordering::Less => Duration::ZERO,
                std::cmp::Ordering::Equal => self.stalled.0,
                std::cmp::Ordering::Greater => tick.counted,
            };
            let ticks = match self.stalled.1.cmp(&STALL) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => STALL,
                std::cmp::Ordering::Greater => 1,
            };
            if tick.free && !tick.counted.is_zero() {
                self.held_in |= (1 << ticks) - 1;
            }
        }
    }

    /// How long it has held the sender up.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether it has acknowledged more than the first messages, which may be shorter than the rest.
    pub fn got_on(&self) -> bool {
        self.acknowledged > FIRST
    }

    pub fn held(&self) -> u32 {
        (self.held_in & WINDOW_MASK).count_ones()
    }

    fn behind(&self) -> u32 {
        (self.behind_in & LANE_MASK).count_ones()
    }

    /// In how many of the last ticks it made most of the others wait, if those are so many that it is left behind.
    pub fn left_behind(&self) -> Option<u32> {
        let behind = self.behind();
        let far_behind = (self.far_behind_in & LANE_MASK).count_ones();
        (behind >= MOST_BEHIND || far_behind >= MOST_FAR_BEHIND).then_some(behind)
    }

    pub fn awaited_for(&self) -> u32 {
        (self.awaited_in & WINDOW_MASK).count_ones()
    }
}

/// Messages that say little: a network that carries no long datagrams may carry these.
const FIRST: u64 = 8;
/// Looks at the members in a member timeout.
pub(super) const TICKS: u32 = 20;
/// The sender was held up if it was for this many ticks: a round trip or a repair is not worth telling.
const NOTED: u32 = 2;
/// Others were kept waiting if they were for this many: 2 s of 5. With a fifth of all lost both ways at
/// each port a message and its acknowledgment get through in two tries of five, so that at four tries a
/// second most of the time passes without progress, but a tenth of it in pauses this long.
const STALL: u32 = 8;
/// Ticks over which a member's pace is judged: four member timeouts.
pub(super) const WINDOW: u32 = 4 * TICKS;
const WINDOW_MASK: u128 = (1 << WINDOW) - 1;
/// A member that kept the others waiting in so many of them is given up: half.
pub(super) const MOST_HELD: u32 = WINDOW / 2;
/// A member is too slow only if it was awaited in so many of them: three quarters.
pub(super) const MOST_AWAITED: u32 = WINDOW / 4 * 3;
/// Ticks over which it is judged whether a member makes most of the others wait: the time of most repairs, and a few more.
pub(super) const LANE_WINDOW: u32 = 8;
const LANE_MASK: u128 = (1 << LANE_WINDOW) - 1;
/// It does if it is behind in so many of them: three quarters.
const MOST_BEHIND: u32 = 6;
/// One that has less than this part of what most have is behind from the beginning on, and has no bad moment: so many are enough.
const FAR: u64 = 8;
const MOST_FAR_BEHIND: u32 = 3;
/// A path that held the sender up for half of a tick, and for three quarters of the time that anybody's did, bounds what goes out if packets wait in its
/// queues for so long, this part of its round trip, and so many times as long as in those of most others: links that are equally busy are not told apart.
const LEAST_QUEUED: Duration = Duration::from_millis(1);
const QUEUED_PART: u32 = 8;
const MUCH_LONGER: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Tick = Tick {
        counted: Duration::from_millis(250),
        quiet: true,
        wanting: true,
        free: true,
        mostly_free: true,
        usual: 0,
        is_known: true,
    };

    #[test]
    fn a_stall_counts_from_its_beginning_once_it_is_longer_than_a_repair_takes() {
        let mut hold = Hold::default();
        // The first look at which it is awaited; then a tick of stall, and progress.
        for acknowledged in [5, 5, 6] {
            hold.note(TICK, true, Behind::IfAwaited, acknowledged);
        }
        assert_eq!((hold.waited(), hold.held()), (Duration::ZERO, 0));
        hold.note(TICK, true, Behind::IfAwaited, 6);
        hold.note(TICK, true, Behind::IfAwaited, 6);
        assert_eq!((hold.waited(), hold.held()), (Duration::from_millis(500), 0));
        hold.note(TICK, true, Behind::IfAwaited, 6);
        assert_eq!((hold.waited(), hold.held(), hold.stalled.1), (Duration::from_millis(750), 0, 3));
        for _ in 3..STALL {
            hold.note(TICK, true, Behind::IfAwaited, 6);
        }
        assert_eq!((hold.waited(), hold.held()), (Duration::from_millis(2000), STALL));
        hold.note(TICK, true, Behind::IfAwaited, 6);
        assert_eq!((hold.waited(), hold.held()), (Duration::from_millis(2250), STALL + 1));
        hold.note(TICK, false, Behind::IfAwaited, 6);
        assert_eq!(hold.stalled, (Duration::ZERO, 0));
        assert_eq!((hold.awaited_for(), hold.held()), (11, STALL + 1));
    }

    #[test]
    fn nothing_counts_while_new_messages_go_out_or_the_rate_is_the_cause() {
        let mut hold = Hold::default();
        for _ in 0..100 {
            hold.note(Tick { quiet: false, ..TICK }, true, Behind::IfAwaited, 0);
        }
        assert_eq!((hold.waited(), hold.held(), hold.stalled.0), (Duration::ZERO, 0, Duration::ZERO));
        for _ in 0..100 {
            hold.note(Tick { counted: Duration::ZERO, ..TICK }, true, Behind::IfAwaited, 0);
        }
        assert_eq!((hold.waited(), hold.held(), hold.stalled.0), (Duration::ZERO, 0, Duration::ZERO));
    }

    #[test]
    fn one_that_all_wait_for_alike_keeps_nobody_waiting() {
        let mut hold = Hold::default();
        for _ in 0..2 * STALL {
            hold.note(Tick { free: false, ..TICK }, true, Behind::IfAwaited, 0);
        }
        assert_eq!(hold.held(), 0);
        assert!(hold.waited() > Duration::ZERO);
    }

    #[test]
    fn whose_path_bounds_all_is_behind_also_where_all_are_awaited_and_who_lacks_what_was_lost_last_is_not() {
        let counts = [Behind::Bounds, Behind::IfAwaited, Behind::No].map(|behind| {
            let (mut lossy, mut clean) = (Hold::default(), Hold::default());
            for acknowledged in 0..u64::from(LANE_WINDOW) + 1 {
                let tick = Tick { quiet: false, mostly_free: false, ..TICK };
                lossy.note(tick, acknowledged % 2 == 0, behind, acknowledged);
                clean.note(Tick { quiet: false, ..TICK }, true, behind, acknowledged);
            }
            (lossy.behind(), clean.behind())
        });
        assert_eq!(counts, [(LANE_WINDOW, LANE_WINDOW), (0, LANE_WINDOW), (0, 0)]);
    }

    #[test]
    fn one_that_has_next_to_nothing_of_what_most_have_is_left_behind_sooner() {
        let ticks_of = |usual, behind, is_known| {
            let mut hold = Hold::default();
            let mut note = || {
                hold.note(Tick { usual, is_known, ..TICK }, true, behind, 10);
                hold.left_behind()
            };
            (1..=LANE_WINDOW).find(|_| note().is_some())
        };
        let ticks = |usual, behind| ticks_of(usual, behind, true);
        // The first look says only that it is awaited now.
        assert_eq!(ticks(10 * FAR + 1, Behind::IfAwaited), Some(1 + MOST_FAR_BEHIND));
        assert_eq!(ticks(10 * FAR, Behind::IfAwaited), Some(1 + MOST_BEHIND));
        assert_eq!(ticks(10 * FAR + 1, Behind::No), None);
        // One that was not asked may have everything.
        assert_eq!(ticks_of(10 * FAR + 1, Behind::IfAwaited, false), Some(1 + MOST_BEHIND));
    }

    #[test]
    fn who_bounds_alone_did_so_most_of_the_time_and_packets_wait_for_it_alone() {
        let millis = Duration::from_millis;
        let bound = |index, held, queued| Bound {
            index,
            held: millis(held),
            queued: millis(queued),
            round_trip: Duration::ZERO,
        };
        let alone = |bounds: &[Bound]| Bound::alone(bounds, millis(200));
        // Half of the tick at least.
        assert_eq!(alone(&[bound(4, 0, 0), bound(7, 100, 5), bound(9, 0, 0)]), Some(7));
        assert_eq!(alone(&[bound(4, 0, 0), bound(7, 99, 5), bound(9, 0, 0)]), None);
        // Three quarters of what anybody's did at least.
        assert_eq!(alone(&[bound(4, 150, 5), bound(7, 50, 0), bound(9, 0, 0)]), Some(4));
        assert_eq!(alone(&[bound(4, 149, 5), bound(7, 50, 0), bound(9, 0, 0)]), None);
        // Packets wait for it, four times as long as for most others.
        assert_eq!(alone(&[bound(4, 200, 1), bound(7, 0, 0)]), Some(4));
        assert_eq!(alone(&[bound(4, 200, 0), bound(7, 0, 0)]), None);
        assert_eq!(alone(&[bound(4, 200, 8), bound(7, 0, 2), bound(9, 0, 2), bound(11, 0, 9)]), Some(4));
        assert_eq!(alone(&[bound(4, 200, 7), bound(7, 0, 2), bound(9, 0, 2), bound(11, 0, 9)]), None);
        // And an eighth of a round trip.
        let far = Bound { round_trip: millis(40), ..bound(4, 200, 5) };
        assert_eq!(alone(&[far, bound(7, 0, 0)]), Some(4));
        assert_eq!(alone(&[Bound { queued: millis(4), ..far }, bound(7, 0, 0)]), None);
        // Of one there is nobody else to be slower than.
        assert_eq!((alone(&[far]), alone(&[])), (None, None));
    }
}
