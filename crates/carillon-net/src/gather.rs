//! Letting datagrams gather before they are read, as interfaces do with their interrupts.

use std::time::Duration;

use carillon_core::Time;

/// Tells when datagrams come one by one, each waking the host for itself: where many hosts share a processor, waking
/// costs more than what is then done.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// When the host last woke to read.
    last: Option<Time>,
    /// It found only a few.
    few: bool,
}

impl Gather {
    /// The host wakes to read and has nothing else to do: how long it had better wait for more to come.
    pub(crate) fn wake(&mut self, now: Time) -> Option<Duration> {
        let often = self.last.is_some_and(|last| now.since(last) < OFTEN);
        let wait = (often && self.few).then_some(WAIT);
        self.last = Some(now + wait.unwrap_or_default());
        wait
    }

    /// So many were read. If none were, something else has woken the host.
    pub(crate) fn read(&mut self, datagrams: u64) {
        if datagrams > 0 {
            self.few = datagrams < FEW;
        }
    }
}

/// Waking after less than this is often: more than 10 000 times a second.
const OFTEN: Duration = Duration::from_micros(100);
/// So many make waking worth it.
const FEW: u64 = 8;
/// Short beside the delays of any network but the fastest, long enough for some datagrams where they come that often;
/// systems add some 50 microseconds to it.
const WAIT: Duration = Duration::from_micros(200);

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
        assert_eq!(gather.wake(at(50)), Some(WAIT));
        gather.read(FEW);
        gather.read(0);
        assert_eq!(gather.wake(at(99)), None, "many came without waiting");
        gather.read(1);
        assert_eq!(gather.wake(at(300)), None, "nothing came for a while");
    }
}
