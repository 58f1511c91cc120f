//! Background transfers: a thread per transfer, with events, a result and an abort signal.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender, unbounded};
use carillon_net::Waker;

use crate::Error;
use crate::run_loop::RunControl;

/// A transfer that runs in a thread of its own. Dropping the handle aborts the transfer.
///
/// Threads wait for events and the result with [`Events::next_blocking`] and [`wait`](Handle::wait); tasks of any
/// async runtime await [`Events::next`] and [`ended`](Handle::ended).
#[derive(Debug)]
pub struct Handle<E, R> {
    abort: AbortSignal,
    events: Events<E>,
    end: Receiver<Result<R, Error>>,
}

/// Events of a transfer, in order. The queue holds 65 536 unread events and drops later ones; the transfer never
/// waits for the reader, and the report has the complete result.
#[derive(Debug)]
pub struct Events<E>(Receiver<E>);

impl<E, R> Handle<E, R> {
    /// Returns a reader of the events. Clones share one queue: each event goes to one of them.
    #[must_use]
    pub fn events(&self) -> Events<E> {
        self.events.clone()
    }

    /// Requests the end of the transfer. The other members are notified, and the report follows shortly.
    pub fn abort(&self) {
        self.abort.ask();
    }

    /// Waits for the end and returns the report.
    pub fn wait(self) -> Result<R, Error> {
        self.end.recv_blocking().unwrap_or_else(|_| Err(died()))
    }

    /// Awaits the end and returns the report.
    pub async fn ended(self) -> Result<R, Error> {
        self.end.recv().await.unwrap_or_else(|_| Err(died()))
    }

    /// Awaits the end and returns the report, and leaves the handle to its owner. A call that is cancelled loses
    /// nothing. After the report was returned, a further call is an error.
    pub async fn report(&self) -> Result<R, Error> {
        self.end.recv().await.unwrap_or_else(|_| Err(died()))
    }

    /// Returns true when the transfer has ended, so that [`wait`](Handle::wait) does not block.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.end.is_empty() || self.end.is_closed()
    }
}

impl<E, R> Drop for Handle<E, R> {
    fn drop(&mut self) {
        self.abort();
    }
}

impl<E> Clone for Events<E> {
    fn clone(&self) -> Self {
        Events(self.0.clone())
    }
}

impl<E> Events<E> {
    /// Waits for the next event; returns `None` after the last.
    pub fn next_blocking(&self) -> Option<E> {
        self.0.recv_blocking().ok()
    }

    /// Awaits the next event, in any async runtime; returns `None` after the last.
    pub async fn next(&self) -> Option<E> {
        self.0.recv().await.ok()
    }

    /// Returns the next event if one is queued.
    pub fn try_next(&self) -> Option<E> {
        self.0.try_recv().ok()
    }
}

impl<E> IntoIterator for Events<E> {
    type Item = E;
    type IntoIter = Blocking<E>;

    /// Iterates over the events, waiting for each, up to the last.
    fn into_iter(self) -> Blocking<E> {
        Blocking(self)
    }
}

/// Blocking iterator over events.
#[derive(Debug)]
pub struct Blocking<E>(Events<E>);

impl<E> Iterator for Blocking<E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        self.0.next_blocking()
    }
}

/// Shared flag that requests the end of a transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct AbortSignal(Arc<AbortState>);

#[derive(Debug, Default)]
struct AbortState {
    requested: AtomicBool,
    /// Wakes the loop of the transfer when the flag is set.
    waker: Mutex<Waker>,
}

impl AbortSignal {
    /// Sets the waker of the loop that reads the flag.
    pub fn set_waker(&self, waker: Waker) {
        *self.waker() = waker;
    }

    pub fn ask(&self) {
        self.0.requested.store(true, Ordering::Release);
        self.waker().wake();
    }

    pub fn wish(&self, reason: &'static str) -> RunControl {
        if self.is_requested() { RunControl::Quit(reason) } else { RunControl::Continue }
    }

    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::Acquire)
    }

    fn waker(&self) -> MutexGuard<'_, Waker> {
        self.0.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends events to a [`Handle`], or discards them.
#[derive(Debug)]
pub(crate) struct EventSink<E> {
    to: Option<Sender<E>>,
    told: Cell<Option<Instant>>,
}

impl<E> EventSink<E> {
    pub fn silent() -> Self {
        EventSink { to: None, told: Cell::new(None) }
    }

    pub fn tell(&self, event: E) {
        if let Some(to) = self.to.as_ref().filter(|to| to.len() < MAX_UNREAD_EVENTS) {
            // Sending fails only after the reader has been dropped.
            let _ = to.try_send(event);
        }
    }

    /// Sends a progress event unless the queue of unread events is half full.
    pub fn send_if_room(&self, progress: E) {
        if self.to.as_ref().is_some_and(|to| to.len() < MAX_UNREAD_EVENTS / 2) {
            self.tell(progress);
        }
    }

    /// Returns true if a progress event is due, and starts the next interval.
    pub fn is_due(&self) -> bool {
        let now = Instant::now();
        let due = self.to.is_some() && self.told.get().is_none_or(|at| now - at >= PROGRESS_INTERVAL);
        if due {
            self.told.set(Some(now));
        }
        due
    }
}

/// Runs a transfer in a thread of its own.
pub(crate) fn spawn<E, R>(
    name: &str,
    run: impl FnOnce(&AbortSignal, &EventSink<E>) -> Result<R, Error> + Send + 'static,
) -> Handle<E, R>
where
    E: Send + 'static,
    R: Send + 'static,
{
    let (to, events) = unbounded();
    let (end_to, end) = unbounded();
    let abort = AbortSignal::default();
    let requested = abort.clone();
    let failed = end_to.clone();
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let teller = EventSink { to: Some(to), told: Cell::new(None) };
        let result = run(&requested, &teller);
        // The result is sent after the last event, so a reader of the last event finds it.
        let _ = end_to.try_send(result);
    });
    if let Err(error) = spawned {
        let _ = failed.try_send(Err(Error::NoThread(error)));
    }
    Handle { abort, events: Events(events), end }
}

fn died() -> Error {
    Error::Died("it panicked".to_owned())
}

const MAX_UNREAD_EVENTS: usize = 1 << 16;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
