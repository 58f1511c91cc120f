//! Replay window: each counter of another endpoint is admitted once (RFC 6479).

use std::collections::BTreeSet;

use carillon_core::DropReason;

/// A sliding window below the greatest counter (RFC 6479, section 3). Counters below the window, or from before its
/// creation, are refused whether seen or not.
#[derive(Debug)]
pub(super) struct Window {
    /// Counters up to this one are never admitted.
    floor: u64,
    /// Greatest counter seen.
    top: u64,
    /// Bits of the counters from `top` downwards, at the counter modulo [`SIZE`].
    seen: [u64; WORDS],
    /// Counters above `top` that were admitted before the window moved back.
    ahead: BTreeSet<u64>,
}

impl Window {
    /// Creates a window that admits counters above this one.
    pub(super) fn above(floor: u64) -> Window {
        Window { floor, top: floor, seen: [0; WORDS], ahead: BTreeSet::new() }
    }

    /// Moves the window to the endpoint's own `counter` if it is far away; returns true if it moved. `since` has the
    /// counters admitted since the check began. Earlier ones are the endpoint's own only up to `counter`, so none is
    /// admitted twice.
    pub(super) fn resume(&mut self, counter: u64, since: &[u64]) -> bool {
        let is_behind = counter > self.top.saturating_add(MAX_JUMP);
        let is_ahead = counter.saturating_add(SIZE) <= self.top;
        if is_behind || is_ahead {
            let mut ahead = self.ahead.split_off(&counter.saturating_add(1));
            ahead.extend(since.iter().filter(|&&seen| seen > counter));
            *self = Window { ahead, ..Window::above(counter) };
        }
        is_behind || is_ahead
    }

    /// Returns true if a counter is further ahead than any plausible loss.
    pub(super) fn is_jump(&self, counter: u64) -> bool {
        counter > self.top.saturating_add(MAX_JUMP)
    }

    /// Checks a counter without changing the window, so that it can be asked before authentication.
    pub(super) fn admits(&self, counter: u64) -> Result<(), DropReason> {
        match counter {
            _ if counter <= self.floor => Err(DropReason::Outdated),
            _ if self.ahead.contains(&counter) => Err(DropReason::Replayed),
            _ if counter > self.top => Ok(()),
            _ if self.top - counter >= SIZE => Err(DropReason::Outdated),
            _ if self.seen[word(counter)] & bit(counter) != 0 => Err(DropReason::Replayed),
            _ => Ok(()),
        }
    }

    /// Marks the counter of an authentic datagram as seen.
    pub(super) fn mark(&mut self, counter: u64) {
        if counter > self.top {
            if counter - self.top >= SIZE {
                self.seen = [0; WORDS];
            } else {
                (self.top + 1..=counter).for_each(|passed| self.seen[word(passed)] &= !bit(passed));
            }
            self.top = counter;
            let later = self.ahead.split_off(&counter.saturating_add(1));
            for passed in std::mem::replace(&mut self.ahead, later) {
                if counter - passed < SIZE {
                    self.seen[word(passed)] |= bit(passed);
                }
            }
        }
        self.seen[word(counter)] |= bit(counter);
    }
}

fn word(counter: u64) -> usize {
    (counter / 64) as usize % WORDS
}

fn bit(counter: u64) -> u64 {
    1 << (counter % 64)
}

const WORDS: usize = 32;

/// Window size: maximum distance of a late datagram from the greatest counter. Multicast and unicast have separate
/// windows because they are read from two sockets in turn; networks reorder by some tens.
const SIZE: u64 = WORDS as u64 * 64;

/// Maximum jump of the counter. A sender also counts datagrams to others, and a receiver may be cut off for a while:
/// this many of 1500 bytes are 1.5 GB, more than a second at 10 Gbit/s. A larger jump needs the endpoint's
/// confirmation.
pub(super) const MAX_JUMP: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn window_admits_each_counter_once_in_any_order() {
        let mut window = Window::above(0);
        for counter in [5, 3, 4, 1, 2, SIZE, 6] {
            assert_eq!(window.admits(counter), Ok(()), "{counter}");
            window.mark(counter);
            assert_eq!(window.admits(counter), Err(DropReason::Replayed), "{counter}");
        }
        window.mark(SIZE + 7);
        assert_eq!(window.admits(7), Err(DropReason::Outdated), "seen or not");
        assert_eq!(window.admits(8), Ok(()));
    }

    #[test]
    fn moved_back_window_admits_nothing_twice() {
        let mut window = Window::above(0);
        (1..=100).for_each(|counter| window.mark(counter));
        // A forger has moved it twice; the endpoint was checked in between, and continued.
        assert!(!window.is_jump(100 + MAX_JUMP) && window.is_jump(101 + MAX_JUMP));
        window.mark(500_000);
        assert_eq!(window.admits(101), Err(DropReason::Outdated));
        let since = [500_001, 600_000, 150];
        since[..2].iter().for_each(|&counter| window.mark(counter));
        assert!(window.resume(120, &since));
        for seen in [1, 100, 120, 150, 500_001, 600_000] {
            assert!(window.admits(seen).is_err(), "{seen}");
        }
        for counter in (121..3000).chain([499_999, 500_002]).filter(|&counter| counter != 150) {
            assert_eq!(window.admits(counter), Ok(()), "{counter}");
        }
        window.mark(499_999);
        window.mark(500_100);
        assert_eq!(window.admits(500_001), Err(DropReason::Replayed), "its bit was set on the way");
        assert_eq!(window.admits(500_002), Ok(()));
        assert_eq!(window.admits(600_000), Err(DropReason::Replayed));
        // The window is at the endpoint's position.
        assert!(!window.resume(500_050, &[]) && !window.resume(500_100 + MAX_JUMP, &[]));
        assert!(window.resume(500_101 + MAX_JUMP, &[]));
        assert_eq!(window.admits(600_001), Err(DropReason::Outdated));
    }

    #[test]
    fn counters_below_the_window_are_outdated() {
        let window = Window::above(1000);
        for counter in [0, 1, 999, 1000] {
            assert_eq!(window.admits(counter), Err(DropReason::Outdated), "{counter}");
        }
        assert_eq!(window.admits(1001), Ok(()));
    }

    #[test]
    fn agrees_with_a_set_under_random_operations() {
        let mut rng = carillon_core::Seeds::new(1).stream("window");
        let (mut window, mut set, mut top) = (Window::above(20), BTreeSet::new(), 20);
        for _ in 0..200_000 {
            // Mostly near the top, sometimes a jump of more than a window in either direction.
            let reach = if rng.chance(0.001) { 3 * SIZE } else { 80 };
            let counter = (top + rng.below(reach)).saturating_sub(reach / 2 + rng.below(reach));
            let expected = match counter {
                _ if counter <= 20 || counter + SIZE <= top => Err(DropReason::Outdated),
                _ if set.contains(&counter) => Err(DropReason::Replayed),
                _ => Ok(()),
            };
            assert_eq!(window.admits(counter), expected, "{counter} with {top} on top");
            if expected.is_ok() && rng.chance(0.9) {
                window.mark(counter);
                set.insert(counter);
                top = top.max(counter);
            }
            if rng.chance(0.3) {
                top += 1;
                window.mark(top);
                set.insert(top);
            }
        }
        assert!(top > 10 * SIZE, "the window has slid: {top}");
    }
}
