//! Wrapper that charges a machine's heap to an owner. Datagrams are copied at its expense, and its output is not
//! charged to it.

use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    Delivery, Event, HelperTable, Machine, MessageId, Notice, ObservedState, Received, Receiver, Relay,
    Sender, Time, Transmit,
};

use crate::heap;

/// Machine with the owner of its heap.
#[derive(Debug)]
pub struct MeteredMachine {
    machine: Box<dyn Machine>,
    owner: usize,
}

impl MeteredMachine {
    /// Wraps the machine that `build` makes and charges it to `owner`, from 1 to [`heap::OWNERS`] - 2.
    pub fn new(owner: usize, build: impl FnOnce() -> Box<dyn Machine>) -> Self {
        MeteredMachine { machine: heap::charge(owner, build), owner }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> T {
        let machine = &mut *self.machine;
        heap::charge(self.owner, || call(machine))
    }
}

impl Machine for MeteredMachine {
    fn start(&mut self, now: Time) {
        self.call(|machine| machine.start(now));
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        self.call(|machine| {
            let bytes = Bytes::copy_from_slice(datagram.bytes);
            machine.handle_datagram(now, Received { bytes: &bytes, ..datagram });
        });
    }

    fn handle_timeout(&mut self, now: Time) {
        self.call(|machine| machine.handle_timeout(now));
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let mut own = Vec::new();
        let transmit = self.call(|machine| machine.poll_transmit(now, &mut own));
        buf.extend_from_slice(&own);
        transmit
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.call(|machine| machine.poll_event())
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.call(|machine| machine.poll_notice())
    }

    fn report_states(&self, now: Time, tell: &mut dyn FnMut(ObservedState)) {
        self.machine.report_states(now, tell);
    }

    fn held(&self) -> Option<u64> {
        self.machine.held()
    }

    fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>) {
        self.call(|machine| machine.update_helpers(now, table));
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        self.machine.as_sender()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        self.machine.as_receiver()?;
        Some(self)
    }

    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        self.machine.as_relay()
    }
}

impl Receiver for MeteredMachine {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let delivery = self.call(|machine| machine.as_receiver()?.poll_delivery())?;
        Some(Delivery { payload: Bytes::copy_from_slice(&delivery.payload), ..delivery })
    }

    fn supply(&mut self, now: Time, message: MessageId, payload: Bytes) {
        self.call(|machine| {
            if let Some(receiver) = machine.as_receiver() {
                receiver.supply(now, message, payload);
            }
        });
    }
}
