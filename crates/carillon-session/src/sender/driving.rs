//! Sender's session as a machine: datagrams, timers, and packets to send.

use carillon_core::{
    DropReason, Event, Machine, Notice, ObservedState, Received, Receiver, Sender, Span, Time, Timers,
    Transmit,
};
use carillon_wire::Envelope;
use carillon_wire::envelope::protocol;
use carillon_wire::session::EarlierPacket;

use super::state::{Pending, SenderPhase, Timer};
use super::{SenderSession, UnservedReason};

impl SenderSession {
    /// Timers of the machines.
    fn timers(&self) -> [&Timers<Timer>; 4] {
        [&self.announcing.timers, &self.gathering.timers, &self.assembling.timers, &self.watching.timers]
    }

    /// Takes the first timer of all machines that is due.
    fn expire(&mut self, now: Time) -> Option<Timer> {
        let all = [
            &mut self.announcing.timers,
            &mut self.gathering.timers,
            &mut self.assembling.timers,
            &mut self.watching.timers,
        ];
        let armed = all.into_iter().filter_map(|timers| Some((timers.first()?, timers)));
        armed.min_by_key(|(first, _)| *first)?.1.expire(now)
    }

    /// Stops all timers, as a phase ends.
    pub(super) fn stop_timers(&mut self) {
        self.announcing.timers.clear();
        self.gathering.end();
        self.assembling.timers.clear();
        self.watching.timers.clear();
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Invite => match self.announcing.end {
                Some(_) => _ = self.announcing.pending.insert(Pending::Invite),
                None => {
                    self.invite(now);
                    // MEASURE follows each invitation while distances are missing.
                    self.ask_distances();
                    // The roster takes several datagrams, so it is repeated only at regular heartbeats.
                    if self.announcing.is_regular() {
                        self.repeat_roster();
                    }
                }
            },
            Timer::GatherWait => self.gathering.on_wait_over(),
            Timer::GatherLimit => self.on_gather_limit(now),
            Timer::Assemble => self.on_assemble_timeout(now),
            Timer::Standstill => self.on_standstill_timeout(now),
            // Too few peers may be left to agree on anything, which is not needed any longer.
            Timer::Rest if self.phase == SenderPhase::Running && self.all_have_reported() => self.close(now),
            Timer::Rest => {}
            Timer::Watch => self.watch(now),
            Timer::MemberSilent(node) => {
                let Some(index) = self.roster.index_of(node) else { return };
                let until = self.roster.record(index).heard + self.config.member_timeout;
                // Time in which the sender was suspended does not count.
                let rest = until.since(self.awake(now));
                if !rest.is_zero() {
                    self.watching.timers.arm(timer, now + rest);
                } else if !self.is_needed(index) {
                    // The member has reported its result.
                } else if self.phase == SenderPhase::Gathering {
                    // The name of a removed member is free again, for example for its restarted process.
                    self.forget(now, index, UnservedReason::Silent(self.config.member_timeout));
                } else {
                    let timeout = Span::Time(self.config.member_timeout);
                    self.give_up(now, index, format!("silent for {timeout}"));
                }
            }
        }
    }
}

impl Machine for SenderSession {
    fn start(&mut self, now: Time) {
        self.events.push(Event::StateChanged { state: "gathering" });
        self.invite(now);
        self.gathering.begin(now, &self.config.gather, self.config.limits.limit);
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        self.note_time(now);
        if Envelope::parse_for(protocol::SESSION, datagram.bytes).is_ok() {
            self.on_session_packet(now, datagram);
        } else if let Some(earlier) = EarlierPacket::parse(datagram.bytes) {
            self.on_earlier_release(now, datagram.source, earlier);
        } else if let Some(index) = self.roster.index_of(datagram.source) {
            if self.roster.record(index).expelled {
                self.refuse_expelled(now, index);
            } else if self.hosted.machine.is_none() {
                self.events.dropped(DropReason::OutOfWindow);
            } else if let Some(bytes) = self.opened(index, &datagram) {
                // Any packet with the token is a keepalive.
                self.heard(now, index);
                self.with_inner(|inner| inner.handle_datagram(now, Received { bytes: &bytes, ..datagram }));
            } else {
                // A stranger used the member's address.
                self.events.dropped(DropReason::NotAMember);
            }
        } else if self.config.lets_relays_in() && self.hosted.machine.is_some() {
            // A router forwards requests of members. The protocol checks their origin.
            self.with_inner(|inner| inner.handle_datagram(now, datagram));
        } else {
            self.events.dropped(DropReason::NotAMember);
        }
        self.advance(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.note_time(now);
        while let Some(timer) = self.expire(now) {
            self.on_timer(now, timer);
        }
        self.with_inner(|inner| inner.handle_timeout(now));
        self.advance(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let inner = self.hosted.machine.as_ref().and_then(|inner| inner.poll_timeout());
        self.timers().iter().filter_map(|timers| timers.next()).chain(inner).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            // Answers first: a member gets the acknowledgment of its report before the announcement of the end.
            if let Some(transmit) = self.emit_echo(buf).or_else(|| self.emit_reply(buf)) {
                return Some(transmit);
            }
            if let Some(transmit) = self.emit_pending(now, buf) {
                return Some(transmit);
            }
            // The time since the last datagram is the sender's own delay, and not the fault of a member.
            self.watching.pulse.asked(now);
            if let Some(transmit) = self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten() {
                self.watching.pulse.handed(now);
                return Some(transmit);
            }
            // The machine may have made a step of the session possible, which may make a packet due.
            self.advance(now);
            if self.announcing.pending.is_empty() && self.answering.replies.is_empty() {
                return None;
            }
        }
    }

    fn report_states(&self, _now: Time, tell: &mut dyn FnMut(ObservedState)) {
        self.observe(tell);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.events.pop_notice()
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        Some(self)
    }

    fn held(&self) -> Option<u64> {
        self.hosted.machine.as_ref().and_then(|inner| inner.held())
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        if self.config.has_peers() { Some(self) } else { None }
    }
}
