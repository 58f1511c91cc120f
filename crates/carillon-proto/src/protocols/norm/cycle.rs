//! Parts of both senders: phases of the repair cycle, times of probes, and the commands that are due.

use std::time::Duration;

use carillon_core::Time;

/// Times of probes (CMD CC).
#[derive(Debug)]
pub(super) struct Probing {
    pub sequence: u16,
    pub interval: Duration,
    pub most: Duration,
    /// True if data was sent since the last probe.
    pub active: bool,
}

impl Probing {
    /// Takes the sequence number of the next probe.
    pub fn next_sequence(&mut self) -> u16 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        sequence
    }

    /// Returns the time until the next probe: the shortest while data is sent, and longer after each silent interval.
    pub fn next_interval(&mut self, shortest: Duration) -> Duration {
        self.interval = match std::mem::take(&mut self.active) {
            true => shortest,
            false => (self.interval * 2).clamp(shortest, self.most.max(shortest)),
        };
        self.interval
    }
}

/// Commands to send.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub probe: bool,
    pub flush: bool,
    pub end: bool,
    pub squelch: bool,
    pub advertise: bool,
    pub last_squelch: Option<Time>,
}

/// Phase of the repair cycle (RFC 5740, 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cycle {
    /// No receiver has requested anything.
    Normal,
    /// NACKs are collected.
    Aggregating,
    /// The repairs have begun: late NACKs count only for later blocks.
    HoldOff,
}

impl Cycle {
    /// Name in the state diagram.
    pub fn name(self) -> &'static str {
        match self {
            Cycle::Normal => "Normal",
            Cycle::Aggregating => "Aggregating",
            Cycle::HoldOff => "HoldOff",
        }
    }
}

/// Timers of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The rate limit allows the next packet.
    Pace,
    /// End of the collection of NACKs, or of the hold-off.
    Cycle,
    /// Next probe.
    Probe,
    /// Next FLUSH command.
    Flush,
    /// Next advertisement of requests.
    Advertise,
    /// Room for a message or file may appear.
    Advance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_intervals_of_probes_double_up_to_a_limit() {
        let ms = Duration::from_millis;
        let mut probing = Probing { sequence: u16::MAX, interval: ms(100), most: ms(350), active: true };
        let intervals: Vec<_> = (0..4).map(|_| probing.next_interval(ms(100))).collect();
        assert_eq!(intervals, [ms(100), ms(200), ms(350), ms(350)]);
        assert_eq!(probing.next_interval(ms(500)), ms(500), "the limit is never below the shortest interval");
        probing.active = true;
        assert_eq!(probing.next_interval(ms(100)), ms(100));
        assert_eq!((probing.next_sequence(), probing.next_sequence()), (u16::MAX, 0));
    }
}
