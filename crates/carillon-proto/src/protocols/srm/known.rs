//! The other members, as their session messages show them: who there is, and how far away.

use carillon_core::Time;
use carillon_wire::srm::{ENTRY_LEN, Entry, Session};

use super::config::{LONGEST_DISTANCE, Settings};

/// What a member knows of the others, by rank. Nothing is allocated before one is heard.
#[derive(Debug)]
pub(super) struct Known {
    own: u32,
    members: usize,
    table: Vec<Member>,
    /// How many others have been heard.
    heard: usize,
    /// Where the next session message begins, if not all fit into one.
    cursor: u32,
    initial_distance: f64,
    tick_us: u64,
    most_entries: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    heard: bool,
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
    pub fn new(own: u32, members: usize, settings: &Settings) -> Self {
        Known {
            own,
            members,
            table: Vec::new(),
            heard: 0,
            cursor: 0,
            initial_distance: settings.initial_distance,
            tick_us: settings.clock_tick,
            most_entries: settings.session_entries,
        }
    }

    /// A packet of this member came.
    pub fn on_heard(&mut self, rank: u32) {
        if self.table.is_empty() {
            self.table = vec![Member::default(); self.members];
        }
        let Some(member) = self.table.get_mut(rank as usize) else { return };
        self.heard += usize::from(!std::mem::replace(&mut member.heard, true));
    }

    /// A session message came. Only the entry of this member is looked for; false if the message is
    /// older than the last one.
    pub fn on_session(&mut self, now: Time, session: &Session<'_>) -> bool {
        let clock = self.clock_us(now);
        let Some(member) = self.table.get_mut(session.from as usize) else { return false };
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
        match self.table.get(rank as usize) {
            Some(&Member { round_trip, .. }) if round_trip > 0 => f64::from(round_trip - 1) / 2e6,
            _ if rank == self.own => 0.0,
            _ => self.initial_distance,
        }
    }

    /// How many members are known, this one too: G.
    pub fn group(&self) -> usize {
        self.heard + 1
    }

    /// The clock of this member as a session message carries it; never 0.
    pub fn clock_us(&self, now: Time) -> u32 {
        let micros = now.as_nanos() / 1000;
        ((micros - micros % self.tick_us) as u32).max(1)
    }

    /// The entries of a session message: of those that have sent messages, and of the others. `nexts`
    /// gives the former, ascending, with what is known of them.
    pub fn entries(&mut self, nexts: impl Iterator<Item = (u32, u64)>) -> [Vec<[u8; ENTRY_LEN]>; 2] {
        let mut nexts = nexts.peekable();
        let mut lists = [Vec::new(), Vec::with_capacity(self.heard.min(self.most_entries))];
        let some = self.heard > self.most_entries;
        let from = if some { self.cursor } else { 0 };
        let mut last = None;
        for (rank, member) in (0..).zip(&self.table) {
            while nexts.next_if(|&(source, _)| source < rank).is_some() {}
            let next = nexts.next_if(|&(source, _)| source == rank).map_or(0, |(_, next)| next);
            if !member.heard || rank < from || lists[0].len() + lists[1].len() == self.most_entries {
                continue;
            }
            last = Some(rank);
            let Member { came_us, sent_us, .. } = *member;
            let entry = Entry { member: rank, next: next as u32, came_us, sent_us };
            lists[usize::from(next == 0)].push(entry.to_bytes());
        }
        let is_last = |rank: u32| rank as usize + 1 >= self.table.len();
        self.cursor = last.filter(|&rank| some && !is_last(rank)).map_or(0, |rank| rank + 1);
        lists
    }
}

/// A session message may be so many behind the last one and merely be late.
const LATE: u32 = 16;
