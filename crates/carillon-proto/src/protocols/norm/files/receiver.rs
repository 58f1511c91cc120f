//! Receiver of files from one source.

mod assembly;
mod requesting;

use std::collections::BTreeMap;
use std::time::Duration;

use carillon_core::{
    BuildContext, Config, Delivery, Dest, DropReason, MessageId, ObservedState, Received, Role, SourceKey,
    Time, Transmit,
};
use carillon_wire::norm::{
    Body, Command, Extensions, FLUSH_ACKNOWLEDGMENT, Item, Object, PROBE_ANSWER, Packet, Position, Response,
    SenderState,
};

use super::super::congestion::Feedback;
use super::super::identity::{parse, source_key};
use super::super::states::STATES;
pub use super::super::timing::Timer;
use super::super::timing::Timing;
use super::code::Code;
use super::names;
use super::needs::{Needs, expand_object};
use crate::blocks::{MachineContext, Part};
use crate::plain::NamedFile;
use crate::protocols::norm::requesting::Requesting;
use assembly::Assembly;

type Context = MachineContext<Timer>;

/// Receives the files of a source and requests what is missing.
#[derive(Debug)]
pub struct NormFileReceiver {
    id: u32,
    source: SourceKey,
    sequence: u16,
    /// First object that is not delivered or lost; `None` before the first packet.
    first: Option<u64>,
    /// Objects from the first one on; those that are not here are unknown.
    objects: BTreeMap<u64, Reception>,
    /// Place behind the last one that is known to have been sent: object and block.
    end: (u64, u64),
    /// Place at which the sender is: it goes back for repairs.
    position: (u64, u64),
    memory: usize,
    /// Bytes of the deliveries that the application has not taken.
    waiting: usize,
    backlog: u64,
    /// Code of the source's blocks, which its first object names.
    code: Code,
    requesting: Requesting<Needs, Needs>,
    timing: Timing,
    feedback: Feedback,
    /// Time without a packet after which a source of which nothing is missing has ended.
    end_wait: Duration,
    /// Acknowledgment to send: object and position of a FLUSH.
    acknowledgment: Option<(u16, Position)>,
    /// Time of the last packet.
    heard: Time,
    /// True after the first packet of a file.
    begun: bool,
    closed: bool,
}

/// Reception of one object.
#[derive(Debug)]
enum Reception {
    Assembling(Box<Assembly>),
    /// Delivered, lost, or too long.
    Done,
}

impl NormFileReceiver {
    /// Creates the receiver of a source.
    pub fn new(key: SourceKey, id: u32, build: &BuildContext, settings: &Config) -> Self {
        NormFileReceiver {
            id,
            source: key,
            sequence: 0,
            first: None,
            objects: BTreeMap::new(),
            end: (0, 0),
            position: (0, 0),
            // A file is there twice while it is put together, but then its symbols are gone.
            memory: build.memory.min(MAX_MEMORY) / 2,
            waiting: 0,
            backlog: settings.count("backlog"),
            code: Code::default(),
            requesting: Requesting::new(settings),
            timing: Timing::new(build, settings),
            feedback: Feedback::default(),
            end_wait: settings.span("end_wait").at(build.bit_rate),
            acknowledgment: None,
            heard: Time::ZERO,
            begun: false,
            closed: false,
        }
    }

    /// Returns true if a packet of a file has arrived.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Handles the state of the sender in any of its packets.
    fn on_sender(&mut self, context: &mut Context, state: SenderState) {
        self.timing.on_sender(state);
        self.requesting.on_heard();
        self.heard = context.now;
        context.timers.arm(Timer::Inactivity, context.now + self.timing.silence(self.end_wait));
    }

    /// Number of the object of a packet; fails if it is not to be received. The first one begins the reception.
    fn number(&mut self, object: u16) -> Result<u64, DropReason> {
        let first = *self.first.get_or_insert_with(|| {
            let object = u64::from(object);
            // A few objects before the first one that was heard are worth a request.
            if object <= self.backlog { 0 } else { object }
        });
        let number = expand_object(object, first.max(self.end.0));
        if number < first || self.objects.get(&number).is_some_and(Reception::is_done) {
            return Err(DropReason::Redundant);
        }
        if number >= first + MAX_OBJECTS { Err(DropReason::OutOfWindow) } else { Ok(number) }
    }

    /// Assembly of an object, opened with the sizes in this packet if there is none.
    fn assembly(&mut self, context: &mut Context, number: u64, packet: &Packet<'_>) -> Option<&mut Assembly> {
        let (object, fec_id) = match packet.body {
            Body::Info { object, fec_id, .. } => (object, fec_id),
            Body::Data { object, position, .. } => (object, position.fec_id()),
            _ => return None,
        };
        let is_other = self.begun && fec_id != self.code.fec_id();
        if is_other || object.flags & Object::STREAM != 0 {
            context.events.dropped(DropReason::Foreign);
            return None;
        }
        if !self.objects.contains_key(&number) {
            let Some(transmission) = packet.extensions.transmission(fec_id) else {
                context.events.dropped(DropReason::OutOfOrder);
                return None;
            };
            let Some(assembly) = Assembly::new(fec_id, transmission, object) else {
                context.events.dropped(DropReason::Malformed);
                return None;
            };
            if self.begun && assembly.code() != self.code {
                context.events.dropped(DropReason::Foreign);
                return None;
            }
            if transmission.size > self.memory as u64 {
                // The loss is reported at once, so that the rest of the source arrives.
                self.lose(context, number);
                return None;
            }
            (self.begun, self.code) = (true, assembly.code());
            self.objects.insert(number, Reception::Assembling(Box::new(assembly)));
        }
        match self.objects.get_mut(&number) {
            Some(Reception::Assembling(assembly)) => Some(assembly),
            _ => None,
        }
    }

    fn on_object(&mut self, context: &mut Context, packet: &Packet<'_>) {
        let (Body::Info { object, .. } | Body::Data { object, .. }) = packet.body else { return };
        let is_repair = object.flags & Object::REPAIR != 0;
        let number = match self.number(object.id) {
            Ok(number) => number,
            Err(reason) => return context.events.dropped(reason),
        };
        context.events.received(if is_repair { "repair" } else { "data" }, number);
        let used = self.used();
        let has_room = used + packet.wire_len() + assembly::SYMBOL_OVERHEAD <= self.memory;
        let Some(assembly) = self.assembly(context, number, packet) else { return };
        let block = match packet.body {
            Body::Data { position, payload, .. } => {
                let Some((block, symbol)) = assembly.code().place(position) else {
                    return context.events.dropped(DropReason::Foreign);
                };
                let added =
                    if has_room { assembly.add(block, symbol, payload) } else { Err(DropReason::BufferFull) };
                if let Err(reason) = added {
                    context.events.dropped(reason);
                }
                block
            }
            Body::Info { payload, .. } => {
                assembly.inform(payload);
                0
            }
            _ => return context.events.dropped(DropReason::Foreign),
        };
        let (block, is_whole) = (block.min(assembly.blocks()), assembly.is_whole());
        if is_whole {
            self.complete(context, number);
        }
        self.position = (number, block);
        let passed = (number, block) > self.end;
        self.end = self.end.max((number, block));
        if passed {
            // Requests begin at the boundary of a block, for everything before it.
            self.consider(context);
        }
    }

    /// Bytes of everything that is kept.
    fn used(&self) -> usize {
        let objects = self.objects.values().map(|reception| match reception {
            Reception::Assembling(assembly) => assembly.memory(),
            Reception::Done => 0,
        });
        objects.sum::<usize>() + self.waiting
    }

    /// Delivers a whole object.
    fn complete(&mut self, context: &mut Context, number: u64) {
        if let Some(Reception::Assembling(assembly)) = self.objects.insert(number, Reception::Done) {
            let (information, content) = assembly.into_content();
            let name = names::uri(&information, number);
            let message = NamedFile { name, content: content.into() }.into_message();
            self.waiting += message.len();
            context.deliver_sent(number, message);
        }
        self.advance();
    }

    /// Gives up an object.
    fn lose(&mut self, context: &mut Context, number: u64) {
        self.objects.insert(number, Reception::Done);
        context.events.loss_found(context.sender, number);
        context.events.loss_final(context.sender, MessageId(number));
        self.advance();
    }

    /// Moves on behind the objects that are done.
    fn advance(&mut self) {
        let Some(first) = &mut self.first else { return };
        while self.objects.get(first).is_some_and(Reception::is_done) {
            self.objects.remove(first);
            *first += 1;
        }
    }

    /// Handles a FLUSH: everything up to this place was sent.
    fn on_flush(&mut self, context: &mut Context, object: u16, place: Position, is_named: bool) {
        if !self.begun {
            // Sizes come with the first object. Until then the code is the one that senders of this encoding have.
            self.code = Code::of(place.fec_id(), 16).unwrap_or_default();
        }
        let Some((block, _)) = self.code.place(place) else { return };
        if let Ok(number) = self.number(object) {
            let end = (number, block + 1);
            self.end = self.end.max(end);
            self.position = end;
            self.consider(context);
        }
        let last = self.first.map_or(0, |first| expand_object(object, first));
        // An acknowledgment says that nothing before is missing.
        if is_named && self.first.is_some_and(|first| first > last) {
            self.acknowledgment = Some((object, place));
        }
    }

    /// Handles a SQUELCH: the sender repairs nothing before this object.
    fn on_squelch(&mut self, context: &mut Context, object: u16) {
        let Some(first) = self.first else { return };
        let number = expand_object(object, first.max(self.end.0));
        // A forged command loses what is known, and no more.
        for lost in first..number.min(self.end.0 + 1) {
            if !self.objects.get(&lost).is_some_and(Reception::is_done) {
                self.lose(context, lost);
            }
        }
    }

    fn on_command(&mut self, context: &mut Context, command: Command<'_>) {
        context.events.received(command.name(), self.end.0);
        match command {
            Command::Flush { object, position, nodes } => {
                let is_named = nodes.iter().any(|node| node == self.id);
                self.on_flush(context, object, position, is_named);
            }
            Command::Squelch { object, .. } => self.on_squelch(context, object),
            Command::Probe { sent, .. } => self.timing.on_probe(context.now, sent),
            Command::RepairAdvertisement { requests, .. } => self.on_requests_of_others(requests),
            Command::End => self.close(context),
            Command::AckRequest { .. } | Command::Application(_) => {}
        }
    }

    /// Ends the reception. What is not complete is lost.
    fn close(&mut self, context: &mut Context) {
        if let Some(first) = self.first {
            let known = self.objects.last_key_value().map_or(0, |(&number, _)| number + 1);
            let last = if self.end.1 > 0 { self.end.0 + 1 } else { self.end.0 };
            for number in first..last.max(known) {
                if !self.objects.get(&number).is_some_and(Reception::is_done) {
                    self.lose(context, number);
                }
            }
        }
        context.timers.cancel(Timer::Request);
        context.timers.cancel(Timer::Inactivity);
        context.timers.cancel(Timer::Feedback);
        self.closed = true;
    }
}

impl Reception {
    fn is_done(&self) -> bool {
        matches!(self, Reception::Done)
    }
}

impl Part for NormFileReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.objects.len() as u64)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let state = self.requesting.phase().name();
        tell(ObservedState { of: STATES[1].of, about: 0, state, turn: self.requesting.turn() });
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Request => self.on_request_timer(context),
            Timer::Inactivity => self.on_inactivity(context),
            Timer::Feedback => self.feedback.answer(),
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = parse(&mut context.events, datagram.bytes) else { return };
        if let Body::Nack { requests, .. } = packet.body {
            context.events.received("nack", self.end.0);
            return self.on_requests_of_others(requests);
        }
        let (Body::Info { sender, .. } | Body::Data { sender, .. } | Body::Command { sender, .. }) =
            packet.body
        else {
            return context.events.dropped(DropReason::Foreign);
        };
        if source_key(packet.source, sender) != self.source {
            return context.events.dropped(DropReason::Foreign);
        }
        if datagram.source != context.sender || self.closed {
            return context.events.dropped(DropReason::NotAMember);
        }
        self.on_sender(context, sender);
        self.feedback.on_packet(context.now, &packet, &self.timing);
        self.feedback.handle_probe(context, &packet, self.id, &mut self.timing);
        match packet.body {
            Body::Command { command, .. } => self.on_command(context, command),
            _ => self.on_object(context, &packet),
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let response = Response {
            sender: (self.source.0 >> 16) as u32,
            instance: self.source.0 as u16,
            echo: self.timing.echo(context.now),
        };
        let mut place = Vec::with_capacity(Item::RS_LEN);
        let requests = self.requesting.due.take();
        let body = match (&requests, self.acknowledgment.take()) {
            (Some(requests), waiting) => {
                self.acknowledgment = waiting;
                Body::Nack { response, requests: carillon_wire::norm::Requests::new(requests).ok()? }
            }
            (None, Some((object, position))) => {
                Item { object, position }.emit(&mut place);
                Body::Ack { response, kind: FLUSH_ACKNOWLEDGMENT, id: 0, payload: &place }
            }
            (None, None) if self.feedback.take_due() => {
                Body::Ack { response, kind: PROBE_ANSWER, id: 0, payload: &[] }
            }
            (None, None) => return None,
        };
        let state = self.feedback.extension(&self.timing);
        let extensions = Extensions::new(&state).unwrap_or_default();
        let packet = Packet { sequence: self.sequence, source: self.id, body, extensions };
        packet.emit(buf);
        self.sequence = self.sequence.wrapping_add(1);
        context.events.control(packet.name(), self.end.0);
        Some(match self.requesting.is_unicast() {
            true => Transmit::now(Dest::Node(context.sender)),
            false => context.to_group(),
        })
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        let delivery = context.poll_delivery()?;
        self.waiting -= delivery.payload.len();
        Some(delivery)
    }

    /// The source is complete after its end.
    fn is_complete(&self) -> bool {
        self.closed
    }
}

/// Maximum memory, whatever the host allows.
const MAX_MEMORY: usize = usize::MAX >> 8;
/// Maximum number of objects from the first one that is missing.
const MAX_OBJECTS: u64 = 1024;
