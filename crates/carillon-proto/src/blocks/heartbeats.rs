//! Heartbeats of a silent source: RFC 3208, section 5.

use std::time::Duration;

use super::{Doubling, FeedbackDelay};

/// Intervals between heartbeats, each twice as long as the one before, from the last new packet on.
#[derive(Debug)]
pub struct Heartbeats {
    /// Initial interval and its upper bound.
    waits: Doubling,
    /// Number of heartbeats since the last new packet.
    silent_for: u32,
}

impl Heartbeats {
    /// Creates the schedule with these intervals.
    pub fn new(waits: Doubling) -> Self {
        Heartbeats { waits, silent_for: 0 }
    }

    /// Restarts the schedule after a new packet. Returns the time until the first heartbeat.
    pub fn restart(&mut self) -> Duration {
        self.silent_for = 0;
        self.waits.delay(0, 0.0)
    }

    /// Advances the schedule when a heartbeat is sent. Returns the time until the next one.
    pub fn beat(&mut self) -> Duration {
        // A source may be silent for any time, so the count saturates.
        self.silent_for = self.silent_for.saturating_add(1);
        self.waits.delay(self.silent_for, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_up_to_bound_until_new_packet() {
        let ms = Duration::from_millis;
        let mut heartbeats = Heartbeats::new(Doubling { first: ms(10), most: ms(50) });
        for _ in 0..3 {
            let waits = [heartbeats.restart(), heartbeats.beat(), heartbeats.beat(), heartbeats.beat()];
            assert_eq!(waits, [10, 20, 40, 50].map(ms));
        }
        heartbeats.silent_for = u32::MAX;
        assert_eq!(heartbeats.beat(), ms(50));
    }
}
