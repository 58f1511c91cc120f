//! Adapter that makes a [`Machine`] of a protocol part and its context.
//!
//! Most protocols implement [`Part`]: each call receives the [`MachineContext`] with time, timers, events and group.
//! [`Player`] keeps the time, fires timers, hands events on, and implements `Machine`, `Sender` and `Receiver` once
//! for all of them.

use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Delivery, Duration, Events, HelperTable, Machine, MessageId, NodeId, ObservedState,
    OfferError, PathMeasure, Received, Receiver, Role, Sender, Time, Transmit,
};

use super::{AckWindow, MachineContext};

/// Protocol logic at one node.
///
/// Each method corresponds to the method of the same name in [`Machine`], [`Sender`] or [`Receiver`], and has a
/// default for parts that do not need it.
pub trait Part: std::fmt::Debug + Send + Sized {
    /// Timers of the part.
    type Timer: Ord + Copy + std::fmt::Debug + Send;

    /// Role of the part: sender, receiver, or peer.
    const ROLE: Role;

    /// Starts the part.
    fn start(&mut self, _context: &mut MachineContext<Self::Timer>) {}

    /// Handles a datagram.
    fn handle_datagram(&mut self, context: &mut MachineContext<Self::Timer>, datagram: Received<'_>);

    /// Handles a timer that is due.
    fn on_timer(&mut self, _context: &mut MachineContext<Self::Timer>, _timer: Self::Timer) {}

    /// Handles a timeout. A part with blocks that keep time by themselves overrides this.
    fn handle_timeout(&mut self, context: &mut MachineContext<Self::Timer>) {
        self.fire(context);
    }

    /// Earliest deadline of blocks that keep time by themselves.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Writes the next datagram.
    fn poll_transmit(
        &mut self,
        _context: &mut MachineContext<Self::Timer>,
        _buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        None
    }

    /// Takes the next message for the application.
    fn poll_delivery(&mut self, context: &mut MachineContext<Self::Timer>) -> Option<Delivery> {
        context.poll_delivery()
    }

    /// Reports the states of the part for state diagrams and traces.
    fn report_states(&self, _context: &MachineContext<Self::Timer>, _tell: &mut dyn FnMut(ObservedState)) {}

    /// Window of unacknowledged messages, if the part has one. Progress and completion are read from it.
    fn window(&self) -> Option<&AckWindow> {
        None
    }

    /// Mutable window, to offer messages and to expel members.
    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        None
    }

    /// Completes messages that all members may have acknowledged.
    fn advance(&mut self, _context: &mut MachineContext<Self::Timer>) {}

    /// Offers a message. A part that never offers messages reports `Finished`.
    fn offer(
        &mut self,
        context: &mut MachineContext<Self::Timer>,
        payload: Bytes,
    ) -> Result<MessageId, OfferError> {
        let number = self.window_mut().ok_or(OfferError::Finished)?.offer(payload)?;
        // Without any member left, the message is complete at once.
        self.advance(context);
        Ok(MessageId(number))
    }

    /// Offers a message that some receivers may have already.
    fn withhold(
        &mut self,
        context: &mut MachineContext<Self::Timer>,
        payload: Bytes,
    ) -> Result<MessageId, OfferError> {
        // A part that cannot withhold a message sends it like any other.
        self.offer(context, payload)
    }

    /// Returns true if nothing that is known to exist is missing.
    fn is_complete(&self) -> bool {
        false
    }

    /// Supplies the payload of a withheld message at a receiver.
    fn supply(&mut self, _context: &mut MachineContext<Self::Timer>, _message: MessageId, _payload: Bytes) {}

    /// Declares that no more messages will be offered.
    fn finish(&mut self, _context: &mut MachineContext<Self::Timer>) {
        if let Some(window) = self.window_mut() {
            window.finish();
        }
    }

    /// Expels a member.
    fn expel(&mut self, context: &mut MachineContext<Self::Timer>, member: NodeId) {
        // The window may have waited for this member alone. Messages then complete now.
        if self.window_mut().is_some_and(|window| window.expel_node(member).is_some()) {
            self.advance(context);
        }
    }

    /// Returns true if the oldest message sent is held because of this member.
    fn awaits(&self, _context: &MachineContext<Self::Timer>, member: NodeId) -> bool {
        self.window().is_some_and(|window| window.awaits(member))
    }

    /// Number of messages that this member has acknowledged, if known.
    fn acknowledged(&self, _context: &MachineContext<Self::Timer>, _member: NodeId) -> Option<u64> {
        None
    }

    /// Measurements of the path to this member, if any.
    fn measured(&self, _context: &MachineContext<Self::Timer>, _member: NodeId) -> Option<PathMeasure> {
        None
    }

    /// Number of consecutive polls that this member has not answered.
    fn unanswered(&self, _context: &MachineContext<Self::Timer>, _member: NodeId) -> u32 {
        0
    }

    /// Total time in which offered messages could not be sent because members had not confirmed enough, if measured.
    fn held_up(&self, _context: &MachineContext<Self::Timer>, _now: Time) -> Option<Duration> {
        None
    }

    /// Lets the fastest member alone limit what is sent, or all members again.
    fn follow_fastest(&mut self, _context: &mut MachineContext<Self::Timer>, _on: bool) {}

    /// Number of messages kept, for the application or for repairs.
    fn held(&self) -> Option<u64> {
        self.window().map(|window| window.len() as u64)
    }

    /// Returns true if the part delivers messages. A helper may or may not.
    fn delivers(&self) -> bool {
        matches!(Self::ROLE, Role::Receiver | Role::Peer)
    }

    /// Updates the helper of each receiver.
    fn update_helpers(&mut self, _context: &mut MachineContext<Self::Timer>, _table: &Arc<HelperTable>) {}

    /// Returns true if all offered messages are complete.
    fn is_finished(&self) -> bool {
        // A part without a window offers no messages of its own, so it has nothing to complete.
        self.window().is_none_or(AckWindow::is_finished)
    }

    /// Makes a machine of the part at the node in `build`.
    fn play(self, build: &BuildContext) -> Player<Self> {
        Player::of(self, MachineContext::new(build))
    }

    /// Fires the timers that are due, in order of their deadlines.
    fn fire(&mut self, context: &mut MachineContext<Self::Timer>) {
        // A timer is disarmed before it fires, so that its handler can arm it again. The new time must be later than
        // now, or this loop does not end.
        while let Some(timer) = context.timers.expire(context.now) {
            self.on_timer(context, timer);
        }
    }
}

/// Machine that consists of a part and its context.
#[derive(Debug)]
pub struct Player<P: Part> {
    part: P,
    context: MachineContext<P::Timer>,
}

impl<P: Part> Player<P> {
    /// Makes a machine of this part with this context.
    pub fn of(part: P, context: MachineContext<P::Timer>) -> Self {
        Player { part, context }
    }

    /// Sets the time of the context, and borrows part and context separately.
    fn at(&mut self, now: Time) -> (&mut P, &mut MachineContext<P::Timer>) {
        self.context.now = now;
        (&mut self.part, &mut self.context)
    }
}

impl<P: Part> Machine for Player<P> {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.context.events)
    }

    fn start(&mut self, now: Time) {
        let (part, context) = self.at(now);
        part.start(context);
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let (part, context) = self.at(now);
        part.handle_datagram(context, datagram);
    }

    fn handle_timeout(&mut self, now: Time) {
        // A host may wake up early. The driving contract demands that the call then has no effect.
        if self.poll_timeout().is_some_and(|at| at <= now) {
            let (part, context) = self.at(now);
            part.handle_timeout(context);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        // Most parts keep all timers in the context. Blocks that keep time by themselves report through the part.
        match (self.context.timers.next(), self.part.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (part, context) = self.at(now);
        part.poll_transmit(context, buf)
    }

    fn update_helpers(&mut self, now: Time, table: &Arc<HelperTable>) {
        let (part, context) = self.at(now);
        part.update_helpers(context, table);
    }

    fn report_states(&self, _now: Time, tell: &mut dyn FnMut(ObservedState)) {
        // The machine is not mutable here, so the part sees the time of the last call.
        self.part.report_states(&self.context, tell);
    }

    fn held(&self) -> Option<u64> {
        self.part.held()
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        // All parts have `offer` by default, so the role decides.
        matches!(P::ROLE, Role::Sender | Role::Peer).then_some(self as _)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        // The part decides instead of the role, since some helpers deliver messages too.
        self.part.delivers().then_some(self as _)
    }
}

impl<P: Part> Sender for Player<P> {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let (part, context) = self.at(now);
        part.offer(context, payload)
    }

    fn withhold(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let (part, context) = self.at(now);
        part.withhold(context, payload)
    }

    fn finish(&mut self, now: Time) {
        let (part, context) = self.at(now);
        part.finish(context);
    }

    fn expel(&mut self, now: Time, member: NodeId) {
        let (part, context) = self.at(now);
        part.expel(context, member);
    }

    fn awaits(&self, member: NodeId) -> bool {
        self.part.awaits(&self.context, member)
    }

    fn acknowledged(&self, member: NodeId) -> Option<u64> {
        self.part.acknowledged(&self.context, member)
    }

    fn measured(&self, member: NodeId) -> Option<PathMeasure> {
        self.part.measured(&self.context, member)
    }

    fn unanswered(&self, member: NodeId) -> u32 {
        self.part.unanswered(&self.context, member)
    }

    fn held_up(&self, now: Time) -> Option<Duration> {
        self.part.held_up(&self.context, now)
    }

    fn follow_fastest(&mut self, now: Time, on: bool) {
        let (part, context) = self.at(now);
        part.follow_fastest(context, on);
    }

    fn is_finished(&self) -> bool {
        self.part.is_finished()
    }
}

impl<P: Part> Receiver for Player<P> {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        // The application reads without a time: the part sees that of the last call.
        self.part.poll_delivery(&mut self.context)
    }

    fn is_complete(&self) -> bool {
        self.part.is_complete()
    }

    fn supply(&mut self, now: Time, message: MessageId, payload: Bytes) {
        let (part, context) = self.at(now);
        part.supply(context, message, payload);
    }
}
