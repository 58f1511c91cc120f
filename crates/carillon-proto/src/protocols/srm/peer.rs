//! A member of the group: all of them are alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, Event, InState, MessageId, NodeId, OfferError,
    Pace, Received, Role, Time, Transmit,
};
use carillon_wire::srm::{Answer, Data, HEADER_LEN, Packet, Request};

use super::answers::Answers;
use super::config::Settings;
use super::recovery::Key;
use super::reports::Reports;
use super::scene::{Scene, Timer, micros};
use super::source::Source;
use super::streams::Streams;
use crate::blocks::{LocalRecovery, Part, Player};

/// A member: sends, receives, asks and repairs.
#[derive(Debug)]
pub struct SrmPeer {
    settings: Arc<Settings>,
    streams: Streams,
    source: Source,
    reports: Reports,
    answers: Answers,
    /// Members that are gone.
    gone: BTreeSet<u32>,
    request_pace: Pace,
    send_pace: Pace,
}

impl SrmPeer {
    /// The member at the node of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Arc::new(Settings::new(context, config)?);
        let scene = Scene::of_member(context, u32::MAX as usize)?;
        let own = scene.rank as u32;
        let peer = SrmPeer {
            streams: Streams::new(settings.clone(), own, context),
            source: Source::new(settings.clone(), own, context),
            reports: Reports::new(settings.clone(), context.seeds.stream("srm.session")),
            answers: Answers::new(settings.clone()),
            gone: BTreeSet::new(),
            request_pace: Pace::default(),
            send_pace: Pace::default(),
            settings,
        };
        Ok(Player::of(peer, scene))
    }

    /// A message came, from its source or, with `answer`, as a repair.
    fn on_data(&mut self, scene: &mut Scene, data: Data<'_>, payload: Bytes, answer: Option<Answer>) {
        let streams = &mut self.streams;
        let source = data.source;
        // Only its source sends a message for the first time.
        if (answer.is_none() && source != data.from) || source as usize >= scene.nodes.len() {
            return scene.events.dropped(DropReason::Malformed);
        }
        let number = streams.stream(source, data.sequence).expand(data.sequence);
        if !streams.has_room(source, number, &payload) {
            return scene.events.dropped(DropReason::BufferFull);
        }
        let key = (source, number);
        let packet = if answer.is_some() { "repair" } else { "data" };
        let stream = streams.stream(source, data.sequence);
        let (base, is_awaited) = (stream.base(), stream.is_awaited(number));
        if number >= stream.next() {
            if source as usize == scene.rank {
                return scene.events.dropped(DropReason::OutOfWindow);
            }
            scene.events.received(packet, number);
            streams.learn(scene, source, number + 1, Some(number));
            return streams.store(scene, key, payload);
        }
        if number < base {
            return scene.events.dropped(DropReason::OutOfWindow);
        }
        let was_missing = streams.recovery.on_arrival(scene, key, answer.is_none());
        if let Some(answer) = answer {
            streams.recovery.on_repair(scene, key, answer.round, answer.distance_us);
        }
        if !is_awaited {
            return scene.events.dropped(DropReason::Duplicate);
        }
        debug_assert!(was_missing, "what is missing is asked for");
        scene.events.received(packet, number);
        if let Some(answer) = answer {
            let (source, message) = (scene.nodes[source as usize], MessageId(number));
            scene.events.push(Event::LossRepaired { source, message });
            self.answers.on_repaired(scene, key, answer);
        }
        streams.store(scene, key, payload);
    }

    /// A wait of a message is over; with how many rounds are over, its hold-down.
    fn on_message_timer(&mut self, scene: &mut Scene, key: Key, rounds: Option<u8>) {
        // Nobody can be sure to have what a member sent that is gone: all are asked some times more.
        let (source, number) = key;
        let is_hopeless = |round| round > self.settings.backoff_limit + 1;
        if self.gone.contains(&source) && self.streams.recovery.request_round(key).is_some_and(is_hopeless) {
            self.streams.recovery.forget(source, number..number + 1);
            return self.streams.give_up(scene, key);
        }
        if let Some(rounds) = rounds {
            self.streams.set_rounds(key, rounds);
        }
    }

    fn poll_request(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.streams.recovery.requests.is_due() {
            return None;
        }
        if let Some(at) = self.request_pace.ready_at(scene.now) {
            scene.timers.arm(Timer::RequestPace, at);
            return None;
        }
        let (key, round) = self.streams.recovery.next_request()?;
        self.request_pace.pause(scene.now, self.settings.request_ivl);
        let (source, number) = key;
        let distance_us = micros(self.streams.recovery.known.distance(source));
        let local = round == 1 && self.settings.local != LocalRecovery::Off;
        let scope = if local { self.settings.local_scope } else { u8::MAX };
        let (from, sequence, round_sent) =
            (scene.rank as u32, number as u32, round.min(u8::MAX.into()) as u8);
        let request = Request { from, source, sequence, round: round_sent, scope, distance_us };
        Packet::Request(request).emit(scene.association, buf);
        buf.resize(buf.len().max(self.settings.request_bytes), 0);
        scene.events.control("request", number);
        let (source, message) = (scene.nodes[source as usize], MessageId(number));
        scene.events.push(Event::Requested { source, message });
        self.streams.recovery.on_request(scene, key, round, true);
        Some(Transmit::now(scene.within(scope)))
    }
}

impl Part for SrmPeer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn held(&self) -> Option<u64> {
        Some(self.streams.held())
    }

    fn start(&mut self, scene: &mut Scene) {
        self.reports.arm(scene, &self.streams.recovery.known);
    }

    fn tell_states(&self, _scene: &Scene, tell: &mut dyn FnMut(InState)) {
        self.streams.recovery.tell_states(tell);
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(Packet::parse(datagram.bytes)) else { return };
        let rank = packet.sender();
        if rank as usize == scene.rank || scene.nodes.get(rank as usize) != Some(&datagram.source) {
            return scene.events.dropped(DropReason::NotAMember);
        }
        let SrmPeer { streams, source, reports, answers, .. } = self;
        streams.recovery.known.on_heard(rank);
        let payload = || datagram.bytes.slice(HEADER_LEN..);
        match packet {
            Packet::Session(session) => reports.on_session(scene, streams, source, &session),
            Packet::Request(request) => {
                answers.on_request(scene, streams, &request, datagram.scope);
            }
            Packet::Data(data) => self.on_data(scene, data, payload(), None),
            Packet::Repair { data, answer } => self.on_data(scene, data, payload(), Some(answer)),
        }
    }

    fn on_timer(&mut self, _scene: &mut Scene, timer: Timer) {
        match timer {
            Timer::Session => self.reports.due = true,
            // `poll_transmit` looks at the time itself.
            Timer::RequestPace | Timer::SendPace => {}
        }
    }

    fn handle_timeout(&mut self, scene: &mut Scene) {
        self.fire(scene);
        while let Some((key, rounds)) = self.streams.recovery.expire(scene.now) {
            self.on_message_timer(scene, key, rounds);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.streams.recovery.next_timeout()
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        let report = self.reports.poll(scene, &mut self.streams, buf);
        let control = report.or_else(|| self.poll_request(scene, buf));
        if control.is_some() {
            return control;
        }
        let SrmPeer { streams, source, answers, .. } = self;
        let has_repairs = !answers.repeats.is_empty() || streams.recovery.repairs.is_due();
        if !has_repairs && !source.is_ready(streams.sent()) {
            return None;
        }
        if let Some(at) = self.send_pace.ready_at(scene.now) {
            scene.timers.arm(Timer::SendPace, at);
            return None;
        }
        // Repairs first: others wait for them in order.
        let transmit = answers.poll(scene, streams, buf).or_else(|| source.poll(scene, streams, buf))?;
        self.send_pace.pause(scene.now, self.settings.send_ivl);
        Some(transmit)
    }

    fn poll_delivery(&mut self, scene: &mut Scene) -> Option<Delivery> {
        self.streams.poll_delivery(scene)
    }

    fn offer(&mut self, _scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        let waiting = self.source.outgoing.offer(payload)?;
        Ok(MessageId(self.streams.sent() + waiting))
    }

    fn finish(&mut self, _scene: &mut Scene) {
        self.source.outgoing.finish();
    }

    fn expel(&mut self, scene: &mut Scene, member: NodeId) {
        if let Some(rank) = scene.rank_of(member) {
            self.gone.insert(rank as u32);
            self.source.expel(scene, self.streams.sent(), rank as u32);
        }
    }

    fn awaits(&self, scene: &Scene, member: NodeId) -> bool {
        scene.rank_of(member).is_some_and(|rank| self.source.awaits(self.streams.sent(), rank as u32))
    }

    fn acknowledged(&self, scene: &Scene, member: NodeId) -> Option<u64> {
        self.source.acknowledged(scene.rank_of(member)? as u32)
    }

    fn is_finished(&self) -> bool {
        self.source.outgoing.is_finished()
    }
}
