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
        let often = self.last.is_some_and(|last| now.since(last) < OFTEN);
        self.waited = often && self.few && self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        let wait = self.waited.then_some(SHORTEST * (1 << self.doubled));
        self.last = Some(now + wait.unwrap_or_default());
        wait
    }

    /// So many were read. If none were, something else has woken the host.
    pub(crate) fn read(&mut self, datagrams: u64) {
        if datagrams == 0 {
            return;
        }
        self.few = datagrams < FEW;
        if !std::mem::take(&mut self.waited) {
            return;
        }
        self.doubled = match datagrams {
            ..PAYS => 0,
            PAYS..FEW => (self.doubled + 1).min(MOST_DOUBLED),
            _ => self.doubled.saturating_sub(1),
        };
        self.spared = if datagrams < PAYS { SPARED } else { 0 };
    }
}

/// Waking after less than this is often: more than 2000 times a second.
const OFTEN: Duration = Duration::from_micros(500);
/// So many make waking worth it, and so many make waiting worth it.
const FEW: u64 = 16;
const PAYS: u64 = 3;
/// Wakings without waiting after waiting has not paid.
const SPARED: u32 = 100;
/// Short beside the delays of any network but the fastest, long enough for some datagrams where they come that often;
/// systems add some 50 microseconds to it. The longest is short beside the queues that senders count with.
const SHORTEST: Duration = Duration::from_micros(200);
const MOST_DOUBLED: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn whoever_is_woken_often_for_little_waits() {
        let mut gather = Gather::default();
        assert_eq!(gather.wake(at(0)), None);
        gather.read(1);
        gather.read(0);
        assert_eq!(gather.wake(at(450)), Some(SHORTEST));
        gather.read(FEW);
        gather.read(0);
        assert_eq!(gather.wake(at(650)), None, "many came");
        gather.read(1);
        assert_eq!(gather.wake(at(1300)), None, "nothing came for a while");
    }

    #[test]
    fn it_waits_longer_as_long_as_few_come_and_not_at_all_where_none_do() {
        let (mut gather, mut now) = (Gather::default(), 0);
        let mut wake = |gather: &mut Gather, came| {
            now += 100;
            let waited = gather.wake(at(now));
            now += waited.unwrap_or_default().as_micros() as u64;
            gather.read(came);
            waited
        };
        wake(&mut gather, 1);
        let waits: Vec<_> = [PAYS; 5].map(|came| wake(&mut gather, came)).into();
        assert_eq!(waits, [1, 2, 4, 8, 8].map(|times| Some(SHORTEST * times)));
        assert_eq!(wake(&mut gather, 1), Some(SHORTEST * 8));
        for _ in 0..SPARED {
            assert_eq!(wake(&mut gather, 1), None, "it did not pay");
        }
        assert_eq!(wake(&mut gather, 1), Some(SHORTEST));
    }
}
