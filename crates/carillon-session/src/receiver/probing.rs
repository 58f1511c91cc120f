//! Distance measurement: a member probes others several times, and the minimum round-trip time counts.

use std::collections::{BTreeMap, VecDeque};

use carillon_core::{DropReason, Duration, NodeId, ObservedState, Rng, States, Time};
use carillon_wire::session::{DistanceTo, Distances};

use crate::observed;

/// States of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbingState {
    /// Initial state, before a request.
    Idle,
    /// Targets are probed.
    Probing,
    /// The last answers get their time.
    Waiting,
    /// The measurement is complete, and is reported.
    Done,
}

/// Declared states.
pub(super) const STATES: States = States {
    of: "receiver, distances",
    transitions: &[
        ("[*]", "Idle", ""),
        ("Idle", "Probing", "MEASURE: PROBE to the sender and each helper"),
        ("Probing", "Done", "each target has answered three times: DISTANCES with each READY"),
        ("Probing", "Waiting", "eight rounds"),
        ("Waiting", "Done", "the last answer, or a second: DISTANCES with each READY"),
        ("Done", "Probing", "MEASURE for a new edition of the roster"),
        ("Waiting", "Probing", "MEASURE for a new edition of the roster"),
    ],
};

/// Measurements in progress, and probes to answer.
#[derive(Debug)]
pub(super) struct Probing {
    tokens: Rng,
    /// Edition of the roster with these ranks; 0 before the first.
    pub edition: u32,
    targets: Vec<Target>,
    /// Number of rounds begun.
    rounds: usize,
    /// Targets still to be probed in this round.
    queue: VecDeque<usize>,
    /// Target to probe now.
    due: Option<usize>,
    /// State of the measurement.
    state: ProbingState,
    /// Outstanding probes by token, with target and time.
    outstanding: BTreeMap<u64, (usize, Time)>,
    /// True if the result is to be reported to the sender.
    report_due: bool,
    /// Probes to answer.
    pub echoes: VecDeque<(NodeId, u64)>,
}

/// Node that is probed.
#[derive(Debug)]
struct Target {
    rank: u16,
    node: NodeId,
    answers: usize,
    least: Option<Duration>,
}

impl Probing {
    /// Creates an idle prober. Tokens are random, so that only the target of a probe can answer it.
    pub fn new(tokens: Rng) -> Self {
        Probing {
            tokens,
            edition: 0,
            targets: Vec::new(),
            rounds: 0,
            queue: VecDeque::new(),
            due: None,
            state: ProbingState::Idle,
            outstanding: BTreeMap::new(),
            report_due: false,
            echoes: VecDeque::new(),
        }
    }

    pub fn begin(&mut self, edition: u32, targets: impl Iterator<Item = (u16, NodeId)>) {
        let target = |(rank, node)| Target { rank, node, answers: 0, least: None };
        (self.edition, self.targets) = (edition, targets.take(MAX_TARGETS).map(target).collect());
        (self.rounds, self.due, self.state) = (0, None, ProbingState::Probing);
        self.report_due = false;
        self.queue.clear();
        self.outstanding.clear();
    }

    /// Interval between probes.
    fn spacing(&self) -> Duration {
        MIN_SPACING.max(MIN_ROUND_TIME / u32::try_from(self.targets.len()).unwrap_or(u32::MAX).max(1))
    }

    /// Prepares the next probe, or ends the measurement. Returns the time of the next call.
    pub fn on_timer(&mut self, now: Time) -> Option<Time> {
        if self.queue.is_empty() {
            // The first rounds probe all targets, and later ones only targets without an answer.
            let all = self.rounds < PROBES_PER_TARGET;
            let asked = |(_, target): &(usize, &Target)| all || target.least.is_none();
            self.queue = self.targets.iter().enumerate().filter(asked).map(|(at, _)| at).collect();
            if self.queue.is_empty() || self.state == ProbingState::Waiting {
                self.finish();
                return None;
            }
            // The last probes get time for their answers.
            if self.rounds == MAX_ROUNDS {
                self.queue.clear();
                self.state = ProbingState::Waiting;
                return Some(now + LAST_ANSWER_TIMEOUT);
            }
            self.rounds += 1;
        }
        self.due = self.queue.pop_front();
        // Retries are farther apart, so that late answers can arrive before them.
        let ends_all = self.queue.is_empty() && self.rounds >= PROBES_PER_TARGET;
        Some(now + if ends_all { RETRY_INTERVAL } else { self.spacing() })
    }

    pub fn probe(&mut self, now: Time) -> Option<(NodeId, u64)> {
        let at = self.due.take()?;
        let token = self.tokens.bits();
        self.outstanding.insert(token, (at, now));
        Some((self.targets[at].node, token))
    }

    pub fn on_echo(&mut self, now: Time, from: NodeId, token: u64) -> Result<(), DropReason> {
        // Another node that answers would make the target look nearer than it is.
        let asked = |&(at, _): &(usize, Time)| self.targets.get(at).is_some_and(|target| target.node == from);
        if !self.outstanding.get(&token).is_some_and(asked) {
            return Err(DropReason::Redundant);
        }
        let Some((at, since)) = self.outstanding.remove(&token) else { return Ok(()) };
        let (target, took) = (&mut self.targets[at], now.since(since));
        target.answers += 1;
        target.least = Some(target.least.map_or(took, |least| least.min(took)));
        if !self.is_done() && self.targets.iter().all(|target| target.answers >= PROBES_PER_TARGET) {
            self.finish();
        }
        Ok(())
    }

    /// Returns true if the measurement is complete.
    pub fn is_done(&self) -> bool {
        self.state == ProbingState::Done
    }

    /// Reports the result again, since nothing acknowledges it.
    pub fn report_again(&mut self) {
        self.report_due |= self.is_done();
    }

    /// Takes the result, if it is to be reported now.
    pub fn take_report(&mut self) -> Option<Vec<DistanceTo>> {
        std::mem::take(&mut self.report_due).then(|| self.distances())
    }

    pub fn observe(&self) -> ObservedState {
        observed(
            &STATES,
            match self.state {
                ProbingState::Idle => "Idle",
                ProbingState::Probing => "Probing",
                ProbingState::Waiting => "Waiting",
                ProbingState::Done => "Done",
            },
        )
    }

    fn finish(&mut self) {
        (self.state, self.report_due) = (ProbingState::Done, true);
        self.due = None;
        self.queue.clear();
    }

    /// Measured distances. The sender comes first, then the nearest, as not all may fit.
    fn distances(&self) -> Vec<DistanceTo> {
        let micros = |least: Duration| u32::try_from(least.as_micros()).unwrap_or(u32::MAX);
        let known = self
            .targets
            .iter()
            .filter_map(|target| Some(DistanceTo { rank: target.rank, micros: micros(target.least?) }));
        let mut known: Vec<DistanceTo> = known.collect();
        // Without the distance to the sender, the others are of little use.
        known.sort_by_key(|to| (to.rank > 0, to.micros, to.rank));
        known
    }
}

/// Number of probes per target. Queues only lengthen the time, so the minimum counts.
const PROBES_PER_TARGET: usize = 3;
/// Maximum number of probes to a target without an answer.
const MAX_ROUNDS: usize = 8;
/// Interval between the rounds to targets without an answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum duration of a round.
const MIN_ROUND_TIME: Duration = Duration::from_millis(20);
/// Minimum interval between two probes.
const MIN_SPACING: Duration = Duration::from_millis(2);
/// Time to wait for the last answers: the round trip of a path over two satellites.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of targets: the sender and the first helpers.
const MAX_TARGETS: usize = Distances::MAX_ENTRIES;
