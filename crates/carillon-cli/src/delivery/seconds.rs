//! Spans of time on the command line.

use carillon_core::Duration;

/// Parses a number of seconds from the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.trim().trim_end_matches('s').trim_end().parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| *span <= MAX_SPAN)
        .ok_or_else(|| format!("expected seconds from 0 to {}, such as 2.5", MAX_SPAN.as_secs()))
}

/// Upper bound of all spans, 11 days, so that sums cannot overflow.
const MAX_SPAN: Duration = Duration::from_secs(1_000_000);
