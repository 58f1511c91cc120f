//! Spans of time on the command line.

use carillon_core::Duration;

/// A number of seconds on the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.trim().trim_end_matches('s').trim_end().parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| *span <= LONGEST)
        .ok_or_else(|| format!("expected seconds from 0 to {}, such as 2.5", LONGEST.as_secs()))
}

/// As good as forever.
const LONGEST: Duration = Duration::from_secs(1_000_000);
