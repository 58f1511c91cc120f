//! What goes between the loop of a transfer and the thread that works at its disk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_net::Waker;

/// A queue with a bound. The loop never waits at it, it is woken; the worker does, in its own thread. It goes one
/// way: whoever fills it, it has one end in the loop and one at the worker.
#[derive(Debug)]
pub struct WorkerQueue<T> {
    state: Mutex<State<T>>,
    moved: Condvar,
    waker: Waker,
}

#[derive(Debug)]
struct State<T> {
    /// What waits, and how many bytes each counts for.
    items: VecDeque<(T, usize)>,
    /// Bytes that wait, or that the worker has taken and not done.
    bytes: usize,
    /// Nothing more will be put in.
    ended: bool,
    /// Nothing of it is wanted any more.
    closed: bool,
    /// The loop found nothing, or no room.
    waits: bool,
    /// The worker waits until something moves: to tell one that does not wait is a system call too.
    worker_waits: bool,
}

/// What the loop finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Something.
    Some,
    /// Nothing yet: it is woken when there is.
    NotYet,
    /// Nothing, and nothing will come.
    End,
}

impl<T> WorkerQueue<T> {
    /// An empty one, for the loop that this wakes.
    pub fn new(waker: Waker) -> Self {
        WorkerQueue { state: Mutex::default(), moved: Condvar::new(), waker }
    }

    /// The loop: takes all that there is.
    pub fn take(&self, into: &mut VecDeque<T>) -> Found {
        let mut state = self.lock();
        if state.items.is_empty() {
            state.waits = !state.ended;
            return if state.ended { Found::End } else { Found::NotYet };
        }
        into.extend(state.items.drain(..).map(|(item, _)| item));
        state.bytes = 0;
        self.tell_worker(state);
        Found::Some
    }

    /// The loop: whether there is room for something. If not, it is woken when there is.
    pub fn has_room(&self) -> bool {
        let mut state = self.lock();
        state.waits = !state.has_room();
        !state.waits
    }

    /// The loop: puts something in.
    pub fn push(&self, item: T, bytes: usize) {
        let mut state = self.lock();
        state.bytes += bytes;
        state.items.push_back((item, bytes));
        self.tell_worker(state);
    }

    /// The loop: wants nothing more of it. The worker stops at what it is doing.
    pub fn close(&self) {
        self.lock().closed = true;
        self.moved.notify_all();
    }

    /// Whether nothing of it is wanted any more.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The worker: puts something in as soon as there is room; whether it is wanted.
    pub fn put(&self, item: T, bytes: usize) -> bool {
        let mut state = self.lock();
        if !state.has_room() {
            // Not for each single one that goes: a thread that gets up has something to do.
            while !state.closed
                && (state.bytes > MAX_QUEUED_BYTES / 2 || state.items.len() > MAX_QUEUED_MESSAGES / 2)
            {
                state = self.wait(state);
            }
        }
        if state.closed {
            return false;
        }
        state.bytes += bytes;
        state.items.push_back((item, bytes));
        let wake = state.waits && state.bytes >= WAKE_BYTES;
        state.waits &= !wake;
        drop(state);
        if wake {
            self.waker.wake();
        }
        true
    }

    /// The worker: has nothing more for now, waits so long, and says whether it is wanted still.
    pub fn pause(&self, time: Duration) -> bool {
        let mut state = self.lock();
        if state.waits && !state.items.is_empty() {
            state.waits = false;
            self.waker.wake();
        }
        let waited = self.moved.wait_timeout_while(state, time, |state| !state.closed);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    /// The worker: will put nothing more in.
    pub fn end(&self) {
        let mut state = self.lock();
        (state.ended, state.waits) = (true, false);
        drop(state);
        self.waker.wake();
    }

    /// The worker: takes all that there is, once there is something; nothing when it is closed. If that is little it waits so long for more.
    pub fn next(&self, into: &mut VecDeque<(T, usize)>, patience: Duration) -> bool {
        let mut state = self.lock();
        while state.items.is_empty() && !state.closed {
            state = self.wait(state);
        }
        if state.bytes < SMALL_BACKLOG_BYTES && !state.closed && !patience.is_zero() {
            drop(state);
            std::thread::sleep(patience);
            state = self.lock();
        }
        std::mem::swap(into, &mut state.items);
        !state.closed
    }

    /// The worker: has done something of so many bytes; `news` are wanted by the loop at once.
    pub fn done(&self, bytes: usize, news: bool) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        let wake = news || (state.waits && state.bytes <= MAX_QUEUED_BYTES / 2);
        state.waits &= !wake;
        drop(state);
        if wake {
            self.waker.wake();
        }
    }

    /// The worker: waits until something moves.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        state.worker_waits = true;
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop: something has moved.
    fn tell_worker(&self, mut state: MutexGuard<'_, State<T>>) {
        let waits = std::mem::take(&mut state.worker_waits);
        drop(state);
        if waits {
            self.moved.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for State<T> {
    fn default() -> Self {
        let items = VecDeque::new();
        State { items, bytes: 0, ended: false, closed: false, waits: false, worker_waits: false }
    }
}

impl<T> State<T> {
    fn has_room(&self) -> bool {
        self.bytes < MAX_QUEUED_BYTES && self.items.len() < MAX_QUEUED_MESSAGES
    }
}

/// Bytes that wait at most, and what puts them over. Getting up costs a thread more than what it then finds outside the
/// cache: with a quarter of this the fastest transfers take a fifth longer.
const MAX_QUEUED_BYTES: usize = 2 << 20;
/// Items that wait at most: there are small ones too.
const MAX_QUEUED_MESSAGES: usize = 4096;
/// If the worker finds less, it is worth waiting for more.
const SMALL_BACKLOG_BYTES: usize = 32 << 10;
/// So much is worth waking the loop for; what comes before a pause or the end is, too.
const WAKE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn producer_waits_for_room_and_stops_on_closure() {
        let lane = Arc::new(WorkerQueue::new(Waker::default()));
        let worker = thread::spawn({
            let lane = lane.clone();
            move || (0u64..).take_while(|&number| lane.put(number, MAX_QUEUED_BYTES / 4)).count()
        });
        let mut came = VecDeque::new();
        while came.len() < 100 {
            lane.take(&mut came);
            assert!(lane.lock().bytes <= MAX_QUEUED_BYTES);
        }
        assert!(came.iter().copied().eq(0..came.len() as u64));
        lane.close();
        let made = worker.join().expect("it does not panic");
        assert!((100..=came.len() + 4).contains(&made));
    }

    #[test]
    fn unfinished_messages_occupy_the_queue() {
        let lane = WorkerQueue::new(Waker::default());
        lane.push('a', MAX_QUEUED_BYTES);
        assert!(!lane.has_room());
        let mut taken = VecDeque::new();
        assert!(lane.next(&mut taken, Duration::ZERO) && taken.len() == 1);
        assert!(!lane.has_room(), "the worker has only begun");
        lane.done(MAX_QUEUED_BYTES, false);
        assert!(lane.has_room());
    }

    #[test]
    fn end_follows_all_queued_messages() {
        let (lane, mut came) = (WorkerQueue::new(Waker::default()), VecDeque::new());
        assert_eq!(lane.take(&mut came), Found::NotYet);
        assert!(lane.put(1, 1));
        lane.end();
        assert_eq!((lane.take(&mut came), lane.take(&mut came)), (Found::Some, Found::End));
    }
}
