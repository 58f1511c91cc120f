//! A member of the group: a source and a sink behind one interface.

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, Events, InState, Machine, MessageId, OfferError,
    Received, Receiver, Sender, Time, Transmit,
};
use carillon_wire::erramilli_singh::{HEADER_LEN, Packet};

use super::config::Settings;
use super::describe::STATES;
use super::sink::{Sink, pause};
use super::source::Source;

/// Where source and sink act.
pub(super) type Scene = crate::blocks::Scene<Timer>;

/// A member: sends, receives, and watches the others (section 2.8: "all the multicast group nodes
/// are both senders and receivers").
#[derive(Debug)]
pub struct ErramilliSinghPeer {
    scene: Scene,
    source: Source,
    sink: Sink,
}

/// The timers of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// T1 or T2 is over: say how far this node has come.
    Idle,
    /// The next data packet may go out.
    Pace,
    /// No NAK has come for long: all messages are done with.
    Quiet,
    /// The answer to the NAK to this member is overdue: ask again.
    Nak(usize),
    /// This member has not been heard for long: it may have failed.
    Silence(usize),
}

impl ErramilliSinghPeer {
    /// The member at the node of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Settings::new(context, config)?;
        let Some(scene) = Scene::new(context).filter(|scene| scene.nodes.len() <= MAX_MEMBERS) else {
            let reason = format!("this node must be one of at most {MAX_MEMBERS} members");
            return Err(ConfigError::Conflict(reason));
        };
        // Who has forgotten the numbers of its messages cannot go on with them.
        let may_offer = !context.rejoining && (scene.rank == 0 || !settings.lecture);
        let sanity = context.seeds.stream("erramilli-singh.sanity");
        let sink = Sink::new(scene.nodes.len(), context.rejoining, settings.clone());
        Ok(ErramilliSinghPeer { scene, source: Source::new(may_offer, settings, sanity), sink })
    }

    /// Takes in a packet of a member.
    fn on_packet(&mut self, bytes: &Bytes, packet: Packet<'_>) {
        let (source, sink, scene) = (&mut self.source, &mut self.sink, &mut self.scene);
        let rank = usize::from(packet.sender());
        sink.on_sign_of_life(scene, rank);
        match packet {
            Packet::Data { sequence, .. } => sink.on_data(scene, rank, sequence, bytes.slice(HEADER_LEN..)),
            Packet::Status(progress) => sink.on_progress(scene, rank, progress, "status"),
            Packet::Sanity(progress) => sink.on_progress(scene, rank, progress, "sanity"),
            Packet::Nak { source: asked, .. } if usize::from(asked) != scene.rank => {
                scene.events.dropped(DropReason::Foreign);
            }
            Packet::Nak { expected, .. } => source.on_nak(scene, rank, expected),
            Packet::Choke { pause_us, .. } => source.on_choke(scene, pause(pause_us)),
        }
    }
}

impl Machine for ErramilliSinghPeer {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.scene.events)
    }

    fn start(&mut self, now: Time) {
        self.scene.now = now;
        self.source.start(&mut self.scene);
        self.sink.start(&mut self.scene);
    }

    fn tell_states(&self, _now: Time, tell: &mut dyn FnMut(InState)) {
        let turn = self.scene.timers.armed(Timer::Idle).map_or(0, Time::as_nanos);
        tell(InState { of: STATES[0].of, about: 0, state: self.source.state(), turn });
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        self.scene.now = now;
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.scene.events.of_session(parsed, self.scene.association) else { return };
        let rank = usize::from(packet.sender());
        if rank == self.scene.rank || self.scene.nodes.get(rank) != Some(&datagram.source) {
            return self.scene.events.dropped(DropReason::NotAMember);
        }
        self.on_packet(datagram.bytes, packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.scene.timers.expire(now) {
            self.scene.now = now;
            match timer {
                Timer::Idle => self.source.on_idle(),
                // `poll_transmit` looks at the time itself.
                Timer::Pace => {}
                Timer::Quiet => self.source.on_quiet(&mut self.scene),
                Timer::Nak(rank) => self.sink.on_nak_timer(rank),
                Timer::Silence(rank) => self.sink.on_silence(&mut self.scene, rank),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.scene.timers.next()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.scene.now = now;
        let scene = &mut self.scene;
        self.sink.poll(scene, buf).or_else(|| self.source.poll(scene, buf))
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }
}

impl Sender for ErramilliSinghPeer {
    /// In lecture mode only the first member sends: the others have finished before they begin.
    fn offer(&mut self, _now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        self.source.offer(payload)
    }

    fn finish(&mut self, now: Time) {
        self.scene.now = now;
        self.source.finish(&mut self.scene);
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }
}

impl Receiver for ErramilliSinghPeer {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.sink.poll_delivery(&mut self.scene)
    }
}

/// Ranks have 16 bits on the wire.
const MAX_MEMBERS: usize = 1 << 16;
