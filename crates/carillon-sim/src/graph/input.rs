//! Input buffer of a node with limited processing speed.

use std::collections::VecDeque;
use std::time::Duration;

use carillon_core::Time;

/// Buffer with a fixed number of places, drained at a fixed rate; excess packets are lost. It models feedback
/// implosion, where a parent can process a limited number of responses per second ("implosion threshold rate").
#[derive(Debug)]
pub(super) struct InputBuffer {
    /// Processing time of a packet.
    interval: Duration,
    capacity: usize,
    /// Completion time of each packet in the buffer, ascending.
    done: VecDeque<Time>,
}

impl InputBuffer {
    pub(super) fn new(interval: Duration, capacity: usize) -> Self {
        InputBuffer { interval, capacity, done: VecDeque::new() }
    }

    /// Accepts a packet and returns the time at which it is processed; `None` if it is lost.
    pub(super) fn take(&mut self, now: Time) -> Option<Time> {
        while self.done.front().is_some_and(|&at| at <= now) {
            self.done.pop_front();
        }
        if self.done.len() >= self.capacity {
            return None;
        }
        let at = self.done.back().copied().unwrap_or(now) + self.interval;
        self.done.push_back(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn buffer_accepts_up_to_capacity_and_drains_at_its_rate() {
        let mut input = InputBuffer::new(Duration::from_millis(10), 3);
        let taken: Vec<Option<Time>> = (0..5).map(|_| input.take(at(0))).collect();
        assert_eq!(taken, [Some(at(10)), Some(at(20)), Some(at(30)), None, None]);
        assert_eq!([input.take(at(9)), input.take(at(10)), input.take(at(11))], [None, Some(at(40)), None]);
        // The buffer was idle for a while.
        assert_eq!(input.take(at(100)), Some(at(110)));
    }

    #[test]
    fn half_is_lost_at_twice_the_rate() {
        let mut input = InputBuffer::new(Duration::from_millis(2), 16);
        let taken = (0..10_000).filter(|&millis| input.take(at(millis)).is_some()).count();
        assert!((5000..5020).contains(&taken), "{taken}");
    }
}
