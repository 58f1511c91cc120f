//! Who holds the sender up: for how long, and whether for too long.
//!
//! The sender looks at its members at every tick, of which there are [`TICKS`] in a member timeout.
//! Time counts against a member while the protocol waits for it, nothing new goes out, and it has
//! acknowledged nothing since the tick before. What the sender itself is the cause of does not count:
//! its rate, and the time in which it was not running.

use std::collections::VecDeque;

use carillon_core::{BitRate, Duration, NodeId, Notice, PathMeasure, Span, Time};

use carillon_wire::session::Part;

use super::{SenderPhase, SenderSession, Timer};
use crate::session::config::Slow;
use crate::session::roster::MemberOutcome;

/// What the sender keeps of a member's holding it up.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Hold {
    /// It was awaited at the last tick.
    awaited: bool,
    /// Messages it had acknowledged by then.
    acknowledged: u64,
    /// For so long, and so many ticks, it has been awaited and has acknowledged nothing.
    stalled: (Duration, u32),
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
    path: Option<PathMeasure>,
    /// For how long its path had bounded what went out by then, at the last tick.
    held_before: Duration,
    /// Packets sent when it was asked what it had answered by then.
    answered_before: u64,
    /// In the last tick most of the others waited for it, since it leaves questions unanswered.
    keeps_waiting: bool,
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
struct Tick {
    /// Its length, without what the sender itself is the cause of.
    counted: Duration,
    /// Nothing new went out.
    quiet: bool,
    /// There is more to send, or this is the last of it.
    wanting: bool,
    /// A member is not waited for.
    free: bool,
    /// Most are not.
    mostly_free: bool,
    /// What most have acknowledged.
    usual: u64,
}

/// What is seen of a member at a tick.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The member's.
    index: usize,
    /// The protocol waits for it.
    awaited: bool,
    /// Messages it has acknowledged.
    acknowledged: u64,
    /// Questions in a row that it has left unanswered.
    unanswered: u32,
}

/// Whether a member is behind the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// Its path bounds what goes out.
    Bounds,
    /// If it is awaited and most others are not.
    IfAwaited,
    /// It answers, has room, and has about what the others have: what it lacks is what was lost last.
    No,
}

impl Tick {
    /// Whether a member that is awaited or not was what most others waited for.
    fn holds(self, awaited: bool) -> bool {
        awaited && self.quiet && self.wanting && self.mostly_free && !self.counted.is_zero()
    }
}

/// How a member's path bounded what went out since the last tick.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// The member's.
    index: usize,
    /// For so long it did.
    held: Duration,
    /// Packets wait in its queues for so long.
    queued: Duration,
    /// And take so long there and back.
    round_trip: Duration,
}

impl Bound {
    /// The one whose path alone did, if packets wait in its queues and hardly in those of most others:
    /// where packets are lost at random hardly anybody ever has all that was sent, so that this tells who is slow.
    fn alone(bounds: &[Bound], elapsed: Duration) -> Option<usize> {
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
    fn note(&mut self, tick: Tick, awaited: bool, behind: Behind, acknowledged: u64) {
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
        let is_far = acknowledged.saturating_mul(FAR) < tick.usual;
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

    fn held(&self) -> u32 {
        (self.held_in & WINDOW_MASK).count_ones()
    }

    fn behind(&self) -> u32 {
        (self.behind_in & LANE_MASK).count_ones()
    }

    /// In how many of the last ticks it made most of the others wait, if those are so many that it is left behind.
    fn left_behind(&self) -> Option<u32> {
        let behind = self.behind();
        let far_behind = (self.far_behind_in & LANE_MASK).count_ones();
        (behind >= MOST_BEHIND || far_behind >= MOST_FAR_BEHIND).then_some(behind)
    }

    fn awaited_for(&self) -> u32 {
        (self.awaited_in & WINDOW_MASK).count_ones()
    }
}

/// What the sender keeps of its own doings for the sake of fairness.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// When the session was last called, and for how long it was not, in all.
    called: Option<Time>,
    asleep: Duration,
    /// When the members were last looked at, as the session counts time.
    ticked: Option<Time>,
    /// When the protocol last gave a datagram out that the network has not asked for more after.
    handed: Option<Time>,
    /// Since the last tick: time that the rate took, of sending what is outstanding once.
    own: Duration,
    /// Messages sent, and completed.
    sent: u64,
    sent_before: u64,
    completed: u64,
    /// Messages sent again since one was completed.
    repeated: u64,
    /// Messages completed by each of the last ticks.
    history: VecDeque<u64>,
    /// The last offer was not taken.
    pub blocked: bool,
    /// When a helper was lost last.
    pub helper_lost: Option<Time>,
}

impl Pulse {
    /// Counts what the protocol does.
    pub fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::Sent { repair: false, .. } => self.sent += 1,
            Notice::Sent { repair: true, .. } => self.repeated = self.repeated.saturating_add(1),
            Notice::Completed { .. } => (self.completed, self.repeated) = (self.completed + 1, 0),
            Notice::RepairNeeded { .. }
            | Notice::MemberLost { .. }
            | Notice::TooFew
            | Notice::GivenUp { .. } => {}
        }
    }

    /// The network asks for a datagram: it was busy with the last one until now.
    pub fn asked(&mut self, now: Time) {
        let busy = self.handed.take().map_or(Duration::ZERO, |handed| now.since(handed));
        // Repeating for ever is not the rate's doing.
        if self.repeated <= self.sent.saturating_sub(self.completed) {
            self.own += busy;
        }
    }

    /// The protocol gave one out.
    pub fn handed(&mut self, now: Time) {
        self.handed = Some(now);
    }
}

impl SenderSession {
    /// Called first of all: a sender that was not running has heard nobody, and it is nobody's fault.
    pub(super) fn note_time(&mut self, now: Time) {
        let gap = self.pulse.called.replace(now).map_or(Duration::ZERO, |called| now.since(called));
        // At each heartbeat at least it is called.
        if gap > 2 * self.config.heartbeat {
            self.pulse.asleep += gap - self.config.heartbeat;
        }
    }

    /// The time without that in which the session was not running.
    pub(super) fn awake(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_sub(self.pulse.asleep.as_nanos() as u64))
    }

    /// How each of the members stands, in their order.
    pub fn standings(&self, now: Time) -> impl Iterator<Item = Standing> + '_ {
        let awake = self.awake(now);
        (0..self.roster.members().len()).map(move |index| {
            let record = self.roster.record(index);
            let Hold { awaited, path, .. } = record.hold;
            Standing { silent: awake.since(record.heard), awaited, path }
        })
    }

    /// Whether the protocol takes no more messages for now: the last one that was offered was not taken.
    pub fn is_blocked(&self) -> bool {
        self.pulse.blocked
    }

    /// Takes note of what the protocol has measured, while it is there to be asked.
    pub(super) fn note_paths(&mut self) {
        let Some(sender) = self.inner.as_mut().and_then(|inner| inner.as_sender()) else { return };
        for index in 0..self.roster.members().len() {
            let path = sender.measured(self.roster.members()[index].node);
            let hold = &mut self.roster.record_mut(index).hold;
            hold.path = path.or(hold.path);
        }
    }

    fn tick(&self) -> Duration {
        (self.config.member_timeout / TICKS).max(Duration::from_nanos(1))
    }

    /// From now on the members are looked at.
    pub(super) fn begin_watch(&mut self, now: Time) {
        self.pulse.ticked = Some(self.awake(now));
        self.timers.arm(Timer::Watch, now + self.tick());
    }

    /// Looks at the members: who is waited for, and who for too long.
    pub(super) fn watch(&mut self, now: Time) {
        self.timers.arm(Timer::Watch, now + self.tick());
        self.note_paths();
        let awake = self.awake(now);
        let elapsed = self.pulse.ticked.replace(awake).map_or(Duration::ZERO, |then| awake.since(then));
        if self.phase == SenderPhase::Closing {
            return self.watch_reports(now, elapsed);
        }
        let own = std::mem::take(&mut self.pulse.own);
        let quiet = self.pulse.sent == std::mem::replace(&mut self.pulse.sent_before, self.pulse.sent);
        if self.pulse.history.len() == WINDOW as usize {
            self.pulse.history.pop_front();
        }
        self.pulse.history.push_back(self.pulse.completed);
        let members: Vec<(usize, NodeId)> = (0..self.roster.members().len())
            .filter(|&index| self.is_needed(index))
            .map(|index| (index, self.roster.members()[index].node))
            .collect();
        let completed = self.pulse.completed;
        let bounding = self.bounding(&members, elapsed);
        let Some(sender) = self.inner.as_mut().and_then(|inner| inner.as_sender()) else { return };
        let see = |(index, node)| Seen {
            index,
            awaited: sender.awaits(node),
            acknowledged: sender.acknowledged(node).unwrap_or(completed),
            unanswered: sender.unanswered(node),
        };
        let seen: Vec<Seen> = members.into_iter().map(see).collect();
        let mut acknowledged: Vec<u64> = seen.iter().map(|seen| seen.acknowledged).collect();
        acknowledged.sort_unstable();
        let usual = acknowledged.get(acknowledged.len() / 2).copied().unwrap_or_default();
        let tick = Tick {
            counted: elapsed.saturating_sub(own),
            quiet,
            wanting: self.pulse.blocked || self.finishing,
            free: seen.iter().any(|seen| !seen.awaited),
            mostly_free: seen.iter().filter(|seen| !seen.awaited).count() * 2 >= seen.len(),
            usual,
        };
        // Most have at least three quarters more of what is under way than it.
        let under_way = self.pulse.sent.saturating_sub(completed);
        for &Seen { index, awaited, acknowledged, unanswered } in &seen {
            let hold = &mut self.roster.record_mut(index).hold;
            let answers = hold.path.is_some_and(|path| path.sent != hold.answered_before && path.has_room);
            hold.answered_before = hold.path.map_or(0, |path| path.sent);
            let behind = match usual.saturating_sub(acknowledged) {
                _ if bounding == Some(index) => Behind::Bounds,
                lag if answers && lag < (under_way / 4 * 3).max(1) => Behind::No,
                _ => Behind::IfAwaited,
            };
            hold.note(tick, awaited, behind, acknowledged);
            hold.keeps_waiting = tick.holds(awaited) && unanswered >= UNANSWERED;
            self.roster.member_mut(index).waited = self.roster.record(index).hold.waited();
        }
        for Seen { index, .. } in seen {
            if let Some(reason) = self.too_slow(awake, index) {
                self.give_up(now, index, reason);
            }
        }
    }

    /// The member whose path alone has [bounded](Bound::alone) since the last tick what went out.
    fn bounding(&mut self, members: &[(usize, NodeId)], elapsed: Duration) -> Option<usize> {
        let mut bounds = Vec::with_capacity(members.len());
        for &(index, _) in members {
            let hold = &mut self.roster.record_mut(index).hold;
            let Some(path) = hold.path else { continue };
            let held = path.held.saturating_sub(std::mem::replace(&mut hold.held_before, path.held));
            let round_trip = path.round_trip.unwrap_or_default();
            bounds.push(Bound { index, held, queued: path.queued, round_trip });
        }
        Bound::alone(&bounds, elapsed)
    }

    /// Whether nothing was heard of a member for longer than it takes to be heard if it is there.
    pub(super) fn is_silent(&self, awake: Time, index: usize) -> bool {
        awake.since(self.roster.record(index).heard) >= self.tick() * SILENT
    }

    /// Why a member is given up before it was silent for the whole of the time that it has.
    fn too_slow(&self, awake: Time, index: usize) -> Option<String> {
        if self.config.slow == Slow::Wait {
            return None;
        }
        let hold = &self.roster.record(index).hold;
        let receives = self.roster.members()[index].part == Part::Receives;
        let lanes = self.config.further && self.config.slow == Slow::Lane && receives;
        if lanes && hold.keeps_waiting && self.is_silent(awake, index) {
            let silent = awake.since(self.roster.record(index).heard).as_secs_f64();
            return Some(format!("silent for {silent:.1} s while most of the others waited"));
        }
        // Those who turned to a helper that is gone lack what it would have repaired: they come late once, and are not slow.
        let orphaned = self.pulse.helper_lost.is_some_and(|at| awake.since(at) < self.config.member_timeout);
        // It loses nothing by it: a further session begins where it is, if it will be waited for.
        let left_behind = hold.left_behind().filter(|_| lanes && self.may_go_on(index) && !orphaned);
        if let Some(behind) = left_behind {
            let (behind, window) = (self.tick() * behind, self.tick() * LANE_WINDOW);
            let (behind, window) = (behind.as_secs_f64(), Span::Time(window));
            return Some(format!("kept most of the others waiting for {behind:.1} s of {window}"));
        }
        let (timeout, window) = (self.config.member_timeout, self.tick() * WINDOW);
        // A helper answers for those below it: one of them that is silent is to be given up before it is.
        let patience = if self.roster.members()[index].part.helps() { 2 * timeout } else { timeout };
        if hold.stalled.0 >= patience {
            return Some(format!("acknowledged nothing for {}", Span::Time(patience)));
        }
        let held = hold.held();
        if held >= MOST_HELD {
            let held = (self.tick() * held).as_secs_f64();
            return Some(format!("kept the others waiting for {held:.1} s of {}", Span::Time(window)));
        }
        let oldest = self.pulse.history.front().filter(|_| self.pulse.history.len() == WINDOW as usize)?;
        if hold.awaited_for() < MOST_AWAITED {
            return None;
        }
        // Small messages count as full ones: what a slow path bounds is their number too.
        let bytes = (self.pulse.completed - oldest).saturating_mul(self.config.max_payload.into());
        self.below_least(bytes, window)
    }

    /// Says so if so many bytes in this time are less than the least progress.
    fn below_least(&self, bytes: u64, time: Duration) -> Option<String> {
        let time_text = Span::Time(time);
        if bytes == 0 {
            return Some(format!("made no progress for {time_text}"));
        }
        let rate = BitRate::new((bytes as f64 * 8.0 / time.as_secs_f64()) as u64);
        // A sender that is slow itself asks no more than that.
        let least = BitRate::new(self.config.min_rate?.bps().min(self.config.bit_rate.bps() / SLOWER))?;
        let made = rate.map_or_else(|| "less than 1 bit/s".to_owned(), rounded);
        (rate < Some(least)).then(|| format!("made {made} of at least {} for {time_text}", rounded(least)))
    }

    /// Waits for reports: a member has to get on by its own word.
    fn watch_reports(&mut self, now: Time, elapsed: Duration) {
        let (awake, window) = (self.awake(now), self.tick() * WINDOW);
        // However slow, who does this part in this time will be done before long.
        let enough = (self.offered_bytes / STEPS).max(1);
        let reporting = self.roster.active().filter(|&index| self.roster.members()[index].part.receives());
        for index in reporting.collect::<Vec<_>>() {
            let bytes = self.roster.members()[index].bytes;
            self.roster.member_mut(index).waited += elapsed;
            let record = self.roster.record_mut(index);
            let (before, since) = *record.pace.get_or_insert((bytes, awake));
            if awake.since(since) < window {
                continue;
            }
            record.pace = Some((bytes, awake));
            let slow = self.below_least(bytes - before, window).filter(|_| bytes - before < enough);
            if let Some(reason) = slow {
                self.give_up(now, index, reason);
            }
        }
    }

    /// Whether the session goes on only with this member or without it.
    pub(super) fn is_needed(&self, index: usize) -> bool {
        match self.roster.members()[index].outcome {
            MemberOutcome::Active => true,
            // The protocol may still wait for it.
            MemberOutcome::Verified => {
                let kept = self.config.has_peers() || self.phase == SenderPhase::Running;
                kept && !self.roster.record(index).expelled
            }
            MemberOutcome::Failed(_) | MemberOutcome::Lost(_) => false,
        }
    }
}

/// A rate in its largest unit, in whole numbers.
fn rounded(rate: BitRate) -> String {
    let bps = rate.bps();
    let unit = [1_000_000_000, 1_000_000, 1_000].into_iter().find(|&unit| bps >= 10 * unit).unwrap_or(1);
    BitRate::new(bps / unit * unit).unwrap_or(rate).to_string()
}

/// Messages that say little: a network that carries no long datagrams may carry these.
const FIRST: u64 = 8;
/// Looks at the members in a member timeout.
const TICKS: u32 = 20;
/// The sender was held up if it was for this many ticks: a round trip or a repair is not worth telling.
const NOTED: u32 = 2;
/// Others were kept waiting if they were for this many: 2 s of 5. With a fifth of all lost both ways at
/// each port a message and its acknowledgment get through in two tries of five, so that at four tries a
/// second most of the time passes without progress, but a tenth of it in pauses this long.
const STALL: u32 = 8;
/// Ticks over which a member's pace is judged: four member timeouts.
const WINDOW: u32 = 4 * TICKS;
const WINDOW_MASK: u128 = (1 << WINDOW) - 1;
/// A member that kept the others waiting in so many of them is given up: half.
const MOST_HELD: u32 = WINDOW / 2;
/// A member is too slow only if it was awaited in so many of them: three quarters.
const MOST_AWAITED: u32 = WINDOW / 4 * 3;
/// Ticks over which it is judged whether a member makes most of the others wait: the time of most repairs, and a few more.
const LANE_WINDOW: u32 = 8;
const LANE_MASK: u128 = (1 << LANE_WINDOW) - 1;
/// It does if it is behind in so many of them: three quarters.
const MOST_BEHIND: u32 = 6;
/// One that has less than this part of what most have is behind from the beginning on, and has no bad moment: so many are enough.
const FAR: u64 = 8;
const MOST_FAR_BEHIND: u32 = 3;
/// One that others wait for is asked again and again: so many questions in a row hardly anybody leaves unanswered that is there, if a fifth is lost both ways one of three
/// thousand. They are asked further and further apart, and the longer the further away it is.
const UNANSWERED: u32 = 8;
/// Who leaves them unanswered is given up, to be served later, if it was not heard for so many ticks: longer than a system keeps a process from running.
const SILENT: u32 = 3;
/// A path that held the sender up for half of a tick, and for three quarters of the time that anybody's did, bounds what goes out if packets wait in its
/// queues for so long, this part of its round trip, and so many times as long as in those of most others: links that are equally busy are not told apart.
const LEAST_QUEUED: Duration = Duration::from_millis(1);
const QUEUED_PART: u32 = 8;
const MUCH_LONGER: u32 = 4;
/// The least progress is at most this part of the sender's own rate.
const SLOWER: u64 = 8;
/// Of all that was sent, what is progress at any rate.
const STEPS: u64 = 64;

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
        let ticks = |usual, behind| {
            let mut hold = Hold::default();
            let mut note = || {
                hold.note(Tick { usual, ..TICK }, true, behind, 10);
                hold.left_behind()
            };
            (1..=LANE_WINDOW).find(|_| note().is_some())
        };
        // The first look says only that it is awaited now.
        assert_eq!(ticks(10 * FAR + 1, Behind::IfAwaited), Some(1 + MOST_FAR_BEHIND));
        assert_eq!(ticks(10 * FAR, Behind::IfAwaited), Some(1 + MOST_BEHIND));
        assert_eq!(ticks(10 * FAR + 1, Behind::No), None);
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

    #[test]
    fn rates_are_told_in_whole_numbers() {
        let texts: Vec<String> = [999, 12_345, 16_000, 1_234_567, 99_000_000]
            .into_iter()
            .map(|bps| rounded(BitRate::new(bps).expect("above zero")))
            .collect();
        assert_eq!(texts, ["999 bit/s", "12 kbit/s", "16 kbit/s", "1234 kbit/s", "99 Mbit/s"]);
    }
}
