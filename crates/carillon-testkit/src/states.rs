//! Check of machines' states against the transitions that their entries declare.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use carillon_core::{Event, Machine, ObservedState, PSEUDO_STATE, States, Time};

/// Declared transition: owner of the states, source, and target.
pub type Transition = (&'static str, &'static str, &'static str);

thread_local! {
    /// Transitions taken by the machines of this thread's tests.
    static TAKEN: RefCell<BTreeSet<Transition>> = const { RefCell::new(BTreeSet::new()) };
}

/// Runs a closure and returns the transitions that [checked machines](crate::CheckedMachine::of) took on this thread.
pub fn transitions_taken(run: impl FnOnce()) -> BTreeSet<Transition> {
    TAKEN.take();
    run();
    TAKEN.take()
}

/// Observer of a machine between two calls, which fails on an undeclared transition.
#[derive(Debug)]
pub struct StateWatch {
    name: &'static str,
    states: &'static [States],
    /// Current state of each instance, with its counter of re-entries.
    seen: BTreeMap<(&'static str, u64), (&'static str, u64)>,
}

impl StateWatch {
    /// Creates the observer of a machine that declares these states.
    pub fn new(name: &'static str, states: &'static [States]) -> Self {
        StateWatch { name, states, seen: BTreeMap::new() }
    }

    /// Reads the states before or after a call.
    ///
    /// # Panics
    ///
    /// Panics if the machine took a transition that is not declared.
    pub fn observe_states(&mut self, now: Time, machine: &dyn Machine) {
        let mut found = BTreeMap::new();
        machine.report_states(now, &mut |ObservedState { of, about, state, turn }| {
            let twice = found.insert((of, about), (state, turn));
            assert!(twice.is_none(), "{}, {of}: two states of {about} at once", self.name);
        });
        // Instances that have disappeared went to the final state.
        for (&(of, about), &(from, _)) in &self.seen {
            if !found.contains_key(&(of, about)) {
                self.take(now, of, from, PSEUDO_STATE);
            }
        }
        // New instances come from the initial state; a changed counter is a re-entry of the same state.
        for (&(of, about), &(to, turn)) in &found {
            let before = self.seen.get(&(of, about)).copied();
            if before != Some((to, turn)) {
                self.take(now, of, before.map_or(PSEUDO_STATE, |(state, _)| state), to);
            }
        }
        self.seen = found;
    }

    /// Checks that a recorded state is declared.
    pub(crate) fn recorded(&self, event: &Event) {
        if let Event::StateChanged { state } = event {
            let declared = self.states.iter().any(|states| states.has(state));
            assert!(declared, "{} records that it is {state}, a state that is not declared", self.name);
        }
    }

    fn take(&self, now: Time, of: &'static str, from: &'static str, to: &'static str) {
        let name = self.name;
        let states = self.states.iter().find(|states| states.of == of);
        let states: &States = states.unwrap_or_else(|| panic!("{name} declares no states of {of}"));
        let transition = states.transition(from, to);
        let (from, to) = transition
            .unwrap_or_else(|| panic!("{name}, {of}: at {now} from {from} to {to}, which is not declared"));
        TAKEN.with_borrow_mut(|taken| taken.insert((of, from, to)));
    }
}
