//! A protocol just good enough to carry messages: one at a time to the group, again until every
//! member has acknowledged it; a member that is asked too often is lost.

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{
    About, BuildContext, Config, ConfigError, DefaultSettings, Delivery, DeliveryProperties, Dest,
    DropReason, Duration, Event, Events, HeaderBytes, Helpers, Kind, Machine, MessageId, NetworkKind, NodeId,
    Notice, OfferError, Order, Outcome, PacketProperties, Parameter, ProtocolEntry, Received, Receiver, Role,
    Sender, StudyProperties, Time, Timers, Transmit,
};
use carillon_wire::Envelope;

pub static REPEAT: ProtocolEntry = ProtocolEntry {
    name: "repeat",
    about: About { family: "test", summary: "repeats until acknowledged", reference: "none" },
    roles: &[Role::Sender, Role::Receiver],
    helpers: Helpers::None,
    networks: &[NetworkKind::Lan],
    delivery: DeliveryProperties {
        order: Order::Source,
        confirmed: true,
        waits: true,
        ..carillon_proto::protocols::rra::ENTRY.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(Envelope::LEN + 8),
        ..carillon_proto::protocols::rra::ENTRY.packets
    },
    parameters: PARAMETERS,
    settings: DefaultSettings { delivery: &[], host: &[], ..carillon_proto::protocols::rra::ENTRY.settings },
    study: StudyProperties { marks_originals: false, ..carillon_proto::protocols::rra::ENTRY.study },
    build,
    ..carillon_proto::protocols::rra::ENTRY
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        former: None,
        name: "limit",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: "50",
        doc: "repetitions",
    },
    Parameter { former: None, name: "wait", kind: Kind::Span, default: "20 ms", doc: "time between them" },
];

const NUMBER: u8 = 200;
const DATA: u8 = 1;
const ACK: u8 = 2;

fn build(role: Role, context: &BuildContext, config: &Config) -> Result<Box<dyn Machine>, ConfigError> {
    if context.members.len() > 100 {
        return Err(ConfigError::Conflict("repeat serves 100 members at most".to_owned()));
    }
    let wait = config.span("wait").at(context.bit_rate);
    Ok(match role {
        Role::Peer | Role::Relay | Role::Helper => return Err(ConfigError::no_such_role(role)),
        Role::Sender => Box::new(RepeatSender {
            context: context.clone(),
            limit: config.count("limit"),
            wait,
            members: context.members.iter().copied().collect(),
            missing: BTreeSet::new(),
            current: None,
            repeats: 0,
            next: 0,
            due: false,
            finished: false,
            timers: Timers::new(),
            events: Events::default(),
        }),
        Role::Receiver => Box::new(RepeatReceiver {
            context: context.clone(),
            expected: 0,
            ack_due: None,
            delivery: None,
            events: Events::default(),
        }),
    })
}

#[derive(Debug)]
struct RepeatSender {
    context: BuildContext,
    limit: u64,
    wait: Duration,
    members: BTreeSet<NodeId>,
    missing: BTreeSet<NodeId>,
    current: Option<Bytes>,
    repeats: u64,
    /// The next message's number; the current one is the one before.
    next: u64,
    due: bool,
    finished: bool,
    timers: Timers<()>,
    events: Events,
}

impl RepeatSender {
    fn settle(&mut self) {
        if self.current.is_some() && self.missing.is_empty() {
            let message = MessageId(self.next - 1);
            self.events.completed(message, Outcome::Acknowledged, 1);
            self.current = None;
            self.timers.clear();
        }
    }
}

fn envelope(context: &BuildContext, packet_type: u8, buf: &mut Vec<u8>) {
    Envelope { protocol: NUMBER, packet_type, association: context.association }.emit(buf);
}

fn parse(context: &BuildContext, packet_type: u8, bytes: &[u8]) -> Option<(u64, usize)> {
    let (envelope, rest) = Envelope::parse_for(NUMBER, bytes).ok()?;
    let number = rest.first_chunk::<8>()?;
    (envelope.packet_type == packet_type && envelope.association == context.association)
        .then_some((u64::from_be_bytes(*number), Envelope::LEN + 8))
}

impl Machine for RepeatSender {
    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        match parse(&self.context, ACK, datagram.bytes) {
            Some((number, _)) if number + 1 == self.next => {
                self.missing.remove(&datagram.source);
                self.settle();
            }
            Some(_) => self.events.dropped(DropReason::OutOfWindow),
            None => self.events.dropped(DropReason::Malformed),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timers.expire(now).is_none() {
            return;
        }
        self.repeats += 1;
        if self.repeats < self.limit {
            self.due = true;
            return;
        }
        for member in std::mem::take(&mut self.missing) {
            self.members.remove(&member);
            self.events.member_lost(member);
        }
        self.settle();
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let payload = self.current.as_ref().filter(|_| self.due)?;
        envelope(&self.context, DATA, buf);
        buf.extend_from_slice(&(self.next - 1).to_be_bytes());
        buf.extend_from_slice(payload);
        self.due = false;
        self.timers.arm((), now + self.wait);
        Some(Transmit::now(Dest::group(self.context.group)))
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.events.pop_notice()
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }
}

impl Sender for RepeatSender {
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.current.is_some() {
            return Err(OfferError::Full);
        }
        self.missing = self.members.clone();
        (self.current, self.due, self.repeats) = (Some(payload), true, 0);
        self.next += 1;
        self.settle();
        Ok(MessageId(self.next - 1))
    }

    fn finish(&mut self, _now: Time) {
        self.finished = true;
    }

    fn expel(&mut self, _now: Time, member: NodeId) {
        self.members.remove(&member);
        self.missing.remove(&member);
        self.settle();
    }

    fn awaits(&self, member: NodeId) -> bool {
        self.current.is_some() && !self.due && self.missing.contains(&member)
    }

    fn is_finished(&self) -> bool {
        self.finished && self.current.is_none()
    }
}

#[derive(Debug)]
struct RepeatReceiver {
    context: BuildContext,
    expected: u64,
    ack_due: Option<u64>,
    delivery: Option<Delivery>,
    events: Events,
}

impl Machine for RepeatReceiver {
    fn handle_datagram(&mut self, _now: Time, datagram: Received<'_>) {
        let Some((number, at)) = parse(&self.context, DATA, datagram.bytes) else {
            return self.events.dropped(DropReason::Malformed);
        };
        if number > self.expected || self.delivery.is_some() {
            return self.events.dropped(DropReason::BufferFull);
        }
        if number == self.expected {
            self.expected += 1;
            let payload = datagram.bytes.slice(at..);
            self.delivery = Some(Delivery { source: datagram.source, message: MessageId(number), payload });
        }
        self.ack_due = Some(number);
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let number = self.ack_due.take()?;
        envelope(&self.context, ACK, buf);
        buf.extend_from_slice(&number.to_be_bytes());
        Some(Transmit::now(Dest::Node(self.context.sender)))
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for RepeatReceiver {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivery.take()
    }
}
