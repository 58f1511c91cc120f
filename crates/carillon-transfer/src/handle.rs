//! A transfer in a thread of its own: what happens can be read, awaited, and stopped.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_channel::{Receiver, Sender, unbounded};
use carillon_net::Waker;

use crate::Error;
use crate::conduct::Wish;

/// A transfer under way in a thread of its own. Dropped, it is aborted.
///
/// Events and the end can be waited for by a thread ([`Events::next_blocking`], [`wait`](Handle::wait)) or awaited
/// by a task of any async runtime ([`Events::next`], [`ended`](Handle::ended)).
#[derive(Debug)]
pub struct Handle<E, R> {
    abort: Abort,
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
pub(crate) struct Abort(Arc<Wished>);

#[derive(Debug, Default)]
struct Wished {
    wished: AtomicBool,
    /// Wakes the loop that is to hear of it.
    waker: Mutex<Waker>,
}

impl Abort {
    /// This wakes the loop.
    pub fn heard_by(&self, waker: Waker) {
        *self.waker() = waker;
    }

    pub fn ask(&self) {
        self.0.wished.store(true, Ordering::Release);
        self.waker().wake();
    }

    pub fn wish(&self, reason: &'static str) -> Wish {
        if self.is_wished() { Wish::Quit(reason) } else { Wish::GoOn }
    }

    pub fn is_wished(&self) -> bool {
        self.0.wished.load(Ordering::Acquire)
    }

    fn waker(&self) -> MutexGuard<'_, Waker> {
        self.0.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whoever listens, if anybody does.
#[derive(Debug)]
pub(crate) struct Teller<E> {
    to: Option<Sender<E>>,
    told: Cell<Option<Instant>>,
}

impl<E> Teller<E> {
    pub fn silent() -> Self {
        Teller { to: None, told: Cell::new(None) }
    }

    pub fn tell(&self, event: E) {
        if let Some(to) = self.to.as_ref().filter(|to| to.len() < MOST_WAITING) {
            // Nobody listens any more if it cannot be sent.
            let _ = to.try_send(event);
        }
    }

    /// Tells how far it is, unless there is much that was not read yet.
    pub fn tell_if_room(&self, progress: E) {
        if self.to.as_ref().is_some_and(|to| to.len() < MOST_WAITING / 2) {
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
    run: impl FnOnce(&Abort, &Teller<E>) -> Result<R, Error> + Send + 'static,
) -> Handle<E, R>
where
    E: Send + 'static,
    R: Send + 'static,
{
    let (to, events) = unbounded();
    let (end_to, end) = unbounded();
    let abort = Abort::default();
    let wished = abort.clone();
    let failed = end_to.clone();
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let teller = Teller { to: Some(to), told: Cell::new(None) };
        let result = run(&wished, &teller);
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

const MOST_WAITING: usize = 1 << 16;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
