//! Outages of links: times at which a link carries nothing, and when routes change.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use carillon_core::Time;

/// Time in which a link is down, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Link.
    pub link: u32,
    /// First moment of the outage.
    pub from: Time,
    /// Moment of the recovery; `None` if the link stays down.
    pub to: Option<Time>,
}

/// Outages of a network. All are known from the beginning, so that a packet is lost when it is sent if its link fails
/// before it arrives.
#[derive(Debug)]
pub(super) struct Outages {
    links: BTreeMap<u32, LinkOutages>,
    /// Changes of routes in order of time: the link and whether it can be used again.
    changes: VecDeque<(Time, u32, bool)>,
}

/// Outages of a link, in order of time and apart from each other.
#[derive(Debug, Default)]
struct LinkOutages {
    spans: Vec<(Time, Time)>,
    /// Number of outages that have emptied the queue of each direction.
    flushed: [usize; 2],
}

impl Outages {
    /// Outages, with changes of routes `convergence` after each beginning and end.
    pub(super) fn new(outages: &[Outage], convergence: Duration) -> Self {
        let mut links: BTreeMap<u32, LinkOutages> = BTreeMap::new();
        let mut all: Vec<Outage> = outages.to_vec();
        all.sort_by_key(|outage| (outage.link, outage.from));
        for Outage { link, from, to } in all {
            let spans = &mut links.entry(link).or_default().spans;
            let to = to.unwrap_or(Time::MAX);
            match spans.last_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(to),
                _ => spans.push((from, to)),
            }
        }
        let mut changes = Vec::new();
        for (&link, LinkOutages { spans, .. }) in &links {
            for &(from, to) in spans {
                changes.push((from + convergence, link, false));
                if to < Time::MAX {
                    changes.push((to + convergence, link, true));
                }
            }
        }
        changes.sort_unstable();
        Outages { links, changes: changes.into() }
    }

    /// Time of the next change of routes.
    pub(super) fn next_change(&self) -> Time {
        self.changes.front().map_or(Time::MAX, |&(at, _, _)| at)
    }

    /// Next change of routes that is due: the link and whether it can be used again.
    pub(super) fn take_change(&mut self, now: Time) -> Option<(u32, bool)> {
        let &(at, link, is_up) = self.changes.front()?;
        (at <= now).then(|| {
            self.changes.pop_front();
            (link, is_up)
        })
    }

    /// Returns true if a link is down at any time from `sent` to `arrives`, or at `sent`.
    pub(super) fn interrupt(&self, link: u32, sent: Time, arrives: Time) -> bool {
        let spans = self.links.get(&link).map_or(&[][..], |outages| &outages.spans);
        spans.iter().any(|&(from, to)| from <= arrives && sent < to)
    }

    /// Recovery since the last call at which the queue of a direction was empty.
    pub(super) fn recovery(&mut self, link: u32, direction: usize, now: Time) -> Option<Time> {
        let LinkOutages { spans, flushed } = self.links.get_mut(&link)?;
        let flushed = &mut flushed[direction];
        let passed = spans.iter().take_while(|&&(_, to)| to <= now).count();
        if passed == *flushed {
            return None;
        }
        *flushed = passed;
        spans.get(passed - 1).map(|&(_, to)| to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn overlapping_outages_are_one() {
        let outage = |link, from, to: Option<u64>| Outage { link, from: at(from), to: to.map(at) };
        let outages =
            [outage(1, 5, Some(7)), outage(1, 2, Some(4)), outage(1, 3, Some(5)), outage(0, 9, None)];
        let mut outages = Outages::new(&outages, Duration::from_secs(1));
        assert_eq!(outages.links[&1].spans, [(at(2), at(7))]);
        assert_eq!(outages.next_change(), at(3));
        assert_eq!(outages.take_change(at(2)), None);
        let changes: Vec<_> = std::iter::from_fn(|| outages.take_change(at(100))).collect();
        assert_eq!(changes, [(1, false), (1, true), (0, false)]);
        assert!(outages.interrupt(1, at(1), at(2)) && outages.interrupt(1, at(6), at(9)));
        assert!(!outages.interrupt(1, at(0), at(1)) && !outages.interrupt(1, at(7), at(8)));
        assert!(outages.interrupt(0, at(50), at(51)) && !outages.interrupt(2, at(5), at(6)));
        assert_eq!(outages.recovery(1, 0, at(6)), None);
        assert_eq!([outages.recovery(1, 0, at(8)), outages.recovery(1, 0, at(9))], [Some(at(7)), None]);
        assert_eq!(outages.recovery(1, 1, at(9)), Some(at(7)));
    }
}
