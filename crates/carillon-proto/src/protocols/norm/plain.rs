//! Plain sessions of NORM: files or a stream, as other implementations send and receive them.
//!
//! Receivers learn from its first data whether a source sends files or a stream. A receiver is one of files until a
//! symbol of a stream arrives.

use std::time::Duration;

use carillon_core::{
    BuildContext, Config, ConfigError, Delivery, DropReason, ObservedState, PlainContents, PlainKind,
    PlainPacket, PlainSessions, Received, Role, SourceKey, Transmit,
};
use carillon_wire::norm::{Body, Command, Object, Packet, Position, Response};

use super::files::{NormFileReceiver, NormFileSender};
use super::identity::{parse, source_key};
use super::receiver::NormReceiver;
use super::sender::NormSender;
use super::timing::Timer;
use crate::blocks::{MachineContext, Part, Player};

type Context = MachineContext<Timer>;

pub(super) const PLAIN: PlainSessions = PlainSessions {
    // Other receivers may be far away, and a stranger that pretends to be farther must not delay the end for long.
    // Parity of long blocks repairs more losses at once.
    settings: &[
        ("block", "190"),
        ("backoff_factor", "4"),
        ("grtt", "50 ms"),
        ("grtt_max", "2 s"),
        ("robust_factor", "20"),
    ],
    port: None,
    linger: Some("linger"),
    clock: None,
    rate: Some("rate"),
    contents: PlainContents::FilesOrStream,
    confirms: true,
    completes: true,
    reopens_after: Some(REOPENS_AFTER),
    source_memory: 64 << 20,
    read: |bytes, _| {
        let packet = Packet::parse(bytes).ok()?;
        let (sender, opens) = match packet.body {
            Body::Info { sender, .. } | Body::Data { sender, .. } => (sender, true),
            Body::Command { sender, command } => (sender, matches!(command, Command::Flush { .. })),
            // Requests of other receivers suppress own ones.
            Body::Nack { response: Response { sender, instance, .. }, .. } => {
                let source = SourceKey(u64::from(sender) << 16 | u64::from(instance));
                return Some(PlainPacket { source, opens: false, ends: false, is_request: true });
            }
            Body::Ack { .. } => return None,
        };
        Some(PlainPacket { source: source_key(packet.source, sender), opens, ends: false, is_request: false })
    },
    sender: |kind, build, settings| match kind {
        PlainKind::Files => Ok(Box::new(NormFileSender::new(build, settings)?)),
        PlainKind::Messages => Ok(Box::new(NormSender::plain(build, settings)?)),
    },
    receiver: |key, build, settings| Ok(Box::new(NormPlainReceiver::new(key, build, settings)?)),
};

/// Receives the files or the stream of a source.
#[derive(Debug)]
pub struct NormPlainReceiver {
    source: SourceKey,
    id: u32,
    build: BuildContext,
    settings: Config,
    files: NormFileReceiver,
    /// The stream, and the number of its object.
    stream: Option<(u16, NormReceiver)>,
}

impl NormPlainReceiver {
    /// Creates the receiver of a source.
    pub fn new(
        source: SourceKey,
        build: &BuildContext,
        settings: &Config,
    ) -> Result<Player<Self>, ConfigError> {
        let id = match settings.count("node_id") {
            0 => build.seeds.stream("norm.node_id").below(u64::from(u32::MAX) - 2) as u32 + 1,
            id => id as u32,
        };
        let files = NormFileReceiver::new(source, id, build, settings);
        let (build, settings) = (build.clone(), settings.clone());
        let receiver = NormPlainReceiver { source, id, build: build.clone(), settings, files, stream: None };
        Ok(receiver.play(&build))
    }

    /// Opens the receiver of a stream with its first symbol. Another stream of the source ends the one before.
    fn open_stream(&mut self, context: &mut Context, packet: &Packet<'_>) {
        let Body::Data { object, position: Position::Rs8 { block, .. }, .. } = packet.body else { return };
        let is_open = self.stream.as_ref().is_some_and(|&(open, _)| open == object.id);
        if is_open || object.flags & Object::STREAM == 0 || self.files.has_begun() {
            return;
        }
        let Some(transmission) = packet.extensions.transmission(FEC_ID) else { return };
        let context_of = (&self.build, &self.settings);
        let stream =
            NormReceiver::plain((self.source, self.id), (object.id, block), transmission, context_of);
        let Some(stream) = stream else { return };
        if let Some((_, before)) = &mut self.stream {
            before.close(context);
        }
        context.timers.cancel(Timer::Request);
        self.stream = Some((object.id, stream));
    }
}

/// Calls a method of the receiver of the stream, or of that of files.
macro_rules! delegate {
    ($receiver:expr, $method:ident($($argument:expr),*)) => {
        match &mut $receiver.stream {
            Some((_, stream)) => stream.$method($($argument),*),
            None => $receiver.files.$method($($argument),*),
        }
    };
}

impl Part for NormPlainReceiver {
    type Timer = Timer;

    const ROLE: Role = Role::Receiver;

    fn held(&self) -> Option<u64> {
        match &self.stream {
            Some((_, stream)) => stream.held(),
            None => self.files.held(),
        }
    }

    fn report_states(&self, context: &Context, tell: &mut dyn FnMut(ObservedState)) {
        match &self.stream {
            Some((_, stream)) => stream.report_states(context, tell),
            None => self.files.report_states(context, tell),
        }
    }

    fn on_timer(&mut self, context: &mut Context, timer: Timer) {
        delegate!(self, on_timer(context, timer));
    }

    fn handle_datagram(&mut self, context: &mut Context, datagram: Received<'_>) {
        if self.is_complete() {
            return context.events.dropped(DropReason::NotAMember);
        }
        let Some(packet) = parse(&mut context.events, datagram.bytes) else { return };
        self.open_stream(context, &packet);
        delegate!(self, handle_datagram(context, datagram));
    }

    fn poll_transmit(&mut self, context: &mut Context, buf: &mut Vec<u8>) -> Option<Transmit> {
        delegate!(self, poll_transmit(context, buf))
    }

    fn poll_delivery(&mut self, context: &mut Context) -> Option<Delivery> {
        delegate!(self, poll_delivery(context))
    }

    fn is_complete(&self) -> bool {
        match &self.stream {
            Some((_, stream)) => stream.is_complete(),
            None => self.files.is_complete(),
        }
    }
}

/// FEC encoding: Reed-Solomon over GF(2^8).
const FEC_ID: u8 = 5;
/// Time after the end of a session after which its numbers are those of another session.
const REOPENS_AFTER: Duration = Duration::from_secs(1);
