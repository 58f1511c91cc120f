//! Tracking of members that hold the sender up: for how long, and if it is too long.
//!
//! The sender examines its members at every tick, of which a member timeout has [`TICKS_PER_TIMEOUT`]. Time counts
//! against a member while the protocol waits for it, nothing new is sent, and it has acknowledged nothing since the
//! previous tick. Delays of the sender itself do not count: its rate limit, and the time in which it was suspended.

use carillon_core::{Duration, PathMeasure, States};

use super::lost_run::LostRun;

/// Declared states of an active member's lag, as of the last tick.
pub(super) const STATES: States = States {
    of: "sender, lag of a member",
    transitions: &[
        ("[*]", "Current", "JOIN accepted"),
        ("Any", "Current", "the protocol does not wait for the member"),
        ("Any", "Awaited", "the protocol waits for the member"),
        ("Any", "Stalled", "the protocol waits, nothing new is sent, and the member acknowledges nothing"),
        (
            "Any",
            "Behind",
            "most others have what the member is missing, or its path alone bounds the sending",
        ),
        ("Any", "[*]", "the member has reported, or was expelled or set aside"),
    ],
};

/// Lag of one member, over recent ticks and in total.
#[derive(Clone, Debug, Default)]
pub(super) struct LagTracker {
    /// True if the member was awaited at the last tick.
    pub awaited: bool,
    /// Messages acknowledged by the last tick.
    acknowledged: u64,
    /// Time and number of ticks for which the member was awaited without progress.
    pub stalled: (Duration, u32),
    /// Bit per tick, newest lowest: the member was awaited.
    awaited_in: u128,
    /// Bit per tick: the member kept others waiting that had what it misses.
    held_in: u128,
    /// Bit per tick: most others had all that was sent and this member had not, or its path bounded the sending.
    behind_in: u128,
    /// Bit per tick: in addition the member had only a small part of the data that most others have, since the
    /// session began.
    far_behind_in: u128,
    /// Total time for which the member held the sender up.
    waited: Duration,
    /// Last measurement of its path.
    pub path: Option<PathMeasure>,
    /// Total time for which its path bounded the sending, at the last tick.
    pub held_before: Duration,
    /// Packets sent before its last answered poll, at the last tick.
    pub answered_before: u64,
    /// True if most others waited for it at the last tick because it left polls unanswered.
    pub keeps_waiting: bool,
    /// Data packets that it did not receive since the last one that it did.
    pub lost_run: LostRun,
}

/// State of a member for observers of the session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Time since the member was last heard, without suspensions of the sender.
    pub silent: Duration,
    /// True if the protocol waited for the member at the last tick.
    pub awaited: bool,
    /// Last measurement of its path, if the protocol measures paths.
    pub path: Option<PathMeasure>,
}

/// Events between two ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick {
    /// Length of the tick, without delays of the sender itself.
    pub counted: Duration,
    /// True if nothing new was sent.
    pub quiet: bool,
    /// True if there is more to send, or the end was reached.
    pub wanting: bool,
    /// Members that wait for others.
    pub others: Others,
    /// Messages that most members have acknowledged.
    pub usual: u64,
    /// True if the member answered or left a poll unanswered, so that its acknowledgments are up to date.
    pub is_known: bool,
}

/// Members that the protocol does not wait for: these wait for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// The protocol waits for all members.
    Awaited,
    /// Some members wait for others.
    SomeWait,
    /// At least half of the members wait for others.
    MostWait,
}

impl Others {
    /// Classifies the members by the number that wait, of all.
    pub fn new(waiting: usize, all: usize) -> Self {
        match waiting {
            0 => Others::Awaited,
            waiting if waiting * 2 >= all => Others::MostWait,
            _ => Others::SomeWait,
        }
    }
}

/// Reason why a member counts as behind the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Its path bounds the sending.
    Bounds,
    /// Behind if the member is awaited and most others are not.
    IfAwaited,
    /// The member is not behind: it answers, has room, and has about as much as the others; it only misses recent
    /// losses.
    No,
}

impl Tick {
    /// Returns true if most others waited for a member with this state.
    pub fn holds(self, awaited: bool) -> bool {
        awaited && self.quiet && self.wanting && self.others == Others::MostWait && !self.counted.is_zero()
    }
}

/// Time for which a member's path bounded the sending since the last tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathBound {
    /// Index of the member.
    pub index: usize,
    /// Time for which its path bounded the sending.
    pub held: Duration,
    /// Queueing delay of its packets.
    pub queued: Duration,
    /// Round-trip time of its path.
    pub round_trip: Duration,
}

impl PathBound {
    /// Member with the path that alone bounded the sending, if packets queue on it and hardly on most other paths.
    /// Under random loss hardly any member ever has everything sent, so only this reveals a slow path.
    pub fn alone(bounds: &[PathBound], elapsed: Duration) -> Option<usize> {
        let most = bounds.iter().max_by_key(|bound| bound.held)?;
        let all: Duration = bounds.iter().map(|bound| bound.held).sum();
        // The median stands for the usual queueing delay.
        let mut queues: Vec<Duration> = bounds.iter().map(|bound| bound.queued).collect();
        queues.sort_unstable();
        let usual = queues[(queues.len() - 1) / 2];
        let least = MIN_QUEUEING_DELAY.max(most.round_trip / QUEUEING_ROUND_TRIP_DIVISOR);
        // The path with the longest hold must have held half of the tick, and three quarters of the time of all
        // paths.
        let alone = bounds.len() > 1 && most.held * 2 >= elapsed && most.held * 4 >= all * 3;
        (alone && most.queued >= least.max(usual * QUEUEING_RATIO)).then_some(most.index)
    }
}

impl LagTracker {
    /// Records a tick: whether the protocol waits for the member, whether it is behind, and its acknowledged
    /// messages.
    pub fn note(&mut self, tick: Tick, awaited: bool, behind: Behind, acknowledged: u64) {
        // Shift the histories by one tick, and set the lowest bit if the condition held.
        let has_progressed = self.acknowledged != acknowledged;
        // A member that became awaited during the tick was not awaited for all of it.
        let all_along = awaited && self.awaited;
        (self.awaited, self.acknowledged) = (awaited, acknowledged);
        self.awaited_in = self.awaited_in << 1 | u128::from(all_along && tick.wanting);
        self.held_in <<= 1;
        let is_behind = match behind {
            Behind::Bounds => true,
            Behind::IfAwaited => all_along && tick.others == Others::MostWait,
            Behind::No => false,
        };
        // No member is behind while the application offers nothing, or while the sender itself was delayed.
        let is_behind = is_behind && tick.wanting && !tick.counted.is_zero();
        self.behind_in = self.behind_in << 1 | u128::from(is_behind);
        // A member that was not polled may have more than it has acknowledged.
        let is_far = tick.is_known && acknowledged.saturating_mul(FAR_BEHIND_DIVISOR) < tick.usual;
        self.far_behind_in = self.far_behind_in << 1 | u128::from(is_behind && is_far);
        if !all_along || has_progressed {
            self.stalled = (Duration::ZERO, 0);
        } else if tick.quiet {
            self.stalled.0 += tick.counted;
            self.stalled.1 = self.stalled.1.saturating_add(1);
            // A stall counts from its beginning once it is long enough.
            self.waited += match self.stalled.1.cmp(&MIN_COUNTED_TICKS) {
                std::cmp::Ordering::Less => Duration::ZERO,
                std::cmp::Ordering::Equal => self.stalled.0,
                std::cmp::Ordering::Greater => tick.counted,
            };
            // A stall counts as keeping others waiting once it is long enough, and then from its beginning.
            let ticks = match self.stalled.1.cmp(&MIN_STALL_TICKS) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => MIN_STALL_TICKS,
                std::cmp::Ordering::Greater => 1,
            };
            if tick.others != Others::Awaited && !tick.counted.is_zero() {
                // Several bits at once mark the earlier ticks of the stall too.
                self.held_in |= (1 << ticks) - 1;
            }
        }
    }

    /// Name of the state as of the last tick.
    pub fn state(&self) -> &'static str {
        match (self.behind_in & 1 == 1, self.stalled.1 > 0, self.awaited) {
            (true, _, _) => "Behind",
            (false, true, _) => "Stalled",
            (false, false, true) => "Awaited",
            (false, false, false) => "Current",
        }
    }

    /// Total time for which the member held the sender up.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns true if the member acknowledged more than the first messages, which may be shorter than the others.
    pub fn has_progressed(&self) -> bool {
        self.acknowledged > MAX_INITIAL_MESSAGES
    }

    pub fn held(&self) -> u32 {
        (self.held_in & WINDOW_MASK).count_ones()
    }

    fn behind(&self) -> u32 {
        (self.behind_in & LANE_MASK).count_ones()
    }

    /// Number of the last ticks in which the member made most others wait, if there are enough to set it aside.
    pub fn left_behind(&self) -> Option<u32> {
        let behind = self.behind();
        let far_behind = (self.far_behind_in & LANE_MASK).count_ones();
        (behind >= MIN_BEHIND_TICKS || far_behind >= MIN_FAR_BEHIND_TICKS).then_some(behind)
    }

    pub fn awaited_for(&self) -> u32 {
        (self.awaited_in & WINDOW_MASK).count_ones()
    }
}

/// Number of initial messages that show little: a network that drops long datagrams may carry these.
const MAX_INITIAL_MESSAGES: u64 = 8;
/// Ticks per member timeout.
pub(super) const TICKS_PER_TIMEOUT: u32 = 20;
/// Minimum number of stalled ticks that count: a round trip or a repair is not worth counting.
const MIN_COUNTED_TICKS: u32 = 2;
/// Minimum number of stalled ticks that count as keeping others waiting: 2 s of 5. With a loss of a fifth in both
/// directions at each port, two of five messages are acknowledged. At four tries a second, most of the time passes
/// without progress, but only a tenth of it in stalls this long.
const MIN_STALL_TICKS: u32 = 8;
/// Ticks over which the pace of a member is judged: four member timeouts.
pub(super) const PACE_WINDOW: u32 = 4 * TICKS_PER_TIMEOUT;
const WINDOW_MASK: u128 = (1 << PACE_WINDOW) - 1;
/// Number of these in which a member may keep the others waiting: half.
pub(super) const MAX_HELD_TICKS: u32 = PACE_WINDOW / 2;
/// Number of these in which a member must be awaited to count as too slow: three quarters.
pub(super) const MIN_AWAITED_TICKS: u32 = PACE_WINDOW / 4 * 3;
/// Ticks over which is judged if a member makes most others wait: the time of most repairs and a margin.
pub(super) const LANE_WINDOW: u32 = 8;
const LANE_MASK: u128 = (1 << LANE_WINDOW) - 1;
/// Number of these from which the member is set aside: three quarters.
const MIN_BEHIND_TICKS: u32 = 6;
/// Divisor of the progress of most others, below which a member is far behind from the beginning on.
const FAR_BEHIND_DIVISOR: u64 = 8;
/// Number of ticks from which a member far behind is set aside.
const MIN_FAR_BEHIND_TICKS: u32 = 3;
/// Minimum queueing delay of a path that bounds the sending alone. Without this and the next bounds, equally busy
/// links could not be told apart.
const MIN_QUEUEING_DELAY: Duration = Duration::from_millis(1);
/// Minimum queueing delay as a divisor of the round-trip time.
const QUEUEING_ROUND_TRIP_DIVISOR: u32 = 8;
/// Factor of that delay over the median of the other paths.
const QUEUEING_RATIO: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Tick = Tick {
        counted: Duration::from_millis(250),
        quiet: true,
        wanting: true,
        others: Others::MostWait,
        usual: 0,
        is_known: true,
    };

    #[test]
    fn stall_longer_than_a_repair_counts_from_its_beginning() {
        let mut hold = LagTracker::default();
        // First tick at which the member is awaited; then a tick of stall, and progress.
        for acknowledged in [5, 5, 6] {
            hold.note(TICK, true, Behind::IfAwaited, acknowledged);
        }
        assert_eq!((hold.waited(), hold.held()), (Duration::ZERO, 0));
        hold.note(TICK, true, Behind::IfAwaited, 6);
        hold.note(TICK, true, Behind::IfAwaited, 6);
        assert_eq!((hold.waited(), hold.held()), (Duration::from_millis(500), 0));
        hold.note(TICK, true, Behind::IfAwaited, 6);
        assert_eq!((hold.waited(), hold.held(), hold.stalled.1), (Duration::from_millis(750), 0, 3));
        for _ in 3..MIN_STALL_TICKS {
            hold.note(TICK, true, Behind::IfAwaited, 6);
        }
        assert_eq!((hold.waited(), hold.held()), (Duration::from_millis(2000), MIN_STALL_TICKS));
        hold.note(TICK, true, Behind::IfAwaited, 6);
        assert_eq!((hold.waited(), hold.held()), (Duration::from_millis(2250), MIN_STALL_TICKS + 1));
        hold.note(TICK, false, Behind::IfAwaited, 6);
        assert_eq!(hold.stalled, (Duration::ZERO, 0));
        assert_eq!((hold.awaited_for(), hold.held()), (11, MIN_STALL_TICKS + 1));
    }

    #[test]
    fn progress_or_rate_limit_count_as_no_stall() {
        let mut hold = LagTracker::default();
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
    fn stall_of_all_members_is_held_against_none() {
        let mut hold = LagTracker::default();
        for _ in 0..2 * MIN_STALL_TICKS {
            hold.note(Tick { others: Others::Awaited, ..TICK }, true, Behind::IfAwaited, 0);
        }
        assert_eq!(hold.held(), 0);
        assert!(hold.waited() > Duration::ZERO);
    }

    #[test]
    fn marks_path_limited_receiver_as_straggler() {
        let counts = [Behind::Bounds, Behind::IfAwaited, Behind::No].map(|behind| {
            let (mut lossy, mut clean) = (LagTracker::default(), LagTracker::default());
            for acknowledged in 0..u64::from(LANE_WINDOW) + 1 {
                let tick = Tick { quiet: false, others: Others::SomeWait, ..TICK };
                lossy.note(tick, acknowledged % 2 == 0, behind, acknowledged);
                clean.note(Tick { quiet: false, ..TICK }, true, behind, acknowledged);
            }
            (lossy.behind(), clean.behind())
        });
        assert_eq!(counts, [(LANE_WINDOW, LANE_WINDOW), (0, LANE_WINDOW), (0, 0)]);
    }

    #[test]
    fn member_far_behind_is_set_aside_sooner() {
        let ticks_of = |usual, behind, is_known| {
            let mut hold = LagTracker::default();
            let mut note = || {
                hold.note(Tick { usual, is_known, ..TICK }, true, behind, 10);
                hold.left_behind()
            };
            (1..=LANE_WINDOW).find(|_| note().is_some())
        };
        let ticks = |usual, behind| ticks_of(usual, behind, true);
        // The first tick only shows that the member is awaited now.
        assert_eq!(ticks(10 * FAR_BEHIND_DIVISOR + 1, Behind::IfAwaited), Some(1 + MIN_FAR_BEHIND_TICKS));
        assert_eq!(ticks(10 * FAR_BEHIND_DIVISOR, Behind::IfAwaited), Some(1 + MIN_BEHIND_TICKS));
        assert_eq!(ticks(10 * FAR_BEHIND_DIVISOR + 1, Behind::No), None);
        // A member that was not polled may have everything.
        assert_eq!(
            ticks_of(10 * FAR_BEHIND_DIVISOR + 1, Behind::IfAwaited, false),
            Some(1 + MIN_BEHIND_TICKS)
        );
    }

    #[test]
    fn limiting_member_did_so_mostly_and_packets_wait_for_it() {
        let millis = Duration::from_millis;
        let bound = |index, held, queued| PathBound {
            index,
            held: millis(held),
            queued: millis(queued),
            round_trip: Duration::ZERO,
        };
        let alone = |bounds: &[PathBound]| PathBound::alone(bounds, millis(200));
        // It must hold for half of the tick.
        assert_eq!(alone(&[bound(4, 0, 0), bound(7, 100, 5), bound(9, 0, 0)]), Some(7));
        assert_eq!(alone(&[bound(4, 0, 0), bound(7, 99, 5), bound(9, 0, 0)]), None);
        // It must have three quarters of the time of all paths.
        assert_eq!(alone(&[bound(4, 150, 5), bound(7, 50, 0), bound(9, 0, 0)]), Some(4));
        assert_eq!(alone(&[bound(4, 149, 5), bound(7, 50, 0), bound(9, 0, 0)]), None);
        // Its packets must queue four times as long as most others.
        assert_eq!(alone(&[bound(4, 200, 1), bound(7, 0, 0)]), Some(4));
        assert_eq!(alone(&[bound(4, 200, 0), bound(7, 0, 0)]), None);
        assert_eq!(alone(&[bound(4, 200, 8), bound(7, 0, 2), bound(9, 0, 2), bound(11, 0, 9)]), Some(4));
        assert_eq!(alone(&[bound(4, 200, 7), bound(7, 0, 2), bound(9, 0, 2), bound(11, 0, 9)]), None);
        // They must queue for an eighth of a round trip.
        let far = PathBound { round_trip: millis(40), ..bound(4, 200, 5) };
        assert_eq!(alone(&[far, bound(7, 0, 0)]), Some(4));
        assert_eq!(alone(&[PathBound { queued: millis(4), ..far }, bound(7, 0, 0)]), None);
        // A single member cannot be slower than others.
        assert_eq!((alone(&[far]), alone(&[])), (None, None));
    }
}
