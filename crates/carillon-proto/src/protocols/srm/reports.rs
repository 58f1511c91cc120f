//! Session messages: sending this member's status and handling that of others.

use std::sync::Arc;

use carillon_core::{Draws, DropReason, Rng, Transmit};
use carillon_wire::srm::{Entries, Entry, Packet, Session};

use super::config::Settings;
use super::context::{Context, Timer};
use super::source::Source;
use super::streams::Streams;
use crate::blocks::{Distances, Echo, KeptStream, in_seconds};

/// Session messages of this member and their timer.
#[derive(Debug)]
pub(super) struct Reports {
    settings: Arc<Settings>,
    number: u32,
    pub due: bool,
    draws: Draws,
}

impl Reports {
    /// Creates the state before the first session message.
    pub fn new(settings: Arc<Settings>, draws: Draws) -> Self {
        Reports { settings, number: 0, due: false, draws }
    }

    /// Arms the timer of the next session message, with random jitter of 10 %.
    pub fn arm(&mut self, context: &mut Context, distances: &Distances) {
        let group = distances.group() as f64;
        let scale = if self.settings.session_log { 1.0 + libm::log(group) } else { 1.0 };
        let interval =
            self.settings.session_ivl.as_secs_f64() * (0.9 + 0.2 * self.draws.with(Rng::unit)) * scale;
        context.timers.arm(Timer::Session, context.now + in_seconds(interval, 1.0));
    }

    /// Handles a session message: distance to its sender, and the status of sources.
    pub fn on_session(
        &self,
        context: &mut Context,
        streams: &mut Streams,
        source: &mut Source,
        session: &Session<'_>,
    ) {
        // Only the echo of this member's own clock matters.
        let own = context.rank as u32;
        let echo = session.sources.of(own).or_else(|| session.others.of(own));
        let echo = echo.map(|Entry { came_us, sent_us, .. }| Echo { came_us, sent_us });
        if !streams.recovery.distances.on_report(
            context.now,
            session.from,
            session.number,
            session.clock_us,
            echo,
        ) {
            return context.events.dropped(DropReason::OutOfOrder);
        }
        context.events.received("session", session.next.saturating_sub(1));
        if session.next != 0 || streams.get(session.from).is_some() {
            let stream = streams.stream(session.from, session.next);
            let next = stream.expand(session.next);
            streams.extend_known(context, session.from, next, None);
            let oldest = streams.stream(session.from, session.next).expand(session.oldest);
            // Other members hold no older messages than the source, since their buffers are not larger.
            if oldest <= next {
                streams.declare_lost_before(context, session.from, oldest);
                streams.deliver(context, session.from);
            }
        }
        for entry in session.sources.iter() {
            if entry.member == own {
                source.on_report(context, streams, session.from, entry.next);
            } else if (entry.member as usize) < context.nodes.len() {
                let next = streams.stream(entry.member, entry.next).expand(entry.next);
                streams.extend_known(context, entry.member, next, None);
            }
        }
    }

    /// Emits a session message if it is due, or if a source may wait for this member's status.
    pub fn poll(
        &mut self,
        context: &mut Context,
        streams: &mut Streams,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !(std::mem::take(&mut self.due) | std::mem::take(&mut streams.report_due)) {
            return None;
        }
        self.arm(context, &streams.recovery.distances);
        self.number = self.number.wrapping_add(1);
        let mut lists = [Vec::new(), Vec::new()];
        let report = streams.report(self.settings.session_entries);
        for (member, next, Echo { came_us, sent_us }) in report {
            let entry = Entry { member, next: next as u32, came_us, sent_us };
            lists[usize::from(next == 0)].push(entry.to_bytes());
        }
        let [sources, others] = lists;
        let own = context.rank as u32;
        let (next, oldest) = (streams.sent(), streams.get(own).map_or(0, KeptStream::base));
        let session = Session {
            from: own,
            number: self.number,
            clock_us: streams.recovery.distances.clock_us(context.now),
            next: next as u32,
            oldest: oldest as u32,
            sources: Entries::new(&sources),
            others: Entries::new(&others),
        };
        Packet::Session(session).emit(context.association, buf);
        context.events.control("session", next.saturating_sub(1));
        Some(context.to_group())
    }
}
