//! What was greatest lately.

use std::time::Duration;

use carillon_core::Time;

/// The greatest of the values of the last one to two spans of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windowed {
    before: Option<f64>,
    current: Option<f64>,
    since: Time,
}

impl Windowed {
    /// Another value.
    pub(super) fn note(&mut self, now: Time, value: f64, memory: Duration) {
        if self.current.is_none() || now.since(self.since) >= memory {
            self.before = self.current.take();
            self.since = now;
        }
        self.current = Some(self.current.map_or(value, |greatest| greatest.max(value)));
    }

    /// The greatest; negative infinity if there was none.
    pub(super) fn greatest(&self) -> f64 {
        self.before.into_iter().chain(self.current).fold(f64::NEG_INFINITY, f64::max)
    }
}
