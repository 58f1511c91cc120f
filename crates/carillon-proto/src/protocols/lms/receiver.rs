//! The receiver, and what it does as a replier.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    Addresses, AssociationId, BuildContext, Config, ConfigError, Delivery, Dest, DropReason, Event, Events,
    Machine, MessageId, NodeId, Note, Received, Receiver, Time, Transmit, Value, expand,
};
use carillon_wire::lms::{Data, HEADER_LEN, Offer, Packet, Progress, Request};

use super::answers::{Answer, Answers, MAX_DUE, REMEMBERED, To, ask};
use super::config::{SHORTEST_WAIT, Settings};
use super::{MODULUS, pad, wire};
use crate::blocks::{Arrival, KeptWindow, RequestRows};

/// Takes messages, asks for what it misses, and answers requests that routers send it.
#[derive(Debug)]
pub struct LmsReceiver {
    association: AssociationId,
    sender: NodeId,
    addresses: Addresses,
    settings: Settings,
    /// Where requests go: the LMS router above, or the source if there is none.
    upstream: NodeId,
    /// Round-trip time to the source, once it is known.
    rtt: Option<Duration>,
    /// The oldest message that the source holds.
    oldest: u64,
    /// It is to offer itself as replier.
    refresh_due: bool,
    cost: u32,
    sample: Sample,
    reception: KeptWindow,
    losses: RequestRows,
    answers: Answers,
    /// The last messages that came by a repair; the newest is the last.
    repaired: VecDeque<u64>,
    events: Events,
}

/// Losses found in the last packets: the cost of an adaptive replier.
#[derive(Debug, Default)]
struct Sample {
    packets: u64,
    requests: u32,
}

impl LmsReceiver {
    /// A receiver of this session.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Settings::new(context, config)?;
        Ok(LmsReceiver {
            association: context.association,
            sender: context.sender,
            addresses: context.addresses.clone(),
            upstream: context.sender,
            rtt: settings.rtt,
            oldest: 0,
            refresh_due: false,
            cost: 0,
            sample: Sample::default(),
            reception: KeptWindow::new(
                context.most_messages(settings.buffer),
                context.most_messages(settings.replier_buffer as u64).min(settings.replier_buffer as u64)
                    as usize,
                context.rejoining,
            ),
            losses: RequestRows::new(settings.retry_max),
            answers: Answers::new(REMEMBERED, MAX_DUE),
            repaired: VecDeque::new(),
            events: Events::default(),
            settings,
        })
    }

    fn on_data(&mut self, now: Time, data: Data<'_>, payload: Bytes, is_repair: bool) {
        let number = expand(data.sequence.into(), MODULUS, self.reception.expected());
        let oldest = expand(data.oldest.into(), MODULUS, number);
        if number.saturating_sub(oldest) >= self.settings.buffer {
            return self.events.dropped(DropReason::Malformed);
        }
        self.reception.join_at(number);
        // A replier may hold what the source holds no more.
        if oldest <= number {
            self.on_oldest(now, oldest);
        }
        match self.reception.insert(number, payload) {
            Arrival::Duplicate => self.events.dropped(DropReason::Duplicate),
            Arrival::NoRoom => self.events.dropped(DropReason::BufferFull),
            Arrival::New => {
                let message = MessageId(number);
                self.events.received(if is_repair { "repair" } else { "data" }, message);
                let was_missing = self.losses.repaired(now, number);
                if is_repair {
                    if self.repaired.len() >= REMEMBERED {
                        self.repaired.pop_front();
                    }
                    self.repaired.push_back(number);
                    if was_missing {
                        self.events.push(Event::LossRepaired { source: self.sender, message });
                    }
                }
                self.deliver_in_order();
            }
        }
        self.on_oldest(now, oldest);
        self.find_losses(now);
        self.count_packet();
    }

    fn on_progress(&mut self, now: Time, progress: Progress, packet: &'static str) {
        let next = expand(progress.next.into(), MODULUS, self.reception.expected());
        let oldest = expand(progress.oldest.into(), MODULUS, next);
        if oldest > next || next - oldest > self.settings.buffer {
            return self.events.dropped(DropReason::Malformed);
        }
        self.events.received(packet, next);
        self.reception.join_at(next);
        self.on_oldest(now, oldest);
        self.reception.announce(next);
        self.find_losses(now);
    }

    /// SETUP or SPM named the LMS router above.
    fn on_previous(&mut self, previous: Option<std::net::IpAddr>) {
        let upstream = previous.map_or(Some(self.sender), |address| self.addresses.node_at(address));
        if let Some(upstream) = upstream
            && self.upstream != upstream
        {
            self.upstream = upstream;
            self.refresh_due = true;
        }
    }

    /// The source holds nothing before `oldest` any more.
    fn on_oldest(&mut self, now: Time, oldest: u64) {
        self.oldest = self.oldest.max(oldest);
        let Some((skipped, new)) = self.reception.skip_to(oldest) else { return };
        let source = self.sender;
        self.losses.forget_before(now, oldest);
        let (first, total) = (skipped.range.start, skipped.lost());
        let mut survivors = skipped.survivors.into_iter().map(|(number, _)| number).peekable();
        let mut told = 0;
        // However far numbers jump, what is said of it is bounded.
        for number in skipped.range.take(MOST_TOLD) {
            let message = MessageId(number);
            if survivors.next_if_eq(&number).is_some() {
                self.events.push(Event::Delivered { source, message });
                continue;
            }
            if new.contains(&number) {
                self.events.loss_found(source, message);
            }
            self.events.given_up(source, message);
            told += 1;
        }
        for number in survivors {
            self.events.push(Event::Delivered { source, message: MessageId(number) });
        }
        if told < total {
            let fields = vec![("first", Value::Count(first)), ("messages", Value::Count(total))];
            self.events.push(Event::Note(Box::new(Note { name: "unrecoverable", fields })));
        }
        self.deliver_in_order();
    }

    fn deliver_in_order(&mut self) {
        while let Some(number) = self.reception.advance() {
            self.events.push(Event::Delivered { source: self.sender, message: MessageId(number) });
        }
    }

    /// Each new gap is a request.
    fn find_losses(&mut self, now: Time) {
        while let Some(gap) = self.reception.take_gap() {
            for number in gap.clone() {
                let message = MessageId(number);
                self.events.loss_found(self.sender, message);
            }
            self.sample.requests = self.sample.requests.saturating_add(1);
            self.losses.found(now, gap);
        }
    }

    /// An adaptive replier's cost is the number of requests in the last packets.
    fn count_packet(&mut self) {
        let Some(packets) = self.settings.loss_smpl_ivl else { return };
        self.sample.packets += 1;
        if self.sample.packets >= packets {
            self.cost = std::mem::take(&mut self.sample).requests;
            self.refresh_due = true;
        }
    }

    /// A request that a router has turned to this receiver.
    fn on_req(&mut self, from: NodeId, request: &Request) {
        if request.turning_point.is_none() || request.direct {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        let lo = expand(request.lo.into(), MODULUS, self.reception.expected());
        let hi = lo + u64::from(request.hi.wrapping_sub(request.lo));
        self.events.received("req", lo);
        let numbers = self.reception.clip(lo, hi);
        if let Err(reason) = ask(&mut self.answers, request, from, numbers, self.settings.escalate) {
            self.events.dropped(reason);
        }
    }

    fn poll_refresh(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Where there is no LMS router, nobody is to know.
        if !std::mem::take(&mut self.refresh_due) || self.upstream == self.sender {
            return None;
        }
        Packet::Refresh(Offer { cost: self.cost, hops: 0 }).emit(self.association, buf);
        pad(buf, self.settings.nak_len);
        self.events.control("refresh", 0_u64);
        Some(Transmit::now(Dest::Node(self.upstream)))
    }

    fn poll_request(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let most = self.settings.retry_max;
        let first = self.rtt.unwrap_or(UNKNOWN_RTT).saturating_mul(2).clamp(SHORTEST_WAIT, most);
        let (missing, attempt) = self.losses.pop(now, first)?;
        let escalate = self.settings.escalate;
        let direct = escalate && attempt >= self.settings.direct_after;
        Packet::Req(Request {
            turning_point: None,
            direct,
            past: if escalate { attempt.min(u8::MAX.into()) as u8 } else { 0 },
            hops_left: u8::MAX,
            lo: wire(missing.start),
            hi: wire(missing.end - 1),
            attempt,
        })
        .emit(self.association, buf);
        pad(buf, self.settings.nak_len);
        self.events.control("req", missing.start);
        for number in missing {
            self.events.push(Event::Requested { source: self.sender, message: MessageId(number) });
        }
        Some(Transmit::now(Dest::Node(if direct { self.sender } else { self.upstream })))
    }

    fn poll_answer(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(next) = self.answers.next() {
            // After a jump there may be four thousand millions of numbers between two messages that are here.
            self.answers.skip_to(self.reception.held_from(next));
            let Some((number, Answer { to, attempt, .. })) = self.answers.pop() else { continue };
            // That repair was for who asks now, too: it is on its way.
            if attempt == 0 && self.repaired.contains(&number) {
                continue;
            }
            let To::TurningPoint(point) = to else { continue };
            let router = self.addresses.node_at(point.address);
            let (Some(payload), Some(router)) = (self.reception.message(number), router) else { continue };
            let data = Data { sequence: wire(number), oldest: wire(self.oldest), payload };
            Packet::Dmcast { interface: point.interface, data }.emit(self.association, buf);
            self.events.push(Event::Forwarded {
                source: self.sender,
                message: MessageId(number),
                bytes: buf.len() as u32,
                repair: true,
            });
            return Some(Transmit::now(Dest::Node(router)));
        }
        None
    }
}

impl Machine for LmsReceiver {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.events.of_session(parsed, self.association) else { return };
        let packet = match packet {
            Packet::Req(request) => return self.on_req(datagram.source, &request),
            _ if datagram.source != self.sender => return self.events.dropped(DropReason::NotAMember),
            packet => packet,
        };
        match packet {
            Packet::Data(data) => self.on_data(now, data, datagram.bytes.slice(HEADER_LEN..), false),
            Packet::Repair(data) => self.on_data(now, data, datagram.bytes.slice(HEADER_LEN..), true),
            Packet::Setup { previous, progress, timestamp } => {
                if self.settings.rtt.is_none() {
                    self.rtt = Some(now.since(Time::from_nanos(timestamp)).saturating_mul(2));
                }
                self.on_previous(previous);
                self.refresh_due = true;
                self.on_progress(now, progress, "setup");
            }
            Packet::Spm { previous, progress } => {
                self.on_previous(previous);
                self.on_progress(now, progress, "spm");
            }
            // For routers.
            Packet::SrcRefresh(_) => {
                self.events.received("src_refresh", 0_u64);
            }
            _ => self.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.losses.expire(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.losses.next_timeout()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        // The application may have made room for what was announced.
        self.find_losses(now);
        self.poll_refresh(buf).or_else(|| self.poll_request(now, buf)).or_else(|| self.poll_answer(buf))
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Receiver for LmsReceiver {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let (number, payload) = self.reception.fetch()?;
        Some(Delivery { source: self.sender, message: MessageId(number), payload })
    }
}

/// What the round-trip time is taken for before a SETUP has come.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);

/// Messages of which one by one is said that they are lost, when numbers jump.
const MOST_TOLD: usize = 1 << 10;
