//! Receiver's session as a machine: datagrams, timers, and packets to send.

use carillon_core::{
    BuildContext, Dest, DropReason, Event, Machine, Notice, ObservedState, Received, Receiver, Sender, Time,
    Timers, Transmit,
};
use carillon_wire::Envelope;
use carillon_wire::envelope::protocol;
use carillon_wire::session::State;

use super::outbox::Pending;
use super::state::Timer;
use super::{IGNORE_TIME, ReceiverFailure, ReceiverPhase, ReceiverSession};
use crate::secret;

impl ReceiverSession {
    /// Timers of the machines.
    fn timers(&self) -> [&Timers<Timer>; 8] {
        [
            &self.joining.timers,
            &self.assembling.timers,
            &self.reporting.timers,
            &self.liveness.claim.timers,
            &self.liveness.timers,
            &self.hosted.timers,
            &self.seeking.timers,
            &self.holdings.timers,
        ]
    }

    /// Takes the first timer of all machines that is due.
    fn expire(&mut self, now: Time) -> Option<Timer> {
        let all = [
            &mut self.joining.timers,
            &mut self.assembling.timers,
            &mut self.reporting.timers,
            &mut self.liveness.claim.timers,
            &mut self.liveness.timers,
            &mut self.hosted.timers,
            &mut self.seeking.timers,
            &mut self.holdings.timers,
        ];
        let armed = all.into_iter().filter_map(|timers| Some((timers.first()?, timers)));
        armed.min_by_key(|(first, _)| *first)?.1.expire(now)
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Join if self.is_welcomed() => {
                let state = self.invited.as_ref().map_or(State::Finished, |invited| invited.state);
                match self.joining.on_member_timer(now, state) {
                    Some(true) => self.outbox.schedule(Pending::Join),
                    Some(false) => self.outbox.cancel(&[Pending::Join]),
                    None => {}
                }
            }
            // The JOIN states the largest datagram that has arrived, so it waits for the sizes that are still to
            // come.
            Timer::Join if self.awaits_sizes() => self.joining.put_off(now),
            Timer::Join => {
                self.outbox.schedule(Pending::Join);
                if self.joining.knock() {
                    self.outbox.schedule(Pending::Knock);
                }
                self.joining.ask_again(now, self.random.answer_delay());
            }
            Timer::Present => {
                self.outbox.schedule(Pending::Present);
                self.assembling.present_again(now, self.random.answer_delay());
            }
            Timer::Ready => {
                self.outbox.schedule(Pending::Ready);
                // DISTANCES goes out with each READY, since nothing acknowledges it.
                self.assembling.probing.report_again();
                self.assembling.ready_again(now);
            }
            Timer::Probe => self.on_probe_timer(now),
            Timer::Progress => {
                self.outbox.schedule(Pending::Progress);
                self.reporting.on_progress_timer(now, &mut self.random);
            }
            Timer::Holdings => self.on_holdings_timer(now),
            Timer::Ask => self.on_query_timer(now),
            Timer::Early => self.feed_early(now),
            // Packets to the group arrive, but none with the nonce. They may be forged, so ask the sender itself.
            Timer::Confirm if self.liveness.on_unconfirmed(now) => self.outbox.schedule(Pending::Ask),
            Timer::Report => {
                self.outbox.schedule(Pending::Report);
                self.reporting.repeat(now);
            }
            // Verified data stay valid if the sender does not acknowledge the report.
            Timer::Silence | Timer::Confirm if self.reporting.is_verified() => {
                self.end(ReceiverPhase::Finished);
            }
            // The sender of a stream that is continued has said nothing for a while.
            Timer::Return if self.config.origin.continues.is_some() => match self.phase {
                ReceiverPhase::Seeking => {
                    let failure = self.config.returning.clone().unwrap_or(ReceiverFailure::SenderSilent);
                    self.end(ReceiverPhase::Failed(failure));
                }
                ReceiverPhase::Joining => self.seeking.await_return(now + self.config.silence),
                _ => {}
            },
            Timer::Return => {
                // The earlier failure stands unless a sender has invited the receiver or announced a catch-up
                // session.
                if let Some(failure) = self.config.returning.take()
                    && self.phase == ReceiverPhase::Seeking
                    && !self.seeking.later
                {
                    self.end(ReceiverPhase::Failed(failure));
                }
            }
            // A session without data may be forged, so another one gets its turn.
            Timer::Silence if self.config.silent && !self.hosted.delivered && self.is_busy() => {
                self.unfollow(now + IGNORE_TIME);
            }
            // An unanswered invitation may be forged, so it is no failure.
            Timer::Silence if !self.is_welcomed() && self.is_busy() => self.ignore_unresponsive(now),
            Timer::Silence | Timer::Confirm => self.fail(ReceiverFailure::SenderSilent),
        }
    }
}

impl Machine for ReceiverSession {
    fn start(&mut self, now: Time) {
        // An expelled receiver has this long to be invited to a catch-up session.
        if self.config.returning.is_some() {
            self.seeking.await_return(now + self.config.silence);
        }
    }

    fn handle_datagram(&mut self, now: Time, datagram: Received<'_>) {
        // This release cannot parse packets of other wire versions, so they are recognised first.
        if self.on_other_release(now, &datagram) {
            return;
        }
        let envelope = Envelope::parse(datagram.bytes).map(|(envelope, _)| envelope);
        if envelope.is_ok_and(|envelope| envelope.protocol == protocol::SESSION) {
            return self.on_session_packet(now, datagram);
        }
        // A packet of a session that this receiver is not in may have data for the catch-up session.
        if let Ok(envelope) = envelope
            && self.overhear(now, envelope.association, &datagram)
        {
            return;
        }
        let Some(invited) = &self.invited else {
            return self.events.dropped(DropReason::Foreign);
        };
        if datagram.bytes.len() > BuildContext::max_datagram_len(invited.max_payload) {
            // Machines count memory in datagrams, so none may be longer than announced.
            return self.events.dropped(DropReason::Malformed);
        }
        let from_sender = datagram.source == invited.sender;
        // A packet without the common envelope is recognised by the protocol's own header.
        let of_session = envelope.map_or(true, |envelope| envelope.association == invited.association);
        let (welcomed, relays) = (invited.member.is_some(), invited.relays);
        if !of_session {
            return self.events.dropped(DropReason::Foreign);
        }
        if !from_sender && !self.assembling.peers.as_ref().is_some_and(|peers| peers.has(datagram.source)) {
            // A router may forward requests to this receiver. The protocol checks their origin.
            let heard =
                (welcomed && relays).then(|| self.with_inner(|inner| inner.handle_datagram(now, datagram)));
            if heard.flatten().is_none() {
                self.events.dropped(DropReason::NotAMember);
            }
            return;
        }
        // Data of the sender contradict an announced end, which a stranger may have forged.
        if from_sender {
            self.liveness.claim.contradict();
        }
        // Before WELCOME the timer measures the time without an answer, so data do not restart it.
        if from_sender && welcomed {
            self.on_sender_heard(now);
        }
        let assembling = self.phase == ReceiverPhase::Assembling;
        if assembling {
            // A peer that sends data was told that all members are ready.
            self.verify_state(now, State::Running, "");
        }
        // The machine gets datagrams in the order of their arrival, so new ones queue behind the kept ones.
        if !welcomed || assembling || !self.hosted.early.is_empty() {
            if !self.hosted.early.keep(&datagram) {
                self.events.dropped(DropReason::BufferFull);
            }
        } else if !self.feed(now, datagram) {
            self.events.dropped(DropReason::Foreign);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        // A suspension makes all timers late, so this check comes before they fire.
        self.liveness.note_suspension(now);
        while let Some(timer) = self.expire(now) {
            self.on_timer(now, timer);
        }
        if self.is_welcomed() {
            self.with_inner(|inner| inner.handle_timeout(now));
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let inner = self.hosted.machine.as_ref().filter(|_| self.is_welcomed());
        let inner = inner.and_then(|inner| inner.poll_timeout());
        self.timers().iter().filter_map(|timers| timers.next()).chain(inner).min()
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.config.silent {
            return self.stay_silent(now, buf);
        }
        // Distance probes first: waiting here would lengthen the measured time.
        if let Some(transmit) = self.due_probing(now, buf).or_else(|| self.due_packet(buf)) {
            return Some(transmit);
        }
        // No packet of the protocol goes out before the sender has admitted this receiver.
        let invited = self.invited.as_ref().filter(|invited| invited.member.is_some())?;
        let (association, sender, relays) = (invited.association, invited.sender, invited.relays);
        loop {
            let transmit = self.with_inner(|inner| inner.poll_transmit(now, buf)).flatten()?;
            if !self.hosted.budget.spend(buf.len()) {
                // Treat the packet as lost.
                self.events.dropped(DropReason::BufferFull);
                buf.clear();
                continue;
            }
            // Routers read the packets that pass them, so the token must not replace the association.
            if transmit.dest == Dest::Node(sender) && !relays {
                secret::seal(association, self.random.token, buf);
            }
            return Some(transmit);
        }
    }

    fn report_states(&self, _now: Time, tell: &mut dyn FnMut(ObservedState)) {
        self.observe().for_each(tell);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.events.pop_notice()
    }

    fn as_receiver(&mut self) -> Option<&mut dyn Receiver> {
        Some(self)
    }

    fn as_sender(&mut self) -> Option<&mut dyn Sender> {
        if self.config.part.offers() { Some(self) } else { None }
    }
}
