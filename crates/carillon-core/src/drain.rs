//! Drain loop that every host uses.
//!
//! A host mutates a machine, drains it, and waits. The drain takes out every datagram, notice and event and returns
//! the time of the next timeout; it is the only loop of its kind, so that the simulator and the socket drivers cannot
//! differ.

use crate::{Event, Machine, Notice, Time, Transmit};

/// Host of a machine: the receiver of everything that the machine emits.
pub trait Host {
    /// Returns true if the port can take another datagram now. Otherwise the host drains again when the port has
    /// room.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Returns true if the machine may emit more at the current time; asked before each datagram, notice and event.
    ///
    /// After the first false the drain ends and the host never drains the machine again: the machine is broken, or
    /// its run is stopped.
    fn may_emit(&mut self) -> bool {
        true
    }

    /// Sends a datagram. The host may take the contents of the buffer; the drain clears the rest.
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>);

    /// Records an event.
    fn event(&mut self, event: &Event);

    /// Takes a notice. Drivers and the simulator only pass it on to observers; a machine that runs another machine
    /// acts on it.
    fn notice(&mut self, _notice: Notice) {}

    /// Returns true if `handle_timeout(now)` was called since time moved to `now`. Only then must no timer be due,
    /// which the drain asserts.
    fn timers_fired(&self) -> bool {
        false
    }
}

/// Takes everything that a machine emits and returns the time at which it next wants `handle_timeout`. These are the
/// second and third step of the contract *mutate, drain, wait*.
///
/// # Panics
///
/// Panics if the machine breaks rule 4 of the contract: a timer due at or before `now` after `handle_timeout(now)` and
/// the drain, which would re-arm forever.
pub fn drain<M, H>(machine: &mut M, now: Time, buf: &mut Vec<u8>, host: &mut H) -> Option<Time>
where
    M: Machine + ?Sized,
    H: Host + ?Sized,
{
    // Transmits come first, so that events and notices describe everything that was sent.
    while host.may_emit() && host.is_ready() {
        buf.clear();
        let Some(transmit) = machine.poll_transmit(now, buf) else { break };
        host.transmit(transmit, buf);
    }
    match machine.events() {
        // One virtual call instead of one for each event and notice.
        Some(events) => {
            while let Some(notice) = events.pop_notice() {
                host.notice(notice);
            }
            events.take_all(|event| host.event(event));
        }
        None => {
            while host.may_emit()
                && let Some(notice) = machine.poll_notice()
            {
                host.notice(notice);
            }
            while host.may_emit()
                && let Some(event) = machine.poll_event()
            {
                host.event(&event);
            }
        }
    }
    // Rule 4; it does not hold for a machine that the host has stopped in the middle of a drain.
    let next = machine.poll_timeout();
    assert!(
        !host.timers_fired() || !host.may_emit() || next.is_none_or(|at| at > now),
        "after handle_timeout and a drain at {now} a machine still wants a timeout at {}: {machine:?}",
        next.unwrap_or(Time::ZERO),
    );
    next
}

/// Checks the part of rule 3 that no other check covers: `handle_timeout` before anything is due changes nothing. The
/// machine must just have been drained to the end.
///
/// # Panics
///
/// Panics if the call moved a timer or made the machine emit anything.
pub fn check_early<M: Machine + ?Sized>(machine: &mut M, now: Time, buf: &mut Vec<u8>) {
    let next = machine.poll_timeout();
    if next.is_some_and(|at| at <= now) {
        return;
    }
    machine.handle_timeout(now);
    assert_eq!(machine.poll_timeout(), next, "an early handle_timeout moved a timer: {machine:?}");
    buf.clear();
    let sent = machine.poll_transmit(now, buf);
    assert_eq!(sent, None, "an early handle_timeout made it send: {machine:?}");
    assert_eq!(machine.poll_notice(), None, "an early handle_timeout gave notice: {machine:?}");
    assert_eq!(machine.poll_event(), None, "an early handle_timeout made an event: {machine:?}");
}
