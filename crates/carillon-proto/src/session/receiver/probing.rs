//! What a member measures of how far others are: each is asked a few times, and the least time counts.

use std::collections::{BTreeMap, VecDeque};

use carillon_core::{DropReason, Duration, NodeId, Rng, Time};
use carillon_wire::session::{DistanceTo, Distances};

/// What a member measures, and whom it answers.
#[derive(Debug)]
pub(super) struct Probing {
    tokens: Rng,
    /// By the ranks of which roster; 0 before the first.
    pub edition: u32,
    targets: Vec<Target>,
    /// Rounds that were begun, and who is still asked in the last one.
    rounds: usize,
    queue: VecDeque<usize>,
    /// Who is asked now.
    due: Option<usize>,
    /// The last answers had their time.
    waited: bool,
    /// Those under way: to which target, and since when.
    open: BTreeMap<u64, (usize, Time)>,
    /// It has measured, and the sender is to be told.
    pub done: bool,
    pub report_due: bool,
    /// Whom to answer.
    pub echoes: VecDeque<(NodeId, u64)>,
}

/// One that is asked.
#[derive(Debug)]
struct Target {
    rank: u16,
    node: NodeId,
    answers: usize,
    least: Option<Duration>,
}

impl Probing {
    /// Nothing is measured yet. Tokens are drawn so that nobody answers what it was not asked.
    pub fn new(tokens: Rng) -> Self {
        Probing {
            tokens,
            edition: 0,
            targets: Vec::new(),
            rounds: 0,
            queue: VecDeque::new(),
            due: None,
            waited: false,
            open: BTreeMap::new(),
            done: false,
            report_due: false,
            echoes: VecDeque::new(),
        }
    }

    pub fn begin(&mut self, edition: u32, targets: impl Iterator<Item = (u16, NodeId)>) {
        let target = |(rank, node)| Target { rank, node, answers: 0, least: None };
        (self.edition, self.targets) = (edition, targets.take(MOST_TARGETS).map(target).collect());
        (self.rounds, self.due, self.waited) = (0, None, false);
        (self.done, self.report_due) = (false, false);
        self.queue.clear();
        self.open.clear();
    }

    /// The time between two probes.
    fn spacing(&self) -> Duration {
        SPACING.max(ROUND / u32::try_from(self.targets.len()).unwrap_or(u32::MAX).max(1))
    }

    /// The next probe is due, or answers had their time. When to look again.
    pub fn on_timer(&mut self, now: Time) -> Option<Time> {
        if self.queue.is_empty() {
            let all = self.rounds < ROUNDS;
            let asked = |(_, target): &(usize, &Target)| all || target.least.is_none();
            self.queue = self.targets.iter().enumerate().filter(asked).map(|(at, _)| at).collect();
            if self.queue.is_empty() || self.waited {
                self.finish();
                return None;
            }
            if self.rounds == MOST_ROUNDS {
                self.queue.clear();
                self.waited = true;
                return Some(now + PATIENCE);
            }
            self.rounds += 1;
        }
        self.due = self.queue.pop_front();
        let ends_all = self.queue.is_empty() && self.rounds >= ROUNDS;
        Some(now + if ends_all { AGAIN } else { self.spacing() })
    }

    pub fn probe(&mut self, now: Time) -> Option<(NodeId, u64)> {
        let at = self.due.take()?;
        let token = self.tokens.bits();
        self.open.insert(token, (at, now));
        Some((self.targets[at].node, token))
    }

    pub fn on_echo(&mut self, now: Time, from: NodeId, token: u64) -> Result<(), DropReason> {
        let asked = |&(at, _): &(usize, Time)| self.targets.get(at).is_some_and(|target| target.node == from);
        if !self.open.get(&token).is_some_and(asked) {
            return Err(DropReason::Redundant);
        }
        let Some((at, since)) = self.open.remove(&token) else { return Ok(()) };
        let (target, took) = (&mut self.targets[at], now.since(since));
        target.answers += 1;
        target.least = Some(target.least.map_or(took, |least| least.min(took)));
        if !self.done && self.targets.iter().all(|target| target.answers >= ROUNDS) {
            self.finish();
        }
        Ok(())
    }

    fn finish(&mut self) {
        (self.done, self.report_due) = (true, true);
        self.due = None;
        self.queue.clear();
    }

    /// What it has measured, the nearest first: not all may fit.
    pub fn distances(&self) -> Vec<DistanceTo> {
        let micros = |least: Duration| u32::try_from(least.as_micros()).unwrap_or(u32::MAX);
        let known = self
            .targets
            .iter()
            .filter_map(|target| Some(DistanceTo { rank: target.rank, micros: micros(target.least?) }));
        let mut known: Vec<DistanceTo> = known.collect();
        // Without the sender's own the others say little.
        known.sort_by_key(|to| (to.rank > 0, to.micros, to.rank));
        known
    }
}

/// How often each is asked. The least time counts: whatever comes between makes it longer.
const ROUNDS: usize = 3;
/// How often at most, who has not answered at all; and the time between.
const MOST_ROUNDS: usize = 8;
const AGAIN: Duration = Duration::from_millis(100);
/// A round takes as long at least, and two probes are as far apart.
const ROUND: Duration = Duration::from_millis(20);
const SPACING: Duration = Duration::from_millis(2);
/// How long the last answers are waited for: a path by two satellites takes as long.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many are asked: the sender and the first helpers.
const MOST_TARGETS: usize = Distances::MAX_ENTRIES;
