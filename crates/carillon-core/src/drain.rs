//! The one drain loop, used by every host.

use crate::{Event, Machine, Notice, Time, Transmit};

/// What a machine's host does with what comes out of it.
pub trait Host {
    /// Whether the port can take another datagram now. If not, the host drains again when it can.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Whether the machine may give out more while time stands still: asked before each datagram, notice and event. Once it may
    /// not the drain ends, and the host drains the machine no more: it is broken, or its run is stopped.
    fn may_emit(&mut self) -> bool {
        true
    }

    /// Sends a datagram. The host may take the buffer's contents; the drain clears what is left.
    fn transmit(&mut self, transmit: Transmit, bytes: &mut Vec<u8>);

    /// Records an event.
    fn event(&mut self, event: &Event);

    /// Takes a notice. Drivers and simulator have nothing to do about any and hand it on to whoever watches; a machine
    /// around another has.
    fn notice(&mut self, _notice: Notice) {}

    /// Whether `handle_timeout(now)` was called since time moved to `now`: only then are no timers
    /// due any more, which the drain asserts.
    fn timers_fired(&self) -> bool {
        false
    }
}

/// Takes everything out of a machine that it has to give, and returns when it next wants
/// `handle_timeout`: step two and three of the contract *mutate, drain, wait*.
///
/// # Panics
///
/// If the machine breaks rule 4 of the contract: a timer due at or before `now` after
/// `handle_timeout(now)` and the drain, which would be a timer armed without end.
pub fn drain<M, H>(machine: &mut M, now: Time, buf: &mut Vec<u8>, host: &mut H) -> Option<Time>
where
    M: Machine + ?Sized,
    H: Host + ?Sized,
{
    while host.may_emit() && host.is_ready() {
        buf.clear();
        let Some(transmit) = machine.poll_transmit(now, buf) else { break };
        host.transmit(transmit, buf);
    }
    match machine.events() {
        // In one place: it is asked for once.
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
    let next = machine.poll_timeout();
    assert!(
        !host.timers_fired() || !host.may_emit() || next.is_none_or(|at| at > now),
        "after handle_timeout and a drain at {now} a machine still wants a timeout at {}: {machine:?}",
        next.unwrap_or(Time::ZERO),
    );
    next
}

/// Rule 3 of the contract, the half that no other check sees: `handle_timeout` before anything is due does nothing. To
/// be called on a machine that has just been drained to the end.
///
/// # Panics
///
/// If it moved a timer, or gave anything out.
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
