//! When the next packet may leave.

use std::time::Duration;

use carillon_core::Time;

/// Spreads packets over time, at a rate that may change with each.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When a line of the rate would have carried everything sent so far.
    free: Time,
}

impl Pace {
    /// When the next packet may leave, if not now.
    pub fn ready_at(&self, now: Time) -> Option<Time> {
        let at = Time::from_nanos(self.free.as_nanos().saturating_sub(AHEAD.as_nanos() as u64));
        (at > now).then_some(at)
    }

    /// A packet leaves; so many a second may.
    pub fn on_send(&mut self, now: Time, rate: f64) {
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(BEHIND.as_nanos() as u64));
        self.free = self.free.max(earliest) + Duration::from_secs_f64(1.0 / rate);
    }
}

/// What may leave at once: enough for one system call to carry much, and for timers that are late.
const AHEAD: Duration = Duration::from_millis(2);
/// A pause as long as this is made up for: it was somebody else's turn on the processor.
const BEHIND: Duration = Duration::from_millis(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_at_the_rate_however_late_the_calls_and_a_long_pause_is_not_made_up_for() {
        let mut pace = Pace::default();
        let (mut now, mut sent, mut late) = (Time::ZERO, 0, 0);
        while now < Time::from_nanos(1_000_000_000) {
            match pace.ready_at(now) {
                None => {
                    pace.on_send(now, 10_000.0);
                    sent += 1;
                }
                Some(at) => {
                    late = (late + 1_370_000) % 3_900_000;
                    now = at + Duration::from_nanos(late);
                }
            }
        }
        // Besides the rate what may leave ahead of it.
        assert!((9_900..=10_070).contains(&sent), "{sent}");
        now += Duration::from_secs(1);
        let mut at_once = 0;
        while pace.ready_at(now).is_none() {
            pace.on_send(now, 10_000.0);
            at_once += 1;
        }
        assert!((55..=65).contains(&at_once), "{at_once}");
    }
}
