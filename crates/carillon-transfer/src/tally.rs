//! Counts repairs at any end.

use carillon_core::{Bytes, Dest, Event, NodeId, Notice, Observer, Time, TraceEvent};

/// Counts the repairs that leave, and passes everything on.
#[derive(Debug)]
pub struct Tally<O> {
    pub(crate) repairs: u64,
    /// Who is told of everything.
    pub inner: O,
}

impl<O: Observer> Tally<O> {
    pub(crate) fn new(inner: O) -> Self {
        Tally { repairs: 0, inner }
    }
}

impl<O: Observer> Observer for Tally<O> {
    fn event(&mut self, event: &TraceEvent) {
        // The sender's own, and those of who keeps messages for others.
        let repair = matches!(event.event, Event::RepairSent { .. } | Event::Forwarded { repair: true, .. });
        self.repairs += u64::from(repair);
        self.inner.event(event);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.inner.datagram(time, from, to, bytes);
    }

    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        self.inner.notice(time, node, notice);
    }
}
