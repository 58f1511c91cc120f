//! Traits that a protocol implements, and the contract by which a host drives it.
//!
//! A machine does no I/O: it takes datagrams and timeouts in, and gives datagrams, notices and events out when it is
//! polled. The same machine therefore runs in the simulator and on sockets.
//!
//! # The driving contract
//!
//! 1. A host calls `start` once, before anything else. After this and any other `&mut` call on a machine it calls
//!    [`drain`](crate::drain): transmits until `None` or the port is busy, then notices and events, then
//!    `poll_timeout`. When a busy port has room again, the host drains the machine again.
//! 2. `now` never goes back.
//! 3. `handle_timeout` early is a no-op; late, it fires everything due, in (deadline, key) order.
//! 4. After `handle_timeout(now)` and a drain, `poll_timeout()` is `None` or later than `now`, whether or not the
//!    port was busy. The drain asserts this rule, in the simulator and on sockets.
//! 5. A machine decides in `poll_transmit` which datagram to send and never queues bytes: a packet that has been
//!    suppressed in the meantime must not be sent.
//! 6. No input bytes may panic, block, or grow memory past a bound in the configuration.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::{
    Event, Events, HelperTable, MessageId, NodeId, Notice, ObservedState, Received, Time, Transmit, Verdict,
};

/// Protocol role at one node: a state machine that does no I/O.
///
/// See the [module documentation](self) for the contract between a machine and its host.
pub trait Machine: Debug + Send {
    /// Returns the queue of events and notices if the machine keeps both in one [`Events`]. The default methods below
    /// and [`drain`](crate::drain) then take them from it; the default is `None`.
    fn events(&mut self) -> Option<&mut Events> {
        None
    }

    /// Marks the beginning of the machine's time; called once, before all other calls. A machine sends its first
    /// packet or arms a periodic timer here. Drain afterwards.
    fn start(&mut self, _now: Time) {}

    /// Handles a received datagram. The machine records malformed or foreign bytes as [`Event::Dropped`] and
    /// otherwise ignores them. Drain afterwards.
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>);

    /// Fires every timer due at or before `now`. The default does nothing, for machines without timers. Drain
    /// afterwards.
    fn handle_timeout(&mut self, _now: Time) {}

    /// Returns the time of the next call of `handle_timeout`; `None` if no timer is armed.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Appends the bytes of the next datagram to the empty `buf` and returns its destination; `None` if there is
    /// nothing to send. The host calls it until `None` or until its port is busy.
    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit>;

    /// Returns the next event for the trace; the host calls it until `None`. Events are for recording only: a host
    /// that records nothing may drop them, and no decision may depend on them.
    fn poll_event(&mut self) -> Option<Event> {
        self.events()?.pop()
    }

    /// Returns the next notice, on which the host has to act; the host calls it until `None`.
    fn poll_notice(&mut self) -> Option<Notice> {
        self.events()?.pop_notice()
    }

    /// Passes each state that the machine is in to `tell`, from the [states](crate::StudyProperties::states) that its
    /// entry declares. Suites and debuggers read it; no decision depends on it.
    fn report_states(&self, _now: Time, _tell: &mut dyn FnMut(ObservedState)) {}

    /// Number of messages that the machine keeps now, for its application or for others; of a relay, number of entries
    /// of its state. `None` if it does not report that. Measurements read it; no decision depends on it.
    fn held(&self) -> Option<u64> {
        None
    }

    /// Replaces the helper table after a helper was lost. A machine ignores a table that is not newer than its own,
    /// and a machine without helpers has nothing to do. Drain afterwards.
    fn update_helpers(&mut self, _now: Time, _table: &Arc<HelperTable>) {}

    /// Returns this machine as a source of messages; `None`, always, if it is none.
    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        None
    }

    /// Returns this machine as a destination of messages; `None` if it is none.
    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        None
    }

    /// Returns this machine as an element on the path between nodes; `None` if it is none.
    fn as_relay(&mut self) -> Option<&mut dyn Relay> {
        None
    }
}

/// Machine that takes messages from an application and delivers them to the group.
pub trait Sender: Machine {
    /// Takes the next message and returns its number.
    ///
    /// Fails with [`OfferError::Full`] until earlier messages have completed, with `TooLarge` for a payload beyond
    /// the protocol's limit, and with `Finished` after [`finish`](Self::finish). Drain afterwards.
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError>;

    /// Takes the next message as if its first transmission had been lost. Members may already have it from elsewhere
    /// ([`Receiver::supply`]), so the sender transmits only what some member is missing.
    ///
    /// A protocol without [`overheard_with`](crate::SessionProperties::overheard_with) sends the message like any
    /// other.
    /// Errors as for [`offer`](Self::offer).
    fn withhold(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        self.offer(now, payload)
    }

    /// Ends the stream: no more messages will be offered. A peer goes on serving the others. Drain afterwards.
    fn finish(&mut self, now: Time);

    /// Removes a member from the session, so that no message waits for it. A protocol without a member list has
    /// nothing to do. Drain afterwards.
    fn expel(&mut self, _now: Time, _member: NodeId) {}

    /// Returns true if the sender waits for this member, perhaps among others.
    ///
    /// Reasons are three: the oldest transmitted message lacks the member's acknowledgment, the total order
    /// waits for the member, or the member has no room for the next message. A protocol that [does not
    /// wait](crate::DeliveryProperties::waits) always returns false.
    fn awaits(&self, _member: NodeId) -> bool {
        false
    }

    /// Number of messages that this member has acknowledged, as a measure of its progress before messages complete.
    /// `None` if the protocol knows no more than completions tell.
    fn acknowledged(&self, _member: NodeId) -> Option<u64> {
        None
    }

    /// Measurement of the path to this member; `None` if the protocol measures none or has no answer of the member
    /// yet. No decision depends on it.
    fn measured(&self, _member: NodeId) -> Option<PathMeasure> {
        None
    }

    /// Number of consecutive unanswered polls of this member; 0 after an answer and for protocols that do not poll
    /// single members.
    fn unanswered(&self, _member: NodeId) -> u32 {
        0
    }

    /// Total time in which offered messages could not be sent because members had not confirmed enough. `None` if the
    /// protocol does not measure it.
    fn held_up(&self, _now: Time) -> Option<Duration> {
        None
    }

    /// Lets the fastest member alone limit what is sent, without repairs meanwhile, or lets all members limit it again.
    /// Does nothing in protocols that do not [measure](Self::held_up) how long they are held up. Drain afterwards.
    fn follow_fastest(&mut self, _now: Time, _on: bool) {}

    /// Returns true when, after `finish`, everything offered has completed: each message is acknowledged or has
    /// failed.
    ///
    /// The sender of an [unconfirmed](crate::DeliveryProperties::confirmed) protocol is finished once everything has
    /// been transmitted; it still answers requests.
    fn is_finished(&self) -> bool;
}

/// Measurement of the path from a sender to one member. The numbers of arrived packets are the member's own report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathMeasure {
    /// Number of data packets sent up to the poll that the member answered last.
    pub sent: u64,
    /// Number of data packets that had reached the member when it gave that answer.
    pub arrived: u64,
    /// Recent loss rate of data packets, from 0 to 1.
    pub loss: f64,
    /// Smallest recent round-trip time between a poll and its answer.
    pub round_trip: Option<Duration>,
    /// Congestion window: data packets that may be in flight to the member.
    pub window: u64,
    /// True if the member has room for the next message.
    pub has_room: bool,
    /// Recent queueing delay: the round-trip time in excess of the smallest.
    pub queued: Duration,
    /// Total time in which nothing could leave because the path was full: as much was in flight as the congestion
    /// window allows.
    pub blocked: Duration,
}

impl PathMeasure {
    /// Share of all data packets that were lost on the way to the member, from 0 to 1; 0 before the first packet.
    pub fn total_loss(&self) -> f64 {
        match self.sent {
            0 => 0.0,
            sent => (1.0 - self.arrived as f64 / sent as f64).max(0.0),
        }
    }
}

/// Machine that delivers messages to an application. A peer is a sender too; the protocol's [`Order`](crate::Order)
/// decides whether it delivers its own messages.
pub trait Receiver: Machine {
    /// Returns the next message for the application, if any. The application pulls messages, so that an experiment
    /// can model a slow one.
    fn poll_delivery(&mut self) -> Option<Delivery>;

    /// Returns true if every message that is known to exist was received or is finally lost. A protocol that never
    /// knows returns false.
    fn is_complete(&self) -> bool {
        false
    }

    /// Supplies a [withheld](Sender::withhold) message that the host already has. The machine delivers it in its
    /// turn, as if it had been received. Protocols without withheld messages ignore it. Drain afterwards.
    fn supply(&mut self, _now: Time, _message: MessageId, _payload: Bytes) {}
}

/// Machine on the path between nodes, which sees datagrams addressed to others.
pub trait Relay: Machine {
    /// Inspects a datagram in transit and returns its fate.
    fn handle_transit(&mut self, now: Time, datagram: Received<'_>) -> Verdict;
}

/// Application at a node. The host polls it after every call of the machine and, if the machine is a sender, also
/// after every drain, which may have made room.
///
/// The trait is generic over the machine, so that an application made for one machine can use all of it.
pub trait Application<M: Machine + ?Sized = dyn Machine>: Send {
    /// Offers payloads and takes deliveries until the machine accepts or has no more. Returns true if it called the
    /// machine, which the host then drains.
    fn poll(&mut self, now: Time, machine: &mut M) -> bool;

    /// Returns the time at which the application wants to be polled even if nothing else happens.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Returns the next accepted message and the time since which it was ready to be offered. [`poll_application`]
    /// asks for it after a poll that called the machine.
    fn poll_offered(&mut self) -> Option<(MessageId, Time)> {
        None
    }
}

/// Polls an application, as every host does, and records its offers before the machine's own events. Returns true if
/// the application called the machine.
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

/// Runs two applications at one node, such as the source and the sink of a peer; the first one is polled first.
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

/// Received message on its way to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Node that offered the message.
    pub source: NodeId,
    /// Number of the message at its source, as far as the protocol knows it.
    pub message: MessageId,
    /// Payload as offered.
    pub payload: Bytes,
}

/// Reason why a machine did not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OfferError {
    /// Send buffer is full: offer again after a message has completed.
    #[error("the send buffer is full")]
    Full,
    /// `finish` was called before.
    #[error("the sender has finished")]
    Finished,
    /// Payload is larger than the protocol can carry in one message.
    #[error("the payload of {len} bytes is larger than {max}")]
    TooLarge {
        /// Offered bytes.
        len: usize,
        /// Maximum bytes of a message.
        max: usize,
    },
}
