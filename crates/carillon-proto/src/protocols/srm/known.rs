//! The other members, as their session messages show them: who there is, and how far away.

use carillon_core::Time;
use carillon_wire::srm::{ENTRY_LEN, Entry, Session};

use super::config::{LONGEST_DISTANCE, Settings};

/// What a member knows of the others. There is room only for those that were heard.
#[derive(Debug)]
pub(super) struct Known {
    own: u32,
    /// Those that were heard, by rank.
    table: Vec<Member>,
    /// Where the next session message begins, if not all fit into one.
    cursor: u32,
    initial_distance: f64,
    tick_us: u64,
    most_entries: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    rank: u32,
    /// Counts its session messages.
    number: u32,
    /// The clock of this member when the last one came, and that which it carried; 0 if none did.
    came_us: u32,
    sent_us: u32,
    /// The last round-trip time measured, microseconds, and one: 0 if none was.
    round_trip: u32,
}

impl Known {
    /// Nobody else is known yet.
    pub fn new(own: u32, settings: &Settings) -> Self {
        Known {
            own,
            table: Vec::new(),
            cursor: 0,
            initial_distance: settings.initial_distance,
            tick_us: settings.clock_tick,
            most_entries: settings.session_entries,
        }
    }

    /// A packet of this member came.
    pub fn on_heard(&mut self, rank: u32) {
        if let Err(at) = self.table.binary_search_by_key(&rank, |member| member.rank) {
            self.table.insert(at, Member { rank, ..Member::default() });
        }
    }

    /// A session message came. Only the entry of this member is looked for; false if the message is
    /// older than the last one.
    pub fn on_session(&mut self, now: Time, session: &Session<'_>) -> bool {
        let clock = self.clock_us(now);
        let Ok(at) = self.table.binary_search_by_key(&session.from, |member| member.rank) else {
            return false;
        };
        let member = &mut self.table[at];
        // One that is far behind has begun anew.
        let behind = member.number.wrapping_sub(session.number);
        if member.sent_us != 0 && behind > 0 && behind < LATE {
            return false;
        }
        member.number = session.number;
        member.came_us = clock;
        member.sent_us = session.clock_us;
        let echo = session.sources.of(self.own).or_else(|| session.others.of(self.own));
        if let Some(Entry { came_us, sent_us, .. }) = echo.filter(|echo| echo.sent_us != 0) {
            let there_and_back = clock.wrapping_sub(sent_us);
            let round_trip = there_and_back.saturating_sub(session.clock_us.wrapping_sub(came_us));
            member.round_trip = round_trip.min(2 * LONGEST_DISTANCE.as_micros() as u32) + 1;
        }
        true
    }

    /// The distance to a member, seconds: half of the round-trip time.
    pub fn distance(&self, rank: u32) -> f64 {
        let at = self.table.binary_search_by_key(&rank, |member| member.rank);
        match at.map(|at| self.table[at].round_trip) {
            Ok(round_trip @ 1..) => f64::from(round_trip - 1) / 2e6,
            _ if rank == self.own => 0.0,
            _ => self.initial_distance,
        }
    }

    /// How many members are known, this one too: G.
    pub fn group(&self) -> usize {
        self.table.len() + 1
    }

    /// The clock of this member as a session message carries it; never 0.
    pub fn clock_us(&self, now: Time) -> u32 {
        let micros = now.as_nanos() / 1000;
        ((micros - micros % self.tick_us) as u32).max(1)
    }

    /// The entries of a session message: of those that have sent messages, and of the others. `nexts`
    /// gives the former, ascending, with what is known of them.
    pub fn entries(&mut self, nexts: impl Iterator<Item = (u32, u64)>) -> [Vec<[u8; ENTRY_LEN]>; 2] {
        let from = std::mem::take(&mut self.cursor);
        let mut nexts = nexts.skip_while(|&(source, _)| source < from).peekable();
        let first = self.table.partition_point(|member| member.rank < from);
        let mut table = self.table[first..].iter().peekable();
        let mut lists = [Vec::new(), Vec::with_capacity(table.len().min(self.most_entries))];
        // Both ascend: the lower rank is next.
        while let Some(rank) = table
            .peek()
            .map(|member| member.rank)
            .into_iter()
            .chain(nexts.peek().map(|&(rank, _)| rank))
            .min()
        {
            if lists[0].len() + lists[1].len() == self.most_entries {
                self.cursor = rank;
                break;
            }
            let member = table.next_if(|member| member.rank == rank).copied().unwrap_or_default();
            let next = nexts.next_if(|&(source, _)| source == rank).map_or(0, |(_, next)| next);
            let Member { came_us, sent_us, .. } = member;
            let entry = Entry { member: rank, next: next as u32, came_us, sent_us };
            lists[usize::from(next == 0)].push(entry.to_bytes());
        }
        lists
    }
}

/// A session message may be so many behind the last one and merely be late.
const LATE: u32 = 16;
