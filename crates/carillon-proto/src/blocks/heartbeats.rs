//! When a source that has fallen silent says how far it has come.

use std::time::Duration;

use super::{Doubling, FeedbackDelay};

/// The waits between the heartbeats of a source, each twice as long as the one before, from the last new packet on.
#[derive(Debug)]
pub struct Heartbeats {
    waits: Doubling,
    /// Heartbeats since the last new packet.
    silent_for: u32,
}

impl Heartbeats {
    /// With these waits.
    pub fn new(waits: Doubling) -> Self {
        Heartbeats { waits, silent_for: 0 }
    }

    /// A new packet goes out: the wait for the first heartbeat after it.
    pub fn restart(&mut self) -> Duration {
        self.silent_for = 0;
        self.waits.delay(0, 0.0)
    }

    /// A heartbeat is due: the wait for the one after it.
    pub fn beat(&mut self) -> Duration {
        self.silent_for = self.silent_for.saturating_add(1);
        self.waits.delay(self.silent_for, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_until_something_new_goes_out() {
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
