//! Adaptive delay before reading, similar to interrupt coalescing of network cards.

use std::time::Duration;

use carillon_core::Time;

/// Detects datagrams that arrive singly and wake the host each time. Where many hosts share a processor, a wake-up
/// costs more than handling the datagram.
///
/// The delay must pay: if hardly more datagrams arrive during it, as from a sender that waits for each answer, the
/// host does not delay for a while.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Time of the last wake-up.
    last: Option<Time>,
    /// True if the last wake-up found few datagrams.
    few: bool,
    /// True if the last wake-up was delayed.
    waited: bool,
    /// Number of doublings of the delay.
    doubled: u32,
    /// Remaining wake-ups without a delay.
    spared: u32,
}

impl Gather {
    /// Called when the host wakes up to read and is otherwise idle. Returns the time to wait for more datagrams.
    pub(crate) fn wake(&mut self, now: Time) -> Option<Duration> {
        let often = self.last.is_some_and(|last| now.since(last) < MAX_BUSY_INTERVAL);
        self.waited = often && self.few && self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        let wait = self.waited.then_some(MIN_DELAY * (1 << self.doubled));
        self.last = Some(now + wait.unwrap_or_default());
        wait
    }

    /// Records the number of datagrams read; 0 if something else woke the host.
    pub(crate) fn read(&mut self, datagrams: u64) {
        if datagrams == 0 {
            return;
        }
        self.few = datagrams < WORTHWHILE_WAKEUP;
        if !std::mem::take(&mut self.waited) {
            return;
        }
        self.doubled = match datagrams {
            ..WORTHWHILE_WAIT => 0,
            WORTHWHILE_WAIT..WORTHWHILE_WAKEUP => (self.doubled + 1).min(MAX_DOUBLINGS),
            _ => self.doubled.saturating_sub(1),
        };
        self.spared = if datagrams < WORTHWHILE_WAIT { BACKOFF_WAKEUPS } else { 0 };
    }
}

/// Interval below which wake-ups count as frequent: more than 2000 per second.
const MAX_BUSY_INTERVAL: Duration = Duration::from_micros(500);
/// Number of datagrams that make a wake-up worthwhile.
const WORTHWHILE_WAKEUP: u64 = 16;
/// Number of datagrams that make a delay worthwhile.
const WORTHWHILE_WAIT: u64 = 3;
/// Wake-ups without a delay after a delay did not pay.
const BACKOFF_WAKEUPS: u32 = 100;
/// Shortest delay: small compared with network latencies, and long enough for several datagrams at high rates.
/// Systems add about 50 microseconds. The longest delay, after all doublings, is small compared with senders' queues.
const MIN_DELAY: Duration = Duration::from_micros(200);
/// Maximum number of doublings of the delay.
const MAX_DOUBLINGS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn frequent_small_wakeups_are_delayed() {
        let mut gather = Gather::default();
        assert_eq!(gather.wake(at(0)), None);
        gather.read(1);
        gather.read(0);
        assert_eq!(gather.wake(at(450)), Some(MIN_DELAY));
        gather.read(WORTHWHILE_WAKEUP);
        gather.read(0);
        assert_eq!(gather.wake(at(650)), None, "many came");
        gather.read(1);
        assert_eq!(gather.wake(at(1300)), None, "nothing came for a while");
    }

    #[test]
    fn delay_doubles_while_it_pays_and_stops_otherwise() {
        let (mut gather, mut now) = (Gather::default(), 0);
        let mut wake = |gather: &mut Gather, came| {
            now += 100;
            let waited = gather.wake(at(now));
            now += waited.unwrap_or_default().as_micros() as u64;
            gather.read(came);
            waited
        };
        wake(&mut gather, 1);
        let waits: Vec<_> = [WORTHWHILE_WAIT; 5].map(|came| wake(&mut gather, came)).into();
        assert_eq!(waits, [1, 2, 4, 8, 8].map(|times| Some(MIN_DELAY * times)));
        assert_eq!(wake(&mut gather, 1), Some(MIN_DELAY * 8));
        for _ in 0..BACKOFF_WAKEUPS {
            assert_eq!(wake(&mut gather, 1), None, "it did not pay");
        }
        assert_eq!(wake(&mut gather, 1), Some(MIN_DELAY));
    }
}
