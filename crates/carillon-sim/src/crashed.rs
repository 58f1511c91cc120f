//! Machine of a crashed node.

use carillon_core::{Event, Machine, Received, Time, Transmit};

/// Machine that ignores all input and sends nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crashed;

impl Machine for Crashed {
    fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {}

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_transmit(&mut self, _now: Time, _buf: &mut Vec<u8>) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
