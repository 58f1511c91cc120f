//! The testbed: a scenario in real time over UDP, each node in a network namespace of its own, measured
//! by the same metrics as a simulated one.
//!
//! The nodes are joined by a bridge, or by a user-space model of the shared medium: the simulator's own
//! Ethernet, run by the clock ([`medium`]). A node is a thread that lives in its namespace, with its own
//! sockets, driver, machine and application.

mod medium;
mod namespaces;
mod node;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use carillon_core::{Event, NodeId, Observer, Probability, TraceEvent};
use carillon_lab::metrics::Recorder;
use carillon_lab::plan::{Plan, Run};
use carillon_lab::run::{RunResult, is_over};
use carillon_lab::scenario::{Scenario, ScenarioNetwork};
use carillon_sim::LanConfig;

use namespaces::Namespaces;

/// What joins the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A model of the shared Ethernet, run in real time.
    Shared,
    /// The system's bridge: a switch as fast as the machine.
    Switched,
}

/// Bytes that a frame adds to a datagram here: Ethernet, its check sequence, IPv4, UDP.
const FRAME_OVERHEAD: u32 = 14 + 4 + 20 + 8;

/// Why a run could not be made: one line that names its causes.
pub struct Error(anyhow::Error);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:#})", self.0)
    }
}

impl std::error::Error for Error {}

/// All runs of a plan, one after the other, until it is wished that they stop; `progress` is called after each.
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

/// One run, until it is over or it is wished that it stop; `observer` is told its events afterwards, in the order of
/// time.
pub fn run_one(
    run: &Run,
    medium: Medium,
    stop: &dyn Fn() -> bool,
    observer: &mut dyn Observer,
) -> Result<RunResult, Error> {
    run_watched(run, medium, stop, observer).map_err(Error)
}

fn run_watched(
    run: &Run,
    medium: Medium,
    stop: &dyn Fn() -> bool,
    observer: &mut dyn Observer,
) -> anyhow::Result<RunResult> {
    let begin = Instant::now();
    let ScenarioNetwork::Lan(lan) = &run.scenario.network else {
        anyhow::bail!("the testbed joins its nodes by one Ethernet: network.kind must be \"lan\"");
    };
    let lan = LanConfig { frame_overhead: FRAME_OVERHEAD, ..lan.clone() };
    let scenario = Scenario { network: ScenarioNetwork::Lan(lan.clone()), ..run.scenario.clone() };
    let run = Run { scenario, ..run.clone() };
    let shared = Shared::new(&run.scenario, lan.loss, medium);
    let namespaces = Namespaces::create(shared.nodes, medium)?;
    let done = std::thread::scope(|scope| -> anyhow::Result<bool> {
        let bus = (medium == Medium::Shared).then(|| {
            // A frame comes with all its headers but the check sequence.
            let config = LanConfig { frame_overhead: 4, ..lan.clone() };
            scope.spawn(|| medium::carry(&namespaces, config, &run.seeds, &shared))
        });
        let nodes: Vec<_> = (0..shared.nodes as u32)
            .map(|node| {
                let (namespaces, shared, run) = (&namespaces, &shared, &run);
                scope.spawn(move || node::live(NodeId(node), run, namespaces, shared))
            })
            .collect();
        let done = shared.wait(&run.scenario, stop);
        let mut outcome = Ok(done);
        for thread in nodes.into_iter().chain(bus) {
            let result =
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the testbed died")));
            outcome = outcome.and_then(|done| result.map(|()| done));
        }
        outcome
    })?;
    // The namespaces are to go first.
    drop(namespaces);
    anyhow::ensure!(!stop(), "interrupted");
    let mut events = shared.events.into_inner().unwrap_or_default();
    events.sort_by_key(|event| event.time);
    let mut recorder = Recorder::new(&run.scenario);
    for event in &events {
        recorder.event(event);
        observer.event(event);
    }
    let result = RunResult::new(&run, recorder, done, events.len() as u64, begin.elapsed());
    result.context("on the testbed")
}

/// What the threads of a run share.
struct Shared {
    nodes: usize,
    /// Time zero of the run.
    start: Instant,
    /// The share of datagrams that drivers drop on arrival: the medium's model has losses of its own.
    drop: Probability,
    /// Where each node can be sent to, once it is open.
    addresses: Mutex<Vec<Option<std::net::SocketAddr>>>,
    /// All nodes and the medium pass it together, twice: when they are open, and when nodes know each
    /// other.
    ready: Barrier,
    /// Whether a node could not be set up: the others do not begin.
    broken: AtomicBool,
    finished: AtomicU64,
    delivered: AtomicU64,
    over: AtomicBool,
    events: Mutex<Vec<TraceEvent>>,
}

impl Shared {
    fn new(scenario: &Scenario, loss: Probability, medium: Medium) -> Self {
        let nodes = scenario.receivers as usize + 1;
        // On the bridge nothing is lost on sending, so that receivers lose what both ends would.
        let kept = 1.0 - loss.value();
        let drop = match medium {
            Medium::Shared => Probability::ZERO,
            Medium::Switched => Probability::new(1.0 - kept * kept).unwrap_or(Probability::ZERO),
        };
        Shared {
            nodes,
            start: Instant::now(),
            drop,
            addresses: Mutex::new(vec![None; nodes]),
            ready: Barrier::new(nodes + usize::from(medium == Medium::Shared)),
            broken: AtomicBool::new(false),
            finished: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            over: AtomicBool::new(false),
            events: Mutex::new(Vec::new()),
        }
    }

    /// Waits for the end of the run; says whether the senders are done.
    fn wait(&self, scenario: &Scenario, stop: &dyn Fn() -> bool) -> bool {
        let mut finished_at = None;
        let goes_on =
            || !stop() && !self.broken.load(Ordering::Relaxed) && self.start.elapsed() < scenario.time_limit;
        while goes_on() {
            if self.finished.load(Ordering::Relaxed) >= u64::from(scenario.senders) {
                let at: Instant = *finished_at.get_or_insert_with(Instant::now);
                if is_over(scenario, at.elapsed(), self.delivered.load(Ordering::Relaxed)) {
                    break;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.over.store(true, Ordering::Relaxed);
        finished_at.is_some()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn count(&self, event: &TraceEvent) {
        if matches!(event.event, Event::Delivered { source, .. } if source != event.node) {
            self.delivered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn give(&self, events: Vec<TraceEvent>) {
        if let Ok(mut all) = self.events.lock() {
            all.extend(events);
        }
    }
}
