//! Check of machines' states against the transitions that their entries declare.

use std::cell::RefCell;
use std::collections::BTreeSet;

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
    /// States as the machine reported them last. Most calls change none.
    reported: Vec<ObservedState>,
    /// States as last seen, in order, each with the index of its owner among the declared states.
    seen: Vec<(usize, ObservedState)>,
    /// Room for the next report.
    spare: Vec<ObservedState>,
}

impl StateWatch {
    /// Creates the observer of a machine that declares these states.
    pub fn new(name: &'static str, states: &'static [States]) -> Self {
        StateWatch { name, states, reported: Vec::new(), seen: Vec::new(), spare: Vec::new() }
    }

    /// Reads the states before or after a call.
    ///
    /// # Panics
    ///
    /// Panics if the machine took a transition that is not declared.
    pub fn observe_states(&mut self, now: Time, machine: &dyn Machine) {
        let mut found = std::mem::take(&mut self.spare);
        found.clear();
        machine.report_states(now, &mut |state| found.push(state));
        let is_unchanged = found.len() == self.reported.len()
            && found.iter().zip(&self.reported).all(|(one, other)| is_same(one, other));
        if !is_unchanged {
            self.compare(now, &found);
        }
        self.spare = std::mem::replace(&mut self.reported, found);
    }

    /// Takes the transitions from the states that were seen to those that were found.
    fn compare(&mut self, now: Time, found: &[ObservedState]) {
        let mut found: Vec<_> = found.iter().map(|state| (self.owner(state.of), *state)).collect();
        let key = |(owner, state): &(usize, ObservedState)| (*owner, state.about);
        found.sort_unstable_by_key(key);
        for pair in found.windows(2) {
            let ObservedState { of, about, .. } = pair[1].1;
            assert!(key(&pair[0]) != key(&pair[1]), "{}, {of}: two states of {about} at once", self.name);
        }
        let (mut before, mut after) = (self.seen.iter().peekable(), found.iter().peekable());
        loop {
            match (before.peek().map(|one| key(one)), after.peek().map(|one| key(one))) {
                (None, None) => break,
                // Instances that have disappeared went to the final state.
                (Some(old), new) if new.is_none_or(|new| old < new) => {
                    let from = before.next().map_or(PSEUDO_STATE, |(_, one)| one.state);
                    self.take(now, old.0, from, PSEUDO_STATE);
                }
                // New instances come from the initial state; a changed counter is a re-entry of the same state.
                (old, Some(new)) => {
                    let from = before.next_if(|_| old == Some(new)).map(|(_, one)| (one.state, one.turn));
                    let to = after.next().map(|(_, one)| (one.state, one.turn));
                    if let Some((to, _)) = to.filter(|_| from != to) {
                        self.take(now, new.0, from.map_or(PSEUDO_STATE, |(state, _)| state), to);
                    }
                }
                (Some(_), None) => unreachable!("the instances that are left have disappeared"),
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

    /// Index of the declared states with this owner.
    fn owner(&self, of: &str) -> usize {
        let index = self.states.iter().position(|states| std::ptr::eq(states.of, of));
        let index = index.or_else(|| self.states.iter().position(|states| states.of == of));
        index.unwrap_or_else(|| panic!("{} declares no states of {of}", self.name))
    }

    fn take(&self, now: Time, owner: usize, from: &'static str, to: &'static str) {
        let (name, states) = (self.name, &self.states[owner]);
        let of = states.of;
        let transition = states.transition(from, to);
        let (from, to) = transition
            .unwrap_or_else(|| panic!("{name}, {of}: at {now} from {from} to {to}, which is not declared"));
        TAKEN.with_borrow_mut(|taken| taken.insert((of, from, to)));
    }
}

/// Compares texts by their addresses first, since they are constants.
fn is_same(one: &ObservedState, other: &ObservedState) -> bool {
    let is_same = |one: &'static str, other: &'static str| std::ptr::eq(one, other) || one == other;
    (one.about, one.turn) == (other.about, other.turn)
        && is_same(one.of, other.of)
        && is_same(one.state, other.state)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use carillon_core::{Received, Transmit};

    use super::*;

    /// Reports these states.
    #[derive(Debug)]
    struct Told(Vec<ObservedState>);

    impl Machine for Told {
        fn handle_datagram(&mut self, _: Time, _: Received<'_>) {}

        fn poll_transmit(&mut self, _: Time, _: &mut Vec<u8>) -> Option<Transmit> {
            None
        }

        fn report_states(&self, _: Time, tell: &mut dyn FnMut(ObservedState)) {
            self.0.iter().copied().for_each(tell);
        }
    }

    const FREE: States = States {
        of: "free",
        transitions: &[
            ("[*]", "A", ""),
            ("[*]", "B", ""),
            ("Any", "A", ""),
            ("Any", "B", ""),
            ("A", "[*]", ""),
            ("B", "[*]", ""),
        ],
    };
    const ONE_WAY: States = States { of: "one way", transitions: &[("[*]", "A", ""), ("A", "B", "")] };

    fn state(of: &'static str, about: u64, state: &'static str, turn: u64) -> ObservedState {
        ObservedState { of, about, state, turn }
    }

    fn watch(reports: &[&[ObservedState]]) -> BTreeSet<Transition> {
        const DECLARED: &[States] = &[ONE_WAY, FREE];
        let mut watch = StateWatch::new("told", DECLARED);
        transitions_taken(|| {
            reports.iter().for_each(|report| watch.observe_states(Time::ZERO, &Told(report.to_vec())));
        })
    }

    /// Random reports, in any order, against a model with maps.
    #[test]
    fn transitions_are_those_between_two_reports() {
        let mut rng = carillon_core::Seeds::new(7).stream("states");
        for _ in 0..300 {
            let mut reports = Vec::new();
            let mut expected = BTreeSet::new();
            let mut before = BTreeMap::new();
            for _ in 0..rng.below(8) {
                let mut now = before.clone();
                for _ in 0..rng.below(3) {
                    let of = ["free", "one way"][rng.below(2) as usize];
                    let about = rng.below(4);
                    match now.get(&(of, about)).copied() {
                        // An instance takes one transition between two reports.
                        present if present != before.get(&(of, about)).copied() => {}
                        None => _ = now.insert((of, about), ("A", 0)),
                        Some(("A", 0)) if of == "one way" => _ = now.insert((of, about), ("B", 0)),
                        Some(_) if of == "one way" => {}
                        Some((name, turn)) => match rng.below(3) {
                            0 => _ = now.remove(&(of, about)),
                            1 => _ = now.insert((of, about), (name, turn + 1)),
                            _ => _ = now.insert((of, about), (["B", "A"][usize::from(name == "B")], turn)),
                        },
                    }
                }
                for key in before.keys().chain(now.keys()) {
                    let ends = [&before, &now].map(|states| states.get(key));
                    if ends[0] != ends[1] {
                        let [from, to] = ends.map(|end| end.map_or(PSEUDO_STATE, |(name, _)| *name));
                        let states = if key.0 == "free" { FREE } else { ONE_WAY };
                        let (from, to) = states.transition(from, to).expect("it is declared");
                        expected.insert((key.0, from, to));
                    }
                }
                let mut report: Vec<_> =
                    now.iter().map(|(&(of, about), &(name, turn))| state(of, about, name, turn)).collect();
                let by = rng.below(report.len() as u64 + 1) as usize;
                report.rotate_left(by);
                reports.push(report);
                before = now;
            }
            let reports: Vec<&[ObservedState]> = reports.iter().map(Vec::as_slice).collect();
            assert_eq!(watch(&reports), expected, "{reports:?}");
        }
    }

    #[test]
    fn undeclared_transitions_and_owners_fail() {
        let a = state("one way", 1, "A", 0);
        let others = [
            (vec![], "from A to [*], which is not declared"),
            (vec![state("one way", 1, "A", 1)], "from A to A, which is not declared"),
            (vec![a, state("one way", 2, "B", 0)], "from [*] to B, which is not declared"),
            (vec![a, a], "two states of 1 at once"),
            (vec![a, state("stranger", 1, "A", 0)], "declares no states of stranger"),
        ];
        for (report, why) in others {
            let failed = std::panic::catch_unwind(|| watch(&[&[a], &report])).expect_err(why);
            let text = failed.downcast_ref::<String>().expect("a text");
            assert!(text.contains(why), "{text}");
        }
    }
}
