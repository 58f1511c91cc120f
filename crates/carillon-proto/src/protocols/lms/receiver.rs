//! Receiver, which is also a replier.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    Addresses, BuildContext, Config, ConfigError, Delivery, Dest, DropReason, Event, MessageId, NodeId,
    Received, Role, Time, Transmit,
};
use carillon_wire::lms::{Data, HEADER_LEN, Offer, Packet, Progress, Request};

use super::answers::{Answer, Answers, MAX_PENDING_ANSWERS, MAX_REMEMBERED_RANGES, To, ask, asked_for};
use super::config::{MIN_REQUEST_WAIT, Settings};
use super::padding::pad;
use super::sample::Sample;
use crate::blocks::{Arrival, KeptWindow, MachineContext, Part, Player, RequestRows, near, wire};

/// Receiver that requests missing messages, and answers requests that routers turn to it.
#[derive(Debug)]
pub struct LmsReceiver {
    addresses: Addresses,
    settings: Settings,
    /// Destination of requests: the next LMS router towards the source, or the source itself.
    upstream: NodeId,
    /// Round-trip time to the source; `None` until it is measured.
    rtt: Option<Duration>,
    /// Oldest message that the source holds.
    oldest: u64,
    /// True while a REFRESH is due, which offers this receiver as replier.
    refresh_due: bool,
    /// Sample of the received packets; `None` if all receivers offer themselves at cost 0.
    sample: Option<Box<Sample>>,
    reception: KeptWindow,
    losses: RequestRows,
    answers: Answers,
    /// Last messages that arrived as repairs, newest last.
    repaired: VecDeque<u64>,
}

impl LmsReceiver {
    /// Creates a receiver of the session; fails if a setting is invalid.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        Ok(LmsReceiver {
            addresses: build.addresses.clone(),
            upstream: build.sender,
            rtt: settings.rtt,
            oldest: 0,
            refresh_due: false,
            sample: settings.offers.map(|offers| Box::new(Sample::new(offers, settings.loss_smpl_ivl))),
            reception: KeptWindow::new(
                build.max_messages(settings.buffer),
                build.max_messages(settings.replier_buffer).min(settings.replier_buffer) as usize,
                build.rejoining,
            ),
            losses: RequestRows::new(settings.retry_max),
            answers: Answers::new(MAX_REMEMBERED_RANGES, MAX_PENDING_ANSWERS),
            repaired: VecDeque::new(),
            settings,
        }
        .play(build))
    }

    fn on_data(&mut self, context: &mut MachineContext, data: Data<'_>, payload: Bytes, is_repair: bool) {
        let number = near(data.sequence, self.reception.expected());
        let oldest = near(data.oldest, number);
        if number.saturating_sub(oldest) >= self.settings.buffer {
            return context.events.dropped(DropReason::Malformed);
        }
        self.reception.join_at(number);
        // A replier may hold messages that the source no longer holds.
        if oldest <= number {
            self.on_oldest(context, oldest);
        }
        match self.reception.insert(number, payload) {
            Arrival::Duplicate => {
                if let Some(sample) = &mut self.sample {
                    sample.on_duplicate();
                }
                context.events.dropped(DropReason::Duplicate);
            }
            Arrival::NoRoom => context.events.dropped(DropReason::BufferFull),
            Arrival::New => {
                let message = MessageId(number);
                context.events.received(if is_repair { "repair" } else { "data" }, message);
                let was_missing = self.losses.repaired(context.now, number);
                if is_repair {
                    if self.repaired.len() >= MAX_REMEMBERED_RANGES {
                        self.repaired.pop_front();
                    }
                    self.repaired.push_back(number);
                    if was_missing {
                        if let Some(sample) = &mut self.sample {
                            sample.on_repair(context.now, number);
                        }
                        context.events.push(Event::LossRepaired { source: context.sender, message });
                    }
                }
                self.deliver_in_order(context);
            }
        }
        self.on_oldest(context, oldest);
        self.find_losses(context);
        if let Some(sample) = &mut self.sample {
            self.refresh_due |= sample.on_packet(self.rtt.unwrap_or(INITIAL_RTT));
        }
    }

    fn on_progress(&mut self, context: &mut MachineContext, progress: Progress, packet: &'static str) {
        let next = near(progress.next, self.reception.expected());
        let oldest = near(progress.oldest, next);
        if oldest > next || next - oldest > self.settings.buffer {
            return context.events.dropped(DropReason::Malformed);
        }
        context.events.received(packet, next);
        self.reception.join_at(next);
        self.on_oldest(context, oldest);
        self.reception.announce(next);
        self.find_losses(context);
    }

    /// Applies the address of the next LMS router from a SETUP or SPM.
    fn on_previous(&mut self, context: &MachineContext, previous: Option<IpAddr>) {
        let upstream = previous.map_or(Some(context.sender), |address| self.addresses.node_at(address));
        if let Some(upstream) = upstream
            && self.upstream != upstream
        {
            self.upstream = upstream;
            self.refresh_due = true;
        }
    }

    /// Skips messages before `oldest`, which the source no longer holds.
    fn on_oldest(&mut self, context: &mut MachineContext, oldest: u64) {
        self.oldest = self.oldest.max(oldest);
        let Some((skipped, new)) = self.reception.skip_to(oldest) else { return };
        let source = context.sender;
        self.losses.forget_before(context.now, oldest);
        let (first, total) = (skipped.range.start, skipped.lost());
        let mut survivors = skipped.survivors.into_iter().map(|(number, _)| number).peekable();
        let mut reported = 0;
        // A large jump of the numbers must not produce an unbounded number of events.
        for number in skipped.range.take(MAX_REPORTED_LOSSES) {
            let message = MessageId(number);
            if survivors.next_if_eq(&number).is_some() {
                context.events.push(Event::Delivered { source, message });
                continue;
            }
            if new.contains(&number) {
                context.events.loss_found(source, message);
            }
            context.events.loss_final(source, message);
            reported += 1;
        }
        for number in survivors {
            context.events.push(Event::Delivered { source, message: MessageId(number) });
        }
        if reported < total {
            context.unrecoverable(None, first, total);
        }
        self.deliver_in_order(context);
    }

    /// Records the delivery of messages that are in order.
    fn deliver_in_order(&mut self, context: &mut MachineContext) {
        while let Some(number) = self.reception.advance() {
            context.events.push(Event::Delivered { source: context.sender, message: MessageId(number) });
        }
    }

    /// Adds a request for each new gap.
    fn find_losses(&mut self, context: &mut MachineContext) {
        while let Some(gap) = self.reception.take_gap() {
            gap.clone().for_each(|number| context.events.loss_found(context.sender, number));
            if let Some(sample) = &mut self.sample {
                sample.on_gap(context.now, gap.clone());
            }
            self.losses.found(context.now, gap);
        }
    }

    /// Handles a request that a router has turned to this receiver.
    fn on_req(&mut self, context: &mut MachineContext, from: NodeId, request: &Request) {
        if request.turning_point.is_none() || request.direct {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let (lo, hi) = asked_for(request, self.reception.expected());
        context.events.received("req", lo);
        let numbers = self.reception.clip(lo, hi);
        ask(&mut self.answers, &mut context.events, request, from, numbers, self.settings.escalate);
    }

    fn poll_refresh(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Without an LMS router no node needs the offer.
        if !std::mem::take(&mut self.refresh_due) || self.upstream == context.sender {
            return None;
        }
        Packet::Refresh(Offer { cost: self.sample.as_mut().map_or(0, |sample| sample.take_cost()), hops: 0 })
            .emit(context.association, buf);
        pad(buf, self.settings.nak_len);
        context.events.control("refresh", 0_u64);
        Some(Transmit::now(Dest::Node(self.upstream)))
    }

    fn poll_request(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        let most = self.settings.retry_max;
        let first = self.rtt.unwrap_or(INITIAL_RTT).saturating_mul(2).clamp(MIN_REQUEST_WAIT, most);
        let (missing, attempt) = self.losses.pop(context.now, first)?;
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
        .emit(context.association, buf);
        pad(buf, self.settings.nak_len);
        context.events.control("req", missing.start);
        for number in missing {
            context.events.push(Event::Requested { source: context.sender, message: MessageId(number) });
        }
        Some(Transmit::now(Dest::Node(if direct { context.sender } else { self.upstream })))
    }

    fn poll_answer(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(next) = self.answers.next() {
            // After a jump, billions of numbers may lie between two held messages.
            self.answers.skip_to(self.reception.held_from(next));
            let Some((number, Answer { to, attempt, .. })) = self.answers.pop() else { continue };
            // The earlier repair also reached the requester's subtree, and may still be in flight.
            if attempt == 0 && self.repaired.contains(&number) {
                continue;
            }
            let To::TurningPoint(point) = to else { continue };
            let router = self.addresses.node_at(point.address);
            let (Some(payload), Some(router)) = (self.reception.message(number), router) else { continue };
            let data = Data { sequence: wire(number), oldest: wire(self.oldest), payload };
            Packet::Dmcast { interface: point.interface, data }.emit(context.association, buf);
            context.events.push(Event::Forwarded {
                source: context.sender,
                message: MessageId(number),
                bytes: buf.len() as u32,
                repair: true,
            });
            return Some(Transmit::now(Dest::Node(router)));
        }
        None
    }
}

impl Part for LmsReceiver {
    type Timer = ();

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.reception.held())
    }

    fn handle_datagram(&mut self, context: &mut MachineContext, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Req(request) => self.on_req(context, datagram.source, &request),
            _ if datagram.source != context.sender => context.events.dropped(DropReason::NotAMember),
            Packet::Data(data) => self.on_data(context, data, datagram.bytes.slice(HEADER_LEN..), false),
            Packet::Repair(data) => self.on_data(context, data, datagram.bytes.slice(HEADER_LEN..), true),
            Packet::Setup { previous, progress, timestamp } => {
                if self.settings.rtt.is_none() {
                    self.rtt = Some(context.now.since(Time::from_nanos(timestamp)).saturating_mul(2));
                }
                self.on_previous(context, previous);
                self.refresh_due = true;
                self.on_progress(context, progress, "setup");
            }
            Packet::Spm { previous, progress } => {
                self.on_previous(context, previous);
                self.on_progress(context, progress, "spm");
            }
            // SRC_REFRESH concerns routers only.
            Packet::SrcRefresh(_) => context.events.received("src_refresh", 0_u64),
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, context: &mut MachineContext) {
        self.losses.expire(context.now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.losses.next_timeout()
    }

    fn poll_transmit(&mut self, context: &mut MachineContext, buf: &mut Vec<u8>) -> Option<Transmit> {
        // The application may have made room for announced messages.
        self.find_losses(context);
        self.poll_refresh(context, buf)
            .or_else(|| self.poll_request(context, buf))
            .or_else(|| self.poll_answer(context, buf))
    }

    fn poll_delivery(&mut self, context: &mut MachineContext) -> Option<Delivery> {
        let (number, payload) = self.reception.fetch()?;
        Some(Delivery { source: context.sender, message: MessageId(number), payload })
    }
}

/// Assumed round-trip time until the first SETUP arrives.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Maximum number of losses that are reported one by one after a jump of the numbers; it bounds the events.
const MAX_REPORTED_LOSSES: usize = 1 << 10;
