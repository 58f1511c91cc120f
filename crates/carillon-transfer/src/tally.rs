//! Counters of repairs and dropped packets at any end.

use carillon_core::{Bytes, Dest, DropReason, Event, NodeId, Notice, Observer, Time};

/// Counts sent repairs and dropped packets, and forwards everything to `inner`.
#[derive(Debug)]
pub struct Tally<O> {
    pub(crate) repairs: u64,
    /// Counts per reason, in the order of [`DropReason::VARIANTS`].
    dropped: [u64; DropReason::VARIANTS.len()],
    /// Observer that receives everything.
    pub inner: O,
}

impl<O: Observer> Tally<O> {
    pub(crate) fn new(inner: O) -> Self {
        Tally { repairs: 0, dropped: [0; DropReason::VARIANTS.len()], inner }
    }

    /// Number of dropped packets by reason.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        // Implosion occurs only in the simulator.
        let all = DropReason::VARIANTS.into_iter().zip(self.dropped);
        all.filter(|(reason, _)| *reason != DropReason::Implosion)
            .map(|(reason, count)| (reason.name(), count))
    }
}

impl<O: Observer> Observer for Tally<O> {
    fn event(&mut self, time: Time, node: NodeId, event: &Event) {
        match *event {
            // Repairs of the sender, and of helpers that store messages for other members.
            Event::RepairSent { .. } | Event::Forwarded { repair: true, .. } => self.repairs += 1,
            Event::Dropped { reason } => {
                let at = DropReason::VARIANTS.iter().position(|&one| one == reason);
                let count = at.and_then(|at| self.dropped.get_mut(at));
                count.into_iter().for_each(|count| *count += 1);
            }
            _ => {}
        }
        self.inner.event(time, node, event);
    }

    fn datagram(&mut self, time: Time, from: NodeId, to: &Dest, bytes: &Bytes) {
        self.inner.datagram(time, from, to, bytes);
    }

    fn notice(&mut self, time: Time, node: NodeId, notice: &Notice) {
        self.inner.notice(time, node, notice);
    }
}
