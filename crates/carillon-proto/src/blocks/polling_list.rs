//! Path state of each receiver of a polling sender, and the order in which receivers are polled.
//!
//! The list answers three questions for the whole group: how much may be in flight (the smallest window of all
//! paths), how fast to send (the pace of the slowest path), and which message every receiver has room for. Ordered
//! sets keep the minima up to date in logarithmic time, since a group may have 100 000 members.

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::{BitRate, PathMeasure, Time};

use super::{
    Answer, FlowControl, Minimum, NodeMinimum, OutstandingPoll, Path, RateControl, RepairBudget,
    RetransmissionTimeout,
};

/// State of one receiver.
#[derive(Clone, Debug)]
pub struct Member {
    /// Number of outstanding polls to it.
    open: u32,
    /// Number of consecutive polls without a response, counted once for polls outstanding together.
    pub repeats: u32,
    /// Number of consecutive unanswered polls, counting only polls sent after the previous counted one expired.
    pub unanswered: u32,
    /// Time at which the last counted poll expired.
    unanswered_at: Time,
    /// Response timeout.
    pub timeout: RetransmissionTimeout,
    /// Estimates of the path: window, rate, round-trip time and loss.
    pub path: Path,
    /// Sequence number after the last message that the receiver has room for.
    pub limit: u64,
    /// Total time for which this path, once filled, kept the sender from sending.
    held: Duration,
    /// Time of the oldest poll since the last response.
    waiting: Option<Time>,
    /// True if the receiver is no longer in the group.
    removed: bool,
    /// Message that the repeated poll refers to.
    message: u64,
    /// Values of this member in the ordered sets of the group.
    bounds: Bounds,
}

/// Values of one receiver by which it limits the group.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Congestion window of the path in packets.
    window: u64,
    /// Congestion window with a bound on the packets in queues.
    bounded: u64,
    /// Sequence number after the last message it has room for.
    limit: u64,
    /// Loss rate as inverted float bits, so that ascending order is descending loss.
    loss: u64,
}

impl Member {
    fn bounds(&self) -> Bounds {
        // The bits of floats that are not negative sort like their values, so an ordered set of integers can hold
        // them.
        let loss = u64::MAX - self.path.loss().max(0.0).to_bits();
        Bounds { window: self.path.window(), bounded: self.path.bounded_window(), limit: self.limit, loss }
    }

    /// Measurements of the path. `message` is the next message: the receiver has room for it or not.
    pub fn measured(&self, message: u64) -> Option<PathMeasure> {
        self.path.measured(self.limit > message, self.held)
    }

    /// Returns true if a poll to it is unanswered.
    pub fn is_polled(&self) -> bool {
        self.waiting.is_some()
    }
}

/// Receivers of a polling sender, with the minima that limit the group.
#[derive(Debug)]
pub struct PollingList {
    members: Vec<Member>,
    /// Repairs that each receiver may still cause. The bound keeps a lying receiver from making the sender repeat
    /// everything forever.
    pub budget: RepairBudget<usize>,
    /// Receivers to poll again.
    again: BTreeSet<usize>,
    /// Receivers that answer polls.
    answering: BTreeSet<usize>,
    /// Receiver that has the next turn.
    turn: usize,
    /// True if the next turn goes to the slowest receiver, which is polled every second time.
    slowest_next: bool,
    /// True if the paths limit the packets in flight.
    by_path: bool,
    /// Number of packets that may be in flight beyond the capacity of the paths.
    flight: u64,
    /// Number of receivers in the group.
    live: usize,
    /// True once a receiver has answered.
    is_answered: bool,
    /// True while the fastest member alone limits the packets in flight, instead of the slowest one.
    follows_fastest: bool,
    /// Receiver with the path that keeps the sender from sending, and since when.
    held_since: Option<(usize, Time)>,
    /// Minima over all members, updated with each change, since a group may be large.
    windows: NodeMinimum,
    bounded: Minimum,
    limits: NodeMinimum,
    losses: Minimum,
}

impl PollingList {
    /// Creates a list of `members` receivers that were not polled yet. If `by_path`, the paths limit the packets in
    /// flight, and `flight` bounds the packets queued beyond their capacity.
    pub fn new(members: usize, timeout: RetransmissionTimeout, by_path: bool, flight: u64) -> Self {
        let nothing = Bounds { window: 0, bounded: 0, limit: 0, loss: 0 };
        let mut member = Member {
            open: 0,
            repeats: 0,
            unanswered: 0,
            unanswered_at: Time::ZERO,
            timeout: timeout.sparing_round_trips(),
            path: Path::with_buffers(flight),
            // The room is unknown before the first response, and bounds nothing.
            limit: u64::MAX,
            held: Duration::ZERO,
            waiting: None,
            removed: false,
            message: 0,
            bounds: nothing,
        };
        member.bounds = member.bounds();
        let bounds = member.bounds;
        let mut list = PollingList {
            members: vec![member; members],
            budget: RepairBudget::new(REPAIRS_PER_MESSAGE),
            again: BTreeSet::new(),
            answering: (0..members).collect(),
            turn: 0,
            slowest_next: false,
            by_path,
            flight,
            live: members,
            is_answered: false,
            follows_fastest: false,
            held_since: None,
            windows: NodeMinimum::default(),
            bounded: Minimum::default(),
            limits: NodeMinimum::default(),
            losses: Minimum::default(),
        };
        (0..members).for_each(|index| list.add(index, bounds));
        list
    }

    /// Number of receivers in the group.
    pub fn live(&self) -> usize {
        self.live
    }

    /// State of a receiver.
    pub fn member(&self, index: usize) -> &Member {
        &self.members[index]
    }

    /// Iterates over all receivers, including removed ones.
    pub fn members(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().enumerate()
    }

    /// Loss rate of the worst path.
    pub fn loss(&self) -> f64 {
        self.losses.get().map_or(0.0, |least| f64::from_bits(u64::MAX - least))
    }

    /// Number of packets that may be in flight to all receivers.
    pub fn window(&self) -> u64 {
        if self.follows_fastest {
            // The ordered sets keep minima only. The maximum is needed in this mode alone.
            return self.in_group().map(|member| member.bounds.bounded).max().unwrap_or(self.flight);
        }
        self.bounded.get().unwrap_or(self.flight)
    }

    /// Members that are in the group.
    fn in_group(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.removed)
    }

    /// Lets the fastest member alone limit the packets in flight, or the slowest one again.
    pub fn follow_fastest(&mut self, on: bool) {
        self.follows_fastest = on && self.by_path;
    }

    /// Returns true while the fastest member alone limits the packets in flight.
    pub fn follows_fastest(&self) -> bool {
        self.follows_fastest
    }

    /// Returns true if the path of each member is full, with `serial` packets sent.
    fn is_full_to_all(&self, serial: u64) -> bool {
        // A path that is full even to the fastest member is full to all members.
        self.in_group().all(|member| serial >= member.path.answered().saturating_add(member.bounds.bounded))
    }

    /// Sequence number after the last message that all receivers have room for.
    pub fn room(&self) -> u64 {
        if self.follows_fastest {
            // A member that has not answered has stated no room. As a maximum, its value would mean unlimited room.
            let known = self.in_group().map(|member| member.limit).filter(|&limit| limit != u64::MAX);
            return known.max().unwrap_or(u64::MAX);
        }
        self.limits.get().map_or(u64::MAX, |(limit, _)| limit)
    }

    /// Receivers without room for this message, least room first.
    pub fn without_room_for(&self, message: u64) -> impl Iterator<Item = usize> + '_ {
        self.limits.up_to(message)
    }

    /// Returns true if the receiver is in the group, answers, and has no outstanding poll.
    pub fn is_free(&self, index: usize) -> bool {
        let member = &self.members[index];
        !member.removed && member.open == 0 && member.repeats == 0
    }

    /// Returns true if the receiver is in the group and has no outstanding poll.
    pub fn is_unpolled(&self, index: usize) -> bool {
        let member = &self.members[index];
        !member.removed && member.open == 0
    }

    /// Returns true if the receiver has been silent so long that the others need not wait for it.
    fn is_silent(&self, index: usize, now: Time) -> bool {
        let member = &self.members[index];
        // A long wait alone proves nothing: on a path with a long round trip the response may still be in flight.
        let long = member.waiting.is_some_and(|since| now.since(since) >= SILENCE_TIMEOUT);
        member.repeats > MAX_RANDOM_MISSES || (member.unanswered > 0 && long)
    }

    /// Returns true if the window is full, with `serial` packets sent and these polls outstanding, oldest first.
    /// Before the first response, an initial window applies, however often the receivers are polled: the path may be
    /// long.
    pub fn is_full<'q>(
        &self,
        now: Time,
        serial: u64,
        open: impl IntoIterator<Item = &'q OutstandingPoll>,
    ) -> bool {
        if self.follows_fastest {
            return self.is_full_to_all(serial);
        }
        let mut open = open.into_iter().peekable();
        // No response yet: the only limit is the initial window, counted from the first packet.
        if !self.is_answered && (open.peek().is_some() || !self.again.is_empty()) {
            return serial >= self.limit(0);
        }
        // Silent receivers must not block the others, so the oldest poll of an answering receiver counts.
        let oldest = open.find(|question| !self.is_silent(question.index, now));
        oldest.is_some_and(|oldest| serial >= self.limit(oldest.serial))
    }

    /// Returns true if the window is full, like `is_full`, but compares each receiver with its own polls. A near
    /// receiver that answers soon thus does not limit the packets in flight to a far one. Records which receiver
    /// holds the sender up, and for how long.
    pub fn is_held<'q>(
        &mut self,
        now: Time,
        serial: u64,
        open: impl IntoIterator<Item = &'q OutstandingPoll>,
    ) -> bool {
        // In these cases the paths of single members do not decide.
        if !self.is_answered || self.follows_fastest {
            return self.is_full(now, serial, open);
        }
        // Of all polls beyond the group's window, find one with a full path of its own.
        let holder = open
            .into_iter()
            .take_while(|question| serial >= self.limit(question.serial))
            .filter(|question| !self.is_silent(question.index, now))
            .find(|question| serial >= question.serial + self.members[question.index].bounds.bounded);
        self.hold(now, holder.map(|question| question.index));
        holder.is_some()
    }

    /// Records that the path of this member, or of none, keeps the sender from sending from now on.
    pub fn hold(&mut self, now: Time, index: Option<usize>) {
        let since = index.map(|index| (index, now));
        // Account the time to the receiver that held the sender until now. A path that is still filling is not a
        // limit yet.
        if let Some((before, since)) = std::mem::replace(&mut self.held_since, since) {
            let member = &mut self.members[before];
            member.held += if member.path.is_filling() { Duration::ZERO } else { now.since(since) };
        }
    }

    /// Records a poll to this receiver.
    pub fn on_poll(&mut self, now: Time, index: usize) {
        self.again.remove(&index);
        let member = &mut self.members[index];
        member.open += 1;
        // The oldest poll counts, so that further polls do not restart the wait for a silent receiver.
        member.waiting.get_or_insert(now);
    }

    /// Records a response that closes `closed` outstanding polls.
    pub fn on_answer(&mut self, now: Time, index: usize, closed: u32, answer: Answer, limit: u64) {
        self.again.remove(&index);
        self.is_answered = true;
        self.answering.insert(index);
        let member = &mut self.members[index];
        member.open -= closed;
        (member.repeats, member.unanswered) = (0, 0);
        // The response shows that the receiver is alive, so the wait for the other responses starts anew.
        member.waiting = if member.open > 0 { Some(now) } else { None };
        // Each poll has its own number, so the sample is unambiguous and Karn's rule (Karn and Partridge 1987) need
        // not exclude it.
        member.timeout.on_sample(now.since(answer.asked));
        member.path.on_answer(now, answer);
        member.limit = limit;
        self.update_bounds(index);
    }

    /// Records a missing response. Returns true if the receiver is to be polled again, since no other poll to it is
    /// outstanding.
    pub fn on_no_answer(&mut self, now: Time, question: &OutstandingPoll) -> bool {
        let member = &mut self.members[question.index];
        member.open -= 1;
        // Polls sent together are often lost together. Only a poll sent after the last counted one expired says
        // something new.
        if question.at >= member.unanswered_at {
            (member.unanswered, member.unanswered_at) = (member.unanswered + 1, now);
        }
        // A newer poll may still be answered, so no repetition is needed yet.
        if member.open > 0 {
            return false;
        }
        member.repeats += 1;
        // Random loss takes a few polls and responses, and is no sign about the path.
        if !self.by_path || member.repeats > MAX_RANDOM_MISSES {
            member.timeout.on_expiry();
            member.path.on_silence();
        }
        member.message = question.message;
        // The receiver leaves the turns, so that it takes none from answering receivers while it is silent.
        self.again.insert(question.index);
        self.answering.remove(&question.index);
        self.update_bounds(question.index);
        true
    }

    /// Forgets the missing responses of this receiver, since the sender no longer waits for them.
    pub fn skip(&mut self, index: usize) {
        self.again.remove(&index);
        self.answering.insert(index);
        let member = &mut self.members[index];
        (member.repeats, member.unanswered, member.waiting) = (0, 0, None);
    }

    /// Removes a receiver that is no longer in the group.
    pub fn remove(&mut self, index: usize) {
        self.again.remove(&index);
        self.answering.remove(&index);
        self.members[index].removed = true;
        self.members[index].open = 0;
        self.live -= 1;
        // A removed receiver must no longer limit the group.
        let Bounds { window, bounded, limit, loss } = self.members[index].bounds;
        self.windows.remove(index, window);
        self.bounded.remove(bounded);
        self.limits.remove(index, limit);
        self.losses.remove(loss);
    }

    /// Forgets all outstanding polls and repetitions.
    pub fn clear_polls(&mut self) {
        self.again.clear();
        for (index, member) in self.members.iter_mut().enumerate() {
            (member.open, member.unanswered, member.waiting) = (0, 0, None);
            // A receiver with repetitions has left the turns. It returns to them, since its repetitions are forgotten.
            if std::mem::take(&mut member.repeats) > 0 && !member.removed {
                self.answering.insert(index);
            }
        }
    }

    /// Next receiver to poll again, and the message of that poll.
    pub fn next_repeated(&mut self) -> Option<(usize, u64)> {
        let index = *self.again.first()?;
        Some((index, self.members[index].message))
    }

    /// Receivers to poll again.
    pub fn all_repeated(&self) -> impl Iterator<Item = usize> + '_ {
        self.again.iter().copied()
    }

    /// Next receiver in turn that `wanted` accepts. Receivers that leave polls unanswered are polled again
    /// separately. The slowest receiver gets every second turn, as its path limits all others.
    pub fn next_turn(&mut self, wanted: impl Fn(usize, &Member) -> bool) -> Option<usize> {
        self.slowest_next = !self.slowest_next;
        // A slowest receiver that is silent gets no extra turn: its repetitions are handled separately.
        if self.by_path
            && self.slowest_next
            && let Some(slowest) = self.much_slower()
            && self.answering.contains(&slowest)
            && wanted(slowest, &self.members[slowest])
        {
            return Some(slowest);
        }
        let index = self.in_turn(&self.answering).find(|&index| wanted(index, &self.members[index]))?;
        self.turn = (index + 1) % self.members.len();
        Some(index)
    }

    /// Up to `most` receivers in turn that `wanted` accepts, including those with up to `repeats` consecutive
    /// unanswered polls.
    pub fn next_turns(&mut self, most: usize, repeats: u32, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let all = |&index: &usize| wanted(index);
        let members: Vec<usize> = if repeats == 0 {
            self.in_turn(&self.answering).filter(all).take(most).collect()
        } else {
            // Silent receivers are not in `answering`, so all members are searched.
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

    /// Next receiver in turn that `wanted` accepts and that has no outstanding poll.
    pub fn next_unpolled(&mut self, wanted: impl Fn(usize, &Member) -> bool) -> Option<usize> {
        let fits = |&index: &usize| self.members[index].open == 0 && wanted(index, &self.members[index]);
        let index = self.in_turn(&self.answering).find(fits)?;
        self.turn = (index + 1) % self.members.len();
        Some(index)
    }

    /// Iterates over these receivers from the one with the next turn.
    fn in_turn<'m>(&self, members: &'m BTreeSet<usize>) -> impl Iterator<Item = usize> + use<'m> {
        members.range(self.turn..).chain(members.range(..self.turn)).copied()
    }

    /// Slowest receiver, if its window is less than half of the next smallest.
    fn much_slower(&self) -> Option<usize> {
        // The slowest receiver limits nothing in this mode, so it needs no extra turns.
        if self.follows_fastest {
            return None;
        }
        let (slow, slowest) = self.windows.get()?;
        self.windows.next().is_some_and(|least| slow < least / 2).then_some(slowest)
    }

    /// Adds a member to the ordered sets.
    fn add(&mut self, index: usize, bounds: Bounds) {
        self.windows.insert(index, bounds.window);
        self.bounded.insert(bounds.bounded);
        self.limits.insert(index, bounds.limit);
        self.losses.insert(bounds.loss);
    }

    /// Updates the ordered sets after a change of a member.
    fn update_bounds(&mut self, index: usize) {
        let member = &mut self.members[index];
        let bounds = member.bounds();
        let before = std::mem::replace(&mut member.bounds, bounds);
        self.windows.change(index, before.window, bounds.window);
        self.bounded.change(before.bounded, bounds.bounded);
        self.limits.change(index, before.limit, bounds.limit);
        self.losses.change(before.loss, bounds.loss);
    }
}

/// Flow control by the slowest path: its window bounds the packets in flight.
impl FlowControl for PollingList {
    fn limit(&self, start: u64) -> u64 {
        start.saturating_add(self.window())
    }
}

/// Rate control by the slowest path, once its pace is known.
impl RateControl for PollingList {
    fn rate(&self) -> Option<BitRate> {
        // While the fastest member alone limits the group, only its window does: slower paths have bounded the rate,
        // so that the capacity of its path is unknown.
        let (_, slowest) = self.windows.get().filter(|_| !self.follows_fastest)?;
        let packets = self.members[slowest].path.pace()?;
        BitRate::new((packets * 8.0 * NOMINAL_PACKET_BYTES as f64) as u64)
    }
}

/// Size assumed for a packet where packets are counted, in bytes.
pub const NOMINAL_PACKET_BYTES: u64 = 1000;
/// Silence after which a receiver no longer holds up the others while the window has room.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of consecutive polls that random loss may take.
const MAX_RANDOM_MISSES: u32 = 4;
/// Repairs granted per message and receiver. A path that loses nine of ten packets needs nine repairs per message.
const REPAIRS_PER_MESSAGE: u64 = 9;

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

    fn question(list: &PollingList, index: usize) -> OutstandingPoll {
        let mark = list.member(index).path.mark();
        OutstandingPoll { index, message: 7, serial: 0, end: 0, at: Time::ZERO, mark }
    }

    fn answer(list: &PollingList, index: usize) -> Answer {
        Answer { asked: Time::ZERO, then: list.member(index).path.mark(), serial: 0, since: 0, arrived: 0 }
    }

    #[test]
    fn answering_members_take_equal_turns() {
        let mut list = list(5, false);
        list.on_poll(Time::ZERO, 2);
        assert!(list.on_no_answer(Time::ZERO, &question(&list, 2)));
        list.remove(4);
        let turns: Vec<_> = (0..6).filter_map(|_| list.next_turn(|_, _| true)).collect();
        assert_eq!((turns, list.live()), (vec![0, 1, 3, 0, 1, 3], 4));
        assert_eq!(list.next_repeated(), Some((2, 7)), "it is asked again by itself");
        list.on_poll(Time::ZERO, 2);
        assert_eq!(list.next_repeated(), None);
        list.on_answer(Time::ZERO, 2, 1, answer(&list, 2), 50);
        assert_eq!((list.next_turn(|index, _| index == 2), list.room()), (Some(2), 50));
    }

    #[test]
    fn answer_is_not_overdue_within_round_trip() {
        let ms = Duration::from_millis;
        let mut list =
            PollingList::new(1, RetransmissionTimeout::adaptive(ms(50), ms(2), ms(250)), true, 1000);
        list.on_poll(Time::ZERO, 0);
        list.on_answer(at(600), 0, 1, answer(&list, 0), u64::MAX);
        assert!(list.member(0).timeout.current() > ms(600), "{:?}", list.member(0).timeout);
    }

    #[test]
    fn near_member_does_not_bound_far_members_window() {
        let mut list = list(2, true);
        // 100 000 packets a second to two receivers, 1 ms and 100 ms away.
        for (index, millis, packets) in [(0, 1, 100), (1, 100, 10_000)] {
            list.on_poll(Time::ZERO, index);
            let then = list.member(index).path.mark();
            let arrived = packets as u32;
            let answer = Answer { asked: Time::ZERO, then, serial: packets, since: packets, arrived };
            list.on_answer(Time::from_nanos(millis * 1_000_000), index, 1, answer, u64::MAX);
        }
        let now = Time::from_nanos(101_000_000);
        let [near, far] = [0, 1].map(|index| OutstandingPoll { serial: 10_000, ..question(&list, index) });
        (0..2).for_each(|index| list.on_poll(now, index));
        assert!(list.is_full(now, 14_000, [&far]), "as if it were near");
        for (serial, open, holder) in
            [(14_000, &[&far][..], None), (14_000, &[&far, &near], Some(0)), (60_000, &[&far], Some(1))]
        {
            assert_eq!(list.is_held(now, serial, open.iter().copied()), holder.is_some());
            assert_eq!(list.held_since.map(|(index, _)| index), holder);
        }
    }

    #[test]
    fn held_time_counts_only_after_path_filled() {
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
    fn initial_window_holds_until_first_answer() {
        let mut list = list(2, true);
        let late = question(&list, 0);
        let late = OutstandingPoll { serial: 120, ..late };
        for repeat in 0..10 {
            let now = Time::from_nanos(repeat * 50_000_000);
            list.on_poll(now, 0);
            assert!(!list.is_full(now, 10, [&late]));
            assert!(list.is_full(now, 128, [&late]), "at the repeat {repeat}");
            list.on_no_answer(now, &late);
        }
        let now = Time::from_nanos(600_000_000);
        list.on_poll(now, 0);
        list.on_poll(now, 1);
        list.on_answer(now, 1, 1, answer(&list, 1), 1000);
        assert!(!list.is_full(now, 128, [&late]), "the other one is silent");
    }

    #[test]
    fn never_answering_member_stops_holding_others_up() {
        let mut list = list(2, true);
        list.on_poll(at(0), 1);
        list.on_answer(at(0), 1, 1, answer(&list, 1), 1000);
        let unheard = |list: &PollingList, now: u64| OutstandingPoll { at: at(now), ..question(list, 0) };
        // A poll every 10 ms with a timeout of 50 ms keeps one outstanding all the time.
        let mut held = Vec::new();
        for now in (0..700).step_by(10) {
            list.on_poll(at(now), 0);
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
    fn counts_agree_with_model_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("polling-list");
        let (mut list, mut open, mut repeats) = (list(4, true), [0u32; 4], [0u32; 4]);
        let (mut limits, mut gone, mut now) = ([u64::MAX; 4], [false; 4], Time::ZERO);
        for _ in 0..5_000 {
            now += Duration::from_millis(1);
            let index = rng.below(4) as usize;
            match rng.below(8) {
                _ if gone[index] => {}
                0..=2 => {
                    list.on_poll(now, index);
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
            let unasked = list.next_unpolled(|_, _| true);
            let may = |index: usize| !gone[index] && open[index] == 0 && repeats[index] == 0;
            assert_eq!(unasked.is_some(), (0..4).any(may));
            assert!(unasked.is_none_or(may));
            assert!(list.window() <= 1000);
        }
    }
}
