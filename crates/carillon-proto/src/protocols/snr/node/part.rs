//! Calls of the host to a node with periodic status.

use std::sync::Arc;

use carillon_core::{Delivery, Dest, DropReason, HelperTable, Received, Role, Transmit, expand};
use carillon_wire::status::Packet;

use super::{Context, Data, StatusNode, Timer};
use crate::blocks::Part;
use crate::protocols::snr::report::MODULUS;

impl Part for StatusNode {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.endpoint.as_ref().map_or(0, |endpoint| endpoint.held()))
    }

    fn start(&mut self, context: &mut Context) {
        self.arm_status(context);
        self.watch(context);
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(self.rule.family, datagram.bytes)) else {
            return;
        };
        match packet {
            Packet::Data { local, seq, block, first, interval, .. } => {
                self.on_data(context, datagram, Data { local, seq, block, first, interval });
            }
            Packet::Status(status) if status.local => self.on_status(context, datagram.source, &status),
            Packet::Order { block, start } => self.on_order(context, datagram.source, block, start),
            Packet::State { seq, upper, first, interval, .. } if datagram.source == context.sender => {
                let near = self.known.1;
                let (upper, first) =
                    (expand(upper.into(), MODULUS, near), expand(first.into(), MODULUS, near));
                match self.on_source_packet(context, seq, (first, upper), interval) {
                    true => context.events.received("state", upper.saturating_sub(1)),
                    false => context.events.dropped(DropReason::Malformed),
                }
            }
            Packet::Status(_) | Packet::State { .. } => context.events.dropped(DropReason::Foreign),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Status => {
                self.status_due = true;
                let own = self.own(context.now);
                self.orders.refresh(context.now, &mut self.children, own.as_ref(), self.node, self.interval);
            }
            Timer::Local => self.local.on_time(context.now, self.interval),
            Timer::Pace => {}
            Timer::Patience => self.on_patience(context),
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if std::mem::take(&mut self.status_due) {
            return Some(self.send_status(context, buf));
        }
        while let Some((holder, number, start)) = self.orders.next() {
            if holder == self.node {
                self.local.order(context.now, number, start, self.interval);
                continue;
            }
            Packet::Order { block: (number % MODULUS) as u32, start }.emit(
                self.rule.family,
                context.association,
                buf,
            );
            context.events.control("order", number);
            return Some(Transmit::now(Dest::Node(holder)));
        }
        let mut transmit = None;
        if !self.local.is_idle() || !self.passing.is_empty() {
            match self.pace.ready_at(context.now) {
                Some(at) => context.timers.arm(Timer::Pace, at),
                None => {
                    transmit = self.send_passing(context, buf);
                    if transmit.is_none()
                        && let Some(number) = self.next_local()
                    {
                        transmit = self.send_local(context, number, buf);
                    }
                }
            }
        }
        // The port may have been busy since an order came, so that its time has passed and no timer was armed for it.
        if self.local.next_time().is_some_and(|at| at <= context.now) {
            self.local.on_time(context.now, self.interval);
        }
        match self.local.next_time() {
            Some(at) => context.timers.arm(Timer::Local, at),
            None => drop(context.timers.cancel(Timer::Local)),
        }
        transmit
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.fetched();
        }
        Some(delivery)
    }

    fn delivers(&self) -> bool {
        self.delivers
    }

    fn update_helpers(&mut self, context: &mut Context, table: &Arc<HelperTable>) {
        if table.edition() > self.table.edition() {
            self.table = table.clone();
            self.adopt(context.now);
            self.children.wait_from(context.now);
            self.settle();
            self.watch(context);
            self.k = 1;
            self.arm_status(context);
        }
    }
}
