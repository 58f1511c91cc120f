//! Observer that keeps the events of a run.

use carillon_core::{Event, NodeId, Observer, Time, TraceEvent};

/// Events in their order.
#[derive(Debug, Default)]
pub struct EventRecorder(pub Vec<TraceEvent>);

impl Observer for EventRecorder {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        self.0.push(TraceEvent { time, node, event: event.clone() });
    }
}
