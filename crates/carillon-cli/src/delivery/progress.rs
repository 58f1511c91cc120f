//! Progress as lines, where stderr is no terminal: logs, scripts, service managers.

use std::time::Duration;

use carillon_core::Time;

use super::output::Human;

/// Decides when a line is due: one second after the start, then every ten seconds, and after every tenth of the total
/// that took a second or more.
#[derive(Debug, Default)]
pub struct PlainProgress {
    /// Time and bytes of the last line; at first those of the start.
    last: Option<(Time, u64)>,
    begun: bool,
    /// Time of the last line in a phase without bytes.
    waiting: Option<Time>,
}

impl PlainProgress {
    /// Text for a line, if one is due.
    pub fn line(&mut self, now: Time, bytes: u64, total: Option<u64>) -> Option<String> {
        let Some((at, before)) = self.last else {
            self.last = Some((now, bytes));
            return None;
        };
        let since = now.since(at);
        let tenth = total.map_or(u64::MAX, |total| total / 10);
        let due = since >= LONGEST_PAUSE
            || since >= SHORTEST_PAUSE && (!self.begun || bytes.saturating_sub(before) >= tenth);
        if !due {
            return None;
        }
        (self.last, self.begun) = (Some((now, bytes)), true);
        Some(match total {
            Some(total) if total > 0 => {
                let percent = (u128::from(bytes) * 100 / u128::from(total)).min(100);
                format!("{} of {} ({percent} %)", Human(bytes), Human(total))
            }
            _ => Human(bytes).to_string(),
        })
    }

    /// Returns true if ten seconds have passed since the last line, in a phase without bytes.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = now.since(*self.waiting.get_or_insert(now)) >= LONGEST_PAUSE;
        if due {
            self.waiting = Some(now);
        }
        due
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_the_start_each_tenth_and_each_ten_seconds() {
        let mut progress = PlainProgress::default();
        let mut line =
            |tenths: u64, bytes| progress.line(Time::from_nanos(tenths * 100_000_000), bytes, Some(1000));
        assert_eq!(line(0, 0), None);
        assert_eq!(line(9, 50), None, "it may be over soon");
        assert_eq!(line(10, 60).as_deref(), Some("60 B of 1000 B (6 %)"));
        assert_eq!(line(15, 300), None, "a second has not passed");
        assert_eq!(line(20, 300).as_deref(), Some("300 B of 1000 B (30 %)"));
        assert_eq!(line(60, 399), None, "it is less than a tenth");
        assert_eq!(line(120, 399).as_deref(), Some("399 B of 1000 B (39 %)"));
    }
}
