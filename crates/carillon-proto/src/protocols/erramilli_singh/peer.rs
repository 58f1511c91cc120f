//! A member of the group: a source and a sink behind one interface.

use std::sync::Arc;

use bytes::Bytes;
use carillon_core::{
    AssociationId, BuildContext, Config, ConfigError, Delivery, Dest, DropReason, Events, GroupId, InState,
    Machine, MessageId, NodeId, OfferError, Received, Receiver, Sender, Time, Timers, Transmit,
};
use carillon_wire::erramilli_singh::{HEADER_LEN, Packet};

use super::config::Settings;
use super::describe::STATES;
use super::repairs::To;
use super::sink::{Sink, pause};
use super::source::Source;

/// A member: sends, receives, and watches the others (section 2.8: "all the multicast group nodes
/// are both senders and receivers").
#[derive(Debug)]
pub struct ErramilliSinghPeer {
    association: AssociationId,
    group: GroupId,
    members: Arc<[NodeId]>,
    rank: usize,
    source: Source,
    sink: Sink,
    timers: Timers<Timer>,
    events: Events,
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

/// Where source and sink act: the time, and what they share.
pub(super) struct Scene<'a> {
    pub now: Time,
    pub timers: &'a mut Timers<Timer>,
    pub events: &'a mut Events,
    group: GroupId,
    members: &'a [NodeId],
}

impl Scene<'_> {
    /// A datagram that leaves now.
    pub fn transmit(&self, to: To) -> Transmit {
        Transmit::now(match to {
            To::All => Dest::group(self.group),
            To::Member(rank) => Dest::Node(self.members[rank]),
        })
    }
}

impl ErramilliSinghPeer {
    /// The member at the node of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Self, ConfigError> {
        let settings = Settings::new(context, config)?;
        let rank = context.rank().and_then(|rank| u16::try_from(rank).ok());
        let Some(rank) = rank.filter(|_| context.members.len() <= MAX_MEMBERS) else {
            let reason = format!("this node must be one of at most {MAX_MEMBERS} members");
            return Err(ConfigError::Conflict(reason));
        };
        // Who has forgotten the numbers of its messages cannot go on with them.
        let may_offer = !context.rejoining && (rank == 0 || !settings.lecture);
        let association = context.association;
        let sanity = context.seeds.stream("erramilli-singh.sanity");
        let sink = Sink::new(association, rank, context.members.clone(), context.rejoining, settings.clone());
        Ok(ErramilliSinghPeer {
            association,
            group: context.group,
            members: context.members.clone(),
            rank: rank.into(),
            source: Source::new(association, rank, may_offer, settings, sanity),
            sink,
            timers: Timers::new(),
            events: Events::default(),
        })
    }

    /// Both sides and the scene at `now`.
    fn at(&mut self, now: Time) -> (&mut Source, &mut Sink, Scene<'_>) {
        let scene = Scene {
            now,
            timers: &mut self.timers,
            events: &mut self.events,
            group: self.group,
            members: &self.members,
        };
        (&mut self.source, &mut self.sink, scene)
    }

    /// Takes in a packet of a member.
    fn on_packet(&mut self, now: Time, bytes: &Bytes, packet: Packet<'_>) {
        let own = self.rank;
        let rank = usize::from(packet.sender());
        let (source, sink, mut scene) = self.at(now);
        sink.on_sign_of_life(&mut scene, rank);
        match packet {
            Packet::Data { sequence, .. } => {
                sink.on_data(&mut scene, rank, sequence, bytes.slice(HEADER_LEN..));
            }
            Packet::Status(progress) => sink.on_progress(&mut scene, rank, progress, "status"),
            Packet::Sanity(progress) => sink.on_progress(&mut scene, rank, progress, "sanity"),
            Packet::Nak { source: asked, .. } if usize::from(asked) != own => {
                scene.events.dropped(DropReason::Foreign);
            }
            Packet::Nak { expected, .. } => source.on_nak(&mut scene, rank, expected),
            Packet::Choke { pause_us, .. } => source.on_choke(&mut scene, pause(pause_us)),
        }
    }
}

impl Machine for ErramilliSinghPeer {
    fn events(&mut self) -> Option<&mut Events> {
        Some(&mut self.events)
    }

    fn start(&mut self, now: Time) {
        let (source, sink, mut scene) = self.at(now);
        source.start(&mut scene);
        sink.start(&mut scene);
    }

    fn tell_states(&self, _now: Time, tell: &mut dyn FnMut(InState)) {
        let turn = self.timers.armed(Timer::Idle).map_or(0, Time::as_nanos);
        tell(InState { of: STATES[0].of, about: 0, state: self.source.state(), turn });
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        let parsed = Packet::parse(datagram.bytes);
        let Some(packet) = self.events.of_session(parsed, self.association) else { return };
        let rank = usize::from(packet.sender());
        if rank == self.rank || self.members.get(rank) != Some(&datagram.source) {
            return self.events.dropped(DropReason::NotAMember);
        }
        self.on_packet(now, datagram.bytes, packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.expire(now) {
            let (source, sink, mut scene) = self.at(now);
            match timer {
                Timer::Idle => source.on_idle(),
                // `poll_transmit` looks at the time itself.
                Timer::Pace => {}
                Timer::Quiet => source.on_quiet(&mut scene),
                Timer::Nak(rank) => sink.on_nak_timer(rank),
                Timer::Silence(rank) => sink.on_silence(&mut scene, rank),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (source, sink, mut scene) = self.at(now);
        sink.poll(&mut scene, buf).or_else(|| source.poll(&mut scene, buf))
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
    fn offer(&mut self, now: Time, payload: Bytes) -> Result<MessageId, OfferError> {
        self.at(now).0.offer(payload)
    }

    fn finish(&mut self, now: Time) {
        let (source, _, mut scene) = self.at(now);
        source.finish(&mut scene);
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }
}

impl Receiver for ErramilliSinghPeer {
    fn poll_delivery(&mut self) -> Option<Delivery> {
        self.sink.poll_delivery()
    }
}

/// Ranks have 16 bits on the wire.
const MAX_MEMBERS: usize = 1 << 16;
