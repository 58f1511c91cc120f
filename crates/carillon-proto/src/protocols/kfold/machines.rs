//! Both machines.

use std::collections::VecDeque;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, Delivery, Dest, DropReason, Duration, Event, Events, GroupId,
    InState, Machine, MessageId, NodeId, OfferError, Received, Receiver, Sender, Time, Transmit, expand,
};
use carillon_wire::kfold::{HEADER_LEN, Packet};

/// Sends each message so many times.
#[derive(Debug)]
pub struct KfoldSender {
    association: AssociationId,
    group: GroupId,
    copies: u64,
    interval: Duration,
    /// The message that is being sent, and how often it has been.
    current: Option<(Bytes, u64)>,
    number: u64,
    next_at: Time,
    /// The next packet is due.
    due: bool,
    finishing: bool,
    events: Events,
}

impl KfoldSender {
    /// The sender of a group.
    pub fn new(context: &BuildContext, settings: &Config) -> Self {
        KfoldSender {
            association: context.association,
            group: context.group,
            copies: settings.count("copies"),
            interval: settings.span("interval").at(context.bit_rate),
            current: None,
            number: 0,
            next_at: Time::ZERO,
            due: false,
            finishing: false,
            events: Events::default(),
        }
    }
}

impl Machine for KfoldSender {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn tell_states(&self, _now: Time, tell: &mut dyn FnMut(InState)) {
        let (state, turn) = match self.current {
            Some((_, sent)) => ("Sending", sent),
            None => ("Idle", 0),
        };
        tell(InState { of: "sender", about: 0, state, turn });
    }

    fn handle_datagram(&mut self, _now: Time, _datagram: Received<'_>) {
        self.events.dropped(DropReason::Foreign);
    }

    // A packet that is due waits for room, not for a time.
    fn poll_timeout(&self) -> Option<Time> {
        self.current.as_ref().filter(|_| !self.due).map(|_| self.next_at)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.due |= self.poll_timeout().is_some_and(|at| at <= now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (payload, sent) = self.current.as_mut().filter(|_| self.due)?;
        Packet { number: self.number as u32, payload }.emit(self.association, buf);
        let (message, repair) = (MessageId(self.number), *sent > 0);
        *sent += 1;
        if *sent == self.copies {
            self.current = None;
            self.number += 1;
        }
        self.next_at = now + self.interval;
        self.due = self.interval.is_zero();
        let transmit = Transmit::now(Dest::group(self.group));
        Some(self.events.data_sent(transmit, message, buf.len(), repair))
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }
}

impl Sender for KfoldSender {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finishing {
            return Err(OfferError::Finished);
        }
        if self.current.is_some() {
            return Err(OfferError::Full);
        }
        self.current = Some((payload, 0));
        self.next_at = self.next_at.max(now);
        self.due = self.next_at == now;
        Ok(MessageId(self.number))
    }

    fn finish(&mut self, _now: Time) {
        self.finishing = true;
    }

    fn is_finished(&self) -> bool {
        self.finishing && self.current.is_none()
    }
}

/// Delivers what comes and is newer than what came.
#[derive(Debug)]
pub struct KfoldReceiver {
    association: AssociationId,
    sender: NodeId,
    next: u64,
    deliveries: VecDeque<Delivery>,
    /// Messages kept for the application, at most: more are as good as lost.
    room: u64,
    events: Events,
}

impl KfoldReceiver {
    /// A receiver of a group.
    pub fn new(context: &BuildContext) -> Self {
        KfoldReceiver {
            association: context.association,
            sender: context.sender,
            next: 0,
            deliveries: VecDeque::new(),
            room: context.most_messages(MOST_KEPT),
            events: Events::default(),
        }
    }
}

impl Machine for KfoldReceiver {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        let Some(packet) = self.events.of_session(Packet::parse(datagram.bytes), self.association) else {
            return;
        };
        let number = expand(packet.number.into(), 1 << 32, self.next);
        let message = MessageId(number);
        if datagram.source != self.sender {
            self.events.dropped(DropReason::NotAMember);
        } else if number < self.next {
            self.events.dropped(DropReason::Duplicate);
        } else if number - self.next > FURTHEST {
            self.events.dropped(DropReason::OutOfWindow);
        } else if self.deliveries.len() as u64 >= self.room {
            self.events.dropped(DropReason::BufferFull);
        } else {
            self.events.received("data", message);
            for message in (self.next..number).map(MessageId) {
                self.events.loss_found(self.sender, message);
                self.events.given_up(self.sender, message);
            }
            self.next = number + 1;
            self.events.push(Event::Delivered { source: self.sender, message });
            let payload = datagram.bytes.slice(HEADER_LEN..);
            self.deliveries.push_back(Delivery { source: self.sender, message, payload });
        }
    }

    fn poll_transmit(&mut self, _now: Time, _buf: &mut Vec<u8>) -> Option<Transmit> {
        None
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for KfoldReceiver {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }
}

const MOST_KEPT: u64 = 1024;
/// A number further ahead is not believed.
const FURTHEST: u64 = 1024;
