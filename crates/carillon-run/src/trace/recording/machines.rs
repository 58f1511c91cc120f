//! States and timers of machines during a run, as tables beside the events.
//!
//! A machine reports all its states after each call. The table has the changes only: a state that a machine, or one of
//! its instances such as a missing message, has entered, or that it has left without another. A timer is the time at
//! which the machine wants to be called next.

use std::collections::BTreeMap;

use carillon_core::{Machine, NodeId, Time};

use super::columns::{self, StateRow, States, Table, TimerRow, Timers};
use super::names::Names;

/// Observed states and timers, with the tables of their changes.
#[derive(Debug)]
pub(super) struct Machines {
    nodes: BTreeMap<NodeId, Observed>,
    states: States,
    timers: Timers,
    /// Maximum length of each table.
    limit: usize,
    truncated: bool,
}

/// Last report of one machine.
#[derive(Debug, Default)]
struct Observed {
    /// State of each instance, by the owner of the states and the number of the instance.
    states: BTreeMap<(&'static str, u64), &'static str>,
    timer: Option<Armed>,
}

/// Timer that is armed.
#[derive(Clone, Copy, Debug)]
struct Armed {
    since: Time,
    deadline: Time,
}

impl Machines {
    /// Empty tables of at most `limit` rows each.
    pub fn new(limit: usize) -> Self {
        Machines {
            nodes: BTreeMap::new(),
            states: States::default(),
            timers: Timers::default(),
            limit,
            truncated: false,
        }
    }

    /// Returns true if there were more changes than the tables may have rows.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Changes of states.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// Timers, with those that are still armed at the end of the recording.
    pub fn timers(&self) -> Timers {
        let mut timers = self.timers.clone();
        let armed = self.nodes.iter().filter_map(|(node, observed)| Some((node, observed.timer?)));
        for (node, timer) in armed.take(self.limit - timers.len()) {
            timers.push(&timer.row(*node, timer.deadline));
        }
        timers.sorted()
    }

    /// Notes what a machine reports after a call. New names get a code in `names`.
    pub fn note(
        &mut self,
        now: Time,
        node: NodeId,
        machine: &dyn Machine,
        deadline: Option<Time>,
        names: &mut Names,
    ) {
        let observed = self.nodes.entry(node).or_default();
        let mut states = BTreeMap::new();
        machine.report_states(now, &mut |state| {
            states.insert((state.of, state.about), state.state);
        });
        let left = observed.states.keys().filter(|key| !states.contains_key(key)).map(|key| (key, None));
        let entered = states
            .iter()
            .filter(|(key, state)| observed.states.get(key) != Some(state))
            .map(|(key, state)| (key, Some(*state)));
        for (&(of, about), state) in left.chain(entered) {
            if self.states.len() >= self.limit {
                self.truncated = true;
                break;
            }
            let mut code = |name| names.code(name).map_or(columns::NO_TEXT, |code| code as u16);
            self.states.push(&StateRow {
                time: columns::nanos(now),
                node: node.0,
                about: columns::number(about),
                machine: code(of),
                state: state.map_or(columns::NO_TEXT, code),
            });
        }
        observed.states = states;

        if observed.timer.map(|timer| timer.deadline) != deadline {
            // An interval without a length is a call at once and shows nothing.
            if let Some(timer) = observed.timer.filter(|timer| timer.since < now.min(timer.deadline)) {
                if self.timers.len() < self.limit {
                    self.timers.push(&timer.row(node, now.min(timer.deadline)));
                } else {
                    self.truncated = true;
                }
            }
            observed.timer = deadline.map(|deadline| Armed { since: now, deadline });
        }
    }
}

impl Armed {
    /// Row of this timer of a node, which ended at this time.
    fn row(self, node: NodeId, end: Time) -> TimerRow {
        let [since, deadline, end] = [self.since, self.deadline, end].map(columns::nanos);
        TimerRow { since, deadline, end, node: node.0 }
    }
}
