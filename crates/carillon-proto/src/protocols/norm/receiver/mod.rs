//! The NORM receiver of a stream (RFC 5740, section 5.4): ordered delivery, and NACKs that others suppress.

mod plain;
mod plain_stream;
mod requesting;
mod store;

use std::collections::BTreeSet;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Dest, DropReason, Event, MessageId, ObservedState, Received, Role,
    Transmit,
};
use carillon_wire::norm::{
    Body, Command, Extensions, FLUSH_ACKNOWLEDGMENT, Object, PROBE_ANSWER, Packet, Position, Response,
    SenderState, StreamHeader,
};

use super::config::Shape;
use super::congestion::Feedback;
use super::identity::{expand_block, instance, parse, receiver_id, sender_id};
use super::repairs::Wants;
use super::requesting::Requesting;
use super::sender::STREAM;
use super::states::STATES;
pub use super::timing::Timer;
use super::timing::Timing;
use crate::blocks::{MachineContext, Part, Player};
use plain_stream::PlainStream;
use store::Store;

type Context = MachineContext<Timer>;

/// Delivers messages in order and requests missing symbols.
#[derive(Debug)]
pub struct NormReceiver {
    id: u32,
    sender: u32,
    instance: u16,
    sequence: u16,
    /// Number of the stream's object.
    object: u16,
    shape: Shape,
    store: Store,
    /// Maximum number of symbols held and messages that the application has not read.
    capacity: u64,
    /// Number after the last message that is known to exist.
    end: u64,
    /// Number before which missing messages were reported.
    found: u64,
    /// Reported messages that are still missing.
    missing: BTreeSet<u64>,
    /// Message at which the sender is: it goes back for repairs.
    position: u64,
    /// Number before which symbols may be requested.
    limit: u64,
    requesting: Requesting<u64, Wants>,
    timing: Timing,
    /// State for congestion control; `None` without it.
    feedback: Option<Feedback>,
    /// State of a plain session; `None` in sessions of Carillon.
    plain: Option<PlainStream>,
}

impl NormReceiver {
    /// Creates the receiver of a session.
    pub fn new(build: &BuildContext, settings: &Config) -> Result<Player<Self>, ConfigError> {
        let shape = Shape::new(settings)?;
        let capacity = build.max_messages(settings.count("receive_window"));
        Ok(NormReceiver {
            id: receiver_id(build),
            sender: sender_id(build.association),
            instance: instance(build.association),
            sequence: 0,
            object: STREAM,
            shape,
            store: Store::new(shape, capacity, 0),
            capacity,
            end: 0,
            found: 0,
            missing: BTreeSet::new(),
            position: 0,
            limit: 0,
            requesting: Requesting::new(settings),
            timing: Timing::new(build, settings),
            feedback: (settings.choice("congestion") != "none").then(Feedback::default),
            plain: None,
        }
        .play(build))
    }

    /// Handles a packet of the sender.
    fn on_sender(&mut self, context: &mut Context, state: SenderState) {
        self.timing.on_sender(state);
        self.requesting.on_heard();
        if let Some(plain) = &mut self.plain {
            plain.on_heard(context.now);
        }
        self.await_silence(context);
    }

    /// Number of the message at a position of FEC encoding 5; for parity the first one of the block.
    fn number(&self, position: Position) -> Option<(u64, u8)> {
        let Position::Rs8 { block, symbol } = position else { return None };
        Some((expand_block(block, self.shape.place(self.end).0), symbol))
    }

    fn on_data(&mut self, context: &mut Context, object: Object, position: Position, symbol: Bytes) {
        let place =
            self.number(position).filter(|_| object.id == self.object && object.flags & Object::STREAM != 0);
        let Some((block, index)) = place else { return context.events.dropped(DropReason::Foreign) };
        let (first, is_source) = (self.shape.first(block), u64::from(index) < self.shape.block);
        let codes = self.shape.block + u64::from(self.shape.parity);
        if u64::from(index) >= codes || is_source && StreamHeader::split(&symbol).is_none() {
            return context.events.dropped(DropReason::Malformed);
        }
        let number = if is_source { first + u64::from(index) } else { first + self.shape.block - 1 };
        let held = (self.store.len() + context.waiting()) as u64;
        if number >= self.store.limit() || held >= self.capacity {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        let is_repair = object.flags & Object::REPAIR != 0;
        self.position = number;
        let new_block = self.end > 0 && self.shape.place(self.end - 1).0 < block;
        // Whatever precedes the last symbol heard exists.
        self.end = self.end.max(if is_source { number + 1 } else { first + self.shape.block });
        context.events.received(if is_repair || !is_source { "repair" } else { "data" }, number);
        let stored = match is_source {
            true => self.store.insert_source(number, symbol),
            false => self.store.insert_parity(block, index, symbol),
        };
        match (stored, is_source) {
            (false, _) => context.events.dropped(DropReason::Redundant),
            (true, true) => self.on_message(context, number, is_repair),
            (true, false) => {}
        }
        for number in self.store.restore(block) {
            self.on_message(context, number, true);
        }
        self.deliver(context);
        self.find_losses(context, number);
        if new_block {
            // Requests begin at the boundary of a block, for everything before it.
            self.consider(context, first);
        }
    }

    /// Records that a message was received or restored.
    fn on_message(&mut self, context: &mut Context, number: u64, is_repair: bool) {
        if self.missing.remove(&number) && is_repair {
            context.events.push(Event::LossRepaired { source: context.sender, message: MessageId(number) });
        }
    }

    /// Reports missing messages before `limit`.
    fn find_losses(&mut self, context: &mut Context, limit: u64) {
        let limit = limit.min(self.store.limit());
        for number in self.found.max(self.store.expected())..limit {
            if !self.store.has(number) {
                context.events.loss_found(context.sender, number);
                self.missing.insert(number);
            }
        }
        self.found = self.found.max(limit);
    }

    /// Acknowledgment of a FLUSH, or answer to a probe, that is due.
    fn answer<'a>(&mut self, response: Response, place: &'a mut Vec<u8>) -> Option<Body<'a>> {
        let object = self.object;
        if self.plain.as_mut().is_some_and(|plain| plain.acknowledge(object, place)) {
            return Some(Body::Ack { response, kind: FLUSH_ACKNOWLEDGMENT, id: 0, payload: place });
        }
        let due = self.feedback.as_mut()?.take_due();
        due.then_some(Body::Ack { response, kind: PROBE_ANSWER, id: 0, payload: &[] })
    }

    fn deliver(&mut self, context: &mut Context) {
        while let Some((number, symbol)) = self.store.pop() {
            self.pass_on(context, number, &symbol);
        }
    }

    /// Delivers a symbol: a message, or in plain sessions a piece of the stream.
    fn pass_on(&mut self, context: &mut Context, number: u64, symbol: &Bytes) {
        // The store holds valid symbols only.
        let Some((header, _)) = StreamHeader::split(symbol) else { return };
        let content = symbol.slice(StreamHeader::LEN..StreamHeader::LEN + usize::from(header.length));
        let delivered = match &mut self.plain {
            Some(plain) => plain.piece(header, content),
            None => Some(content),
        };
        if let Some(payload) = delivered {
            context.deliver_sent(number, payload);
        }
    }

    /// Handles a SQUELCH: the sender repairs nothing before this message.
    fn on_squelch(&mut self, context: &mut Context, trail: u64) {
        // A forged command may skip billions of messages: those beyond the window are not named.
        let named = trail.min(self.store.limit());
        self.end = self.end.max(trail);
        self.find_losses(context, named);
        // A plain source may have dropped what it sent before this receiver began.
        let begins = self.plain.as_ref().is_some_and(|plain| !plain.has_begun());
        for (number, symbol) in self.store.skip_to(trail) {
            self.pass_on(context, number, &symbol);
        }
        while let Some(&number) = self.missing.first().filter(|&&number| number < trail) {
            self.missing.remove(&number);
            if !begins {
                context.events.loss_final(context.sender, MessageId(number));
            }
        }
        self.found = self.found.max(self.store.expected());
        self.deliver(context);
    }

    fn on_command(&mut self, context: &mut Context, command: Command<'_>) {
        context.events.received(command.name(), self.end.saturating_sub(1));
        match command {
            Command::Flush { object, position, nodes } if object == self.object => {
                let Some((block, index)) = self.number(position) else { return };
                let end = self.shape.first(block).saturating_add(u64::from(index) + 1);
                if end > self.store.limit() {
                    return context.events.dropped(DropReason::OutOfWindow);
                }
                (self.end, self.position) = (self.end.max(end), end - 1);
                self.find_losses(context, end);
                self.consider(context, end);
                self.on_plain_flush(context, end, nodes);
            }
            Command::Squelch { object, position, .. } if object == self.object => {
                let Some((block, index)) = self.number(position) else { return };
                self.on_squelch(context, self.shape.first(block).saturating_add(index.into()));
            }
            Command::Probe { sent, .. } => self.timing.on_probe(context.now, sent),
            Command::RepairAdvertisement { requests, .. } => self.on_requests_of_others(requests),
            Command::End if self.plain.is_some() => self.close(context),
            _ => {}
        }
    }
}

impl Part for NormReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        Some(self.store.len() as u64)
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let (state, turn) = (self.requesting.phase().name(), self.requesting.turn());
        tell(ObservedState { of: STATES[1].of, about: 0, state, turn });
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Request => self.on_request_timer(context),
            Timer::Inactivity => self.on_inactivity(context),
            Timer::Feedback => self.feedback.iter_mut().for_each(Feedback::answer),
        }
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = parse(&mut context.events, datagram.bytes) else { return };
        match packet.body {
            Body::Nack { response, requests } => {
                if (response.sender, response.instance) != (self.sender, self.instance) {
                    return context.events.dropped(DropReason::Foreign);
                }
                context.events.received("nack", self.end.saturating_sub(1));
                return self.on_requests_of_others(requests);
            }
            // The answers of others are for the sender alone.
            Body::Ack { .. } => return context.events.dropped(DropReason::Foreign),
            Body::Info { .. } | Body::Data { .. } | Body::Command { .. } => {}
        }
        if datagram.source != context.sender {
            return context.events.dropped(DropReason::NotAMember);
        }
        let (Body::Info { sender, .. } | Body::Data { sender, .. } | Body::Command { sender, .. }) =
            packet.body
        else {
            return;
        };
        if (packet.source, sender.instance) != (self.sender, self.instance) {
            return context.events.dropped(DropReason::Foreign);
        }
        self.on_sender(context, sender);
        if let Some(feedback) = &mut self.feedback {
            feedback.on_packet(context.now, &packet, &self.timing);
            feedback.handle_probe(context, &packet, self.id, &mut self.timing);
        }
        match packet.body {
            Body::Data { object, position, payload, .. } => {
                let symbol = datagram.bytes.slice(datagram.bytes.len() - payload.len()..);
                self.on_data(context, object, position, symbol);
            }
            Body::Command { command, .. } => self.on_command(context, command),
            _ => context.events.dropped(DropReason::Foreign),
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let echo = self.timing.echo(context.now);
        let response = Response { sender: self.sender, instance: self.instance, echo };
        let mut place = Vec::new();
        let requests = self.requesting.due.take();
        let body = match &requests {
            Some(requests) => {
                Body::Nack { response, requests: carillon_wire::norm::Requests::new(requests).ok()? }
            }
            None => self.answer(response, &mut place)?,
        };
        let state = self.feedback.as_ref().map(|feedback| feedback.extension(&self.timing));
        let state = state.unwrap_or_default();
        let extensions = Extensions::new(&state).unwrap_or_default();
        let packet = Packet { sequence: self.sequence, source: self.id, body, extensions };
        packet.emit(buf);
        self.sequence = self.sequence.wrapping_add(1);
        context.events.control(packet.name(), self.store.expected());
        Some(match self.requesting.is_unicast() {
            true => Transmit::now(Dest::Node(context.sender)),
            false => context.to_group(),
        })
    }

    /// A plain source is complete after its end.
    fn is_complete(&self) -> bool {
        self.plain.as_ref().is_some_and(PlainStream::is_closed)
    }
}
