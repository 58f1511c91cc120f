//! A member of the group: all of them are alike.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, ConfigError, Delivery, Dest, DropReason, Event, Events, GroupId,
    InState, Machine, MessageId, NodeId, Note, OfferError, Outcome, Pace, Received, Receiver, Rng, Scope,
    Sender, Time, Timers, Transmit, Value,
};
use carillon_wire::srm::{Answer, Data, Entries, Entry, HEADER_LEN, Packet, Request, Session};

use super::config::{LONGEST_DISTANCE, Settings};
use super::recovery::{Key, Recovery};
use crate::blocks::{
    Asked, Distances, Echo, FlowControl, KeptStream, LocalRecovery, Outgoing, Reach, RepairBudget,
    RepairScope, SlowestMember, cost, in_seconds,
};

/// A member: sends, receives, asks and repairs.
#[derive(Debug)]
pub struct SrmPeer {
    association: AssociationId,
    group: GroupId,
    members: Arc<[NodeId]>,
    own: u32,
    rejoining: bool,
    settings: Arc<Settings>,
    known: Distances,
    /// Messages by the rank of their source, this member's own too.
    streams: BTreeMap<u32, KeptStream>,
    recovery: Recovery,
    outgoing: Outgoing,
    /// What the others have of this member's messages, if it waits for them.
    flow: Option<Box<SlowestMember>>,
    /// By the rank of who asks.
    budget: RepairBudget<u32>,
    /// Two-step repairs that this member is to repeat, and over how many hops.
    repeats: BTreeMap<Key, u8>,
    deliveries: VecDeque<(u32, u64, Bytes)>,
    /// What these cost in memory.
    waiting: usize,
    /// Sources whose next message is here and waits for the application.
    ready: BTreeSet<u32>,
    /// Members that are gone.
    gone: BTreeSet<u32>,
    request_pace: Pace,
    send_pace: Pace,
    session_number: u32,
    session_due: bool,
    rng: Rng,
    timers: Timers<Timer>,
    events: Events,
}

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Send a session message.
    Session,
    /// The next request may go out.
    RequestPace,
    /// The next message or repair may go out.
    SendPace,
}

/// Where recovery acts: the time, and what it shares with the rest of the member.
pub(super) struct Scene<'a> {
    pub now: Time,
    pub events: &'a mut Events,
    pub known: &'a Distances,
    members: &'a [NodeId],
}

impl Scene<'_> {
    /// The node of a rank.
    pub fn node(&self, rank: u32) -> NodeId {
        self.members[rank as usize]
    }
}

/// Recovery, and where it acts: two parts of one member.
macro_rules! recovery {
    ($peer:ident, $now:expr) => {{
        let SrmPeer { recovery, events, known, members, .. } = $peer;
        (recovery, &mut Scene { now: $now, events, known, members })
    }};
}

impl SrmPeer {
    /// The member at the node of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Arc::new(Settings::new(context, config)?);
        // Most lists are ascending; looking through a long one for each of its members takes too long.
        let rank = match context.members.binary_search(&context.node) {
            Ok(rank) => Some(rank),
            Err(_) => context.rank(),
        };
        let Some(own) = rank.and_then(|rank| u32::try_from(rank).ok()) else {
            return Err(ConfigError::Conflict("this node must be one of the members".to_owned()));
        };
        Ok(SrmPeer {
            association: context.association,
            group: context.group,
            members: context.members.clone(),
            own,
            rejoining: context.rejoining,
            known: Distances::new(own, settings.initial_distance, LONGEST_DISTANCE, settings.clock_tick),
            streams: BTreeMap::new(),
            recovery: Recovery::new(settings.clone(), context.seeds.clone()),
            outgoing: Outgoing::new(MOST_WAITING, context.rejoining),
            flow: settings
                .flow
                .then(|| Box::new(SlowestMember::new(own, context.members.len(), settings.buffer))),
            budget: RepairBudget::new(settings.repair_budget),
            repeats: BTreeMap::new(),
            deliveries: VecDeque::new(),
            waiting: 0,
            ready: BTreeSet::new(),
            gone: BTreeSet::new(),
            request_pace: Pace::default(),
            send_pace: Pace::default(),
            session_number: 0,
            session_due: false,
            rng: context.seeds.stream("srm.session"),
            timers: Timers::new(),
            events: Events::default(),
            settings,
        })
    }

    fn arm_session(&mut self, now: Time) {
        let scale = if self.settings.session_log { 1.0 + libm::log(self.known.group() as f64) } else { 1.0 };
        let interval = self.settings.session_ivl.as_secs_f64() * (0.9 + 0.2 * self.rng.unit()) * scale;
        self.timers.arm(Timer::Session, now + in_seconds(interval, 1.0));
    }

    // ---- What comes in.

    /// Takes in a packet of another member.
    fn on_packet(&mut self, now: Time, datagram: Received<'_>, packet: Packet<'_>) {
        match packet {
            Packet::Session(session) => self.on_session(now, &session),
            Packet::Request(request) => self.on_request(now, &request, datagram.scope),
            Packet::Data(data) | Packet::Repair { data, .. } if !self.is_possible(&packet, data) => {
                self.events.dropped(DropReason::Malformed);
            }
            Packet::Data(data) => {
                let payload = datagram.bytes.slice(HEADER_LEN..);
                self.on_data(now, data.source, data.sequence, payload, None);
            }
            Packet::Repair { data, answer } => {
                let payload = datagram.bytes.slice(HEADER_LEN..);
                self.on_data(now, data.source, data.sequence, payload, Some(answer));
            }
        }
    }

    /// Only its source sends a message for the first time.
    fn is_possible(&self, packet: &Packet<'_>, data: Data<'_>) -> bool {
        let is_repair = matches!(packet, Packet::Repair { .. });
        (is_repair || data.source == data.from) && (data.source as usize) < self.members.len()
    }

    fn on_session(&mut self, now: Time, session: &Session<'_>) {
        // Only the entry of this member is looked for.
        let echo = session.sources.of(self.own).or_else(|| session.others.of(self.own));
        let echo = echo.map(|Entry { came_us, sent_us, .. }| Echo { came_us, sent_us });
        if !self.known.on_report(now, session.from, session.number, session.clock_us, echo) {
            return self.events.dropped(DropReason::OutOfOrder);
        }
        self.events.received("session", session.next.saturating_sub(1));
        if session.next != 0 || self.streams.contains_key(&session.from) {
            let next = self.stream(session.from, session.next).expand(session.next);
            self.learn(now, session.from, next, None);
            let oldest = self.stream(session.from, session.next).expand(session.oldest);
            // What its source has forgotten, the others have too: their buffers are not larger.
            if oldest <= next {
                self.give_up_before(session.from, oldest);
                self.deliver(session.from);
            }
        }
        for entry in session.sources.iter() {
            if entry.member == self.own {
                self.on_word(session.from, entry.next);
            } else if (entry.member as usize) < self.members.len() {
                let next = self.stream(entry.member, entry.next).expand(entry.next);
                self.learn(now, entry.member, next, None);
            }
        }
    }

    /// With flow control: a member says which of this member's messages it lacks first.
    fn on_word(&mut self, rank: u32, next: u32) {
        let (Some(flow), Some(stream)) = (self.flow.as_deref_mut(), self.streams.get(&self.own)) else {
            return;
        };
        let (sent, lacks) = (stream.next(), stream.expand(next));
        if lacks > sent {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        let before = flow.start();
        flow.on_word(rank, lacks);
        let all_have = before.min(sent)..flow.start().min(sent);
        self.complete(all_have);
    }

    /// All members that are left have these messages.
    fn complete(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let (message, window) = (MessageId(number), self.settings.buffer as u32);
            self.events.completed(message, Outcome::Acknowledged, window);
        }
    }

    fn on_request(&mut self, now: Time, request: &Request, scope: Scope) {
        let source = request.source;
        if source as usize >= self.members.len() {
            return self.events.dropped(DropReason::Malformed);
        }
        let number = self.stream(source, request.sequence).expand(request.sequence);
        let stream = &self.streams[&source];
        let key = (source, number);
        self.events.received("request", number);
        if number >= stream.next() {
            if source == self.own {
                // It asks for what was never sent.
                return self.events.dropped(DropReason::OutOfWindow);
            }
            return self.learn(now, source, number + 1, None);
        }
        let (rounds, is_here) = (stream.rounds(number), stream.payload(number).is_some());
        let allowed = self.budget.left(request.from, self.streams.values().map(KeptStream::stored).sum()) > 0;
        let (recovery, scene) = recovery!(self, now);
        if request.scope == u8::MAX {
            recovery.widen(key);
        }
        if recovery.on_request(scene, key, request.round.into(), false) {
            return;
        }
        if !is_here {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        if !allowed {
            return scene.events.dropped(DropReason::Redundant);
        }
        // Routers on the way, and one more: the hops that a packet must be able to travel back.
        let way = request.scope.saturating_sub(scope.0).saturating_add(1);
        let reach = self.settings.local.reach(Asked { scope: request.scope, way });
        recovery.begin_repair(scene, key, request.from, rounds, reach);
        self.budget.spend(request.from, 1);
    }

    /// A message came, from its source or, with `answer`, as a repair.
    fn on_data(&mut self, now: Time, source: u32, sequence: u32, payload: Bytes, answer: Option<Answer>) {
        let number = self.stream(source, sequence).expand(sequence);
        if !self.has_room(source, number, &payload) {
            return self.events.dropped(DropReason::BufferFull);
        }
        let (key, message) = ((source, number), MessageId(number));
        let packet = if answer.is_some() { "repair" } else { "data" };
        let stream = &self.streams[&source];
        if number >= stream.next() {
            if source == self.own {
                return self.events.dropped(DropReason::OutOfWindow);
            }
            self.events.received(packet, message);
            self.learn(now, source, number + 1, Some(number));
            self.store(source, number, payload);
            return self.deliver(source);
        }
        if number < stream.base() {
            return self.events.dropped(DropReason::OutOfWindow);
        }
        let is_awaited = stream.is_awaited(number);
        let (recovery, scene) = recovery!(self, now);
        let was_missing = recovery.on_arrival(scene, key, answer.is_none());
        if let Some(answer) = answer {
            recovery.on_repair(scene, key, answer.round, answer.distance_us);
        }
        if !is_awaited {
            return self.events.dropped(DropReason::Duplicate);
        }
        debug_assert!(was_missing, "what is missing is asked for");
        self.events.received(packet, message);
        if let Some(answer) = answer {
            self.events.push(Event::LossRepaired { source: self.members[source as usize], message });
            if self.settings.local == LocalRecovery::TwoStep
                && answer.again > 0
                && answer.requester == self.own
            {
                self.repeats.insert(key, answer.again.min(self.settings.local_scope));
            }
        }
        self.store(source, number, payload);
        self.deliver(source);
    }

    /// With flow control: whether a message has a place. What is still to be delivered makes no room for
    /// what comes after it, which is as good as lost; but for the one that is next.
    fn has_room(&self, source: u32, number: u64, payload: &Bytes) -> bool {
        let Some(stream) = self.streams.get(&source).filter(|_| self.settings.flow && source != self.own)
        else {
            return true;
        };
        number <= stream.deliver()
            || (number < stream.deliver() + self.places()
                && (stream.payload(number).is_some() || stream.undelivered() + cost(payload) <= self.share()))
    }

    /// Keeps a message; the oldest of its source make room for it.
    fn store(&mut self, source: u32, number: u64, payload: Bytes) {
        let share = self.share();
        while let Some(stream) = self.streams.get(&source).filter(|_| source != self.own)
            && stream.bytes() + cost(&payload) > share
            && stream.base() < number
            && !(self.settings.flow && stream.base() >= stream.deliver())
        {
            self.forget_before(source, stream.base() + 1);
        }
        self.stream(source, 0).store(number, payload);
    }

    /// Bytes that the messages of one source may take.
    fn share(&self) -> usize {
        self.settings.room / self.streams.len().max(1)
    }

    /// Messages of one source that a member keeps or waits for: a place costs something too, whether its
    /// message ever comes or not.
    fn places(&self) -> u64 {
        ((self.share() / PLACE).max(1) as u64).min(self.settings.buffer)
    }

    /// All messages of a source before `next` were sent. Those not known before are missing, but for
    /// the one that has just come.
    fn learn(&mut self, now: Time, source: u32, next: u64, coming: Option<u64>) {
        let stream = &self.streams[&source];
        let known = stream.next();
        // No source that waits for its members is further ahead of this one.
        let next = if self.settings.flow { next.min(stream.deliver() + self.places()) } else { next };
        if source == self.own || next <= known {
            return;
        }
        let base = next.saturating_sub(self.places());
        self.forget_before(source, base);
        self.stream(source, 0).extend(next);
        let missing = (known.max(base)..next).filter(|&number| Some(number) != coming);
        let (recovery, scene) = recovery!(self, now);
        recovery.on_missing(scene, source, missing);
    }

    /// The messages of a source. One that comes back begins with what it hears of first.
    fn stream(&mut self, source: u32, sequence: u32) -> &mut KeptStream {
        let first = if self.rejoining && source != self.own { sequence } else { 0 };
        self.streams.entry(source).or_insert_with(|| KeptStream::new(first.into()))
    }

    // ---- What becomes of messages.

    /// Messages before `base` are kept no longer.
    fn forget_before(&mut self, source: u32, base: u64) {
        let Some(old) = self.streams.get(&source).map(KeptStream::base).filter(|&old| old < base) else {
            return;
        };
        self.give_up_before(source, base);
        self.recovery.forget(source, old..base);
        if let Some(stream) = self.streams.get_mut(&source) {
            stream.forget_before(base);
        }
    }

    /// What is still missing before `limit` will not come any more.
    fn give_up_before(&mut self, source: u32, limit: u64) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        let (node, first) = (self.members[source as usize], stream.deliver());
        if first >= limit {
            return;
        }
        self.recovery.forget(source, first..limit);
        // Messages that nobody ever heard of are not named one by one: they may be as many as one likes.
        let known = stream.next().clamp(first, limit);
        let named = limit.saturating_sub(MOST_NAMED).max(known);
        if named > known {
            let fields = vec![
                ("source", Value::Count(node.0.into())),
                ("first", Value::Count(known)),
                ("messages", Value::Count(named - known)),
            ];
            self.events.push(Event::Note(Box::new(Note { name: "unrecoverable", fields })));
        }
        for number in (first..known).chain(named..limit) {
            let message = MessageId(number);
            let has_room =
                (self.deliveries.len() as u64) < self.settings.buffer && self.waiting < self.settings.room;
            match stream.payload(number).cloned() {
                Some(payload) if has_room => {
                    self.waiting += cost(&payload);
                    self.deliveries.push_back((source, number, payload));
                    self.events.push(Event::Delivered { source: node, message });
                }
                _ if stream.give_up(number) => {
                    self.events.given_up(node, message);
                }
                _ => {}
            }
        }
        stream.pass_to(limit);
    }

    /// Hands over what is next in order, while the application takes it.
    fn deliver(&mut self, source: u32) {
        let Some(stream) = self.streams.get_mut(&source).filter(|_| source != self.own) else { return };
        while (self.deliveries.len() as u64) < self.settings.buffer && self.waiting < self.settings.room {
            let Some((number, payload)) = stream.take() else { break };
            self.waiting += cost(&payload);
            self.deliveries.push_back((source, number, payload));
            let (source, message) = (self.members[source as usize], MessageId(number));
            self.events.push(Event::Delivered { source, message });
        }
        match stream.is_ready() {
            true => self.ready.insert(source),
            false => self.ready.remove(&source),
        };
        // Its source may be waiting to hear that.
        if self.settings.flow && stream.untold() >= (self.settings.buffer / TELLING).max(1) {
            self.session_due = true;
        }
    }

    /// A wait of a message is over; with how many rounds are over, its hold-down.
    fn on_message_timer(&mut self, key: Key, rounds: Option<u8>) {
        // Nobody can be sure to have what a member sent that is gone: all are asked some times more.
        let (source, number) = key;
        if self.gone.contains(&source)
            && self.recovery.request_round(key).is_some_and(|round| round > self.settings.backoff_limit + 1)
        {
            self.recovery.forget(source, number..number + 1);
            let Some(stream) = self.streams.get_mut(&source) else { return };
            if stream.give_up(number) {
                let (source, message) = (self.members[source as usize], MessageId(number));
                self.events.given_up(source, message);
            }
            return self.deliver(source);
        }
        if let Some(rounds) = rounds
            && let Some(stream) = self.streams.get_mut(&source)
        {
            stream.set_rounds(number, rounds);
        }
    }

    // ---- What goes out.

    fn to_group(&self, scope: u8) -> Transmit {
        Transmit::now(Dest::Group { group: self.group, scope: Scope(scope) })
    }

    fn poll_session(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !std::mem::take(&mut self.session_due) {
            return None;
        }
        self.arm_session(now);
        self.session_number = self.session_number.wrapping_add(1);
        let (own, flow) = (self.own, self.settings.flow);
        let sent = self.streams.iter_mut().map(|(&rank, stream)| match flow {
            true => (rank, stream.tell()),
            false => (rank, stream.next()),
        });
        let sent = sent.filter(|&(rank, next)| rank != own && next > 0);
        let mut lists = [Vec::new(), Vec::new()];
        for (member, next, Echo { came_us, sent_us }) in
            self.known.next_report(self.settings.session_entries, sent)
        {
            let entry = Entry { member, next: next as u32, came_us, sent_us };
            lists[usize::from(next == 0)].push(entry.to_bytes());
        }
        let [sources, others] = lists;
        let (next, oldest) = self.streams.get(&own).map_or((0, 0), |own| (own.next(), own.base()));
        let session = Session {
            from: own,
            number: self.session_number,
            clock_us: self.known.clock_us(now),
            next: next as u32,
            oldest: oldest as u32,
            sources: Entries::new(&sources),
            others: Entries::new(&others),
        };
        Packet::Session(session).emit(self.association, buf);
        self.events.control("session", next.saturating_sub(1));
        Some(self.to_group(u8::MAX))
    }

    fn poll_request(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.recovery.has_requests() {
            return None;
        }
        if let Some(at) = self.request_pace.ready_at(now) {
            self.timers.arm(Timer::RequestPace, at);
            return None;
        }
        let (key, round) = self.recovery.next_request()?;
        self.request_pace.pause(now, self.settings.request_ivl);
        let (source, number) = key;
        let distance_us = micros(self.known.distance(source));
        let local = round == 1 && self.settings.local != LocalRecovery::Off;
        let scope = if local { self.settings.local_scope } else { u8::MAX };
        let (from, sequence, round_sent) = (self.own, number as u32, round.min(u8::MAX.into()) as u8);
        let request = Request { from, source, sequence, round: round_sent, scope, distance_us };
        Packet::Request(request).emit(self.association, buf);
        buf.resize(buf.len().max(self.settings.request_bytes), 0);
        let message = MessageId(number);
        self.events.control("request", message);
        self.events.push(Event::Requested { source: self.members[source as usize], message });
        let (recovery, scene) = recovery!(self, now);
        recovery.on_sending_request(round);
        recovery.on_request(scene, key, round, true);
        Some(self.to_group(scope))
    }

    /// The next repair: one that is to be repeated, or an answer to a request.
    fn poll_repair(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((key, scope)) = self.repeats.pop_first() {
            let answer = Answer { round: 0, scope, again: 0, distance_us: 0, requester: self.own };
            if let Some(transmit) = self.emit_repair(now, key, answer, buf) {
                return Some(transmit);
            }
        }
        while let Some((key, repair)) = self.recovery.next_repair() {
            let (round, requester) = (repair.round.min(u8::MAX.into()) as u8, repair.requester);
            let Reach::Group { scope, again } = repair.reach else { continue };
            let distance_us = micros(self.known.distance(requester));
            let answer = Answer { round, scope, again, distance_us, requester };
            let transmit = self.emit_repair(now, key, answer, buf);
            let (recovery, scene) = recovery!(self, now);
            recovery.on_sent_repair(scene, key, round, distance_us);
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    fn emit_repair(&mut self, now: Time, key: Key, answer: Answer, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (source, number) = key;
        let payload = self.streams.get(&source)?.payload(number)?;
        let data = Data { from: self.own, source, sequence: number as u32, payload };
        Packet::Repair { data, answer }.emit(self.association, buf);
        self.send_pace.pause(now, self.settings.send_ivl);
        let (to_group, message) = (self.to_group(answer.scope), MessageId(number));
        if source == self.own {
            return Some(self.events.data_sent(to_group, message, buf.len(), true));
        }
        let (source, bytes) = (self.members[source as usize], buf.len() as u32);
        self.events.push(Event::Forwarded { source, message, bytes, repair: true });
        Some(to_group)
    }

    /// Whether the members have no room for another message.
    fn is_held(&self) -> bool {
        let sent = self.streams.get(&self.own).map_or(0, KeptStream::next);
        self.flow.as_deref().is_some_and(|flow| sent >= flow.limit(0))
    }

    fn poll_data(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let own = self.own;
        if self.is_held() {
            return None;
        }
        let payload = self.outgoing.pop()?;
        let stream = self.streams.entry(own).or_insert_with(|| KeptStream::new(0));
        let number = stream.push(payload.clone());
        let base = stream.next().saturating_sub(self.settings.buffer);
        self.forget_before(own, base);
        let data = Data { from: own, source: own, sequence: number as u32, payload: &payload };
        Packet::Data(data).emit(self.association, buf);
        self.send_pace.pause(now, self.settings.send_ivl);
        let to_group = self.to_group(u8::MAX);
        Some(self.events.data_sent(to_group, MessageId(number), buf.len(), false))
    }
}

impl Machine for SrmPeer {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn start(&mut self, now: Time) {
        self.arm_session(now);
    }

    fn tell_states(&self, _now: Time, tell: &mut dyn FnMut(InState)) {
        self.recovery.tell_states(tell);
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.events.of_session(parsed, self.association) else { return };
        let rank = packet.sender();
        if rank == self.own || self.members.get(rank as usize) != Some(&datagram.source) {
            return self.events.dropped(DropReason::NotAMember);
        }
        self.known.on_heard(rank);
        self.on_packet(now, datagram, packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Session => self.session_due = true,
                // `poll_transmit` looks at the time itself.
                Timer::RequestPace | Timer::SendPace => {}
            }
        }
        while let Some((key, rounds)) = self.recovery.expire(now) {
            self.on_message_timer(key, rounds);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.recovery.next_timeout()).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let control = self.poll_session(now, buf).or_else(|| self.poll_request(now, buf));
        if control.is_some() {
            return control;
        }
        let has_data = !self.outgoing.is_empty() && !self.is_held();
        if self.repeats.is_empty() && !self.recovery.has_repairs() && !has_data {
            return None;
        }
        if let Some(at) = self.send_pace.ready_at(now) {
            self.timers.arm(Timer::SendPace, at);
            return None;
        }
        // Repairs first: others wait for them in order.
        self.poll_repair(now, buf).or_else(|| self.poll_data(now, buf))
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Sender for SrmPeer {
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        let waiting = self.outgoing.offer(payload)?;
        let sent = self.streams.get(&self.own).map_or(0, KeptStream::next);
        Ok(MessageId(sent + waiting))
    }

    fn finish(&mut self, _now: Time) {
        self.outgoing.finish();
    }

    fn expel(&mut self, _now: Time, member: NodeId) {
        if let Some(rank) = self.members.iter().position(|&other| other == member) {
            self.gone.insert(rank as u32);
            let sent = self.streams.get(&self.own).map_or(0, KeptStream::next);
            let Some(flow) = self.flow.as_deref_mut() else { return };
            let before = flow.start();
            flow.remove(rank as u32);
            let all_have = before.min(sent)..flow.start().min(sent);
            self.complete(all_have);
        }
    }

    fn awaits(&self, member: NodeId) -> bool {
        let Some(flow) = self.flow.as_deref() else { return false };
        let sent = self.streams.get(&self.own).map_or(0, KeptStream::next);
        let rank = self.members.iter().position(|&other| other == member);
        flow.start() < sent && rank.is_some_and(|rank| flow.awaits(rank as u32))
    }

    fn acknowledged(&self, member: NodeId) -> Option<u64> {
        let rank = self.members.iter().position(|&other| other == member)?;
        Some(self.flow.as_deref()?.has(rank as u32))
    }

    fn is_finished(&self) -> bool {
        self.outgoing.is_finished()
    }
}

impl Receiver for SrmPeer {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        let (rank, number, payload) = self.deliveries.pop_front()?;
        self.waiting -= cost(&payload);
        if let Some(&source) = self.ready.first() {
            self.deliver(source);
        }
        Some(Delivery { source: self.members[rank as usize], message: MessageId(number), payload })
    }
}

/// Seconds in whole microseconds.
fn micros(seconds: f64) -> u32 {
    (seconds * 1e6) as u32
}

/// Messages that wait for the interface or for their turn, at most.
const MOST_WAITING: u64 = 64;
/// A member says what it has when so manyth of a window has come since it last did.
const TELLING: u64 = 4;
/// Bytes that a place takes, and the timers and rounds of a message that is missing from it.
const PLACE: usize = 256;
/// Messages given up that are named one by one, of those nobody had heard of.
const MOST_NAMED: u64 = 1 << 10;
