//! Exchange between a receiver's session and the machine of its protocol.

use carillon_core::{
    Bytes, Delivery, Dest, Event, Machine, MessageId, Notice, OfferError, PortId, Received, Receiver, Scope,
    Sender, Time,
};

use super::hosted::{MAX_PENDING_EVENTS, Offering};
use super::peers::Peers;
use super::{ReceiverPhase, ReceiverSession};
use crate::LOCAL_NODE;

impl ReceiverSession {
    /// Passes a datagram to the machine.
    pub(super) fn feed(&mut self, now: Time, datagram: Received<'_>) -> bool {
        // Packets of peers without messages earn no budget. Otherwise answers would earn budget for further answers
        // without end.
        let gives = |peers: &Peers| peers.gives(datagram.source);
        if self.assembling.peers.as_deref().is_none_or(gives) {
            self.hosted.budget.earn(datagram.bytes.len());
        }
        self.with_inner(|inner| inner.handle_datagram(now, datagram)).is_some()
    }

    /// Passes the early datagrams to the machine, until enough events are pending that the host should take them
    /// first.
    pub(super) fn feed_early(&mut self, now: Time) {
        // The host takes events between two calls only, so a long backlog is passed on in portions.
        while self.events.waiting() < MAX_PENDING_EVENTS {
            let Some((source, unicast, bytes)) = self.hosted.early.pop() else { return };
            let destination = if unicast { Dest::Node(LOCAL_NODE) } else { Dest::group(self.config.group) };
            let (ingress, scope) = (PortId(0), Scope::GLOBAL);
            self.feed(now, Received { source, destination: &destination, ingress, scope, bytes: &bytes });
        }
        // The timer lets the host take the events before the next portion.
        if !self.hosted.early.is_empty() {
            self.hosted.go_on_soon(now);
        }
    }

    /// Calls the protocol's machine, if it exists, and processes its notices and events.
    pub(super) fn with_inner<T>(&mut self, call: impl FnOnce(&mut dyn Machine) -> T) -> Option<T> {
        let inner = self.hosted.machine.as_deref_mut()?;
        let result = call(inner);
        while let Some(notice) = inner.poll_notice() {
            let member = match notice {
                Notice::MemberLost { member } => member,
                // The application that offered the message may wait for this notice.
                Notice::Completed { .. } => {
                    self.events.notify(notice);
                    continue;
                }
                Notice::LossFinal { .. } => {
                    self.invited.iter_mut().for_each(|invited| invited.has_lost = true);
                    continue;
                }
                // The other notices matter to the session of a sender.
                _ => continue,
            };
            // Only if the member is a known peer. In a session with helpers, the sender announces lost members to
            // all.
            let peers = self.assembling.peers.as_mut().filter(|peers| peers.are_peers());
            if peers.is_none_or(|peers| peers.lose(member, "stopped acknowledging")) {
                self.events.push(Event::MemberLost { member });
            }
        }
        // Lost members were recorded above, once.
        let others = |event: &Event| !matches!(event, Event::MemberLost { .. });
        std::iter::from_fn(|| inner.poll_event()).filter(others).for_each(|event| self.events.push(event));
        // Keep the result, since `is_finished` may be called when the machine is gone.
        if self.hosted.offering == Offering::Finishing
            && inner.as_sender().is_none_or(|sender| sender.is_finished())
        {
            self.hosted.offering = Offering::Done;
        }
        Some(result)
    }
}

impl Sender for ReceiverSession {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let max = self.invited.as_ref().map_or(usize::MAX, |invited| invited.max_payload as usize);
        let over = matches!(self.phase, ReceiverPhase::Finished | ReceiverPhase::Failed(_));
        if self.hosted.offering != Offering::Open
            || over
            || !self.config.part.offers()
            || self.reporting.outcome().is_some()
        {
            return Err(OfferError::Finished);
        }
        if payload.len() > max {
            return Err(OfferError::TooLarge { len: payload.len(), max });
        }
        let bytes = payload.len();
        let offered =
            self.with_inner(|inner| inner.as_sender().ok_or(OfferError::Finished)?.offer(now, payload));
        // No machine exists before the session runs, so the application has to offer the message again.
        let message = offered.unwrap_or(Err(OfferError::Full))?;
        self.hosted.budget.offer(bytes);
        Ok(message)
    }

    fn finish(&mut self, now: Time) {
        if self.hosted.offering == Offering::Open {
            self.hosted.offering = Offering::Finishing;
        }
        // A machine that does not exist yet is finished by `start`.
        self.with_inner(|inner| {
            if let Some(sender) = inner.as_sender() {
                sender.finish(now);
            }
        });
    }

    /// Returns true if all messages offered are complete.
    fn is_finished(&self) -> bool {
        self.hosted.offering == Offering::Done
    }
}

impl Receiver for ReceiverSession {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let delivery = self.with_inner(|inner| inner.as_receiver()?.poll_delivery()).flatten()?;
        self.hosted.delivered = true;
        Some(delivery)
    }

    fn supply(&mut self, now: Time, message: MessageId, payload: Bytes) {
        self.with_inner(|inner| {
            if let Some(receiver) = inner.as_receiver() {
                receiver.supply(now, message, payload);
            }
        });
    }
}
