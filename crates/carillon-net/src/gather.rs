//! Letting datagrams gather before they are read, as interfaces do with their interrupts.

use std::time::Duration;

use carillon_core::Time;

/// Tells when datagrams come one by one, each waking the host for itself: where many hosts share a processor, waking
/// costs more than what is then done.
///
/// Waiting has to pay. Where hardly more comes meanwhile, as of a sender that waits for each answer, the host does not wait
/// for a while.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// When the host last woke to read.
    last: Option<Time>,
    /// It found only a few.
    few: bool,
    /// It had waited for them.
    waited: bool,
    /// How often its waiting was doubled.
    doubled: u32,
    /// Wakings in which it does not wait.
    spared: u32,
}

impl Gather {
    /// The host wakes to read and has nothing else to do: how long it had better wait for more to come.
    pub(crate) fn wake(&mut self, now: Time) -> Option<Duration> {
        let often = self.last.is_some_and(|last| now.since(last) < MAX_BUSY_INTERVAL);
        self.waited = often && self.few && self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        let wait = self.waited.then_some(MIN_DELAY * (1 << self.doubled));
        self.last = Some(now + wait.unwrap_or_default());
        wait
    }

    /// So many were read. If none were, something else has woken the host.
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

/// Waking after less than this is often: more than 2000 times a second.
const MAX_BUSY_INTERVAL: Duration = Duration::from_micros(500);
/// So many make waking worth it, and so many make waiting worth it.
const WORTHWHILE_WAKEUP: u64 = 16;
const WORTHWHILE_WAIT: u64 = 3;
/// Wakings without waiting after waiting has not paid.
const BACKOFF_WAKEUPS: u32 = 100;
/// Short beside the delays of any network but the fastest, long enough for some datagrams where they come that often;
/// systems add some 50 microseconds to it. The longest is short beside the queues that senders count with.
const MIN_DELAY: Duration = Duration::from_micros(200);
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
