//! The receiver, and what it does as a replier.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    Addresses, BuildContext, Config, ConfigError, Delivery, Dest, DropReason, Event, MessageId, NodeId,
    Received, Role, Time, Transmit,
};
use carillon_wire::lms::{Data, HEADER_LEN, Offer, Packet, Progress, Request};

use super::answers::{Answer, Answers, MAX_DUE, REMEMBERED, To, ask, asked_for};
use super::config::{SHORTEST_WAIT, Settings};
use super::pad;
use crate::blocks::{Arrival, KeptWindow, Part, Player, RequestRows, Scene, near, wire};

/// Takes messages, asks for what it misses, and answers requests that routers send it.
#[derive(Debug)]
pub struct LmsReceiver {
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
}

/// Losses found in the last packets: the cost of an adaptive replier.
#[derive(Debug, Default)]
struct Sample {
    packets: u64,
    requests: u32,
}

impl LmsReceiver {
    /// A receiver of this session.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(context, config)?;
        Ok(LmsReceiver {
            addresses: context.addresses.clone(),
            upstream: context.sender,
            rtt: settings.rtt,
            oldest: 0,
            refresh_due: false,
            cost: 0,
            sample: Sample::default(),
            reception: KeptWindow::new(
                context.most_messages(settings.buffer),
                context.most_messages(settings.replier_buffer).min(settings.replier_buffer) as usize,
                context.rejoining,
            ),
            losses: RequestRows::new(settings.retry_max),
            answers: Answers::new(REMEMBERED, MAX_DUE),
            repaired: VecDeque::new(),
            settings,
        }
        .play(context))
    }

    fn on_data(&mut self, scene: &mut Scene, data: Data<'_>, payload: Bytes, is_repair: bool) {
        let number = near(data.sequence, self.reception.expected());
        let oldest = near(data.oldest, number);
        if number.saturating_sub(oldest) >= self.settings.buffer {
            return scene.events.dropped(DropReason::Malformed);
        }
        self.reception.join_at(number);
        // A replier may hold what the source holds no more.
        if oldest <= number {
            self.on_oldest(scene, oldest);
        }
        match self.reception.insert(number, payload) {
            Arrival::Duplicate => scene.events.dropped(DropReason::Duplicate),
            Arrival::NoRoom => scene.events.dropped(DropReason::BufferFull),
            Arrival::New => {
                let message = MessageId(number);
                scene.events.received(if is_repair { "repair" } else { "data" }, message);
                let was_missing = self.losses.repaired(scene.now, number);
                if is_repair {
                    if self.repaired.len() >= REMEMBERED {
                        self.repaired.pop_front();
                    }
                    self.repaired.push_back(number);
                    if was_missing {
                        scene.events.push(Event::LossRepaired { source: scene.sender, message });
                    }
                }
                self.deliver_in_order(scene);
            }
        }
        self.on_oldest(scene, oldest);
        self.find_losses(scene);
        self.count_packet();
    }

    fn on_progress(&mut self, scene: &mut Scene, progress: Progress, packet: &'static str) {
        let next = near(progress.next, self.reception.expected());
        let oldest = near(progress.oldest, next);
        if oldest > next || next - oldest > self.settings.buffer {
            return scene.events.dropped(DropReason::Malformed);
        }
        scene.events.received(packet, next);
        self.reception.join_at(next);
        self.on_oldest(scene, oldest);
        self.reception.announce(next);
        self.find_losses(scene);
    }

    /// SETUP or SPM named the LMS router above.
    fn on_previous(&mut self, scene: &Scene, previous: Option<IpAddr>) {
        let upstream = previous.map_or(Some(scene.sender), |address| self.addresses.node_at(address));
        if let Some(upstream) = upstream
            && self.upstream != upstream
        {
            self.upstream = upstream;
            self.refresh_due = true;
        }
    }

    /// The source holds nothing before `oldest` any more.
    fn on_oldest(&mut self, scene: &mut Scene, oldest: u64) {
        self.oldest = self.oldest.max(oldest);
        let Some((skipped, new)) = self.reception.skip_to(oldest) else { return };
        let source = scene.sender;
        self.losses.forget_before(scene.now, oldest);
        let (first, total) = (skipped.range.start, skipped.lost());
        let mut survivors = skipped.survivors.into_iter().map(|(number, _)| number).peekable();
        let mut told = 0;
        // However far numbers jump, what is said of it is bounded.
        for number in skipped.range.take(MOST_TOLD) {
            let message = MessageId(number);
            if survivors.next_if_eq(&number).is_some() {
                scene.events.push(Event::Delivered { source, message });
                continue;
            }
            if new.contains(&number) {
                scene.events.loss_found(source, message);
            }
            scene.events.given_up(source, message);
            told += 1;
        }
        for number in survivors {
            scene.events.push(Event::Delivered { source, message: MessageId(number) });
        }
        if told < total {
            scene.unrecoverable(None, first, total);
        }
        self.deliver_in_order(scene);
    }

    fn deliver_in_order(&mut self, scene: &mut Scene) {
        while let Some(number) = self.reception.advance() {
            scene.events.push(Event::Delivered { source: scene.sender, message: MessageId(number) });
        }
    }

    /// Each new gap is a request.
    fn find_losses(&mut self, scene: &mut Scene) {
        while let Some(gap) = self.reception.take_gap() {
            gap.clone().for_each(|number| scene.events.loss_found(scene.sender, number));
            self.sample.requests = self.sample.requests.saturating_add(1);
            self.losses.found(scene.now, gap);
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
    fn on_req(&mut self, scene: &mut Scene, from: NodeId, request: &Request) {
        if request.turning_point.is_none() || request.direct {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        let (lo, hi) = asked_for(request, self.reception.expected());
        scene.events.received("req", lo);
        let numbers = self.reception.clip(lo, hi);
        ask(&mut self.answers, &mut scene.events, request, from, numbers, self.settings.escalate);
    }

    fn poll_refresh(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Where there is no LMS router, nobody is to know.
        if !std::mem::take(&mut self.refresh_due) || self.upstream == scene.sender {
            return None;
        }
        Packet::Refresh(Offer { cost: self.cost, hops: 0 }).emit(scene.association, buf);
        pad(buf, self.settings.nak_len);
        scene.events.control("refresh", 0_u64);
        Some(Transmit::now(Dest::Node(self.upstream)))
    }

    fn poll_request(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let most = self.settings.retry_max;
        let first = self.rtt.unwrap_or(UNKNOWN_RTT).saturating_mul(2).clamp(SHORTEST_WAIT, most);
        let (missing, attempt) = self.losses.pop(scene.now, first)?;
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
        .emit(scene.association, buf);
        pad(buf, self.settings.nak_len);
        scene.events.control("req", missing.start);
        for number in missing {
            scene.events.push(Event::Requested { source: scene.sender, message: MessageId(number) });
        }
        Some(Transmit::now(Dest::Node(if direct { scene.sender } else { self.upstream })))
    }

    fn poll_answer(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
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
            Packet::Dmcast { interface: point.interface, data }.emit(scene.association, buf);
            scene.events.push(Event::Forwarded {
                source: scene.sender,
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

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(Packet::parse(datagram.bytes)) else { return };
        match packet {
            Packet::Req(request) => self.on_req(scene, datagram.source, &request),
            _ if datagram.source != scene.sender => scene.events.dropped(DropReason::NotAMember),
            Packet::Data(data) => self.on_data(scene, data, datagram.bytes.slice(HEADER_LEN..), false),
            Packet::Repair(data) => self.on_data(scene, data, datagram.bytes.slice(HEADER_LEN..), true),
            Packet::Setup { previous, progress, timestamp } => {
                if self.settings.rtt.is_none() {
                    self.rtt = Some(scene.now.since(Time::from_nanos(timestamp)).saturating_mul(2));
                }
                self.on_previous(scene, previous);
                self.refresh_due = true;
                self.on_progress(scene, progress, "setup");
            }
            Packet::Spm { previous, progress } => {
                self.on_previous(scene, previous);
                self.on_progress(scene, progress, "spm");
            }
            // For routers.
            Packet::SrcRefresh(_) => scene.events.received("src_refresh", 0_u64),
            _ => scene.events.dropped(DropReason::Foreign),
        }
    }

    fn handle_timeout(&mut self, scene: &mut Scene) {
        self.losses.expire(scene.now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.losses.next_timeout()
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        // The application may have made room for what was announced.
        self.find_losses(scene);
        self.poll_refresh(scene, buf)
            .or_else(|| self.poll_request(scene, buf))
            .or_else(|| self.poll_answer(scene, buf))
    }

    fn poll_delivery(&mut self, scene: &mut Scene) -> Option<Delivery> {
        let (number, payload) = self.reception.fetch()?;
        Some(Delivery { source: scene.sender, message: MessageId(number), payload })
    }
}

/// What the round-trip time is taken for before a SETUP has come.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);

/// Messages of which one by one is said that they are lost, when numbers jump.
const MOST_TOLD: usize = 1 << 10;
