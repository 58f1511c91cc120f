//! Scenarios that were run, each once, by whoever comes first.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::error::ReproduceError;
use super::simulation::Simulation;

/// Scenarios that were run, or are being run, by the names of their result folders.
#[derive(Debug, Default)]
pub(super) struct Simulations {
    states: Mutex<BTreeMap<String, State>>,
    ended: Condvar,
}

#[derive(Debug)]
enum State {
    Running,
    Done(Arc<Simulation>),
    /// The error is for the first that asks.
    Failed(ReproduceError),
}

/// A scenario that this thread runs. If it is dropped without a result, another thread may run the scenario.
struct Claim<'a> {
    simulations: &'a Simulations,
    id: &'a str,
}

impl Simulations {
    /// Runs a scenario, or waits for its end if another thread runs it.
    pub(super) fn get(
        &self,
        id: &str,
        run: impl FnOnce() -> Result<Simulation, ReproduceError>,
    ) -> Result<Arc<Simulation>, ReproduceError> {
        let mut states = self.lock();
        loop {
            match states.remove(id) {
                Some(State::Done(simulation)) => {
                    states.insert(id.to_owned(), State::Done(simulation.clone()));
                    return Ok(simulation);
                }
                Some(State::Failed(error)) => return Err(error),
                Some(State::Running) => {
                    states.insert(id.to_owned(), State::Running);
                    states = self.ended.wait(states).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        let claim = self.claim(id, states);
        let simulation = Arc::new(run()?);
        claim.end(State::Done(simulation.clone()));
        Ok(simulation)
    }

    /// Runs a scenario unless it was run or another thread runs it. Returns false after an error, which is kept for
    /// [`get`](Self::get).
    pub(super) fn run_ahead(
        &self,
        id: &str,
        run: impl FnOnce() -> Result<Simulation, ReproduceError>,
    ) -> bool {
        let states = self.lock();
        if states.contains_key(id) {
            return true;
        }
        let claim = self.claim(id, states);
        let result = run();
        let is_done = result.is_ok();
        claim.end(result.map_or_else(State::Failed, |simulation| State::Done(Arc::new(simulation))));
        is_done
    }

    fn claim<'a>(&'a self, id: &'a str, mut states: MutexGuard<'_, BTreeMap<String, State>>) -> Claim<'a> {
        states.insert(id.to_owned(), State::Running);
        Claim { simulations: self, id }
    }

    /// Returns true if a scenario was run, or is being run.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Steps of everything that was run.
    pub(super) fn steps(&self) -> u64 {
        let states = self.lock();
        let steps = states.values().map(|state| match state {
            State::Done(simulation) => simulation.steps,
            State::Running | State::Failed(_) => 0,
        });
        steps.sum()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim<'_> {
    fn end(self, state: State) {
        self.simulations.lock().insert(self.id.to_owned(), state);
        // The drop tells the others.
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut states = self.simulations.lock();
        if matches!(states.get(self.id), Some(State::Running)) {
            states.remove(self.id);
        }
        self.simulations.ended.notify_all();
    }
}
