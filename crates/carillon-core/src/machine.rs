//! The traits a protocol implements and the contract by which it is driven.
//!
//! # The driving contract
//!
//! 1. A host calls `start` once, before anything else. After this and any other `&mut` call on a machine it calls
//!    [`drain`](crate::drain): transmits until `None` or the port is busy, then notices and events, then
//!    `poll_timeout`. A port that was busy has the machine drained once it has room.
//! 2. `now` never goes back.
//! 3. `handle_timeout` early is a no-op; late, it fires everything due, in (deadline, key) order.
//! 4. After `handle_timeout(now)` and a drain, `poll_timeout()` is `None` or later than `now`, whether or
//!    not the port was busy; the drain asserts it, in the simulator and on sockets.
//! 5. What to send is decided in `poll_transmit`, never queued as bytes: what has been suppressed
//!    in the meantime must not be sent.
//! 6. No input bytes may panic, block, or grow memory past a bound in the configuration.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::{
    Event, Events, HelperTable, MessageId, NodeId, Notice, ObservedState, Received, Time, Transmit, Verdict,
};

/// One protocol role at one node: a state machine that does no I/O.
///
/// See the [module documentation](self) for the contract between a machine and its host.
pub trait Machine: Debug + Send {
    /// What it keeps its events and notices in, if that is one place: then it need not hand them out itself.
    fn events(&mut self) -> Option<&mut Events> {
        None
    }

    /// Its time begins: the first call, made once. What it does by the clock from the beginning (a first packet, a
    /// timer that always runs) it does from here. Drain afterwards.
    fn start(&mut self, _now: Time) {}

    /// Takes in a datagram. Malformed or foreign bytes are counted as a
    /// [`Event::Dropped`] and otherwise ignored. Drain afterwards.
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>);

    /// Fires every timer due at or before `now`. Drain afterwards. Nothing to do for a machine without timers.
    fn handle_timeout(&mut self, _now: Time) {}

    /// When `handle_timeout` must next be called; `None` if no timer is armed.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The next datagram to send, if any: appends its bytes to the empty `buf`. Called until
    /// `None`.
    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit>;

    /// The next thing worth recording, if any. Called until `None`. For recording only: nobody acts upon it,
    /// and a host that records nothing may drop it.
    fn poll_event(&mut self) -> Option<Event> {
        self.events()?.pop()
    }

    /// The next thing that the host has to know, if any. Called until `None`.
    fn poll_notice(&mut self) -> Option<Notice> {
        self.events()?.pop_notice()
    }

    /// Tells which of the [states](crate::ProtocolEntry::states) that its entry declares it is in now. For suites that watch
    /// it and for debugging: nobody acts upon it.
    fn report_states(&self, _now: Time, _tell: &mut dyn FnMut(ObservedState)) {}

    /// Messages that it keeps now, for its application or for others, if it tells. For measurements: nobody acts upon it.
    fn held(&self) -> Option<u64> {
        None
    }

    /// A helper is lost, and the nodes that turned to it turn to others. A table that is not newer than the last one
    /// is not taken over. A machine of a protocol without helpers has nothing to do. Drain afterwards.
    fn update_helpers(&mut self, _now: Time, _table: &Arc<HelperTable>) {}

    /// This machine as a source of messages, if it is one: for as long as it lives, or never.
    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        None
    }

    /// This machine as a destination of messages, if it is one.
    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        None
    }

    /// This machine as an element on the path between nodes, if it is one.
    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        None
    }
}

/// A machine that takes messages from an application and delivers them to the group.
pub trait Sender: Machine {
    /// Takes the next message, or says why not: [`OfferError::Full`] until earlier messages have
    /// completed. Drain afterwards.
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError>;

    /// Takes the next message as if it had gone out and were lost: some members have it, as
    /// [`Receiver::supply`] tells, and only what somebody lacks goes out. A protocol that does not
    /// withhold ([`overheard_with`](crate::ProtocolEntry::overheard_with)) sends it.
    fn withhold(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        self.offer(now, payload)
    }

    /// No more messages will be offered; a peer goes on serving the others. Drain afterwards.
    fn finish(&mut self, now: Time);

    /// A member is gone: nothing waits for it any more. A protocol without a member list has
    /// nothing to do. Drain afterwards.
    fn expel(&mut self, _now: Time, _member: NodeId) {}

    /// Whether the oldest message that has gone out is held because this member, perhaps among others,
    /// has not acknowledged it, or because the order waits for it; or the next one is, for which it has no room. A protocol that
    /// [does not wait](crate::ProtocolEntry::waits) waits for nobody.
    fn awaits(&self, _member: NodeId) -> bool {
        false
    }

    /// How many messages this member has acknowledged, if the protocol can tell before they are
    /// completed: a sign that it gets on. `None` if completions say it all.
    fn acknowledged(&self, _member: NodeId) -> Option<u64> {
        None
    }

    /// What it has measured of the path to this member, if it measures paths and has an answer of it. For
    /// measurements: nobody acts upon it.
    fn measured(&self, _member: NodeId) -> Option<PathMeasure> {
        None
    }

    /// How many questions in a row this member has left without an answer, if the protocol asks its members one by one: 0 once it has answered.
    fn unanswered(&self, _member: NodeId) -> u32 {
        0
    }

    /// Whether everything offered has been completed (acknowledged or given up) after `finish`. A
    /// sender that is [not told](crate::ProtocolEntry::confirmed) what has arrived is finished once
    /// everything has gone out; it still answers requests.
    fn is_finished(&self) -> bool;
}

/// What a sender has measured of the path to one member. What arrived there is by that member's own word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathMeasure {
    /// Data packets sent when the member was asked what it answered last.
    pub sent: u64,
    /// Of these and those since, how many had reached it when it answered.
    pub arrived: u64,
    /// Which part of the data packets is lost lately, from 0 to 1.
    pub loss: f64,
    /// The least time between a question and its answer lately.
    pub round_trip: Option<Duration>,
    /// Data packets that may be under way to it.
    pub window: u64,
    /// Whether it has room for the next message.
    pub has_room: bool,
    /// Beyond the least round trip, how long questions and answers take lately: what they wait in queues.
    pub queued: Duration,
    /// How long nothing could leave, in all, since as much was under way to it as its path carries.
    pub blocked: Duration,
}

impl PathMeasure {
    /// Which part of all data packets was lost on the way to it, from 0 to 1.
    pub fn total_loss(&self) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => (1.0 - self.arrived as f64 / sent as f64).max(0.0),
        }
    }
}

/// A machine that delivers messages to an application. A peer is a sender too; whether it delivers
/// its own messages is a matter of the protocol's [`Order`](crate::Order).
pub trait Receiver: Machine {
    /// The next message for the application, if any. Pulled, so that a slow application is
    /// something an experiment can vary.
    fn poll_delivery(&mut self) -> Option<Delivery>;

    /// A message that is [withheld](Sender::withhold) is here already. It is delivered in its turn, as if it had come. Of no use to a
    /// protocol that does not withhold. Drain afterwards.
    fn supply(&mut self, _now: Time, _message: MessageId, _payload: Bytes) {}
}

/// A machine on the path between nodes: it sees datagrams addressed to others.
pub trait Relay: Machine {
    /// Looks at a datagram in transit and says what becomes of it.
    fn handle_transit(&mut self, now: Time, datagram: Received<'_>) -> Verdict;
}

/// What an application does at a node; polled by the host after every call of its machine, and if it offers also after
/// every drain, which may have made room.
///
/// Generic over the machine, so that an application made for one machine can use all of it.
pub trait Application<M: Machine + ?Sized = dyn Machine>: Send {
    /// Offers payloads and takes deliveries, all that it can. Returns whether it called the machine, which is then drained.
    fn poll(&mut self, now: Time, machine: &mut M) -> bool;

    /// When the application wants to be polled even if nothing else happens.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The next message that it has offered and that was taken, and since when it was there to be offered. Asked
    /// for after a poll that called the machine, by [`poll_application`].
    fn poll_offered(&mut self) -> Option<(MessageId, Time)> {
        None
    }
}

/// Polls an application, as every host does: what it offered is recorded before what the machine makes of it.
pub fn poll_application<M, A>(
    application: &mut A,
    now: Time,
    machine: &mut M,
    mut record: impl FnMut(Event),
) -> bool
where
    M: Machine + ?Sized,
    A: Application<M> + ?Sized,
{
    let called = application.poll(now, machine);
    while called && let Some((message, since)) = application.poll_offered() {
        record(Event::Offered { message, since });
    }
    called
}

/// Two applications of one node, the first of which is polled first: at a peer, one that offers and
/// one that takes.
impl<M: Machine + ?Sized, A: Application<M>, B: Application<M>> Application<M> for (A, B) {
    fn poll(&mut self, now: Time, machine: &mut M) -> bool {
        let first = self.0.poll(now, machine);
        self.1.poll(now, machine) | first
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.poll_timeout().into_iter().chain(self.1.poll_timeout()).min()
    }

    fn poll_offered(&mut self) -> Option<(MessageId, Time)> {
        self.0.poll_offered().or_else(|| self.1.poll_offered())
    }
}

impl<M: Machine + ?Sized, A: Application<M> + ?Sized> Application<M> for Box<A> {
    fn poll(&mut self, now: Time, machine: &mut M) -> bool {
        (**self).poll(now, machine)
    }

    fn poll_timeout(&self) -> Option<Time> {
        (**self).poll_timeout()
    }

    fn poll_offered(&mut self) -> Option<(MessageId, Time)> {
        (**self).poll_offered()
    }
}

/// A message that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The node whose message it is.
    pub source: NodeId,
    /// Which of its messages, as far as the protocol can tell.
    pub message: MessageId,
    /// The payload as offered.
    pub payload: Bytes,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OfferError {
    /// The send buffer is full: offer again after a message has completed.
    #[error("the send buffer is full")]
    Full,
    /// `finish` was called before.
    #[error("the sender has finished")]
    Finished,
    /// The payload is larger than this protocol can carry in one message.
    #[error("the payload of {len} bytes is larger than {max}")]
    TooLarge {
        /// Bytes offered.
        len: usize,
        /// Bytes possible.
        max: usize,
    },
}
