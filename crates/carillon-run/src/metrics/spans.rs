//! A list of spans of time, for as many of them as a run has deliveries.

use std::time::Duration;

/// Spans in the order in which they were added, four bytes each up to 4.29 s. Beside a group of 100 000, twice as
/// much would be a fifth of all that a run keeps.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Spans in nanoseconds, or [`LONG_SPAN_MARKER`] for a span kept in `long`. Stored in blocks, each of which is
    /// freed as it is read.
    short: Vec<Vec<u32>>,
    /// The others, in their order.
    long: Vec<Duration>,
}

impl Spans {
    /// Adds one.
    pub fn push(&mut self, span: Duration) {
        let nanos = u32::try_from(span.as_nanos()).ok().filter(|&nanos| nanos != LONG_SPAN_MARKER);
        if nanos.is_none() {
            self.long.push(span);
        }
        match self.short.last_mut().filter(|block| block.len() < SPANS_PER_BLOCK) {
            Some(block) => block.push(nanos.unwrap_or(LONG_SPAN_MARKER)),
            None => self.short.push(vec![nanos.unwrap_or(LONG_SPAN_MARKER)]),
        }
    }

    /// Returns all spans in seconds, in the order of insertion.
    pub fn into_seconds(self) -> Vec<f64> {
        let mut long = self.long.into_iter();
        let mut span = |nanos: u32| match nanos {
            LONG_SPAN_MARKER => long.next().expect("it was added with its place"),
            nanos => Duration::from_nanos(nanos.into()),
        };
        let mut seconds = Vec::with_capacity(self.short.iter().map(Vec::len).sum());
        for block in self.short {
            seconds.extend(block.into_iter().map(|nanos| span(nanos).as_secs_f64()));
        }
        seconds
    }
}

/// Spans in a block.
const SPANS_PER_BLOCK: usize = 1 << 16;

/// Marker of a span that does not fit into four bytes.
const LONG_SPAN_MARKER: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_any_length_keep_order_and_bits() {
        let mut rng = carillon_core::Seeds::new(1).stream("spans");
        let least = [
            0,
            1,
            u64::from(LONG_SPAN_MARKER) - 1,
            u64::from(LONG_SPAN_MARKER),
            u64::from(LONG_SPAN_MARKER) + 1,
        ];
        let drawn: Vec<u64> = (0..200_000).map(|_| rng.bits() >> (rng.below(50) + 14)).collect();
        let all: Vec<Duration> = least.into_iter().chain(drawn).map(Duration::from_nanos).collect();
        let mut spans = Spans::default();
        all.iter().for_each(|&span| spans.push(span));
        assert!(spans.into_seconds().into_iter().eq(all.iter().map(Duration::as_secs_f64)));
    }
}
