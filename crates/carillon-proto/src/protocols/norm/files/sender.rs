//! Sender of files: objects in turn, repair cycles, probes and FLUSH commands (RFC 5740, 5.1 to 5.5).

mod repairing;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, DropReason, MessageId, NodeId, ObservedState, OfferError, Received,
    Role, Time, TokenBucket, Transmit,
};
use carillon_wire::norm::{
    Body, Command, Extensions, Item, Nodes, Object, Packet, SenderState, StreamHeader, encode_group_size,
    encode_rate,
};

use super::super::config::{HEADER_LEN, positive};
use super::super::confirmations::Confirmations;
use super::super::congestion::GroupRate;
pub use super::super::cycle::Timer;
use super::super::cycle::{Cycle, Pending, Probing};
use super::super::grtt::{GroupRoundTrip, stamp};
use super::super::identity::{instance, parse, sender_id};
use super::super::states::STATES;
use super::code::Code;
use super::geometry::{Geometry, Shape};
use super::names;
use super::needs::Needs;
use crate::blocks::{FixedRate, MachineContext, Part, Player, RateControl, RepairBudget};
use crate::plain::NamedFile;

type Context = MachineContext<Timer>;

/// Sends files and repairs them.
#[derive(Debug)]
pub struct NormFileSender {
    id: u32,
    instance: u16,
    sequence: u16,
    policy: Policy,
    grtt: GroupRoundTrip,
    /// Control of the rate; `None` if it is fixed.
    congestion: Option<GroupRate>,
    /// Files that are sent or may be requested.
    files: BTreeMap<u64, Outgoing>,
    /// Number of the next file.
    next: u64,
    /// Place of the next packet with new contents.
    cursor: Cursor,
    pace: TokenBucket,
    cycle: Cycle,
    /// Requests that are collected for the next repairs.
    collected: Needs,
    /// Repairs to send.
    repairs: Needs,
    budget: RepairBudget<()>,
    /// Number of symbols that were sent first.
    sent: u64,
    /// Acknowledgments of the receivers that FLUSH commands name.
    confirmations: Confirmations,
    probing: Probing,
    pending: Pending,
    /// Number of FLUSH commands that are left.
    flushes: u64,
    /// True if the information of the last file is to be sent again.
    informs: bool,
    finished: bool,
    closed: bool,
}

/// Settings of the sender.
#[derive(Clone, Copy, Debug)]
struct Policy {
    shape: Shape,
    auto_parity: u16,
    backoff: u8,
    group_size: u8,
    robust: u64,
    link_overhead: u64,
    rate: u16,
    segment: u16,
    most_request_bytes: usize,
    buffer: u64,
    cache_time: Duration,
}

/// File that is sent or may be requested.
#[derive(Debug)]
struct Outgoing {
    information: Vec<u8>,
    content: Bytes,
    geometry: Geometry,
    /// Number of parity symbols that were sent, of blocks that had any.
    parity_sent: BTreeMap<u64, u16>,
    /// Last time at which a part of it was sent.
    touched: Time,
}

/// Place of the next packet with new contents: the information of a file comes before its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    file: u64,
    is_informed: bool,
    block: u64,
    symbol: u16,
}

impl NormFileSender {
    /// Creates the sender of a plain session.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let (shape, rate) = (Shape::new(settings)?, FixedRate(settings.rate("rate")).rate());
        let span = |name| positive(settings, build.bit_rate, name);
        let burst = settings.size("burst").0;
        let least = span("grtt_min")?;
        let most = rate.unwrap_or(build.bit_rate);
        let bytes_per_second = most.bps() as f64 / 8.0;
        let packet = u64::from(build.max_payload) + HEADER_LEN as u64 + u64::from(build.link_overhead);
        let congestion = GroupRate::new(settings, (most, packet), span("grtt")?)?;
        let paced = congestion.as_ref().map_or(rate, GroupRate::bit_rate);
        // Files have no header of a stream, and other codes a longer extension.
        let room = u64::from(build.max_payload) + StreamHeader::LEN as u64 + Code::Rs8.extension_len();
        let segment = shape.code.segment(room.saturating_sub(shape.code.extension_len()));
        Ok(NormFileSender {
            id: sender_id(build.association),
            instance: instance(build.association),
            sequence: 0,
            policy: Policy {
                shape,
                auto_parity: settings.count("auto_parity").min(shape.parity.into()) as u16,
                backoff: settings.count("backoff_factor") as u8,
                group_size: encode_group_size(settings.count("group_size")),
                robust: settings.count("robust_factor"),
                link_overhead: build.link_overhead.into(),
                rate: encode_rate(bytes_per_second),
                segment,
                most_request_bytes: settings.count("nack_bytes") as usize,
                buffer: settings.size("send_buffer").0,
                cache_time: span("cache_time")?,
            },
            grtt: GroupRoundTrip::new(span("grtt")?, least, span("grtt_max")?),
            congestion,
            files: BTreeMap::new(),
            next: 0,
            cursor: Cursor { file: 0, is_informed: false, block: 0, symbol: 0 },
            pace: TokenBucket::new(paced, rate.map_or(Duration::ZERO, |rate| rate.time_for_bytes(burst))),
            cycle: Cycle::Normal,
            collected: Needs::default(),
            repairs: Needs::default(),
            budget: RepairBudget::new(settings.count("repair_budget")),
            sent: 0,
            confirmations: Confirmations::of(&build.members),
            probing: Probing { sequence: 0, interval: least, most: span("probe_max")?, active: false },
            pending: Pending::default(),
            flushes: 0,
            informs: false,
            finished: false,
            closed: false,
        }
        .play(build))
    }

    /// True if every file was sent once.
    fn is_sent(&self) -> bool {
        self.cursor.file == self.next
    }

    /// Emits a packet of the sender.
    fn emit(&mut self, body: Body<'_>, extensions: &[u8], buf: &mut Vec<u8>) {
        // Extensions that were just written are whole.
        let extensions = Extensions::new(extensions).unwrap_or_default();
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

    fn emit_command(&mut self, command: Command<'_>, extensions: &[u8], buf: &mut Vec<u8>) {
        self.emit(Body::Command { sender: self.state(), command }, extensions, buf);
    }

    /// Emits the information of a file, which is its name.
    fn emit_information(&mut self, file: u64, flags: u8, buf: &mut Vec<u8>) -> Option<()> {
        let outgoing = self.files.get(&file)?;
        let (geometry, payload) = (outgoing.geometry, outgoing.information.clone());
        let object = Object { id: file as u16, flags: Object::FILE | Object::INFO | flags };
        let body = Body::Info {
            sender: self.state(),
            object,
            fec_id: geometry.shape.code.fec_id(),
            payload: &payload,
        };
        self.emit(body, &geometry.extensions(), buf);
        Some(())
    }

    /// Emits a symbol.
    fn emit_symbol(&mut self, file: u64, place: (u64, u16), flags: u8, buf: &mut Vec<u8>) -> Option<()> {
        let outgoing = self.files.get(&file)?;
        let symbol = outgoing.symbol(place)?;
        let geometry = outgoing.geometry;
        let object = Object { id: file as u16, flags: Object::FILE | Object::INFO | flags };
        let position = geometry.shape.code.position(place);
        let body = Body::Data { sender: self.state(), object, position, payload: &symbol };
        self.emit(body, &geometry.extensions(), buf);
        Some(())
    }

    fn emit_probe(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Transmit {
        self.pending.probe = false;
        let sequence = self.probing.next_sequence();
        let nodes = self.congestion.as_ref().map(GroupRate::nodes).unwrap_or_default();
        let command = Command::Probe { sequence, sent: stamp(context.now), nodes: &nodes };
        let mut rate = Vec::with_capacity(4);
        Extensions::push_rate(&mut rate, self.congestion.as_ref().map_or(self.policy.rate, GroupRate::code));
        self.emit_command(command, &rate, buf);
        context.events.control("cc", self.cursor.file);
        context.to_group()
    }

    /// Emits a command other than a probe that is due.
    fn emit_other_command(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if std::mem::take(&mut self.pending.squelch) {
            let first = self.files.first_key_value().map_or(self.next, |(&file, _)| file);
            let object = first as u16;
            let position = self.policy.shape.code.position((0, 0));
            self.emit_command(Command::Squelch { object, position, invalid: &[] }, &[], buf);
            context.events.control("squelch", first);
        } else if std::mem::take(&mut self.pending.advertise) {
            let (bytes, all) = self.collected.write(self.policy.most_request_bytes, self.policy.shape.code);
            let requests = carillon_wire::norm::Requests::new(&bytes).ok()?;
            self.emit_command(Command::RepairAdvertisement { limited: !all, requests }, &[], buf);
            context.events.control("repair_adv", self.cursor.file);
        } else if std::mem::take(&mut self.informs) {
            let (&file, _) = self.files.last_key_value()?;
            self.emit_information(file, Object::REPAIR, buf)?;
            context.events.control("info", file);
        } else if std::mem::take(&mut self.pending.flush) {
            let last = self.last()?;
            let nodes = self.confirmations.name(last, self.policy.segment.into());
            let nodes = Nodes::new(&nodes).unwrap_or_default();
            let Item { object, position } = last;
            self.emit_command(Command::Flush { object, position, nodes }, &[], buf);
            context.events.control("flush", self.next - 1);
        } else if std::mem::take(&mut self.pending.end) {
            self.emit_command(Command::End, &[], buf);
            context.events.control("eot", self.next);
            self.closed = true;
        } else {
            return None;
        }
        Some(context.to_group())
    }

    /// Emits what has not been sent.
    fn emit_new(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let Cursor { file, is_informed, block, symbol } = self.cursor;
        let geometry = self.files.get(&file)?.geometry;
        let to_group = context.to_group();
        self.on_activity(context, file);
        if !is_informed {
            self.emit_information(file, 0, buf)?;
            self.cursor.is_informed = true;
            self.end_of_block(&geometry);
            return Some(context.events.data_sent(to_group, MessageId(file), buf.len(), false));
        }
        self.emit_symbol(file, (block, symbol), 0, buf)?;
        self.sent += 1;
        let sources = geometry.sources(block);
        if symbol >= sources
            && let Some(outgoing) = self.files.get_mut(&file)
        {
            outgoing.parity_sent.insert(block, symbol - sources + 1);
        }
        self.cursor.symbol += 1;
        self.end_of_block(&geometry);
        context
            .events
            .push(carillon_core::Event::Continued { message: MessageId(file), bytes: buf.len() as u32 });
        Some(to_group)
    }

    /// Moves the cursor on if a block or a file has ended.
    fn end_of_block(&mut self, geometry: &Geometry) {
        let sources = geometry.sources(self.cursor.block);
        if sources > 0 && self.cursor.symbol >= sources + self.policy.auto_parity {
            (self.cursor.block, self.cursor.symbol) = (self.cursor.block + 1, 0);
        }
        if self.cursor.block >= geometry.blocks() {
            self.cursor = Cursor { file: self.cursor.file + 1, is_informed: false, block: 0, symbol: 0 };
        }
    }

    /// Starts the FLUSH commands anew, two round-trip times from now.
    fn on_activity(&mut self, context: &mut Context, file: u64) {
        if let Some(outgoing) = self.files.get_mut(&file) {
            outgoing.touched = context.now;
        }
        self.flushes = self.policy.robust;
        if !self.probing.active {
            // After silence the next probe is due soon again.
            self.probing.active = true;
            let soon = context.now + self.grtt.value().max(MIN_PROBE_INTERVAL);
            if context.timers.armed(Timer::Probe).is_none_or(|at| at > soon) {
                context.timers.arm(Timer::Probe, soon);
            }
        }
        context.timers.arm(Timer::Flush, context.now + 2 * self.grtt.value());
    }

    fn on_probe_timer(&mut self, context: &mut Context) {
        if self.closed {
            return;
        }
        self.pending.probe = true;
        self.grtt.on_probe();
        // Probes must not take a notable part of the rate where the round-trip time is short.
        let shortest = self.grtt.value().max(MIN_PROBE_INTERVAL);
        let shortest =
            GroupRate::probe(&mut self.congestion, &mut self.pace, context.now, &self.probing, shortest);
        let interval = self.probing.next_interval(shortest);
        context.timers.arm(Timer::Probe, context.now + interval);
    }

    /// Last symbol of the last file.
    fn last(&self) -> Option<Item> {
        let (&file, outgoing) = self.files.last_key_value()?;
        let position = self.policy.shape.code.position(outgoing.geometry.last());
        Some(Item { object: file as u16, position })
    }

    /// Returns true if all receivers that were named have everything that was offered.
    fn is_confirmed(&self) -> bool {
        self.is_sent() && self.last().is_some_and(|last| self.confirmations.have_all(last))
    }

    /// Handles an ACK. The last one of a session that is finished ends it.
    fn on_ack(&mut self, context: &mut Context, source: u32, kind: u8, payload: &[u8]) {
        context.events.received("ack", 0u64);
        if self.confirmations.on_ack(source, kind, payload) && self.is_confirmed() {
            context.timers.arm(Timer::Flush, context.now);
        }
    }

    fn on_flush_timer(&mut self, context: &mut Context) {
        let idle = self.is_sent() && self.repairs.is_empty() && !self.files.is_empty();
        if idle && (self.flushes == 0 || self.is_confirmed()) {
            // Nothing more follows, and the last FLUSH was 2 round-trip times ago.
            self.pending.end = self.finished && !self.closed;
            return;
        }
        if idle {
            // Other programs begin with no FLUSH: a receiver that lost a whole short file would not know of it.
            self.informs = self.flushes + INFORMING_FLUSHES > self.policy.robust;
            self.pending.flush = true;
            self.flushes -= 1;
        }
        context.timers.arm(Timer::Flush, context.now + 2 * self.grtt.value());
    }

    /// Drops the oldest files that were sent and not requested for a while, as long as there is no room for `more`
    /// bytes. Returns the time at which the next one may be dropped if there is none now.
    fn make_room(&mut self, now: Time, more: u64) -> Result<(), Option<Time>> {
        loop {
            let held: u64 = self.files.values().map(|file| file.content.len() as u64).sum();
            if (held + more <= self.policy.buffer && self.files.len() < MAX_FILES) || self.files.is_empty() {
                return Ok(());
            }
            let Some(oldest) = self.files.first_entry() else { return Ok(()) };
            if *oldest.key() >= self.cursor.file {
                return Err(None);
            }
            let due = oldest.get().touched + self.policy.cache_time;
            if due > now {
                return Err(Some(due));
            }
            oldest.remove();
        }
    }
}

impl Outgoing {
    /// Source or parity symbol of a block.
    fn symbol(&self, (block, number): (u64, u16)) -> Option<Vec<u8>> {
        let (geometry, sources) = (&self.geometry, self.geometry.sources(block));
        let bytes = self.content.get(geometry.bytes(block))?;
        let segment = usize::from(geometry.segment);
        if number < sources {
            return bytes.chunks(segment).nth(number.into()).map(<[u8]>::to_vec);
        }
        if number >= geometry.symbols(block) {
            return None;
        }
        let known: Vec<_> = (0..).zip(bytes.chunks(segment)).collect();
        geometry.restore(block, &known, &[number]).pop()
    }
}

impl Part for NormFileSender {
    type Timer = Timer;

    const ROLE: Role = Role::Sender;

    fn held(&self) -> Option<u64> {
        Some(self.files.len() as u64)
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
            Timer::Pace | Timer::Advance => {}
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
            Body::Nack { requests, .. } => {
                let is_to_sender = matches!(datagram.destination, carillon_core::Dest::Node(_));
                self.on_nack(context, requests, is_to_sender);
            }
            Body::Ack { kind, payload, .. } => self.on_ack(context, packet.source, kind, payload),
            _ => {}
        }
    }

    /// Emits commands first, then repairs, and what is new last.
    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let command = match self.pending.probe {
            true => Some(self.emit_probe(context, buf)),
            false => self.emit_other_command(context, buf),
        };
        let transmit = match (command, self.pace.ready_at(context.now)) {
            (Some(transmit), _) => Some(transmit),
            (None, Some(at)) => {
                if !self.is_sent() || !self.repairs.is_empty() {
                    context.timers.arm(Timer::Pace, at);
                }
                return None;
            }
            (None, None) => self.emit_repair(context, buf).or_else(|| self.emit_new(context, buf)),
        };
        if transmit.is_some() {
            self.pace.spend(context.now, buf.len() as u64 + self.policy.link_overhead);
        }
        transmit
    }

    fn offer(&mut self, context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        if self.finished {
            return Err(OfferError::Finished);
        }
        if let Err(until) = self.make_room(context.now, payload.len() as u64) {
            if let Some(at) = until {
                context.timers.arm(Timer::Advance, at);
            }
            return Err(OfferError::Full);
        }
        let NamedFile { name, content } = NamedFile::parse(payload).unwrap_or_default();
        let length = content.len();
        let geometry = Geometry::new(length as u64, self.policy.segment, self.policy.shape);
        let geometry = geometry.ok_or(OfferError::TooLarge { len: length, max: MAX_FILE })?;
        let mut information = names::information(&name);
        information.truncate(self.policy.segment.into());
        let outgoing =
            Outgoing { information, content, geometry, parity_sent: BTreeMap::new(), touched: context.now };
        self.files.insert(self.next, outgoing);
        self.next += 1;
        Ok(MessageId(self.next - 1))
    }

    fn finish(&mut self, context: &mut Context) {
        self.finished = true;
        if self.next == 0 {
            self.closed = true;
        } else if context.timers.armed(Timer::Flush).is_none() {
            // The FLUSH commands may be over.
            context.timers.arm(Timer::Flush, context.now + 2 * self.grtt.value());
        }
    }

    /// A member of a plain session is a receiver with this identifier that is to confirm everything.
    fn awaits(&self, _context: &Context, member: NodeId) -> bool {
        self.confirmations.awaits(member)
    }

    fn is_finished(&self) -> bool {
        self.closed
    }
}

/// Number of FLUSH commands after the last data with which the information of the last file is repeated.
const INFORMING_FLUSHES: u64 = 4;
/// Shortest interval of probes.
const MIN_PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of files that are kept.
const MAX_FILES: usize = 4096;
/// Maximum bytes of a file, by which errors explain the limits of the code.
const MAX_FILE: usize = 1 << 30;
