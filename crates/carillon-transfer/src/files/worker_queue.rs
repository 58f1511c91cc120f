//! Queue between the event loop and the thread for its disk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_net::Waker;

/// A bounded queue between the loop and a worker thread, in one direction. The loop never waits and is woken; the
/// worker waits in its thread.
#[derive(Debug)]
pub struct WorkerQueue<T> {
    state: Mutex<State<T>>,
    moved: Condvar,
    waker: Waker,
}

#[derive(Debug)]
struct State<T> {
    /// Queued items with their sizes in bytes.
    items: VecDeque<(T, usize)>,
    /// Bytes that are queued, or taken and not finished by the worker.
    bytes: usize,
    /// True after the last item.
    ended: bool,
    /// True if the consumer wants no more items.
    closed: bool,
    waiting: Waiting,
}

/// Ends of a queue that wait.
#[derive(Debug, Default)]
struct Waiting {
    /// True if the loop found no items or no room.
    of_loop: bool,
    /// True while the worker waits, as notifying it costs a system call.
    of_worker: bool,
}

/// Result of [`WorkerQueue::take`] for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Items were taken.
    Some,
    /// The queue is empty; the loop is woken when items arrive.
    NotYet,
    /// The queue has ended.
    End,
}

impl<T> WorkerQueue<T> {
    /// Creates an empty queue; `waker` wakes the loop.
    pub fn new(waker: Waker) -> Self {
        WorkerQueue { state: Mutex::default(), moved: Condvar::new(), waker }
    }

    /// Takes all items (called by the loop).
    pub fn take(&self, into: &mut VecDeque<T>) -> Found {
        let mut state = self.lock();
        if state.items.is_empty() {
            state.waiting.of_loop = !state.ended;
            return if state.ended { Found::End } else { Found::NotYet };
        }
        into.extend(state.items.drain(..).map(|(item, _)| item));
        state.bytes = 0;
        self.tell_worker(state);
        Found::Some
    }

    /// Returns true if there is room; otherwise the loop is woken when there is (called by the loop).
    pub fn has_room(&self) -> bool {
        let mut state = self.lock();
        state.waiting.of_loop = !state.has_room();
        !state.waiting.of_loop
    }

    /// Adds an item (called by the loop).
    pub fn push(&self, item: T, bytes: usize) {
        let mut state = self.lock();
        state.bytes += bytes;
        state.items.push_back((item, bytes));
        self.tell_worker(state);
    }

    /// Closes the queue, so that the worker stops (called by the loop).
    pub fn close(&self) {
        self.lock().closed = true;
        self.moved.notify_all();
    }

    /// Returns true if the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Waits for room and adds an item; returns true if it is wanted (called by the worker).
    pub fn put(&self, item: T, bytes: usize) -> bool {
        let mut state = self.lock();
        if !state.has_room() {
            // Wakes the worker only when enough items are finished, as each wake-up costs.
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
        let wake = state.waiting.of_loop && state.bytes >= WAKE_BYTES;
        state.waiting.of_loop &= !wake;
        drop(state);
        if wake {
            self.waker.wake();
        }
        true
    }

    /// Pauses this long; returns true if items are still wanted (called by the worker).
    pub fn pause(&self, time: Duration) -> bool {
        let mut state = self.lock();
        if state.waiting.of_loop && !state.items.is_empty() {
            state.waiting.of_loop = false;
            self.waker.wake();
        }
        let waited = self.moved.wait_timeout_while(state, time, |state| !state.closed);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    /// Marks the end (called by the worker).
    pub fn end(&self) {
        let mut state = self.lock();
        (state.ended, state.waiting.of_loop) = (true, false);
        drop(state);
        self.waker.wake();
    }

    /// Waits for items and takes them; returns false when closed (called by the worker). It waits `patience` for more
    /// after a small backlog.
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

    /// Marks `bytes` as finished; `news` wakes the loop at once (called by the worker).
    pub fn done(&self, bytes: usize, news: bool) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        let wake = news || (state.waiting.of_loop && state.bytes <= MAX_QUEUED_BYTES / 2);
        state.waiting.of_loop &= !wake;
        drop(state);
        if wake {
            self.waker.wake();
        }
    }

    /// Waits for a change (called by the worker).
    fn wait<'a>(&self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        state.waiting.of_worker = true;
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the worker (called by the loop).
    fn tell_worker(&self, mut state: MutexGuard<'_, State<T>>) {
        let waits = std::mem::take(&mut state.waiting.of_worker);
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
        State { items, bytes: 0, ended: false, closed: false, waiting: Waiting::default() }
    }
}

impl<T> State<T> {
    fn has_room(&self) -> bool {
        self.bytes < MAX_QUEUED_BYTES && self.items.len() < MAX_QUEUED_MESSAGES
    }
}

/// Maximum bytes in the queue, plus one item. A wake-up costs more than cache misses of a longer queue (measured:
/// docs/benchmarks.md).
const MAX_QUEUED_BYTES: usize = 2 << 20;
/// Maximum number of items in the queue.
const MAX_QUEUED_MESSAGES: usize = 4096;
/// Backlog below which the worker waits for more, in bytes.
const SMALL_BACKLOG_BYTES: usize = 32 << 10;
/// Bytes after which the loop is woken; a pause or the end wakes it as well.
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
