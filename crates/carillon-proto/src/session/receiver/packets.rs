//! The packets of a receiving session: what comes in, and what goes out.

use carillon_core::{
    AssociationId, BuildContext, Config, Dest, DropReason, Identities, NodeId, Role, Time, Transmit,
};
use carillon_wire::Envelope;
use carillon_wire::session::{Body, Invite, Name, Packet, RefuseReason, State, Text};

use super::peers::{Peers, one_sender};
use super::{
    Decline, Invited, JOIN_WAIT_MAX, JOIN_WAIT_MIN, ReceiverFailure, ReceiverPhase, ReceiverSession, Timer,
};
use crate::session::unserved::LATE;
use crate::session::{LOCAL_NODE, ReceiverSessionConfig};

impl ReceiverSession {
    /// A packet of a session, this one or another.
    pub(super) fn on_session_packet(&mut self, now: Time, source: NodeId, bytes: &[u8]) {
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(_) => return self.events.dropped(DropReason::Malformed),
        };
        let Some(invited) = &self.invited else {
            return match packet.body {
                Body::Invite(invite) => {
                    self.on_invitation(now, source, packet.association, &invite, bytes.len());
                }
                _ => self.events.dropped(DropReason::Foreign),
            };
        };
        if packet.association != invited.association {
            return self.events.dropped(DropReason::Foreign);
        }
        if let (Body::Present { identity }, Some(_)) = (packet.body, &self.peers) {
            return self.on_present(now, source, identity);
        }
        if source != invited.sender {
            return self.events.dropped(DropReason::NotAMember);
        }
        match packet.body {
            Body::Invite(invite) => {
                self.heard(now);
                self.on_heartbeat(now, &invite);
            }
            Body::Welcome { nonce, .. } | Body::Refuse { nonce, .. } | Body::ReportAck { nonce }
                if nonce != self.nonce =>
            {
                self.events.dropped(DropReason::NotAMember);
            }
            Body::Welcome { member, .. } => {
                self.heard(now);
                self.on_welcome(now, member);
            }
            Body::Refuse { reason, text, .. } => {
                self.heard(now);
                self.on_refuse(reason, &text);
            }
            Body::ReportAck { .. } if self.verdict.is_some() && !self.acknowledged => {
                // Perhaps after the sender's farewell, which ended the reporting too.
                self.acknowledged = true;
                if self.phase == ReceiverPhase::Reporting {
                    self.end(ReceiverPhase::Finished);
                }
            }
            Body::ReportAck { .. } => self.events.dropped(DropReason::Duplicate),
            Body::Roster(page) => {
                self.heard(now);
                self.on_roster(now, &page);
            }
            Body::Join { .. }
            | Body::Progress { .. }
            | Body::Report { .. }
            | Body::Leave { .. }
            | Body::Present { .. }
            | Body::Ready { .. }
            | Body::Decline { .. } => self.events.dropped(DropReason::NotAMember),
        }
    }

    /// An invitation while it belongs to no session.
    fn on_invitation(
        &mut self,
        now: Time,
        source: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
        len: usize,
    ) {
        if self.phase != ReceiverPhase::Seeking || self.ignored.contains(&association) {
            return self.events.dropped(DropReason::Foreign);
        }
        match invite.state {
            State::Gathering => {}
            State::Running | State::Assembling | State::Closing => {
                self.decline(association, source, LATE, len);
                self.ignore(association);
                if invite.state != State::Closing && !self.config.keep_seeking {
                    self.fail(ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new()));
                }
                // As good as over: the next one may be for this receiver.
                return self.events.dropped(DropReason::Foreign);
            }
            State::Finished | State::Aborted => return self.events.dropped(DropReason::Foreign),
        }
        let name = invite.sender.to_string();
        self.invited = Some(Invited {
            association,
            sender: source,
            name,
            state: invite.state,
            member: None,
            max_payload: invite.max_payload,
            header_bytes: 0,
            has_relays: false,
        });
        if let Err(reason) = self.accept(source, association, invite) {
            self.decline(association, source, &reason, len);
            return self.fail(ReceiverFailure::BadInvitation(reason));
        }
        self.set_phase(ReceiverPhase::Joining);
        self.join_wait = JOIN_WAIT_MIN;
        let delay = self.spread();
        self.timers.arm(Timer::Join, now + delay);
        self.timers.arm(Timer::Silence, now + self.config.silence);
    }

    /// Tells a sender that its invitation, of so many bytes, is not accepted. Nobody confirms that, so
    /// it is said more than once, but in no more than three times the bytes of the invitation.
    fn decline(&mut self, association: AssociationId, sender: NodeId, text: &str, len: usize) {
        let text = Text::clean(text);
        let one = Envelope::LEN + 2 + self.config.name.len() + text.len();
        let left = (len * DECLINES / one).min(DECLINES);
        self.decline_due = (left > 0).then_some(Decline { association, sender, text, left });
    }

    /// Builds the protocol's receiver; of peers only tries to, as long as they are not known.
    fn accept(
        &mut self,
        sender: NodeId,
        association: AssociationId,
        invite: &Invite<'_>,
    ) -> Result<(), String> {
        let Some(entry) = self.config.protocols.iter().find(|entry| entry.name == &*invite.protocol) else {
            return Err(format!("this receiver does not know the protocol \"{}\"", invite.protocol));
        };
        if invite.max_payload > self.config.max_datagram {
            let (payload, max) = (invite.max_payload, self.config.max_datagram);
            return Err(format!(
                "the receiver's interface takes datagrams of {max} bytes, not {payload}: send with --datagram {max}"
            ));
        }
        if invite.max_payload > self.config.receive_buffer {
            let (max, buffer) = (invite.max_payload, self.config.receive_buffer);
            return Err(format!("messages of {max} bytes do not fit the receive buffer of {buffer} bytes"));
        }
        let mut config = Config::defaults(entry.parameters);
        for (key, value) in invite.settings.pairs() {
            config.set(entry.parameters, key, value).map_err(|error| error.to_string())?;
        }
        let context = BuildContext {
            association,
            node: LOCAL_NODE,
            sender,
            members: [].into(),
            identities: Identities::agreed(self.nonce.0, [].into()),
            addresses: self.config.addresses.clone(),
            group: self.config.group,
            seeds: self.seeds.clone(),
            bit_rate: self.config.bit_rate,
            link_overhead: self.config.link_overhead,
            max_payload: invite.max_payload,
            memory: usize::MAX,
            rejoining: false,
        };
        if entry.roles.contains(&Role::Peer) {
            let peers = Peers::new(entry, config, context);
            let header_bytes = peers.check()?;
            if let Some(invited) = &mut self.invited {
                invited.header_bytes = header_bytes;
            }
            self.peers = Some(Box::new(peers));
            return Ok(());
        }
        if let Some(invited) = &mut self.invited {
            invited.has_relays = entry.roles.contains(&Role::Relay);
        }
        if self.config.offers {
            return Err(one_sender(entry.name, self.config.protocols));
        }
        let mut machine =
            (entry.build)(Role::Receiver, &context, &config).map_err(|error| error.to_string())?;
        if machine.as_receiver().is_none() {
            return Err(format!("the protocol \"{}\" has no receiver", entry.name));
        }
        self.inner = Some(machine);
        Ok(())
    }

    /// An invitation of the session it belongs to.
    fn on_heartbeat(&mut self, now: Time, invite: &Invite<'_>) {
        let Some(invited) = &mut self.invited else { return };
        // An older heartbeat overtaken by a newer one tells nothing.
        if invite.state < invited.state {
            return;
        }
        invited.state = invite.state;
        let member = invited.member.is_some();
        if member && invite.state > State::Gathering {
            self.timers.cancel(Timer::Join);
            self.join_due = false;
        }
        let busy = self.is_busy();
        let reporting = self.phase == ReceiverPhase::Reporting;
        if member && matches!(invite.state, State::Running | State::Closing) {
            self.start(now);
            if self.phase == ReceiverPhase::Assembling {
                // All who take part are ready.
                return self.fail(ReceiverFailure::Expelled);
            }
        }
        match invite.state {
            State::Assembling => self.begin_presence(now),
            // Each shows that it lives: it may be waited for.
            State::Running | State::Closing if busy => {
                self.show_life(now, invite.progress_interval);
            }
            // The sender asks no more; what the application reported stands.
            State::Finished | State::Aborted if reporting => self.end(ReceiverPhase::Finished),
            State::Finished if busy && member => self.fail(ReceiverFailure::Expelled),
            State::Finished if busy => {
                self.fail(ReceiverFailure::Refused(RefuseReason::AlreadyStarted, String::new()));
            }
            State::Aborted if busy => self.fail(ReceiverFailure::Aborted(invite.reason.to_string())),
            State::Gathering | State::Running | State::Closing | State::Finished | State::Aborted => {}
        }
    }

    pub(super) fn on_welcome(&mut self, now: Time, number: u32) {
        let Some(invited) = &mut self.invited else { return };
        if self.timers.armed(Timer::Join).is_none() {
            return self.events.dropped(DropReason::Duplicate);
        }
        invited.member = Some(number);
        if invited.state == State::Gathering {
            // A sign of life now and then, so that the sender does not start without it.
            self.timers.arm(Timer::Join, now + JOIN_WAIT_MAX);
        } else {
            self.timers.cancel(Timer::Join);
        }
        self.join_due = false;
        if self.phase == ReceiverPhase::Joining {
            match self.peers {
                Some(_) => {
                    self.set_phase(ReceiverPhase::Assembling);
                    self.begin_presence(now);
                    self.get_ready(now);
                }
                None => self.set_phase(ReceiverPhase::Running),
            }
        }
    }

    fn on_refuse(&mut self, reason: RefuseReason, text: &str) {
        let member = self.invited.as_ref().is_some_and(|invited| invited.member.is_some());
        match self.phase {
            ReceiverPhase::Joining | ReceiverPhase::Assembling | ReceiverPhase::Running => {}
            // It has everything, but for the sender it was never there.
            ReceiverPhase::Reporting if !member && reason != RefuseReason::Expelled => {}
            // The sender takes a report even from those it gave up.
            _ => return self.events.dropped(DropReason::Duplicate),
        }
        self.fail(match reason {
            RefuseReason::Expelled => ReceiverFailure::Expelled,
            reason => ReceiverFailure::Refused(reason, text.to_owned()),
        });
    }

    /// The next packet of its own, if one is due.
    pub(super) fn due_packet(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(decline) = &mut self.decline_due
            && let (Some(name), Some(text)) = (Name::new(&self.config.name), Text::new(&decline.text))
        {
            decline.left -= 1;
            let dest = Dest::Node(decline.sender);
            let body = Body::Decline { name, text };
            Packet { association: decline.association, body }.emit(buf);
            self.decline_due.take_if(|decline| decline.left == 0);
            return Some(Transmit::now(dest));
        }
        let invited = self.invited.as_ref()?;
        let nonce = self.nonce;
        let body = if self.join_due {
            self.join_due = false;
            let name = Name::new(&self.config.name).expect("the name was cleaned when the session was made");
            let ReceiverSessionConfig { receive_buffer, offers, .. } = self.config;
            Body::Join { nonce, receive_buffer, offers, name }
        } else if self.present_due {
            self.present_due = false;
            let body = Body::Present { identity: nonce };
            Packet { association: invited.association, body }.emit(buf);
            return Some(Transmit::now(Dest::group(self.config.group)));
        } else if self.ready_due {
            self.ready_due = false;
            Body::Ready { nonce, edition: self.peers.as_ref().map_or(0, |peers| peers.edition()) }
        } else if self.report_due {
            self.report_due = false;
            let failure = self.verdict.as_ref().and_then(|verdict| verdict.as_ref().err());
            // The text was cleaned when the application reported.
            let text = failure.and_then(|reason| Text::new(reason)).unwrap_or_default();
            Body::Report { nonce, bytes: self.bytes, verified: failure.is_none(), text }
        } else if self.progress_due {
            self.progress_due = false;
            if self.verdict.is_some() {
                return None;
            }
            Body::Progress { nonce, bytes: self.bytes }
        } else if let Some(reason) = &self.leave_due {
            let text = Text::new(reason).unwrap_or_default();
            let body = Body::Leave { nonce, text };
            Packet { association: invited.association, body }.emit(buf);
            let dest = Dest::Node(invited.sender);
            self.leave_due = None;
            return Some(Transmit::now(dest));
        } else {
            return None;
        };
        Packet { association: invited.association, body }.emit(buf);
        Some(Transmit::now(Dest::Node(invited.sender)))
    }
}

/// How often a sender is told that its invitation is not accepted.
const DECLINES: usize = 3;
