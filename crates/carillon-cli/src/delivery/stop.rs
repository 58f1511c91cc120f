//! The wish to stop: SIGINT and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Set by the first signal; the second one ends the process at once.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on signals set it.
    pub fn on_signals() -> anyhow::Result<Stop> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag not set yet.
            flag::register_conditional_shutdown(signal, 1, asked.clone()).context("cannot handle signals")?;
            flag::register(signal, asked.clone()).context("cannot handle signals")?;
        }
        Ok(Stop(asked))
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
