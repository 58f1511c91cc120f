//! Distances between the members of a group, from timestamps that they echo in session reports.
//!
//! Each report carries the sender's clock and echoes the clock of the others with the time it was held, as in SRM
//! (Floyd et al. 1997, section 3) and RTCP (RFC 3550, section 6.4.1). Half of the resulting round-trip time is the
//! distance; the clocks need not agree.

use std::time::Duration;

use carillon_core::Time;

/// Distances from one member to the others. Only members that were received from take memory.
#[derive(Debug)]
pub struct Distances {
    /// Rank of this member.
    own: u32,
    /// Members received from, by rank.
    table: Vec<Peer>,
    /// First rank of the next report, if not all fit into one.
    cursor: u32,
    /// Distance in seconds assumed before a measurement.
    initial: f64,
    /// Upper bound of a measured distance.
    longest: Duration,
    /// Resolution of the clock in reports, in microseconds.
    tick_us: u64,
}

/// Timestamps that a report echoes for one member: arrival of its last report by the local clock, and the clock it
/// contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// Arrival time in microseconds; both fields are 0 if no report has arrived.
    pub came_us: u32,
    /// Clock of the member in that report.
    pub sent_us: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    rank: u32,
    /// Number of its last report.
    number: u32,
    /// Timestamps of its last report.
    echo: Echo,
    /// Last round-trip time in microseconds plus one; 0 before the first measurement.
    round_trip: u32,
}

impl Distances {
    /// Creates the table of the member `own` with clock ticks of `tick_us` microseconds. Other members are `initial`
    /// seconds away until measured.
    pub fn new(own: u32, initial: f64, longest: Duration, tick_us: u64) -> Self {
        Distances { own, table: Vec::new(), cursor: 0, initial, longest, tick_us }
    }

    /// Records a packet of this member.
    pub fn on_packet(&mut self, rank: u32) {
        // The table stays in ascending order of ranks, for bisection and for `next_report`.
        if let Err(at) = self.position(rank) {
            self.table.insert(at, Peer { rank, ..Peer::default() });
        }
    }

    /// Records report `number` of a member with its clock and its echo of this one. Returns false if the report is
    /// older than the last one.
    pub fn on_report(&mut self, now: Time, from: u32, number: u32, sent_us: u32, echo: Option<Echo>) -> bool {
        let came_us = self.clock_us(now);
        // Only `on_packet` creates entries, so that a report by itself takes no memory.
        let Ok(at) = self.position(from) else { return false };
        let peer = &mut self.table[at];
        // A member that is far behind has restarted its count.
        let behind = peer.number.wrapping_sub(number);
        if peer.echo.sent_us != 0 && behind > 0 && behind < MAX_REORDERING {
            return false;
        }
        (peer.number, peer.echo) = (number, Echo { came_us, sent_us });
        if let Some(echo) = echo.filter(|echo| echo.sent_us != 0) {
            // The member held the echoed timestamp from its arrival to this report. Subtract that time.
            let there_and_back = came_us.wrapping_sub(echo.sent_us);
            let round_trip = there_and_back.saturating_sub(sent_us.wrapping_sub(echo.came_us));
            // The bound limits the waits that a forged echo could cause. One is added because 0 means that nothing was
            // measured.
            peer.round_trip = round_trip.min(2 * self.longest.as_micros() as u32) + 1;
        }
        true
    }

    /// Index of a member in the table, or the one at which to insert it.
    fn position(&self, rank: u32) -> Result<usize, usize> {
        // A table without gaps has the member at its rank, without the own one: one access instead of a search.
        let guess = rank.saturating_sub(u32::from(rank > self.own)) as usize;
        match self.table.get(guess) {
            Some(peer) if peer.rank == rank => Ok(guess),
            _ => self.table.binary_search_by_key(&rank, |peer| peer.rank),
        }
    }

    /// Distance to a member in seconds: half of the round-trip time.
    pub fn distance(&self, rank: u32) -> f64 {
        let at = self.position(rank);
        match at.map(|at| self.table[at].round_trip) {
            Ok(round_trip @ 1..) => f64::from(round_trip - 1) / 2e6,
            _ if rank == self.own => 0.0,
            _ => self.initial,
        }
    }

    /// Number of known members, including this one (G in SRM).
    pub fn group(&self) -> usize {
        self.table.len() + 1
    }

    /// Clock of this member as reports carry it; never 0.
    pub fn clock_us(&self, now: Time) -> u32 {
        let micros = now.as_nanos() / 1000;
        // The clock wraps around every 2^32 microseconds, for which `on_report` allows. Zero would mean that there is
        // no timestamp.
        ((micros - micros % self.tick_us) as u32).max(1)
    }

    /// Contents of the next report: at most `most` members in turn, from the reporting members and those in `nexts`
    /// (ascending), with their timestamps.
    pub fn next_report(
        &mut self,
        most: usize,
        nexts: impl Iterator<Item = (u32, u64)>,
    ) -> Vec<(u32, u64, Echo)> {
        // Continue at the member where the last report was full. A complete report starts over.
        let from = std::mem::take(&mut self.cursor);
        let mut nexts = nexts.skip_while(|&(source, _)| source < from).peekable();
        let first = self.table.partition_point(|peer| peer.rank < from);
        let mut table = self.table[first..].iter().peekable();
        let mut report = Vec::with_capacity(table.len().min(most));
        // Merge the two ascending lists.
        loop {
            let ranks = table.peek().map(|peer| peer.rank).into_iter().chain(nexts.peek().map(|next| next.0));
            let Some(rank) = ranks.min() else { return report };
            if report.len() == most {
                self.cursor = rank;
                return report;
            }
            // A member in one list only gets the default of the other: an empty echo, or no stream.
            let peer = table.next_if(|peer| peer.rank == rank).copied().unwrap_or_default();
            let next = nexts.next_if(|&(source, _)| source == rank).map_or(0, |(_, next)| next);
            report.push((rank, next, peer.echo));
        }
    }
}

/// Number of reports that a reordered report may be behind the last one. A larger difference means a restart.
const MAX_REORDERING: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_DISTANCE: Duration = Duration::from_secs(60);

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn distance_is_half_round_trip_for_any_clocks() {
        let mut rng = carillon_core::Seeds::new(1).stream("distances");
        for _ in 0..200 {
            let (way, offset) = (1 + rng.below(100_000), rng.below(1 << 40));
            let mut pair = [0, 1].map(|own| Distances::new(own, 9.0, MAX_DISTANCE, 1));
            assert_eq!((pair[0].distance(1), pair[0].distance(0)), (9.0, 0.0));
            let mut now = 10;
            for number in 1..5u32 {
                for (from, to) in [(0usize, 1usize), (1, 0)] {
                    let clock = |who: usize, now: u64| at(now + offset * who as u64);
                    let sent_us = pair[from].clock_us(clock(from, now));
                    let echo = pair[from].next_report(9, std::iter::empty()).first().map(|entry| entry.2);
                    now += way;
                    pair[to].on_packet(from as u32);
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
    fn overtaken_report_is_ignored_but_restart_accepted() {
        let mut distances = Distances::new(0, 1.0, MAX_DISTANCE, 1);
        assert!(!distances.on_report(at(1), 5, 100, 7, None), "it was never heard");
        distances.on_packet(5);
        assert!(distances.on_report(at(1), 5, 100, 7, None));
        assert!(!distances.on_report(at(2), 5, 99, 7, None));
        assert!(distances.on_report(at(2), 5, 1, 7, None));
    }

    #[test]
    fn members_take_turns_in_small_reports() {
        let mut distances = Distances::new(0, 1.0, MAX_DISTANCE, 1);
        [2, 3, 9].into_iter().for_each(|rank| distances.on_packet(rank));
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
