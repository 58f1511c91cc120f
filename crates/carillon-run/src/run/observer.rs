//! Observers of a simulated run, joined to one.

use carillon_core::{Bytes, Dest, Event, Frame, Handling, Machine, NodeId, Notice, Observer, Time};

use super::settled::SettledCount;
use super::supervisor::Supervisor;
use crate::metrics::Recorder;
use crate::scenario::Scenario;

/// Observers of a run: the recorder, the condition of its end, and the observer of the caller.
pub(super) struct RunObserver<'a> {
    scenario: &'a Scenario,
    pub(super) recorder: Recorder,
    settled: SettledCount,
    pub(super) supervisor: &'a mut dyn Supervisor,
    /// True if `observer` records receptions; the recorder does not.
    receptions_watched: bool,
    /// True if `observer` wants to know the frames of events.
    frames_watched: bool,
    /// True if `observer` wants to see machines after each call.
    machines_watched: bool,
    observer: &'a mut dyn Observer,
}

impl<'a> RunObserver<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        observer: &'a mut dyn Observer,
        supervisor: &'a mut dyn Supervisor,
        settled: &SettledCount,
    ) -> Self {
        RunObserver {
            scenario,
            recorder: Recorder::new(scenario),
            settled: settled.clone(),
            supervisor,
            receptions_watched: observer.watches_receptions(),
            frames_watched: observer.watches_frames(),
            machines_watched: observer.watches_machines(),
            observer,
        }
    }
}

impl Observer for RunObserver<'_> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.recorder.event(time, node, event);
        self.observer.event(time, node, event);
    }

    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        self.settled.note(self.scenario, node, notice);
        self.observer.notice(time, node, notice);
    }

    fn watches_held(&self) -> bool {
        self.recorder.watches_held()
    }

    fn watches_receptions(&self) -> bool {
        self.receptions_watched
    }

    fn watches_frames(&self) -> bool {
        self.frames_watched
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if self.frames_watched {
            self.observer.frame(frame);
        }
    }

    fn frame_event(&mut self, time: Time, node: NodeId, event: &Event, frame: &Frame<'_>) {
        self.recorder.frame_event(time, node, event, frame);
        if self.frames_watched {
            self.observer.frame(frame);
        }
        self.observer.event(time, node, event);
    }

    fn watches_machines(&self) -> bool {
        self.machines_watched
    }

    fn machine(&mut self, time: Time, node: NodeId, machine: &dyn Machine, deadline: Option<Time>) {
        self.observer.machine(time, node, machine, deadline);
    }

    fn held(&mut self, time: Time, node: NodeId, messages: u64) {
        self.recorder.held(time, node, messages);
    }

    fn watches_packets(&self) -> bool {
        self.recorder.watches_packets()
    }

    fn handled(&mut self, time: Time, node: NodeId, handling: Handling) {
        self.recorder.handled(time, node, handling);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.recorder.datagram(time, from, to, bytes);
        self.observer.datagram(time, from, to, bytes);
    }

    fn stops(&mut self) -> bool {
        self.supervisor.stops() || self.observer.stops()
    }
}
