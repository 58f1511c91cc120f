//! A member of the group, source and receiver in one.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, Event, MessageId, NodeId, ObservedState,
    OfferError, Received, Role, Time, TokenBucket, Transmit,
};
use carillon_wire::srm::{Answer, Data, HEADER_LEN, Packet, Request};

use super::config::Settings;
use super::context::{Context, Timer, micros};
use super::recovery::Key;
use super::reports::Reports;
use super::responder::RepairResponder;
use super::source::Source;
use super::streams::Streams;
use crate::blocks::{LocalRecovery, Part, Player};

/// Sends, receives, requests and repairs messages.
#[derive(Debug)]
pub struct SrmPeer {
    settings: Arc<Settings>,
    streams: Streams,
    source: Source,
    reports: Reports,
    responder: RepairResponder,
    /// Ranks of expelled members.
    expelled: BTreeSet<u32>,
    request_pace: TokenBucket,
    send_pace: TokenBucket,
}

impl SrmPeer {
    /// Creates the member at the node of the context.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Arc::new(Settings::new(build, config)?);
        let context = Context::of_member(build, u32::MAX as usize)?;
        let own = context.rank as u32;
        let peer = SrmPeer {
            streams: Streams::new(settings.clone(), own, build),
            source: Source::new(settings.clone(), own, build),
            reports: Reports::new(settings.clone(), build.seeds.draws("srm.session")),
            responder: RepairResponder::new(settings.clone()),
            expelled: BTreeSet::new(),
            request_pace: TokenBucket::default(),
            send_pace: TokenBucket::default(),
            settings,
        };
        Ok(Player::of(peer, context))
    }

    /// Handles a message, from its source or, with `answer`, as a repair.
    fn on_data(&mut self, context: &mut Context, data: Data<'_>, payload: Bytes, answer: Option<Answer>) {
        let streams = &mut self.streams;
        let source = data.source;
        // An original comes from its own source.
        if (answer.is_none() && source != data.from) || source as usize >= context.nodes.len() {
            return context.events.dropped(DropReason::Malformed);
        }
        let number = streams.stream(source, data.sequence).expand(data.sequence);
        if !streams.has_room(source, number, &payload) {
            return context.events.dropped(DropReason::BufferFull);
        }
        let key = (source, number);
        let packet = if answer.is_some() { "repair" } else { "data" };
        let stream = streams.stream(source, data.sequence);
        let (base, is_awaited) = (stream.base(), stream.is_awaited(number));
        // A new message reveals the loss of all unknown ones before it.
        if number >= stream.next() {
            if source as usize == context.rank {
                return context.events.dropped(DropReason::OutOfWindow);
            }
            context.events.received(packet, number);
            streams.extend_known(context, source, number + 1, Some(number));
            return streams.store(context, key, payload);
        }
        if number < base {
            return context.events.dropped(DropReason::OutOfWindow);
        }
        // A known message: an awaited repair, a late original, or a duplicate that suppresses own repairs.
        let was_missing = streams.recovery.on_arrival(context, key, answer.is_none());
        if let Some(answer) = answer {
            streams.recovery.on_repair(context, key, answer.round, answer.distance_us);
        }
        if !is_awaited {
            return context.events.dropped(DropReason::Duplicate);
        }
        debug_assert!(was_missing, "what is missing is asked for");
        context.events.received(packet, number);
        if let Some(answer) = answer {
            let (source, message) = (context.nodes[source as usize], MessageId(number));
            context.events.push(Event::LossRepaired { source, message });
            self.responder.on_repaired(context, key, answer);
        }
        streams.store(context, key, payload);
    }

    /// Handles the end of a wait: of a request, or of a hold-down after `rounds` rounds.
    fn on_message_timer(&mut self, context: &mut Context, key: Key, rounds: Option<u8>) {
        // No member may hold a message of an expelled source: give up after a few more rounds.
        let (source, number) = key;
        let is_hopeless = |round| round > self.settings.backoff_limit + 1;
        if self.expelled.contains(&source)
            && self.streams.recovery.request_round(key).is_some_and(is_hopeless)
        {
            self.streams.recovery.forget(source, number..number + 1);
            return self.streams.declare_lost(context, key);
        }
        if let Some(rounds) = rounds {
            self.streams.set_rounds(key, rounds);
        }
    }

    fn poll_request(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.streams.recovery.requests.is_due() {
            return None;
        }
        if let Some(at) = self.request_pace.ready_at(context.now) {
            context.timers.arm(Timer::RequestPace, at);
            return None;
        }
        let (key, round) = self.streams.recovery.next_request()?;
        self.request_pace.pause(context.now, self.settings.request_ivl);
        let (source, number) = key;
        let distance_us = micros(self.streams.recovery.distances.distance(source));
        let local = round == 1 && self.settings.local != LocalRecovery::Off;
        let scope = if local { self.settings.local_scope } else { u8::MAX };
        let (from, sequence, round_sent) =
            (context.rank as u32, number as u32, round.min(u8::MAX.into()) as u8);
        let request = Request { from, source, sequence, round: round_sent, scope, distance_us };
        Packet::Request(request).emit(context.association, buf);
        buf.resize(buf.len().max(self.settings.request_bytes), 0);
        context.events.control("request", number);
        let (source, message) = (context.nodes[source as usize], MessageId(number));
        context.events.push(Event::Requested { source, message });
        self.streams.recovery.on_request(context, key, round, true);
        Some(Transmit::now(context.within(scope)))
    }
}

impl Part for SrmPeer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn held(&self) -> Option<u64> {
        Some(self.streams.held())
    }

    fn start(&mut self, context: &mut Context) {
        self.reports.arm(context, &self.streams.recovery.distances);
    }

    fn report_states(&self, _context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        self.streams.recovery.report_states(tell);
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        let rank = packet.sender();
        if rank as usize == context.rank || context.nodes.get(rank as usize) != Some(&datagram.source) {
            return context.events.dropped(DropReason::NotAMember);
        }
        let SrmPeer { streams, source, reports, responder, .. } = self;
        streams.recovery.distances.on_packet(rank);
        let payload = || datagram.bytes.slice(HEADER_LEN..);
        match packet {
            Packet::Session(session) => reports.on_session(context, streams, source, &session),
            Packet::Request(request) => {
                responder.on_request(context, streams, &request, datagram.scope);
            }
            Packet::Data(data) => self.on_data(context, data, payload(), None),
            Packet::Repair { data, answer } => self.on_data(context, data, payload(), Some(answer)),
        }
    }

    fn on_timer(&mut self, _context: &mut Context, timer: Timer) {
        match timer {
            Timer::Session => self.reports.due = true,
            // `poll_transmit` checks the pacers itself.
            Timer::RequestPace | Timer::SendPace => {}
        }
    }

    fn handle_timeout(&mut self, context: &mut Context) {
        self.fire(context);
        while let Some((key, rounds)) = self.streams.recovery.expire(context.now) {
            self.on_message_timer(context, key, rounds);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.streams.recovery.next_timeout()
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        let report = self.reports.poll(context, &mut self.streams, buf);
        let control = report.or_else(|| self.poll_request(context, buf));
        if control.is_some() {
            return control;
        }
        let SrmPeer { streams, source, responder, .. } = self;
        let has_repairs = !responder.repeats.is_empty() || streams.recovery.repairs.is_due();
        if !has_repairs && !source.is_ready(streams.sent()) {
            return None;
        }
        if let Some(at) = self.send_pace.ready_at(context.now) {
            context.timers.arm(Timer::SendPace, at);
            return None;
        }
        // Repairs first, since other members wait for them to deliver in order.
        let transmit =
            responder.poll(context, streams, buf).or_else(|| source.poll(context, streams, buf))?;
        self.send_pace.pause(context.now, self.settings.send_ivl);
        Some(transmit)
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        self.streams.poll_delivery(context)
    }

    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        let waiting = self.source.outgoing.offer(payload)?;
        Ok(MessageId(self.streams.sent() + waiting))
    }

    fn finish(&mut self, _context: &mut Context) {
        self.source.outgoing.finish();
    }

    fn expel(&mut self, context: &mut Context, member: NodeId) {
        if let Some(rank) = context.rank_of(member) {
            self.expelled.insert(rank as u32);
            self.source.expel(context, self.streams.sent(), rank as u32);
        }
    }

    fn awaits(&self, context: &Context, member: NodeId) -> bool {
        context.rank_of(member).is_some_and(|rank| self.source.awaits(self.streams.sent(), rank as u32))
    }

    fn acknowledged(&self, context: &Context, member: NodeId) -> Option<u64> {
        self.source.acknowledged(context.rank_of(member)? as u32)
    }

    fn is_finished(&self) -> bool {
        self.source.outgoing.is_finished()
    }
}
