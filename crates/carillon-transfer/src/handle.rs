//! A transfer in a thread of its own: what happens can be read, awaited, and stopped.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender, unbounded};
use carillon_net::Waker;

use crate::Error;
use crate::run_loop::RunControl;

/// A transfer under way in a thread of its own. Dropped, it is aborted.
///
/// Events and the end can be waited for by a thread ([`Events::next_blocking`], [`wait`](Handle::wait)) or awaited
/// by a task of any async runtime ([`Events::next`], [`ended`](Handle::ended)).
#[derive(Debug)]
pub struct Handle<E, R> {
    abort: AbortSignal,
    events: Events<E>,
    end: Receiver<Result<R, Error>>,
}

/// What happens, in order. A program that reads too late loses what came after the first 65 536 that it has not
/// read; nothing waits for it, and the report has what counts.
#[derive(Debug)]
pub struct Events<E>(Receiver<E>);

impl<E, R> Handle<E, R> {
    /// What happens. Clones share it: each event goes to one of them.
    #[must_use]
    pub fn events(&self) -> Events<E> {
        self.events.clone()
    }

    /// Ends it: the others are told. It has its end a moment later, with a report that says what became of everyone.
    pub fn abort(&self) {
        self.abort.ask();
    }

    /// Waits for the end, and says what became of it.
    pub fn wait(self) -> Result<R, Error> {
        self.end.recv_blocking().unwrap_or_else(|_| Err(died()))
    }

    /// The same for a task.
    pub async fn ended(self) -> Result<R, Error> {
        self.end.recv().await.unwrap_or_else(|_| Err(died()))
    }

    /// Whether it has ended: then waiting takes no time.
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
    /// Waits for the next one; `None` after the last.
    pub fn next_blocking(&self) -> Option<E> {
        self.0.recv_blocking().ok()
    }

    /// The same for a task of any async runtime.
    pub async fn next(&self) -> Option<E> {
        self.0.recv().await.ok()
    }

    /// The next one if there is one.
    pub fn try_next(&self) -> Option<E> {
        self.0.try_recv().ok()
    }
}

impl<E> IntoIterator for Events<E> {
    type Item = E;
    type IntoIter = Blocking<E>;

    /// Waits for one after the other, up to the last.
    fn into_iter(self) -> Blocking<E> {
        Blocking(self)
    }
}

/// Waits for one event after the other.
#[derive(Debug)]
pub struct Blocking<E>(Events<E>);

impl<E> Iterator for Blocking<E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        self.0.next_blocking()
    }
}

/// The wish that a transfer ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct AbortSignal(Arc<AbortState>);

#[derive(Debug, Default)]
struct AbortState {
    requested: AtomicBool,
    /// Wakes the loop that is to hear of it.
    waker: Mutex<Waker>,
}

impl AbortSignal {
    /// This wakes the loop.
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

/// SenderEvent whoever listens, if anybody does.
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
            // Nobody listens any more if it cannot be sent.
            let _ = to.try_send(event);
        }
    }

    /// SenderEvent how far it is, unless there is much that was not read yet.
    pub fn send_if_room(&self, progress: E) {
        if self.to.as_ref().is_some_and(|to| to.len() < MAX_UNREAD_EVENTS / 2) {
            self.tell(progress);
        }
    }

    /// Whether it is time to tell how far it is.
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
        // Whoever has seen the last event finds the end.
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
