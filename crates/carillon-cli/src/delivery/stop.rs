//! Signals that ask for the end: SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Counts signals. The first one asks for an orderly end; the second for an immediate report without waiting; the
/// third ends the process.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Starts counting signals.
    pub fn on_signals() -> anyhow::Result<Stop> {
        Stop::on_signals_do(|| {})
    }

    /// Starts counting signals, and calls `act` for each one.
    pub fn on_signals_do(act: impl Fn() + Send + 'static) -> anyhow::Result<Stop> {
        let count = Arc::new(AtomicUsize::new(0));
        let mut wanted = vec![SIGINT, SIGTERM];
        // Under nohup it stays ignored.
        if !is_ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let mut signals = Signals::new(wanted).context("cannot handle signals")?;
        let counted = count.clone();
        let handle = move || {
            for _ in signals.forever() {
                if counted.fetch_add(1, Ordering::Relaxed) + 1 >= SIGNALS_TO_ABORT {
                    std::process::exit(1);
                }
                act();
            }
        };
        let thread = std::thread::Builder::new().name("carillon-signals".to_owned());
        thread.spawn(handle).context("cannot start the thread that handles signals (see `ulimit -u`)")?;
        Ok(Stop(count))
    }

    /// Returns true after the first signal.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Number of signals received.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns true after the second signal: stop without waiting for other nodes.
    pub fn insisted(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

/// Returns true if the parent process had this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Number of signals that end the process immediately.
const SIGNALS_TO_ABORT: usize = 3;
