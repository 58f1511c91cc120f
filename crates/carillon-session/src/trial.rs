//! A trial that measures what the fastest member could have if the slower ones did not hold it.
//!
//! A rule that compares a member with most of the others lets a slow majority define what is normal. This one asks the
//! network instead. When the sender was held up for most of two seconds, it follows the fastest member alone for
//! [`TRIAL_TICKS`] ticks, while the others only listen. If that member receives [`FACTOR`] times as much as before, the
//! members that did not receive a third of it in the trial are set aside for a catch-up session. Otherwise all go on as
//! before, and the next trial comes later. No member loses anything by a trial: what a slow member misses is repaired.
//!
//! Two kinds of members evade a trial and are found otherwise. One that acknowledges the arrival of packets but not of
//! messages keeps the window closed, so that nothing goes out in the trial either. One that is fast in trials alone
//! is known by the time for which it held the others between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carillon_core::{Duration, ObservedState, States, Time};

use super::observed;

/// Factor over its present rate at which a member must be able to receive for a trial to succeed. It is also the
/// factor by which the rates of members of one session may differ.
pub(super) const FACTOR: u64 = 3;
/// Number of ticks over which it is judged whether the sender is held up.
const WINDOW: usize = 8;
/// Number of these in which it has to be.
const MIN_HELD: u32 = 6;
/// Ticks of a trial: in the first one the sender adapts, the others are measured.
const TRIAL_TICKS: u32 = 3;
/// Packets of a trial below which nothing is concluded.
const MIN_PACKETS: u64 = 16;
/// Ticks until the next trial after one without result: initial value.
const INITIAL_REST: u32 = 16;
/// Maximum number of ticks until the next trial.
const MAX_REST: u32 = 128;
/// Ticks that the rest has to take at the present rate for a trial to be worth its cost.
const MIN_REST_TICKS: f64 = 16.0;
/// Gain within the first tick below which a trial on short paths ends at once.
const EARLY_GAIN: f64 = 1.5;
/// Round-trip times that fit in the first tick of a trial on a short path: enough for the sender to adapt.
const EARLY_ROUND_TRIPS: u32 = 16;
/// Number of ticks, once everything was sent, for which receivers outside may wait although the rate is below the
/// rate that they had.
const TAIL_TICKS: u32 = 16;

/// Observation of a member at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sight {
    /// The member's place in the roster.
    pub index: usize,
    /// Packets that have arrived at it, by its own word.
    pub arrived: u64,
    /// Messages that it has acknowledged.
    pub acknowledged: u64,
    /// Time in all for which its path bounded what went out.
    pub held: Duration,
    /// Round-trip time, if it is known.
    pub round_trip: Option<Duration>,
}

/// Activity of the sender until a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The time, without that in which the sender did not run.
    pub now: Time,
    /// Length of the tick.
    pub tick: Duration,
    /// Time in all for which the sender was held up.
    pub held_up: Duration,
    /// Messages that have gone out in all, once each.
    pub sent: u64,
    /// Every message that was offered, and will be, has gone out.
    pub is_all_sent: bool,
    /// A member that was set aside waits for a catch-up session.
    pub is_waited_for: bool,
    /// Messages still to be sent for the first time; `None` if the total is unknown, as in live streams.
    pub left: Option<f64>,
}

/// Action after a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Continue without a change.
    GoOn,
    /// A trial begins: the fastest member alone is followed.
    Begin,
    /// The trial is over; these members, by their places, are set aside, each with the reason.
    End(Vec<(usize, String)>),
    /// Set all awaited members aside, for this reason: receivers that wait outside could have more.
    SetAllAside(String),
}

/// Declared states.
pub(super) const STATES: States = States {
    of: "sender, trial of the fastest member",
    transitions: &[
        ("[*]", "Watching", ""),
        (
            "Watching",
            "Adapting",
            "members held the sender up for most of two seconds: only the fastest counts",
        ),
        ("Resting", "Adapting", "the rate has halved since the last trial, and members hold the sender up"),
        ("Adapting", "Measuring", "a tick has passed"),
        ("Adapting", "Resting", "no member received much more within the tick"),
        ("Adapting", "Watching", "the session ends the trial"),
        ("Measuring", "Watching", "two more ticks: slow members are set aside"),
        ("Measuring", "Resting", "two more ticks: the fastest member received hardly more"),
        ("Resting", "Watching", "the rest is over"),
    ],
};

/// The trials of a session.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// Bit per tick, newest lowest: the sender was held up.
    held_in: u32,
    /// Bit per tick: the sender sent less than the members that wait outside could have received.
    slow_in: u32,
    held_up: Duration,
    /// The last ticks, and how much had been sent.
    sent: VecDeque<(Time, u64)>,
    running: Option<Running>,
    /// Number of ticks in which there is no trial, unless less is sent than half of this rate.
    rest: (u32, f64),
    /// Length of the next rest.
    next_rest: u32,
    /// Time for which each held the others, when a trial last ended.
    held_before: BTreeMap<usize, Duration>,
    /// Members that held the others before the last trial and kept up in it.
    suspects: BTreeSet<usize>,
    /// Messages a second that members had before they were set aside.
    set_aside_rate: f64,
}

/// A trial that has begun.
#[derive(Debug)]
struct Running {
    ticks: u32,
    /// Messages a second before it.
    rate: f64,
    /// Members that held the others most since the trial before.
    holders: BTreeSet<usize>,
    /// Observations at the begin.
    start: Vec<Sight>,
    /// Observations after the first tick.
    base: Option<(Progress, Vec<Sight>)>,
}

impl Running {
    /// Returns true if the first tick has shown that no member could receive much more: paths are so short that the
    /// sender has adapted, and the fastest member received hardly more than before. A member that has acknowledged
    /// everything may wait for one that keeps the window closed, so the trial goes on then.
    fn is_in_vain(&self, progress: Progress, seen: &[Sight]) -> bool {
        let before: BTreeMap<usize, u64> =
            self.start.iter().map(|sight| (sight.index, sight.arrived)).collect();
        let gained = |sight: &Sight| {
            // A member without an earlier observation counts as gaining nothing.
            sight.arrived
                - before.get(&sight.index).map_or(sight.arrived, |before| *before.min(&sight.arrived))
        };
        let best = seen.iter().map(gained).max().unwrap_or_default() as f64;
        let is_short =
            |sight: &Sight| sight.round_trip.is_some_and(|trip| trip * EARLY_ROUND_TRIPS <= progress.tick);
        let has_all = |sight: &Sight| sight.acknowledged >= progress.sent;
        // The threshold is below `FACTOR`, because the sender still adapts its rate during this tick.
        seen.iter().all(is_short)
            && !seen.iter().any(has_all)
            && best < EARLY_GAIN * self.rate * progress.tick.as_secs_f64()
    }
}

impl Trials {
    /// State of the trials.
    pub fn observe(&self) -> ObservedState {
        observed(
            &STATES,
            match &self.running {
                Some(Running { base: None, .. }) => "Adapting",
                Some(Running { base: Some(_), .. }) => "Measuring",
                None if self.rest.0 > 0 => "Resting",
                None => "Watching",
            },
        )
    }

    /// Takes note of a tick.
    pub fn on_tick(&mut self, progress: Progress, seen: &[Sight]) -> Step {
        // `held_up` is a total, so the difference belongs to this tick.
        let held = progress.held_up.saturating_sub(std::mem::replace(&mut self.held_up, progress.held_up));
        if let Some(running) = &mut self.running {
            running.ticks += 1;
            // The sender adapts in the first tick. Its end is the base of the measurement.
            if running.ticks == 1 {
                if running.is_in_vain(progress, seen) {
                    let rate = running.rate;
                    self.end(seen);
                    self.rest_longer(rate);
                    return Step::End(Vec::new());
                }
                running.base = Some((progress, seen.to_vec()));
            } else if running.ticks >= TRIAL_TICKS {
                return self.judge(progress, seen);
            }
            return Step::GoOn;
        }
        // A tick counts as held up if the sender was held up for half of it.
        self.held_in = self.held_in << 1 | u32::from(held * 2 >= progress.tick);
        self.sent.push_back((progress.now, progress.sent));
        // `WINDOW` ticks lie between `WINDOW + 1` observations.
        if self.sent.len() > WINDOW + 1 {
            self.sent.pop_front();
        }
        let rate = self.rate();
        if let Some(reason) = self.note_waiting(progress, rate) {
            return Step::SetAllAside(reason);
        }
        if self.slow_in & 1 == 1 {
            // Receivers that wait outside come first: `note_waiting` judges for some ticks whether they could have
            // more.
            return Step::GoOn;
        }
        self.rest.0 = self.rest.0.saturating_sub(1);
        // Wait after a trial without gain, unless the rate has halved since: the situation is a new one then.
        let rests = self.rest.0 > 0 && rate.is_none_or(|rate| rate * 2.0 >= self.rest.1);
        let is_held = (self.held_in & ((1 << WINDOW) - 1)).count_ones() >= MIN_HELD;
        // A trial needs a rate to compare with, another member to follow, and messages that are still to be sent.
        let Some(rate) = rate.filter(|_| is_held && !rests && seen.len() > 1 && !progress.is_all_sent) else {
            return Step::GoOn;
        };
        // A trial costs repairs. If little is left, the members have it sooner than a catch-up session could begin.
        let rest_ticks = progress.left.map(|left| left / (rate * progress.tick.as_secs_f64()));
        if rest_ticks.is_some_and(|ticks| ticks < MIN_REST_TICKS) {
            return Step::GoOn;
        }
        let (holders, start) = (self.holders(seen), seen.to_vec());
        self.running = Some(Running { ticks: 0, rate, holders, start, base: None });
        Step::Begin
    }

    /// Records that another rule set a member aside: the others must then get at least the rate of before.
    pub fn note_aside(&mut self) {
        self.set_aside_rate = self.set_aside_rate.max(self.rate().unwrap_or_default());
    }

    /// Messages a second over the last ticks, once there were enough of them.
    fn rate(&self) -> Option<f64> {
        let (&(since, before), &(now, sent)) = (self.sent.front()?, self.sent.back()?);
        // A mean over fewer ticks would vary too much.
        let enough = self.sent.len() > MIN_HELD as usize && now > since;
        enough.then(|| (sent - before) as f64 / now.since(since).as_secs_f64())
    }

    /// Reason to set all awaited members aside: receivers that wait for a catch-up session had a higher rate than
    /// this session has now.
    fn note_waiting(&mut self, progress: Progress, rate: Option<f64>) -> Option<String> {
        let is_slow = progress.is_waited_for && rate.is_some_and(|rate| rate < self.set_aside_rate);
        self.slow_in = self.slow_in << 1 | u32::from(is_slow);
        // No new message goes out after the last one, so a rate of zero proves less then, and the members get more
        // time.
        let (ticks, most) =
            if progress.is_all_sent { (TAIL_TICKS, TAIL_TICKS) } else { (WINDOW as u32, MIN_HELD) };
        let is_slow = (self.slow_in & ((1 << ticks) - 1)).count_ones() >= most;
        is_slow.then(|| "let less through than one that waits for its turn had".to_owned())
    }

    /// Members that held the others at least half as long as the one that did most, unless all did.
    fn holders(&self, seen: &[Sight]) -> BTreeSet<usize> {
        let held = |sight: &Sight| {
            // Only the time since the last trial counts.
            let before = self.held_before.get(&sight.index).copied().unwrap_or_default();
            sight.held.saturating_sub(before)
        };
        let most = seen.iter().map(held).max().unwrap_or_default();
        let holds = |sight: &&Sight| held(sight) * 2 >= most && !most.is_zero();
        let holders: BTreeSet<usize> = seen.iter().filter(holds).map(|sight| sight.index).collect();
        // A set of all members would not tell a slow member from a fast one.
        if holders.len() == seen.len() { BTreeSet::new() } else { holders }
    }

    /// Ends the trial, and decides which members are set aside.
    fn judge(&mut self, progress: Progress, seen: &[Sight]) -> Step {
        let Some(Running { rate, holders, base: Some((base, then)), .. }) = self.running.take() else {
            return Step::End(Vec::new());
        };
        // Ticks of the trial must not count as normal ones.
        self.end(seen);
        let then: BTreeMap<usize, Sight> = then.iter().map(|sight| (sight.index, *sight)).collect();
        // Packets that arrived at a member since the base.
        let arrived = |sight: &Sight| {
            sight.arrived
                - then.get(&sight.index).map_or(sight.arrived, |then| then.arrived.min(sight.arrived))
        };
        let best = seen.iter().map(arrived).max().unwrap_or_default();
        let seconds = progress.now.since(base.now).as_secs_f64();
        // The trial succeeds if the fastest member received `FACTOR` times as much as before it. Few packets prove
        // nothing.
        let gains = best as f64 >= rate * seconds * FACTOR as f64 && best >= MIN_PACKETS;
        let mut aside = Vec::new();
        if gains {
            // A member that received less than a third of that could not follow the fastest one.
            let behind = |sight: &&Sight| arrived(sight).saturating_mul(FACTOR) < best;
            for sight in seen.iter().filter(behind) {
                let arrived = arrived(sight);
                aside.push((
                    sight.index,
                    format!("took {arrived} of {best} packets that another took in {seconds:.1} s"),
                ));
            }
            if aside.is_empty() {
                // All members kept up in the trial. A member that held the others before two such trials is fast only
                // while it is measured.
                let again = holders.intersection(&self.suspects).copied();
                let reason = || "kept the others waiting whenever it was not measured".to_owned();
                aside.extend(again.map(|index| (index, reason())));
                self.suspects = holders;
            } else {
                // The remaining members are judged anew without the ones set aside.
                self.suspects.clear();
            }
            // No rest is needed after a success: another slow member may hold the sender next.
            (self.rest, self.next_rest) = ((0, 0.0), INITIAL_REST);
        } else if let Some(lag) = Self::closing(progress, base, seen, &then) {
            // The window stayed closed in the trial, so acknowledged messages decide. Members with at least half of
            // the largest lag keep it closed.
            let behind = seen.iter().filter(|sight| sight.acknowledged <= progress.sent - lag);
            let reason = |sight: &Sight| {
                format!("acknowledged {} of {} messages that another had", sight.acknowledged, progress.sent)
            };
            aside.extend(behind.map(|sight| (sight.index, reason(sight))));
        } else {
            self.rest_longer(rate);
        }
        if !aside.is_empty() {
            // Setting aside is no gain unless the other members then get at least the rate of before.
            self.set_aside_rate = self.set_aside_rate.max(rate);
        }
        Step::End(aside)
    }

    /// Ends the running trial: observations from before it no longer count.
    fn end(&mut self, seen: &[Sight]) {
        self.running = None;
        (self.held_in, self.slow_in) = (0, 0);
        self.sent.clear();
        self.held_before = seen.iter().map(|sight| (sight.index, sight.held)).collect();
    }

    /// Doubles the time until the next trial, after one that found no faster member at this rate.
    fn rest_longer(&mut self, rate: f64) {
        self.next_rest = (self.next_rest * 2).clamp(INITIAL_REST, MAX_REST);
        self.rest = (self.next_rest, rate);
    }

    /// Minimum lag in messages of the members that keep the window closed, if it was closed in the trial and a member
    /// has acknowledged everything that was sent.
    fn closing(
        progress: Progress,
        base: Progress,
        seen: &[Sight],
        then: &BTreeMap<usize, Sight>,
    ) -> Option<u64> {
        let held = progress.held_up.saturating_sub(base.held_up);
        let is_held = held * 2 >= progress.now.since(base.now);
        // A member that had everything at the base and has it now waits only for the window.
        let had_all =
            |sight: &Sight| then.get(&sight.index).is_some_and(|then| then.acknowledged >= base.sent);
        let is_ready = seen.iter().any(|sight| had_all(sight) && sight.acknowledged >= progress.sent);
        let least = seen.iter().map(|sight| sight.acknowledged).min()?;
        let lag = progress.sent.saturating_sub(least).div_ceil(2);
        (is_held && is_ready && lag >= MIN_PACKETS && !progress.is_all_sent).then_some(lag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    /// A session of two members that is held up all the time.
    #[derive(Default)]
    struct Held {
        trials: Trials,
        ticks: u64,
        sent: u64,
        seen: [Sight; 2],
        is_waited_for: bool,
        left: Option<f64>,
    }

    impl Held {
        /// Adds a tick with this number of messages sent, and of packets arrived at each member.
        fn tick(&mut self, sent: u64, arrived: [u64; 2]) -> Step {
            (self.ticks, self.sent) = (self.ticks + 1, self.sent + sent);
            for (index, (sight, arrived)) in self.seen.iter_mut().zip(arrived).enumerate() {
                (sight.index, sight.arrived) = (index, sight.arrived + arrived);
            }
            let progress = Progress {
                now: Time::ZERO + TICK * self.ticks as u32,
                tick: TICK,
                held_up: TICK * self.ticks as u32,
                sent: self.sent,
                is_all_sent: false,
                is_waited_for: self.is_waited_for,
                left: self.left,
            };
            self.trials.on_tick(progress, &self.seen)
        }

        /// Ticks until a trial begins, with so much sent in each.
        fn until_trial(&mut self, sent: u64) -> Option<u32> {
            (1..=200).find(|_| self.tick(sent, [sent, sent]) == Step::Begin)
        }

        /// A trial in which so much arrives at each.
        fn trial(&mut self, arrived: [u64; 2]) -> Vec<usize> {
            let most = arrived[0].max(arrived[1]);
            assert_eq!([self.tick(most, arrived), self.tick(most, arrived)], [Step::GoOn, Step::GoOn]);
            match self.tick(most, arrived) {
                Step::End(aside) => aside.into_iter().map(|(index, _)| index).collect(),
                step => panic!("{step:?}"),
            }
        }
    }

    #[test]
    fn sets_aside_a_member_that_gets_a_third_of_another() {
        for (arrived, aside) in [
            ([1000, 10], vec![1]),
            ([1000, 333], vec![1]),
            ([1000, 334], vec![]),
            // Less than three times as much as before.
            ([29, 1], vec![]),
            ([30, 1], vec![1]),
        ] {
            let mut held = Held::default();
            assert_eq!(held.until_trial(10), Some(MIN_HELD + 1));
            assert_eq!(held.trial(arrived), aside, "{arrived:?}");
        }
    }

    #[test]
    fn begins_no_trial_when_little_is_left() {
        // 10 messages in each tick: 16 ticks take 160.
        for (left, begins) in [(Some(159.0), false), (Some(160.0), true), (None, true)] {
            let mut held = Held { left, ..Held::default() };
            assert_eq!(held.until_trial(10).is_some(), begins, "{left:?}");
        }
    }

    #[test]
    fn ends_a_trial_without_gain_after_a_tick_on_short_paths() {
        let short = Some(TICK / EARLY_ROUND_TRIPS);
        for (round_trip, arrived, has_all, ends) in [
            (short, 149, false, true),
            (short, 150, false, false),
            (short, 149, true, false),
            (Some(TICK), 149, false, false),
            (None, 149, false, false),
        ] {
            let mut held = Held::default();
            held.seen.iter_mut().for_each(|sight| sight.round_trip = round_trip);
            assert!(held.until_trial(100).is_some());
            held.seen[0].acknowledged = if has_all { held.sent + arrived } else { 0 };
            let step = held.tick(arrived, [arrived, 0]);
            assert_eq!(
                step,
                if ends { Step::End(vec![]) } else { Step::GoOn },
                "{round_trip:?} {arrived} {has_all}"
            );
        }
    }

    #[test]
    fn repeats_a_trial_later_unless_less_is_sent() {
        let mut held = Held::default();
        held.until_trial(100);
        assert_eq!(held.trial([110, 100]), []);
        assert_eq!(held.until_trial(100), Some(2 * INITIAL_REST - INITIAL_REST));
        assert_eq!(held.trial([110, 100]), []);
        assert_eq!(held.until_trial(49), Some(MIN_HELD + 1));
    }

    #[test]
    fn sets_aside_a_member_that_is_fast_in_trials_alone() {
        let mut held = Held::default();
        for aside in [vec![], vec![1]] {
            held.seen[1].held += Duration::from_secs(1);
            held.until_trial(1);
            assert_eq!(held.trial([1000, 1000]), aside);
        }
    }

    #[test]
    fn sets_aside_a_member_that_keeps_the_window_closed() {
        let mut held = Held { sent: 1000, ..Held::default() };
        (held.seen[0].acknowledged, held.seen[1].acknowledged) = (1000, 20);
        held.until_trial(0);
        assert_eq!(held.trial([0, 0]), [1]);
        // A member without everything waits for no other one.
        let mut held = Held { sent: 1000, ..Held::default() };
        (held.seen[0].acknowledged, held.seen[1].acknowledged) = (999, 20);
        held.until_trial(0);
        assert_eq!(held.trial([0, 0]), []);
    }

    #[test]
    fn sets_all_aside_when_those_outside_had_more() {
        for (sent, is_waited_for, ends) in [(99, true, true), (101, true, false), (99, false, false)] {
            let mut held = Held::default();
            held.until_trial(100);
            assert_eq!(held.trial([1000, 10]), [1]);
            held.is_waited_for = is_waited_for;
            let step = (0..WINDOW * 2).map(|_| held.tick(sent, [sent, 0])).find(|step| *step != Step::GoOn);
            assert_eq!(matches!(step, Some(Step::SetAllAside(_))), ends, "{sent} {is_waited_for}");
        }
    }
}
