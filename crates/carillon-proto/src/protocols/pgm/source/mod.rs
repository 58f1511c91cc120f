//! The PGM source (RFC 3208, section 5): transmit window, SPMs, confirmations and repairs.

mod congestion;
mod parity;
mod parity_packets;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, MessageId, NodeId, OfferError, Received, Role, Time,
    TokenBucket, Transmit,
};
use carillon_wire::pgm::{
    Ack, Body, Data, LossReport, MAX_TSDU, Nak, NakList, Options, Packet, Poll, Spm, Tsi,
};

use super::config::interval;
use super::identity::{address_of, destination_port, numbers, parse, refuse_zeromq_port, tsi};
use crate::blocks::{
    Advance, Doubling, FixedRate, Heartbeats, Members, Part, Player, RateControl, RepairBudget,
    TransmitWindow, near, wire,
};
use congestion::Congestion;
use parity::Parity;

type Context = crate::blocks::MachineContext<Timer>;

/// Sends data, SPMs, NCFs and repairs.
#[derive(Debug)]
pub struct PgmSource {
    tsi: Tsi,
    destination_port: u16,
    /// Address of the source, the path of its own SPMs.
    path: IpAddr,
    group_address: IpAddr,
    link_overhead: u64,
    window: TransmitWindow,
    /// Parity packets, if the source offers them.
    parity: Option<Parity>,
    /// Congestion control, if the source has one.
    congestion: Option<Congestion>,
    pace: TokenBucket,
    /// True if repairs count against the rate too (section 5.1.1, window that advances with data).
    paces_repairs: bool,
    txw_secs: Duration,
    spm_ivl: Duration,
    ihb_min: Duration,
    /// Back-off of heartbeat SPMs (IHB_MIN to IHB_MAX).
    heartbeats: Heartbeats,
    rdata_delay: Duration,
    rdata_holdoff: Duration,
    members: Members,
    /// Repair budget for each member; all other requesters, such as routers, share one.
    budget: RepairBudget<Option<usize>>,
    join: bool,
    /// Interval of POLLs for designated local repairers; `None` without them.
    poll_ivl: Option<Duration>,
    poll_back_off_us: u32,
    poll_sqn: u32,
    poll_due: bool,
    spm_sqn: u32,
    spm_due: bool,
    /// Number of further SPMs that precede all data.
    opening_spms: u32,
    last_spm: Option<Time>,
    /// NCFs to send, oldest first: the NAK that each repeats, its list, and true if they count parity packets.
    confirmations: VecDeque<(Nak, Box<[u8]>, bool)>,
    /// Sequence numbers of repairs to send.
    repairs: BTreeSet<u64>,
    finished: bool,
    /// True once the host has finished and the whole window was sent.
    closed: bool,
}

/// Timers of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The trailing edge advances, or room for a message may appear.
    Advance,
    /// Next ambient SPM (SPM_AMBIENT_IVL).
    Ambient,
    /// Next POLL for designated local repairers.
    Poll,
    /// Next heartbeat SPM.
    Heartbeat,
    /// Next SPM before the first data, after IHB_MIN.
    Opening,
    /// End of the SPMs that announce the end of the session (TXW_SECS after the last packet).
    SessionEnd,
    /// The rate limit allows the next packet.
    Pace,
    /// No acknowledgment of the acker came.
    Ack,
    /// Repair of this packet, after RDATA_DELAY.
    Repair(u64),
    /// Repair of this transmission group by parity, after RDATA_DELAY.
    Parity(u64),
}

impl PgmSource {
    /// Creates the source of a session.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        refuse_zeromq_port(destination_port(settings)?, &build.addresses)?;
        // Receivers of a session know the source before its first SPM.
        PgmSource::with_tsi(tsi(build.association), 1, build, settings)
    }

    /// Creates a source that has this identity on the wire. It sends `opening_spms` SPMs before the first data,
    /// IHB_MIN apart.
    pub(super) fn with_tsi(
        tsi: Tsi,
        opening_spms: u32,
        build: &BuildContext,
        settings: &Config,
    ) -> Result<Player<Self>, ConfigError> {
        let span = |name| settings.span(name).at(build.bit_rate);
        let interval = |name| interval(settings, build.bit_rate, name);
        let with_data = settings.choice("window_advance") == "data";
        let advance = match with_data {
            true => Advance::WithData(span("txw_adv_ivl")),
            false => Advance::WithTime(interval("txw_secs")?),
        };
        let rate = FixedRate(settings.rate("txw_max_rte")).rate();
        let burst = settings.size("txw_burst").0;
        Ok(PgmSource {
            tsi,
            destination_port: destination_port(settings)?,
            path: address_of(&build.addresses, build.node),
            group_address: build.addresses.of_group(build.group),
            link_overhead: build.link_overhead.into(),
            window: TransmitWindow::new(advance, settings.count("txw_sqns") as usize),
            parity: Parity::new(settings),
            congestion: Congestion::new(settings),
            // Section 5.1.1: TXW_MAX_RTE limits the rate by a token bucket.
            pace: TokenBucket::new(rate, rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(burst))),
            paces_repairs: with_data,
            txw_secs: interval("txw_secs")?,
            spm_ivl: interval("spm_ivl")?,
            ihb_min: interval("ihb_min")?,
            heartbeats: Heartbeats::new(Doubling { first: interval("ihb_min")?, most: interval("ihb_max")? }),
            rdata_delay: span("rdata_delay"),
            rdata_holdoff: span("rdata_holdoff"),
            members: Members::new(build.members.clone()),
            budget: RepairBudget::new(settings.count("repair_budget")),
            join: settings.switch("join"),
            poll_ivl: (settings.count("dlr_every") > 0).then(|| interval("dlr_poll_ivl")).transpose()?,
            poll_back_off_us: u32::try_from(span("poll_bo_ivl").as_micros()).unwrap_or(u32::MAX),
            poll_sqn: 0,
            poll_due: false,
            spm_sqn: 0,
            spm_due: false,
            opening_spms: opening_spms - 1,
            last_spm: None,
            confirmations: VecDeque::new(),
            repairs: BTreeSet::new(),
            finished: false,
            closed: false,
        }
        .play(build))
    }

    /// Handles a NAK (section 5.3): confirms it at once, and schedules repairs of packets in the window.
    fn on_nak(&mut self, context: &mut Context, from: NodeId, nak: Nak, options: Options<'_>) {
        let list = options.nak_list;
        if nak.group != self.group_address {
            return context.events.dropped(DropReason::Foreign);
        }
        let (requester, expected) = (self.members.index_of(from), self.window.next());
        let left = self.budget.left(requester, expected);
        if left == 0 {
            // The requester's repair budget is spent: its NAKs neither keep packets in the window nor get an NCF.
            return context.events.dropped(DropReason::Redundant);
        }
        let (mut held, mut new) = (false, 0);
        for sqn in numbers(nak, list) {
            let more = match options.parity {
                true => self.request_parity(context, sqn, left - new),
                false => self.request_packet(context, near(sqn, expected), left - new),
            };
            let Some(more) = more else { continue };
            held = true;
            new += more;
        }
        if !held {
            // A NAK outside the window shows that the requester does not know it: an SPM announces it.
            context.events.dropped(DropReason::OutOfWindow);
            return self.request_spm(context);
        }
        self.budget.spend(requester, new);
        // Only a NAK that causes a repair counts as received; an NCF answers either kind.
        match new {
            0 => context.events.dropped(DropReason::Redundant),
            _ => context.events.received("nak", near(nak.sqn, expected)),
        }
        let confirmation = (nak, list.as_bytes().into(), options.parity);
        // An identical NCF at the end of the queue would add nothing.
        if self.confirmations.len() < MAX_PENDING_CONFIRMATIONS
            && self.confirmations.back() != Some(&confirmation)
        {
            self.confirmations.push_back(confirmation);
        }
    }

    /// Schedules the repair of a packet, if `left` permits one. Returns the number of new repairs; none if the packet
    /// is not in the window.
    fn request_packet(&mut self, context: &mut Context, number: u64, left: u64) -> Option<u64> {
        let slot = self.window.asked(context.now, number)?;
        // A packet repaired within the hold-off, or already scheduled, needs no further repair.
        let again = slot.repaired.is_over(context.now, (), self.rdata_holdoff);
        if slot.pending || !again || left == 0 {
            return Some(0);
        }
        slot.pending = true;
        match self.rdata_delay.is_zero() {
            true => drop(self.repairs.insert(number)),
            false => context.timers.arm(Timer::Repair(number), context.now + self.rdata_delay),
        }
        Some(1)
    }

    /// Handles an N-NAK of a designated local repairer: keeps the named packets in the window as if they were
    /// requested, without repairing them.
    fn on_nnak(&mut self, context: &mut Context, nak: Nak, list: NakList<'_>) {
        let expected = self.window.next();
        for sqn in numbers(nak, list) {
            self.window.asked(context.now, near(sqn, expected));
        }
        context.events.received("n-nak", near(nak.sqn, expected));
    }

    /// Handles the report in a NAK or N-NAK.
    fn on_report(&mut self, context: &mut Context, from: NodeId, report: Option<LossReport>) {
        if let (Some(congestion), Some(report)) = (&mut self.congestion, report) {
            congestion.on_report(context.now, self.window.next(), from, report);
        }
    }

    /// Handles the acknowledgment of an acker, or of a receiver that would be one.
    fn on_ack(&mut self, context: &mut Context, from: NodeId, ack: Ack, report: Option<LossReport>) {
        let next = self.window.next();
        let (Some(congestion), Some(report)) = (&mut self.congestion, report) else {
            return context.events.dropped(DropReason::Foreign);
        };
        if !congestion.on_ack(context.now, next, from, ack, report) {
            return context.events.dropped(DropReason::Redundant);
        }
        context.events.received("ack", near(ack.newest, next));
        match congestion.awaits(next) {
            true => context.timers.arm(Timer::Ack, context.now + congestion.timeout()),
            false => drop(context.timers.cancel(Timer::Ack)),
        }
    }

    /// Starts the wait for an acknowledgment with the first packet in flight.
    fn await_ack(&mut self, context: &mut Context) {
        if let Some(congestion) = &self.congestion
            && context.timers.armed(Timer::Ack).is_none()
        {
            context.timers.arm(Timer::Ack, context.now + congestion.timeout());
        }
    }

    /// Returns true if the congestion window holds no further data packet.
    fn is_window_full(&self) -> bool {
        self.congestion.as_ref().is_some_and(|congestion| !congestion.has_room(self.window.next()))
    }

    /// Schedules an SPM, unless one was sent within IHB_MIN (section 5.2).
    fn request_spm(&mut self, context: &mut Context) {
        self.spm_due |= self.last_spm.is_none_or(|last| context.now.since(last) >= self.ihb_min);
    }

    /// Ends the session once the host has finished and every packet was sent: announces it with OPT_FIN at once and
    /// for TXW_SECS.
    fn close_when_sent(&mut self, context: &mut Context) {
        let sends_parity = self.parity.as_ref().is_some_and(Parity::has_proactive);
        if self.finished && !self.closed && self.window.is_sent() && !sends_parity && self.opening_spms == 0 {
            self.closed = true;
            self.spm_due = true;
            context.timers.arm(Timer::Heartbeat, context.now + self.heartbeats.restart());
            context.timers.arm(Timer::SessionEnd, context.now + self.txw_secs);
        }
    }

    fn arm_advance(&mut self, context: &mut Context) {
        if let Some(at) = self.window.next_advance() {
            context.timers.arm(Timer::Advance, at);
        }
    }

    fn packet<'a>(&self, body: Body<'a>, options: Options<'a>) -> Packet<'a> {
        Packet { tsi: self.tsi, destination_port: self.destination_port, body, options }
    }

    fn emit_confirmation(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (nak, list, parity) = self.confirmations.pop_front()?;
        self.packet(Body::Ncf(nak), Options { parity, ..Options::listing(&list) }).emit(buf);
        context.events.control("ncf", near(nak.sqn, self.window.next()));
        Some(context.to_group())
    }

    fn emit_spm(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        self.spm_due = false;
        self.last_spm = Some(context.now);
        let (trail, lead) = (wire(self.window.trail()), wire(self.window.next()).wrapping_sub(1));
        let spm = Spm { sqn: self.spm_sqn, trail, lead, path: self.path };
        let parity_parameters = self.parity.as_ref().map(|parity| parity.offer.parameters());
        let options = Options {
            join: self.join.then_some(trail),
            fin: self.closed,
            parity_parameters,
            ..Options::default()
        };
        self.packet(Body::Spm(spm), options).emit(buf);
        self.spm_sqn = self.spm_sqn.wrapping_add(1);
        self.pace.spend(context.now, buf.len() as u64 + self.link_overhead);
        context.events.control("spm", self.window.next().saturating_sub(1));
        context.to_group()
    }

    /// Emits a POLL that asks designated local repairers to answer their parents. Each network element replaces the
    /// path by its own address.
    fn emit_poll(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        self.poll_due = false;
        let poll = Poll {
            sqn: self.poll_sqn,
            round: 0,
            subtype: Poll::REPAIRERS,
            path: self.path,
            back_off_us: self.poll_back_off_us,
            random: 0,
            mask: 0,
        };
        self.packet(Body::Poll(poll), Options::default()).emit(buf);
        context.events.control("poll", self.poll_sqn);
        self.poll_sqn = self.poll_sqn.wrapping_add(1);
        context.to_group()
    }

    fn emit_repair(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(number) = self.repairs.pop_first() {
            let trail = wire(self.window.trail());
            // The packet may have left the window since the NAK.
            let Some(slot) = self.window.send_again(context.now, number, self.rdata_holdoff) else {
                continue;
            };
            let data = Data { sqn: wire(number), trail, payload: &slot.payload.clone() };
            self.packet(Body::Rdata(data), Options::default()).emit(buf);
            if self.paces_repairs {
                self.pace.spend(context.now, buf.len() as u64 + self.link_overhead);
            }
            let to_group = context.to_group();
            return Some(context.events.data_sent(to_group, MessageId(number), buf.len(), true));
        }
        None
    }

    fn emit_data(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let trail = wire(self.window.trail());
        let (number, slot) = self.window.send_next(context.now)?;
        let data = Data { sqn: wire(number), trail, payload: &slot.payload.clone() };
        let election = self.congestion.as_ref().map(|congestion| congestion.election(context.now, self.path));
        let options = Options { election, ..Options::default() };
        self.packet(Body::Odata(data), options).emit(buf);
        self.await_ack(context);
        self.pace.spend(context.now, buf.len() as u64 + self.link_overhead);
        context.timers.arm(Timer::Heartbeat, context.now + self.heartbeats.restart());
        self.arm_advance(context);
        self.note_sent(number);
        let to_group = context.to_group();
        Some(context.events.data_sent(to_group, MessageId(number), buf.len(), false))
    }
}

impl Part for PgmSource {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.window.next() - self.window.trail())
    }

    /// Schedules the first SPMs, which precede all data (section 5.2), and the first POLL.
    fn start(&mut self, context: &mut Context) {
        self.on_timer(context, Timer::Ambient);
        if self.opening_spms > 0 {
            context.timers.arm(Timer::Opening, context.now + self.ihb_min);
        }
        self.on_timer(context, Timer::Poll);
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Advance => {
                self.window.on_time(context.now);
                self.arm_advance(context);
            }
            Timer::Ambient => {
                self.spm_due = true;
                context.timers.arm(Timer::Ambient, context.now + self.spm_ivl);
            }
            Timer::Poll => {
                if let Some(interval) = self.poll_ivl {
                    self.poll_due = true;
                    context.timers.arm(Timer::Poll, context.now + interval);
                }
            }
            Timer::Heartbeat => {
                self.spm_due = true;
                context.timers.arm(Timer::Heartbeat, context.now + self.heartbeats.beat());
            }
            Timer::Opening => {
                self.spm_due = true;
                self.opening_spms -= 1;
                if self.opening_spms > 0 {
                    context.timers.arm(Timer::Opening, context.now + self.ihb_min);
                }
            }
            Timer::SessionEnd => {
                context.timers.cancel(Timer::Ambient);
                context.timers.cancel(Timer::Heartbeat);
                context.timers.cancel(Timer::Poll);
            }
            Timer::Pace => {}
            Timer::Ack => {
                if let Some(congestion) = &mut self.congestion {
                    congestion.on_silence(context.now, self.window.next());
                }
            }
            Timer::Repair(number) => drop(self.repairs.insert(number)),
            Timer::Parity(group) => self.end_parity_delay(group),
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let session = (Some(self.tsi), self.destination_port);
        let Some(packet) = parse(&mut context.events, session, datagram.bytes) else { return };
        match packet.body {
            Body::Nak(nak) => {
                self.on_report(context, datagram.source, packet.options.report);
                self.on_nak(context, datagram.source, nak, packet.options);
            }
            Body::Nnak(nak) => {
                self.on_report(context, datagram.source, packet.options.report);
                self.on_nnak(context, nak, packet.options.nak_list);
            }
            Body::Ack(ack) => self.on_ack(context, datagram.source, ack, packet.options.report),
            Body::Spmr => {
                context.events.received("spmr", self.window.next().saturating_sub(1));
                self.request_spm(context);
            }
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    /// Emits NCFs first, then SPMs and POLLs, repairs, and new data last (section 5.1.1).
    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.emit_confirmation(context, buf) {
            return Some(transmit);
        }
        if self.spm_due {
            return Some(self.emit_spm(context, buf));
        }
        if self.poll_due {
            return Some(self.emit_poll(context, buf));
        }
        // A window that advances with time keeps repairs out of the rate limit: they cannot wait.
        let blocked = self.pace.ready_at(context.now);
        if (blocked.is_none() || !self.paces_repairs)
            && let Some(transmit) =
                self.emit_repair(context, buf).or_else(|| self.emit_requested_parity(context, buf))
        {
            return Some(transmit);
        }
        if let Some(at) = blocked {
            let waits = |parity: &Parity| parity.has_proactive() || parity.has_requested();
            if !self.window.is_sent() || !self.repairs.is_empty() || self.parity.as_ref().is_some_and(waits) {
                context.timers.arm(Timer::Pace, at);
            }
            return None;
        }
        if self.opening_spms > 0 {
            return None;
        }
        let transmit = self.emit_proactive_parity(context, buf).or_else(|| match self.is_window_full() {
            true => None,
            false => self.emit_data(context, buf),
        });
        self.close_when_sent(context);
        transmit
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if payload.len() > MAX_TSDU {
            return Err(OfferError::TooLarge { len: payload.len(), max: MAX_TSDU });
        }
        self.window.push(context.now, payload).map(MessageId).map_err(|until| {
            if let Some(at) = until {
                context.timers.arm(Timer::Advance, at);
            }
            OfferError::Full
        })
    }

    fn finish(&mut self, context: &mut Context) {
        self.finished = true;
        self.close_when_sent(context);
    }

    fn is_finished(&self) -> bool {
        self.closed
    }
}

/// Maximum number of NCFs that wait for the port; further NAKs are repaired without one.
const MAX_PENDING_CONFIRMATIONS: usize = 1024;
