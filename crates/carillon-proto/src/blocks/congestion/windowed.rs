//! Windowed maximum filter.

use std::time::Duration;

use carillon_core::Time;

/// Maximum of the values in the last one to two time spans, among spans with values (a coarse form of the filter in
/// BBR).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windowed {
    /// Maximum of the previous span.
    before: Option<f64>,
    /// Maximum of the present span.
    current: Option<f64>,
    /// Start of the present span.
    since: Time,
}

impl Windowed {
    /// Adds a value.
    pub(super) fn note(&mut self, now: Time, value: f64, memory: Duration) {
        // A span begins with its first value. Pauses without values thus forget nothing.
        if self.current.is_none() || now.since(self.since) >= memory {
            self.before = self.current.take();
            self.since = now;
        }
        self.current = Some(self.current.map_or(value, |greatest| greatest.max(value)));
    }

    /// Maximum; negative infinity without values.
    pub(super) fn greatest(&self) -> f64 {
        // The previous span counts too, or the maximum would drop to the newest value at each change of span.
        self.before.into_iter().chain(self.current).fold(f64::NEG_INFINITY, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_expire_after_one_to_two_spans(
            steps in prop::collection::vec((0..25_u64, 0..100_u8), 1..60)
        ) {
            const MEMORY: Duration = Duration::from_millis(10);
            let (mut windowed, mut noted) = (Windowed::default(), Vec::new());
            prop_assert_eq!(windowed.greatest(), f64::NEG_INFINITY);
            let mut now = Time::ZERO;
            for (wait, value) in steps {
                now += Duration::from_millis(wait);
                let value = f64::from(value);
                windowed.note(now, value, MEMORY);
                noted.push((now, value));
                let greatest = windowed.greatest();
                // The first value at least a span after another.
                let next = |after: Time| noted.iter().map(|&(at, _)| at).find(|at| at.since(after) >= MEMORY);
                for &(at, value) in &noted {
                    prop_assert!(now.since(at) >= MEMORY || value <= greatest, "{} lately", value);
                }
                let counts = noted.iter().filter(|(at, _)| next(*at).and_then(next).is_none());
                prop_assert!(counts.map(|(_, value)| *value).any(|value| value == greatest), "{}", greatest);
            }
        }
    }
}
