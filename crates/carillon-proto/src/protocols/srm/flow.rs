//! Flow control (Carillon's): a source goes no further beyond what all members have than they have room
//! for. The paper leaves it to the application, and nobody acknowledges; here the session messages
//! say what their sender lacks first.

/// What the members have said they have of this member's messages.
#[derive(Debug)]
pub(super) struct Flow {
    own: usize,
    /// By rank: the first message that it lacks.
    lacks: Vec<u64>,
    /// The least of them: the first message that is still to be kept for somebody.
    start: u64,
}

/// A member that is not waited for, and the start if all are such.
const NOBODY: u64 = u64::MAX;

impl Flow {
    /// Nobody has anything.
    pub fn new(own: u32, members: usize) -> Self {
        let mut flow = Flow { own: own as usize, lacks: vec![0; members], start: 0 };
        flow.remove(own);
        flow
    }

    /// A member says which message it lacks first; it does not take back what it said.
    pub fn on_word(&mut self, rank: u32, lacks: u64) {
        if let Some(old) = self.lacks.get_mut(rank as usize).filter(|old| **old < lacks) {
            let was = std::mem::replace(old, lacks);
            self.weigh(was);
        }
    }

    /// Nobody waits for this member any more.
    pub fn remove(&mut self, rank: u32) {
        if let Some(old) = self.lacks.get_mut(rank as usize) {
            let was = std::mem::replace(old, NOBODY);
            self.weigh(was);
        }
    }

    /// The first message that a member lacks, or no number if none is waited for.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Messages that this member has.
    pub fn has(&self, rank: u32) -> u64 {
        self.lacks.get(rank as usize).copied().unwrap_or_default()
    }

    /// Whether this member is the, or among the, furthest behind.
    pub fn awaits(&self, rank: u32) -> bool {
        rank as usize != self.own && self.has(rank) <= self.start
    }

    fn weigh(&mut self, was: u64) {
        if was <= self.start {
            self.start = self.lacks.iter().copied().min().unwrap_or(NOBODY);
        }
    }
}
