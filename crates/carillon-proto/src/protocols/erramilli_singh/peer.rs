//! Member of the group: a source and a sink behind one interface.

use std::time::Duration;

use bytes::Bytes;
use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, MessageId, ObservedState, OfferError, Received,
    Role, Time, Transmit,
};
use carillon_wire::erramilli_singh::{HEADER_LEN, Packet};

use super::config::Settings;
use super::context::{Context, Timer};
use super::sink::Sink;
use super::source::Source;
use super::states::STATES;
use crate::blocks::{Part, Player};

/// Member that sends, receives, and watches the others. Section 2.8: "all the multicast group nodes are both senders
/// and receivers".
#[derive(Debug)]
pub struct ErramilliSinghPeer {
    source: Source,
    sink: Sink,
}

impl ErramilliSinghPeer {
    /// Creates the member at the node of `build`; fails if a setting is invalid or the group is too large.
    pub fn new(build: &BuildContext, config: &Config) -> Result<Player<Self>, ConfigError> {
        let settings = Settings::new(build, config)?;
        let context = Context::of_member(build, MAX_MEMBERS)?;
        // A returning member has forgotten the numbers of its messages and cannot continue them.
        let may_offer = !build.rejoining && (context.rank == 0 || !settings.lecture);
        let sanity = build.seeds.stream("erramilli-singh.sanity");
        let sink = Sink::new(context.nodes.len(), build.rejoining, settings.clone());
        Ok(Player::of(ErramilliSinghPeer { source: Source::new(may_offer, settings, sanity), sink }, context))
    }
}

impl Part for ErramilliSinghPeer {
    type Timer = Timer;

    const ROLE: Role = Role::Peer;

    fn start(&mut self, context: &mut Context) {
        self.source.start(context);
        self.sink.start(context);
    }

    fn report_states(&self, context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        let turn = context.timers.armed(Timer::Idle).map_or(0, Time::as_nanos);
        tell(ObservedState { of: STATES[0].of, about: 0, state: self.source.state(), turn });
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        let Some(packet) = context.of_session(Packet::parse(datagram.bytes)) else { return };
        let rank = usize::from(packet.sender());
        if rank == context.rank || context.nodes.get(rank) != Some(&datagram.source) {
            return context.events.dropped(DropReason::NotAMember);
        }
        let ErramilliSinghPeer { source, sink } = self;
        sink.on_sign_of_life(context, rank);
        match packet {
            Packet::Data { sequence, .. } => {
                sink.on_data(context, rank, sequence, datagram.bytes.slice(HEADER_LEN..));
            }
            Packet::Status(progress) => sink.on_progress(context, rank, progress, "status"),
            Packet::Sanity(progress) => sink.on_progress(context, rank, progress, "sanity"),
            Packet::Nak { source: asked, .. } if usize::from(asked) != context.rank => {
                context.events.dropped(DropReason::Foreign);
            }
            Packet::Nak { expected, .. } => source.on_nak(context, rank, expected),
            Packet::Choke { pause_us, .. } => {
                source.on_choke(context, Duration::from_micros(pause_us.into()));
            }
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        match timer {
            Timer::Idle => self.source.idle.expire(),
            // `poll_transmit` reads the time itself.
            Timer::Pace => {}
            Timer::Quiet => self.source.on_quiet(context),
            Timer::Nak(rank) => self.sink.on_nak_timer(rank),
            Timer::Silence(rank) => self.sink.on_silence(context, rank),
        }
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.sink.poll(context, buf).or_else(|| self.source.poll(context, buf))
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        self.sink.poll_delivery(context)
    }

    /// Offers a message. In lecture mode only the first member may send.
    fn offer(&mut self, _context: &mut Context, payload: Bytes) -> Result<MessageId, OfferError> {
        self.source.offer(payload)
    }

    fn finish(&mut self, context: &mut Context) {
        self.source.finish(context);
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }
}

/// Maximum number of members. Packets could name 65 536, but each member keeps a window for each other member, and
/// this bounds the memory.
const MAX_MEMBERS: usize = 4096;
