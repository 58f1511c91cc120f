//! What a polling sender knows of each receiver, and whose turn it is to be asked.

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::{BitRate, PathMeasure, Time};

use super::{
    Answer, FlowControl, Lowest, LowestOf, Path, Question, RateControl, RepairBudget, RetransmissionTimeout,
};

/// A receiver.
#[derive(Clone, Debug)]
pub struct Member {
    /// Questions to it that are open.
    open: u32,
    /// How often in a row it has not answered.
    pub repeats: u32,
    /// The same, but questions count that were asked while others were open, one after the other, and when the last one counted.
    pub unanswered: u32,
    unanswered_at: Time,
    /// How long it is given for an answer.
    pub timeout: RetransmissionTimeout,
    /// What its path carries.
    pub path: Path,
    /// One past the last message that it has room for.
    pub limit: u64,
    /// For how long it was its path, once filled, for which nothing more could leave.
    held: Duration,
    /// Since when it has been asked without an answer.
    waiting: Option<Time>,
    /// No longer in the group.
    removed: bool,
    /// The message with which it is asked again.
    message: u64,
    /// What it counts as among the others.
    weight: Weight,
}

/// What the group is bounded by, of one receiver.
#[derive(Clone, Copy, Debug)]
struct Weight {
    /// Packets that its path may have under way, and those if no more stand in queues than may.
    window: u64,
    bounded: u64,
    limit: u64,
    /// What it loses, as a number that is the less the more it is.
    loss: u64,
}

impl Member {
    fn weight(&self) -> Weight {
        let loss = u64::MAX - self.path.loss().max(0.0).to_bits();
        Weight { window: self.path.window(), bounded: self.path.bounded_window(), limit: self.limit, loss }
    }

    /// What was measured of its path; it has room for messages before this one or not.
    pub fn measured(&self, message: u64) -> Option<PathMeasure> {
        self.path.measured(self.limit > message, self.held)
    }

    /// Whether it was asked and has not answered.
    pub fn is_asked(&self) -> bool {
        self.waiting.is_some()
    }
}

/// The receivers.
#[derive(Debug)]
pub struct PollingList {
    members: Vec<Member>,
    /// Repairs that each may still ask for: so that one that lies cannot make the sender repeat everything for ever.
    pub budget: RepairBudget<usize>,
    /// Those to be asked again.
    again: BTreeSet<usize>,
    /// Those who answer.
    answering: BTreeSet<usize>,
    /// The receiver whose turn is next.
    turn: usize,
    /// The slowest one is asked each second time: whether it is its time.
    slowest_next: bool,
    /// Whether the paths decide how much is under way.
    by_path: bool,
    /// Packets that may be under way beyond what the paths hold.
    flight: u64,
    live: usize,
    /// Somebody has answered.
    heard: bool,
    /// For whose path nothing more can leave, and since when.
    held_since: Option<(usize, Time)>,
    /// The least of what members have, kept as they change: a group may be large.
    windows: LowestOf,
    bounded: Lowest,
    limits: LowestOf,
    losses: Lowest,
}

impl PollingList {
    /// So many receivers, none of which was asked. If the paths decide how much may be under way, `flight` packets at
    /// most are beyond what the paths hold.
    pub fn new(members: usize, timeout: RetransmissionTimeout, by_path: bool, flight: u64) -> Self {
        let nothing = Weight { window: 0, bounded: 0, limit: 0, loss: 0 };
        let mut member = Member {
            open: 0,
            repeats: 0,
            unanswered: 0,
            unanswered_at: Time::ZERO,
            timeout: timeout.sparing_round_trips(),
            path: Path::with_buffers(flight),
            limit: u64::MAX,
            held: Duration::ZERO,
            waiting: None,
            removed: false,
            message: 0,
            weight: nothing,
        };
        member.weight = member.weight();
        let weight = member.weight;
        let mut list = PollingList {
            members: vec![member; members],
            budget: RepairBudget::new(REPAIRS_A_MESSAGE),
            again: BTreeSet::new(),
            answering: (0..members).collect(),
            turn: 0,
            slowest_next: false,
            by_path,
            flight,
            live: members,
            heard: false,
            held_since: None,
            windows: LowestOf::default(),
            bounded: Lowest::default(),
            limits: LowestOf::default(),
            losses: Lowest::default(),
        };
        (0..members).for_each(|index| list.add(index, weight));
        list
    }

    /// How many are in the group.
    pub fn live(&self) -> usize {
        self.live
    }

    /// What is known of one.
    pub fn member(&self, index: usize) -> &Member {
        &self.members[index]
    }

    /// All of them, those that are gone too.
    pub fn members(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().enumerate()
    }

    /// Which part of the packets the worst path loses.
    pub fn loss(&self) -> f64 {
        self.losses.get().map_or(0.0, |least| f64::from_bits(u64::MAX - least))
    }

    /// Packets that may be under way to all.
    pub fn window(&self) -> u64 {
        self.bounded.get().unwrap_or(self.flight)
    }

    /// One past the last message that all have room for.
    pub fn room(&self) -> u64 {
        self.limits.get().map_or(u64::MAX, |(limit, _)| limit)
    }

    /// Those who have no room for a message, who has least first.
    pub fn without_room_for(&self, message: u64) -> impl Iterator<Item = usize> + '_ {
        self.limits.up_to(message)
    }

    /// Whether it is in the group, answers, and has no open question.
    pub fn is_free(&self, index: usize) -> bool {
        let member = &self.members[index];
        !member.removed && member.open == 0 && member.repeats == 0
    }

    /// Whether it is in the group and has no open question.
    pub fn is_unasked(&self, index: usize) -> bool {
        let member = &self.members[index];
        !member.removed && member.open == 0
    }

    /// Whether it has left questions without an answer so long that the others need not wait any more.
    fn is_silent(&self, index: usize, now: Time) -> bool {
        let member = &self.members[index];
        let long = member.waiting.is_some_and(|since| now.since(since) >= PATIENCE);
        member.repeats > LOST_NOW_AND_THEN || (member.unanswered > 0 && long)
    }

    /// Whether as much is under way as may be, with so many packets sent and these questions open, the oldest first. As long as nobody has
    /// answered that is no more than what is sent into a path of which nothing is known, however often it is asked: it may be long.
    pub fn is_full<'q>(&self, now: Time, serial: u64, open: impl IntoIterator<Item = &'q Question>) -> bool {
        let mut open = open.into_iter().peekable();
        if !self.heard && (open.peek().is_some() || !self.again.is_empty()) {
            return serial >= self.limit(0);
        }
        let oldest = open.find(|question| !self.is_silent(question.index, now));
        oldest.is_some_and(|oldest| serial >= self.limit(oldest.serial))
    }

    /// The same, but of each receiver its own questions count: one that answers soon does not bound what one that is far away may have under
    /// way. For whom it is so, and for how long, is told by what was measured of its path.
    pub fn is_held<'q>(
        &mut self,
        now: Time,
        serial: u64,
        open: impl IntoIterator<Item = &'q Question>,
    ) -> bool {
        if !self.heard {
            return self.is_full(now, serial, open);
        }
        let holder = open
            .into_iter()
            .take_while(|question| serial >= self.limit(question.serial))
            .filter(|question| !self.is_silent(question.index, now))
            .find(|question| serial >= question.serial + self.members[question.index].weight.bounded);
        self.hold(now, holder.map(|question| question.index));
        holder.is_some()
    }

    /// From now on it is this member, or nobody, for whose path nothing more can leave.
    pub fn hold(&mut self, now: Time, index: Option<usize>) {
        let since = index.map(|index| (index, now));
        if let Some((before, since)) = std::mem::replace(&mut self.held_since, since) {
            let member = &mut self.members[before];
            member.held += if member.path.is_filling() { Duration::ZERO } else { now.since(since) };
        }
    }

    /// It is asked now.
    pub fn on_ask(&mut self, now: Time, index: usize) {
        self.again.remove(&index);
        let member = &mut self.members[index];
        member.open += 1;
        member.waiting.get_or_insert(now);
    }

    /// An answer came, after which so many questions fewer are open.
    pub fn on_answer(&mut self, now: Time, index: usize, closed: u32, answer: Answer, limit: u64) {
        self.again.remove(&index);
        self.heard = true;
        self.answering.insert(index);
        let member = &mut self.members[index];
        member.open -= closed;
        (member.repeats, member.unanswered) = (0, 0);
        member.waiting = if member.open > 0 { Some(now) } else { None };
        // A question has its own number, so Karn's rule has nothing to forbid.
        member.timeout.on_sample(now.since(answer.asked));
        member.path.on_answer(now, answer);
        member.limit = limit;
        self.weigh(index);
    }

    /// No answer in time; whether it is to be asked again, since nothing else is open.
    pub fn on_no_answer(&mut self, now: Time, question: &Question) -> bool {
        let member = &mut self.members[question.index];
        member.open -= 1;
        if question.at >= member.unanswered_at {
            (member.unanswered, member.unanswered_at) = (member.unanswered + 1, now);
        }
        if member.open > 0 {
            return false;
        }
        member.repeats += 1;
        // A question and its answer are lost now and then without meaning anything.
        if !self.by_path || member.repeats > LOST_NOW_AND_THEN {
            member.timeout.on_expiry();
            member.path.on_silence();
        }
        member.message = question.message;
        self.again.insert(question.index);
        self.answering.remove(&question.index);
        self.weigh(question.index);
        true
    }

    /// What it has not answered does not matter any more.
    pub fn skip(&mut self, index: usize) {
        self.again.remove(&index);
        self.answering.insert(index);
        let member = &mut self.members[index];
        (member.repeats, member.unanswered, member.waiting) = (0, 0, None);
    }

    /// It is no longer in the group.
    pub fn remove(&mut self, index: usize) {
        self.again.remove(&index);
        self.answering.remove(&index);
        self.members[index].removed = true;
        self.members[index].open = 0;
        self.live -= 1;
        let Weight { window, bounded, limit, loss } = self.members[index].weight;
        self.windows.remove(index, window);
        self.bounded.remove(bounded);
        self.limits.remove(index, limit);
        self.losses.remove(loss);
    }

    /// No question is open, and none is to be repeated.
    pub fn nothing_asked(&mut self) {
        self.again.clear();
        for (index, member) in self.members.iter_mut().enumerate() {
            (member.open, member.unanswered, member.waiting) = (0, 0, None);
            if std::mem::take(&mut member.repeats) > 0 && !member.removed {
                self.answering.insert(index);
            }
        }
    }

    /// The receiver that is to be asked again, and the message with which it was asked.
    pub fn next_again(&mut self) -> Option<(usize, u64)> {
        let index = *self.again.first()?;
        Some((index, self.members[index].message))
    }

    /// All receivers that are to be asked again.
    pub fn all_again(&self) -> impl Iterator<Item = usize> + '_ {
        self.again.iter().copied()
    }

    /// The next receiver by turns that `wanted` holds for. One that leaves questions unanswered is asked
    /// again by itself, and the slowest each second time: what it carries decides for all.
    pub fn next_turn(&mut self, wanted: impl Fn(usize, &Member) -> bool) -> Option<usize> {
        self.slowest_next = !self.slowest_next;
        if self.by_path
            && self.slowest_next
            && let Some(slowest) = self.much_slower()
            && self.answering.contains(&slowest)
            && wanted(slowest, &self.members[slowest])
        {
            return Some(slowest);
        }
        let index = self.by_turns(&self.answering).find(|&index| wanted(index, &self.members[index]))?;
        self.turn = (index + 1) % self.members.len();
        Some(index)
    }

    /// So many at most of those that `wanted` holds for, by turns: also those that have left so many questions in a row without an answer.
    pub fn next_turns(&mut self, most: usize, repeats: u32, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let all = |&index: &usize| wanted(index);
        let members: Vec<usize> = if repeats == 0 {
            self.by_turns(&self.answering).filter(all).take(most).collect()
        } else {
            let usable = |&index: &usize| {
                let member = &self.members[index];
                !member.removed && member.repeats <= repeats
            };
            let group = self.members.len();
            (0..group).map(|step| (self.turn + step) % group).filter(usable).filter(all).take(most).collect()
        };
        self.turn = members.last().map_or(self.turn, |last| (last + 1) % self.members.len());
        members
    }

    /// A receiver that `wanted` holds for and that has no open question.
    pub fn next_unasked(&mut self, wanted: impl Fn(usize, &Member) -> bool) -> Option<usize> {
        let fits = |&index: &usize| self.members[index].open == 0 && wanted(index, &self.members[index]);
        let index = self.by_turns(&self.answering).find(fits)?;
        self.turn = (index + 1) % self.members.len();
        Some(index)
    }

    /// These members from the one whose turn is next on.
    fn by_turns<'m>(&self, members: &'m BTreeSet<usize>) -> impl Iterator<Item = usize> + use<'m> {
        members.range(self.turn..).chain(members.range(..self.turn)).copied()
    }

    /// The slowest one, if it is much slower than the others may be.
    fn much_slower(&self) -> Option<usize> {
        let (slow, slowest) = self.windows.get()?;
        self.windows.next().is_some_and(|least| slow < least / 2).then_some(slowest)
    }

    /// Takes a member into account.
    fn add(&mut self, index: usize, weight: Weight) {
        self.windows.insert(index, weight.window);
        self.bounded.insert(weight.bounded);
        self.limits.insert(index, weight.limit);
        self.losses.insert(weight.loss);
    }

    /// What one counts as has changed.
    fn weigh(&mut self, index: usize) {
        let member = &mut self.members[index];
        let weight = member.weight();
        let before = std::mem::replace(&mut member.weight, weight);
        self.windows.change(index, before.window, weight.window);
        self.bounded.change(before.bounded, weight.bounded);
        self.limits.change(index, before.limit, weight.limit);
        self.losses.change(before.loss, weight.loss);
    }
}

/// What the slowest path carries may be under way.
impl FlowControl for PollingList {
    fn limit(&self, start: u64) -> u64 {
        start.saturating_add(self.window())
    }
}

/// What the slowest path carries may leave, if anything is known.
impl RateControl for PollingList {
    fn rate(&self) -> Option<BitRate> {
        let (_, slowest) = self.windows.get()?;
        let packets = self.members[slowest].path.pace()?;
        BitRate::new((packets * 8.0 * PACKET as f64) as u64)
    }
}

/// Bytes that stand for a packet where packets are counted.
pub const PACKET: u64 = 1000;
/// A receiver that has not answered for so long does not hold up the others, as long as the window
/// has room.
const PATIENCE: Duration = Duration::from_millis(500);
/// Questions in a row that random loss may take.
const LOST_NOW_AND_THEN: u32 = 4;
/// What a receiver may have repaired for each message. A path that loses nine packets of ten needs nine repairs a
/// message.
const REPAIRS_A_MESSAGE: u64 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::TimeoutMethod;

    fn list(members: usize, by_path: bool) -> PollingList {
        let ms = Duration::from_millis;
        let timeout = RetransmissionTimeout::with(TimeoutMethod::Constant, ms(20), ms(1), ms(1000));
        PollingList::new(members, timeout, by_path, 1000)
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn question(list: &PollingList, index: usize) -> Question {
        let mark = list.member(index).path.mark();
        Question { index, message: 7, serial: 0, end: 0, at: Time::ZERO, mark }
    }

    fn answer(list: &PollingList, index: usize) -> Answer {
        Answer { asked: Time::ZERO, then: list.member(index).path.mark(), serial: 0, since: 0, arrived: 0 }
    }

    #[test]
    fn all_have_their_turn_as_often_as_the_others_but_those_who_do_not_answer() {
        let mut list = list(5, false);
        list.on_ask(Time::ZERO, 2);
        assert!(list.on_no_answer(Time::ZERO, &question(&list, 2)));
        list.remove(4);
        let turns: Vec<_> = (0..6).filter_map(|_| list.next_turn(|_, _| true)).collect();
        assert_eq!((turns, list.live()), (vec![0, 1, 3, 0, 1, 3], 4));
        assert_eq!(list.next_again(), Some((2, 7)), "it is asked again by itself");
        list.on_ask(Time::ZERO, 2);
        assert_eq!(list.next_again(), None);
        list.on_answer(Time::ZERO, 2, 1, answer(&list, 2), 50);
        assert_eq!((list.next_turn(|index, _| index == 2), list.room()), (Some(2), 50));
    }

    #[test]
    fn an_answer_is_not_late_before_its_round_trip_is_over() {
        let ms = Duration::from_millis;
        let mut list =
            PollingList::new(1, RetransmissionTimeout::adaptive(ms(50), ms(2), ms(250)), true, 1000);
        list.on_ask(Time::ZERO, 0);
        list.on_answer(at(600), 0, 1, answer(&list, 0), u64::MAX);
        assert!(list.member(0).timeout.current() > ms(600), "{:?}", list.member(0).timeout);
    }

    #[test]
    fn one_that_answers_soon_does_not_bound_what_one_that_is_far_away_has_under_way() {
        let mut list = list(2, true);
        // 100 000 packets a second to both, one a millisecond away and one a hundred.
        for (index, millis, packets) in [(0, 1, 100), (1, 100, 10_000)] {
            list.on_ask(Time::ZERO, index);
            let then = list.member(index).path.mark();
            let arrived = packets as u32;
            let answer = Answer { asked: Time::ZERO, then, serial: packets, since: packets, arrived };
            list.on_answer(Time::from_nanos(millis * 1_000_000), index, 1, answer, u64::MAX);
        }
        let now = Time::from_nanos(101_000_000);
        let [near, far] = [0, 1].map(|index| Question { serial: 10_000, ..question(&list, index) });
        (0..2).for_each(|index| list.on_ask(now, index));
        assert!(list.is_full(now, 14_000, [&far]), "as if it were near");
        for (serial, open, holder) in
            [(14_000, &[&far][..], None), (14_000, &[&far, &near], Some(0)), (60_000, &[&far], Some(1))]
        {
            assert_eq!(list.is_held(now, serial, open.iter().copied()), holder.is_some());
            assert_eq!(list.held_since.map(|(index, _)| index), holder);
        }
    }

    #[test]
    fn how_long_a_path_holds_the_others_up_is_told_once_it_is_filled() {
        let mut list = list(2, true);
        list.hold(at(10), Some(0));
        list.hold(at(20), None);
        assert_eq!(list.member(0).held, Duration::ZERO, "it is still being found out");
        for answers in 1..20 {
            let answer = Answer { asked: at(answers), serial: answers * 10, since: 10, ..answer(&list, 0) };
            list.on_answer(
                at(answers + 1),
                0,
                0,
                Answer { arrived: answers as u32 * 10, ..answer },
                u64::MAX,
            );
        }
        assert!(!list.member(0).path.is_filling());
        list.hold(at(30), Some(0));
        list.hold(at(45), Some(1));
        list.hold(at(60), None);
        list.hold(at(90), None);
        assert_eq!([0, 1].map(|index| list.member(index).held.as_millis()), [15, 0]);
    }

    #[test]
    fn as_long_as_nobody_has_answered_no_more_goes_out_however_often_it_is_asked() {
        let mut list = list(2, true);
        let late = question(&list, 0);
        let late = Question { serial: 120, ..late };
        for repeat in 0..10 {
            let now = Time::from_nanos(repeat * 50_000_000);
            list.on_ask(now, 0);
            assert!(!list.is_full(now, 10, [&late]));
            assert!(list.is_full(now, 128, [&late]), "at the repeat {repeat}");
            list.on_no_answer(now, &late);
        }
        let now = Time::from_nanos(600_000_000);
        list.on_ask(now, 0);
        list.on_ask(now, 1);
        list.on_answer(now, 1, 1, answer(&list, 1), 1000);
        assert!(!list.is_full(now, 128, [&late]), "the other one is silent");
    }

    #[test]
    fn one_that_has_never_answered_holds_nobody_up_for_long_though_it_is_asked_all_the_time() {
        let mut list = list(2, true);
        list.on_ask(at(0), 1);
        list.on_answer(at(0), 1, 1, answer(&list, 1), 1000);
        let unheard = |list: &PollingList, now: u64| Question { at: at(now), ..question(list, 0) };
        // Each 10 ms a question, each of which has 50 ms; so one is open all the time.
        let mut held = Vec::new();
        for now in (0..700).step_by(10) {
            list.on_ask(at(now), 0);
            if now >= 50 {
                let expired = unheard(&list, now - 50);
                assert!(!list.on_no_answer(at(now), &expired));
            }
            let open = unheard(&list, now);
            held.push(list.is_held(at(now), 128, [&open]));
            assert_eq!(list.member(0).unanswered as u64, now / 50, "{now} ms");
        }
        assert_eq!(held.iter().filter(|held| **held).count(), 50, "for half a second");
        assert_eq!(list.member(0).repeats, 0);
        list.on_answer(at(700), 0, 1, answer(&list, 0), 1000);
        assert_eq!(list.member(0).unanswered, 0);
    }

    #[test]
    fn what_is_open_and_what_is_to_be_repeated_agree_with_counts_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("polling-list");
        let (mut list, mut open, mut repeats) = (list(4, true), [0u32; 4], [0u32; 4]);
        let (mut limits, mut gone, mut now) = ([u64::MAX; 4], [false; 4], Time::ZERO);
        for _ in 0..5_000 {
            now += Duration::from_millis(1);
            let index = rng.below(4) as usize;
            match rng.below(8) {
                _ if gone[index] => {}
                0..=2 => {
                    list.on_ask(now, index);
                    open[index] += 1;
                }
                3..=4 if open[index] > 0 => {
                    let closed = 1 + rng.below(open[index].into()) as u32;
                    limits[index] = rng.below(100);
                    list.on_answer(now, index, closed, answer(&list, index), limits[index]);
                    (open[index], repeats[index]) = (open[index] - closed, 0);
                }
                5..=6 if open[index] > 0 => {
                    let question = question(&list, index);
                    open[index] -= 1;
                    repeats[index] += u32::from(open[index] == 0);
                    assert_eq!(list.on_no_answer(now, &question), open[index] == 0);
                }
                7 if rng.below(1000) == 0 && index > 0 => {
                    list.remove(index);
                    (gone[index], open[index]) = (true, 0);
                }
                _ => {}
            }
            let live = || (0..4).filter(|&index| !gone[index]);
            assert!(live().all(|index| list.member(index).repeats == repeats[index]));
            assert_eq!(Some(list.room()), live().map(|index| limits[index]).min());
            assert_eq!(list.live(), live().count());
            let unasked = list.next_unasked(|_, _| true);
            let may = |index: usize| !gone[index] && open[index] == 0 && repeats[index] == 0;
            assert_eq!(unasked.is_some(), (0..4).any(may));
            assert!(unasked.is_none_or(may));
            assert!(list.window() <= 1000);
        }
    }
}
