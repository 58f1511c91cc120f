//! The testbed: a scenario in real time over UDP, each node in a network namespace of its own, measured
//! by the same metrics as a simulated one.
//!
//! The nodes are joined by a bridge, or by a user-space model of the shared medium: the simulator's own
//! Ethernet, run by the clock (`medium`). A node is a thread that lives in its namespace, with its own
//! sockets, driver, machine and application.

#![warn(unreachable_pub)]

mod error;
mod medium;
mod namespaces;
mod node;
mod shared;

use std::sync::atomic::Ordering;
use std::time::Instant;

use carillon_core::{NodeId, Observer, TraceEvent};
use carillon_lab::metrics::Recorder;
use carillon_lab::plan::{Plan, Run};
use carillon_lab::run::RunResult;
use carillon_lab::scenario::{Scenario, ScenarioNetwork};
use carillon_sim::LanConfig;

use namespaces::Namespaces;
use shared::Shared;

pub use error::{Error, ErrorKind};
pub use namespaces::Medium;

/// Bytes that a frame adds to a datagram here: Ethernet, its check sequence, IPv4, UDP.
const FRAME_OVERHEAD: u32 = 14 + 4 + 20 + 8;

/// Checks that this process may create a testbed.
///
/// # Errors
/// [`Error::NotPermitted`].
pub fn permitted() -> Result<(), Error> {
    namespaces::permitted()
}

/// Runs a plan run by run until `stop` returns true; `progress` is called after each run.
///
/// # Errors
/// The first run that fails ends the plan with its error; [`Error::kind`] says what to do.
pub fn run_plan(
    plan: &Plan,
    medium: Medium,
    stop: &dyn Fn() -> bool,
    progress: &dyn Fn(),
) -> Result<Vec<RunResult>, Error> {
    let run = |run: &Run| {
        let result = run_one(run, medium, stop, &mut carillon_core::NoObserver);
        progress();
        result
    };
    plan.runs.iter().map(run).collect()
}

fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("carillon-testbed".to_owned())
}

/// Runs one run until it is over or `stop` returns true. Afterwards `observer` receives its events in order of time.
///
/// # Errors
/// The scenario does not fit the testbed, the system refuses something, or the run did not complete or was stopped;
/// [`Error::kind`] says what to do.
pub fn run_one(
    run: &Run,
    medium: Medium,
    stop: &dyn Fn() -> bool,
    observer: &mut dyn Observer,
) -> Result<RunResult, Error> {
    let begin = Instant::now();
    let ScenarioNetwork::Lan(lan) = &run.scenario.network else {
        return Err(Error::Network);
    };
    if lan.radio.is_some() && medium != Medium::Shared {
        return Err(Error::Radio);
    }
    if !run.scenario.losses.is_empty() || !lan.further_loss.is_empty() {
        return Err(Error::Losses);
    }
    let mut workload = run.scenario.workload;
    if workload.by_payload {
        workload.message_bytes += FRAME_OVERHEAD.saturating_sub(lan.frame_overhead);
    }
    let lan = LanConfig { frame_overhead: FRAME_OVERHEAD, ..lan.clone() };
    let scenario = Scenario { network: ScenarioNetwork::Lan(lan.clone()), workload, ..run.scenario.clone() };
    let run = Run { scenario, ..run.clone() };
    let shared = Shared::new(&run.scenario, lan.loss, medium);
    let namespaces = Namespaces::create(shared.nodes, medium)?;
    let done = std::thread::scope(|scope| -> Result<bool, Error> {
        let bus = (medium == Medium::Shared).then(|| {
            // A frame comes with all its headers but the check sequence.
            let config = LanConfig { frame_overhead: 4, ..lan.clone() };
            thread()
                .spawn_scoped(scope, || shared.end(medium::carry(&namespaces, config, &run.seeds, &shared)))
        });
        let nodes: Vec<_> = (0..shared.nodes as u32)
            .map(|node| {
                let (namespaces, shared, run) = (&namespaces, &shared, &run);
                thread().spawn_scoped(scope, move || {
                    shared.end(node::live(NodeId(node), run, namespaces, shared))
                })
            })
            .collect();
        if nodes.iter().chain(&bus).any(Result::is_err) {
            shared.broken.store(true, Ordering::Relaxed);
            shared.ready.give_up();
        }
        let done = shared.wait(&run.scenario, stop);
        let mut outcome = Ok(done);
        for thread in nodes.into_iter().chain(bus) {
            let result = match thread {
                Ok(thread) => thread.join().unwrap_or(Err(Error::Internal("a thread of the testbed died"))),
                Err(error) => Err(Error::doing("start a thread of the testbed")(error)),
            };
            outcome = outcome.and_then(|done| result.map(|()| done));
        }
        outcome
    })?;
    // The namespaces are to go first.
    drop(namespaces);
    if stop() {
        return Err(Error::Interrupted);
    }
    let mut events = shared.events.into_inner().unwrap_or_default();
    events.sort_by_key(|event| event.time);
    let mut recorder = Recorder::new(&run.scenario);
    for TraceEvent { time, node, event } in &events {
        recorder.event(*time, *node, event);
        observer.event(*time, *node, event);
    }
    let result = RunResult::new(&run, recorder, done, events.len() as u64, begin.elapsed());
    Ok(result?)
}
