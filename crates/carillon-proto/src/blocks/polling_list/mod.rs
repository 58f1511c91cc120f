//! Receivers of a polling sender, and the order in which they are polled.
//!
//! The list answers three questions for the whole group: how much may be in flight, how fast to send (both by its
//! [controller](CongestionControl)), and which message every receiver has room for. Ordered sets keep the minima up to
//! date in logarithmic time, since a group may have 100 000 members.

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_core::{BitRate, PathMeasure, Time};

use super::congestion::{Answer, CongestionControl, Limit, PathEstimate, PathRecord};
use super::{
    FlowControl, Minimum, NOMINAL_PACKET_BYTES, NodeMinimum, OutstandingPoll, RateControl, RepairBudget,
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
    /// Answers: packets arrived, round-trip time and loss.
    pub path: PathRecord,
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
    /// Sequence number after the last message it has room for.
    limit: u64,
    /// Loss rate as inverted float bits, so that ascending order is descending loss.
    loss: u64,
}

impl Member {
    fn bounds(&self, loss: f64) -> Bounds {
        // The bits of floats that are not negative sort like their values, so an ordered set of integers can hold
        // them.
        Bounds { limit: self.limit, loss: u64::MAX - loss.max(0.0).to_bits() }
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
    /// True if the controller limits the packets in flight.
    is_controlled: bool,
    /// Congestion control of the group.
    control: Box<dyn CongestionControl>,
    /// Number of receivers in the group.
    live: usize,
    /// True once a receiver has answered.
    is_answered: bool,
    /// Rate in packets per second while all receivers are silent, until one answers.
    unheard: Option<f64>,
    /// True while the fastest member alone limits the packets in flight, instead of the slowest one.
    follows_fastest: bool,
    /// Receiver with the path that keeps the sender from sending, and since when.
    held_since: Option<(usize, Time)>,
    /// Minima over all members, updated with each change, since a group may be large.
    limits: NodeMinimum,
    losses: Minimum,
}

impl PollingList {
    /// Creates a list of `members` receivers that were not polled yet. If not `is_controlled`, the sender does not ask
    /// the controller.
    pub fn new(
        members: usize,
        timeout: RetransmissionTimeout,
        control: Box<dyn CongestionControl>,
        is_controlled: bool,
    ) -> Self {
        let mut member = Member {
            open: 0,
            repeats: 0,
            unanswered: 0,
            unanswered_at: Time::ZERO,
            timeout: timeout.sparing_round_trips(),
            path: PathRecord::default(),
            // The room is unknown before the first response, and bounds nothing.
            limit: u64::MAX,
            held: Duration::ZERO,
            waiting: None,
            removed: false,
            message: 0,
            bounds: Bounds { limit: 0, loss: 0 },
        };
        member.bounds = member.bounds(0.0);
        let bounds = member.bounds;
        let mut list = PollingList {
            members: vec![member; members],
            budget: RepairBudget::new(REPAIRS_PER_MESSAGE),
            again: BTreeSet::new(),
            answering: (0..members).collect(),
            turn: 0,
            slowest_next: false,
            is_controlled,
            control,
            live: members,
            is_answered: false,
            unheard: None,
            follows_fastest: false,
            held_since: None,
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

    /// Congestion control of the group.
    pub fn control(&mut self) -> &mut dyn CongestionControl {
        self.control.as_mut()
    }

    /// Measurements of the path to a receiver. `message` is the next message: the receiver has room for it or not.
    pub fn measured(&self, index: usize, message: u64) -> Option<PathMeasure> {
        let member = &self.members[index];
        let (sent, arrived) = member.path.counts()?;
        let PathEstimate { window, loss, round_trip, queued } = self.estimate(index);
        Some(PathMeasure {
            sent,
            arrived,
            loss: loss.clamp(0.0, 1.0),
            round_trip,
            window,
            has_room: member.limit > message,
            queued,
            blocked: member.held,
        })
    }

    /// Estimate of the path to a receiver.
    fn estimate(&self, index: usize) -> PathEstimate {
        let of_record = || self.members[index].path.estimate(self.control.window_to(index));
        self.control.estimate(index).unwrap_or_else(of_record)
    }

    /// Loss rate of the worst path.
    pub fn loss(&self) -> f64 {
        self.losses.get().map_or(0.0, |least| f64::from_bits(u64::MAX - least))
    }

    /// Number of packets that may be in flight to all receivers.
    pub fn window(&self) -> u64 {
        let fastest = || self.in_group().map(|(index, _)| self.control.window_to(index)).max();
        // The controller keeps the minimum only. The maximum is needed in this mode alone.
        self.follows_fastest.then(fastest).flatten().unwrap_or_else(|| self.control.window())
    }

    /// Members that are in the group, with their indices.
    fn in_group(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members().filter(|(_, member)| !member.removed)
    }

    /// Returns true if the fastest member alone may limit the packets in flight for a while.
    pub fn has_own_windows(&self) -> bool {
        self.control.has_own_windows()
    }

    /// Lets the fastest member alone limit the packets in flight, or the slowest one again.
    pub fn follow_fastest(&mut self, on: bool) {
        self.follows_fastest = on && self.is_controlled && self.control.has_own_windows();
    }

    /// Returns true while the fastest member alone limits the packets in flight.
    pub fn follows_fastest(&self) -> bool {
        self.follows_fastest
    }

    /// Returns true if the path of each member is full, with `serial` packets sent.
    fn is_full_to_all(&self, serial: u64) -> bool {
        // A path that is full even to the fastest member is full to all members.
        let limit =
            |index: usize| self.members[index].path.answered().saturating_add(self.control.window_to(index));
        self.in_group().all(|(index, _)| serial >= limit(index))
    }

    /// Sequence number after the last message that all receivers have room for.
    pub fn room(&self) -> u64 {
        if self.follows_fastest {
            // A member that has not answered has stated no room. As a maximum, its value would mean unlimited room.
            let limits = self.in_group().map(|(_, member)| member.limit);
            let known = limits.filter(|&limit| limit != u64::MAX);
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
        &mut self,
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
        if oldest.is_none() {
            self.note_silence(now);
        }
        oldest.is_some_and(|oldest| serial >= self.limit(oldest.serial))
    }

    /// Notes whether all receivers are silent. Then none limits the packets in flight, so that their rate is limited
    /// instead.
    fn note_silence(&mut self, now: Time) {
        let is_asked = self.is_controlled && self.is_answered && self.unheard.is_none();
        if is_asked && self.in_group().all(|(index, _)| self.is_silent(index, now)) {
            self.unheard = Some(self.unheard_rate());
        }
    }

    /// Returns true from the time at which all receivers are silent until one answers.
    pub fn is_unheard(&self) -> bool {
        self.unheard.is_some()
    }

    /// Rate in packets per second while all receivers are silent: a window in each round trip of the nearest one, as
    /// if it answered. Lower rates would keep a receiver waiting that is reachable for moments only.
    fn unheard_rate(&self) -> f64 {
        let trips = self.in_group().filter_map(|(index, _)| self.estimate(index).round_trip);
        let trip = trips.min().unwrap_or(SILENCE_TIMEOUT).max(MIN_UNHEARD_TRIP);
        self.window().max(1) as f64 / trip.as_secs_f64()
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
            .find(|question| {
                serial >= question.serial.saturating_add(self.control.window_to(question.index))
            });
        let holder = holder.map(|question| question.index);
        if holder.is_none() {
            self.note_silence(now);
        }
        self.hold(now, holder);
        holder.is_some()
    }

    /// Records that the path of this member, or of none, keeps the sender from sending from now on.
    pub fn hold(&mut self, now: Time, index: Option<usize>) {
        let since = index.map(|index| (index, now));
        // Account the time to the receiver that held the sender until now. A path that is still filling is not a
        // limit yet.
        if let Some((before, since)) = std::mem::replace(&mut self.held_since, since) {
            let is_searching = self.control.limit(before) == Limit::Search;
            self.members[before].held += if is_searching { Duration::ZERO } else { now.since(since) };
        }
    }

    /// Records a poll to this receiver.
    pub fn on_poll(&mut self, now: Time, index: usize) {
        self.again.remove(&index);
        self.control.on_polled(now, index);
        let member = &mut self.members[index];
        member.open += 1;
        // The oldest poll counts, so that further polls do not restart the wait for a silent receiver.
        member.waiting.get_or_insert(now);
    }

    /// Records a response that closes `closed` outstanding polls.
    pub fn on_answer(&mut self, now: Time, index: usize, closed: u32, answer: Answer, limit: u64) {
        self.again.remove(&index);
        (self.is_answered, self.unheard) = (true, None);
        self.answering.insert(index);
        let member = &mut self.members[index];
        member.open -= closed;
        (member.repeats, member.unanswered) = (0, 0);
        // The response shows that the receiver is alive, so the wait for the other responses starts anew.
        member.waiting = if member.open > 0 { Some(now) } else { None };
        // Each poll has its own number, so the sample is unambiguous and Karn's rule (Karn and Partridge 1987) need
        // not exclude it.
        member.timeout.on_sample(now.since(answer.asked));
        member.limit = limit;
        if let Some(acknowledgment) = member.path.on_answer(now, answer) {
            self.control.on_acknowledged(now, index, &acknowledgment);
            if acknowledgment.newly_lost > 0 {
                self.control.on_lost(now, index, &acknowledgment);
            }
        }
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
        if !self.is_controlled || member.repeats > MAX_RANDOM_MISSES {
            member.timeout.on_expiry();
            self.control.on_silent(now, question.index);
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
        self.unheard = None;
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
        self.control.remove(index);
        let Bounds { limit, loss } = self.members[index].bounds;
        self.limits.remove(index, limit);
        self.losses.remove(loss);
    }

    /// Forgets all outstanding polls and repetitions.
    pub fn clear_polls(&mut self) {
        self.again.clear();
        self.unheard = None;
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
        if self.is_controlled
            && self.slowest_next
            // No single receiver limits the sender in the other mode, so none needs extra turns.
            && !self.follows_fastest
            && let Some(slowest) = self.control.deciding()
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

    /// Adds a member to the ordered sets.
    fn add(&mut self, index: usize, bounds: Bounds) {
        self.limits.insert(index, bounds.limit);
        self.losses.insert(bounds.loss);
    }

    /// Updates the ordered sets after a change of a member.
    fn update_bounds(&mut self, index: usize) {
        let loss = self.estimate(index).loss;
        let member = &mut self.members[index];
        let bounds = member.bounds(loss);
        let before = std::mem::replace(&mut member.bounds, bounds);
        self.limits.change(index, before.limit, bounds.limit);
        self.losses.change(before.loss, bounds.loss);
    }
}

/// Flow control by the controller: its window bounds the packets in flight.
impl FlowControl for PollingList {
    fn limit(&self, start: u64) -> u64 {
        start.saturating_add(self.window())
    }
}

/// Rate control by the controller, once it knows a rate.
impl RateControl for PollingList {
    fn rate(&self) -> Option<BitRate> {
        // While the fastest member alone limits the group, only its window does: slower paths have bounded the rate,
        // so that the capacity of its path is unknown.
        let known = self.control.rate().filter(|_| !self.follows_fastest);
        let packets = known.into_iter().chain(self.unheard).min_by(f64::total_cmp)?;
        BitRate::new((packets * 8.0 * NOMINAL_PACKET_BYTES as f64) as u64)
    }
}

/// Silence after which a receiver no longer holds up the others while the window has room.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(500);
/// Shortest round trip from which the rate to silent receivers is computed.
const MIN_UNHEARD_TRIP: Duration = Duration::from_millis(1);
/// Number of consecutive polls that random loss may take.
const MAX_RANDOM_MISSES: u32 = 4;
/// Repairs granted per message and receiver. A path that loses nine of ten packets needs nine repairs per message.
const REPAIRS_PER_MESSAGE: u64 = 9;

#[cfg(test)]
mod tests;
