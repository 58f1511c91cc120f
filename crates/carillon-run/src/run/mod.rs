//! Runs: a scenario in a world, supervised by the host.

pub(crate) mod competitor;
mod ending;
mod error;
mod node;
mod observer;
mod parts;
mod result;
mod settled;
mod supervisor;
mod world;

use carillon_core::{Observer, Time};
use carillon_sim::{Crashed, StopReason};

pub use ending::{STEPS_BETWEEN_QUESTIONS, is_over};
pub use error::RunError;
pub use node::{NodeParts, Numbering, build_node, payload_bytes};
pub use result::RunResult;
pub use settled::SettledCount;
pub use supervisor::{OneThread, Supervisor, Task, Unsupervised, Workers};
pub use world::{SimulatedWorld, build_world};

use crate::plan::Run;
use ending::{End, Ending};
use observer::RunObserver;
use world::build_counted;

/// Simulates one run of a plan, which `observer` watches too. `None` if the supervisor or the observer stops it before
/// its end.
pub fn simulate(
    run: &Run,
    observer: &mut dyn Observer,
    supervisor: &mut dyn Supervisor,
) -> Result<Option<RunResult>, RunError> {
    simulate_on(run, observer, supervisor, &OneThread)
}

/// Simulates one run as [`simulate`] does, on several threads if the scenario allows it. The results are the same for
/// any number of threads.
pub fn simulate_on(
    run: &Run,
    observer: &mut dyn Observer,
    supervisor: &mut dyn Supervisor,
    workers: &dyn Workers,
) -> Result<Option<RunResult>, RunError> {
    let scenario = &run.scenario;
    if let Some(partition) = parts::partition(scenario, observer, workers) {
        return parts::simulate(run, observer, supervisor, workers, partition);
    }
    let settled = SettledCount::default();
    let watch = RunObserver::new(scenario, observer, supervisor, &settled);
    let mut world = match build_counted(scenario, &run.seeds, watch, &settled) {
        Ok(world) => world,
        Err(_) if scenario.keeps_unfinished => return RunResult::of_nothing(run).map(Some),
        Err(error) => return Err(error),
    };
    world.start();
    let limit = Time::ZERO + scenario.time_limit;
    let mut ending = Ending::of(scenario);
    let mut run_to = |world: &mut SimulatedWorld<RunObserver<'_>>, limit| {
        world.run(limit, |world| {
            ending.is_cut_off(scenario, world.steps(), || world.observer().stops())
                || ending.has_come(scenario, world, &settled)
        })
    };
    let goes_on = |reason| matches!(reason, StopReason::Idle | StopReason::TimeLimit);
    let mut reason = StopReason::TimeLimit;
    if let Some(death) = scenario.death {
        let at = |after| (Time::ZERO + after).min(limit);
        reason = run_to(&mut world, at(death.at));
        if goes_on(reason) {
            world.pass_to(at(death.at));
            world.replace(death.node, Box::new(Crashed), None);
        }
        if let (Some(told), true) = (death.told, goes_on(reason)) {
            reason = run_to(&mut world, at(told));
            if goes_on(reason) {
                world.pass_to(at(told));
                world.lose(scenario.sender(), death.node);
            }
        }
    }
    // The death may have given an idle run new events.
    if goes_on(reason) {
        reason = run_to(&mut world, limit);
    }
    let end = End { steps: world.steps(), now: world.now(), reason, ending };
    end.result(run, world.into_observer())
}
