//! What the sequencer knows of the other members.

use std::collections::BTreeSet;

use carillon_wire::reformation::Ranks;

/// The sequencer's side: the next place, the table of acknowledgments, the synchronisation
/// (Segovia 1996, 2.7).
#[derive(Clone, Debug)]
pub(super) struct Leader {
    /// The members whose acknowledgments it waits for.
    followers: Ranks,
    /// Followers that hold a message before it is accepted.
    resilience: usize,
    next: u64,
    /// One past the last place that has been sent to all.
    sent: u64,
    /// For each rank, one past the last place up to which it lacks nothing.
    acks: Vec<u64>,
    /// For each rank, how often it has not answered.
    silence: Vec<u32>,
    /// For each rank, its next message to be ordered.
    ordered: Vec<u64>,
    /// Whose turn it was last.
    turn: usize,
    sync: Sync,
    /// What is to be sent.
    pub due: Due,
}

/// Whether messages are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// They are.
    Open,
    /// The history is full: all members are to get what they lack.
    Phase1,
    /// They have; these are to know that all have.
    Phase2(Ranks),
}

/// What the sequencer has to send besides the next places.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    /// Messages have been accepted, and no other packet has said so.
    pub accept: bool,
    /// PHASE1, to those that are not known to have everything.
    pub phase1: bool,
    /// PHASE2, to those that have not answered it.
    pub phase2: bool,
    /// Who asked whether it lives.
    pub alive: Ranks,
    /// Places, and who lacks them.
    pub repairs: BTreeSet<(u64, usize)>,
}

impl Leader {
    /// The sequencer of this rank in a view with these members, all of which hold everything before
    /// `next`; `ordered` is the next message of each.
    pub fn new(rank: usize, members: &Ranks, resilience: usize, next: u64, ordered: Vec<u64>) -> Self {
        let mut followers = *members;
        followers.remove(rank);
        Leader {
            followers,
            resilience: resilience.min(followers.len()),
            next,
            sent: next,
            acks: vec![next; ordered.len()],
            silence: vec![0; ordered.len()],
            ordered,
            turn: rank,
            sync: Sync::Open,
            due: Due::default(),
        }
    }

    /// Gives the next place to the next message of this member.
    pub fn order(&mut self, source: usize) -> u64 {
        self.ordered[source] += 1;
        self.turn = source;
        self.next += 1;
        self.next - 1
    }

    /// The members in the order in which it is their turn.
    pub fn turns(&self) -> impl Iterator<Item = usize> + use<> {
        let (turn, count) = (self.turn, self.ordered.len());
        (1..=count).map(move |ahead| (turn + ahead) % count)
    }

    /// Whether all places have been sent to all.
    pub fn has_sent_all(&self) -> bool {
        self.sent == self.next
    }

    /// The next place that has not been sent to all, which then has.
    pub fn send_next(&mut self) -> Option<u64> {
        let next = (self.sent < self.next).then_some(self.sent)?;
        self.sent += 1;
        Some(next)
    }

    /// A member says that it has all messages before this place.
    pub fn on_ack(&mut self, rank: usize, ack: u64) {
        let before = self.accepted();
        self.silence[rank] = 0;
        self.acks[rank] = self.acks[rank].max(ack.min(self.next));
        self.due.accept |= self.accepted() > before;
        self.advance_sync();
    }

    /// The history is full and somebody has a message to send: the synchronisation begins.
    pub fn begin_sync(&mut self) {
        if self.sync == Sync::Open {
            self.sync = Sync::Phase1;
            self.due.phase1 = true;
            self.advance_sync();
        }
    }

    /// A member has answered PHASE2.
    pub fn on_phase2_ack(&mut self, rank: usize) {
        if let Sync::Phase2(missing) = &mut self.sync {
            missing.remove(rank);
            self.advance_sync();
        }
    }

    /// Nothing has happened for long: asks again. Returns who has been silent for more than `tries`
    /// times.
    pub fn ask_again(&mut self, tries: u32) -> Ranks {
        let wanted = match self.sync {
            Sync::Phase2(missing) => {
                self.due.phase2 = true;
                missing
            }
            Sync::Open | Sync::Phase1 => {
                self.due.phase1 = true;
                self.behind()
            }
        };
        let mut dead = Ranks::default();
        for rank in wanted.iter() {
            self.silence[rank] = self.silence[rank].saturating_add(1);
            if self.silence[rank] > tries {
                dead.insert(rank);
            }
        }
        dead
    }

    /// Waits for this member no more; returns whether it did.
    pub fn give_up(&mut self, rank: usize) -> bool {
        let waited = self.followers.remove(rank);
        self.on_phase2_ack(rank);
        self.advance_sync();
        waited
    }

    /// Waits for this member again, which lacks nothing that is not held any more.
    pub fn take_back(&mut self, rank: usize) -> bool {
        self.followers.insert(rank)
    }

    /// Whether there may be another place: the history has room.
    pub fn has_room(&self, history: u64) -> bool {
        self.next - self.purge() < history
    }

    /// Whether messages are ordered at all.
    pub fn is_open(&self) -> bool {
        self.sync == Sync::Open
    }

    /// Who has not answered PHASE2.
    pub fn phase2_missing(&self) -> Ranks {
        match self.sync {
            Sync::Phase2(missing) => missing,
            Sync::Open | Sync::Phase1 => Ranks::default(),
        }
    }

    /// The next place.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The next message of this member to be ordered.
    pub fn ordered(&self, source: usize) -> u64 {
        self.ordered[source]
    }

    /// Messages before this place are accepted: `resilience` members have them beside the sequencer.
    pub fn accepted(&self) -> u64 {
        if self.resilience == 0 {
            return self.sent;
        }
        let mut acks: Vec<u64> = self.followers.iter().map(|rank| self.acks[rank]).collect();
        acks.sort_unstable_by(|a, b| b.cmp(a));
        acks.get(self.resilience - 1).copied().unwrap_or(0)
    }

    /// Messages before this place are with all members.
    pub fn purge(&self) -> u64 {
        self.followers.iter().map(|rank| self.acks[rank]).min().unwrap_or(self.next)
    }

    /// Who is not known to have everything.
    pub fn behind(&self) -> Ranks {
        self.followers.iter().filter(|&rank| self.acks[rank] < self.next).collect()
    }

    /// Whether it waits for an answer.
    pub fn waits(&self) -> bool {
        self.purge() < self.next || self.sync != Sync::Open
    }

    /// Whether ordering or accepting does not go on before this member has said what it has: all have
    /// to once the history is full, and the first ones by rank for each message.
    pub fn awaits(&self, rank: usize) -> bool {
        match self.sync {
            Sync::Phase2(missing) => missing.contains(rank),
            Sync::Phase1 => self.behind().contains(rank),
            Sync::Open => {
                let first = self.followers.iter().take(self.resilience).any(|first| first == rank);
                first && self.has_tentative() && self.acks[rank] <= self.accepted()
            }
        }
    }

    /// One past the last place up to which this member is known to lack nothing.
    pub fn acknowledged(&self, rank: usize) -> u64 {
        self.acks[rank]
    }

    /// Whether messages wait to be accepted.
    pub fn has_tentative(&self) -> bool {
        self.accepted() < self.next
    }

    fn advance_sync(&mut self) {
        if self.sync == Sync::Phase1 && self.purge() == self.next {
            self.sync = Sync::Phase2(self.followers);
            self.due.phase1 = false;
            self.due.phase2 = true;
        }
        if self.phase2_missing().is_empty() && self.sync != Sync::Phase1 {
            self.sync = Sync::Open;
            self.due.phase2 = false;
        }
    }
}
