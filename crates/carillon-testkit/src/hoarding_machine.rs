//! Machine that leaks a copy of every datagram, which suites of bounded memory must detect.

use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    Event, HelperTable, Machine, Notice, ObservedState, Received, Receiver, Relay, Sender, Time, Transmit,
};

/// Machine that follows its protocol and keeps every datagram for ever.
#[derive(Debug)]
pub struct HoardingMachine {
    machine: Box<dyn Machine>,
    hoard: Hoarded,
}

/// Kept datagrams. `Debug` shows their number only, since [`CheckedMachine`](crate::CheckedMachine) compares that
/// text between calls.
struct Hoarded(Vec<(Bytes, Vec<u8>)>);

impl std::fmt::Debug for Hoarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} datagrams", self.0.len())
    }
}

impl HoardingMachine {
    /// Wraps a machine.
    pub fn new(machine: Box<dyn Machine>) -> Self {
        HoardingMachine { machine, hoard: Hoarded(Vec::new()) }
    }
}

impl Machine for HoardingMachine {
    fn start(&mut self, now: Time) {
        self.machine.start(now);
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        // Both ways of keeping bytes: the first half as a slice of the datagram's buffer, the second half as a copy.
        let (kept, copied) = datagram.bytes.split_at(datagram.bytes.len() / 2);
        self.hoard.0.push((datagram.bytes.slice_ref(kept), copied.to_vec()));
        self.machine.handle_datagram(now, datagram);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.machine.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.machine.poll_transmit(now, buf)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.machine.poll_event()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.machine.poll_notice()
    }

    fn report_states(&self, now: Time, tell: &mut dyn FnMut(ObservedState)) {
        self.machine.report_states(now, tell);
    }

    fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>) {
        self.machine.update_helpers(now, table);
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        self.machine.as_sender()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        self.machine.as_receiver()
    }

    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        self.machine.as_relay()
    }
}
