//! A member of the group: a source and a sink behind one interface.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, InState, MessageId, OfferError, Received, Role,
    Time, Transmit,
};
use carillon_wire::erramilli_singh::{HEADER_LEN, Packet};

use super::config::Settings;
use super::describe::DESCRIBED;
use super::scene::{Scene, Timer};
use super::sink::Sink;
use super::source::Source;
use crate::blocks::{Part, Player};

/// A member: sends, receives, and watches the others (section 2.8: "all the multicast group nodes
/// are both senders and receivers").
#[derive(Debug)]
pub struct ErramilliSinghPeer {
    source: Source,
    sink: Sink,
}

impl ErramilliSinghPeer {
    /// The member at the node of the context.
    pub fn new(context: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(context, config)?;
        let scene = Scene::of_member(context, MAX_MEMBERS)?;
        // Who has forgotten the numbers of its messages cannot go on with them.
        let may_offer = !context.rejoining && (scene.rank == 0 || !settings.lecture);
        let sanity = context.seeds.stream("erramilli-singh.sanity");
        let sink = Sink::new(scene.nodes.len(), context.rejoining, settings.clone());
        Ok(Player::of(ErramilliSinghPeer { source: Source::new(may_offer, settings, sanity), sink }, scene))
    }
}

impl Part for ErramilliSinghPeer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn start(&mut self, scene: &mut Scene) {
        self.source.start(scene);
        self.sink.start(scene);
    }

    fn tell_states(&self, scene: &Scene, tell: &mut dyn FnMut(InState)) {
        let turn = scene.timers.armed(Timer::Idle).map_or(0, Time::as_nanos);
        tell(InState { of: DESCRIBED.states[0].of, about: 0, state: self.source.state(), turn });
    }

    fn handle_datagram(&mut self, scene: &mut Scene, datagram: Received<'_>) {
        let Some(packet) = scene.of_session(Packet::parse(datagram.bytes)) else { return };
        let rank = usize::from(packet.sender());
        if rank == scene.rank || scene.nodes.get(rank) != Some(&datagram.source) {
            return scene.events.dropped(DropReason::NotAMember);
        }
        let ErramilliSinghPeer { source, sink } = self;
        sink.on_sign_of_life(scene, rank);
        match packet {
            Packet::Data { sequence, .. } => {
                sink.on_data(scene, rank, sequence, datagram.bytes.slice(HEADER_LEN..));
            }
            Packet::Status(progress) => sink.on_progress(scene, rank, progress, "status"),
            Packet::Sanity(progress) => sink.on_progress(scene, rank, progress, "sanity"),
            Packet::Nak { source: asked, .. } if usize::from(asked) != scene.rank => {
                scene.events.dropped(DropReason::Foreign);
            }
            Packet::Nak { expected, .. } => source.on_nak(scene, rank, expected),
            Packet::Choke { pause_us, .. } => {
                source.on_choke(scene, Duration::from_micros(pause_us.into()));
            }
        }
    }

    fn on_timer(&mut self, scene: &mut Scene, timer: Timer) {
        match timer {
            Timer::Idle => self.source.idle.expire(),
            // `poll_transmit` looks at the time itself.
            Timer::Pace => {}
            Timer::Quiet => self.source.on_quiet(scene),
            Timer::Nak(rank) => self.sink.on_nak_timer(rank),
            Timer::Silence(rank) => self.sink.on_silence(scene, rank),
        }
    }

    fn poll_transmit(&mut self, scene: &mut Scene, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.sink.poll(scene, buf).or_else(|| self.source.poll(scene, buf))
    }

    fn poll_delivery(&mut self, scene: &mut Scene) -> Option<Delivery> {
        self.sink.poll_delivery(scene)
    }

    /// In lecture mode only the first member sends: the others have finished before they begin.
    fn offer(&mut self, _scene: &mut Scene, payload: Bytes) -> Result<MessageId, OfferError> {
        self.source.offer(payload)
    }

    fn finish(&mut self, scene: &mut Scene) {
        self.source.finish(scene);
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }
}

/// Members of a group. Packets could name 65 536; each member keeps a window of each other, and as many would fill 400 GB.
const MAX_MEMBERS: usize = 4096;
