//! Limits of a run, so that no setting makes the page wait without end.

use carillon_core::{Bytes, Dest, Event, Frame, Machine, NodeId, Notice, Observer, Time};
use carillon_run::run::{STEPS_BETWEEN_QUESTIONS, Supervisor};

/// Observer that ends the run after a number of events, and passes no more than these on.
pub(crate) struct EventLimit<'a> {
    observer: &'a mut dyn Observer,
    left: u64,
    exceeded: bool,
}

impl<'a> EventLimit<'a> {
    /// Passes up to `max` events to `observer`.
    pub(crate) fn new(observer: &'a mut dyn Observer, max: u64) -> Self {
        EventLimit { observer, left: max, exceeded: false }
    }

    /// Returns true if there were more events.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded
    }
}

impl Observer for EventLimit<'_> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.observer.event(time, node, event);
            }
            None => self.exceeded = true,
        }
    }

    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        if self.left > 0 {
            self.observer.notice(time, node, notice);
        }
    }

    fn watches_frames(&self) -> bool {
        self.observer.watches_frames()
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if self.left > 0 {
            self.observer.frame(frame);
        }
    }

    fn watches_machines(&self) -> bool {
        self.observer.watches_machines()
    }

    fn machine(&mut self, time: Time, node: NodeId, machine: &dyn Machine, deadline: Option<Time>) {
        if self.left > 0 {
            self.observer.machine(time, node, machine, deadline);
        }
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        if self.left > 0 {
            self.observer.datagram(time, from, to, bytes);
        }
    }

    fn stops(&mut self) -> bool {
        self.exceeded || self.observer.stops()
    }
}

/// Supervisor that ends the run after a number of steps, for runs with few events.
#[derive(Debug, Default)]
pub(crate) struct StepLimit {
    /// Number of times that the run asked.
    asked: u64,
}

impl Supervisor for StepLimit {
    fn stops(&mut self) -> bool {
        self.asked += 1;
        self.asked > MAX_STEPS / STEPS_BETWEEN_QUESTIONS
    }
}

/// Maximum number of steps of a run: some seconds in a browser.
const MAX_STEPS: u64 = 20_000_000;
