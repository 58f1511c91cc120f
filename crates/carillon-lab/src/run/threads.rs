//! Threads of a sweep, and permits to compute for sweeps that run side by side.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads on which a sweep makes its runs.
#[derive(Clone, Copy, Debug)]
pub enum Threads<'a> {
    /// This number of threads.
    Own(usize),
    /// A thread for each permit. It computes while it holds one.
    Shared(&'a Permits, Rank),
    /// A single thread, which computes while it holds a permit.
    One(&'a Permits, Rank),
}

impl From<usize> for Threads<'_> {
    fn from(number: usize) -> Self {
        Threads::Own(number)
    }
}

impl<'a> Threads<'a> {
    /// Largest number of threads.
    pub(super) fn number(self) -> usize {
        match self {
            Threads::Own(number) => number,
            Threads::Shared(permits, _) => permits.number,
            Threads::One(..) => 1,
        }
    }

    /// Number of threads for each of this many runs, if they are fewer than the threads.
    pub(super) fn of_each(self, runs: usize) -> usize {
        match self {
            Threads::Own(number) => (number / runs.max(1)).max(1),
            Threads::Shared(..) | Threads::One(..) => 1,
        }
    }

    /// Restricts the sweep to one thread if other sweeps can use the rest.
    pub(crate) fn one_if_shared(self) -> Self {
        match self {
            Threads::Own(_) => self,
            Threads::Shared(permits, rank) | Threads::One(permits, rank) => Threads::One(permits, rank),
        }
    }

    /// Waits until a thread may compute.
    pub(super) fn permit(self) -> Option<Permit<'a>> {
        match self {
            Threads::Own(_) => None,
            Threads::Shared(permits, rank) | Threads::One(permits, rank) => Some(permits.take(rank)),
        }
    }
}

/// Permits to compute, for sweeps that run side by side: together they use this number of threads.
///
/// A sweep of the first rank keeps its permits until it has no run left. One of the second rank uses what is free, and
/// gives way after each run.
#[derive(Debug)]
pub struct Permits {
    number: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Threads of the first rank that wait.
    first_waiting: usize,
}

/// Rank of a sweep beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Sweep with results that are awaited.
    First,
    /// Sweep with results that are needed later.
    Second,
}

/// Permit of a thread, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    permits: &'a Permits,
    rank: Rank,
}

impl Permits {
    /// Permits for this number of threads, at least one.
    pub fn new(number: usize) -> Self {
        let number = number.max(1);
        Permits { number, state: Mutex::new(State { free: number, first_waiting: 0 }), freed: Condvar::new() }
    }

    fn take(&self, rank: Rank) -> Permit<'_> {
        let state = self.lock();
        drop(self.wait(state, rank));
        Permit { permits: self, rank }
    }

    /// Waits for a permit and takes it.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, rank: Rank) -> MutexGuard<'a, State> {
        let is_first = rank == Rank::First;
        state.first_waiting += usize::from(is_first);
        while state.free == 0 || (!is_first && state.first_waiting > 0) {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.first_waiting -= usize::from(is_first);
        state.free -= 1;
        // Threads of the second rank may have waited for this one only.
        if is_first && state.first_waiting == 0 && state.free > 0 {
            self.freed.notify_all();
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Lets a thread of the first rank go first if one waits and this one is of the second.
    pub(super) fn give_way(&mut self) {
        let mut state = self.permits.lock();
        if self.rank == Rank::Second && state.first_waiting > 0 {
            state.free += 1;
            self.permits.freed.notify_all();
            drop(self.permits.wait(state, self.rank));
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.permits.lock().free += 1;
        self.permits.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_threads_compute_than_there_are_permits() {
        let permits = Permits::new(3);
        let (computing, most, turns) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for rank in [Rank::First, Rank::Second].into_iter().cycle().take(12) {
                let (permits, computing, most, turns) = (&permits, &computing, &most, &turns);
                scope.spawn(move || {
                    let threads = Threads::Shared(permits, rank);
                    for _ in 0..200 {
                        let _permit = threads.permit();
                        most.fetch_max(computing.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        turns.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        computing.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(turns.into_inner(), 12 * 200);
        assert!((1..=3).contains(&most.into_inner()));
        let state = permits.lock();
        assert_eq!((state.free, state.first_waiting), (3, 0));
    }

    #[test]
    fn the_second_rank_gives_way_after_each_run() {
        let permits = Permits::new(1);
        let (order, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut permit = permits.take(Rank::Second);
            // No other thread waits: it goes on.
            permit.give_way();
            for rank in [Rank::Second, Rank::First] {
                let (permits, order) = (&permits, order.clone());
                scope.spawn(move || {
                    let _permit = permits.take(rank);
                    order.send(rank).unwrap();
                });
            }
            while permits.lock().first_waiting == 0 {
                std::thread::yield_now();
            }
            permit.give_way();
            // It has its permit again, so that of the first rank was used and given back.
            assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(Rank::First));
        });
        assert_eq!(ended.recv(), Ok(Rank::Second));
    }
}
