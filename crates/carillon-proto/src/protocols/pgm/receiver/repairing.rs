//! Packets of a designated local repairer to its parent.

use carillon_core::{Dest, Event, MessageId, Transmit};
use carillon_wire::pgm::{Body, Data, Nak, Options};

use super::repairer::Task;
use super::{PgmReceiver, Upstream};
use crate::blocks::{MachineContext, wire};

impl PgmReceiver {
    /// Emits the repairer's next packet to its parent.
    pub(super) fn emit_task(
        &mut self,
        context: &mut MachineContext,
        upstream: Upstream,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let task = self.repairer.as_mut()?.next_task()?;
        let group = self.addresses.of_group(context.group);
        let nak = |first: u64| Nak { sqn: wire(first), source: upstream.source, group };
        match task {
            Task::Confirm(first, list) => {
                self.packet(Body::Ncf(nak(first)), Options::listing(&list)).emit(buf);
                context.events.control("ncf", first);
            }
            Task::Nnak(first, list) => {
                self.packet(Body::Nnak(nak(first)), Options::listing(&list)).emit(buf);
                context.events.control("n-nak", first);
            }
            Task::Polr(sqn, round) => {
                let redirect = Some(self.own_address());
                let options = Options { redirect, ..Options::default() };
                self.packet(Body::Polr { sqn, round }, options).emit(buf);
                context.events.control("polr", sqn);
            }
            Task::Repair(number, payload) => {
                let data = Data { sqn: wire(number), trail: wire(self.trail.min(number)), payload: &payload };
                self.packet(Body::Rdata(data), Options::default()).emit(buf);
                let (source, message, bytes) = (context.sender, MessageId(number), buf.len() as u32);
                context.events.push(Event::Forwarded { source, message, bytes, repair: true });
            }
        }
        Some(Transmit::now(Dest::Node(upstream.node)))
    }
}
