//! How far away the others of a group are, by clocks that they echo in reports: half of the time there and back.

use std::time::Duration;

use carillon_core::Time;

/// What a member knows of the others. There is room only for those that were heard.
#[derive(Debug)]
pub struct Distances {
    own: u32,
    /// Those that were heard, by rank.
    table: Vec<Peer>,
    /// Where the next report begins, if not all fit into one.
    cursor: u32,
    /// Seconds, of those of whom nothing was measured.
    initial: f64,
    /// Nobody is taken to be further away.
    longest: Duration,
    tick_us: u64,
}

/// What a report says of a member: when its last one came, by the clock of who writes this, and the clock in that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// Both are 0 if none came.
    pub came_us: u32,
    /// Its clock.
    pub sent_us: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    rank: u32,
    /// Counts its reports.
    number: u32,
    /// Of the last one.
    echo: Echo,
    /// The last round-trip time measured, microseconds, and one: 0 if none was.
    round_trip: u32,
}

impl Distances {
    /// Of the member of this rank, whose clock has ticks of so many microseconds. Nobody else is known yet, and is taken
    /// to be `initial` seconds away.
    pub fn new(own: u32, initial: f64, longest: Duration, tick_us: u64) -> Self {
        Distances { own, table: Vec::new(), cursor: 0, initial, longest, tick_us }
    }

    /// A packet of this member came.
    pub fn on_heard(&mut self, rank: u32) {
        if let Err(at) = self.table.binary_search_by_key(&rank, |peer| peer.rank) {
            self.table.insert(at, Peer { rank, ..Peer::default() });
        }
    }

    /// The report of this number came from a member, with its clock and what it echoes of this one; false if it is older
    /// than the last one.
    pub fn on_report(&mut self, now: Time, from: u32, number: u32, sent_us: u32, echo: Option<Echo>) -> bool {
        let came_us = self.clock_us(now);
        let Ok(at) = self.table.binary_search_by_key(&from, |peer| peer.rank) else { return false };
        let peer = &mut self.table[at];
        // One that is far behind has begun anew.
        let behind = peer.number.wrapping_sub(number);
        if peer.echo.sent_us != 0 && behind > 0 && behind < LATE {
            return false;
        }
        (peer.number, peer.echo) = (number, Echo { came_us, sent_us });
        if let Some(echo) = echo.filter(|echo| echo.sent_us != 0) {
            let there_and_back = came_us.wrapping_sub(echo.sent_us);
            let round_trip = there_and_back.saturating_sub(sent_us.wrapping_sub(echo.came_us));
            peer.round_trip = round_trip.min(2 * self.longest.as_micros() as u32) + 1;
        }
        true
    }

    /// The distance to a member, seconds: half of the round-trip time.
    pub fn distance(&self, rank: u32) -> f64 {
        let at = self.table.binary_search_by_key(&rank, |peer| peer.rank);
        match at.map(|at| self.table[at].round_trip) {
            Ok(round_trip @ 1..) => f64::from(round_trip - 1) / 2e6,
            _ if rank == self.own => 0.0,
            _ => self.initial,
        }
    }

    /// How many members are known, this one too: G.
    pub fn group(&self) -> usize {
        self.table.len() + 1
    }

    /// The clock of this member as a report carries it; never 0.
    pub fn clock_us(&self, now: Time) -> u32 {
        let micros = now.as_nanos() / 1000;
        ((micros - micros % self.tick_us) as u32).max(1)
    }

    /// What the next report says: so many members at most, in turn, of those that were heard and those of `nexts`, which
    /// ascend, with what is known of them.
    pub fn next_report(
        &mut self,
        most: usize,
        nexts: impl Iterator<Item = (u32, u64)>,
    ) -> Vec<(u32, u64, Echo)> {
        let from = std::mem::take(&mut self.cursor);
        let mut nexts = nexts.skip_while(|&(source, _)| source < from).peekable();
        let first = self.table.partition_point(|peer| peer.rank < from);
        let mut table = self.table[first..].iter().peekable();
        let mut report = Vec::with_capacity(table.len().min(most));
        // Both ascend: the lower rank is next.
        loop {
            let ranks = table.peek().map(|peer| peer.rank).into_iter().chain(nexts.peek().map(|next| next.0));
            let Some(rank) = ranks.min() else { return report };
            if report.len() == most {
                self.cursor = rank;
                return report;
            }
            let peer = table.next_if(|peer| peer.rank == rank).copied().unwrap_or_default();
            let next = nexts.next_if(|&(source, _)| source == rank).map_or(0, |(_, next)| next);
            report.push((rank, next, peer.echo));
        }
    }
}

/// A report may be so many behind the last one and merely be late.
const LATE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn two_that_report_to_each_other_find_half_of_the_round_trip_whatever_their_clocks() {
        let mut rng = carillon_core::Seeds::new(1).stream("distances");
        for _ in 0..200 {
            let (way, offset) = (1 + rng.below(100_000), rng.below(1 << 40));
            let mut pair = [0, 1].map(|own| Distances::new(own, 9.0, LONGEST, 1));
            assert_eq!((pair[0].distance(1), pair[0].distance(0)), (9.0, 0.0));
            let mut now = 10;
            for number in 1..5u32 {
                for (from, to) in [(0usize, 1usize), (1, 0)] {
                    let clock = |who: usize, now: u64| at(now + offset * who as u64);
                    let sent_us = pair[from].clock_us(clock(from, now));
                    let echo = pair[from].next_report(9, std::iter::empty()).first().map(|entry| entry.2);
                    now += way;
                    pair[to].on_heard(from as u32);
                    assert!(pair[to].on_report(clock(to, now), from as u32, number, sent_us, echo));
                    now += rng.below(1_000_000);
                }
            }
            for (own, other) in [(0, 1), (1, 0)] {
                assert!((pair[own].distance(other) * 1e6 - way as f64).abs() <= 1.0);
                assert_eq!(pair[own].group(), 2);
            }
        }
    }

    #[test]
    fn a_report_that_was_overtaken_is_none_and_who_begins_anew_is_heard() {
        let mut distances = Distances::new(0, 1.0, LONGEST, 1);
        assert!(!distances.on_report(at(1), 5, 100, 7, None), "it was never heard");
        distances.on_heard(5);
        assert!(distances.on_report(at(1), 5, 100, 7, None));
        assert!(!distances.on_report(at(2), 5, 99, 7, None));
        assert!(distances.on_report(at(2), 5, 1, 7, None));
    }

    #[test]
    fn all_have_their_turn_in_reports_that_hold_few() {
        let mut distances = Distances::new(0, 1.0, LONGEST, 1);
        [2, 3, 9].into_iter().for_each(|rank| distances.on_heard(rank));
        let mut told = Vec::new();
        for _ in 0..5 {
            let report = distances.next_report(2, [(3, 30), (4, 40), (11, 110)].into_iter());
            assert!(report.len() <= 2 && report.is_sorted_by_key(|entry| entry.0));
            told.extend(report.into_iter().map(|(rank, next, _)| (rank, next)));
        }
        let round = [(2, 0), (3, 30), (4, 40), (9, 0), (11, 110)];
        assert_eq!(told, [&round[..], &round[..4]].concat());
    }
}
