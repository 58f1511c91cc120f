//! The NORM sender (RFC 5740, section 5.3): new data, repair cycles, probes and FLUSH commands.

mod plain;
mod plain_stream;
mod repairing;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, MessageId, NodeId, ObservedState, OfferError, Received,
    Role, TokenBucket, Transmit,
};
use carillon_wire::norm::{
    Body, Command, Extensions, Item, Nodes, Object, Packet, Position, SenderState, StreamHeader,
    Transmission, encode_group_size, encode_rate,
};

use super::config::{HEADER_LEN, Shape, positive};
use super::confirmations::Confirmations;
use super::congestion::GroupRate;
pub use super::cycle::Timer;
use super::cycle::{Cycle, Pending, Probing};
use super::grtt::{GroupRoundTrip, stamp};
use super::identity::{instance, parse, sender_id, truncate_block};
use super::repairs::Wants;
use super::states::STATES;
use crate::blocks::{
    Advance, FixedRate, MachineContext, Members, Part, Player, RateControl, RepairBudget, TransmitWindow,
};
use plain_stream::PlainStream;

type Context = MachineContext<Timer>;

/// Sends data, repairs and commands.
#[derive(Debug)]
pub struct NormSender {
    id: u32,
    instance: u16,
    sequence: u16,
    policy: Policy,
    grtt: GroupRoundTrip,
    /// Control of the rate; `None` if it is fixed.
    congestion: Option<GroupRate>,
    window: TransmitWindow,
    /// Bytes of the stream before the next message.
    offset: u64,
    pace: TokenBucket,
    /// Numbers of parity symbols that were sent, of blocks that had any.
    parity_sent: BTreeMap<u64, u8>,
    /// Automatic parity to send: block and number of symbols.
    automatic: VecDeque<(u64, u8)>,
    cycle: Cycle,
    /// Requests that are collected for the next repairs.
    collected: Wants,
    /// Repairs to send.
    repairs: Wants,
    members: Members,
    /// Repair budget for each member; all other requesters share one.
    budget: RepairBudget<Option<usize>>,
    /// Acknowledgments of the receivers that FLUSH commands of a plain session name.
    confirmations: Confirmations,
    probing: Probing,
    pending: Pending,
    /// Number of FLUSH commands that are left.
    flushes: u64,
    finished: bool,
    /// True once the host has finished and every message was sent; in plain sessions after EOT.
    closed: bool,
    /// State of a plain session; `None` in sessions of Carillon.
    plain: Option<PlainStream>,
}

/// Settings of the sender.
#[derive(Clone, Copy, Debug)]
struct Policy {
    shape: Shape,
    auto_parity: u8,
    backoff: u8,
    group_size: u8,
    robust: u64,
    unicast: bool,
    link_overhead: u64,
    rate: u16,
    segment: u16,
    most_request_bytes: usize,
}

impl NormSender {
    /// Creates the sender of a session.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let (shape, cache) = (Shape::new(settings)?, settings.count("cache"));
        Ok(Self::with_shape(shape, cache, build, settings)?.play(build))
    }

    /// Creates the sender of a session with blocks of these sizes, and with room for `cache` messages.
    fn with_shape(
        shape: Shape,
        cache: u64,
        build: &BuildContext,
        settings: &Config,
    ) -> Result<Self, ConfigError> {
        let rate = FixedRate(settings.rate("rate")).rate();
        let span = |name| positive(settings, build.bit_rate, name);
        let burst = settings.size("burst").0;
        let least = span("grtt_min")?;
        let most = rate.unwrap_or(build.bit_rate);
        let bytes_per_second = most.bps() as f64 / 8.0;
        let packet = u64::from(build.max_payload) + HEADER_LEN as u64 + u64::from(build.link_overhead);
        let congestion = GroupRate::new(settings, (most, packet), span("grtt")?)?;
        let paced = congestion.as_ref().map_or(rate, GroupRate::bit_rate);
        Ok(NormSender {
            id: sender_id(build.association),
            instance: instance(build.association),
            sequence: 0,
            policy: Policy {
                shape,
                auto_parity: settings.count("auto_parity").min(shape.parity.into()) as u8,
                backoff: settings.count("backoff_factor") as u8,
                group_size: encode_group_size(settings.count("group_size")),
                robust: settings.count("robust_factor"),
                unicast: settings.choice("feedback") == "unicast",
                link_overhead: build.link_overhead.into(),
                rate: encode_rate(bytes_per_second),
                segment: build.max_payload.min(u16::MAX.into()) as u16,
                most_request_bytes: settings.count("nack_bytes") as usize,
            },
            grtt: GroupRoundTrip::new(span("grtt")?, least, span("grtt_max")?),
            congestion,
            window: TransmitWindow::new(
                Advance::WithData(settings.span("cache_time").at(build.bit_rate)),
                cache as usize,
            ),
            offset: 0,
            pace: TokenBucket::new(paced, rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(burst))),
            parity_sent: BTreeMap::new(),
            automatic: VecDeque::new(),
            cycle: Cycle::Normal,
            collected: Wants::default(),
            repairs: Wants::default(),
            members: Members::new(build.members.clone()),
            budget: RepairBudget::new(settings.count("repair_budget")),
            confirmations: Confirmations::default(),
            probing: Probing { sequence: 0, interval: least, most: span("probe_max")?, active: false },
            pending: Pending::default(),
            flushes: 0,
            finished: false,
            closed: false,
            plain: None,
        })
    }

    /// Emits a packet of the sender.
    fn emit(&mut self, body: Body<'_>, extensions: Extensions<'_>, buf: &mut Vec<u8>) {
        Packet { sequence: self.sequence, source: self.id, body, extensions }.emit(buf);
        self.sequence = self.sequence.wrapping_add(1);
    }

    fn state(&self) -> SenderState {
        SenderState {
            instance: self.instance,
            grtt: self.grtt.code(),
            backoff: self.policy.backoff,
            group_size: self.policy.group_size,
        }
    }

    fn position(&self, number: u64) -> Position {
        let (block, symbol) = self.policy.shape.place(number);
        Position::Rs8 { block: truncate_block(block), symbol }
    }

    fn emit_command(&mut self, command: Command<'_>, extensions: Extensions<'_>, buf: &mut Vec<u8>) {
        self.emit(Body::Command { sender: self.state(), command }, extensions, buf);
    }

    /// Emits a symbol with the transmission information of the stream.
    fn emit_symbol(&mut self, place: (u64, u8), flags: u8, symbol: &[u8], buf: &mut Vec<u8>) {
        let Shape { block, parity } = self.policy.shape;
        let mut information = Vec::with_capacity(12);
        let transmission = Transmission {
            // Size of the sender's buffer, in sessions of Carillon as far as this stream has used it.
            size: match &self.plain {
                Some(plain) => plain.buffer(),
                None => (self.window.next() - self.window.trail()) * u64::from(self.policy.segment),
            },
            segment: self.policy.segment,
            block: block as u16,
            parity: parity.into(),
            bits: 8,
        };
        Extensions::push_rs8(&mut information, transmission);
        let object = Object { id: STREAM, flags: Object::STREAM | flags };
        let position = Position::Rs8 { block: truncate_block(place.0), symbol: place.1 };
        let body = Body::Data { sender: self.state(), object, position, payload: symbol };
        // An extension that was just written is whole.
        self.emit(body, Extensions::new(&information).unwrap_or_default(), buf);
    }

    fn emit_probe(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        self.pending.probe = false;
        let sequence = self.probing.next_sequence();
        let nodes = self.congestion.as_ref().map(GroupRate::nodes).unwrap_or_default();
        let command = Command::Probe { sequence, sent: stamp(context.now), nodes: &nodes };
        let mut rate = Vec::with_capacity(4);
        Extensions::push_rate(&mut rate, self.congestion.as_ref().map_or(self.policy.rate, GroupRate::code));
        self.emit_command(command, Extensions::new(&rate).unwrap_or_default(), buf);
        context.events.control("cc", self.window.next().saturating_sub(1));
        context.to_group()
    }

    /// Emits a command other than a probe that is due.
    fn emit_other_command(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let last = self.window.next().saturating_sub(1);
        let none = Extensions::default();
        if std::mem::take(&mut self.pending.squelch) {
            let trail = self.window.trail();
            let position = self.position(trail);
            self.emit_command(Command::Squelch { object: STREAM, position, invalid: &[] }, none, buf);
            context.events.control("squelch", trail);
        } else if std::mem::take(&mut self.pending.advertise) {
            let (bytes, all) = self.collected.write(STREAM, self.policy.most_request_bytes);
            let Ok(requests) = carillon_wire::norm::Requests::new(&bytes) else { return None };
            self.emit_command(Command::RepairAdvertisement { limited: !all, requests }, none, buf);
            context.events.control("repair_adv", last);
        } else if std::mem::take(&mut self.pending.flush) {
            let item = Item { object: STREAM, position: self.position(last) };
            let nodes = self.confirmations.name(item, self.policy.segment.into());
            let nodes = Nodes::new(&nodes).unwrap_or_default();
            let Item { object, position } = item;
            self.emit_command(Command::Flush { object, position, nodes }, none, buf);
            context.events.control("flush", last);
        } else if std::mem::take(&mut self.pending.end) {
            self.emit_command(Command::End, none, buf);
            context.events.control("eot", last);
            self.closed |= self.plain.is_some();
        } else {
            return None;
        }
        Some(context.to_group())
    }

    fn emit_data(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (number, slot) = self.window.send_next(context.now)?;
        let (symbol, shape) = (slot.payload.clone(), self.policy.shape);
        let (block, place) = shape.place(number);
        self.emit_symbol((block, place), 0, &symbol, buf);
        if u64::from(place) + 1 == shape.block && self.policy.auto_parity > 0 {
            self.automatic.push_back((block, self.policy.auto_parity));
        }
        self.on_activity(context);
        let to_group = context.to_group();
        Some(context.events.data_sent(to_group, MessageId(number), buf.len(), false))
    }

    /// Starts the FLUSH commands anew, two round-trip times from now, since the end of the data has moved.
    fn on_activity(&mut self, context: &mut Context) {
        self.flushes = self.policy.robust;
        if !self.probing.active {
            // After silence the next probe is due soon again.
            self.probing.active = true;
            let soon = context.now + self.grtt.value();
            if context.timers.armed(Timer::Probe).is_none_or(|at| at > soon) {
                context.timers.arm(Timer::Probe, soon);
            }
        }
        context.timers.arm(Timer::Flush, context.now + 2 * self.grtt.value());
    }

    fn on_probe_timer(&mut self, context: &mut Context) {
        if self.closed && self.plain.is_some() {
            return;
        }
        self.pending.probe = true;
        self.grtt.on_probe();
        let shortest = self.grtt.value();
        let shortest =
            GroupRate::probe(&mut self.congestion, &mut self.pace, context.now, &self.probing, shortest);
        let interval = self.probing.next_interval(shortest);
        context.timers.arm(Timer::Probe, context.now + interval);
    }

    /// Returns true if all receivers that were named have everything that was offered.
    fn is_confirmed(&self) -> bool {
        let last = self.position(self.window.next().saturating_sub(1));
        self.window.is_sent() && self.confirmations.have_all(Item { object: STREAM, position: last })
    }

    /// Handles an ACK. The last one of a session that is finished ends it.
    fn on_ack(&mut self, context: &mut Context, source: u32, kind: u8, payload: &[u8]) {
        context.events.received("ack", 0u64);
        if self.confirmations.on_ack(source, kind, payload) && self.is_confirmed() {
            context.timers.arm(Timer::Flush, context.now);
        }
    }

    fn on_flush_timer(&mut self, context: &mut Context) {
        let idle = self.window.is_sent() && self.repairs.is_empty() && self.window.next() > 0;
        if idle && (self.flushes == 0 || self.is_confirmed()) {
            // Nothing more follows, and the last FLUSH was 2 round-trip times ago.
            self.pending.end = self.finished && !(self.closed && self.plain.is_some());
            return;
        }
        if idle {
            self.pending.flush = true;
            self.flushes -= 1;
        }
        context.timers.arm(Timer::Flush, context.now + 2 * self.grtt.value());
    }

    fn close_when_sent(&mut self) {
        self.closed |= self.finished && self.window.is_sent() && self.plain.is_none();
    }
}

impl Part for NormSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.window.next() - self.window.trail())
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let state = self.cycle.name();
        tell(ObservedState { of: STATES[0].of, about: 0, state, turn: 0 });
    }

    /// Sends the first probe at once.
    fn start(&mut self, context: &mut Context) {
        self.on_probe_timer(context);
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Pace => {}
            Timer::Advance => self.end_stream(context),
            Timer::Cycle => self.on_cycle_timer(context),
            Timer::Probe => self.on_probe_timer(context),
            Timer::Flush => self.on_flush_timer(context),
            Timer::Advertise => self.pending.advertise = !self.collected.is_empty(),
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = parse(&mut context.events, datagram.bytes) else { return };
        let (Body::Nack { response, .. } | Body::Ack { response, .. }) = packet.body else {
            return context.events.dropped(DropReason::Foreign);
        };
        if (response.sender, response.instance) != (self.id, self.instance) {
            return context.events.dropped(DropReason::Foreign);
        }
        let trip = self.grtt.on_answer(context.now, response.echo);
        if let (Some(rate), Some(state)) = (&mut self.congestion, packet.extensions.congestion()) {
            rate.on_answer(context.now, packet.source, state, trip);
            self.pace.set_rate(context.now, rate.bit_rate());
        }
        match packet.body {
            Body::Nack { requests, .. } => self.on_nack(context, datagram.source, requests),
            Body::Ack { kind, payload, .. } => self.on_ack(context, packet.source, kind, payload),
            _ => {}
        }
    }

    /// Emits commands first, then repairs, automatic parity, and new data last.
    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = match self.pending.probe {
            true => Some(self.emit_probe(context, buf)),
            false => self.emit_other_command(context, buf),
        };
        if transmit.is_some() {
            self.pace.spend(context.now, buf.len() as u64 + self.policy.link_overhead);
            return transmit;
        }
        if let Some(at) = self.pace.ready_at(context.now) {
            if !self.window.is_sent() || !self.repairs.is_empty() || !self.automatic.is_empty() {
                context.timers.arm(Timer::Pace, at);
            }
            return None;
        }
        let transmit = self
            .emit_repair(context, buf)
            .or_else(|| self.emit_automatic(context, buf))
            .or_else(|| self.emit_data(context, buf));
        if transmit.is_some() {
            self.pace.spend(context.now, buf.len() as u64 + self.policy.link_overhead);
        }
        self.close_when_sent();
        transmit
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        // Each message of a session of Carillon is one piece of the stream.
        let (message_start, payload) = match &self.plain {
            Some(_) => plain_stream::piece(payload),
            None => (1, payload),
        };
        self.push(context, message_start, &payload)
    }

    fn finish(&mut self, context: &mut Context) {
        self.finished = true;
        self.end_stream(context);
        self.close_when_sent();
    }

    /// A member of a plain session is a receiver with this identifier that is to confirm everything.
    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        self.confirmations.awaits(member)
    }

    fn is_finished(&self) -> bool {
        self.closed
    }
}

impl NormSender {
    /// Adds a symbol to the stream.
    fn push(
        &mut self,
        context: &mut Context,
        message_start: u16,
        content: &[u8],
    ) -> Result<MessageId, OfferError> {
        let max = u16::MAX as usize - StreamHeader::LEN;
        let length = content.len();
        if length > max {
            return Err(OfferError::TooLarge { len: length, max });
        }
        let mut symbol = Vec::with_capacity(StreamHeader::LEN + length);
        let header = StreamHeader { length: length as u16, message_start, offset: self.offset as u32 };
        header.emit(&mut symbol);
        symbol.extend_from_slice(content);
        match self.window.push(context.now, symbol.into()) {
            Ok(number) => {
                self.offset += length as u64;
                self.forget_dropped();
                Ok(MessageId(number))
            }
            Err(until) => {
                if let Some(at) = until {
                    context.timers.arm(Timer::Advance, at);
                }
                Err(OfferError::Full)
            }
        }
    }
}

/// Requester of repairs: a member's index, or everyone else.
type Requester = Option<usize>;

/// Object number of the stream.
pub(super) const STREAM: u16 = 0;
