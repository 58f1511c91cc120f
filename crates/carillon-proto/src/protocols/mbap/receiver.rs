//! Receiving side of block acknowledgment.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{BuildContext, Config, DropReason, Event, Received, Role, Time, Transmit};
use carillon_wire::mbap::Packet;

use crate::blocks::{AckWait, MachineContext, Part, Player, Reception};

/// Receiver that accepts messages in sequence only, and acknowledges after n messages or a timeout. With selective
/// repair it keeps early messages and requests each missing one.
#[derive(Debug)]
pub struct MbapReceiver {
    window: u64,
    /// Maximum number of messages that wait for the application.
    room: u64,
    /// Number of messages accepted, and the number of the next one.
    expected: u64,
    /// Messages accepted since the last acknowledgment.
    unacknowledged: u64,
    answer: Option<Answer>,
    /// Distance from the expected message to the one that revealed the gap; later messages reveal nothing new. Used
    /// with NAKs.
    gap: Option<u64>,
    negative: bool,
    /// Early messages, with selective repair.
    early: Option<Box<EarlyMessages>>,
    /// Expiry of the acknowledgment delay timer, the only timer.
    ack_timer: Option<Time>,
    ack_timeout: Duration,
    stop_after_full_window: bool,
    ack_wait: AckWait,
}

/// Messages beyond a gap.
#[derive(Debug, Default)]
struct EarlyMessages {
    messages: Reception,
    /// Missing messages to request.
    asks: BTreeSet<u64>,
    /// First number beyond the last message received.
    seen: u64,
}

/// Answer that is due to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Acknowledgment of the received messages.
    Ack,
    /// Request for missing messages.
    Nak,
}

impl MbapReceiver {
    /// Creates a receiver of the session.
    pub fn new(build: &BuildContext, settings: &Config) -> Player<Self> {
        MbapReceiver {
            window: settings.count("window"),
            room: build.max_messages(settings.count("window")),
            expected: 0,
            unacknowledged: 0,
            answer: None,
            gap: None,
            negative: settings.choice("feedback") == "nak",
            early: (settings.choice("repair") == "selective").then(Box::default),
            ack_timer: None,
            ack_timeout: settings.span("ack_timeout").at(build.bit_rate),
            stop_after_full_window: settings.choice("ack_timer") == "until-full-window",
            ack_wait: AckWait::set_by_method(build, settings),
        }
        .play(build)
    }

    /// Handles a message. Section 2.6: only the next message in sequence is accepted; all others are discarded
    /// without acknowledgment.
    fn on_data(
        &mut self,
        context: &mut MachineContext,
        sequence: u16,
        len: usize,
        poll: bool,
        datagram: Received<'_>,
    ) {
        if u64::from(sequence) >= 2 * self.window {
            return context.events.dropped(DropReason::Malformed);
        }
        if self.early.is_some() {
            return self.on_data_in_any_order(context, sequence, len, poll, datagram);
        }
        let ahead = self.ahead(sequence);
        if ahead > 0 {
            if self.negative {
                self.look_for_gap(context, ahead, poll);
            } else if self.ack_timer.is_none() && self.expected > 0 {
                // The sender has not received the acknowledgment of the full window. The timer has stopped, so
                // restart it to repeat the acknowledgment.
                self.ack_timer = Some(context.now + self.ack_timeout);
            }
            return context.events.dropped(DropReason::OutOfOrder);
        }
        if context.waiting() as u64 >= self.room {
            // Without room the message counts as lost, and the sender repeats it.
            return context.events.dropped(DropReason::BufferFull);
        }
        context.events.received("data", self.expected);
        self.gap = None;
        self.deliver(context, datagram.bytes.slice(datagram.bytes.len() - len..));
        // With NAKs the sender polls instead.
        self.ack_timer = (!self.negative).then(|| context.now + self.ack_timeout);
        if self.unacknowledged >= self.window || poll {
            self.answer = Some(Answer::Ack);
            if self.stop_after_full_window {
                self.ack_timer = None;
            }
        }
    }

    /// Delivers the next message in sequence.
    #[inline]
    fn deliver(&mut self, context: &mut MachineContext, payload: Bytes) {
        context.deliver_sent(self.expected, payload);
        self.expected += 1;
        self.unacknowledged += 1;
    }

    /// Handles a message with selective repair: stores any message of the window. Missing messages are requested
    /// once, and again at each poll.
    fn on_data_in_any_order(
        &mut self,
        context: &mut MachineContext,
        sequence: u16,
        len: usize,
        poll: bool,
        datagram: Received<'_>,
    ) {
        let Some(mut early) = self.early.take() else { return };
        let ahead = self.ahead(sequence);
        let message = self.expected + ahead;
        let held = context.waiting() as u64 + early.messages.len() as u64;
        if ahead >= self.window || early.messages.has(message) {
            context.events.dropped(DropReason::Duplicate);
        } else if held + u64::from(ahead > 0) >= self.room {
            // One place is reserved for the next message in sequence, without which nothing can be delivered.
            context.events.dropped(DropReason::BufferFull);
        } else {
            context.events.received("data", message);
            early.asks.remove(&message);
            for missing in early.seen.max(self.expected)..message {
                early.asks.insert(missing);
                context.events.loss_found(context.sender, missing);
            }
            early.seen = early.seen.max(message + 1);
            early.messages.insert(message, datagram.bytes.slice(datagram.bytes.len() - len..));
            while let Some((_, payload)) = early.messages.pop() {
                self.deliver(context, payload);
            }
            if self.unacknowledged >= (self.window / ACKS_PER_WINDOW).max(1) {
                self.answer = Some(Answer::Ack);
            }
        }
        if poll {
            self.answer = Some(Answer::Ack);
            early.asks = early.messages.missing(self.expected..early.seen).collect();
        }
        self.early = Some(early);
    }

    /// Requests missing messages, once each time the sender passes the gap and at each poll. Used with NAKs.
    fn look_for_gap(&mut self, context: &mut MachineContext, ahead: u64, poll: bool) {
        if ahead >= self.window {
            // The message is already here.
            self.answer = self.answer.or(poll.then_some(Answer::Ack));
        } else if poll || self.gap.is_none_or(|gap| ahead <= gap) {
            if self.gap.is_none() {
                context.events.loss_found(context.sender, self.expected);
            }
            self.gap = Some(ahead);
            self.answer = Some(Answer::Nak);
        }
    }

    /// Distance from the expected message to the next one with this sequence number.
    fn ahead(&self, sequence: u16) -> u64 {
        let modulus = 2 * self.window;
        (u64::from(sequence) + modulus - self.expected % modulus) % modulus
    }
}

impl Part for MbapReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.early.as_ref().map_or(0, |early| early.messages.len() as u64))
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let Some(packet) = context.of_sender(datagram.source, Packet::parse(datagram.bytes)) else { return };
        let (sequence, len, poll) = match packet {
            Packet::Ack { .. } | Packet::Nak { .. } => return context.events.dropped(DropReason::Foreign),
            Packet::Data { sequence, payload } => (sequence, payload.len(), false),
            Packet::Timed { sequence, ack_wait, payload } => {
                self.ack_wait.set(ack_wait);
                (sequence, payload.len(), false)
            }
            Packet::Poll { sequence, payload } => (sequence, payload.len(), true),
        };
        self.on_data(context, sequence, len, poll, datagram);
    }

    fn handle_timeout(&mut self, context: &mut MachineContext) {
        context.events.push(Event::TimerFired { timer: "acknowledgment" });
        self.answer = Some(Answer::Ack);
        self.ack_timer = Some(context.now + self.ack_timeout);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.ack_timer
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        let modulus = 2 * self.window;
        let number = |message: u64| (message % modulus) as u16;
        let (name, about, packet) = match self.answer.take() {
            Some(Answer::Ack) if self.expected > 0 => {
                // The source does not say whether a timed acknowledgment resets the counter. It covers all counted
                // messages, so it does.
                self.unacknowledged = 0;
                let last = self.expected - 1;
                ("ack", last, Packet::Ack { sequence: number(last) })
            }
            // A NAK leaves the counter, so that the receivers' windows stay in step.
            Some(Answer::Nak) => ("nak", self.expected, Packet::Nak { sequence: number(self.expected) }),
            // Nothing is due, or no message has arrived that could be acknowledged.
            _ => {
                let missing = self.early.as_mut()?.asks.pop_first()?;
                ("nak", missing, Packet::Nak { sequence: number(missing) })
            }
        };
        packet.emit(context.association, buf);
        Some(self.ack_wait.answer(context, name, about, buf))
    }
}

/// Number of acknowledgments per window with selective repair. Several let the window slide instead of stalling at
/// its end.
const ACKS_PER_WINDOW: u64 = 4;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use carillon_core::{
        AssociationId, BitRate, Dest, GroupId, Machine, NodeId, PortId, Receiver, Scope, Seeds,
    };

    use super::*;

    fn receiver() -> Player<MbapReceiver> {
        let build = BuildContext {
            association: AssociationId(7),
            node: NodeId(2),
            sender: NodeId(1),
            members: [].into(),
            helpers: Default::default(),
            identities: Default::default(),
            addresses: Default::default(),
            group: GroupId(0),
            seeds: Seeds::new(1),
            bit_rate: BitRate::mbps(1000),
            link_overhead: 0,
            max_payload: 100,
            memory: usize::MAX,
            rejoining: false,
        };
        let parameters = super::super::ENTRY.parameters;
        let mut settings = Config::defaults(parameters);
        for (key, value) in
            [("window", "2"), ("ack_timeout", "2 ms"), ("ack_timer", "until-full-window"), ("ack_bytes", "0")]
        {
            settings.set(parameters, key, value).expect("a valid setting");
        }
        MbapReceiver::new(&build, &settings)
    }

    fn data(receiver: &mut Player<MbapReceiver>, now: Time, sequence: u16) {
        let mut bytes = Vec::new();
        Packet::Data { sequence, payload: b"x" }.emit(AssociationId(7), &mut bytes);
        let destination = Dest::group(GroupId(0));
        receiver.handle_datagram(
            now,
            Received {
                source: NodeId(1),
                destination: &destination,
                ingress: PortId(0),
                scope: Scope::GLOBAL,
                bytes: &Bytes::from(bytes),
            },
        );
    }

    #[test]
    fn repeated_window_repeats_lost_acknowledgment() {
        let mut receiver = receiver();
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let mut buf = Vec::new();
        data(&mut receiver, at(0), 0);
        data(&mut receiver, at(0), 1);
        assert!(receiver.poll_transmit(at(0), &mut buf).is_some(), "the window is full");
        assert_eq!(receiver.poll_timeout(), None, "the timer stops after a full window");
        // The acknowledgment is lost, and the sender sends the window again.
        data(&mut receiver, at(10), 0);
        data(&mut receiver, at(11), 1);
        assert_eq!(receiver.poll_timeout(), Some(at(12)));
        receiver.handle_timeout(at(12));
        buf.clear();
        assert!(receiver.poll_transmit(at(12), &mut buf).is_some());
        let (_, packet) = Packet::parse(&buf).expect("an acknowledgment");
        assert!(matches!(packet, Packet::Ack { sequence: 1 }));
        // A full window stops it again.
        while receiver.poll_delivery().is_some() {}
        data(&mut receiver, at(13), 2);
        data(&mut receiver, at(13), 3);
        assert!(receiver.poll_transmit(at(13), &mut buf).is_some());
        assert_eq!(receiver.poll_timeout(), None);
    }
}
