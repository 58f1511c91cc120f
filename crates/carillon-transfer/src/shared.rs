//! State shared by threads and tasks that wait for it to change: a monitor (mutex and condition variable, Hoare 1974)
//! extended by task wakers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Shared state with waiting threads and tasks of any async runtime.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    inner: Mutex<Inner<S>>,
    moved: Condvar,
}

#[derive(Debug)]
struct Inner<S> {
    it: S,
    /// Number of waiting threads.
    threads: usize,
    /// Wakers of the waiting tasks.
    tasks: Vec<Waker>,
}

impl<S> Shared<S> {
    pub fn new(it: S) -> Self {
        Shared { inner: Mutex::new(Inner { it, threads: 0, tasks: Vec::new() }), moved: Condvar::new() }
    }

    /// Changes the state. `change` returns true as its second value if waiting threads and tasks should check again.
    pub fn change<R>(&self, change: impl FnOnce(&mut S) -> (R, bool)) -> R {
        let mut inner = self.lock();
        let (result, moved) = change(&mut inner.it);
        if !moved {
            return result;
        }
        let (threads, tasks) = (inner.threads > 0, std::mem::take(&mut inner.tasks));
        drop(inner);
        if threads {
            self.moved.notify_all();
        }
        tasks.into_iter().for_each(Waker::wake);
        result
    }

    /// Waits until `look` returns a value or the deadline passes. `look` may change the state.
    pub fn wait<R>(&self, deadline: Option<Instant>, mut look: impl FnMut(&mut S) -> Option<R>) -> Option<R> {
        let mut inner = self.lock();
        loop {
            if let Some(found) = look(&mut inner.it) {
                return Some(found);
            }
            inner.threads += 1;
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            inner = match left {
                Some(left) if left.is_zero() => {
                    inner.threads -= 1;
                    return None;
                }
                Some(left) => self.moved.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.moved.wait(inner).unwrap_or_else(PoisonError::into_inner),
            };
            inner.threads -= 1;
        }
    }

    /// Calls `look` for a task and registers its waker if there is no value yet.
    pub fn poll<R>(&self, context: &Context<'_>, look: impl FnOnce(&mut S) -> Option<R>) -> Poll<R> {
        let mut inner = self.lock();
        match look(&mut inner.it) {
            Some(found) => Poll::Ready(found),
            None => {
                let waker = context.waker();
                if !inner.tasks.iter().any(|task| task.will_wake(waker)) {
                    inner.tasks.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
