//! The wish to stop: SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Counts signals. The first asks for an orderly end; the second for one without waiting for anybody, report
/// included; the third ends the process at once.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// From now on signals are counted.
    pub fn on_signals() -> anyhow::Result<Stop> {
        Stop::on_signals_do(|| {})
    }

    /// The same, and each has this done: for whoever waits, and does not ask.
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
                if counted.fetch_add(1, Ordering::Relaxed) + 1 >= ENOUGH {
                    std::process::exit(1);
                }
                act();
            }
        };
        let thread = std::thread::Builder::new().name("carillon-signals".to_owned());
        thread.spawn(handle).context("cannot start the thread that handles signals (see `ulimit -u`)")?;
        Ok(Stop(count))
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Signals that came.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether to stop without waiting for anybody.
    pub fn insisted(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

/// Whether whoever started this process had it ignore a signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// Signals that end the process whatever it does.
const ENOUGH: usize = 3;
