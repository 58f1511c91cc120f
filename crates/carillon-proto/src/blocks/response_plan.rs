//! Schedule of polls by which responses arrive no faster than a node can process them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_core::Time;

/// Planned polls, and the number of responses expected in each epoch: the planned polling table and the anticipated
/// response count of Barcellos and Ezhilchelvan 1998, sections 2.3 and 2.4.
///
/// Time is divided into epochs with a quota of responses. A poll is planned for the first epoch with free quota in
/// which its response can arrive, and is sent one round-trip time earlier. Each child has at most one planned poll.
#[derive(Debug)]
pub struct ResponsePlan {
    /// Length of an epoch in nanoseconds.
    epoch: u64,
    /// Maximum number of responses per epoch.
    quota: u32,
    /// Responses expected by epoch, in epochs that are not over. There may be very many epochs in a round-trip time, so
    /// the ones without responses have no entry.
    counts: BTreeMap<u64, u32>,
    /// Planned poll of each child.
    plans: Vec<Option<Planned>>,
    /// Plans by the time to send the poll.
    by_time: BTreeSet<(Time, u32)>,
    /// Plans by epoch, with the ones that may be displaced first.
    by_epoch: BTreeSet<(u64, bool, u32)>,
    /// Children without a plan.
    unplanned: BTreeSet<u32>,
}

/// Poll that was not sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    /// Epoch in which the response is expected.
    epoch: u64,
    /// Time to send the poll.
    at: Time,
    /// True if an earlier poll was not answered, which gives priority.
    again: bool,
}

impl ResponsePlan {
    /// Creates an empty schedule for this number of children, with an epoch length and a quota of at least one.
    pub fn new(children: usize, epoch: Duration, quota: u32) -> Self {
        ResponsePlan {
            // Epoch numbers are times divided by this length. Without a quota, the search for a free epoch would not
            // end.
            epoch: u64::try_from(epoch.as_nanos()).unwrap_or(u64::MAX).max(1),
            quota: quota.max(1),
            counts: BTreeMap::new(),
            plans: vec![None; children],
            by_time: BTreeSet::new(),
            by_epoch: BTreeSet::new(),
            unplanned: (0..children as u32).collect(),
        }
    }

    /// Adds a child with the next index.
    pub fn add_child(&mut self) {
        self.unplanned.insert(self.plans.len() as u32);
        self.plans.push(None);
    }

    /// Removes a child and its plan.
    pub fn remove(&mut self, child: usize) {
        self.cancel(child);
        self.unplanned.remove(&(child as u32));
    }

    /// Plans a poll of a child without a plan. `round_trip` is the time until its response.
    pub fn plan(&mut self, now: Time, child: usize, round_trip: Duration) {
        if !self.unplanned.contains(&(child as u32)) {
            return;
        }
        let target = self.target(now, round_trip);
        // Epochs beyond the list have no responses, so the search ends.
        let epoch = (target..).find(|&epoch| self.expected(epoch) < self.quota).expect("some epoch is free");
        self.count(epoch);
        self.put(child, Planned { epoch, at: self.sending(now, epoch, round_trip), again: false });
    }

    /// Plans a poll of each child without a plan.
    pub fn plan_all(&mut self, now: Time, round_trip: impl Fn(usize) -> Duration) {
        for child in self.unplanned.iter().copied().collect::<Vec<_>>() {
            self.plan(now, child as usize, round_trip(child as usize));
        }
    }

    /// Plans a poll with priority for a child that did not answer. In a full epoch it displaces the poll of a child
    /// without priority, which is planned anew.
    pub fn plan_again(&mut self, now: Time, child: usize, round_trip: impl Fn(usize) -> Duration) {
        // A poll with priority is planned already, or the child is unknown.
        if self.plans.get(child).is_none_or(|plan| plan.is_some_and(|plan| plan.again)) {
            return;
        }
        // An ordinary plan would take quota of a later epoch for the same response.
        self.cancel(child);
        let own = round_trip(child);
        let soonest = self.target(now, own);
        // Find the first epoch with free quota, or with a poll without priority that can be displaced.
        let mut displaced = None;
        let epoch = (soonest..)
            .find(|&epoch| {
                let is_free = self.expected(epoch) < self.quota;
                if !is_free {
                    // Plans without priority sort first, as `false` is less than `true`.
                    let of_epoch = (epoch, false, 0)..(epoch, true, 0);
                    displaced = self.by_epoch.range(of_epoch).next().map(|&(_, _, other)| other as usize);
                }
                is_free || displaced.is_some()
            })
            .expect("some epoch is free");
        let at = if epoch == soonest { now } else { self.sending(now, epoch, own) };
        match displaced {
            None => self.count(epoch),
            // The count of the epoch stays: the response of another child fills it now.
            Some(other) => self.take(other),
        }
        self.put(child, Planned { epoch, at, again: true });
        // This child holds the place now, so the displaced one gets a later epoch.
        if let Some(other) = displaced {
            self.plan(now, other, round_trip(other));
        }
    }

    /// Plans late polls anew, with the priority they had. If they were sent now, their responses would add to those
    /// of other epochs.
    pub fn plan_late_anew(&mut self, now: Time, late: Duration, round_trip: impl Fn(usize) -> Duration) {
        let is_late = |&&(at, _): &&(Time, u32)| at + late < now;
        // Collect the late polls first, since planning changes the order by time.
        let late: Vec<u32> = self.by_time.iter().take_while(is_late).map(|&(_, child)| child).collect();
        for child in late.into_iter().map(|child| child as usize) {
            let again = self.plans[child].is_some_and(|plan| plan.again);
            self.cancel(child);
            match again {
                true => self.plan_again(now, child, &round_trip),
                false => self.plan(now, child, round_trip(child)),
            }
        }
    }

    /// Time of the first planned poll.
    pub fn next(&self) -> Option<Time> {
        self.by_time.first().map(|&(at, _)| at)
    }

    /// Children with due polls, longest due first.
    pub fn due(&self, now: Time) -> impl Iterator<Item = usize> + '_ {
        self.by_time.iter().take_while(move |&&(at, _)| at <= now).map(|&(_, child)| child as usize)
    }

    /// Returns true if the poll of a child is due.
    pub fn is_due(&self, now: Time, child: usize) -> bool {
        self.plans.get(child).is_some_and(|plan| plan.is_some_and(|plan| plan.at <= now))
    }

    /// Returns true if a poll of a child is planned.
    pub fn is_planned(&self, child: usize) -> bool {
        self.plans.get(child).is_some_and(Option::is_some)
    }

    /// Takes the poll of a child, which is being sent.
    pub fn take(&mut self, child: usize) {
        if let Some(plan) = self.plans.get_mut(child).and_then(Option::take) {
            // The count of the epoch stays, as the response to the poll is expected in it.
            self.by_time.remove(&(plan.at, child as u32));
            self.by_epoch.remove(&(plan.epoch, plan.again, child as u32));
            self.unplanned.insert(child as u32);
        }
    }

    /// Cancels all plans. Responses to polls already sent may still come.
    pub fn clear(&mut self) {
        while let Some(&(_, child)) = self.by_time.first() {
            self.cancel(child as usize);
        }
    }

    /// Number of planned polls.
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    /// Returns true if no poll is planned.
    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Number of responses expected in an epoch.
    pub fn expected(&self, epoch: u64) -> u32 {
        self.counts.get(&epoch).copied().unwrap_or_default()
    }

    /// Number of epochs with a count.
    pub fn span(&self) -> usize {
        self.counts.len()
    }

    /// Cancels the poll of a child: no response will come.
    fn cancel(&mut self, child: usize) {
        let Some(plan) = self.plans.get(child).copied().flatten() else { return };
        self.take(child);
        // Counts of past epochs are dropped, and the plan may belong to one of them.
        if let Some(count) = self.counts.get_mut(&plan.epoch) {
            *count = count.saturating_sub(1);
        }
    }

    fn put(&mut self, child: usize, plan: Planned) {
        self.by_time.insert((plan.at, child as u32));
        self.by_epoch.insert((plan.epoch, plan.again, child as u32));
        self.unplanned.remove(&(child as u32));
        self.plans[child] = Some(plan);
    }

    /// Epoch in which the response to a poll sent now arrives. Forgets past epochs.
    fn target(&mut self, now: Time, round_trip: Duration) -> u64 {
        // A past epoch limits no plan. Dropping the counts bounds the map by the number of plans in a round-trip time.
        let current = now.as_nanos() / self.epoch;
        while self.counts.first_key_value().is_some_and(|(&epoch, _)| epoch < current) {
            self.counts.pop_first();
        }
        (now + round_trip).as_nanos() / self.epoch
    }

    /// Time to send a poll for a response in this epoch.
    fn sending(&self, now: Time, epoch: u64, round_trip: Duration) -> Time {
        // A poll for the present epoch, or with a long round trip, would have to leave in the past. It is sent now.
        let begin = Time::from_nanos(epoch.saturating_mul(self.epoch));
        Time::from_nanos((begin.as_nanos()).saturating_sub(round_trip.as_nanos() as u64)).max(now)
    }

    fn count(&mut self, epoch: u64) {
        *self.counts.entry(epoch).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const EPOCH: u64 = 10;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + ms(millis)
    }

    #[test]
    fn polls_fill_quota_and_precede_epoch_by_round_trip() {
        let mut plan = ResponsePlan::new(7, ms(EPOCH), 3);
        plan.plan_all(at(100), |_| ms(4));
        assert_eq!([10, 11, 12].map(|epoch| plan.expected(epoch)), [3, 3, 1]);
        assert_eq!((plan.due(at(100)).collect::<Vec<_>>(), plan.next()), (vec![0, 1, 2], Some(at(100))));
        assert_eq!((plan.is_due(at(105), 3), plan.is_due(at(106), 3)), (false, true));
        plan.plan(at(100), 0, ms(4));
        assert_eq!(plan.len(), 7, "one poll for each child at most");
    }

    #[test]
    fn plan_with_many_epochs_in_a_round_trip_stays_small() {
        let mut plan = ResponsePlan::new(5, Duration::from_nanos(1), 1);
        plan.plan_all(at(0), |child| Duration::from_secs(1000 + child as u64));
        assert_eq!((plan.len(), plan.span()), (5, 5));
    }

    #[test]
    fn late_poll_is_planned_anew() {
        let mut plan = ResponsePlan::new(4, ms(EPOCH), 2);
        plan.plan_all(at(0), |_| ms(0));
        plan.plan_late_anew(at(12), ms(2), |_| ms(0));
        assert_eq!(plan.due(at(12)).collect::<Vec<_>>(), [2, 3], "in time: two of them");
        assert_eq!([1, 2].map(|epoch| plan.expected(epoch)), [2, 2]);
        plan.plan_late_anew(at(100), ms(2), |_| ms(0));
        assert_eq!(plan.due(at(100)).count(), 2, "a quota of four");
    }

    #[test]
    fn priority_poll_displaces_only_ordinary_one() {
        let mut plan = ResponsePlan::new(6, ms(EPOCH), 2);
        (1..5).for_each(|child| plan.plan(at(0), child, ms(0)));
        plan.plan_again(at(0), 0, |_| ms(0));
        assert_eq!(plan.due(at(0)).collect::<Vec<_>>(), [0, 2], "child 1 has lost its place");
        assert!(plan.is_planned(1) && !plan.is_due(at(19), 1) && plan.is_due(at(20), 1));
        plan.plan_again(at(0), 5, |_| ms(0));
        assert_eq!(plan.due(at(0)).collect::<Vec<_>>(), [0, 5]);
        plan.plan_again(at(0), 1, |_| ms(0));
        assert!(plan.is_due(at(10), 1), "the next epoch: the first has nobody to be displaced");
        assert_eq!([0, 1, 2].map(|epoch| plan.expected(epoch)), [2, 2, 2]);
    }

    /// Under random operations, no epoch exceeds its quota, each child has at most one plan, and the counts stay
    /// within the number of children and the round-trip times.
    #[test]
    fn quota_holds_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("response-plan");
        for _ in 0..60 {
            let (children, quota) = (1 + rng.below(40) as usize, 1 + rng.below(6) as u32);
            let trips: Vec<u64> = (0..children).map(|_| rng.below(90)).collect();
            let (mut plan, mut now) = (ResponsePlan::new(children, ms(EPOCH), quota), 0);
            // Polls sent, by the epoch of their response.
            let mut coming: BTreeMap<u64, u32> = BTreeMap::new();
            for _ in 0..800 {
                let child = rng.below(children as u64) as usize;
                match rng.below(8) {
                    0 => plan.plan(at(now), child, ms(trips[child])),
                    1 => plan.plan_all(at(now), |child| ms(trips[child])),
                    2 => {
                        plan.plan_again(at(now), child, |child| ms(trips[child]));
                        assert!(plan.plans[child].is_some_and(|plan| plan.again));
                    }
                    3 if rng.chance(0.05) => plan.clear(),
                    _ => {
                        now += rng.below(4);
                        // Send polls in time: each goes out when it is due.
                        let due: Vec<usize> = plan.due(at(now)).collect();
                        for child in due {
                            let planned = plan.plans[child].expect("it is planned");
                            *coming.entry(planned.epoch).or_default() += 1;
                            let arrives = (now + trips[child]) / EPOCH;
                            assert!(arrives == planned.epoch || arrives == planned.epoch + 1, "{planned:?}");
                            plan.take(child);
                        }
                    }
                }
                assert!(coming.values().all(|&count| count <= quota), "{coming:?}");
                assert_eq!(
                    (plan.by_time.len(), plan.by_epoch.len()),
                    (plan.plans.iter().flatten().count(), plan.len())
                );
                assert_eq!(plan.len() + plan.unplanned.len(), children);
                assert!(
                    plan.span() as u64 <= children as u64 + 1 + 90_u64.div_ceil(EPOCH),
                    "{}",
                    plan.span()
                );
            }
        }
    }
}
