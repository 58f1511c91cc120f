//! A machine as most protocols need it: a part, and the context where it acts.

use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Delivery, Events, HelperTable, Machine, MessageId, NodeId, ObservedState, OfferError,
    PathMeasure, Received, Receiver, Role, Sender, Time, Transmit,
};

use super::{AckWindow, MachineContext};

/// What a protocol does at one node. It has a [`MachineContext`] in every call: the time, its timers, what it records, the
/// group, and the messages for the application. A [`Player`] makes a machine of it.
///
/// Each method is that of the same name of [`Machine`], [`Sender`] or [`Receiver`]; what a part does not need it
/// does not have.
pub trait Part: std::fmt::Debug + Send + Sized {
    /// Its timers.
    type Timer: Ord + Copy + std::fmt::Debug + Send;

    /// Whether it offers, delivers, or does both: a sender, a receiver, or a peer.
    const ROLE: Role;

    /// Its time begins.
    fn start(&mut self, _context: &mut MachineContext<Self::Timer>) {}

    /// A datagram came in.
    fn handle_datagram(&mut self, context: &mut MachineContext<Self::Timer>, datagram: Received<'_>);

    /// One of its timers is due.
    fn on_timer(&mut self, _context: &mut MachineContext<Self::Timer>, _timer: Self::Timer) {}

    /// Something is due. A part that has blocks with clocks of their own asks these too.
    fn handle_timeout(&mut self, context: &mut MachineContext<Self::Timer>) {
        self.fire(context);
    }

    /// When blocks with clocks of their own have something to do.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The next datagram.
    fn poll_transmit(
        &mut self,
        _context: &mut MachineContext<Self::Timer>,
        _buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        None
    }

    /// The next message for the application.
    fn poll_delivery(&mut self, context: &mut MachineContext<Self::Timer>) -> Option<Delivery> {
        context.poll_delivery()
    }

    /// Which states it is in.
    fn report_states(&self, _context: &MachineContext<Self::Timer>, _tell: &mut dyn FnMut(ObservedState)) {}

    /// The window whose messages are acknowledged, of a sender that has one: it says what is awaited and when all is done.
    fn window(&self) -> Option<&AckWindow> {
        None
    }

    /// The same, to be offered messages, and told who is gone.
    fn window_mut(&mut self) -> Option<&mut AckWindow> {
        None
    }

    /// All have acknowledged the first messages of the window, perhaps.
    fn advance(&mut self, _context: &mut MachineContext<Self::Timer>) {}

    /// A message is offered. Who offers none has finished before it begins.
    fn offer(
        &mut self,
        context: &mut MachineContext<Self::Timer>,
        payload: Bytes,
    ) -> Result<MessageId, OfferError> {
        let number = self.window_mut().ok_or(OfferError::Finished)?.offer(payload)?;
        // With nobody left to acknowledge, the message is with all receivers at once.
        self.advance(context);
        Ok(MessageId(number))
    }

    /// A message is offered that some may have.
    fn withhold(
        &mut self,
        context: &mut MachineContext<Self::Timer>,
        payload: Bytes,
    ) -> Result<MessageId, OfferError> {
        self.offer(context, payload)
    }

    /// A message is here that is withheld.
    fn supply(&mut self, _context: &mut MachineContext<Self::Timer>, _message: MessageId, _payload: Bytes) {}

    /// No more messages will be offered.
    fn finish(&mut self, _context: &mut MachineContext<Self::Timer>) {
        if let Some(window) = self.window_mut() {
            window.finish();
        }
    }

    /// A member is gone.
    fn expel(&mut self, context: &mut MachineContext<Self::Timer>, member: NodeId) {
        if self.window_mut().is_some_and(|window| window.expel_node(member).is_some()) {
            self.advance(context);
        }
    }

    /// Whether the oldest message that has gone out is held because of this member.
    fn awaits(&self, _context: &MachineContext<Self::Timer>, member: NodeId) -> bool {
        self.window().is_some_and(|window| window.awaits(member))
    }

    /// How many messages this member has acknowledged, if it can tell.
    fn acknowledged(&self, _context: &MachineContext<Self::Timer>, _member: NodeId) -> Option<u64> {
        None
    }

    /// What it has measured of the path to this member, if it does.
    fn measured(&self, _context: &MachineContext<Self::Timer>, _member: NodeId) -> Option<PathMeasure> {
        None
    }

    /// How many questions in a row this member has left without an answer.
    fn unanswered(&self, _context: &MachineContext<Self::Timer>, _member: NodeId) -> u32 {
        0
    }

    /// Messages that it keeps, for its application or for others.
    fn held(&self) -> Option<u64> {
        self.window().map(|window| window.len() as u64)
    }

    /// Whether it delivers messages. One that helps others may, or may not.
    fn delivers(&self) -> bool {
        matches!(Self::ROLE, Role::Receiver | Role::Peer)
    }

    /// Who turns to whom from now on, if this is news.
    fn update_helpers(&mut self, _context: &mut MachineContext<Self::Timer>, _table: &Arc<HelperTable>) {}

    /// Whether everything that was offered is done with.
    fn is_finished(&self) -> bool {
        self.window().is_none_or(AckWindow::is_finished)
    }

    /// The machine that it is at the node of the context.
    fn play(self, build: &BuildContext) -> Player<Self> {
        Player::of(self, MachineContext::new(build))
    }

    /// Fires what is due of its timers, in their order.
    fn fire(&mut self, context: &mut MachineContext<Self::Timer>) {
        while let Some(timer) = context.timers.expire(context.now) {
            self.on_timer(context, timer);
        }
    }
}

/// The machine that a part is, where it acts.
#[derive(Debug)]
pub struct Player<P: Part> {
    part: P,
    context: MachineContext<P::Timer>,
}

impl<P: Part> Player<P> {
    /// This part on this context.
    pub fn of(part: P, context: MachineContext<P::Timer>) -> Self {
        Player { part, context }
    }

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
        if self.poll_timeout().is_some_and(|at| at <= now) {
            let (part, context) = self.at(now);
            part.handle_timeout(context);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
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
        self.part.report_states(&self.context, tell);
    }

    fn held(&self) -> Option<u64> {
        self.part.held()
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        matches!(P::ROLE, Role::Sender | Role::Peer).then_some(self as _)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
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

    fn is_finished(&self) -> bool {
        self.part.is_finished()
    }
}

impl<P: Part> Receiver for Player<P> {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.part.poll_delivery(&mut self.context)
    }

    fn supply(&mut self, now: Time, message: MessageId, payload: Bytes) {
        let (part, context) = self.at(now);
        part.supply(context, message, payload);
    }
}
