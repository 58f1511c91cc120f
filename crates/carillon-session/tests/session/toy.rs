//! A protocol of peers just good enough for one order: the member of rank 0 numbers everything and
//! repeats each message until all have acknowledged it; a member repeats its own message to it
//! until it hears it numbered.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use carillon_core::{
    About, BuildContext, Config, ConfigError, DefaultSettings, Delivery, DeliveryProperties, Dest,
    DropReason, Duration, Events, HeaderBytes, Helpers, Machine, MessageId, NetworkKind, NodeId, OfferError,
    Order, PacketProperties, ProtocolEntry, Received, Receiver, Role, Sender, StudyProperties, Time, Timers,
    Transmit,
};
use carillon_wire::Envelope;

pub static TOY: ProtocolEntry = ProtocolEntry {
    name: "toy",
    about: About { family: "test", summary: "the first numbers everything", reference: "none" },
    roles: &[Role::Peer],
    helpers: Helpers::None,
    networks: &[NetworkKind::Lan],
    delivery: DeliveryProperties {
        order: Order::Total,
        confirmed: true,
        waits: false,
        ..carillon_proto::protocols::rra::ENTRY.delivery
    },
    packets: PacketProperties {
        header_bytes: |_| HeaderBytes::all(Envelope::LEN + 24),
        ..carillon_proto::protocols::rra::ENTRY.packets
    },
    parameters: &[],
    settings: DefaultSettings { delivery: &[], host: &[], ..carillon_proto::protocols::rra::ENTRY.settings },
    study: StudyProperties { marks_originals: false, ..carillon_proto::protocols::rra::ENTRY.study },
    build,
    ..carillon_proto::protocols::rra::ENTRY
};

const NUMBER: u8 = 201;
/// Own message of a member to the first: number, payload.
const SUBMIT: u8 = 1;
/// To the group: place in the order, rank of the source, its number, payload.
const ORDERED: u8 = 2;
/// To the first: place in the order.
const ACK: u8 = 3;
const WAIT: Duration = Duration::from_millis(20);

fn build(role: Role, context: &BuildContext, _config: &Config) -> Result<Box<dyn Machine>, ConfigError> {
    if role != Role::Peer {
        return Err(ConfigError::no_such_role(role));
    }
    let rank = context.rank().expect("a peer is one of the members");
    Ok(Box::new(Toy {
        rank,
        context: context.clone(),
        own: None,
        offered: 0,
        finished: false,
        expected: 0,
        deliveries: VecDeque::new(),
        queue: VecDeque::new(),
        taken: vec![0; context.members.len()],
        current: None,
        missing: BTreeSet::new(),
        expelled: BTreeSet::new(),
        due: VecDeque::new(),
        timers: Timers::new(),
        events: Events::default(),
    }))
}

type Numbered = (u64, u64, Bytes);

#[derive(Debug)]
struct Toy {
    rank: usize,
    context: BuildContext,
    own: Option<Bytes>,
    offered: u64,
    finished: bool,
    /// The next place in the order.
    expected: u64,
    deliveries: VecDeque<Delivery>,
    /// At the first: what is to be numbered (rank, number, payload), and how many of each were.
    queue: VecDeque<Numbered>,
    taken: Vec<u64>,
    current: Option<Numbered>,
    missing: BTreeSet<NodeId>,
    expelled: BTreeSet<NodeId>,
    due: VecDeque<Due>,
    timers: Timers<()>,
    events: Events,
}

#[derive(Debug)]
enum Due {
    Submit,
    Ordered,
    Ack(u64),
}

impl Toy {
    fn take(&mut self, rank: usize, number: u64, payload: Bytes) {
        if number == self.taken[rank] {
            self.taken[rank] += 1;
            self.queue.push_back((rank as u64, number, payload));
        }
    }

    fn advance(&mut self, now: Time) {
        while self.rank == 0 && self.current.is_none() {
            let Some(next) = self.queue.pop_front() else { return };
            let others = self.context.members.iter().filter(|&&node| node != self.context.node);
            self.missing = others.copied().filter(|node| !self.expelled.contains(node)).collect();
            self.deliver(&next);
            self.current = Some(next);
            self.due.push_back(Due::Ordered);
            self.timers.arm((), now + WAIT);
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.rank == 0 && self.missing.is_empty() {
            self.current = None;
        }
    }

    fn deliver(&mut self, (rank, number, payload): &Numbered) {
        self.expected += 1;
        let source = self.context.members[*rank as usize];
        if source == self.context.node {
            self.own = None;
        }
        let message = MessageId(*number);
        self.deliveries.push_back(Delivery { source, message, payload: payload.clone() });
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|n| u64::from_be_bytes(*n))
}

impl Machine for Toy {
    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let from = self.context.members.iter().position(|&node| node == datagram.source);
        let envelope = Envelope::parse_for(NUMBER, datagram.bytes);
        let (Some(from), Ok((envelope, rest))) = (from, envelope) else {
            return self.events.dropped(DropReason::Malformed);
        };
        match (envelope.packet_type, number(rest, 0)) {
            (SUBMIT, Some(n)) if self.rank == 0 => {
                self.take(from, n, datagram.bytes.slice(Envelope::LEN + 8..));
            }
            (ACK, Some(seq)) if self.rank == 0 && seq + 1 == self.expected => {
                self.missing.remove(&datagram.source);
                self.settle();
            }
            (ORDERED, Some(seq)) if from == 0 => {
                let (Some(rank), Some(n)) = (number(rest, 8), number(rest, 16)) else { return };
                if rank as usize >= self.context.members.len() || seq > self.expected {
                    return self.events.dropped(DropReason::OutOfOrder);
                }
                if seq == self.expected {
                    self.deliver(&(rank, n, datagram.bytes.slice(Envelope::LEN + 24..)));
                }
                self.due.push_back(Due::Ack(seq));
            }
            _ => self.events.dropped(DropReason::OutOfWindow),
        }
        self.advance(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.timers.expire(now).is_none() {
            return;
        }
        if self.current.is_some() {
            self.due.push_back(Due::Ordered);
            self.timers.arm((), now + WAIT);
        } else if self.rank > 0 && self.own.is_some() {
            self.due.push_back(Due::Submit);
            self.timers.arm((), now + WAIT);
        }
        self.advance(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn poll_transmit(&mut self, _now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let mut envelope = |packet_type, fields: &[u64], payload: &[u8]| {
            let association = self.context.association;
            Envelope { protocol: NUMBER, packet_type, association }.emit(buf);
            fields.iter().for_each(|field| buf.extend_from_slice(&field.to_be_bytes()));
            buf.extend_from_slice(payload);
        };
        loop {
            let first = Dest::Node(self.context.members[0]);
            match (self.due.pop_front()?, &self.own, &self.current) {
                (Due::Submit, Some(payload), _) => {
                    envelope(SUBMIT, &[self.offered - 1], payload);
                    return Some(Transmit::now(first));
                }
                (Due::Ordered, _, Some((rank, number, payload))) => {
                    envelope(ORDERED, &[self.expected - 1, *rank, *number], payload);
                    return Some(Transmit::now(Dest::group(self.context.group)));
                }
                (Due::Ack(seq), ..) => {
                    envelope(ACK, &[seq], &[]);
                    return Some(Transmit::now(first));
                }
                _ => {}
            }
        }
    }

    fn poll_event(&mut self) -> Option<carillon_core::Event> {
        self.events.pop()
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Sender for Toy {
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if self.own.is_some() {
            return Err(OfferError::Full);
        }
        self.own = Some(payload.clone());
        self.offered += 1;
        if self.rank == 0 {
            self.take(0, self.offered - 1, payload);
            self.advance(now);
        } else {
            self.due.push_back(Due::Submit);
            self.timers.arm((), now + WAIT);
        }
        Ok(MessageId(self.offered - 1))
    }

    fn finish(&mut self, _now: Time) {
        self.finished = true;
    }

    fn expel(&mut self, now: Time, member: NodeId) {
        self.expelled.insert(member);
        self.missing.remove(&member);
        self.settle();
        self.advance(now);
    }

    fn is_finished(&self) -> bool {
        self.finished && self.own.is_none() && self.current.is_none()
    }
}

impl Receiver for Toy {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }
}
