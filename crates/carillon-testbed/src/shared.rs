//! State shared by the threads of a run.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use carillon_core::{HelperTable, NodeId, Probability, TraceEvent};
use carillon_lab::run::{SettledCount, is_over};
use carillon_lab::scenario::Scenario;

use crate::Error;
use crate::namespaces::Medium;

/// State shared by the threads of a run.
pub(crate) struct Shared {
    pub(crate) nodes: usize,
    start: OnceLock<Instant>,
    /// The share of datagrams that drivers drop on arrival: the medium's model has losses of its own.
    pub(crate) drop: Probability,
    /// Address of each node, once its socket is open.
    pub(crate) addresses: Mutex<Vec<Option<std::net::SocketAddr>>>,
    /// Barrier that all nodes and the medium pass twice: when sockets are open, and when nodes know each other.
    pub(crate) ready: Ready,
    /// True if a node could not be set up; then the others do not start.
    pub(crate) broken: AtomicBool,
    pub(crate) finished: AtomicU64,
    pub(crate) settled: SettledCount,
    pub(crate) over: AtomicBool,
    pub(crate) events: Mutex<Vec<TraceEvent>>,
    /// Table of helpers in the run's numbers, and its edition, which is read without locking.
    helpers: Mutex<Arc<HelperTable>>,
    edition: AtomicU32,
}

/// A barrier that lets all threads pass once one of them could not be started.
pub(crate) struct Ready {
    threads: usize,
    /// Threads that have arrived, in all rounds, and whether one is missing.
    arrived: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Ready {
    fn new(threads: usize) -> Self {
        Ready { threads, arrived: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until all threads have arrived as often as this one.
    pub(crate) fn wait(&self) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = (arrived.0 / self.threads + 1) * self.threads;
        arrived.0 += 1;
        self.changed.notify_all();
        let waits = |arrived: &mut (usize, bool)| arrived.0 < needed && !arrived.1;
        drop(self.changed.wait_while(arrived, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Reports a missing thread, so that the others do not wait for it.
    pub(crate) fn give_up(&self) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.changed.notify_all();
    }
}

impl Shared {
    pub(crate) fn new(scenario: &Scenario, loss: Probability, medium: Medium) -> Self {
        let nodes = scenario.stations();
        // On the bridge nothing is lost on sending, so that receivers lose what both ends would.
        let kept = 1.0 - loss.value();
        let drop = match medium {
            Medium::Shared => Probability::ZERO,
            Medium::Switched => Probability::new(1.0 - kept * kept).unwrap_or(Probability::ZERO),
        };
        Shared {
            nodes,
            start: OnceLock::new(),
            drop,
            addresses: Mutex::new(vec![None; nodes]),
            ready: Ready::new(nodes + usize::from(medium == Medium::Shared)),
            broken: AtomicBool::new(false),
            finished: AtomicU64::new(0),
            settled: SettledCount::default(),
            over: AtomicBool::new(false),
            events: Mutex::new(Vec::new()),
            helpers: Mutex::new(scenario.helpers.clone()),
            edition: AtomicU32::new(scenario.helpers.edition()),
        }
    }

    /// Handles the notice that a node has expelled another: the children of an expelled helper get its parent.
    pub(crate) fn lose(&self, lost: NodeId) {
        let Ok(mut helpers) = self.helpers.lock() else { return };
        if let Some(next) = helpers.without(lost) {
            self.edition.store(next.edition(), Ordering::Relaxed);
            *helpers = next.into();
        }
    }

    /// Returns the table of helpers if it has changed since this edition.
    pub(crate) fn helpers_since(&self, edition: u32) -> Option<Arc<HelperTable>> {
        let is_new = self.edition.load(Ordering::Relaxed) > edition;
        let helpers = is_new.then(|| self.helpers.lock().ok()).flatten()?;
        Some(helpers.clone())
    }

    /// Time zero of the run, the same for all threads: the first call after all are ready.
    pub(crate) fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    /// Waits for the end of the run; says whether the senders are done.
    pub(crate) fn wait(&self, scenario: &Scenario, stop: &dyn Fn() -> bool) -> bool {
        let mut finished_at = None;
        let elapsed = || self.start.get().map_or(Duration::ZERO, Instant::elapsed);
        let goes_on = || !stop() && !self.broken.load(Ordering::Relaxed) && elapsed() < scenario.time_limit;
        while goes_on() {
            if self.finished.load(Ordering::Relaxed) >= u64::from(scenario.senders) {
                let at: Instant = *finished_at.get_or_insert_with(Instant::now);
                if is_over(scenario, at.elapsed(), self.settled.count()) {
                    break;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.over.store(true, Ordering::Relaxed);
        finished_at.is_some()
    }

    /// Passes on the result of a thread of the run; a failure ends the run.
    pub(crate) fn end<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
        result
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn give(&self, events: Vec<TraceEvent>) {
        if let Ok(mut all) = self.events.lock() {
            all.extend(events);
        }
    }
}
