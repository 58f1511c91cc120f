//! Exceptions of machines. A machine cannot return an error, so the first exception of a run waits here for the caller.
//! All machines of a run are on one thread.

use std::cell::RefCell;

use carillon_core::{Event, Frame, NodeId, Observer, Time};
use pyo3::prelude::*;

thread_local! {
    static FAILURE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Notes an exception, unless there was one before.
pub fn note_failure(error: PyErr) {
    FAILURE.with_borrow_mut(|failure| _ = failure.get_or_insert(error));
}

/// Takes the exception of the run that has just ended on this thread.
pub fn take_failure() -> Option<PyErr> {
    FAILURE.take()
}

/// Observer that ends a run at the first exception of a machine.
pub struct Guard<O>(pub O);

impl<O: Observer> Observer for Guard<O> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.0.event(time, node, event);
    }

    fn watches_frames(&self) -> bool {
        self.0.watches_frames()
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.0.frame(frame);
    }

    fn stops(&mut self) -> bool {
        FAILURE.with_borrow(Option::is_some)
    }
}
