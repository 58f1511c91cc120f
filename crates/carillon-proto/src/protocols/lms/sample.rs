//! Sample of the packets that a receiver gets: the cost at which it offers itself as replier, and the conditions that
//! trigger an offer.
//!
//! The thesis (section 5.8.4) proposes that receivers "trigger updates when conditions have changed sufficiently (e.g.,
//! exposure or latency have become excessive)" instead of refreshing their state often. The conditions are compared at
//! the end of each sample, and a condition triggers once, when it becomes excessive.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use carillon_core::Time;

/// Rule for the offers of a receiver as replier, beside its answers to SETUP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Offers {
    /// At the end of each sample.
    Sampled,
    /// At the end of a sample in which conditions have changed.
    Triggered(Limits),
}

/// Limits above which a condition is excessive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// Duplicates in a sample, as a share of its packets.
    pub exposure: f32,
    /// Mean time from a loss to its repair, in round-trip times to the source.
    pub latency: f32,
}

/// Sample of the packets that arrive at a receiver.
#[derive(Debug)]
pub(super) struct Sample {
    offers: Offers,
    /// Number of packets of a sample.
    size: u64,
    packets: u64,
    duplicates: u64,
    /// Number of gaps, the cost of an adaptive replier.
    gaps: u32,
    /// Messages that are missing, and the time at which that was found.
    missing: BTreeMap<u64, Time>,
    repairs: u32,
    /// Sum of the times of the repairs.
    repair_time: Duration,
    /// True if a condition was excessive in the last sample.
    was_excessive: bool,
    cost: u32,
    /// Cost of the last offer.
    offered: u32,
}

impl Sample {
    /// Creates an empty sample of `size` packets.
    pub fn new(offers: Offers, size: u64) -> Self {
        Sample {
            offers,
            size,
            packets: 0,
            duplicates: 0,
            gaps: 0,
            missing: BTreeMap::new(),
            repairs: 0,
            repair_time: Duration::ZERO,
            was_excessive: false,
            cost: 0,
            offered: 0,
        }
    }

    /// Counts a gap.
    pub fn on_gap(&mut self, now: Time, gap: Range<u64>) {
        self.gaps = self.gaps.saturating_add(1);
        if let Offers::Triggered(_) = self.offers {
            self.missing.extend(gap.take(MAX_TIMED_LOSSES).map(|number| (number, now)));
            while self.missing.len() > MAX_TIMED_LOSSES {
                self.missing.pop_first();
            }
        }
    }

    /// Counts a message that was received before.
    pub fn on_duplicate(&mut self) {
        self.duplicates += 1;
    }

    /// Counts the repair of a missing message.
    pub fn on_repair(&mut self, now: Time, number: u64) {
        if let Some(found) = self.missing.remove(&number) {
            self.repairs += 1;
            self.repair_time += now.since(found);
        }
    }

    /// Counts a packet with a message. Returns true if the receiver has to offer itself at its present cost.
    pub fn on_packet(&mut self, rtt: Duration) -> bool {
        self.packets += 1;
        if self.packets < self.size {
            return false;
        }
        self.cost = self.gaps;
        let is_due = match self.offers {
            Offers::Sampled => true,
            Offers::Triggered(limits) => {
                let is_excessive = self.is_excessive(limits, rtt);
                let was_excessive = std::mem::replace(&mut self.was_excessive, is_excessive);
                (is_excessive && !was_excessive) || self.has_changed()
            }
        };
        (self.packets, self.duplicates, self.gaps) = (0, 0, 0);
        (self.repairs, self.repair_time) = (0, Duration::ZERO);
        is_due
    }

    /// Takes the cost for an offer that leaves now.
    pub fn take_cost(&mut self) -> u32 {
        self.offered = self.cost;
        self.cost
    }

    fn is_excessive(&self, limits: Limits, rtt: Duration) -> bool {
        let exposure = self.duplicates as f64 / self.packets as f64;
        let latency = self.repair_time.as_secs_f64() / f64::from(self.repairs.max(1));
        exposure > limits.exposure.into() || latency > f64::from(limits.latency) * rtt.as_secs_f64()
    }

    /// Returns true if the cost has at least doubled or halved since the last offer. One gap more or less is chance.
    fn has_changed(&self) -> bool {
        let (less, more) = (self.cost.min(self.offered), self.cost.max(self.offered));
        more >= 2 * less && more - less >= MIN_CHANGE
    }
}

/// Maximum number of missing messages that are timed until their repair; it bounds the memory.
const MAX_TIMED_LOSSES: usize = 1024;
/// Minimum difference of costs that counts as a change.
const MIN_CHANGE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { exposure: 0.2, latency: 1.5 };
    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Receives a sample of ten packets.
    fn ten(sample: &mut Sample) -> Vec<bool> {
        (0..10).map(|_| sample.on_packet(RTT)).collect()
    }

    fn gaps(sample: &mut Sample, count: u64) {
        (0..count).for_each(|gap| sample.on_gap(at(0), 2 * gap..2 * gap + 1));
    }

    #[test]
    fn changed_cost_triggers_and_same_cost_does_not() {
        let mut sample = Sample::new(Offers::Triggered(LIMITS), 10);
        let mut offers = Vec::new();
        for count in [0, 1, 4, 5, 7, 2, 2, 0] {
            gaps(&mut sample, count);
            let is_due = ten(&mut sample)[9];
            offers.push((sample.cost, is_due));
            if is_due {
                sample.take_cost();
            }
        }
        let expected =
            [(0, false), (1, false), (4, true), (5, false), (7, false), (2, true), (2, false), (0, true)];
        assert_eq!(offers, expected);
    }

    #[test]
    fn excessive_exposure_and_latency_trigger_once() {
        let mut sample = Sample::new(Offers::Triggered(LIMITS), 10);
        let mut triggers = Vec::new();
        for duplicates in [2, 3, 3, 0, 3] {
            (0..duplicates).for_each(|_| sample.on_duplicate());
            triggers.push(ten(&mut sample)[9]);
        }
        assert_eq!(triggers, [false, true, false, false, true]);
        let mut sample = Sample::new(Offers::Triggered(LIMITS), 10);
        let mut triggers = Vec::new();
        for millis in [150, 151, 400, 90] {
            sample.on_gap(at(0), 5..6);
            sample.on_repair(at(millis), 5);
            triggers.push(ten(&mut sample)[9]);
        }
        assert_eq!(triggers, [false, true, false, false]);
    }

    #[test]
    fn sampled_receiver_offers_after_each_sample() {
        let mut sample = Sample::new(Offers::Sampled, 10);
        assert_eq!((ten(&mut sample)[9], ten(&mut sample)[9]), (true, true));
    }
}
