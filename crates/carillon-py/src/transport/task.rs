//! Futures of the transport for Python: waited for by a thread, or polled by an event loop.

use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Interval at which a waiting thread serves signals.
const TICK: Duration = Duration::from_millis(100);

/// Conversion of the result into a Python object, which needs the interpreter.
type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// A call in progress. It is dropped, and thereby cancelled, by `cancel` and with the object.
#[pyclass(frozen, module = "carillon._carillon")]
pub struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = Convert> + Send>>>>,
}

impl Task {
    /// Wraps a future. `convert` makes the Python object of its result.
    pub fn new<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let future = async move {
            let value = future.await;
            Box::new(move |py: Python<'_>| convert(py, value)) as Convert
        };
        Task { future: Mutex::new(Some(Box::pin(future))) }
    }

    /// Polls the future without the interpreter lock: it takes locks of transfers, and their threads may wake tasks.
    fn advance(&self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        let polled = py.detach(|| {
            let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
            let polled = future.as_mut().map(|future| future.as_mut().poll(&mut Context::from_waker(waker)));
            if let Some(Poll::Ready(_)) = polled {
                *future = None;
            }
            polled
        });
        match polled {
            None => Err(PyRuntimeError::new_err("this call has ended or was cancelled")),
            Some(Poll::Pending) => Ok(None),
            Some(Poll::Ready(convert)) => convert(py).map(Some),
        }
    }
}

#[pymethods]
impl Task {
    /// Waits for the end of the call and returns its result. A signal cancels the call.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if let Some(result) = self.advance(py, &waker)? {
                return Ok(result);
            }
            py.detach(|| std::thread::park_timeout(TICK));
            if let Err(signal) = py.check_signals() {
                self.cancel(py);
                return Err(signal);
            }
        }
    }

    /// Returns a tuple with the result if the call has ended; otherwise returns `None` and calls `wake` once, from
    /// another thread, when it is worth polling again.
    fn poll(&self, py: Python<'_>, wake: Py<PyAny>) -> PyResult<Option<(Py<PyAny>,)>> {
        let waker = Waker::from(Arc::new(Callback(wake)));
        Ok(self.advance(py, &waker)?.map(|result| (result,)))
    }

    /// Cancels the call.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| drop(self.future.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let future = self.future.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if future.is_some() {
            Python::attach(|py| py.detach(|| drop(future)));
        }
    }
}

/// Waker of a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waker of an event loop.
struct Callback(Py<PyAny>);

impl Wake for Callback {
    /// Leaves the call to a thread of its own. The waking thread may hold locks, so it must not wait for the
    /// interpreter.
    fn wake(self: Arc<Self>) {
        static CALLER: OnceLock<Sender<Arc<Callback>>> = OnceLock::new();
        let caller = CALLER.get_or_init(|| {
            let (to, callbacks) = channel::<Arc<Callback>>();
            std::thread::spawn(move || {
                for callback in callbacks {
                    // A loop that was closed has no use for the call, and its error has no reader.
                    Python::attach(|py| drop(callback.0.call0(py)));
                }
            });
            to
        });
        // The thread lives as long as the process.
        let _ = caller.send(self);
    }
}
