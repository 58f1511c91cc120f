//! What is counted, and recorded, of a session's events.

use carillon_core::{Bytes, Dest, Event, NodeId, Observer, Time, TraceEvent};

/// Counts repairs, and passes everything on to the trace if there is one.
#[derive(Debug, Default)]
pub struct Watch {
    repairs: u64,
}

impl Watch {
    /// Data packets that went out again.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }
}

impl Observer for Watch {
    fn event(&mut self, event: &TraceEvent) {
        self.repairs += u64::from(matches!(event.event, Event::RepairSent { .. }));
    }

    fn datagram(&mut self, _time: Time, _from: NodeId, _to: &Dest, _bytes: &Bytes) {}
}
